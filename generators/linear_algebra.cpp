// Factorisations of matrices. The kernels here are for a block of a few dozen columns, which a work-group keeps in
// shared memory; operators/linear_algebra.cpp puts larger ones together of these and of products.
//
// What goes along the columns one by one is a loop around the threads of a work-group, who read what others of them
// have written in the turn before: one Func with an update of two phases, written out one after the other, so that
// Halide puts a barrier behind each.
#include "generators/linear_algebra.h"

#include <array>
#include <cmath>

#include "schedules/generic.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {
namespace {

Expr inside(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }

// The threads of a work-group stand in rows and columns of `index`: its columns side by side.
Halide::Func in_rows_and_columns(Halide::Func func, std::array<Var, 2> index, std::array<int, 2> threads) {
  const std::array steps{Var("column_step"), Var("row_step")}, within{Var("column"), Var("row")};
  for (size_t i = 0; i < 2; i++) {
    func.split(index[i], steps[i], within[i], threads[i], Halide::TailStrategy::GuardWithIf);
  }
  return func.reorder(within[0], within[1], steps[0], steps[1]).gpu_threads(within[0], within[1]);
}

// A power of two whose product with x, of f64 and not negative, is from 1 to 2.
Value power_over(const Value& x) {
  const auto bits = [](uint64_t word) { return Expr(word); };
  const Expr exponent = Halide::reinterpret<uint64_t>(x.expr()) & bits(0x7ff0000000000000);
  return Value(Halide::reinterpret<double>(bits(0x7fe0000000000000) - exponent));
}

}  // namespace

// x = l lᵀ, of x's lower triangle, without square roots until the end: with d[k] = s[k,k] after k turns,
//   s[i,j] -= (s[j,k] / d[k]) s[i,k]  for i ≥ j > k,  l[i,j] = s[i,j] / √d[j]
// and the same of the rows of a unit matrix gives √d l⁻¹, which lies transposed above the diagonal: s[c,i] is that of
// row i and column c, and the formula the same. A pivot d[k] of at most `least` whole[k], which is x[k,k] or more,
// leaves no column of l and no row of l⁻¹: they are filled with `otherwise`.
template <ElementType T>
class CholeskyBlock : public Kernel<CholeskyBlock<T>> {
 public:
  Dim matrices{"matrices"}, columns{"columns"};
  In<T, 3> x{"x", {matrices, columns, columns}, strided};
  In<T, 2> whole{"whole", {matrices, columns}, strided};
  Scalar<float> least{"least"}, otherwise{"otherwise"};
  OutTuple<3, T, T> factors{"factors", {{{"l"}, {"inverse"}}}, {matrices, columns, columns}};

