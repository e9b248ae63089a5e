#include "nn/modules/recurrent.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ashlar/ad.h"
#include "ashlar/ops/compare.h"
#include "ashlar/var_arithmetic.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// Along an axis; a single one isn't copied. Above the 64 that cat() takes, in groups of as many.
Var joined(std::vector<Var> parts, int64_t axis) {
  constexpr size_t kMost = 64;
  while (parts.size() > 1) {
    std::vector<Var> groups;
    for (size_t i = 0; i < parts.size(); i += kMost) {
      groups.push_back(ad::cat(std::span(parts).subspan(i, std::min(kMost, parts.size() - i)), axis));
    }
    parts = std::move(groups);
  }
  return parts[0];
}

void check_sizes(const std::type_info& type, int64_t input_size, int64_t hidden_size, int64_t layers) {
  if (input_size > 0 && hidden_size > 0 && layers > 0) return;
  throw ValueError(class_name(type),
                   std::to_string(input_size) + " inputs, " + std::to_string(hidden_size) + " hidden, " +
                       std::to_string(layers) + " layers",
                   "positive numbers of all", "Pass the last dimension of x as input_size");
}

/// The states of all steps with zeros past each row's length.
Var padded(const Var& states, const Tensor& lengths) {
  if (!lengths.defined()) return states;
  const Tensor t = Tensor::arange(states.size(0), DType::i64, states.device()).unsqueeze(1);
  const Tensor is_there = lt(t, lengths.unsqueeze(0)).unsqueeze(2);
  return ad::where(is_there, states, Var(Tensor::zeros({1}, states.dtype(), states.device())));
}

}  // namespace

RecurrentWeights::RecurrentWeights(int64_t gates, int64_t input_size, int64_t hidden_size, bool bias,
                                   const Placement& placement) {
  const float bound = 1.0F / std::sqrt(static_cast<float>(hidden_size));
  const auto parameter = [&](const Shape& shape) {
    return Var(initial_uniform(shape, -bound, bound, placement), true);
  };
  weight_ih = parameter({gates * hidden_size, input_size});
  weight_hh = parameter({gates * hidden_size, hidden_size});
  if (!bias) return;
  bias_ih = parameter({gates * hidden_size});
  bias_hh = parameter({gates * hidden_size});
}

void RecurrentWeights::tell(Members& members, const std::string& suffix) {
  members.parameter("weight_ih" + suffix, weight_ih);
  members.parameter("weight_hh" + suffix, weight_hh);
  members.parameter("bias_ih" + suffix, bias_ih);
  members.parameter("bias_hh" + suffix, bias_hh);
}

Var RecurrentWeights::projected(const Var& x) const { return ad::matmul(x, weight_ih, {.transpose_b = true}, bias_ih); }

Var RecurrentWeights::bias() const {
  if (bias_hh.defined()) return bias_hh;
  return Var(Tensor::zeros({weight_hh.size(0)}, weight_hh.dtype(), weight_hh.device()));
}

template <class Derived>
Recurrent<Derived>::Recurrent(int64_t gates, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  check_sizes(typeid(Derived), input_size, hidden_size, options.num_layers);
  for (int64_t layer = 0; layer < options.num_layers; layer++) {
    const int64_t in = layer == 0 ? input_size : directions() * hidden_size;
    for (int64_t way = 0; way < directions(); way++) {
      layers_.emplace_back(gates, in, hidden_size, options.bias, placement_of(options));
    }
  }
  if (options.dropout != 0) {
    dropout_ =
        std::make_shared<Dropout>(options.dropout, DropoutOptions{.device = options.device, .random = options.random});
  }
  options_.random = nullptr;  // the caller's, and no longer needed
}

template <class Derived>
void Recurrent<Derived>::members(Members& members) {
  for (size_t k = 0; k < layers_.size(); k++) {
    const bool is_reverse = options_.bidirectional && k % 2 == 1;
    const std::string layer = std::to_string(k / static_cast<size_t>(directions()));
    layers_[k].tell(members, "_l" + layer + (is_reverse ? "_reverse" : ""));
  }
  members.child("dropout", dropout_);
}

