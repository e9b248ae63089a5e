#include "nn/data/sample_ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>
#include <unordered_map>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "nn/init.h"
#include "runtime/launch/launch.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr double kRate = 0.02;                      // of errors' running sums: 50 batches
constexpr double kLeast = 0x1p-20, kMost = 0x1p12;  // losses: the 32 octaves of SampleForecast's bins
constexpr int64_t kFeatures = 3;

void require(bool good, const std::string& came, const char* needed, const char* remedy) {
  if (!good) throw ValueError("SampleEnsembleOptions", came, needed, remedy);
}

const SampleEnsembleOptions& checked(const SampleEnsembleOptions& options) {
  options.validate();
  return options;
}

Tensor is_visit(const Tensor& logarithms) { return gt(logarithms, 0.5 * SampleEnsemble::kNone); }

}  // namespace

void SampleEnsembleOptions::validate() const {
  const auto number = [](const char* name, auto value) { return std::string(name) + " = " + std::to_string(value); };
  require(members >= 2 && members <= 64, number("members", members), "2 to 64: they have to disagree",
          "The default is 4");
  require(hidden > 0, number("hidden", hidden), "a positive number", "The default is 8");
  require(visits >= 2 && visits <= 256, number("visits", visits), "2 to 256", "The default is 6");
  require(learning_rate > 0 && std::isfinite(learning_rate), number("learning_rate", learning_rate),
          "a positive number", "The default is 0.01");
  require(disagreement >= 0 && std::isfinite(disagreement), number("disagreement", disagreement),
          "a finite number of 0 or more", "The default is 1");
  require(gain >= 0 && gain < 1, number("gain", gain), "a number in [0, 1)", "The default is 0.1");
}

std::string SampleEnsembleReport::str() const {
  char text[160];
  std::snprintf(text, sizeof text, "samples' losses: error %.3f against %.3f of the last value (%.0f %% smaller), %s",
                error, last_error, 100 * gain(), is_used ? "used" : "not used");
  return text;
}

SampleEnsemble::SampleEnsemble(const SampleEnsembleOptions& options, Random& random, Device device)
    : members_(checked(options).members),
      hidden_(options.hidden),
      input_(kFeatures, members_ * 3 * hidden_, {.device = device, .random = &random}) {
  const Placement placement{device, DType::f32, &random};
  const float bound = 1.0F / std::sqrt(static_cast<float>(hidden_));
  const auto parameter = [&](const Shape& shape) {
    return Var(initial_uniform(shape, -bound, bound, placement), true);
  };
  weight_hh_ = parameter({members_, hidden_, 3 * hidden_});
  bias_hh_ = parameter({members_, 3 * hidden_});
  head_weight_ = Var(initial_full({members_, 1, hidden_}, 0, placement), true);
  head_bias_ = Var(initial_full({members_, 1}, 0, placement), true);
}

void SampleEnsemble::members(Members& members) {
  members.child("input", input_);
  members.parameter("weight_hh", weight_hh_);
  members.parameter("bias_hh", bias_hh_);
  members.parameter("head_weight", head_weight_);
  members.parameter("head_bias", head_bias_);
}

Var SampleEnsemble::forward(const Tensor& windows) const {
  const int64_t batch = windows.size(0), visits = windows.size(1);
  const Tensor there = is_visit(windows), values = where(there, windows, 0.0).transpose(0, 1);  // [visits, batch]
  const Tensor before = there.slice(1, 0, visits - 1).transpose(0, 1);
  const Tensor change = where(before, sub(values.slice(0, 1), values.slice(0, 0, visits - 1)), 0.0);
  const Tensor none = Tensor::zeros({1, batch}, DType::f32, windows.device());
  const Tensor features =
      stack({affine(values, 0.25, 0.0), cat({none, change}, 0), cat({none, before.to(DType::f32)}, 0)}, 2);
  const Var gates = input_(Var(features.reshape({visits * batch, kFeatures})))
                        .reshape({visits, batch, members_, 3 * hidden_})
                        .permute({0, 2, 1, 3});
  const Var first(Tensor::zeros({members_, batch, hidden_}, DType::f32, windows.device()));
  const Var states = ad::gru_sequence(gates, first, weight_hh_.transpose(1, 2), bias_hh_);
  const Var moves = ad::add(ad::sum(ad::mul(states, head_weight_), {-1}), head_bias_);
  return ad::add(moves, Var(values.reshape({visits, 1, batch})));
}

SampleHistory::SampleHistory(const SampleEnsembleOptions& options, int64_t samples, uint64_t seed, Device device)
    : options_(checked(options)),
      random_(seed),
      ensemble_(options, random_, device),
      adam_(ensemble_.parameters(), {.learning_rate = options.learning_rate}),
      history_(Tensor::full({samples * (1 + options.visits)}, SampleEnsemble::kNone, DType::f32, device)),
      columns_(Tensor::arange(1 + options.visits, DType::i64, device).reshape({1, -1})),
      error_(Tensor::zeros({}, DType::f32, device)),
      last_error_(Tensor::zeros({}, DType::f32, device)),
      judged_(Tensor::zeros({}, DType::f32, device)) {
  const Tensor state = philox_state(static_cast<int64_t>(seed), device);
  halves_ = randint(state, 0, 2, {samples, options.members}).to(DType::u8);
}

