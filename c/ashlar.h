/* Ashlar's C interface: devices, streams, tensors, and every operator by its name. C99.
 *
 * Functions that can fail return an AshlarStatus; what went wrong says ashlar_last_error(). Results are written through
 * the last pointers, and only on success. Handles may be used from any thread, one at a time. Texts and arrays that
 * functions return belong to the library and live as long as the handle that was asked, or for ever.
 *
 * Devices are named by texts: "cpu", "opencl", "cuda:1". Element types too: "f32", "f16", "bf16", "f64", "i32", "i64",
 * "u8", "bool", and whatever others operators name. Sizes and strides count elements, outermost dimension first. */
#ifndef ASHLAR_H
#define ASHLAR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ASHLAR_API __attribute__((visibility("default")))
#else
#define ASHLAR_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A view of elements on a device; several may share memory. */
typedef struct AshlarTensor AshlarTensor;
/* A queue of work on one device. Work on one stream runs in order. */
typedef struct AshlarStream AshlarStream;
/* DLPack's, from <dlpack/dlpack.h>. */
struct DLManagedTensor;

typedef enum AshlarStatus {
  ASHLAR_OK = 0,
  ASHLAR_SHAPE_ERROR,    /* sizes or ranks that don't fit */
  ASHLAR_DTYPE_ERROR,    /* element types that don't fit */
  ASHLAR_DEVICE_ERROR,   /* mixed devices, or one that isn't there */
  ASHLAR_INDEX_ERROR,    /* an axis or index out of range */
  ASHLAR_VALUE_ERROR,    /* any other argument out of its domain */
  ASHLAR_OUT_OF_MEMORY,  /* of the device or the host */
  ASHLAR_MISSING_KERNEL, /* nothing compiled for this element type and device */
  ASHLAR_DRIVER_ERROR,   /* a call of the device's driver failed */
  ASHLAR_KERNEL_ERROR,   /* a compiled kernel refused its arguments */
  ASHLAR_GRAPH_ERROR,    /* what a graph can't hold */
  ASHLAR_AUTOGRAD_ERROR, /* a gradient that there isn't */
  ASHLAR_DATA_ERROR,     /* a file that isn't what it claims */
  ASHLAR_OTHER_ERROR
} AshlarStatus;

/* What the last failing call of this thread said: what came, what was needed, and a remedy. "" before the first. */
ASHLAR_API const char* ashlar_last_error(void);

/* "0.1.0" */
ASHLAR_API const char* ashlar_version(void);

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* How many devices there are now, the CPU first. A missing driver means fewer devices, never an error. */
ASHLAR_API size_t ashlar_device_count(void);
/* "cpu", "opencl:0", "cuda:0"; NULL from ashlar_device_count() on. */
ASHLAR_API const char* ashlar_device_name(size_t index);

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* A new stream on a device. */
ASHLAR_API AshlarStatus ashlar_stream_create(const char* device, AshlarStream** stream);
/* A stream of the caller's own: a CUstream or cudaStream_t (NULL is CUDA's default stream) of the device's primary
 * context, which is what the CUDA runtime and PyTorch use. It must live as long as the handle and all tensors made
 * while it was current. */
ASHLAR_API AshlarStatus ashlar_stream_from_cuda(void* cuda_stream, const char* device, AshlarStream** stream);
/* The calling thread's current stream on a device; every thread starts with one of its own. */
ASHLAR_API AshlarStatus ashlar_stream_current(const char* device, AshlarStream** stream);
/* From now on the calling thread's work on the stream's device goes there. */
ASHLAR_API AshlarStatus ashlar_stream_make_current(const AshlarStream* stream);
/* Work that is submitted to `stream` from now on waits for all that has been submitted to `other`. */
ASHLAR_API AshlarStatus ashlar_stream_wait(const AshlarStream* stream, const AshlarStream* other);
/* Waits until all work submitted so far is done. */
ASHLAR_API AshlarStatus ashlar_stream_synchronize(const AshlarStream* stream);
/* Drops the handle; work that was submitted is done. NULL is nothing. */
ASHLAR_API void ashlar_stream_free(AshlarStream* stream);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* A dense tensor with elements of no particular value. */
ASHLAR_API AshlarStatus ashlar_tensor_create(const char* dtype, size_t rank, const int64_t* shape, const char* device,
                                             AshlarTensor** tensor);
/* A view of memory that stays the caller's: on the CPU, or a CUDA device's address. `data` is the address of element
 * [0, ..., 0]; NULL as `strides` is dense, negative ones are allowed. The memory must live until the last tensor that
 * shares it is freed and, on CUDA, the streams that used it have done their work. Nothing is copied. */
ASHLAR_API AshlarStatus ashlar_tensor_borrow(void* data, const char* dtype, size_t rank, const int64_t* shape,
                                             const int64_t* strides, const char* device, AshlarTensor** tensor);
/* Another view of the same memory, checked to lie inside it; `offset` counts from the tensor's element [0, ..., 0]. */
ASHLAR_API AshlarStatus ashlar_tensor_view(const AshlarTensor* tensor, size_t rank, const int64_t* shape,
                                           const int64_t* strides, int64_t offset, AshlarTensor** view);
/* Converted to an element type and copied to a device, where these aren't NULL. Shares memory where nothing changes. */
ASHLAR_API AshlarStatus ashlar_tensor_to(const AshlarTensor* tensor, const char* dtype, const char* device,
                                         AshlarTensor** converted);
