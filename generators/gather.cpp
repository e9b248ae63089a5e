// Reads at places that a tensor holds. Every element of the result reads for itself, so nothing can race.
#include "dsl/kernel.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

// y[o,j,i] = x[o, index[o,j,i], i]; `otherwise` where index[o,j,i] isn't in [0, n)
template <ElementType T>
class GatherElements : public Kernel<GatherElements<T>> {
 public:
  In<T, 3> x{"x", strided};
  In<i64, 3> index{"index", {x.size(0), any_size, x.size(2)}, strided};
  Scalar<int64_t> otherwise{"otherwise"};
  Out<T, 3> y{"y", {x.size(0), index.size(1), x.size(2)}};

  GatherElements() {
    this->formula("y[o,j,i] = x[o, index[o,j,i], i]").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const Expr n = Halide::cast<int64_t>(x.extent(1)), at = index(o, j, i);
    // Two comparisons in one: a negative number is beyond every size as an unsigned one.
    const Expr is_inside = Halide::cast<uint64_t>(at) < Halide::cast<uint64_t>(n);
    // Where nothing can be read, the first element is, which is there: without elements y is not computed.
    const Expr place =
        Halide::unsafe_promise_clamped(Halide::cast<int32_t>(Halide::select(is_inside, at, 0)), 0, x.extent(1) - 1);
    const Expr read = x(o, place, i);
    y(o, j, i) = Value(Halide::select(is_inside, read, Halide::cast(read.type(), Value(otherwise).expr())));
  }
  void schedule(Cpu) {
    const auto y_dim = [this](int d) { return y.func().output_buffer().dim(d).extent(); };
    Var block("block"), piece("piece"), task("task");
    // A task has some thousand elements: rows that are cut, or several short ones.
    constexpr int kTask = 8192;
    const Expr in_row = Halide::max(1, y_dim(0)), places = Halide::clamp(y_dim(1), 1, Halide::max(1, kTask / in_row));
    const auto nest = [&](Halide::Stage stage) {
      stage.split(j, block, j, places, Halide::TailStrategy::GuardWithIf)
          .fuse(block, o, piece)
          .split(piece, task, piece, Halide::max(1, kTask / (places * in_row)), Halide::TailStrategy::GuardWithIf)
          .parallel(task);
    };
    const int lanes = Descriptor::target.natural_vector_size<typename Element<T>::Storage>();
    // Elements beside each other along j: few of them without a block, then many.
    Halide::Stage single = y.func().specialize(y_dim(0) == 1 && y_dim(1) <= kTask);
    single.split(o, task, o, Halide::max(1, kTask / Halide::max(1, y_dim(1))), Halide::TailStrategy::GuardWithIf);
    single.parallel(task);
    nest(y.func().specialize(y_dim(0) == 1));
    // A place for a whole row of x, which is copied by vectors, or one for each of its elements.
    for (const int stride_of_index : {0, 1}) {
      Halide::Stage rows = y.func().specialize(x.axis(2).stride() == 1 && index.axis(2).stride() == stride_of_index);
      nest(rows);
      rows.vectorize(i, lanes, Halide::TailStrategy::GuardWithIf);
    }
    nest(y.func());
  }
  // Loads wait for indices that were loaded before them: a thread has a vector of a row, or some elements a block
  // apart.
  void schedule(auto) {
    constexpr int kThreads = 256, kEach = 4, kFew = 1 << 16;
    whole_vectors();
    vector_accesses();
    index_arithmetic();
    Var vector("vector"), lane("lane"), line("line"), all("all"), block("block"), step("step"), thread("thread");
    const auto y_dim = [this](int d) { return y.func().output_buffer().dim(d).extent(); };
    const Expr is_row = x.axis(2).stride() == 1 && index.axis(2).stride() == 0;
    const int lanes = std::min(16 / static_cast<int>(sizeof(typename Element<T>::Storage)), 8);
    const Expr aligned = y_dim(0) % lanes == 0 && x.axis(1).stride() % lanes == 0 && x.axis(0).stride() % lanes == 0 &&
                         x.dim(3).min() % lanes == 0;
    y.func()
        .specialize(is_row && aligned)
        .split(i, vector, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .fuse(vector, j, line)
        .fuse(line, o, all)
        .split(all, block, thread, kThreads, Halide::TailStrategy::GuardWithIf)
        .vectorize(lane)
        .gpu_blocks(block)
        .gpu_threads(thread);
    Halide::Stage many = y.func().specialize(y_dim(0) * y_dim(1) * y_dim(2) >= kFew);
    many.fuse(i, j, line)
        .fuse(line, o, all)
        .split(all, block, step, kThreads * kEach, Halide::TailStrategy::GuardWithIf)
        .split(step, step, thread, kThreads)
        .reorder(step, thread, block)
        .unroll(step)
        .gpu_blocks(block)
        .gpu_threads(thread);
    y.func().fuse(i, j, line).fuse(line, o, all).gpu_tile(all, thread, kThreads, Halide::TailStrategy::GuardWithIf);
  }

 private:
  Var o{"o"}, j{"j"}, i{"i"};
};

// found[b] < 0 where one of `block` indices from b block on, or of the last `block`, isn't in [0, last]
template <ElementType T>
class IndicesOutside : public Kernel<IndicesOutside<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  In<T, 1> index{"index"};
  Scalar<int64_t> last{"last"};
  Scalar<int32_t> block{"block"};
  Out<T, 1> found{"found", {any_size}};

