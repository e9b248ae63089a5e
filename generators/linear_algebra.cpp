// Factorisations of matrices. The kernels here are for a block of a few dozen columns, which a work-group keeps in
// shared memory; operators/linear_algebra.cpp puts larger ones together of these and of products.
//
// What goes along the columns one by one is a loop around the threads of a work-group, who read what others of them
// have written in the turn before: one Func with an update, whose turns have two phases, written out one after the
// other, so that Halide puts a barrier behind each.
#include "generators/linear_algebra.h"
#include "schedules/generic.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {
namespace {

Expr inside(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }

}  // namespace

// x = l lᵀ, of x's lower triangle, without square roots until the end: with d[k] = s[k,k] after k turns,
//   s[i,j] -= (s[i,k] / d[k]) s[j,k]  for i ≥ j > k,  l[i,j] = s[i,j] / √d[j]
// A pivot d[k] of at most `least` whole[k], which is x[k,k] or more, leaves no column: it is filled with `otherwise`.
template <ElementType T>
class CholeskyBlock : public Kernel<CholeskyBlock<T>> {
 public:
  Dim matrices{"matrices"}, columns{"columns"};
  In<T, 3> x{"x", {matrices, columns, columns}, strided};
  In<T, 2> whole{"whole", {matrices, columns}, strided};
  Scalar<float> least{"least"}, otherwise{"otherwise"};
  Out<T, 3> l{"l", {matrices, columns, columns}};

