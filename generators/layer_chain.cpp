// Two or three small layers, one after the other, in one launch on a GPU: what is between them stays with a block of
// threads. operators/layer_chain.cpp calls it where the layers are small; else each layer is a product.
#include "dsl/functions.h"
#include "dsl/kernel.h"
#include "generators/layer_chain.h"
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

/// A layer between, by its units: each a sum, which a thread adds up, several terms' loads under way.
struct HiddenLayer {
  Stage sum, units;
};

void add_up(Halide::Func total, const Halide::LoopLevel& level) {
  constexpr int kUnderWay = 8;
  const Halide::RVar k = total.rvars(0).at(0);
  const Halide::RVar outer("terms"), inner("term");
  total.compute_at(level)
      .update()
      .split(k, outer, inner, kUnderWay, Halide::TailStrategy::GuardWithIf)
      .unroll(inner);
}

/// A block of threads has a few rows of the result and some of its columns; what is between the layers it works out
/// for itself, in shared memory.
void schedule_chain(Halide::Func y, Stage& last_sum, std::vector<std::reference_wrapper<HiddenLayer>> hidden) {
  const Var c = y.args()[0], r = y.args()[1];
  const Var row_block("row_block"), row("row"), column_block("column_block"), column("column");
  y.split(r, row_block, row, kChainRows, Halide::TailStrategy::GuardWithIf)
      .split(c, column_block, column, kChainColumns, Halide::TailStrategy::GuardWithIf)
      .reorder(column, row, column_block, row_block)
      .gpu_blocks(column_block, row_block)
      .gpu_threads(column, row);
  add_up(last_sum.func(), {y, column});
  for (HiddenLayer& layer : hidden) {
    const Var step("step"), thread("thread");
    Halide::Func units = layer.units.func();
    units.compute_at(y, column_block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_storage(r, kChainRows)
        .bound_storage(c, kMostChainUnits)
        .split(c, step, thread, kChainColumns, Halide::TailStrategy::GuardWithIf)
        .reorder(step, thread, r)
        .gpu_threads(thread, r);
    add_up(layer.sum.func(), {units, step});
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
    const Axis i = x.reduce(1), j = weight2.reduce(1);
    first.sum(r, c) = sum(i, x(r, i) * weight1(c, i));
    first.units(r, c) = f.of_hidden(first.sum(r, c) + bias1(c));
    total(r, c) = sum(j, first.units(r, j) * weight2(c, j));
    y(r, c) = f.of_last(total(r, c) + bias2(c));
  }
  void schedule(auto) { schedule_chain(y.func(), total, {first}); }

 private:
  HiddenLayer first{Stage("sum1"), Stage("units1")};
  Stage total{"total"};
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
    const Axis i = x.reduce(1), j = weight2.reduce(1), k = weight3.reduce(1);
    first.sum(r, c) = sum(i, x(r, i) * weight1(c, i));
    first.units(r, c) = f.of_hidden(first.sum(r, c) + bias1(c));
    second.sum(r, c) = sum(j, first.units(r, j) * weight2(c, j));
    second.units(r, c) = f.of_hidden(second.sum(r, c) + bias2(c));
    total(r, c) = sum(k, second.units(r, k) * weight3(c, k));
    y(r, c) = f.of_last(total(r, c) + bias3(c));
  }
  void schedule(auto) { schedule_chain(y.func(), total, {first, second}); }

 private:
  HiddenLayer first{Stage("sum1"), Stage("units1")}, second{Stage("sum2"), Stage("units2")};
  Stage total{"total"};
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
