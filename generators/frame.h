// Rows with a border, on the CPU: windows that slide over them read vectors without a look at where they are.
#pragma once

#include "generators/window.h"
#include "schedules/lowering/steps.h"

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
    // By the widest vectors that a row has one of; the last begins within the one before.
    Expr is_narrower = Halide::Internal::const_true();
    for (const int width : widths()) {
      const Expr vectors = Halide::select(is_narrower && size >= width, (size + width - 1) / width, 0);
      is_narrower = size < width;
      const Halide::RDom of_row(0, width, 0, vectors, "of_row");
      const Expr at = begin_of_step(of_row.y, width, size) + of_row.x;
      rows_.push_back(of_row);
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
    func.compute_at(loop).store_in(Halide::MemoryType::Stack).vectorize(w, widths().front());
    for (size_t i = 0; i < rows_.size(); i++) {
      const int width = widths()[i];
      const auto in_vectors = [&](Halide::Stage stage, const Halide::VarOrRVar& along) {
        if (width > 1) stage.vectorize(along);
      };
      // What is written twice is the same.
      const int update = static_cast<int>(i);
      in_vectors(func.update(update).specialize(is_dense_).allow_race_conditions(), rows_[i].x);
      if (sums_.empty()) continue;
      Halide::Func sum = sums_[i];
      sum.compute_at(func, rows_[i].y).store_in(Halide::MemoryType::Stack).bound_extent(h, 1);
      sum.bound_extent(a, 1).bound_extent(w, width);
      const Halide::RVar term = sum.rvars()[0];
      in_vectors(sum, w);
      for (const int usual : {1, 2, 3}) {
        in_vectors(sum.update().specialize(terms_ == usual && is_dense_).reorder(w, term).unroll(term), w);
      }
      if (width > 1) sum.update().specialize(is_dense_).reorder(w, term).vectorize(w);
      sum.update().reorder(w, term);
    }
  }

 private:
  static std::vector<int> widths() {
    const int lanes = Descriptor::target.natural_vector_size<float>();
    return lanes > 4 ? std::vector{lanes, 4, 1} : std::vector{lanes, 1};
  }
  Expr is_dense_, terms_;
  std::vector<Halide::RDom> rows_;  ///< elements of a vector, vectors of a row
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