  CholeskyBlock() {
    this->formula("l lᵀ = x, inverse = l⁻¹; columns and rows of pivots of at most least whole[k] filled with otherwise")
        .internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = columns.extent();
    // Row 0 holds what each pivot is measured against, the matrix lies below, and under it s[j,k] / d[k] of a turn: one
    // quotient for each column.
    const Value at_most = Value(Halide::cast<typename Element<T>::Storage>(Value(least).expr()));
    const Expr of_column = Halide::clamp(j, 0, n - 1);
    s(j, i, b) = Halide::select(i == 0, (at_most * whole(b, of_column)).expr(),
                                x(b, Halide::clamp(i - 1, 0, n - 1), of_column).expr());
    turn = Halide::RDom({{0, kMost}, {0, n + 1}, {0, 2}, {0, n}}, "turn");
    const Expr column = turn[0], row = turn[1], is_quotient = turn[2] == 0, k = turn[3];
    const Expr is_changed = row > 0 && (row > column || row <= k + 1);
    turn.where(column > k && column < n && Halide::select(is_quotient, row == 0, is_changed));
    // Turn k reads column k alone, which it doesn't write.
    const Expr quotient = kept(k, s(k, column + 1, b) / s(k, k + 1, b));
    const Expr is_unit = row == k + 1, none = Halide::Internal::make_zero(quotient.type()), one = none + 1;
    const Expr changed = Halide::select(is_unit, none, s(column, row, b)) -
                         s(column, n + 1, b) * Halide::select(is_unit, one, s(k, row, b));
    s(column, Halide::select(is_quotient, n + 1, row), b) = Halide::select(is_quotient, quotient, changed);
    const auto over_root = [&](const Expr& value, const Expr& of) {
      return kept(of, value / Halide::sqrt(s(of, of + 1, b)));
    };
    const Value row_of = Value(i), column_of = Value(j);
    const Value unit = select(row_of == column_of, Value(one), Value(s(i, j + 1, b)));
    factors.define({b, i, j}, {select(row_of < column_of, Value(none), Value(over_root(s(j, i + 1, b), j))),
                               select(row_of < column_of, Value(none), Value(over_root(unit.expr(), i)))});
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    Halide::RVar vector("vector"), lane("lane");
    factors.func().vectorize(j, lanes, Halide::TailStrategy::GuardWithIf).parallel(b);
    s.compute_at(factors.func(), b).store_in(Halide::MemoryType::Stack);
    bound();
    s.vectorize(j, lanes, Halide::TailStrategy::GuardWithIf);
    s.update()
        .allow_race_conditions()
        .split(turn[0], vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .vectorize(lane)
        .unroll(turn[2]);
  }
  void schedule(auto) {
    constexpr int kRows = 16;
    index_arithmetic();
    Halide::RVar rows("rows"), one("one");
    in_rows_and_columns(factors.func(), {j, i}, {kMost, kRows}).gpu_blocks(b);
    s.compute_at(factors.func(), b).store_in(Halide::MemoryType::GPUShared);
    bound();
    in_rows_and_columns(s, {j, i}, {kMost, kRows});
    s.update()
        .allow_race_conditions()
        .split(turn[1], rows, one, kRows, Halide::TailStrategy::GuardWithIf)
        .reorder(turn[0], one, rows, turn[2], turn[3])
        .gpu_threads(turn[0], one)
        .unroll(turn[2]);
  }

 private:
  static constexpr int kMost = std::is_same_v<T, f64> ? kFactorPanel : kFactorBlock;  // columns

  /// `value`, which belongs to pivot k, where that is large enough.
  Expr kept(const Expr& k, const Expr& value) const {
    const Value pivot = Value(s(k, k + 1, b));
    const Value filling = Value(Halide::cast(pivot.type(), Value(otherwise).expr()));
    return select(pivot <= Value(s(k, 0, b)), filling, Value(value)).expr();
  }
  void bound() { s.bound_storage(j, kMost).bound_storage(i, kMost + 2).bound_storage(b, 1); }

  Halide::RDom turn;
  Halide::Func s{"s"};
  Var b{"b"}, i{"i"}, j{"j"};
};

// Σ_k a[i,k] y[k,c] = x[i,c], a lower triangular; upper where `backwards`, of which rows and columns are then counted
// from the end. With `unit` its diagonal is seen as 1. Each column of x is a thread's:
//   y[i] = (x[i] - Σ_{k < i} a[i,k] y[k]) / a[i,i]
template <ElementType T>
class TriangularBlock : public Kernel<TriangularBlock<T>> {
 public:
  Dim matrices{"matrices"}, rows{"rows"}, columns{"columns"};
  In<T, 3> a{"a", {matrices, rows, rows}, strided};
  In<T, 3> x{"x", {matrices, rows, columns}, strided};
  Scalar<int32_t> backwards{"backwards"}, unit{"unit"};
  Out<T, 3> y{"y", {matrices, rows, columns}};

