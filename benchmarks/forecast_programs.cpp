// What the hybrid trainer's forecasts of loss and weights are made of (nn/hybrid): encoding a state, rolling the
// ensemble out, compressing a residual, applying one, and all of it as one graph.
#include <memory>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "benchmarks/benchmark.h"
#include "nn/hybrid/loss_ensemble.h"
#include "nn/hybrid/residuals.h"
#include "runtime/graph/graph.h"
#include "runtime/random/philox.h"

namespace ashlar::bench {
namespace {

constexpr int64_t kBatch = 32, kFeatures = 64, kEncoded = 128, kMembers = 5, kHidden = 256, kHorizon = 10;
constexpr int64_t kRank = 32, kOutputs = 1000, kInputs = 512;
constexpr double kBound = 0.0625;  // 1/√hidden: that of weights

Input weights_of(const Shape& shape, double bound = kBound) {
  return {.shape = shape, .values = {.low = -bound, .high = bound}};
}
const Input kStates{.shape = {kBatch, kFeatures}};
const std::vector<Input> kEncoder{weights_of({kEncoded, kFeatures}, 0.125), weights_of({kEncoded}, 0.125)};
const Input kFirst{.shape = {kMembers, kBatch, kHidden}};
const std::vector<Input> kUnits{weights_of({kMembers, kHidden, 3 * kHidden}), weights_of({kMembers, 3 * kHidden}),
                                weights_of({kMembers, 3 * kHidden})};
// A residual of that rank is a product of two: a benchmark's inputs are random.
const std::vector<Input> kFactors{{.shape = {kOutputs, kRank}}, {.shape = {kInputs, kRank}}};
const Input kWeights{.shape = {kOutputs, kInputs}}, kShare{.shape = {}, .values = {.low = 0.1, .high = 0.9}};

std::vector<Input> joined(std::initializer_list<std::vector<Input>> parts) {
  std::vector<Input> all;
  for (const std::vector<Input>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Many launches, replayed as one graph on a GPU from the second call on, of what the first left in `residual`.
Benchmark as_one_graph(
    std::string kernel, std::string name, std::vector<Input> inputs,
    std::function<std::vector<Tensor>(Tensors x, const Tensor& residual, const Tensor& random)> work) {
  struct State {
    Tensor residual, random;
    Graph graph;
    std::vector<Tensor> results;
  };
  const auto make = [work = std::move(work)]() -> Call {
    return [work, state = std::make_shared<State>()](Tensors x) {
      const NoGrad no_grad;
      const Device device = x[0].device();
      if (!state->residual.defined()) {
        state->residual = matmul(x[0], x[1], {.transpose_b = true});
        state->random = philox_state(1, device);
        return work(x, state->residual, state->random);
      }
      if (device.kind == DeviceKind::cpu) return work(x, state->residual, state->random);
      if (!state->graph.defined()) {
        state->graph = capture(device, [&] { state->results = work(x, state->residual, state->random); });
      }
      state->graph.replay();
      return state->results;
    };
  };
  return {.kernel = std::move(kernel),
          .name = std::move(name),
          .inputs = std::move(inputs),
          .make = make,
          .checked_call = 3,
          .stateful = true};
}

Var paths_from(Tensors states_and_encoder, Tensors start_and_units) {
  const Var encoded = nn::encode_state(states_and_encoder[0], states_and_encoder[1], states_and_encoder[2]);
  const Tensor first = tanh(matmul(encoded.value(), start_and_units[0], {.transpose_b = true}));
  const Var from(first.reshape({kBatch, kMembers, kHidden}).permute({1, 0, 2}));
  return nn::roll_out(from, start_and_units[1], start_and_units[2], start_and_units[3], kHorizon);
}

/// Corrections of matrices of their own one after the other, more of them than caches hold, as the trainer applies
/// them.
Benchmark corrections_in_turn() {
  constexpr int64_t kCount = 57;
  const auto of_each = [](Input one) {
    one.shape.insert(0, kCount);
    return one;
  };
  Benchmark benchmark = as_one_graph(
      "corrections_in_turn", "57_of_rank_32_of_1000x512",
      joined({{of_each(kFactors[0]), of_each(kFactors[1]), of_each(kWeights), kShare}}),
      [](Tensors x, const Tensor&, const Tensor&) {
        std::vector<Tensor> moved;
        for (int64_t i = 0; i < kCount; i++) {
          moved.push_back(nn::apply_correction(x[2].select(0, i), {x[0].select(0, i), x[1].select(0, i), {}}, x[3]));
        }
        return moved;
      });
  benchmark.flops = kCount * 2.0 * kOutputs * kInputs * kRank;
  benchmark.operations = kCount;
  return benchmark;
}

}  // namespace

std::vector<Benchmark> forecast_benchmarks() {
  const std::string residual = "rank_32_of_1000x512";
  return {
      simple(
          "encode_state", "32x64x128", joined({{kStates}, kEncoder}),
          [](Tensors x) {
            const NoGrad no_grad;
            return std::vector{nn::encode_state(x[0], x[1], x[2]).value()};
          },
          2.0 * kBatch * kFeatures * kEncoded),
      simple(
          "gru_rollout", "5_of_256_batch_32_steps_10", joined({{kFirst}, kUnits}),
          [](Tensors x) {
            const NoGrad no_grad;
            return std::vector{nn::roll_out(x[0], x[1], x[2], x[3], kHorizon).value()};
          },
          6.0 * kHorizon * kMembers * kBatch * kHidden * kHidden),
      as_one_graph("compress_residuals", residual, kFactors,
                   [](Tensors, const Tensor& from, const Tensor& random) {
                     const nn::LowRank found = nn::compress_residual(random, from, kRank);
                     return std::vector{found.values, found.left, found.right};
                   }),
      simple(
          "apply_corrections", residual, joined({{kWeights}, kFactors, {kShare}}),
          [](Tensors x) {
            const NoGrad no_grad;
            return std::vector{nn::apply_correction(x[0], {x[1], x[2], {}}, x[3])};
          },
          2.0 * kOutputs * kInputs * kRank),
      corrections_in_turn(),
      as_one_graph(
          "forecast_chain", "batch_32",
          joined(
              {kFactors, {kWeights, kShare, kStates}, kEncoder, {weights_of({kMembers * kHidden, kEncoded})}, kUnits}),
          [](Tensors x, const Tensor& from, const Tensor& random) {
            const Tensor corrected = nn::apply_correction(x[2], nn::compress_residual(random, from, kRank), x[3]);
            return std::vector{corrected, paths_from(x.subspan(4, 3), x.subspan(7, 4)).value()};
          })};
}

}  // namespace ashlar::bench
