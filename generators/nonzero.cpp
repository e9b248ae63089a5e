// Where a tensor isn't zero. How many places that are is known only when some kernel has counted them, so the operator
// is written by hand (operators/nonzero.cpp): count, read the counts, locate.
#include "dsl/kernel.h"

namespace ashlar::dsl {
namespace {

constexpr int kBlock = 32;  // of operators/nonzero.cpp, too

// Of the bits of a float, so that subnormal numbers count on every target; -0 is zero.
Value is_nonzero(const Value& x) {
  if (!x.type().is_float()) return x != Value(Halide::Internal::make_zero(x.type()));
  return Expr(Halide::reinterpret(Halide::UInt(x.type().bits()), x.expr()) << 1 != 0);
}

}  // namespace

// counts[b] = |{k : x[32 b + k] ≠ 0, 0 ≤ k < 32}|
template <ElementType T>
class NonzeroCount : public Kernel<NonzeroCount<T>> {
 public:
  In<T, 1> x{"x"};
  Out<i32, 1> counts{"counts", {(x.size(0) + constant(kBlock - 1)) / constant(kBlock)}};

  NonzeroCount() { this->formula("counts[b] = |{k : x[32 b + k] ≠ 0, 0 ≤ k < 32}|").internal(); }
  void algorithm() {
    k = Axis(kBlock, "k");
    k.where(Value(b) * kBlock + k < Value(x.extent(0)));
    const Expr at = Halide::unsafe_promise_clamped(Expr(Value(b) * kBlock + k), 0, x.extent(0) - 1);
    total(b) = sum(k, Halide::cast<int32_t>(is_nonzero(x(at)).expr()));
    counts(b) = total(b);
  }
  void schedule(Cpu) {
    counts.func().split(b, outer, inner, 512, Halide::TailStrategy::GuardWithIf).parallel(outer);
    total.func().compute_at(counts.func(), inner);
  }
  void schedule(auto) {
    counts.func().gpu_tile(b, outer, inner, 128, Halide::TailStrategy::GuardWithIf);
    total.func().compute_at(counts.func(), inner);
  }

 private:
  Axis k;
  Stage total{"total"};
  Var b{"b"}, outer{"outer"}, inner{"inner"};
};

// indices[j,d] = (at[j] / steps[d]) mod sizes[d], where at[j] is the place of the j-th nonzero x. ends[b] is how many
// nonzero elements blocks 0 to b have.
template <ElementType T>
class NonzeroLocate : public Kernel<NonzeroLocate<T>> {
 public:
  In<T, 1> x{"x"};
  In<i32, 1> ends{"ends"};
  In<i64, 1> steps{"steps"};
  In<i64, 1> sizes{"sizes", {steps.size(0)}};
  Out<i64, 2> indices{"indices", {any_size, steps.size(0)}};

  NonzeroLocate() {
    this->formula("indices[j,d] = (at[j] / steps[d]) mod sizes[d], x[at[j]] the j-th x ≠ 0").internal();
  }
  void algorithm() {
    // The block of j is how many blocks end at or before j: the largest power of two first.
    const Halide::RDom step(0, kSearchSteps, "step"), k(0, kBlock, "k");
    const Expr blocks = ends.extent(0);
    const auto end_of = [&](const Expr& one) {
      return ends(Halide::unsafe_promise_clamped(one, 0, blocks - 1)).expr();
    };
    block(j) = Expr(0);
    const Expr before = block(j), next = before + (Expr(1) << (kSearchSteps - 1 - step));
    block(j) = Halide::select(next <= blocks && end_of(Halide::min(next, blocks) - 1) <= j, next, before);

    // Which of the block's nonzero elements it is, counted down to the place where it is.
    const Expr own = block(j), first = Halide::select(own > 0, end_of(Halide::max(own, 1) - 1), 0);
    rank(j) = j - first;
    const Expr place = own * kBlock + k;
    const Expr hit =
        place < x.extent(0) && is_nonzero(x(Halide::unsafe_promise_clamped(place, 0, x.extent(0) - 1))).expr();
    // (elements still to pass) · 64 + place in the block; at 0 to pass, the place stays.
    found(j) = rank(j) * 64;
    const Expr state = found(j), left = state / 64;
    found(j) = Halide::select(hit && left >= 0, Halide::select(left == 0, Expr(-64) + k, state - 64), state);
    at(j) = Halide::cast<int64_t>(own * kBlock + (found(j) + 64));

    const Value step_of_d = steps(d), size = sizes(d);
    indices(j, d) = Value(Expr(at(j)) / step_of_d.expr() % size.expr());
  }
  void schedule(Cpu) {
    indices.func().reorder(d, j).split(j, outer, inner, 512, Halide::TailStrategy::GuardWithIf).parallel(outer);
    for (Halide::Func* stage : {&block, &rank, &found, &at}) stage->compute_at(indices.func(), inner);
  }
  void schedule(auto) {
    indices.func().reorder(d, j).gpu_tile(j, outer, inner, 128, Halide::TailStrategy::GuardWithIf);
    for (Halide::Func* stage : {&block, &rank, &found, &at}) stage->compute_at(indices.func(), inner);
  }

 private:
  static constexpr int kSearchSteps = 26;  // 2^26 blocks of 32 are 2^31 elements
  Halide::Func block{"block"}, rank{"rank"}, found{"found"}, at{"at"};
  Var j{"j"}, d{"d"}, outer{"outer"}, inner{"inner"};
};

const bool registered =
    register_kernel<NonzeroCount, f32, f64, i32, i64, u8>("nonzero_count") &&
    register_kernel<NonzeroLocate, f32, f64, i32, i64, u8>("nonzero_locate") &&
    register_operator({
        .name = "nonzero",
        .formula = "nonzero(x)[j] = index of the j-th x ≠ 0, in row-major order",
        .dtypes = {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8, DType::boolean},
        .inputs = {{"x"}},
        .outputs = {{"indices", DType::i64}},
        .calls = {"nonzero_count", "nonzero_locate"},
    });

}  // namespace ashlar::dsl
