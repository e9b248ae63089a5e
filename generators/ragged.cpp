// Sequences of several lengths, packed one after the other, and the same with rows of their own: moved there and back.
#include "dsl/kernel.h"

namespace ashlar::dsl {

using Halide::TailStrategy;

/// Where sequence b begins and ends among the packed rows, by the b-th and the next offset; and, with is_right, how
/// many of its `rows` rows lie before it.
struct SequenceRows {
  In<i64, 1> offsets{"offsets"};
  Scalar<int32_t> rows{"rows"}, is_right{"is_right"};

  Expr offset(const Expr& at) const {
    const Expr last = offsets.extent(0) - 1;
    return Halide::cast<int32_t>(offsets(Value(Halide::unsafe_promise_clamped(at, 0, last))).expr());
  }
  Expr before(const Expr& begin, const Expr& end) const {
    return Halide::select(Value(is_right).expr() != 0, Value(rows).expr() - (end - begin), 0);
  }
};

// y[b,r,a,c] = x[offsets[b] + r - before, a, c] where that is one of sequence b, else 0
template <ElementType T>
class PaddedRows : public Kernel<PaddedRows<T>> {
 public:
  In<T, 3> x{"x", strided};
  SequenceRows of;
  Out<T, 4> y{"y", {any_size, any_size, x.size(1), x.size(2)}};

  PaddedRows() {
    this->formula("y[b,r,a,c] = x[offsets[b] + r - before, a, c], 0 beside sequence b").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const Expr begin = of.offset(b), end = of.offset(b + 1), row = begin + r - of.before(begin, end);
    const Expr is_there = row >= begin && row < end && row >= 0 && row < x.extent(0);
    const Value read = x(Value(Halide::unsafe_promise_clamped(Halide::select(is_there, row, 0), 0, x.extent(0) - 1)),
                         Value(a), Value(c));
    y(b, r, a, c) = Value(Halide::select(is_there, read.expr(), Halide::Internal::make_zero(read.type())));
  }
  void schedule(Cpu) {
    Var line("line"), task("task");
    const auto nest = [&](Halide::Stage stage) {
      stage.fuse(r, b, line).split(line, task, line, 16, TailStrategy::GuardWithIf).parallel(task);
    };
    Halide::Stage dense = y.func().specialize(x.axis(2).stride() == 1);
    nest(dense);
    dense.vectorize(c, Descriptor::target.natural_vector_size<typename Element<T>::Storage>(),
                    TailStrategy::GuardWithIf);
    nest(y.func());
  }
  void schedule(auto) {
    Var line("line"), thread("thread");
    y.func().fuse(c, a, line).fuse(line, r, line).fuse(line, b, line);
    y.func().gpu_tile(line, thread, 256, TailStrategy::GuardWithIf);
  }

 private:
  Var b{"b"}, r{"r"}, a{"a"}, c{"c"};
};

// y[t,a,c] = x[b, t - offsets[b] + before, a, c] of the sequence b that packed row t is of; 0 for a row of none,
// `missing` where x has too few rows
template <ElementType T>
class PackedRows : public Kernel<PackedRows<T>> {
 public:
  In<T, 4> x{"x", strided};
  SequenceRows of;
  Scalar<int32_t> steps{"steps"};  // as many as find one of all sequences by halves
  Scalar<int64_t> missing{"missing"};
  Out<T, 3> y{"y", {any_size, x.size(2), x.size(3)}};

