#include "nn/modules/recurrent.h"

#include <cmath>
#include <string>
#include <utility>

#include "ashlar/ad.h"
#include "ashlar/var_arithmetic.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

/// Beside each other along an axis; a single one isn't copied.
Var joined(const std::vector<Var>& parts, int64_t axis) { return parts.size() == 1 ? parts[0] : ad::cat(parts, axis); }

}  // namespace

template <class Derived>
Recurrent<Derived>::Recurrent(const char* kind, int64_t gates, int64_t input_size, int64_t hidden_size,
                              const RecurrentOptions& options)
    : kind_(kind), input_size_(input_size), hidden_size_(hidden_size), gates_(gates), options_(options) {
  if (input_size <= 0 || hidden_size <= 0 || options.num_layers <= 0) {
    throw ValueError(kind,
                     std::to_string(input_size) + " inputs, " + std::to_string(hidden_size) + " hidden, " +
                         std::to_string(options.num_layers) + " layers",
                     "positive numbers of all", "Pass the last dimension of x as input_size");
  }
  const float bound = 1.0F / std::sqrt(static_cast<float>(hidden_size));
  const auto parameter = [&](const Shape& shape) {
    return Var(initial_uniform(shape, -bound, bound, placement_of(options)), true);
  };
  for (int64_t layer = 0; layer < options.num_layers; layer++) {
    const int64_t in = layer == 0 ? input_size : directions() * hidden_size;
    for (int64_t way = 0; way < directions(); way++) {
      std::string name = std::to_string(layer).insert(0, 1, 'l');
      if (way == 1) name += "_reverse";
      Direction direction{std::move(name), {}, {}, {}, {}};
      direction.weight_ih = parameter({gates * hidden_size, in});
      direction.weight_hh = parameter({gates * hidden_size, hidden_size});
      if (options.bias) {
        direction.bias_ih = parameter({gates * hidden_size});
        direction.bias_hh = parameter({gates * hidden_size});
      }
      layers_.push_back(std::move(direction));
    }
  }
  options_.random = nullptr;  // the caller's, and no longer needed
}

template <class Derived>
void Recurrent<Derived>::members(Members& members) {
  for (Direction& direction : layers_) {
    members.parameter("weight_ih_" + direction.name, direction.weight_ih);
    members.parameter("weight_hh_" + direction.name, direction.weight_hh);
    members.parameter("bias_ih_" + direction.name, direction.bias_ih);
    members.parameter("bias_hh_" + direction.name, direction.bias_hh);
  }
}

template <class Derived>
std::string Recurrent<Derived>::details() const {
  return std::to_string(input_size_) + ", " + std::to_string(hidden_size_) +
         (options_.num_layers > 1 ? ", " + std::to_string(options_.num_layers) + " layers" : "") +
         (options_.bidirectional ? ", bidirectional" : "");
}

template <class Derived>
void Recurrent<Derived>::check(const Var& x, std::initializer_list<const Var*> states) const {
  const bool is_sequence = x.rank() == 3 && x.size(2) == input_size_;
  bool fits = is_sequence;
  std::string came = "x: " + x.value().str();
  const Shape needed{options_.num_layers * directions(), is_sequence ? x.size(1) : 0, hidden_size_};
  for (const Var* state : states) {
    if (!state->defined()) continue;
    came += ", state: " + state->value().str();
    fits = fits && state->shape() == needed;
  }
  if (fits) return;
  throw ShapeError(kind_, came,
                   "x " + std::string(options_.batch_first ? "[batch, steps, " : "[steps, batch, ") +
                       std::to_string(input_size_) + "] and states [" + std::to_string(needed[0]) + ", batch, " +
                       std::to_string(hidden_size_) + "]",
                   "Use unsqueeze() for a single sequence, or say batch_first");
}

template <class Derived>
Var Recurrent<Derived>::state_of(const Var& states, size_t direction, const Var& x) const {
  if (states.defined()) return states.select(0, static_cast<int64_t>(direction));
  return Var(Tensor::zeros({x.size(1), hidden_size_}, x.dtype(), x.value().device()));
}

template <class Derived>
Var Recurrent<Derived>::projected(const Var& x, const Direction& direction) const {
  return ad::matmul(x, direction.weight_ih, {.transpose_b = true}, direction.bias_ih);
}

template <class Derived>
Var Recurrent<Derived>::bias_of(const Direction& direction) const {
  if (direction.bias_hh.defined()) return direction.bias_hh;
  const Tensor& weight = direction.weight_hh.value();
  return Var(Tensor::zeros({gates_ * hidden_size_}, weight.dtype(), weight.device()));
}

template class Recurrent<GRU>;
template class Recurrent<LSTM>;

GRU::GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent<GRU>("GRU", 3, input_size, hidden_size, options) {}

GRU::Result GRU::forward(const Var& given, const Var& h_0) const {
  Var x = options_.batch_first && given.rank() == 3 ? given.transpose(0, 1) : given;
  check(x, {&h_0});
  std::vector<Var> last;
  for (size_t k = 0; k < layers_.size();) {
    std::vector<Var> ways;
    for (int64_t way = 0; way < directions(); way++, k++) {
      const Direction& own = layers_[k];
      ways.push_back(ad::gru_sequence(projected(x, own), state_of(h_0, k, x), own.weight_hh, bias_of(own), way == 1));
      last.push_back((x.size(0) == 0 ? state_of(h_0, k, x) : ways.back().select(0, way == 1 ? 0 : -1)).unsqueeze(0));
    }
    x = joined(ways, 2);
  }
  return {options_.batch_first ? x.transpose(0, 1) : x, joined(last, 0)};
}

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options)
    : Recurrent<LSTM>("LSTM", 4, input_size, hidden_size, options) {}

LSTM::Result LSTM::forward(const Var& given, const Var& h_0, const Var& c_0) const {
  Var x = options_.batch_first && given.rank() == 3 ? given.transpose(0, 1) : given;
  check(x, {&h_0, &c_0});
  std::vector<Var> last, last_cells;
  for (size_t k = 0; k < layers_.size();) {
    std::vector<Var> ways;
    for (int64_t way = 0; way < directions(); way++, k++) {
      const Direction& own = layers_[k];
      const auto [y, cells] = ad::lstm_sequence(projected(x, own), state_of(h_0, k, x), state_of(c_0, k, x),
                                                own.weight_hh, bias_of(own), way == 1);
      ways.push_back(y);
      const bool is_empty = x.size(0) == 0;
      const int64_t end = way == 1 ? 0 : -1;
      last.push_back((is_empty ? state_of(h_0, k, x) : y.select(0, end)).unsqueeze(0));
      last_cells.push_back((is_empty ? state_of(c_0, k, x) : cells.select(0, end)).unsqueeze(0));
    }
    x = joined(ways, 2);
  }
  return {options_.batch_first ? x.transpose(0, 1) : x, joined(last, 0), joined(last_cells, 0)};
}

}  // namespace ashlar::nn
