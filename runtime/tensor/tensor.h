// Tensor: a shaped, strided view of shared storage on one device.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/device/stream.h"
#include "runtime/memory/host_memory.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/number.h"
#include "runtime/tensor/shape.h"

namespace ashlar {

class Random;

namespace detail {
class Storage;
}

/// Rank up to kMaxRank, sizes in elements, row-major (outermost dimension first), at most kMostElements (launch.h) in
/// one kernel argument. Copying a Tensor copies the view, not the elements. A default-constructed Tensor is undefined:
/// shape(), strides(), rank() and the like say what an empty view would, str() says "undefined", and every call that
/// needs elements or makes a view throws ValueError. Calls from several threads are safe on different tensors.
class Tensor {
 public:
  Tensor() = default;

  // ---- making -----------------------------------------------------------------------------------------------
  /// Uninitialised. Throws ShapeError on a negative size, OutOfMemory when there's no room.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = {});
  /// Every element `value`, rounded to the dtype. Throws ValueError when an integer dtype can't hold it.
  static Tensor full(const Shape& shape, Number value, DType dtype = DType::f32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Tensor ones(const Shape& shape, DType dtype = DType::f32, Device device = {});
  /// Of x's shape and device, and its dtype unless another is given.
  static Tensor empty_like(const Tensor& x, std::optional<DType> dtype = {});
  static Tensor full_like(const Tensor& x, Number value, std::optional<DType> dtype = {});
  static Tensor zeros_like(const Tensor& x, std::optional<DType> dtype = {});
  static Tensor ones_like(const Tensor& x, std::optional<DType> dtype = {});
  /// start, start + step, … below stop (above it for a negative step); i64 when all are integers, else f32. Throws
  /// ValueError on a step of 0 or away from stop, or on numbers that aren't finite.
  static Tensor arange(Number stop, std::optional<DType> dtype = {}, Device device = {});
  static Tensor arange(Number start, Number stop, Number step = 1, std::optional<DType> dtype = {}, Device device = {});
  /// `steps` numbers, evenly spaced from start to stop, both included.
  static Tensor linspace(double start, double stop, int64_t steps, DType dtype = DType::f32, Device device = {});
  /// 1 on the diagonal and 0 elsewhere; square without `columns`.
  static Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, DType dtype = DType::f32, Device device = {});
  /// Uniform in [0, 1), of 24 random bits (53 for f64). Drawn on the host and copied, so the same on every device.
  /// Without a Random, from one that the whole process shares (manual_seed()). Throws DTypeError on integer dtypes.
  static Tensor rand(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Tensor rand(const Shape& shape, Random& random, DType dtype = DType::f32, Device device = {});
  /// Normal with mean 0 and variance 1 (Box and Muller 1958); otherwise as rand().
  static Tensor randn(const Shape& shape, DType dtype = DType::f32, Device device = {});
  static Tensor randn(const Shape& shape, Random& random, DType dtype = DType::f32, Device device = {});
  /// Integers in [low, high), as likely as each other to 2^-64; otherwise as rand(), of any dtype. Throws ValueError
  /// unless low < high.
  static Tensor randint(int64_t low, int64_t high, const Shape& shape, DType dtype = DType::i64, Device device = {});
  static Tensor randint(int64_t low, int64_t high, const Shape& shape, Random& random, DType dtype = DType::i64,
                        Device device = {});
  /// A copy of `values` (their number must be shape.numel(), else ShapeError), without a shape of rank 1. The dtype is
  /// that of T: from({1.f, 2.f}) is f32, from({1, 2}) is i32.
  template <Storable T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape, Device device = {}) {
    return from_bytes(values.begin(), values.size(), dtype_of<T>, shape, device);
  }
  template <Storable T>
  static Tensor from(std::initializer_list<T> values, Device device = {}) {
    return from(values, Shape{static_cast<int64_t>(values.size())}, device);
  }
  template <Storable T>
  static Tensor from(std::span<const T> values, const Shape& shape, Device device = {}) {
    return from_bytes(values.data(), values.size(), dtype_of<T>, shape, device);
  }
  template <Storable T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}) {
    if constexpr (std::is_same_v<T, bool>) {  // its elements have no address
      const auto bytes = host_copy([&] { return std::vector<uint8_t>(values.begin(), values.end()); });
      return from_bytes(bytes.data(), bytes.size(), DType::boolean, shape, device);
    } else {
      return from(std::span<const T>(values), shape, device);
    }
  }
  /// A view of host memory that the caller keeps alive; `data` may have any alignment its type allows.
  template <Storable T>
  static Tensor borrow(T* data, const Shape& shape) {
    return borrow_bytes(data, dtype_of<T>, shape);
  }

  // ---- asking -----------------------------------------------------------------------------------------------
  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }  ///< in elements; 0 where broadcast, negative where flipped
  int64_t offset() const { return offset_; }         ///< of element [0, …, 0] from the storage's base, in elements
  DType dtype() const { return dtype_; }
  Device device() const;
  int rank() const { return shape_.rank(); }
  int64_t size(int64_t axis) const;  ///< negative axes count from the end
  int64_t numel() const { return defined() ? shape_.numel() : 0; }
  int64_t bytes() const { return numel() * size_of(dtype_); }
  bool is_contiguous() const;  ///< dense and row-major
  std::string str() const;     ///< "f32[2, 3] on cuda:0"
  uint64_t version() const;    ///< grows whenever the storage is written in place

  // ---- views: share the storage, copy nothing -----------------------------------------------------------------
  Tensor reshape(const Shape& shape) const;  ///< one size may be -1; copies only when strides force it
  Tensor permute(const Shape& axes) const;
  Tensor transpose(int64_t a, int64_t b) const;
  /// Every step-th index from start to before stop; a negative step goes backwards. As in Python: negative bounds count
  /// from the end, and bounds outside are moved to the nearest inside. kEnd as stop means to the end, of a negative
  /// step to the first element. Throws ValueError on a step of 0.
  Tensor slice(int64_t axis, int64_t start, int64_t stop = kEnd, int64_t step = 1) const;
  static constexpr int64_t kEnd = INT64_MAX;
  Tensor select(int64_t axis, int64_t index) const;  ///< drops the axis; a negative index counts from the end
  /// The index-th sub-tensor along axis 0: x[1][2] is an element as a rank-0 view. `x[1] = y` and `x[1] += y` write to
  /// x.
  Tensor operator[](int64_t index) const;
  Tensor flip(int64_t axis) const;
  Tensor squeeze(int64_t axis) const;    ///< drops an axis of size 1, else ShapeError
  Tensor unsqueeze(int64_t axis) const;  ///< a new axis of size 1, before `axis`
  Tensor broadcast_to(const Shape& shape) const;
  /// Any view of the same storage, checked to lie inside it.
  Tensor as_strided(const Shape& shape, const Shape& strides, int64_t offset) const;

  // ---- moving -----------------------------------------------------------------------------------------------
  Tensor contiguous() const;       ///< itself when dense, else a dense copy
  Tensor clone() const;            ///< always a dense copy on the same device
  Tensor to(Device device) const;  ///< itself when already there
  Tensor to(DType dtype) const;    ///< element-wise cast; itself when already so
  /// Overwrites this view with `source` (same shape and dtype, any device and strides; the two may overlap).
  /// Throws ValueError when elements of this view share memory with each other.
  void copy_(const Tensor& source) const;
  /// Overwrites every element with `value`, rounded to the dtype. Throws ValueError when an integer dtype can't hold
  /// it, or when elements share memory.
  void fill_(Number value) const;

  /// All elements, row-major, on the host. Throws DTypeError when T isn't the dtype, OutOfMemory.
  template <Storable T>
  std::vector<T> to_vector() const {
    if constexpr (std::is_same_v<T, bool>) {  // its elements have no address
      const std::vector<uint8_t> bytes = read<uint8_t>(DType::boolean);
      return host_copy([&] { return std::vector<bool>(bytes.begin(), bytes.end()); });
    } else {
      return read<T>(dtype_of<T>);
    }
  }
  /// The same as doubles, whatever the dtype.
  std::vector<double> to_doubles() const;
  /// The only element as a double, whatever the dtype. Throws ShapeError unless numel() == 1.
  double item() const;

  // ---- computing: the functions of ashlar/ops.h under the same names (library ashlar_ops) ------------------------
  Tensor sum(const Shape& axes = {}, bool keepdim = false) const;  ///< no axes: all
  Tensor mean(const Shape& axes = {}, bool keepdim = false) const;
  Tensor max(const Shape& axes = {}, bool keepdim = false) const;
  Tensor argmax(const Shape& axes = {}, bool keepdim = false) const;
  Tensor softmax(int64_t axis = -1) const;
  Tensor matmul(const Tensor& b) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  /// In place: the result of a + b and so on, written over this view. Throws ShapeError when it has another shape,
  /// DTypeError when its category of dtype is a higher one (promotion.h), ValueError when elements share memory.
  const Tensor& operator+=(const Tensor& b) const;
  const Tensor& operator-=(const Tensor& b) const;
  const Tensor& operator*=(const Tensor& b) const;
  const Tensor& operator/=(const Tensor& b) const;
  const Tensor& operator+=(Number b) const;
  const Tensor& operator-=(Number b) const;
  const Tensor& operator*=(Number b) const;
  const Tensor& operator/=(Number b) const;

  // ---- assigning: a variable becomes another view; what an expression returned is written to -----------------------
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// x[1] = y: copies y, broadcast and converted, into the view. Throws as copy_() and broadcast_to().
  const Tensor& operator=(const Tensor& source) &&;
  const Tensor& operator=(Number value) &&;

  // ---- for the library -----------------------------------------------------------------------------------------
  const std::shared_ptr<detail::Storage>& storage() const { return storage_; }
  Tensor(std::shared_ptr<detail::Storage> storage, const Shape& shape, const Shape& strides, int64_t offset,
         DType dtype)
      : storage_(std::move(storage)), shape_(shape), strides_(strides), offset_(offset), dtype_(dtype) {}
  /// The first element's address. CPU tensors only, else DeviceError.
  void* data() const;
  /// Marks the storage as written (version() grows).
  void bump_version() const;

 private:
  static Tensor from_bytes(const void* data, size_t count, DType dtype, const Shape& shape, Device device);
  static Tensor borrow_bytes(void* data, DType dtype, const Shape& shape);
  void read_bytes(void* data, DType dtype) const;
  template <class T>
  std::vector<T> read(DType dtype) const {
    auto values = host_copy([this] { return std::vector<T>(static_cast<size_t>(numel())); });
    read_bytes(values.data(), dtype);
    return values;
  }
  /// What `make` makes; OutOfMemory where the host has no room for it.
  template <class Make>
  static auto host_copy(Make make) {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      detail::throw_out_of_host_memory("copy to host");
    } catch (const std::length_error&) {  // a broadcast view can have more elements than memory has bytes
      detail::throw_out_of_host_memory("copy to host");
    }
  }
  void check_defined(const char* operation) const;
  Tensor view(const Shape& shape, const Shape& strides, int64_t offset) const {
    return Tensor(storage_, shape, strides, offset, dtype_);
  }

  std::shared_ptr<detail::Storage> storage_;
  Shape shape_;
  Shape strides_;
  int64_t offset_ = 0;
  DType dtype_ = DType::f32;
};

/// The tensors one after the other along `axis`, in the dtype where they meet (promotion.h). Throws ValueError without
/// a tensor, ShapeError unless the other sizes agree, DeviceError, IndexError.
Tensor cat(std::span<const Tensor> tensors, int64_t axis = 0);
Tensor cat(std::initializer_list<Tensor> tensors, int64_t axis = 0);
/// The same along a new axis, for tensors of one shape.
Tensor stack(std::span<const Tensor> tensors, int64_t axis = 0);
Tensor stack(std::initializer_list<Tensor> tensors, int64_t axis = 0);

/// str() on a line, then the values: three from each end of an axis where there are more than 1000 elements.
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace ashlar
