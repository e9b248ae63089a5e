// Tensors from and for other libraries, by DLPack: https://dmlc.github.io/dlpack/latest/c_api.html
#include <dlpack/dlpack.h>

#include <memory>
#include <vector>

#include "c/handles.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"

using namespace ashlar;

namespace {

// Of later versions of DLPack than the header's.
constexpr int kCudaManaged = 13;
constexpr uint8_t kBool = 6;

/// Names say what a type is: "f32", "bf16", "bool", "i64", "u8".
uint8_t code_of(DType dtype) {
  const std::string_view name = name_of(dtype);
  if (name == "bool") return kBool;
  if (name.starts_with("bf")) return kDLBfloat;
  return name[0] == 'f' ? kDLFloat : name[0] == 'u' ? kDLUInt : kDLInt;
}

DLDataType type_of(DType dtype) { return {code_of(dtype), static_cast<uint8_t>(8 * size_of(dtype)), 1}; }

DType dtype_from(const DLDataType& type) {
  for (int i = 0; i < kDTypes; i++) {
    const DLDataType one = type_of(static_cast<DType>(i));
    if (one.code == type.code && one.bits == type.bits && type.lanes == 1) return static_cast<DType>(i);
  }
  throw DTypeError("ashlar_tensor_from_dlpack",
                   "type code " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits and " +
                       std::to_string(type.lanes) + " lanes",
                   "an element type of Ashlar's", "Convert it first");
}

Device device_of(const DLDevice& device) {
  switch (static_cast<int>(device.device_type)) {
    case kDLCPU:
    case kDLCUDAHost:
      return Device::cpu();
    case kDLCUDA:
    case kCudaManaged:
      return Device::cuda(device.device_id);
    default:
      throw DeviceError("ashlar_tensor_from_dlpack", "device type " + std::to_string(device.device_type),
                        "memory of the CPU or of a CUDA device", "Copy it there first");
  }
}

DLDevice device_for(Device device) {
  switch (device.kind) {
    case DeviceKind::cuda:
      return {kDLCUDA, device.index};
    case DeviceKind::opencl:
      return {kDLOpenCL, device.index};
    case DeviceKind::cpu:
      break;
  }
  return {kDLCPU, 0};
}

/// What others hold of a tensor.
struct Exported {
  Tensor tensor;
  DLManagedTensor managed{};
};

}  // namespace

AshlarStatus ashlar_tensor_from_dlpack(DLManagedTensor* managed, AshlarTensor** tensor) {
  constexpr const char* kName = "ashlar_tensor_from_dlpack";
  return c::guarded([&] {
    c::check_given(kName, "managed", managed);
    c::check_given(kName, "tensor", tensor);
    const DLTensor& from = managed->dl_tensor;
    const Shape shape = c::shape_of(kName, static_cast<size_t>(from.ndim), from.shape);
    const Shape strides =
        from.strides ? c::shape_of(kName, static_cast<size_t>(from.ndim), from.strides) : dense_strides(shape);
    void* first = from.data ? static_cast<char*>(from.data) + from.byte_offset : nullptr;
    // The deleter is the library's to call only if nothing here throws.
    const auto is_ours = std::make_shared<bool>(false);
    const auto release = [managed, is_ours] {
      if (*is_ours && managed->deleter) managed->deleter(managed);
    };
    std::unique_ptr<AshlarTensor> handle(c::handle_of(
        c::borrowed(kName, first, dtype_from(from.dtype), shape, strides, device_of(from.device), release)));
    *is_ours = true;
    if (!handle->tensor.storage()->is_borrowed()) release();  // without elements nothing of it is kept
    *tensor = handle.release();
  });
}

AshlarStatus ashlar_tensor_to_dlpack(const AshlarTensor* tensor, DLManagedTensor** managed) {
  constexpr const char* kName = "ashlar_tensor_to_dlpack";
  return c::guarded([&] {
    c::check_given(kName, "tensor", tensor);
    c::check_given(kName, "managed", managed);
    auto exported = std::make_unique<Exported>();
    exported->tensor = tensor->tensor;
    const Tensor& x = exported->tensor;
    DLTensor& to = exported->managed.dl_tensor;
    const int64_t bytes_before = x.offset() * size_of(x.dtype());
    const bool has_address = x.device().kind != DeviceKind::opencl;
    to.data = reinterpret_cast<void*>(x.storage()->handle() + static_cast<uint64_t>(has_address ? bytes_before : 0));
    to.byte_offset = static_cast<uint64_t>(has_address ? 0 : bytes_before);
    to.device = device_for(x.device());
    to.ndim = x.rank();
    to.dtype = type_of(x.dtype());
    to.shape = const_cast<int64_t*>(x.shape().begin());
    to.strides = const_cast<int64_t*>(x.strides().begin());
    exported->managed.manager_ctx = exported.get();
    exported->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); };
    *managed = &exported.release()->managed;
  });
}