  TriangularBlock() {
    this->formula("Σ_k a[i,k] y[k,c] = x[i,c], k <= i; k >= i where backwards").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = rows.extent();
    const auto at = [&](const Expr& i) {
      return inside(select(Value(backwards) != 0, Value(n - 1 - i), Value(i)).expr(), n);
    };
    const Value diagonal = a(b, at(k), at(k));
    inverse(k, b) = select(Value(unit) != 0, 1.0, 1.0 / diagonal).expr();
    work(c, i, b) = x(b, at(i), c).expr();
    turn = Halide::RDom(0, n, 0, n, "turn");
    const Expr from = turn.x, row = turn.y, here = work(c, row, b);
    turn.where(from <= row);
    work(c, row, b) =
        Halide::select(from < row, here - a(b, at(row), at(from)).expr() * work(c, from, b), here * inverse(row, b));
    y(b, i, c) = Value(work(c, at(i), b));
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    Var vector("vector"), lane("lane"), task("task");
    y.func()
        .split(c, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .reorder(lane, i, vector, b)
        .vectorize(lane)
        .fuse(vector, b, task)
        .parallel(task);
    inverse.compute_at(y.func(), task).store_in(Halide::MemoryType::Stack);
    work.compute_at(y.func(), task).store_in(Halide::MemoryType::Stack);
    work.bound_storage(c, lanes);
    bound();
    work.vectorize(c, lanes, Halide::TailStrategy::GuardWithIf);
    work.update().reorder(c, turn.x, turn.y, b).vectorize(c, lanes, Halide::TailStrategy::GuardWithIf);
  }
  void schedule(auto) {
    constexpr int kThreads = 32;
    index_arithmetic();
    Var group("group"), thread("thread"), all("all");
    y.func()
        .split(c, group, thread, kThreads, Halide::TailStrategy::GuardWithIf)
        .reorder(i, thread, group, b)
        .fuse(group, b, all)
        .gpu_blocks(all)
        .gpu_threads(thread);
    inverse.compute_at(y.func(), all).store_in(Halide::MemoryType::GPUShared);
    inverse.split(k, group, thread, kThreads, Halide::TailStrategy::GuardWithIf).gpu_threads(thread);
    work.compute_at(y.func(), thread);
    work.bound_storage(c, 1);
    bound();
  }

 private:
  void bound() {
    inverse.bound_storage(k, kFactorBlock).bound_storage(b, 1);
    work.bound_storage(i, kFactorBlock).bound_storage(b, 1);
  }

  Halide::RDom turn;
  Halide::Func inverse{"inverse"}, work{"work"};
  Var b{"b"}, i{"i"}, c{"c"}, k{"k"};
};

// y = a x; rows whose a[i,i] is 0 become noise in [-1, 1), another for each `fill`.
template <ElementType A, ElementType X>
class FilledProduct : public Kernel<FilledProduct<A, X>> {
 public:
  Dim matrices{"matrices"}, rows{"rows"}, columns{"columns"};
  In<A, 3> a{"a", {matrices, rows, rows}};
  In<X, 3> x{"x", {matrices, rows, columns}, strided};
  Scalar<int32_t> fill{"fill"};
  Out<X, 3> y{"y", {matrices, rows, columns}};

  FilledProduct() {
    this->formula("y[i] = Σ_k a[i,k] x[k], noise where a[i,i] = 0").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    k = rows.reduce();
    total(b, i, c) = sum(k, a(b, i, k) * cast<A>(x(b, k, c)));
    y(b, i, c) = select(a(b, i, i) == 0.0, noise(), cast<X>(total(b, i, c)));
  }
  void schedule(Cpu target) { generic(target, y); }
  void schedule(auto) {
    constexpr int kThreads = 128;
    Var group("group"), thread("thread");
    y.func().split(c, group, thread, kThreads, Halide::TailStrategy::GuardWithIf);
    y.func().gpu_blocks(group, i, b).gpu_threads(thread);
    total.func().compute_at(y.func(), thread);
    index_arithmetic();
  }

 private:
  /// In [-1, 1), of bits that are well mixed of row and column.
  Value noise() const {
    const auto word = [](uint32_t bits) { return Expr(bits); };
    const auto mixed = [&](const Expr& x, uint32_t factor, int shift) {
      const Expr bits = x * word(factor);
      return bits ^ (bits >> shift);
    };
    const auto times = [&](const Expr& x, uint32_t factor) { return Halide::cast<uint32_t>(x) * word(factor); };
    const Expr place = times(c, 0x9e3779b9u) + times(i, 0x85ebca6bu) + times(Value(fill).expr(), 0x27d4eb2fu);
    const Expr bits = mixed(mixed(mixed(place, 0x2c1b3c6du, 15), 0x297a2d39u, 12), 0x9e3779b1u, 15);
    return Value(Halide::cast<float>(Halide::reinterpret<int32_t>(bits >> 8)) * 0x1p-23f - 1.0f);
  }

