// Two or three small layers, one after the other, in one launch on a GPU: what is between them stays with a block of
// threads. operators/layer_chain.cpp calls it where the layers are small; else each layer is a product.
#include "dsl/functions.h"
#include "dsl/kernel.h"
#include "generators/layer_chain.h"
#include "schedules/lowering/index_arithmetic.h"

namespace ashlar::dsl {

enum class Layers : uint8_t { two, three };

// h1 = f(x weight1ᵀ + bias1), h2 = f(h1 weight2ᵀ + bias2), y = h2 weight3ᵀ + bias3, or f of it; of two layers y follows
// h1 by the third's weight and bias.
template <ElementType T>
class LayerChain : public Kernel<LayerChain<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  In<T, 2> x{"x"};
  In<T, 2> weight1{"weight1", {any_size, x.size(1)}, strided};
  In<T, 1> bias1{"bias1", {weight1.size(0)}};
  In<T, 2> weight2{"weight2", {any_size, weight1.size(0)}, strided};
  In<T, 1> bias2{"bias2", {weight2.size(0)}};
  In<T, 2> weight3{"weight3", strided};
  In<T, 1> bias3{"bias3", {weight3.size(0)}};
  Comptime<Layers> layers{"layers", {{"two", Layers::two}, {"three", Layers::three}}};
  /// f by its place in ChainActivation, and whether the last layer has it, too.
  Scalar<int32_t> activation{"activation"}, activate_last{"activate_last"};
  Out<T, 2> y{"y", {x.size(0), weight3.size(0)}};

  LayerChain() {
    this->formula("y = layer(layer(x)), or of three: layer(x) = f(x weightᵀ + bias); f of the last where asked for");
    this->internal();
  }
  void algorithm() {
    const bool has_three = layers.value() == Layers::three;
    define_sum(sum1, [&](const auto& k) { return x(r, k); }, weight1);
    hidden1(r, c) = activated(sum1(r, c) + bias1(c));
    if (has_three) {
      define_sum(sum2, [&](const auto& k) { return hidden1(r, k); }, weight2);
      hidden2(r, c) = activated(sum2(r, c) + bias2(c));
    }
    define_sum(sum3, [&](const auto& k) { return has_three ? Value(hidden2(r, k)) : Value(hidden1(r, k)); }, weight3);
    const Value last = sum3(r, c) + bias3(c);
    y(r, c) = select(Value(activate_last) != 0, activated(last), last);
  }

  void schedule(auto) {
    Halide::Func out = y.func();
    Var row_block("row_block"), row("row"), column_block("column_block"), column("column");
    out.split(r, row_block, row, kChainRows, Halide::TailStrategy::GuardWithIf)
        .split(c, column_block, column, kChainColumns, Halide::TailStrategy::GuardWithIf)
        .reorder(column, row, column_block, row_block)
        .gpu_blocks(column_block, row_block)
        .gpu_threads(column, row);
    add_up(sum3.func(), {out, column});
    const Halide::LoopLevel block(out, column_block);
    hold(hidden1.func(), sum1.func(), block);
    if (layers.value() == Layers::three) hold(hidden2.func(), sum2.func(), block);
    index_arithmetic();
  }

 private:
  /// sum(r, c) = Σ_k left(k) weight(c, k)
  template <class Left, class Weight>
  void define_sum(Stage& total, const Left& left, const Weight& weight) {
    const Axis k = weight.reduce(1);
    total(r, c) = sum(k, left(k) * weight(c, k));
  }
  Value activated(const Value& v) const {
    const auto is = [&](ChainActivation f) { return Value(activation) == static_cast<int>(f); };
    const Value by_sigmoid = select(is(ChainActivation::sigmoid), sigmoid(v), silu(v));
    const Value others = select(is(ChainActivation::tanh), tanh(v), select(is(ChainActivation::gelu), gelu(v), by_sigmoid));
    return select(is(ChainActivation::relu), relu(v), others);
  }
  /// A thread's own sum, several terms' loads under way.
  static void add_up(Halide::Func total, const Halide::LoopLevel& level) {
    constexpr int kUnderWay = 8;
    const Halide::RVar k = total.rvars(0).at(0);
    Halide::RVar outer("terms"), inner("term");
    total.compute_at(level)
        .update()
        .split(k, outer, inner, kUnderWay, Halide::TailStrategy::GuardWithIf)
        .unroll(inner);
  }
  /// What is between two layers: a block's rows, in shared memory.
  void hold(Halide::Func hidden, Halide::Func total, const Halide::LoopLevel& block) {
    Var step("step"), thread("thread");
    hidden.compute_at(block)
        .store_in(Halide::MemoryType::GPUShared)
        .bound_storage(r, kChainRows)
        .bound_storage(c, kMostChainUnits)
        .split(c, step, thread, kChainColumns, Halide::TailStrategy::GuardWithIf)
        .reorder(step, thread, r)
        .gpu_threads(thread, r);
    add_up(total, {hidden, step});
  }

  Stage sum1{"sum1"}, sum2{"sum2"}, sum3{"sum3"}, hidden1{"hidden1"}, hidden2{"hidden2"};
  Var r{"r"}, c{"c"};
};

const bool registered =
    register_kernel<LayerChain, f32>("layer_chain_in_one") &&
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
         .calls = {"layer_chain_in_one", "matmul", "tanh", "sigmoid", "silu", "cast"},
         .gradients = {{kAllInputs,
                        "layer_chain_grad(dy, x, weight1, bias1, weight2, bias2, weight3, bias3, "
                        "static_cast<int>(activation), activate_last, needs)",
                        "autograd/recipes/layer_chain.h"}},
         .plans = {"in_one", "each_layer"},
         .plan_sizes = {"rows", "inputs", "units", "outputs"}});

}  // namespace ashlar::dsl
