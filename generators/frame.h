// Rows with a border, on the CPU: windows that slide over them read vectors without a look at where they are.
#pragma once

#include "generators/window.h"

namespace ashlar::dsl {

/// frame(step c + border, h, a) = value(c, h, a), or Σ_i of it, of columns c in [0, size); elsewhere `outside`.
class Frame {
 public:
  Halide::Func func{"frame"};
  Var w{"frame_w"}, h{"frame_h"}, a{"frame_a"};
  using Read = std::function<Expr(const Expr& column, const Expr& i)>;

  /// `value` of a column and a term, of h and a; with `terms` their sum. `is_dense`: neighbours lie side by side.
  void define(const Expr& size, const Expr& step, const Expr& border, const Expr& outside, const Expr& is_dense,
              const Read& value, const Expr& terms = {}) {
    is_dense_ = is_dense;
    terms_ = terms;
    func(w, h, a) = outside;
    // The last vector begins within the one before; shorter rows have none.
    const Expr is_short = size < lanes();
    whole_ = Halide::RDom(0, lanes(), 0, Halide::select(is_short, 0, (size + lanes() - 1) / lanes()), "whole");
    single_ = Halide::RDom(0, Halide::select(is_short, size, 0), "single");
    const Expr first = Halide::min(whole_.y * lanes(), size - lanes());
    for (const Expr& at : {Halide::unsafe_promise_clamped(first, 0, size - lanes()) + whole_.x, Expr(single_.x)}) {
      if (!terms.defined()) {
        func(at * step + border, h, a) = value(at, 0);
        continue;
      }
      const Halide::RDom term(0, terms, "term");
      Halide::Func sum("sum_of_rows");
      sum(w, h, a) = 0.0f;
      sum(w, h, a) += value(Halide::unsafe_promise_clamped(w, 0, size - 1), term.x);
      func(at * step + border, h, a) = sum(at, h, a);
      sums_.push_back(sum);
    }
  }
  void compute_at(const Halide::LoopLevel& loop) {
    func.compute_at(loop).store_in(Halide::MemoryType::Stack).vectorize(w, lanes());
    // What is written twice is the same.
    func.update(0).specialize(is_dense_).allow_race_conditions().vectorize(whole_.x);
    func.update(1).unscheduled();
    for (size_t i = 0; i < sums_.size(); i++) {
      Halide::Func sum = sums_[i];
      sum.compute_at(func, i == 0 ? whole_.y : single_.x).store_in(Halide::MemoryType::Stack).bound_extent(h, 1);
      sum.bound_extent(a, 1).bound_extent(w, i == 0 ? lanes() : 1);
      const Halide::RVar term = sum.rvars()[0];
      if (i == 0) sum.vectorize(w);
      for (const int usual : {1, 2, 3}) {
        Halide::Stage branch = sum.update().specialize(terms_ == usual && is_dense_).reorder(w, term).unroll(term);
        if (i == 0) branch.vectorize(w);
      }
      if (i == 0) sum.update().specialize(is_dense_).reorder(w, term).vectorize(w);
      sum.update().reorder(w, term);
    }
  }

 private:
  static int lanes() { return Descriptor::target.natural_vector_size<float>(); }
  Expr is_dense_, terms_;
  Halide::RDom whole_, single_;
  std::vector<Halide::Func> sums_;
};

/// The rows of planes x that windows read: frame(W, H, a) = x[plane of a, H - padding, W - padding].
template <class Input>
void define_rows(Frame& frame, const Input& x, const Expr& plane, const WindowAxis& rows, const WindowAxis& columns,
                 const Expr& outside) {
  const Expr row = frame.h - rows.padding;
  const Expr is_dense = x.axis(2).stride() == 1;
  frame.define(columns.size, 1, columns.padding, outside, is_dense, [&](const Expr& column, const Expr&) -> Expr {
    const Expr read = x(Value(plane), Value(rows.certain(row)), Value(column)).expr();
    return Halide::select(row >= 0 && row < rows.size, read, outside);
  });
}
/// What tap (i, j) of output (p, q) reads there.
inline Expr in_frame(const Frame& frame, const WindowAxis& rows, const Expr& p, const Expr& i,
                     const WindowAxis& columns, const Expr& q, const Expr& j, const Expr& plane) {
  return frame.func(q * columns.stride + j * columns.dilation, p * rows.stride + i * rows.dilation, plane);
}

}  // namespace ashlar::dsl
