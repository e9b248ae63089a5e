// From an Input to a tensor on a device, and from a tensor back to doubles.
#pragma once

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// The same elements twice: as doubles for the reference, and in the input's layout on the device.
struct Made {
  HostTensor host;
  Tensor tensor;
};

Made make(const Input& input, DType dtype, Device device, uint64_t seed);

/// A dense tensor of these values.
Tensor upload(const HostTensor& host, Device device);

/// All elements of a tensor of any dtype, layout and device.
HostTensor download(const Tensor& tensor);
/// The same as they are stored, row-major.
std::vector<std::byte> element_bytes(const Tensor& tensor);
/// Every byte of a tensor's storage: its elements and what lies between them.
std::vector<std::byte> storage_bytes(const Tensor& tensor);

/// Calls visit(index, position) for every index of `shape` in row-major order, with position = Σ index[i]·strides[i].
template <class Visit>
void for_each_index(const Shape& shape, const Shape& strides, Visit visit) {
  if (shape.numel() == 0) return;
  Shape index = Shape::filled(shape.rank(), 0);
  int64_t position = 0;
  while (true) {
    visit(static_cast<const Shape&>(index), position);
    int axis = shape.rank() - 1;
    while (axis >= 0 && index[axis] + 1 == shape[axis]) {
      position -= strides[axis] * index[axis];
      index[axis--] = 0;
    }
    if (axis < 0) return;
    ++index[axis];
    position += strides[axis];
  }
}

}  // namespace ashlar::conformance
