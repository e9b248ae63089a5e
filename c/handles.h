// What the handles of ashlar.h are, and how exceptions become statuses.
#pragma once

#include <functional>
#include <string>

#include "c/ashlar.h"
#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

struct AshlarTensor {
  ashlar::Tensor tensor;
  std::string device;  ///< its name
};

struct AshlarStream {
  ashlar::Stream stream;
};

namespace ashlar::c {

/// Notes the exception that is being handled as the thread's last error.
AshlarStatus failure() noexcept;

/// Runs `body`; an exception becomes the status and the thread's last error.
template <class Body>
AshlarStatus guarded(Body body) noexcept {
  try {
    body();
    return ASHLAR_OK;
  } catch (...) {
    return failure();
  }
}

AshlarTensor* handle_of(Tensor tensor);

/// Throws ValueError where `pointer`, an argument called `name` of `operation`, is null.
void check_given(const char* operation, const char* name, const void* pointer);

/// Throws DTypeError on a name that no element type has.
DType parse_dtype(const char* operation, const char* name);
Device parse_device(const char* operation, const char* name);
/// Throws ShapeError beyond kMaxRank.
Shape shape_of(const char* operation, size_t rank, const int64_t* sizes);

/// A tensor on memory of somebody else's from the address of its element [0, …, 0] on; `release` is called when the
/// last tensor that shares it is gone. Throws ShapeError, ValueError, DeviceError.
Tensor borrowed(const char* operation, void* first, DType dtype, const Shape& shape, const Shape& strides,
                Device device, std::function<void()> release = {});

}  // namespace ashlar::c