/// known [batch, 1 + visits]: from before; now [batch].
void SampleHistory::judge(const Tensor& known, const Tensor& now) {
  const Tensor last = known.select(1, options_.visits), there = is_visit(last);
  const auto add_to = [](const Tensor& running, const Tensor& numbers) {
    running.copy_(affine(running, 1 - kRate, 0.0) + sum(numbers));
  };
  const auto square_of = [&](const Tensor& foretold) {
    const Tensor error = where(there, sub(foretold, now), 0.0);
    return mul(error, error);
  };
  add_to(error_, square_of(known.select(1, 0)));
  add_to(last_error_, square_of(last));
  add_to(judged_, there.to(DType::f32));
}

/// One step of Adam on the windows [batch, visits]; what was foretold before it, [members, batch].
Tensor SampleHistory::learn(const Tensor& windows, const Tensor& rows) {
  const int64_t batch = windows.size(0), visits = options_.visits;
  const EnableGrad grad;
  adam_.zero_grad();
  const Var next = ensemble_(windows);
  // A step has an outcome where it is a visit itself: what follows a visit is one.
  const Tensor halves = affine(index_select(halves_, rows).to(DType::f32), 2.0, 0.0).transpose(0, 1);
  const Tensor outcomes = windows.slice(1, 1).transpose(0, 1).reshape({visits - 1, 1, batch});
  const Tensor there = is_visit(windows.slice(1, 0, visits - 1)).to(DType::f32).transpose(0, 1);
  const Tensor count = affine(sum(there), static_cast<double>(options_.members), 1.0);
  const Tensor weights = there.reshape({visits - 1, 1, batch}) * (halves / count);
  const Var error = ad::sub(next.slice(0, 0, visits - 1), Var(outcomes));
  ashlar::backward(ad::sum(ad::mul(ad::mul(error, error), Var(weights))));
  adam_.step();
  return next.value().select(0, visits - 1);
}

Tensor SampleHistory::visit(const Tensor& rows, const Tensor& losses) {
  const int64_t batch = rows.numel(), width = 1 + options_.visits;
  const Device device = rows.device();
  if (!order_.defined() || order_.numel() != batch) order_ = Tensor::arange(batch, DType::i64, device).reshape({1, -1});
  // The last place of each place's sample; so all places of one have the same numbers.
  const Tensor same = eq(rows.reshape({batch, 1}), rows.reshape({1, batch}));
  const Tensor counts = index_select(losses, amax(where(same, order_, 0), {1}));
  const Tensor now = log(clamp(where(le(counts, kMost), counts, kMost), kLeast, kMost));  // NaN is the most, too

  const Tensor known = index_select(history_.reshape({-1, width}), rows);
  judge(known, now);
  const Tensor windows = cat({known.slice(1, 2), now.reshape({batch, 1})}, 1);
  const Tensor next = learn(windows, rows);  // [members, batch]
  const Tensor foretold = mean(next, {0});
  const Tensor entry = cat({foretold.reshape({batch, 1}), windows}, 1).reshape({-1});
  const Tensor places = add(mul(rows, width).reshape({batch, 1}), columns_).reshape({-1});
  launch(kernels::forecast_write, {.elements = {DType::f32}}, std::array{history_, places, entry}, {},
         std::span(&history_, 1));

  const double most = (1 - options_.gain) * (1 - options_.gain);
  const Tensor is_used = lt(error_, affine(last_error_, most, 0.0));
  const Tensor raised = add(foretold, affine(std(next, {0}), options_.disagreement, 0.0));
  return where(is_used, exp(raised), losses);
}

SampleEnsembleReport SampleHistory::report() const {
  const double error = error_.to_doubles()[0], last = last_error_.to_doubles()[0];
  const double judged = std::max(judged_.to_doubles()[0], 1e-30);
  return {.error = std::sqrt(error / judged),
          .last_error = std::sqrt(last / judged),
          .is_used = error < (1 - options_.gain) * (1 - options_.gain) * last};
}

NamedTensors SampleHistory::own_state() const {
  return {{"history", history_}, {"error", error_}, {"last_error", last_error_}, {"judged", judged_}};
}

NamedTensors SampleHistory::state_dict() const {
  NamedTensors result = own_state();
  for (const auto& [name, tensor] : ensemble_.state_dict()) result.emplace_back("network." + name, tensor);
  for (const auto& [name, tensor] : adam_.state_dict()) result.emplace_back("adam." + name, tensor);
  return result;
}

void SampleHistory::load_state_dict(const NamedTensors& state) {
  constexpr const char* kName = "SampleForecast::load_state_dict";
  constexpr const char* kRemedy = "Load what was saved with the same data and options";
  const auto part = [&](const std::string& prefix) {
    NamedTensors result;
    for (const auto& [name, tensor] : state) {
      if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
    }
    return result;
  };
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  for (const auto& [name, tensor] : own_state()) {
    const auto found = given.find(name);
    if (found == given.end()) throw ValueError(kName, "no tensor \"" + name + "\"", "all of its own", kRemedy);
    if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      throw ShapeError(kName, "\"" + name + "\" as " + found->second.str(), tensor.str(), kRemedy);
    }
  }
  ensemble_.load_state_dict(part("network."));
  adam_.load_state_dict(part("adam."));
  for (const auto& [name, tensor] : own_state()) tensor.copy_(given.at(name));
}

}  // namespace ashlar::nn
