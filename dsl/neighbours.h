// Neighbours: an element's surroundings, with a stated border.
//
//   const auto around = bordered(x, Border::reflect);
//   y(r, c) = around(r - 1, c) + around(r, c) + around(r + 1, c);
//
// Without a border, x(r + 1, c) beyond the end is an error of every call (or of the build, where it can be seen).
#pragma once

#include "dsl/arguments.h"

namespace ashlar::dsl {

/// What an index outside of [0, size) reads, along every dimension by itself. PyTorch's padding modes, for any
/// distance.
enum class Border : uint8_t {
  constant,  ///< the value given to bordered()
  clamp,     ///< the edge's element: 0 0 | 0 1 2 | 2 2 (PyTorch: replicate)
  reflect,   ///< mirrored at the edge's element, which isn't repeated: 2 1 | 0 1 2 | 1 0; a single element is repeated
  wrap,      ///< from the other end: 1 2 | 0 1 2 | 0 1 (PyTorch: circular)
};

namespace detail {
// The remainder in [0, n) of any `at`. On GPUs by a product with 1/n in f32, a third of an integer division's
// instructions: right for |at| < 2^22 n, and inside [0, n) for all.
inline Expr wrapped(const Expr& at, const Expr& n) {
  if (!on_gpu()) return Halide::clamp(at % n, 0, n - 1);
  const Expr times = Halide::cast<int32_t>(Halide::floor(Halide::cast<float>(at) * (1.0f / Halide::cast<float>(n))));
  const Expr rest = at - times * n;
  return Halide::clamp(Halide::select(rest < 0, rest + n, rest >= n, rest - n, rest), 0, n - 1);
}

// Where in [0, size) an index reads.
inline Expr place_inside(const Expr& at, const Expr& size, Border border) {
  // On the CPU loops are split into edges and an interior, which has nothing of all this.
  const bool is_gpu = on_gpu();
  const Expr clamped = Halide::clamp(is_gpu ? at : Halide::likely(at), 0, size - 1);
  if (border == Border::constant || border == Border::clamp) return clamped;
  const Expr n = Halide::max(size, 1);
  Expr folded;
  if (border == Border::wrap) {
    folded = wrapped(at, n);
  } else {
    const Expr period = Halide::max(2 * n - 2, 1), place = wrapped(at, period);
    folded = Halide::clamp(Halide::min(place, period - place), 0, n - 1);
  }
  // A hint inside clamp() says nothing about the select.
  return is_gpu ? folded : Halide::select(at < 0 || at >= size, folded, Halide::likely(clamped));
}
}  // namespace detail

/// A tensor or stage that may be read at any indices. Made by bordered().
class Bordered {
 public:
  Bordered(std::function<Value(const std::vector<Value>&)> read, std::vector<Expr> sizes, Border border, Value outside)
      : read_(std::move(read)), sizes_(std::move(sizes)), border_(border), outside_(std::move(outside)) {}

  template <class... Index>
  Value operator()(const Index&... index) const {
    const std::vector<Value> at{Value(index)...};
    if (at.size() != sizes_.size()) {
      mistake("a bordered tensor of rank " + std::to_string(sizes_.size()) + " is read with " +
              std::to_string(at.size()) + " indices; give one for each dimension");
    }
    std::vector<Value> inside;
    Expr is_outside = Halide::Internal::const_false();
    for (size_t d = 0; d < at.size(); d++) {
      inside.emplace_back(detail::place_inside(at[d].expr(), sizes_[d], border_));
      is_outside = is_outside || at[d].expr() < 0 || at[d].expr() >= sizes_[d];
    }
    const Value value = read_(inside);
    if (border_ != Border::constant) return value;
    const bool is_gpu = on_gpu();
    return Halide::select(is_outside, outside_.as(value.type()), is_gpu ? value.expr() : Halide::likely(value.expr()));
  }

 private:
  std::function<Value(const std::vector<Value>&)> read_;
  std::vector<Expr> sizes_;
  Border border_;
  Value outside_;
};

namespace detail {
template <int N, class Tensor>
Bordered bordered_tensor(const Tensor& x, Border border, const Value& outside) {
  std::vector<Expr> sizes;
  for (int i = 0; i < N; i++) sizes.push_back(x.dim(N - 1 - i).extent());
  const auto read = [&x](const std::vector<Value>& at) {
    return [&]<size_t... I>(std::index_sequence<I...>) { return x(at[I]...); }
    (std::make_index_sequence<N>{});
  };
  return {read, sizes, border, outside};
}
}  // namespace detail

/// `x` with a border. `outside` is what Border::constant reads; the others don't have it.
template <ElementType T, int N>
Bordered bordered(const In<T, N>& x, Border border, const Value& outside = 0) {
  return detail::bordered_tensor<N>(x, border, outside);
}
/// The same of an intermediate in memory.
template <ElementType T, int N>
Bordered bordered(const Scratch<T, N>& x, Border border, const Value& outside = 0) {
  return detail::bordered_tensor<N>(x, border, outside);
}
/// The same of a stage, which has elements at [0, size) along each dimension.
inline Bordered bordered(Stage& stage, const Sizes& sizes, Border border, const Value& outside = 0) {
  std::vector<Expr> extents;
  for (const Size& size : sizes) extents.push_back(size.expr());
  return {[&stage](const std::vector<Value>& at) { return Value(stage.reference(at)); }, extents, border, outside};
}

}  // namespace ashlar::dsl
