// Two or three small layers, one after the other, in one launch on a GPU: what is between them stays with a block of
// threads. operators/layer_chain.cpp calls it where that is quicker; else each layer is a product.
#include "generators/layer_chain.h"
#include "dsl/functions.h"
#include "dsl/kernel.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

namespace {

/// f, and whether the last layer has it, too; as a member, declared behind the inputs.
struct ChainActivations {
  Scalar<int32_t> activation{"activation"}, activate_last{"activate_last"};

  Value of_hidden(const Value& v) const {
    const auto is = [&](ChainActivation f) { return Value(activation) == static_cast<int>(f); };
    const Value by_sigmoid = select(is(ChainActivation::sigmoid), sigmoid(v), silu(v));
    const Value by_gelu = select(is(ChainActivation::gelu), gelu(v), by_sigmoid);
    return select(is(ChainActivation::relu), relu(v), select(is(ChainActivation::tanh), tanh(v), by_gelu));
  }
  Value of_last(const Value& v) const { return select(Value(activate_last) != 0, of_hidden(v), v); }
};

/// Σ_k left(r, k) weight(c, k), in parts: neighbouring threads read neighbouring elements of a weight's row, each with
/// several loads under way.
struct LayerSum {
  static constexpr int kParts = 8, kTogether = 4;
  Halide::Func parts;  // of (part, column, row)
  Halide::RDom q;      // terms together, turns
  Var part{"part"}, c{"c"}, r{"r"}, thread{"thread"};

  explicit LayerSum(const std::string& name) : parts(name) {}

  /// left(r, k), an Expr; `terms` are its columns.
  template <class Left, ElementType T>
  void define(const Left& left, const In<T, 2>& weight, const Expr& terms) {
    constexpr int kTurn = kParts * kTogether;
    q = Halide::RDom(0, kTogether, 0, (terms + (kTurn - 1)) / kTurn, "q");
    const auto inside = [](const Expr& at, const Expr& extent) {
      return Halide::unsafe_promise_clamped(Halide::min(at, extent - 1), 0, extent - 1);
    };
    const Expr term = (q.y * kTogether + q.x) * kParts + part, k = inside(term, terms);
    const Expr factor = weight(Value(inside(c, weight.extent(0))), Value(inside(k, weight.extent(1)))).expr();
    parts(part, c, r) = 0.0F;
    parts(part, c, r) += Halide::select(term < terms, left(r, k) * factor, 0.0F);
  }
  Value sum(const Expr& column, const Expr& row) const {
    Expr total = 0.0F;
    for (int i = 0; i < kParts; i++) total += parts(i, column, row);
    return total;
  }
  void schedule(const Halide::LoopLevel& level) {
    parts.compute_at(level)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_storage(c, kChainColumns)
        .bound_storage(r, kChainRows)
        .bound(part, 0, kParts)
        .reorder(r, part, c)
        .fuse(part, c, thread)
        .gpu_threads(thread);
    parts.update().reorder(q.x, q.y, r, part, c).unroll(q.x).fuse(part, c, thread).gpu_threads(thread);
  }
};

/// x as what a layer is given; rows beyond the last repeat it.
template <ElementType T>
auto x_of(const In<T, 2>& x) {
  return [&x](const Expr& row, const Expr& column) {
    const Expr last = x.extent(0) - 1;
    return x(Value(Halide::unsafe_promise_clamped(Halide::min(row, last), 0, last)), Value(column)).expr();
  };
}

/// A layer between.
struct HiddenLayer {
  LayerSum sum;
  Halide::Func units;  // of (column, row)

  explicit HiddenLayer(const std::string& name) : sum("parts_" + name), units("units_" + name) {}
  template <class Bias>
  void define(const ChainActivations& f, const Bias& bias) {
    const Expr column = Halide::unsafe_promise_clamped(sum.c, 0, bias.extent(0) - 1);
    units(sum.c, sum.r) = f.of_hidden(sum.sum(sum.c, sum.r) + bias(Value(column))).expr();
  }
  Expr operator()(const Expr& row, const Expr& column) const { return units(column, row); }
};

/// A block of threads has a few rows of the result and some of its columns; what is between the layers it works out
/// for itself, in shared memory.
void schedule_chain(Halide::Func y, LayerSum& last, const std::vector<HiddenLayer*>& hidden) {
  const Var c = y.args()[0], r = y.args()[1];
  const Var row_block("row_block"), row("row"), column_block("column_block"), column("column"), thread("thread");
  y.split(r, row_block, row, kChainRows, Halide::TailStrategy::GuardWithIf)
      .split(c, column_block, column, kChainColumns, Halide::TailStrategy::GuardWithIf)
      .reorder(column, row, column_block, row_block)
      .fuse(column, row, thread)
      .gpu_blocks(column_block, row_block)
      .gpu_threads(thread);
  last.schedule({y, column_block});
  for (HiddenLayer* layer : hidden) {
    const Var step("step"), unit("unit"), own("thread_of_units");
    layer->units.compute_at(y, column_block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_storage(layer->sum.r, kChainRows)
        .bound_storage(layer->sum.c, kMostChainUnits)
        .split(layer->sum.c, step, unit, kChainColumns, Halide::TailStrategy::GuardWithIf)
        .reorder(unit, layer->sum.r, step)
        .fuse(unit, layer->sum.r, own)
        .gpu_threads(own);
    layer->sum.schedule({layer->units, step});
  }
  index_arithmetic();
}

}  // namespace

// h = f(x weight1ᵀ + bias1), y = h weight2ᵀ + bias2, or f of it
template <ElementType T>
class TwoLayers : public Kernel<TwoLayers<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  In<T, 2> x{"x"};
  In<T, 2> weight1{"weight1", {any_size, x.size(1)}, strided};
  In<T, 1> bias1{"bias1", {weight1.size(0)}};
  In<T, 2> weight2{"weight2", {any_size, weight1.size(0)}, strided};
  In<T, 1> bias2{"bias2", {weight2.size(0)}};
  ChainActivations f;
  Out<T, 2> y{"y", {x.size(0), weight2.size(0)}};