  PackedRows() {
    this->formula("y[t,a,c] = x[b, t - offsets[b] + before, a, c], b the sequence of packed row t").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    // As many sequences as end at or before t: the largest power of two first.
    const Expr batch = x.extent(0);
    const Halide::RDom step(0, Value(steps).expr(), "step");
    sequence(t) = Expr(0);
    const Expr before = sequence(t), next = before + (Expr(1) << (Value(steps).expr() - 1 - step));
    sequence(t) = Halide::select(next <= batch && of.offset(Halide::min(next, batch)) <= t, next, before);

    const Expr found = sequence(t), own = Halide::unsafe_promise_clamped(Halide::min(found, batch - 1), 0, batch - 1);
    const Expr begin = of.offset(own), row = t - begin + of.before(begin, of.offset(own + 1));
    const Expr is_of_one = found < batch && t >= begin, is_there = is_of_one && row >= 0 && row < x.extent(1);
    const Expr place = Halide::unsafe_promise_clamped(Halide::select(is_there, row, 0), 0, x.extent(1) - 1);
    const Expr read = x(Value(own), Value(place), Value(a), Value(c)).expr();
    const Expr otherwise = Halide::select(is_of_one, Value(missing).expr(), Halide::cast<int64_t>(0));
    y(t, a, c) = Value(Halide::select(is_there, read, Halide::cast(read.type(), otherwise)));
  }
  void schedule(Cpu) {
    Var task("task");
    const auto nest = [&](Halide::Stage stage) {
      stage.split(t, task, t, 16, TailStrategy::GuardWithIf).parallel(task);
    };
    Halide::Stage dense = y.func().specialize(x.axis(3).stride() == 1);
    nest(dense);
    dense.vectorize(c, Descriptor::target.natural_vector_size<typename Element<T>::Storage>(),
                    TailStrategy::GuardWithIf);
    nest(y.func());
    sequence.compute_at(y.func(), t);
  }
  void schedule(auto) {
    constexpr int kPlaces = 64, kRows = 4;
    Var line("line"), block("block"), of_rows("of_rows");
    y.func()
        .fuse(c, a, line)
        .split(line, block, line, kPlaces, TailStrategy::GuardWithIf)
        .split(t, of_rows, t, kRows, TailStrategy::GuardWithIf)
        .reorder(line, t, of_rows, block)
        .gpu_blocks(of_rows, block)
        .gpu_threads(line, t);
    sequence.compute_at(y.func(), line);
  }

 private:
  Halide::Func sequence{"sequence"};
  Var t{"t"}, a{"a"}, c{"c"};
};

const std::vector<DType> kMovable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                  DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const OperatorOption kAlignRight{.name = "align_right", .kind = FormOption::Kind::boolean};

const bool registered =
    register_kernel<PaddedRows, raw<1>, raw<2>, raw<4>, raw<8>>("padded_rows") &&
    register_kernel<PackedRows, raw<1>, raw<2>, raw<4>, raw<8>>("packed_rows") &&
    register_operator(
        {.name = "jagged_to_padded",
         .formula = "jagged_to_padded(values, offsets, max_length)[b,r] = values[offsets[b] + r], r < offsets[b + 1] - "
                    "offsets[b], else 0; with align_right the last of the max_length rows are the sequence's",
         .dtypes = kMovable,
         .inputs = {{"values"}, {"offsets", DType::i64}},
         .scalars = {{"max_length", DType::i64}},
         .options = {kAlignRight},
         .outputs = {{"y"}},
         .calls = {"padded_rows", "cast"},
         .gradients = {{"values", "padded_to_jagged(dy, offsets, values.shape()[0], align_right)", {}}}}) &&
    register_operator({.name = "padded_to_jagged",
                       .formula =
                           "padded_to_jagged(padded, offsets, total)[offsets[b] + r] = padded[b,r]: the inverse of "
                           "jagged_to_padded; of total rows those of no sequence are 0",
                       .dtypes = kMovable,
                       .inputs = {{"padded"}, {"offsets", DType::i64}},
                       .scalars = {{"total", DType::i64}},
                       .options = {kAlignRight},
                       .outputs = {{"y"}},
                       .calls = {"packed_rows", "cast"},
                       .gradients = {{"padded", "jagged_to_padded(dy, offsets, padded.shape()[1], align_right)", {}}}});

}  // namespace ashlar::dsl