  Axis k;
  Stage total{"total"};
  Var b{"b"}, i{"i"}, c{"c"};
};

// g = x xᵀ in f64, where f32's products are exact; row after row as one
template <ElementType T>
class Gram : public Kernel<Gram<T>> {
 public:
  Dim matrices{"matrices"}, rows{"rows"}, columns{"columns"};
  In<T, 3> x{"x", {matrices, rows, columns}};
  Out<f64, 2> g{"g", {matrices, Size(rows) * Size(rows)}};

  Gram() {
    this->formula("g[n i + j] = Σ_k x[i,k] x[j,k]").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = rows.extent();
    const Value i = inside(place / n, n), j = inside(place % n, n);
    k = columns.reduce();
    total(b, place) = sum(k, cast<f64>(x(b, i, k)) * cast<f64>(x(b, j, k)));
    g(b, place) = total(b, place);
  }
  void schedule(auto target) { generic(target, g); }

 private:
  Axis k;
  Stage total{"total"};
  Var b{"b"}, place{"place"};
};

// g = v diag(roots²) vᵀ of symmetric g, roots from the largest on, 0 for those of negative numbers: Jacobi's rotations
// (Golub and Van Loan, §8.5), as many at once as there are pairs of columns that have none in common: of an even number
// n of columns (else with one more) pair k of round r, of n - 1, is r + k and r - k mod n - 1, pair 0 is r and the
// last. Each takes the element p, q off the diagonal to 0:
//   τ = (g[q,q] - g[p,p]) / (2 g[p,q]);  t = sign(τ) / (|τ| + √(1 + τ²));  cos = 1 / √(1 + t²), sin = t cos
// t in f32 is enough, since what it leaves of g[p,q] the next sweep sees; cos and sin turn by exactly that angle. What
// is small, |g[p,q]| ≤ ε √(g[p,p] g[q,q]), isn't turned; a sweep follows while one had an angle or such a ratio of more
// than √ε: all that is left then is their products. A work-group keeps a small g and its v in shared memory.
template <ElementType T, bool kIsSmall>
class Jacobi : public Kernel<Jacobi<T, kIsSmall>> {
 public:
  Dim matrices{"matrices"}, columns{"columns"};
  In<T, 3> g{"g", {matrices, columns, columns}};
  Scalar<int32_t> sweeps{"sweeps"};
  Out<f32, 2> roots{"roots", {matrices, columns}};
  Out<f32, 3> vectors{"vectors", {matrices, columns, columns}};
  // Rows 0 and 1: the cosine and sine of each pair, and behind them what sweeps are needed; then g, then v, both with
  // an even number of columns.
  Scratch<T, 3> w{"w", {matrices, Size(columns) * constant(2) + constant(4), Size(columns) + constant(1)}};
  Scratch<i32, 2> rank{"rank", {matrices, columns}}, place{"place", {matrices, columns}};