/* Overwrites all elements from dense row-major memory of exactly `bytes`; it may be reused at return. */
ASHLAR_API AshlarStatus ashlar_tensor_write(const AshlarTensor* tensor, const void* data, size_t bytes);
/* Writes all elements to dense row-major memory of exactly `bytes`, after the work that makes them. */
ASHLAR_API AshlarStatus ashlar_tensor_read(const AshlarTensor* tensor, void* data, size_t bytes);

/* How many axes it has. Of this and the next four the answers live as long as the handle. */
ASHLAR_API size_t ashlar_tensor_rank(const AshlarTensor* tensor);
/* The number of elements along each axis. */
ASHLAR_API const int64_t* ashlar_tensor_shape(const AshlarTensor* tensor);
/* How far apart, in elements, neighbours along each axis lie; 0 and negative numbers are possible. */
ASHLAR_API const int64_t* ashlar_tensor_strides(const AshlarTensor* tensor);
/* "f32", "bf16", "i64", "bool", ... */
ASHLAR_API const char* ashlar_tensor_dtype(const AshlarTensor* tensor);
/* "cpu", "cuda:1", ..., as ashlar_tensor_create takes it. */
ASHLAR_API const char* ashlar_tensor_device(const AshlarTensor* tensor);
/* The address of element [0, ..., 0] on the CPU or a CUDA device; NULL on OpenCL, whose memory has none. */
ASHLAR_API void* ashlar_tensor_data(const AshlarTensor* tensor);
/* Drops the handle; the memory goes with the last one that shares it. NULL is nothing. */
ASHLAR_API void ashlar_tensor_free(AshlarTensor* tensor);

/* A tensor on memory that came through DLPack (CPU, CUDA), without a copy. On success the library calls `managed`'s
 * deleter once the last tensor that shares the memory is freed and the work that used it is done; on failure it stays
 * the caller's. What fills the memory must be done, or have been submitted to the calling thread's current stream. */
ASHLAR_API AshlarStatus ashlar_tensor_from_dlpack(struct DLManagedTensor* managed, AshlarTensor** tensor);
/* The same memory for others (on OpenCL a cl_mem and byte_offset), without a copy; it lives until they call the
 * deleter, whatever becomes of `tensor`. Work that fills it has been submitted to the stream that was current, no more:
 * use it on that stream, or after ashlar_stream_synchronize(). */
ASHLAR_API AshlarStatus ashlar_tensor_to_dlpack(const AshlarTensor* tensor, struct DLManagedTensor** managed);

/* ---- operators --------------------------------------------------------------------------------------------------- */

/* What an operator is called with beside its inputs, by name: its numbers, its options, the values that it chooses
 * from, and inputs that it can do without. ashlar_operator_describe() lists them. */
typedef enum AshlarOptionKind {
  ASHLAR_INTEGER,  /* `integer`; truth values are 0 and 1 */
  ASHLAR_REAL,     /* `real` */
  ASHLAR_TEXT,     /* `text`: one of the option's choices; a device; an element type */
  ASHLAR_INTEGERS, /* `count` numbers at `integers`: axes */
  ASHLAR_TENSOR    /* `tensor` */
} AshlarOptionKind;

typedef struct AshlarOption {
  const char* name;
  AshlarOptionKind kind;
  int64_t integer;
  double real;
  const char* text;
  const int64_t* integers;
  size_t count;
  const AshlarTensor* tensor;
} AshlarOption;

/* How many operators there are, and the name of each; NULL from ashlar_operator_count() on. */
ASHLAR_API size_t ashlar_operator_count(void);
ASHLAR_API const char* ashlar_operator_name(size_t index);
/* An operator as JSON: "name", "formula", "inputs" (with "dtype" where it is fixed, or "any" where it may be another
 * than the others', and "optional" where it may be left out), "scalars" (with "kind", and "default" where it may be
 * left out), "options" (with "kind", "default" and "choices"), "outputs". The text lives for ever. */
ASHLAR_API AshlarStatus ashlar_operator_describe(const char* name, const char** json);

/* Calls an operator on the current stream of its inputs' device. `inputs` stand in the order of its description; those
 * at the end that are optional may be missing or NULL, and so may numbers and options that have defaults. Writes
 * handles to its outputs, to be freed, to outputs[0 .. *output_count); `capacity` is how many there is room for. An
 * output that overwrites an input is a handle to that input's memory. */
ASHLAR_API AshlarStatus ashlar_call(const char* name, const AshlarTensor* const* inputs, size_t input_count,
                                    const AshlarOption* options, size_t option_count, AshlarTensor** outputs,
                                    size_t capacity, size_t* output_count);

/* The gradients of a call with the same arguments: `output_gradients` are dL/d(output) for each of its outputs, NULL
 * where the output doesn't matter. Writes one handle for each input to gradients[0 .. input_count), dL/d(input), to be
 * freed; NULL where the input isn't of floating point, was missing, or its entry in `wanted` is 0 (NULL as `wanted`
 * wants all). The operator itself is computed again. */
ASHLAR_API AshlarStatus ashlar_gradients(const char* name, const AshlarTensor* const* inputs, size_t input_count,
                                         const AshlarOption* options, size_t option_count,
                                         const AshlarTensor* const* output_gradients, size_t output_count,
                                         const int* wanted, AshlarTensor** gradients);

#ifdef __cplusplus
}
#endif

#endif
