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

/// An input's elements, drawn once for as many tensors as are wanted.
struct Drawn {
  HostTensor host;
  Placement placement;
  bool is_dense = false;          ///< the whole of its storage, in order
  std::vector<std::byte> stored;  ///< all that lies in the storage, in host.dtype

  Tensor tensor(Device device) const;
};

Drawn drawn(const Input& input, DType dtype, uint64_t seed);

/// A case in one element type. Its inputs are drawn at first use, by the seed that its name gives.
class DrawnCase {
 public:
  /// `item` must live as long.
  DrawnCase(const Case& item, DType dtype) : item_(item), dtype_(dtype) {}

  const Case& item() const { return item_; }
  DType dtype() const { return dtype_; }
  uint64_t seed() const { return seed_of(item_.kernel + "/" + item_.name); }
  const std::vector<Drawn>& inputs();
  std::vector<HostTensor> hosts();
  std::vector<Tensor> tensors(Device device);

 private:
  const Case& item_;
  DType dtype_;
  std::optional<std::vector<Drawn>> inputs_;
};

/// Tensors like a case's inputs, for a device that computes nothing. Each word in them is 1: memory that a computed
/// size is then read from (nonzero) holds whatever was there, and so a small one.
std::vector<Tensor> blank_tensors(const Case& item, DType dtype, Device device);

/// A dense tensor of these values.
Tensor upload(const HostTensor& host, Device device);

/// All elements of a tensor of any dtype, layout and device.
HostTensor download(const Tensor& tensor);
/// The same as they are stored, row-major.
std::vector<std::byte> element_bytes(const Tensor& tensor);
bool same_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b);
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