  TwoLayers() { this->formula("y = layer2(f(layer1(x))), layer(x) = x weightᵀ + bias").internal(); }
  void algorithm() {
    first.sum.define(x_of(x), weight1, x.extent(1));
    first.define(f, bias1);
    last.define(first, weight2, weight1.extent(0));
    y(r, c) = f.of_last(last.sum(c, r) + bias2(c));
  }
  void schedule(auto) { schedule_chain(y.func(), last, {&first}); }

 private:
  HiddenLayer first{"1"};
  LayerSum last{"parts"};
  Var r{"r"}, c{"c"};
};

// The same of three.
template <ElementType T>
class ThreeLayers : public Kernel<ThreeLayers<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  In<T, 2> x{"x"};
  In<T, 2> weight1{"weight1", {any_size, x.size(1)}, strided};
  In<T, 1> bias1{"bias1", {weight1.size(0)}};
  In<T, 2> weight2{"weight2", {any_size, weight1.size(0)}, strided};
  In<T, 1> bias2{"bias2", {weight2.size(0)}};
  In<T, 2> weight3{"weight3", {any_size, weight2.size(0)}, strided};
  In<T, 1> bias3{"bias3", {weight3.size(0)}};
  ChainActivations f;
  Out<T, 2> y{"y", {x.size(0), weight3.size(0)}};

  ThreeLayers() { this->formula("y = layer3(f(layer2(f(layer1(x))))), layer(x) = x weightᵀ + bias").internal(); }
  void algorithm() {
    first.sum.define(x_of(x), weight1, x.extent(1));
    first.define(f, bias1);
    second.sum.define(first, weight2, weight1.extent(0));
    second.define(f, bias2);
    last.define(second, weight3, weight2.extent(0));
    y(r, c) = f.of_last(last.sum(c, r) + bias3(c));
  }
  void schedule(auto) { schedule_chain(y.func(), last, {&first, &second}); }

 private:
  HiddenLayer first{"1"}, second{"2"};
  LayerSum last{"parts"};
  Var r{"r"}, c{"c"};
};

const bool registered =
    register_kernel<TwoLayers, f32>("two_layers") && register_kernel<ThreeLayers, f32>("three_layers") &&
    register_operator(
        {.name = "layer_chain",
         .formula = "layer_chain(x, weight1, bias1, weight2, bias2) = layer2(f(layer1(x))), or of three layers, "
                    "layer(x) = x weightᵀ + bias along the last axis; f of the last where asked for",
         .dtypes = {DType::f32, DType::f16, DType::bf16},
         .inputs = {{"x"},
                    {"weight1"},
                    {"bias1"},
                    {"weight2"},
                    {"bias2"},
                    {.name = "weight3", .is_optional = true},
                    {.name = "bias3", .is_optional = true}},
         .options = {{"activation", FormOption::Kind::choice, 0, {"relu", "tanh", "gelu", "sigmoid", "silu"}},
                     {.name = "activate_last", .kind = FormOption::Kind::boolean}},
         .outputs = {{"y"}},
         .calls = {"two_layers", "three_layers", "matmul", "tanh", "sigmoid", "silu", "cast"},
         .gradients = {{kAllInputs,
                        "layer_chain_grad(dy, x, weight1, bias1, weight2, bias2, weight3, bias3, "
                        "static_cast<int>(activation), activate_last, needs)",
                        "autograd/recipes/layer_chain.h"}},
         .plans = {"in_one", "each_layer"},
         .plan_sizes = {"rows", "inputs", "units", "outputs"}});

}  // namespace ashlar::dsl