template <class Derived>
std::string Recurrent<Derived>::details() const {
  return std::to_string(input_size_) + ", " + std::to_string(hidden_size_) +
         (options_.num_layers > 1 ? ", " + std::to_string(options_.num_layers) + " layers" : "") +
         (options_.bidirectional ? ", bidirectional" : "");
}

template <class Derived>
void Recurrent<Derived>::check(const Var& x, const std::vector<Var>& states) const {
  const bool is_sequence = x.rank() == 3 && x.size(2) == input_size_;
  bool fits = is_sequence;
  std::string came = "x: " + x.value().str();
  const Shape needed{options_.num_layers * directions(), is_sequence ? x.size(1) : 0, hidden_size_};
  for (const Var& state : states) {
    if (!state.defined()) continue;
    came += ", state: " + state.value().str();
    fits = fits && state.shape() == needed;
  }
  if (fits) return;
  throw ShapeError(class_name(typeid(Derived)), came,
                   "x " + std::string(options_.batch_first ? "[batch, steps, " : "[steps, batch, ") +
                       std::to_string(input_size_) + "] and states [" + std::to_string(needed[0]) + ", batch, " +
                       std::to_string(hidden_size_) + "]",
                   "Use unsqueeze() for a single sequence, or say batch_first");
}

template <class Derived>
template <class Sequence>
std::vector<Var> Recurrent<Derived>::run(const Var& given, std::vector<Var> states, const Tensor& lengths,
                                         const Sequence& sequence) const {
  Var x = options_.batch_first && given.rank() == 3 ? given.transpose(0, 1) : given;
  check(x, states);
  for (Var& state : states) {
    if (state.defined()) continue;
    const auto all = static_cast<int64_t>(layers_.size());
    state = Var(Tensor::zeros({all, x.size(1), hidden_size_}, x.dtype(), x.device()));
  }
  std::vector<std::vector<Var>> last(states.size());
  for (size_t k = 0; k < layers_.size();) {
    if (k > 0 && dropout_ != nullptr) x = dropout_->forward(x);
    std::vector<Var> ways;
    for (int64_t way = 0; way < directions(); way++, k++) {
      std::vector<Var> first;
      for (const Var& state : states) first.push_back(state.select(0, static_cast<int64_t>(k)));
      const std::vector<Var> steps = sequence(layers_[k].projected(x), first, layers_[k], way == 1);
      ways.push_back(padded(steps[0], lengths));
      for (size_t i = 0; i < states.size(); i++) {
        last[i].push_back((x.size(0) == 0 ? first[i] : steps[i].select(0, way == 1 ? 0 : -1)).unsqueeze(0));
      }
    }
    x = joined(std::move(ways), 2);
  }
  std::vector<Var> result{options_.batch_first ? x.transpose(0, 1) : x};
  for (std::vector<Var>& of_layers : last) result.push_back(joined(std::move(of_layers), 0));
  return result;
}

template class Recurrent<RNN>;
template class Recurrent<GRU>;
template class Recurrent<LSTM>;

RNN::RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent<RNN>(1, input_size, hidden_size, options) {}

RNN::Result RNN::forward(const Var& x, const Var& h_0, const Tensor& lengths) const {
  const bool use_relu = options_.nonlinearity == RecurrentActivation::relu;
  const std::vector<Var> all =
      run(x, {h_0}, lengths,
          [&](const Var& projected, const std::vector<Var>& first, const RecurrentWeights& own, bool is_reverse) {
            return std::vector{
                ad::rnn_sequence(projected, first[0], own.weight_hh, own.bias(), lengths, is_reverse, use_relu)};
          });
  return {all[0], all[1]};
}

GRU::GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent<GRU>(3, input_size, hidden_size, options) {}

