#include "nn/hybrid/nowcaster.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "nn/init.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr int64_t kChunk = int64_t{1} << 18;  // of weights: bounds the memory of what is between
constexpr double kFarthest = 3;               // learnt ways, in moves of a weight's own size for each that is foretold

/// Moves [count, weights] to their size [1, weights], and to themselves in that unit [weights, count].
struct Scaled {
  Tensor size, moves;
};
Scaled scaled(const Tensor& moves) {
  const Tensor size = sqrt(mean(square(moves), {0}, /*keepdim=*/true));
  const Tensor unit = where(gt(size, 0.0), size, 1.0);
  return {size, div(moves, unit).transpose(0, 1).contiguous()};
}

/// Moves that a forecast looks at: half of those whose outcome can be in the window.
int64_t moves_of(int64_t snapshots, int64_t ahead) {
  const int64_t room = snapshots - 1 - ahead;
  if (ahead > 0 && room > 0) return (room + 1) / 2;
  throw ValueError("Nowcaster", std::to_string(snapshots) + " snapshots for " + std::to_string(ahead) + " moves ahead",
                   "one move ahead or more, and two snapshots more than that", "Take more snapshots");
}

}  // namespace

NowcastNetwork::NowcastNetwork(int64_t moves, int64_t ahead, int64_t hidden, Random& random, Device device) {
  const Placement placement{device, DType::f32, &random};
  const float bound = 1.0F / std::sqrt(static_cast<float>(moves));
  const double mean_move = static_cast<double>(ahead) / static_cast<double>(moves);
  line_ = Var(initial_full({moves, 1}, mean_move, placement), true);
  first_ = Var(initial_uniform({moves, hidden}, -bound, bound, placement), true);
  second_ = Var(initial_full({hidden, 1}, 0, placement), true);
}

void NowcastNetwork::members(Members& members) {
  members.parameter("line", line_);
  members.parameter("first", first_);
  members.parameter("second", second_);
}

Var NowcastNetwork::forward(const Var& moves) const {
  return ad::add(ad::matmul(moves, line_), ad::matmul(ad::tanh(ad::matmul(moves, first_)), second_));
}

Nowcaster::Nowcaster(const NowcastOptions& options, int64_t snapshots, int64_t ahead, Device device)
    : options_((options.validate(), options)),
      ahead_(ahead),
      moves_(moves_of(snapshots, ahead)),
      starts_(snapshots - ahead - moves_),
      random_(options.seed),
      network_(moves_, ahead, options.hidden, random_, device),
      adam_(network_.parameters(), {.learning_rate = options.learning_rate}),
      drawn_(philox_state(static_cast<int64_t>(options.seed), device)) {}

void Nowcaster::learn(const std::vector<Tensor>& windows) {
  const EnableGrad grad;
  for (int64_t update = 0; update < options_.updates; update++) {
    const Tensor& window = windows[static_cast<size_t>(update) % windows.size()];
    if (window.size(1) == 0) continue;
    const Tensor chosen = randint(drawn_, 0, window.size(1), {options_.batch});
    const Tensor points = index_select(window, chosen, 1);  // [snapshots, batch]
    const Tensor moves = sub(points.slice(0, 1), points.slice(0, 0, points.size(0) - 1));
    std::vector<Tensor> inputs, outcomes;
    for (int64_t start = 0; start < starts_; start++) {
      const int64_t now = start + moves_;
      const Scaled here = scaled(moves.slice(0, start, now));
      const Tensor way = sub(points.slice(0, now + ahead_, now + ahead_ + 1), points.slice(0, now, now + 1));
      const Tensor unit = where(gt(here.size, 0.0), div(way, here.size), 0.0);
      const double farthest = kFarthest * static_cast<double>(ahead_);
      inputs.push_back(here.moves);
      outcomes.push_back(clamp(unit, -farthest, farthest));
    }
    const Tensor truth = cat(outcomes, 1).reshape({-1, 1});
    adam_.zero_grad();
    const Var error = ad::sub(network_(Var(cat(inputs, 0))), Var(truth));
    ashlar::backward(ad::mean(ad::mul(error, error)));
    adam_.step();
  }
}

std::vector<Tensor> Nowcaster::foretell(const std::vector<Tensor>& windows, double share) const {
  const NoGrad no_grad;
  std::vector<Tensor> result;
  for (const Tensor& window : windows) {
    const int64_t last = window.size(0) - 1, elements = window.size(1);
    const Tensor there = window.select(0, last).clone();
    for (int64_t first = 0; first < elements; first += kChunk) {
      const int64_t end = std::min(first + kChunk, elements);
      const Tensor points = window.slice(0, last - moves_).slice(1, first, end);
      const Scaled here = scaled(sub(points.slice(0, 1), points.slice(0, 0, moves_)));
      const Tensor way = network_(Var(here.moves)).value().reshape({end - first});
      const Tensor part = there.slice(0, first, end);
      part.copy_(addcmul(part, way, here.size.reshape({end - first}), share));
    }
    result.push_back(there);
  }
  return result;
}

NamedTensors Nowcaster::state_dict() const {
  NamedTensors result{{"random", drawn_}};
  for (const auto& [name, tensor] : network_.state_dict()) result.emplace_back("network." + name, tensor);
  for (const auto& [name, tensor] : adam_.state_dict()) result.emplace_back("adam." + name, tensor);
  return result;
}

void Nowcaster::load_state_dict(const NamedTensors& state) {
  const auto part = [&](const std::string& prefix) {
    NamedTensors result;
    for (const auto& [name, tensor] : state) {
      if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
    }
    return result;
  };
  const NamedTensors random = part("random");
  if (random.size() != 1 || random[0].second.shape() != drawn_.shape() || random[0].second.dtype() != drawn_.dtype()) {
    throw ValueError("Nowcaster", "no state of random numbers", "what a training with the same options saved",
                     "Remove the checkpoint to begin anew");
  }
  network_.load_state_dict(part("network."));
  adam_.load_state_dict(part("adam."));
  drawn_.copy_(random[0].second);
}

}  // namespace ashlar::nn