  Jacobi() {
    this->formula("g = v diag(roots²) vᵀ, roots from the largest on").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = columns.extent(), even = (n + 1) / 2 * 2, pairs = even / 2, last = even - 1;
    const Value row = Value(i) - 2;
    const Value of_v = Value(Halide::cast<double>(row.expr() == even + j));
    const Value of_g = g(b, Halide::clamp(row.expr(), 0, n - 1), Halide::min(j, n - 1));
    Halide::Func all = turned();
    all(j, i, b) = select(row < Value(n) && Value(j) < Value(n), of_g, of_v).expr();

    // Of a small g constant numbers of pairs and lines: a thread for each.
    const Expr most = kIsSmall ? Expr(kFactorTurned) : even;
    turn = Halide::RDom({{0, most / 2}, {0, most}, {0, 2}, {0, last}, {0, Value(sweeps).expr()}}, "turn");
    const Expr pair = turn[0], line = turn[1], is_angle = turn[2] == 0, round = turn[3];
    // What says whether a sweep is needed lies behind the angles: 0 at first, then the sweep's number where it is.
    const Expr sweep = turn[4], is_needed = all(n, sweep % 2, b) >= Halide::cast<double>(sweep);
    turn.where(pair < pairs && line < Halide::select(is_angle, 1, even) && is_needed);
    const auto element = [&](const Expr& r, const Expr& c) { return all(c, r + 2, b); };
    const auto first_of = [&](const Expr& pair) {
      const Expr at = round + pair;
      return inside(Halide::select(at >= last, at - last, at), even);
    };
    const auto second_of = [&](const Expr& pair) {
      const Expr at = round - pair;
      return inside(Halide::select(pair == 0, last, at < 0, at + last, at), even);
    };
    const Expr p = first_of(pair), q = second_of(pair);

    // Both near 1 before they become f32, by a power of two: what that makes 0 rounding would.
    const Value first = Value(element(p, p)), second = Value(element(q, q)), between = Value(element(p, q));
    const Value power = power_over(abs(first) + abs(second) + abs(between));
    const Value off = cast<f32>(between * power);
    const Value tau = cast<f32>((second - first) * (0.5 * power)) / off;
    const Value size = 1.0 / (abs(tau) + sqrt(1.0 + tau * tau));
    // Against a diagonal of ones, squared.
    const Value square_off = off * off, squares = abs(cast<f32>(first * power) * cast<f32>(second * power));
    const Value is_small = square_off <= squares * (kSmallOff * kSmallOff);
    const Value t = cast<f64>(select(is_small, 0.0, select(tau < 0.0, -size, size)));
    const Value is_rough = square_off > squares * kSmallOff || abs(t) > std::sqrt(kSmallOff);
    const Value square = 1.0 + t * t;
    Value cosine = cast<f64>(1.0 / sqrt(cast<f32>(square)));
    cosine = cosine * (1.5 - 0.5 * square * cosine * cosine);  // Newton's: right to 2^-45
    const Expr angles[] = {cosine.expr(), (t * cosine).expr()};

    // Lines of g's rows are pairs of them, too; v's rows stay what they are.
    const Expr is_vector = line >= pairs, vector = even + 2 * (line - pairs);
    const Expr of_row = inside(Halide::select(is_vector, 0, line), even);
    const Expr above = inside(Halide::select(is_vector, vector, first_of(of_row)), 2 * even);
    const Expr below = inside(Halide::select(is_vector, vector + 1, second_of(of_row)), 2 * even);
    const auto rotated = [](const Expr& cosine, const Expr& sine, const Expr& p, const Expr& q) {
      return std::pair(cosine * p - sine * q, cosine * q + sine * p);
    };
    const auto in_columns = [&](const Expr& r) {
      return rotated(all(pair, 0, b), all(pair, 1, b), element(r, p), element(r, q));
    };
    const auto [above_p, above_q] = in_columns(above);
    const auto [below_p, below_q] = in_columns(below);
    const Expr row_cosine = select(Value(is_vector), 1.0, Value(all(of_row, 0, b))).expr();
    const Expr row_sine = select(Value(is_vector), 0.0, Value(all(of_row, 1, b))).expr();
    const auto [pp, qp] = rotated(row_cosine, row_sine, above_p, below_p);
    const auto [pq, qq] = rotated(row_cosine, row_sine, above_q, below_q);

    // All four are computed before one is stored. What an angle has no use for is written to its place a second time.
    const auto where = [&](const Expr& angle, const Expr& value) { return Halide::select(is_angle, angle, value); };
    const Expr rough = is_rough.expr(), next = Halide::cast<double>(sweep + 1);
    all(Halide::scatter(where(pair, p), where(pair, q), where(pair, p), where(Halide::select(rough, n, pair), q)),
        Halide::scatter(where(0, above + 2), where(1, above + 2), where(0, below + 2),
                        where(Halide::select(rough, (sweep + 1) % 2, 1), below + 2)),
        b) = Halide::gather(where(angles[0], pp), where(angles[1], pq), where(angles[0], qp),
                            where(Halide::select(rough, next, angles[1]), qq));

    if (kIsSmall) w(b, i, j) = Value(all(j, i, b));

    k = columns.reduce();
    const auto eigenvalue = [&](const Value& c) { return w(b, c + 2, inside(c.expr(), n)); };
    const Value mine = eigenvalue(j), other = eigenvalue(Value(k));
    ranks(b, j) =
        sum(k, select(other > mine || (other == mine && Value(k) < Value(j)), Value(Expr(1)), Value(Expr(0))));
    rank(b, j) = ranks(b, j);
    places(b, j) = sum(k, select(rank(b, Value(k)) == Value(j), Value(Expr(k)), Value(Expr(0))));
    place(b, j) = places(b, j);
    const Value chosen = Value(Halide::clamp(Value(place(b, j)).expr(), 0, n - 1));
    roots(b, j) = sqrt(max(eigenvalue(chosen), 0.0));
    vectors(b, i, j) = w(b, Value(i) + Value(even) + 2, chosen);
  }
  void schedule(Cpu target) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    w.func().vectorize(j, lanes, Halide::TailStrategy::GuardWithIf).parallel(b);
    Halide::Stage turns = turned().update().allow_race_conditions().unroll(turn[2]);
    if (kIsSmall) {
      in_shared.compute_at(w.func(), b).store_in(Halide::MemoryType::Stack);
      bound();
    } else {
      turns.parallel(b);
    }
    generic(target, roots, vectors);
  }
  void schedule(auto target) {
    index_arithmetic();
    // What a phase writes others of it don't read.
    Halide::Stage turns = turned().update().allow_race_conditions();
    if (kIsSmall) {
      constexpr std::array kThreads{kFactorTurned / 2, kFactorTurned};
      in_rows_and_columns(w.func(), {j, i}, kThreads).gpu_blocks(b);
      in_shared.compute_at(w.func(), b).store_in(Halide::MemoryType::GPUShared);
      bound();
      in_rows_and_columns(in_shared, {j, i}, kThreads);
      turns.gpu_threads(turn[0], turn[1]);
    } else {
      constexpr int kThreads = 512;
      Var line("line"), thread("thread"), step("step");
      Halide::RVar each("each"), steps("steps"), one("one");
      w.func()
          .fuse(j, i, line)
          .split(line, step, thread, kThreads, Halide::TailStrategy::GuardWithIf)
          .gpu_blocks(b)
          .gpu_threads(thread);
      turns.fuse(turn[0], turn[1], each)
          .split(each, steps, one, kThreads, Halide::TailStrategy::GuardWithIf)
          .gpu_threads(one)
          .gpu_blocks(b);
    }
    turns.unroll(turn[2]);
    generic(target, roots, vectors);
  }

