#include "nn/optim/muon.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "nn/optim/options.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr double kWeightDecay = 0.01;  // AdamW's default

bool is_valid(const MuonOptions& options) {
  const AdamOptions& adamw = options.adamw;
  return is_part(options.momentum) && options.weight_decay >= 0 && options.ns_steps >= 0 && options.eps >= 0 &&
         is_part(adamw.beta1) && is_part(adamw.beta2) && adamw.epsilon >= 0 &&
         adamw.weight_decay.value_or(kWeightDecay) >= 0;
}

/// X of Muon's formula: about the nearest orthogonal matrix.
Tensor orthogonal(const Tensor& update, const MuonOptions& options) {
  const bool is_tall = update.size(0) > update.size(1);
  Tensor x = is_tall ? update.transpose(0, 1).contiguous() : update;
  const Tensor norm = sqrt(sum(mul(x, x)));
  x = div(x, maximum(norm, options.eps));
  for (int step = 0; step < options.ns_steps; step++) {
    const Tensor a = matmul(x, x, {.transpose_b = true});
    const Tensor polynomial = add(affine(a, -4.775, 0.0), affine(matmul(a, a), 2.0315, 0.0));
    x = add(affine(x, 3.4445, 0.0), matmul(polynomial, x));
  }
  return is_tall ? x.transpose(0, 1) : x;
}

}  // namespace

Muon::Muon(std::vector<ParameterGroup<MuonOptions>> groups) try
    : Optimizer([&] {
        std::vector<Group> all;
        for (const ParameterGroup<MuonOptions>& group : groups) {
          Group matrices{{}, group.options.learning_rate, {{"momentum_buffer"}}, {}};
          Group others{{}, group.options.adamw.learning_rate, {{"exp_avg"}, {"exp_avg_sq"}}, {}};
          for (const Var& parameter : group.parameters) {
            (group.options.matrices && parameter.rank() == 2 ? matrices : others).parameters.push_back(parameter);
          }
          all.push_back(std::move(matrices));
          all.push_back(std::move(others));
        }
        return all;
      }()),
      options_(options_of(groups)) {
  for (const MuonOptions& options : options_) {
    if (is_valid(options)) continue;
    throw ValueError("Muon",
                     "momentum " + std::to_string(options.momentum) + ", weight decay " +
                         std::to_string(options.weight_decay) + ", ns_steps " + std::to_string(options.ns_steps) +
                         ", eps " + std::to_string(options.eps) + ", or AdamW's",
                     "a momentum and betas in [0, 1) and the others 0 or more", "Start with the defaults");
  }
} catch (const std::bad_alloc&) {
  ashlar::detail::throw_out_of_host_memory("Muon");
}

void Muon::update(const Arena& arena) {
  const MuonOptions& options = options_[arena.group / 2];
  if (arena.group % 2 == 0) return update_matrices(arena, options);
  const AdamOptions& adamw = options.adamw;
  adam_step(arena.parameters.values(), arena.parameters.gradients(), arena.moments[0], arena.moments[1],
            arena.learning_rate, arena.gradient_scale, arena.step(), 1 - adamw.beta1, 1 - adamw.beta2, adamw.epsilon,
            adamw.weight_decay.value_or(kWeightDecay), largest_gradient(), AdamStepDecay::decoupled);
}

void Muon::update_matrices(const Arena& arena, const MuonOptions& options) const {
  const Tensor &values = arena.parameters.values(), &average = arena.moments[0];
  const auto number = [&](double value) { return Tensor::full({}, value, DType::f32, values.device()); };
  Tensor gradient = mul(arena.parameters.gradients().to(DType::f32), arena.gradient_scale);
  if (std::isfinite(largest_gradient())) gradient = clamp(gradient, -largest_gradient(), largest_gradient());
  average_step(average, gradient, number(1 - options.momentum));
  const Tensor update = options.nesterov ? lerp(gradient, average, number(options.momentum)) : average;
  const Tensor moved = Tensor::zeros(values.shape(), DType::f32, values.device());
  for (size_t i = 0; i < arena.parameters.parameters().size(); i++) {
    const Tensor part = arena.parameters.part(update, i);
    if (part.numel() == 0) continue;
    const double aspect = static_cast<double>(part.size(0)) / static_cast<double>(part.size(1));
    const Tensor x = affine(orthogonal(part, options).contiguous(), std::sqrt(std::max(1.0, aspect)), 0.0);
    arena.parameters.part(moved, i).copy_(x);
  }
  // w - lr (moved + weight_decay w) in one kernel; its momentum of 0 leaves a buffer that nobody reads
  sgd_step(values, moved.to(values.dtype()), Tensor::zeros_like(moved), arena.learning_rate, number(1), 0.0,
           options.weight_decay, std::numeric_limits<double>::infinity());
}

}  // namespace ashlar::nn