GRU::Result GRU::forward(const Var& x, const Var& h_0, const Tensor& lengths) const {
  const std::vector<Var> all =
      run(x, {h_0}, lengths,
          [&](const Var& projected, const std::vector<Var>& first, const RecurrentWeights& own, bool is_reverse) {
            return std::vector{ad::gru_sequence(projected, first[0], own.weight_hh, own.bias(), lengths, is_reverse,
                                                options_.reset_after)};
          });
  return {all[0], all[1]};
}

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent<LSTM>(4, input_size, hidden_size, options) {}

LSTM::Result LSTM::forward(const Var& x, const Var& h_0, const Var& c_0, const Tensor& lengths) const {
  const std::vector<Var> all =
      run(x, {h_0, c_0}, lengths,
          [&](const Var& projected, const std::vector<Var>& first, const RecurrentWeights& own, bool is_reverse) {
            const auto [y, cells] =
                ad::lstm_sequence(projected, first[0], first[1], own.weight_hh, own.bias(), lengths, is_reverse);
            return std::vector{y, cells};
          });
  return {all[0], all[1], all[2]};
}

template <class Derived>
RecurrentCell<Derived>::RecurrentCell(int64_t gates, int64_t input_size, int64_t hidden_size,
                                      const RecurrentCellOptions& options)
    : input_size_(input_size),
      hidden_size_(hidden_size),
      weights_((check_sizes(typeid(Derived), input_size, hidden_size, 1), gates), input_size, hidden_size, options.bias,
               placement_of(options)) {}

template <class Derived>
std::string RecurrentCell<Derived>::details() const {
  return std::to_string(input_size_) + ", " + std::to_string(hidden_size_);
}

template <class Derived>
Var RecurrentCell<Derived>::state_of(const Var& x, const Var& state) const {
  const bool is_row = x.rank() == 2 && x.size(1) == input_size_;
  if (is_row && !state.defined()) return Var(Tensor::zeros({x.size(0), hidden_size_}, x.dtype(), x.device()));
  if (is_row && state.shape() == Shape{x.size(0), hidden_size_}) return state;
  throw ShapeError(
      class_name(typeid(Derived)), "x: " + x.value().str() + (state.defined() ? ", state: " + state.value().str() : ""),
      "x [batch, " + std::to_string(input_size_) + "] and states [batch, " + std::to_string(hidden_size_) + "]",
      "Use unsqueeze(0) for a single row");
}

template class RecurrentCell<RNNCell>;
template class RecurrentCell<GRUCell>;
template class RecurrentCell<LSTMCell>;

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell<RNNCell>(1, input_size, hidden_size, options), nonlinearity_(options.nonlinearity) {}

Var RNNCell::forward(const Var& x, const Var& h) const {
  const Var state = state_of(x, h), projected = weights_.projected(x).unsqueeze(0);
  const bool use_relu = nonlinearity_ == RecurrentActivation::relu;
  return ad::rnn_sequence(projected, state, weights_.weight_hh, weights_.bias(), {}, false, use_relu).select(0, 0);
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell<GRUCell>(3, input_size, hidden_size, options), reset_after_(options.reset_after) {}

Var GRUCell::forward(const Var& x, const Var& h) const {
  const Var state = state_of(x, h), projected = weights_.projected(x).unsqueeze(0);
  return ad::gru_sequence(projected, state, weights_.weight_hh, weights_.bias(), {}, false, reset_after_).select(0, 0);
}

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options)
    : RecurrentCell<LSTMCell>(4, input_size, hidden_size, options) {}

LSTMCell::Result LSTMCell::forward(const Var& x, const Var& h, const Var& c) const {
  const Var state = state_of(x, h), cell = state_of(x, c), projected = weights_.projected(x).unsqueeze(0);
  const auto [y, cells] = ad::lstm_sequence(projected, state, cell, weights_.weight_hh, weights_.bias());
  return {y.select(0, 0), cells.select(0, 0)};
}

}  // namespace ashlar::nn
