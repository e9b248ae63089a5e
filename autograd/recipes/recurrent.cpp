#include "autograd/recipes/recurrent.h"

#include <algorithm>
#include <span>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/composition.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

constexpr int64_t kMost = 64;  // Vars of one operation

/// x[0], x[1], … of up to kMost steps, as the outputs of one operation: so the gradient is one tensor of x's size, and
/// not one for each step.
std::vector<Var> unbound(const Var& x) {
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < x.size(0); t++) steps.push_back(x.value().select(0, t));
  return record_outputs("unbind", {x}, std::move(steps), [](const auto& pass) {
    std::vector<std::decay_t<decltype(pass.dy())>> dys;
    for (int t = 0; t < pass.output_count(); t++) dys.push_back(pass.dy(t));
    return pass.gradients(stack(std::span(std::as_const(dys)), 0));
  });
}

std::vector<Var> steps_of(const Var& x) {
  std::vector<Var> steps;
  for (int64_t t = 0; t < x.size(0); t += kMost) {
    for (Var& step : unbound(x.slice(0, t, std::min(t + kMost, x.size(0))))) steps.push_back(std::move(step));
  }
  return steps;
}

/// The other way round.
Var joined(std::vector<Var> steps) {
  for (Var& step : steps) step = step.unsqueeze(0);
  while (steps.size() > 1) {
    std::vector<Var> longer;
    for (size_t i = 0; i < steps.size(); i += kMost) {
      longer.push_back(cat(std::span<const Var>(steps).subspan(i, std::min<size_t>(kMost, steps.size() - i)), 0));
    }
    steps = std::move(longer);
  }
  return steps[0];
}

/// Gate number `gate` of x […, batch, gates · hidden].
Var gate_of(const Var& x, int64_t gate, int64_t hidden) { return x.slice(-1, gate * hidden, (gate + 1) * hidden); }

/// A recurrence over the steps of x: `step` makes the next states, of which those that come first are returned for
/// each. A row keeps its states where its length is over.
template <class Step>
std::vector<Var> sequence(const Var& x, std::vector<Var> states, const Tensor& lengths, bool reverse, size_t returned,
                          const Step& step) {
  std::vector<Var> steps = steps_of(x);
  if (reverse) std::ranges::reverse(steps);
  std::vector<std::vector<Var>> lists(returned);
  const auto count = static_cast<int64_t>(steps.size());
  for (int64_t i = 0; i < count; i++) {
    std::vector<Var> next = step(steps[static_cast<size_t>(i)], states);
    if (lengths.defined()) {
      const Tensor over = le(lengths, reverse ? count - 1 - i : i).unsqueeze(1);
      for (size_t k = 0; k < next.size(); k++) next[k] = where(over, states[k], next[k]);
    }
    states = std::move(next);
    for (size_t k = 0; k < returned; k++) lists[k].push_back(states[k]);
  }
  std::vector<Var> results;
  for (std::vector<Var>& list : lists) {
    if (reverse) std::ranges::reverse(list);
    results.push_back(joined(std::move(list)));
  }
  return results;
}

/// h weight_hhᵀ + bias_hh, of each member
Var projected(const Var& h, const Var& weight_hh, const Var& bias_hh) {
  return add(matmul(h, weight_hh, {.transpose_b = true}), bias_hh.unsqueeze(-2));
}

std::vector<Var> in_f32(const std::vector<Var>& inputs) {
  std::vector<Var> wide;
  for (const Var& x : inputs) wide.push_back(x.to(DType::f32));
  return wide;
}
std::vector<Var> narrowed(std::vector<Var> outputs, DType dtype) {
  for (Var& y : outputs) y = y.to(dtype);
  return outputs;
}

}  // namespace

template <>
std::vector<Tensor> rnn_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                             const Tensor& bias_hh, const Tensor& y, const Tensor& lengths, bool reverse, bool use_relu,
                             Needs) {
  return detail::as_list<Tensor>(rnn_sequence_grad(dy, x, h, weight_hh, bias_hh, y, lengths, reverse, use_relu));
}

