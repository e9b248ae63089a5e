// A stable radix sort of rows of u32 keys, least significant digit first (Knuth, The Art of Computer Programming 3,
// 5.2.5). Each pass is three launches, put together in operators/argsort.cpp:
//   counts[r,d,b] = how many keys of block b of row r have the digit d       one writer for each block
//   ends          = running sums of the counts, over (d, b): cumsum
//   moved[r, ends before (d, b) + rank] = key, rank among the block's keys of its digit d
// The places of the last are a permutation, so that each has one writer. Nothing is atomic, and the order of threads
// doesn't matter.
#include "dsl/kernel.h"
#include "generators/radix.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {
namespace {

RadixPass pass() { return radix_pass(on_gpu()); }

Expr inside(const Expr& index, const Expr& extent) { return Halide::unsafe_promise_clamped(index, 0, extent - 1); }

// The digit of the k-th key of a block; beyond the row's end that of its last key.
Expr digit_of(const In<u32, 2>& keys, const Value& shift, const Expr& row, const Expr& block, const Expr& k) {
  const Expr last = keys.extent(1) - 1;
  const Expr at = inside(Halide::min(block * pass().block + k, last), keys.extent(1));
  const Expr places = Halide::cast<uint32_t>(shift.expr());
  const int digits = pass().digits();
  const Expr digit = (keys(row, at).expr() >> places) & Expr(static_cast<uint32_t>(digits - 1));
  return inside(Halide::cast<int32_t>(digit), digits);
}

// The bits of x as an unsigned number that is ordered as PyTorch orders x: -0 equals 0, NaN is the largest.
template <class T>
Expr ordered_bits(const Value& x, const Value& bias) {
  if constexpr (std::is_floating_point_v<T>) {
    const Halide::Type type = Halide::UInt(8 * sizeof(T));
    const Expr bits = Halide::reinterpret(type, x.expr());
    const Expr sign = Halide::Internal::make_const(type, uint64_t{1} << (8 * sizeof(T) - 1));
    const Expr number = Halide::select((bits & sign) != 0, ~bits, bits | sign);
    return Halide::select(detail::is_nan_bits(x), type.max(), (bits << 1) == 0, sign, number);
  } else if constexpr (sizeof(T) == 8) {
    return Halide::reinterpret<uint64_t>(x.expr()) ^ Expr(uint64_t{1} << 63);
  } else {
    return Halide::cast<uint32_t>(x.expr()) + Halide::cast<uint32_t>(bias.expr());
  }
}

}  // namespace

// keys[r,i] = bits of x[r,i] as an ordered number (their upper half where word = 1), complemented where descending;
// order[r,i] = i
template <ElementType T>
class SortKeys : public Kernel<SortKeys<T>> {
 public:
  In<T, 2> x{"x", strided};
  Scalar<int64_t> bias{"bias"}, word{"word"}, descending{"descending"};
  OutTuple<2, u32, i32> made{"made", {{{"keys"}, {"order"}}}, shape_of(x)};