 private:
  static constexpr double kSmallOff = 0x1p-24;  // ε

  /// g and v while they are turned.
  Halide::Func turned() { return kIsSmall ? in_shared : w.func(); }
  void bound() {
    in_shared.bound_storage(j, kFactorTurned + 1).bound_storage(i, 2 * kFactorTurned + 4).bound_storage(b, 1);
  }

  Halide::RDom turn;
  Axis k;
  Halide::Func in_shared{"in_shared"};
  Stage ranks{"ranks"}, places{"places"};
  Var b{"b"}, i{"i"}, j{"j"};
};
template <ElementType T>
using JacobiOfFew = Jacobi<T, true>;
template <ElementType T>
using JacobiOfMany = Jacobi<T, false>;

const std::string kRecipes = "autograd/recipes/linear_algebra.h";
using Kind = FormOption::Kind;
const std::vector<std::string> kSingular{"gram",          "cholesky_block", "filled_product",
                                         "jacobi_of_few", "jacobi_of_many", "matmul",
                                         "sub",           "copy",           "philox_normal"};
const std::vector<DType> kFactored{DType::f32, DType::f16, DType::bf16};  // the last two in f32
const OperatorOption kUpper{.name = "upper", .kind = Kind::boolean};

const bool registered =
    register_kernel<CholeskyBlock, f32, f64>("cholesky_block") &&
    register_kernel<TriangularBlock, f32>("triangular_block") &&
    register_kernel_pairs<FilledProduct, Pair<f64, f32>>("filled_product") && register_kernel<Gram, f32>("gram") &&
    register_kernel<JacobiOfFew, f64>("jacobi_of_few") && register_kernel<JacobiOfMany, f64>("jacobi_of_many") &&
    register_operator({.name = "cholesky",
                       .formula = "cholesky(x) = l, lower triangular with l lᵀ = x, of x's lower triangle; with upper "
                                  "u = lᵀ, of x's upper one; NaN from the first column on that x isn't positive "
                                  "definite for",
                       .dtypes = kFactored,
                       .inputs = {{"x"}},
                       .options = {kUpper},
                       .outputs = {{"y"}},
                       .calls = {"cholesky_block", "triangular_block", "matmul", "sub", "copy"},
                       .gradients = {{"x", "cholesky_grad(dy, y, upper)", kRecipes}}}) &&
    register_operator(
        {.name = "solve_triangular",
         .formula =
             "solve_triangular(a, b) = x with a x = b, a lower or upper triangular; aᵀ x = b with transpose, x a "
             "= b where not left; a's diagonal is seen as 1 with unitriangular",
         .dtypes = kFactored,
         .inputs = {{"a"}, {"b"}},
         .options = {kUpper,
                     {.name = "left", .kind = Kind::boolean, .default_value = 1},
                     {.name = "unitriangular", .kind = Kind::boolean},
                     {.name = "transpose", .kind = Kind::boolean}},
         .outputs = {{"y"}},
         .calls = {"triangular_block", "matmul", "sub", "copy"},
         .gradients = {{kAllInputs,
                        "solve_triangular_grad(dy, a, y, b.shape(), upper, left, unitriangular, transpose, needs)",
                        kRecipes}}}) &&
    register_operator({.name = "qr",
                       .formula =
                           "qr(x): x = q r, qᵀ q = 1, r upper triangular with r[i,i] >= 0, of min(rows, columns) "
                           "columns of q",
                       .dtypes = kFactored,
                       .inputs = {{"x"}},
                       .outputs = {{"q"}, {"r"}},
                       .calls = {"gram", "cholesky_block", "filled_product", "matmul", "sub", "copy"},
                       .gradients = {{"x", "qr_grad(dq, dr, q, r)", kRecipes}}}) &&
    register_operator({.name = "svd",
                       .formula = "svd(x): x = u diag(s) vh, uᵀ u = vh vhᵀ = 1, s from the largest on, of min(rows, "
                                  "columns) columns of u, 128 at most",
                       .dtypes = kFactored,
                       .inputs = {{"x"}},
                       .outputs = {{"u"}, {"s"}, {"vh"}},
                       .calls = kSingular,
                       .gradients = {{"x", "svd_grad(du, ds, dvh, u, s, vh)", kRecipes}}}) &&
    register_operator({.name = "svd_lowrank",
                       .formula = "svd_lowrank(state, x, rank): x ≈ u diag(s) vᵀ, uᵀ u = vᵀ v = 1, of its largest "
                                  "singular values, from (x xᵀ)^niter x times rank + oversampling random vectors",
                       .dtypes = kFactored,
                       .inputs = {{"state", DType::i64}, {"x"}},
                       .scalars = {{"rank", DType::i64}},
                       .options = {{.name = "oversampling", .default_value = 8}, {.name = "niter", .default_value = 2}},
                       .outputs = {{"u"}, {"s"}, {"v"}},
                       .calls = kSingular,
                       .gradients = {{"x", "svd_lowrank_grad(du, ds, dv, x, u, s, v)", kRecipes}}});

}  // namespace ashlar::dsl