template <>
std::vector<Var> rnn_grad(const Var& dy, const Var& x, const Var& h, const Var& weight_hh, const Var& bias_hh,
                          const Var&, const Tensor& lengths, bool reverse, bool use_relu, Needs needs) {
  if (x.size(0) == 0 || h.numel() == 0) return std::vector<Var>(4);
  const auto forward = [&](const std::vector<Var>& inputs) {
    const std::vector<Var> wide = in_f32(inputs);
    const auto step = [&](const Var& xs, const std::vector<Var>& states) {
      const Var a = add(xs, projected(states[0], wide[2], wide[3]));
      return std::vector<Var>{use_relu ? relu(a) : tanh(a)};
    };
    return narrowed(sequence(wide[0], {wide[1]}, lengths, reverse, 1, step), x.dtype());
  };
  return gradients_of_composition(forward, {x, h, weight_hh, bias_hh}, {dy}, needs);
}

template <>
std::vector<Tensor> gru_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                             const Tensor& bias_hh, const Tensor& y, const Tensor& lengths, bool reverse,
                             bool reset_after, Needs) {
  return detail::as_list<Tensor>(gru_sequence_grad(dy, x, h, weight_hh, bias_hh, y, lengths, reverse, reset_after));
}

template <>
std::vector<Var> gru_grad(const Var& dy, const Var& x, const Var& h, const Var& weight_hh, const Var& bias_hh,
                          const Var&, const Tensor& lengths, bool reverse, bool reset_after, Needs needs) {
  if (x.size(0) == 0 || h.numel() == 0) return std::vector<Var>(4);
  const auto forward = [&](const std::vector<Var>& inputs) {
    const std::vector<Var> wide = in_f32(inputs);
    const int64_t n = h.size(-1);
    const auto step = [&](const Var& xs, const std::vector<Var>& states) {
      const Var& old = states[0];
      const Var a = projected(old, wide[2], wide[3]);
      const auto gate = [&](int64_t g) { return sigmoid(add(gate_of(xs, g, n), gate_of(a, g, n))); };
      const Var reset = gate(0), update = gate(1);
      const auto of_reset_state = [&] {
        return projected(mul(reset, old), wide[2].slice(-2, 2 * n, 3 * n), gate_of(wide[3], 2, n));
      };
      const Var from_state = reset_after ? mul(reset, gate_of(a, 2, n)) : of_reset_state();
      const Var candidate = tanh(add(gate_of(xs, 2, n), from_state));
      return std::vector<Var>{add(candidate, mul(update, sub(old, candidate)))};
    };
    return narrowed(sequence(wide[0], {wide[1]}, lengths, reverse, 1, step), x.dtype());
  };
  return gradients_of_composition(forward, {x, h, weight_hh, bias_hh}, {dy}, needs);
}

template <>
std::vector<Tensor> lstm_grad(const Tensor& dy, const Tensor& dcells, const Tensor& x, const Tensor& h, const Tensor& c,
                              const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& y, const Tensor& cells,
                              const Tensor& lengths, bool reverse, Needs) {
  return detail::as_list<Tensor>(
      lstm_sequence_grad(dy, dcells, x, h, c, weight_hh, bias_hh, y, cells, lengths, reverse));
}

template <>
std::vector<Var> lstm_grad(const Var& dy, const Var& dcells, const Var& x, const Var& h, const Var& c,
                           const Var& weight_hh, const Var& bias_hh, const Var&, const Var&, const Tensor& lengths,
                           bool reverse, Needs needs) {
  if (x.size(0) == 0 || h.numel() == 0) return std::vector<Var>(5);
  const auto forward = [&](const std::vector<Var>& inputs) {
    const std::vector<Var> wide = in_f32(inputs);
    const int64_t n = h.size(-1);
    const auto step = [&](const Var& xs, const std::vector<Var>& states) {
      const Var gates = add(xs, projected(states[0], wide[3], wide[4]));
      const auto gate = [&](int64_t g) { return gate_of(gates, g, n); };
      const Var kept = mul(sigmoid(gate(1)), states[1]);
      const Var cell = add(kept, mul(sigmoid(gate(0)), tanh(gate(2))));
      return std::vector<Var>{mul(sigmoid(gate(3)), tanh(cell)), cell};
    };
    return narrowed(sequence(wide[0], {wide[1], wide[2]}, lengths, reverse, 2, step), x.dtype());
  };
  return gradients_of_composition(forward, {x, h, c, weight_hh, bias_hh}, {dy, dcells}, needs);
}

}  // namespace ashlar::recipes