  SortKeys() {
    this->formula("keys[r,i] = ordered bits of x[r,i], order[r,i] = i").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    Expr bits = ordered_bits<typename Element<T>::Arithmetic>(x(r, i), bias);
    if (bits.type().bits() == 64) {
      bits = Halide::select(Value(word).expr() != 0, bits >> 32, bits);
    }
    const Expr key = Halide::cast<uint32_t>(bits);
    made.define({r, i}, {Halide::select(Value(descending).expr() != 0, ~key, key), Value(i)});
  }
  void schedule(Cpu) {
    Var vector("vector"), lane("lane"), chunk("chunk"), piece("piece"), task("task");
    constexpr int kKeys = 16384;
    const int lanes = Descriptor::target.natural_vector_size<uint32_t>();
    const auto nest = [&](Halide::Stage stage) {
      stage.split(i, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
          .split(vector, chunk, vector, kKeys / lanes, Halide::TailStrategy::GuardWithIf)
          .fuse(chunk, r, piece)
          .split(piece, task, piece, Halide::max(1, kKeys / Halide::clamp(x.extent(1), 1, kKeys)),
                 Halide::TailStrategy::GuardWithIf)
          .parallel(task);
    };
    Halide::Stage dense = made.func().specialize(x.axis(1).stride() == 1);
    nest(dense);
    dense.vectorize(lane);
    nest(made.func());
  }
  void schedule(auto) {
    Var task("task"), thread("thread");
    made.func().fuse(i, r, task).gpu_tile(task, thread, 256, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Var r{"r"}, i{"i"};
};

// counts[r,d,b] = |{k : digit of keys[r, B b + k] = d, 0 ≤ k < B}|
template <ElementType T>
class RadixCount : public Kernel<RadixCount<T>> {
 public:
  In<T, 2> keys{"keys"};
  Scalar<int32_t> shift{"shift"};
  Out<i32, 3> counts{"counts", {keys.size(0), any_size, any_size}};

  RadixCount() {
    this->formula("counts[r,d,b] = how many keys of block b have the digit d").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    k = Halide::RDom(0, pass().block, "k");
    k.where(b * pass().block + k < keys.extent(1));
    // A task, or a thread, writes the counts of its own block: one writer, though the place is computed.
    const Expr digit = digit_of(keys, shift, r, b, k);
    if (on_gpu()) {
      own(d, b, r) = Expr(0);
      own(d, b, r) += Halide::cast<int32_t>(digit == d);
    } else {
      own(d, b, r) = Expr(0);
      own(digit, b, r) += 1;
    }
    counts(r, d, b) = Value(own(d, b, r));
  }
  void schedule(Cpu) {
    counts.func().bound(d, 0, pass().digits()).reorder(d, b, r).fuse(b, r, task).parallel(task);
    own.compute_at(counts.func(), task).bound_extent(d, pass().digits());
    own.update().unscheduled();
  }
  void schedule(auto) {
    Var thread("thread");
    counts.func()
        .bound(d, 0, pass().digits())
        .reorder(d, b, r)
        .fuse(b, r, task)
        .gpu_tile(task, thread, 128, Halide::TailStrategy::GuardWithIf)
        .unroll(d);
    own.compute_at(counts.func(), thread).bound_extent(d, pass().digits()).unroll(d);
    own.update().reorder(d, k).unroll(d);
  }

 private:
  Halide::Func own{"own"};
  Halide::RDom k;
  Var r{"r"}, d{"d"}, b{"b"}, task{"task"};
};

// moved_keys[r,p] = keys[r,q], moved_order[r,p] = order[r,q], p = ends before (digit of q, block of q) + how many keys
// of that digit the block has before q
template <ElementType T>
class RadixMove : public Kernel<RadixMove<T>> {
 public:
  In<T, 2> keys{"keys"};
  In<i32, 2> order{"order", shape_of(keys)};
  In<i32, 3> ends{"ends", {keys.size(0), any_size, any_size}};
  Scalar<int32_t> shift{"shift"};
  OutTuple<2, u32, i32> moved{"moved", {{{"moved_keys"}, {"moved_order"}}}, shape_of(keys)};

  RadixMove() {
    this->formula("moved[r,p] = keys[r,q], p the place of q when sorted by the digit, stably").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const int block = pass().block, digits = pass().digits();
    const Expr blocks = ends.extent(2), columns = keys.extent(1);
    each = Halide::RDom({{0, block}, {0, blocks * keys.extent(0)}}, "each");
    const Expr k = each.x, b = each.y % blocks, r = inside(each.y / blocks, keys.extent(0));
    each.where(b * block + k < columns);

    // What stands before the first key of that digit in the block: before it in the order of (digit, block).
    const auto start = [&](const Expr& digit, const Expr& of, const Expr& row) {
      const Expr before = digit * blocks + of - 1, at = Halide::max(before, 0);
      const Value end = ends(row, inside(at / blocks, digits), inside(at % blocks, blocks));
      return Halide::select(before >= 0, end.expr(), 0);
    };
    const Expr of = task % blocks, row = inside(task / blocks, keys.extent(0));
    if (on_gpu()) {
      digit(s, task) = digit_of(keys, shift, row, of, s);
      const Expr own = digit(s, task);
      Expr rank = 0;
      for (int j = 0; j < block - 1; j++) rank = rank + Halide::cast<int32_t>(j < s && digit(j, task) == own);
      place(s, task) = start(own, of, row) + rank;
    } else {
      // Slots 0 to digits - 1 say where the next key of each digit goes, those after them where each key goes:
      // slot[digits + k] = slot[digit of k]++.
      step = Halide::RDom({{0, 2}, {0, block}}, "step");
      step.where(of * block + step.y < columns);
      each_digit = Halide::RDom(0, digits, "each_digit");
      slot(s, task) = Halide::undef<int32_t>();
      slot(each_digit, task) = start(each_digit, of, row);
      const Expr own = digit_of(keys, shift, row, of, step.y);
      slot(Halide::select(step.x == 0, digits + step.y, own), task) = slot(own, task) + step.x;
      place(s, task) = slot(s + digits, task);
    }
    const Expr q = inside(b * block + k, columns), p = inside(place(k, each.y), columns);
    Halide::Func out = moved.func();
    out(i, rows) = Halide::Tuple(Halide::undef<uint32_t>(), Halide::undef<int32_t>());
    out(p, r) = Halide::Tuple(keys(r, q).expr(), order(r, q).expr());
  }
  void schedule(Cpu) {
    Halide::Stage(moved.func()).unscheduled();  // nothing is stored there
    // No two places are the same.
    moved.func().update().allow_race_conditions().parallel(each.y);
    slot.compute_at(moved.func(), each.y).bound(s, 0, pass().digits() + pass().block);
    Halide::Stage(slot).unscheduled();  // nothing is stored there
    slot.update().unscheduled();
    slot.update(1).unroll(step.x);
  }
  void schedule(auto) {
    Var thread("thread");
    Halide::RVar group("group"), member("member");
    moved.func().gpu_tile(i, thread, 32, Halide::TailStrategy::GuardWithIf);
    moved.func()
        .update()
        .allow_race_conditions()
        .split(each.y, group, member, 128, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(group)
        .gpu_threads(member)
        .unroll(each.x);
    digit.compute_at(moved.func(), member).bound_extent(s, pass().block).unroll(s);
  }

 private:
  Halide::Func digit{"digit"}, slot{"slot"}, place{"place"};
  Halide::RDom each, each_digit, step;
  Var i{"i"}, rows{"rows"}, s{"s"}, task{"task"};
};

// ranked[r, rank of q] = order[r,q], the rank of q = |{j : keys[r,j] < keys[r,q], or = and j < q}|: for short rows
template <ElementType T>
class SortShortRows : public Kernel<SortShortRows<T>> {
 public:
  In<T, 2> keys{"keys"};
  In<i32, 2> order{"order", shape_of(keys)};
  OutTuple<2, u32, i32> ranked{"ranked", {{{"ranked_keys"}, {"ranked_order"}}}, shape_of(keys)};

  SortShortRows() {
    this->formula("ranked[r, rank of keys[r,q] in its row] = order[r,q]").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr columns = keys.extent(1);
    j = Halide::RDom(0, columns, "j");
    q = Halide::RDom(0, columns, "q");
    const Expr own = keys(r, inside(i, columns)), other = keys(r, j.x);
    rank(i, r) = Expr(0);
    rank(i, r) += Halide::cast<int32_t>(other < own || (other == own && j < i));
    Halide::Func out = ranked.func();
    out(i, r) = Halide::Tuple(Halide::undef<uint32_t>(), Halide::undef<int32_t>());
    // A row's ranks are a permutation.
    out(inside(rank(q, r), columns), r) = Halide::Tuple(keys(r, q.x).expr(), order(r, q.x).expr());
  }
  void schedule(Cpu) {
    Var task("task");
    Halide::Stage(ranked.func()).unscheduled();  // nothing is stored there
    ranked.func()
        .update()
        .split(r, task, r, Halide::max(1, 1024 / Halide::max(1, keys.extent(1))), Halide::TailStrategy::GuardWithIf)
        .parallel(task);
    const int lanes = Descriptor::target.natural_vector_size<uint32_t>();
    rank.compute_at(ranked.func(), r).vectorize(i, lanes);
    rank.update().reorder(i, j).vectorize(i, lanes);
  }
  void schedule(auto) {
    Var thread("thread"), some_rows("some_rows"), row("row");
    ranked.func().gpu_tile(i, thread, 32, Halide::TailStrategy::GuardWithIf);
    Halide::RVar group("group"), key("key");
    // Rows in the first dimension of the grid, the only one that may be long.
    ranked.func()
        .update()
        .allow_race_conditions()
        .split(q, group, key, 32, Halide::TailStrategy::GuardWithIf)
        .split(r, some_rows, row, 4, Halide::TailStrategy::GuardWithIf)
        .reorder(key, row, some_rows, group)
        .gpu_blocks(some_rows, group)
        .gpu_threads(key, row);
    rank.compute_at(ranked.func(), key);
  }

 private:
  Halide::Func rank{"rank"};
  Halide::RDom j, q;
  Var r{"r"}, i{"i"};
};

const std::vector<DType> kSortable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                   DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const std::vector<std::string> kSorting{"sort_keys",       "radix_count", "radix_move",
                                        "sort_short_rows", "cumsum",      "gather"};

const bool registered =
    register_kernel<SortKeys, f32, f64, i32, i64, u32>("sort_keys") &&
    register_kernel<RadixCount, u32>("radix_count") && register_kernel<RadixMove, u32>("radix_move") &&
    register_kernel<SortShortRows, u32>("sort_short_rows") &&
    register_operator({.name = "argsort",
                       .formula = "argsort(x)[r,j] = index of the j-th smallest of row r (largest where descending), "
                                  "equal ones in their order, NaN the largest",
                       .dtypes = kSortable,
                       .inputs = {{"x"}},
                       .options = {{"axis", FormOption::Kind::integer, -1}, {"descending", FormOption::Kind::boolean}},
                       .outputs = {{"indices", DType::i64}},
                       .calls = kSorting}) &&
    register_operator({.name = "sort",
                       .formula = "sort(x).values[r,j] = x[r, indices[r,j]], indices = argsort(x)",
                       .dtypes = kSortable,
                       .inputs = {{"x"}},
                       .options = {{"axis", FormOption::Kind::integer, -1}, {"descending", FormOption::Kind::boolean}},
                       .outputs = {{"values"}, {"indices", DType::i64}},
                       .calls = kSorting,
                       .gradients = {{"x", "sort_grad(dvalues, indices, x.shape(), axis)", {}}}}) &&
    register_operator({.name = "topk",
                       .formula = "topk(x, k) = the first k of sort(x), descending where largest",
                       .dtypes = kSortable,
                       .inputs = {{"x"}},
                       .scalars = {{"k", DType::i64}},
                       .options = {{"axis", FormOption::Kind::integer, -1}, {"largest", FormOption::Kind::boolean, 1}},
                       .outputs = {{"values"}, {"indices", DType::i64}},
                       .calls = kSorting,
                       .gradients = {{"x", "sort_grad(dvalues, indices, x.shape(), axis)", {}}}});

}  // namespace ashlar::dsl