  CholeskyBlock() {
    this->formula("l lᵀ = x, columns of pivots of at most least whole[k] filled with otherwise").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = columns.extent();
    // Row 0 holds s[:,k] / d[k], the matrix lies below.
    s(j, i, b) = x(b, Halide::max(i - 1, 0), j).expr();
    turn = Halide::RDom(0, n, 0, n + 1, 0, 2, 0, n, "turn");
    const Expr column = turn.x, row = turn.y, k = turn.w, is_scaling = turn.z == 0;
    turn.where(column > k && Halide::select(is_scaling, row == 0, row > column));
    const Expr scaled = kept(k, s(k, column + 1, b) / s(k, k + 1, b));
    const Expr left = s(column, row, b) - s(Halide::max(row - 1, 0), 0, b) * s(k, column + 1, b);
    s(column, row, b) = Halide::select(is_scaling, scaled, left);
    const Value factor = Value(kept(j, s(j, i + 1, b) / Halide::sqrt(s(j, j + 1, b))));
    l(b, i, j) = select(Value(i) < Value(j), Value(Halide::Internal::make_zero(factor.type())), factor);
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    Halide::RVar vector("vector"), lane("lane");
    l.func().vectorize(j, lanes, Halide::TailStrategy::GuardWithIf).parallel(b);
    s.compute_at(l.func(), b).store_in(Halide::MemoryType::Stack);
    bound();
    s.vectorize(j, lanes, Halide::TailStrategy::GuardWithIf);
    // No turn writes what the same phase of it reads.
    s.update()
        .allow_race_conditions()
        .split(turn.x, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .vectorize(lane)
        .unroll(turn.z);
  }
  void schedule(auto) {
    constexpr int kThreads = 256;
    index_arithmetic();
    Var all("all"), step("step"), thread("thread");
    Halide::RVar each("each"), steps("steps"), one("one");
    l.func()
        .fuse(j, i, all)
        .split(all, step, thread, kThreads, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(b)
        .gpu_threads(thread);
    s.compute_at(l.func(), b).store_in(Halide::MemoryType::GPUShared);
    bound();
    s.fuse(j, i, all).split(all, step, thread, kThreads, Halide::TailStrategy::GuardWithIf).gpu_threads(thread);
    s.update()
        .allow_race_conditions()
        .fuse(turn.x, turn.y, each)
        .split(each, steps, one, kThreads, Halide::TailStrategy::GuardWithIf)
        .gpu_threads(one)
        .unroll(turn.z);
  }

 private:
  /// `value`, which belongs to column k, where its pivot is large enough.
  Expr kept(const Expr& k, const Expr& value) const {
    const Value pivot = Value(s(k, k + 1, b));
    const auto wide = [&](const Value& scalar) { return Value(Halide::cast(pivot.type(), scalar.expr())); };
    return select(pivot <= wide(least) * whole(b, k), wide(otherwise), Value(value)).expr();
  }
  void bound() {
    const int columns = std::is_same_v<T, f64> ? kFactorPanel : kFactorBlock;
    s.bound_storage(j, columns).bound_storage(i, columns + 1).bound_storage(b, 1);
  }

  Halide::RDom turn;
  Halide::Func s{"s"};
  Var b{"b"}, i{"i"}, j{"j"};
};

// Σ_k a[i,k] y[k,c] = x[i,c], a lower triangular; upper where `backwards`, of which rows and columns are then counted
// from the end. With `unit` its diagonal is seen as 1. Each column of x is a thread's:
//   y[i] = (x[i] - Σ_{k < i} a[i,k] y[k]) / a[i,i]
// With a `fill` other than 0, rows whose a[i,i] is 0 become noise in [-1, 1), another for each `fill`.
template <ElementType A, ElementType X>
class TriangularBlock : public Kernel<TriangularBlock<A, X>> {
 public:
  Dim matrices{"matrices"}, rows{"rows"}, columns{"columns"};
  In<A, 3> a{"a", {matrices, rows, rows}, strided};
  In<X, 3> x{"x", {matrices, rows, columns}, strided};
  Scalar<int32_t> backwards{"backwards"}, unit{"unit"}, fill{"fill"};
  Out<X, 3> y{"y", {matrices, rows, columns}};

  TriangularBlock() {
    this->formula("Σ_k a[i,k] y[k,c] = x[i,c], k <= i; k >= i where backwards").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = rows.extent();
    const auto at = [&](const Expr& i) { return inside(Halide::select(is(backwards), n - 1 - i, i), n); };
    const Halide::Type type = Halide::type_of<typename Element<A>::Arithmetic>();
    const Value diagonal = a(b, at(k), at(k));
    const Value one = Value(Halide::Internal::make_one(type)), none = Value(Halide::Internal::make_zero(type));
    inverse(k, b) = select(is(unit), one, select(is(fill) && diagonal == none, none, one / diagonal)).expr();
    const auto is_filled = [&](const Expr& i) { return (is(fill) && Value(inverse(i, b)) == none).expr(); };
    work(c, i, b) =
        Halide::select(is_filled(i), Halide::cast(type, noise()), Halide::cast(type, x(b, at(i), c).expr()));
    turn = Halide::RDom(0, n, 0, n, "turn");
    const Expr from = turn.x, row = turn.y, here = work(c, row, b);
    turn.where(from <= row);
    const Expr factor = Halide::select(is_filled(row), none.expr(), a(b, at(row), at(from)).expr());
    work(c, row, b) = Halide::select(from < row, here - factor * work(c, from, b),
                                     here * Halide::select(is_filled(row), one.expr(), inverse(row, b)));
    y(b, i, c) = Value(work(c, at(i), b));
  }
  void schedule(Cpu) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<A>::Storage>();
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
  static Value is(const Value& flag) { return flag != 0; }
  /// In [-1, 1), of bits that are well mixed of row and column.
  Expr noise() const {
    const auto word = [](uint32_t bits) { return Expr(bits); };
    const auto mixed = [&](const Expr& x, uint32_t factor, int shift) {
      const Expr bits = x * word(factor);
      return bits ^ (bits >> shift);
    };
    const auto times = [&](const Expr& x, uint32_t factor) { return Halide::cast<uint32_t>(x) * word(factor); };
    const Expr place = times(c, 0x9e3779b9u) + times(i, 0x85ebca6bu) + times(Value(fill).expr(), 0x27d4eb2fu);
    const Expr bits = mixed(mixed(mixed(place, 0x2c1b3c6du, 15), 0x297a2d39u, 12), 0x9e3779b1u, 15);
    return Halide::cast<float>(Halide::reinterpret<int32_t>(bits >> 8)) * 0x1p-23f - 1.0f;
  }
  void bound() {
    inverse.bound_storage(k, kFactorBlock).bound_storage(b, 1);
    work.bound_storage(i, kFactorBlock).bound_storage(b, 1);
  }

  Halide::RDom turn;
  Halide::Func inverse{"inverse"}, work{"work"};
  Var b{"b"}, i{"i"}, c{"c"}, k{"k"};
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
// (Golub and Van Loan, §8.5), as many at once as there are pairs of columns that have none in common: in round r of n -
// 1 (n even; else with one more) columns i and j are a pair where i + j ≡ r mod n - 1, and the one with 2i ≡ r and the
// last. Each takes an element off the diagonal to 0:
//   t = g[p,q] sign(d) / (|d| + √(d² + g[p,q]²)), d = (g[q,q] - g[p,p]) / 2;  cos = 1 / √(1 + t²), sin = t cos
template <ElementType T>
class JacobiBlock : public Kernel<JacobiBlock<T>> {
 public:
  Dim matrices{"matrices"}, columns{"columns"};
  In<T, 3> g{"g", {matrices, columns, columns}};
  Scalar<int32_t> pairs{"pairs"};  // of rounds
  Out<f32, 2> roots{"roots", {matrices, columns}};
  Out<f32, 3> vectors{"vectors", {matrices, columns, columns}};
  // Rows 0 and 1: what a column takes of itself and of its partner; then g; then v. Rounds go from one of the two
  // to the other.
  Scratch<T, 4> w{"w", {matrices, constant(2), Size(columns) * constant(2) + constant(2), columns}};
  Scratch<i32, 2> rank{"rank", {matrices, columns}}, place{"place", {matrices, columns}};

  JacobiBlock() {
    this->formula("g = v diag(roots²) vᵀ, roots from the largest on").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = columns.extent(), last = (n + 1) / 2 * 2 - 1;  // rounds of a sweep, and the last column
    const Halide::Type type = Halide::type_of<typename Element<T>::Arithmetic>();
    const Expr one = Halide::Internal::make_one(type), none = Halide::Internal::make_zero(type);
    const Value row = Value(i) - 2;
    w(b, side, i, j) = select(row < Value(n), g(b, Halide::clamp(row.expr(), 0, n - 1), j),
                              select(row == Value(j) + Value(n), Value(one), Value(none)));

    turn = Halide::RDom({{0, n}, {0, 2 * n + 2}, {0, 2}, {0, 2}, {0, Value(pairs).expr()}}, "turn");
    const Expr column = turn[0], line = turn[1], is_angle = turn[2] == 0, now = turn[3];
    const Expr round = (turn[4] * 2 + now) % last;
    turn.where(is_angle == (line < 2));
    Halide::Func all = w.func();
    const auto partner = [&](const Expr& of) {
      const Expr other =
          Halide::select(of == last, round * ((last + 1) / 2) % last,
                         Halide::select((2 * of - round + last) % last == 0, last, (round - of + last) % last));
      return inside(Halide::select(other < n, other, of), n);
    };
    const auto element = [&](const Expr& r, const Expr& c) { return all(c, r + 2, now, b); };

    const Expr to = partner(column), p = Halide::min(column, to), q = Halide::max(column, to);
    const Expr d = (element(q, q) - element(p, p)) / 2, off = element(p, q);
    const Expr size = Halide::abs(d) + Halide::sqrt(d * d + off * off);
    const Expr rest = Halide::select(d < none, -off, off);
    const Expr t = Halide::select(to == column || size == none, none, rest / size);
    const Expr cosine = one / Halide::sqrt(one + t * t), sine = t * cosine;
    const Expr angle = Halide::select(line == 0, cosine, Halide::select(column == p, -sine, sine));

    const Expr r = line - 2, is_vector = r >= n, at = inside(Halide::select(is_vector, 0, r), n);
    const Expr from = Halide::select(is_vector, r, partner(at));
    const auto turned = [&](const Expr& r) {
      return all(column, 0, now, b) * element(r, column) + all(column, 1, now, b) * element(r, to);
    };
    const auto row_angle = [&](int which) { return all(at, which, now, b); };
    const Expr rows =
        Halide::select(is_vector, turned(inside(r, 2 * n)),
                       row_angle(0) * turned(inside(r, 2 * n)) + row_angle(1) * turned(inside(from, 2 * n)));
    all(column, line, Halide::select(is_angle, now, 1 - now), b) = Halide::select(is_angle, angle, rows);

    const Value end = Value(Expr(0));
    const auto eigenvalue = [&](const Value& c) { return w(b, end, c + 2, c); };
    k = columns.reduce();
    const Value mine = eigenvalue(j), other = eigenvalue(Value(k));
    ranks(b, j) =
        sum(k, select(other > mine || (other == mine && Value(k) < Value(j)), Value(Expr(1)), Value(Expr(0))));
    rank(b, j) = ranks(b, j);
    places(b, j) = sum(k, select(rank(b, Value(k)) == Value(j), Value(Expr(k)), Value(Expr(0))));
    place(b, j) = places(b, j);
    const Value chosen = Value(Halide::clamp(Value(place(b, j)).expr(), 0, n - 1));
    roots(b, j) = sqrt(max(eigenvalue(chosen), 0.0));
    vectors(b, i, j) = w(b, end, Value(i) + Value(n) + 2, chosen);
  }
  void schedule(Cpu target) {
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    Halide::RVar vector("vector"), lane("lane");
    w.func().vectorize(j, lanes, Halide::TailStrategy::GuardWithIf).parallel(b);
    // What a phase writes it doesn't read.
    w.func()
        .update()
        .allow_race_conditions()
        .split(turn[0], vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .vectorize(lane)
        .unroll(turn[2])
        .parallel(b);
    generic(target, roots, vectors);
  }
  void schedule(auto target) {
    constexpr int kThreads = 512;
    Var line("line"), thread("thread"), step("step");
    Halide::RVar each("each"), steps("steps"), one("one");
    index_arithmetic();
    w.func()
        .fuse(j, i, line)
        .split(line, step, thread, kThreads, Halide::TailStrategy::GuardWithIf)
        .reorder(thread, step, side, b)
        .gpu_blocks(b)
        .gpu_threads(thread);
    w.func()
        .update()
        .allow_race_conditions()
        .fuse(turn[0], turn[1], each)
        .split(each, steps, one, kThreads, Halide::TailStrategy::GuardWithIf)
        .gpu_threads(one)
        .unroll(turn[2])
        .gpu_blocks(b);
    generic(target, roots, vectors);
  }

 private:
  Halide::RDom turn;
  Axis k;
  Stage ranks{"ranks"}, places{"places"};
  Var b{"b"}, side{"side"}, i{"i"}, j{"j"};
};

const std::string kRecipes = "autograd/recipes/linear_algebra.h";
using Kind = FormOption::Kind;
const std::vector<std::string> kSingular{"gram", "cholesky_block", "triangular_block", "jacobi_block", "matmul",
                                         "sub",  "copy",           "philox_normal"};
const OperatorOption kUpper{.name = "upper", .kind = Kind::boolean};

const bool registered =
    register_kernel<CholeskyBlock, f32, f64>("cholesky_block") &&
    register_kernel_pairs<TriangularBlock, Pair<f32, f32>, Pair<f64, f32>>("triangular_block") &&
    register_kernel<Gram, f32>("gram") && register_kernel<JacobiBlock, f64>("jacobi_block") &&
    register_operator({.name = "cholesky",
                       .formula = "cholesky(x) = l, lower triangular with l lᵀ = x, of x's lower triangle; with upper "
                                  "u = lᵀ, of x's upper one; NaN from the first column on that x isn't positive "
                                  "definite for",
                       .dtypes = {DType::f32},
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
         .dtypes = {DType::f32},
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
                       .dtypes = {DType::f32},
                       .inputs = {{"x"}},
                       .outputs = {{"q"}, {"r"}},
                       .calls = {"gram", "cholesky_block", "triangular_block", "matmul", "sub", "copy"},
                       .gradients = {{"x", "qr_grad(dq, dr, q, r)", kRecipes}}}) &&
    register_operator({.name = "svd",
                       .formula = "svd(x): x = u diag(s) vh, uᵀ u = vh vhᵀ = 1, s from the largest on, of min(rows, "
                                  "columns) columns of u, 128 at most",
                       .dtypes = {DType::f32},
                       .inputs = {{"x"}},
                       .outputs = {{"u"}, {"s"}, {"vh"}},
                       .calls = kSingular}) &&
    register_operator({.name = "svd_lowrank",
                       .formula = "svd_lowrank(state, x, rank): x ≈ u diag(s) vᵀ, uᵀ u = vᵀ v = 1, of its largest "
                                  "singular values, from (x xᵀ)^niter x times rank + oversampling random vectors",
                       .dtypes = {DType::f32},
                       .inputs = {{"state", DType::i64}, {"x"}},
                       .scalars = {{"rank", DType::i64}},
                       .options = {{.name = "oversampling", .default_value = 8}, {.name = "niter", .default_value = 2}},
                       .outputs = {{"u"}, {"s"}, {"v"}},
                       .calls = kSingular});

}  // namespace ashlar::dsl