  IndicesOutside() {
    this->formula("found[b] < 0 where an index of the b-th block isn't in [0, last]").internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    // Of a number below 0 the sign, of one above `last` that of the difference.
    const Expr size = Value(block).expr(), count = index.extent(0);
    step = Halide::RDom(0, size / kLanes, "step");
    const Halide::RDom lanes(0, kLanes, "lanes");
    const Expr at = Halide::min(b * size, count - size) + step * kLanes + lane;
    const Expr one = index(Value(Halide::unsafe_promise_clamped(at, 0, count - 1)));
    signs(lane, b) = Halide::cast<int64_t>(0);
    signs(lane, b) = signs(lane, b) | one | (Value(last).expr() - one);
    any(b) = Halide::cast<int64_t>(0);
    any(b) = any(b) | signs(lanes, b);
    found(b) = Value(any(b));
  }
  void schedule(Cpu) {
    found.func().parallel(b);
    any.compute_at(found.func(), b);
    any.update().unroll(any.rvars()[0]);
    signs.compute_at(found.func(), b).bound(lane, 0, kLanes).vectorize(lane);
    signs.update().reorder(lane, step.x).vectorize(lane);
  }

 private:
  static constexpr int kLanes = 16;
  Halide::Func signs{"signs"}, any{"any"};
  Halide::RDom step;
  Var b{"b"}, lane{"lane"};
};

const std::vector<DType> kMovable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                  DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const std::vector<std::string> kGathering{"gather_elements", "indices_outside"};
constexpr const char* kOutside =
    " An index outside of x is an IndexError on the CPU; on a GPU, and in a graph's replay, it reads NaN (0 of "
    "integers)";

const bool registered =
    register_kernel<GatherElements, raw<1>, raw<2>, raw<4>, raw<8>>("gather_elements") &&
    register_kernel<IndicesOutside, i64>("indices_outside") &&
    register_operator(
        {.name = "gather",
         .formula =
             std::string("gather(x, index)[o,j,i] = x[o, index[o,j,i], i] along the axis in the middle.") + kOutside,
         .dtypes = kMovable,
         .inputs = {{"x"}, {"index", DType::i64}},
         .options = {{"axis", FormOption::Kind::integer, -1}},
         .outputs = {{"y"}},
         .calls = kGathering,
         .gradients = {{"x", "scatter_into_zeros(dy, index, x.shape(), axis)", {}}}}) &&
    register_operator({.name = "take_along",
                       .formula = "take_along(x, index) = gather(x, index), the other axes of both broadcast",
                       .dtypes = kMovable,
                       .inputs = {{"x"}, {"index", DType::i64}},
                       .options = {{"axis", FormOption::Kind::integer, -1}},
                       .outputs = {{"y"}},
                       .calls = kGathering,
                       .gradients = {{"x", "take_along_grad(dy, index, x.shape(), axis)", {}}}}) &&
    register_operator(
        {.name = "index_select",
         .formula =
             std::string("index_select(x, index)[o,j,i] = x[o, index[j], i] along the axis in the middle.") + kOutside,
         .dtypes = kMovable,
         .inputs = {{"x"}, {"index", DType::i64}},
         .options = {{"axis", FormOption::Kind::integer, 0}},
         .outputs = {{"y"}},
         .calls = kGathering,
         .gradients = {{"x", "index_add_to_zeros(dy, index, x.shape(), axis)", {}}}}) &&
    register_operator(
        {.name = "embedding",
         .formula =
             std::string("embedding(index, weight)[j,c] = weight[index[j], c]; the row padding_idx (-1: none) gets "
                         "no gradient.") +
             kOutside,
         .dtypes = kMovable,
         .inputs = {{"index", DType::i64}, {"weight"}},
         .options = {{"padding_idx", FormOption::Kind::integer, -1}},
         .outputs = {{"y"}},
         .calls = kGathering,
         .gradients = {{"weight", "embedding_grad(dy, index, weight.shape()[0], padding_idx)", {}}}});

}  // namespace ashlar::dsl
