// Programs of several calls.
#include <memory>
#include <optional>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/ops/fused_chain.h"
#include "autograd/backward.h"
#include "benchmarks/benchmark.h"
#include "nn/loss.h"
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
          captured_chain(100, small)};
}

}  // namespace ashlar::bench
