"""Ashlar's C interface (c/ashlar.h) from Python, with nothing but ctypes: operators by name, on arrays of NumPy, PyTorch or
whoever else speaks DLPack, without copies.

    ashlar = Ashlar("build/lib/libashlar.so")
    y = ashlar.softmax(x, axis=-1)           # x: a numpy.ndarray, or a torch.Tensor on the CPU or a CUDA device
    dx, = ashlar.gradients("softmax", [x], [dy], axis=-1)
"""
import ctypes
import json
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p


class AshlarError(RuntimeError):
    pass


class Option(ctypes.Structure):
    """AshlarOption."""
    _fields_ = [("name", c_char_p), ("kind", c_int), ("integer", c_int64), ("real", c_double), ("text", c_char_p),
                ("integers", POINTER(c_int64)), ("count", c_size_t), ("tensor", c_void_p)]


INTEGER, REAL, TEXT, INTEGERS, TENSOR = range(5)  # AshlarOptionKind

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
_rename_capsule = ctypes.pythonapi.PyCapsule_SetName
_rename_capsule.restype, _rename_capsule.argtypes = c_int, [ctypes.py_object, c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]


class Tensor:
    """A handle. numpy.from_dlpack(tensor) and torch.from_dlpack(tensor) see its memory, without a copy."""

    def __init__(self, library, handle):
        self.library, self.handle = library, handle

    def __del__(self):
        self.library.c.ashlar_tensor_free(self.handle)

    @property
    def shape(self):
        sizes = self.library.c.ashlar_tensor_shape(self.handle)
        return tuple(sizes[:self.library.c.ashlar_tensor_rank(self.handle)])

    @property
    def address(self):
        return self.library.c.ashlar_tensor_data(self.handle)

    @property
    def device(self):
        return self.library.c.ashlar_tensor_device(self.handle).decode()

    def __dlpack__(self, **_):
        managed = c_void_p()
        self.library.check(self.library.c.ashlar_tensor_to_dlpack(self.handle, byref(managed)))
        return _new_capsule(managed, b"dltensor", None)

    def __dlpack_device__(self):
        kind, _, index = self.device.partition(":")
        return {"cpu": 1, "cuda": 2, "opencl": 4}[kind], int(index or 0)


class Ashlar:
    """Operators are methods: inputs by position, everything else by name."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name, result in (("last_error", c_char_p), ("version", c_char_p), ("device_count", c_size_t),
                             ("device_name", c_char_p), ("tensor_shape", POINTER(c_int64)), ("tensor_rank", c_size_t),
                             ("tensor_data", c_void_p), ("tensor_device", c_char_p), ("operator_count", c_size_t),
                             ("operator_name", c_char_p), ("tensor_free", None), ("stream_free", None)):
            getattr(self.c, "ashlar_" + name).restype = result
        for name in ("tensor_shape", "tensor_rank", "tensor_data", "tensor_device", "tensor_free", "stream_free"):
            getattr(self.c, "ashlar_" + name).argtypes = [c_void_p]
        for name in ("device_name", "operator_name"):
            getattr(self.c, "ashlar_" + name).argtypes = [c_size_t]
        self.operators = [self.c.ashlar_operator_name(i).decode() for i in range(self.c.ashlar_operator_count())]
        self.described = {}

    def check(self, status):
        if status != 0:
            raise AshlarError(self.c.ashlar_last_error().decode())

    def devices(self):
        return [self.c.ashlar_device_name(i).decode() for i in range(self.c.ashlar_device_count())]

    def describe(self, name):
        if name not in self.described:
            text = c_char_p()
            self.check(self.c.ashlar_operator_describe(name.encode(), byref(text)))
            self.described[name] = json.loads(text.value)
        return self.described[name]

    def tensor(self, array):
        """An array's memory as a tensor: no copy. The array is kept alive by it."""
        if array is None or isinstance(array, Tensor):
            return array
        capsule = array.__dlpack__()
        managed, handle = _capsule_pointer(capsule, b"dltensor"), c_void_p()
        self.check(self.c.ashlar_tensor_from_dlpack(c_void_p(managed), byref(handle)))
        _rename_capsule(capsule, b"used_dltensor")  # the deleter is the library's to call from now on
        return Tensor(self, handle)

    def use_torch_stream(self, torch):
        """From now on this thread's work goes to PyTorch's current CUDA stream."""
        stream = c_void_p()
        device = f"cuda:{torch.cuda.current_device()}".encode()
        native = c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.c.ashlar_stream_from_cuda(native, device, byref(stream)))
        self.check(self.c.ashlar_stream_make_current(stream))
        self.c.ashlar_stream_free(stream)

    def _options(self, values):
        """AshlarOptions, and what they point to."""
        options, kept = (Option * len(values))(), []
        for option, (name, value) in zip(options, values.items()):
            option.name = name.encode()
            if isinstance(value, (bool, int)):
                option.kind, option.integer = INTEGER, value
            elif isinstance(value, float):
                option.kind, option.real = REAL, value
            elif isinstance(value, str):
                option.kind, option.text = TEXT, value.encode()
            elif isinstance(value, (list, tuple)):
                numbers = (c_int64 * len(value))(*value)
                option.kind, option.integers, option.count = INTEGERS, numbers, len(value)
                kept.append(numbers)
            else:
                tensor = self.tensor(value)
                option.kind, option.tensor = TENSOR, tensor.handle
                kept.append(tensor)
        return options, kept

    @staticmethod
    def _handles(tensors):
        return (c_void_p * len(tensors))(*[t.handle if t is not None else None for t in tensors])

    def call(self, name, *inputs, **options):
        """A tensor, or a list of them where the operator has several outputs."""
        tensors = [self.tensor(x) for x in inputs]
        made, kept = self._options(options)
        outputs, count = (c_void_p * len(self.describe(name)["outputs"]))(), c_size_t()
        self.check(self.c.ashlar_call(name.encode(), self._handles(tensors), c_size_t(len(tensors)), made,
                                      c_size_t(len(made)), outputs, c_size_t(len(outputs)), byref(count)))
        results = [Tensor(self, c_void_p(handle)) for handle in outputs[:count.value]]
        return results[0] if len(results) == 1 else results

    def gradients(self, name, inputs, output_gradients, **options):
        """dL/d(input) for each input, None where there's none."""
        tensors, upstream = [self.tensor(x) for x in inputs], [self.tensor(dy) for dy in output_gradients]
        made, kept = self._options(options)
        results = (c_void_p * len(tensors))()
        self.check(self.c.ashlar_gradients(name.encode(), self._handles(tensors), c_size_t(len(tensors)), made,
                                           c_size_t(len(made)), self._handles(upstream), c_size_t(len(upstream)), None,
                                           results))
        return [Tensor(self, c_void_p(handle)) if handle else None for handle in results]

    def __getattr__(self, name):
        if name.startswith("_") or name not in self.__dict__.get("operators", ()):
            raise AttributeError(name)
        return lambda *inputs, **options: self.call(name, *inputs, **options)
