// Programs of several calls: what a user's training step or inference costs.
#include <memory>
#include <optional>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/ops/fused_chain.h"
#include "autograd/backward.h"
#include "benchmarks/benchmark.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "runtime/graph/graph.h"

namespace ashlar::bench {
namespace {

using enum DType;
using conformance::Pattern;

Input labels(int64_t rows, int64_t classes) {
  return {.shape = {rows},
          .values = {.pattern = Pattern::integers, .low = 0, .high = static_cast<double>(classes - 1)},
          .dtype = i64};
}

// One kernel of the user's own for a chain of three operators.
Benchmark fused_chain_of(const Shape& a, const Shape& b, const std::string& name) {
  Benchmark chain = simple("fused_chain", name, {{.shape = a}, {.shape = b}, {.shape = a}},
                           [](Tensors x) { return std::vector{fused_chain(x[0], x[1], x[2])}; });
  chain.dtypes = {f32, f16, bf16};
  return chain;
}

// The loss and its gradient: dL/dlogits of mean(cross_entropy(logits, labels)).
Benchmark cross_entropy_training(int64_t rows, int64_t classes) {
  return simple("cross_entropy", "training_" + std::to_string(rows) + "x" + std::to_string(classes),
                {{.shape = {rows, classes}}, labels(rows, classes)}, [](Tensors x) {
                  const Var logits(x[0], true);
                  const Var loss = nn::cross_entropy(logits, x[1]);
                  backward(loss);
                  return std::vector{loss.value(), logits.grad()};
                });
}

// Adam over `count` parameters of `size` elements each, with fixed gradients.
Benchmark adam(int64_t count, int64_t size, std::string name) {
  struct State {
    std::vector<Var> parameters;
    std::optional<nn::Adam> optimizer;
  };
  const auto make = [count]() -> Call {
    return [count, state = std::make_shared<State>()](Tensors x) {
      if (!state->optimizer) {
        for (int64_t i = 0; i < count; ++i) {
          state->parameters.emplace_back(x[0].select(0, i).clone(), true);
          state->parameters.back().set_grad(x[1].select(0, i).clone());
        }
        state->optimizer.emplace(state->parameters);
      }
      state->optimizer->step();
      return std::vector{state->parameters.front().value(), state->parameters.back().value()};
    };
  };
  Benchmark benchmark{.kernel = "adam",
                      .name = std::move(name),
                      .inputs = {{.shape = {count, size}}, {.shape = {count, size}}},
                      .make = make,
                      .stateful = true};
  // Reads parameter, gradient and both moments, writes all but the gradient.
  benchmark.bytes = 7.0 * 4.0 * static_cast<double>(count * size);
  return benchmark;
}

// One step of ashlar-train's network, 784-256-128-10 with ReLU, and Adam; inputs: pixels, labels, then each layer's
// weight and bias to start from. On a GPU, as nn::Trainer does, the second step is captured and the further ones replay
// it.
class MlpStep {
 public:
  std::vector<Tensor> operator()(Tensors x) {
    if (!optimizer_) {
      build(x);
      return {step(x)};
    }
    if (x[0].device().kind == DeviceKind::cpu) return {step(x)};
    if (!graph_.defined()) graph_ = capture(x[0].device(), [&] { loss_ = step(x); });
    graph_.replay();
    return {loss_};
  }

 private:
  Tensor step(Tensors x) {
    optimizer_->zero_grad();
    const Var loss = nn::cross_entropy(model_(x[0]), x[1]);
    backward(loss);
    optimizer_->step();
    return loss.value();
  }
  void build(Tensors x) {
    Random random(0);
    for (size_t i = 2; i + 1 < x.size(); i += 2) {
      model_.add<nn::Linear>(x[i].size(1), x[i].size(0), random);
      if (i + 3 < x.size()) model_.add<nn::ReLU>();
    }
    model_.to(x[0].device());
    const std::vector<Var> parameters = model_.parameters();
    for (size_t i = 2; i < x.size(); ++i) parameters[i - 2].value().copy_(x[i]);
    optimizer_.emplace(parameters);
  }
  nn::Sequential model_;
  std::optional<nn::Adam> optimizer_;
  Graph graph_;
  Tensor loss_;
};

// x + 1, `length` times, as a graph.
Benchmark captured_chain(int length, const Input& input) {
  struct State {
    Graph graph;
    Tensor y;
  };
  const auto make = [length]() -> Call {
    return [length, state = std::make_shared<State>()](Tensors x) {
      if (!state->graph.defined()) {
        state->graph = capture(x[0].device(), [&] {
          state->y = x[0];
          for (int i = 0; i < length; ++i) state->y = affine(state->y, 1.0, 1.0);
        });
      }
      state->graph.replay();
      return std::vector{state->y};
    };
  };
  return {.kernel = "graph",
          .name = "chain_of_" + std::to_string(length),
          .inputs = {input},
          .make = make,
          .operations = length,
          .stateful = true};
}

Benchmark mlp_training(int64_t batch) {
  const std::vector<int64_t> widths{784, 256, 128, 10};
  std::vector<Input> inputs{{.shape = {batch, widths[0]}}, labels(batch, 10)};
  double parameters = 0;
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    inputs.push_back({.shape = {widths[i + 1], widths[i]}, .values = {.low = -0.04, .high = 0.04}});
    inputs.push_back({.shape = {widths[i + 1]}, .values = {.low = -0.04, .high = 0.04}});
    parameters += static_cast<double>(widths[i] * widths[i + 1]);
  }
  // Forward, gradient of the weights and, but for the first layer, of the inputs: 2 flops for each weight and sample.
  const double first = static_cast<double>(widths[0] * widths[1]);
  return {.kernel = "mlp_step",
          .name = "batch_" + std::to_string(batch),
          .inputs = std::move(inputs),
          .make = [] { return [step = std::make_shared<MlpStep>()](Tensors x) { return (*step)(x); }; },
          .flops = 2.0 * static_cast<double>(batch) * (3 * parameters - first),
          .checked_call = 5,
          .stateful = true};
}

}  // namespace

std::vector<Benchmark> program_benchmarks() {
  const Input small{.shape = {1024}};
  return {fused_chain_of({int64_t{1} << 26}, {int64_t{1} << 26}, "64M"),
          fused_chain_of({16384, 4096}, {4096}, "row_16384x4096"),
          cross_entropy_training(8192, 50257),
          cross_entropy_training(1024, 10000),
          adam(200, 500000, "100M_in_200"),
          adam(20, 500000, "10M_in_20"),
          simple("add", "1K", {small, small}, [](Tensors x) { return std::vector{add(x[0], x[1])}; }),
          captured_chain(100, small),
          mlp_training(64),
          mlp_training(128)};
}

}  // namespace ashlar::bench
