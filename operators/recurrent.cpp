// Recurrent sequences: for each step a product with the state before and one kernel (generators/recurrent.cpp).
// Products that don't wait for a state are done for all steps at once.
#include "ashlar/ops/recurrent.h"

#include <array>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/reduction.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr KernelKey kF32{.elements = {DType::f32, DType::f32}};

/// The sizes of a call, once they have been found to fit.
struct Sequence {
  int64_t steps, batch, hidden;

  /// x [steps, batch, gates · hidden], states [batch, hidden], weight_hh [gates · hidden, hidden], bias_hh
  /// [gates · hidden]; all of one floating dtype on one device.
  Sequence(const char* operation, int64_t gates, std::initializer_list<const Tensor*> states, const Tensor& x,
           const Tensor& weight_hh, const Tensor& bias_hh) {
    std::string came = "x: " + x.str() + ", weight_hh: " + weight_hh.str() + ", bias_hh: " + bias_hh.str();
    bool fits = x.rank() == 3 && x.size(2) % gates == 0;
    hidden = fits ? x.size(2) / gates : 0;
    fits = fits && weight_hh.shape() == Shape{gates * hidden, hidden} && bias_hh.shape() == Shape{gates * hidden};
    bool agrees = weight_hh.dtype() == x.dtype() && bias_hh.dtype() == x.dtype();
    bool is_near = weight_hh.device() == x.device() && bias_hh.device() == x.device();
    for (const Tensor* state : states) {
      came += ", state: " + state->str();
      fits = fits && state->shape() == Shape{x.size(1), hidden};
      agrees = agrees && state->dtype() == x.dtype();
      is_near = is_near && state->device() == x.device();
    }
    const std::string n = std::to_string(gates);
    if (!fits) {
      throw ShapeError(operation, came,
                       "x [steps, batch, " + n + " hidden], states [batch, hidden], weight_hh [" + n +
                           " hidden, hidden], bias_hh [" + n + " hidden]",
                       "Project the inputs first: matmul(x, weight_ih, {.transpose_b = true})");
    }
    if (!agrees || !is_floating(x.dtype()) || x.dtype() == DType::f64) {
      throw DTypeError(operation, came, "one dtype of f32, f16 and bf16", "Convert with to(dtype)");
    }
    if (!is_near) throw DeviceError(operation, came, "tensors of one device", "Move them with to(device)");
    steps = x.size(0);
    batch = x.size(1);
  }
  int64_t at(int64_t step, bool reverse) const { return reverse ? steps - 1 - step : step; }
  bool is_empty() const { return steps * batch * hidden == 0; }
};

Tensor wide(const Tensor& x) { return x.to(DType::f32).contiguous(); }

/// state weight_hhᵀ + bias_hh
Tensor projected(const Tensor& state, const Tensor& weight_hh, const Tensor& bias_hh) {
  return matmul(state, weight_hh, {.transpose_b = true}, bias_hh);
}

/// The state before each step, [steps, batch, hidden].
Tensor states_before(const Sequence& n, const Tensor& first, const Tensor& states, bool reverse) {
  const Tensor before = Tensor::empty(states.shape(), DType::f32, states.device());
  if (n.is_empty()) return before;
  before.select(0, n.at(0, reverse)).copy_(first);
  if (n.steps == 1) return before;
  if (reverse) {
    before.slice(0, 0, n.steps - 1).copy_(states.slice(0, 1, n.steps));
  } else {
    before.slice(0, 1, n.steps).copy_(states.slice(0, 0, n.steps - 1));
  }
  return before;
}

/// What the gradients of the gates make of the weights: Σ over steps and batch.
Tensor weight_gradient(const Tensor& da, const Tensor& before) {
  const Tensor rows = da.reshape({da.size(0) * da.size(1), da.size(2)});
  return matmul(rows, before.reshape({rows.size(0), before.size(2)}), {.transpose_a = true});
}

Tensor zeros_like(const Tensor& x) { return Tensor::zeros(x.shape(), x.dtype(), x.device()); }

}  // namespace

Tensor gru_sequence(const Tensor& x, const Tensor& h, const Tensor& weight_hh, const Tensor& bias_hh,
                    bool reverse) try {
  const Sequence n("gru_sequence", 3, {&h}, x, weight_hh, bias_hh);
  const Tensor y = Tensor::empty({n.steps, n.batch, n.hidden}, DType::f32, x.device());
  const Tensor inputs = wide(x), weight = wide(weight_hh), bias = wide(bias_hh);
  Tensor state = wide(h);
  for (int64_t step = 0; step < n.steps && !n.is_empty(); step++) {
    const int64_t t = n.at(step, reverse);
    const Tensor next = y.select(0, t);
    launch(kernels::gru_step, kF32, std::array{inputs.select(0, t), projected(state, weight, bias), state}, {},
           std::span(&next, 1));
    state = next;
  }
  return y.to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gru_sequence");
}

GruSequenceGradResult gru_sequence_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                                        const Tensor& bias_hh, const Tensor& y, bool reverse) try {
  const Sequence n("gru_sequence_grad", 3, {&h}, x, weight_hh, bias_hh);
  const Shape states{n.steps, n.batch, n.hidden};
  if (dy.shape() != states || y.shape() != states) {
    throw ShapeError("gru_sequence_grad", "dy: " + dy.str() + ", y: " + y.str(), "both of shape " + states.str(),
                     "Give what gru_sequence returned");
  }
  const Tensor inputs = wide(x), weight = wide(weight_hh), slopes = wide(dy);
  const Tensor before = states_before(n, wide(h), wide(y), reverse);
  const Tensor dx = Tensor::zeros({n.steps, n.batch, 3 * n.hidden}, DType::f32, x.device()), da = zeros_like(dx);
  Tensor direct = Tensor::zeros({n.batch, n.hidden}, DType::f32, x.device()), back = direct;
  if (!n.is_empty()) {
    const Tensor a = projected(before, weight, wide(bias_hh));
    const Tensor dh = Tensor::empty({n.batch, 3, n.hidden}, DType::f32, x.device()), other = zeros_like(dh);
    for (int64_t step = n.steps - 1; step >= 0; step--) {
      const int64_t t = n.at(step, reverse);
      const auto gates = [&](const Tensor& of) { return of.select(0, t).reshape({n.batch, 3, n.hidden}); };
      const Tensor& here = step % 2 == 0 ? dh : other;  // what the step before reads is kept meanwhile
      launch(kernels::gru_step_grad, kF32,
             std::array{inputs.select(0, t), a.select(0, t), before.select(0, t), slopes.select(0, t), direct, back},
             {}, std::array{gates(dx), gates(da), here});
      direct = here.select(1, 0);
      back = matmul(da.select(0, t), weight);
    }
  }
  const DType dtype = x.dtype();
  return {dx.to(dtype), add(direct, back).to(dtype), weight_gradient(da, before).to(dtype), sum(da, {0, 1}).to(dtype)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gru_sequence_grad");
}

LstmSequenceResult lstm_sequence(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_hh,
                                 const Tensor& bias_hh, bool reverse) try {
  const Sequence n("lstm_sequence", 4, {&h, &c}, x, weight_hh, bias_hh);
  const Tensor y = Tensor::empty({n.steps, n.batch, n.hidden}, DType::f32, x.device());
  const Tensor cells = Tensor::empty(y.shape(), DType::f32, x.device());
  const Tensor inputs = wide(x), weight = wide(weight_hh), bias = wide(bias_hh);
  Tensor state = wide(h), cell = wide(c);
  for (int64_t step = 0; step < n.steps && !n.is_empty(); step++) {
    const int64_t t = n.at(step, reverse);
    const std::array next{y.select(0, t), cells.select(0, t)};
    launch(kernels::lstm_step, kF32, std::array{inputs.select(0, t), projected(state, weight, bias), cell}, {}, next);
    state = next[0];
    cell = next[1];
  }
  return {y.to(x.dtype()), cells.to(x.dtype())};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("lstm_sequence");
}

LstmSequenceGradResult lstm_sequence_grad(const Tensor& dy, const Tensor& dcells, const Tensor& x, const Tensor& h,
                                          const Tensor& c, const Tensor& weight_hh, const Tensor& bias_hh,
                                          const Tensor& y, const Tensor& cells, bool reverse) try {
  const Sequence n("lstm_sequence_grad", 4, {&h, &c}, x, weight_hh, bias_hh);
  const Shape states{n.steps, n.batch, n.hidden};
  for (const Tensor* one : {&dy, &dcells, &y, &cells}) {
    if (one->shape() == states) continue;
    throw ShapeError("lstm_sequence_grad", one->str(), "dy, dcells, y and cells of shape " + states.str(),
                     "Give what lstm_sequence returned");
  }
  const Tensor inputs = wide(x), weight = wide(weight_hh), slopes = wide(dy), cell_slopes = wide(dcells);
  const Tensor before = states_before(n, wide(h), wide(y), reverse);
  const Tensor cells_before = states_before(n, wide(c), wide(cells), reverse);
  const Tensor dx = Tensor::zeros({n.steps, n.batch, 4 * n.hidden}, DType::f32, x.device());
  Tensor carried = Tensor::zeros({n.batch, n.hidden}, DType::f32, x.device()), back = carried;
  if (!n.is_empty()) {
    const Tensor a = projected(before, weight, wide(bias_hh));
    const Tensor dc = Tensor::empty({n.batch, 4, n.hidden}, DType::f32, x.device()), other = zeros_like(dc);
    for (int64_t step = n.steps - 1; step >= 0; step--) {
      const int64_t t = n.at(step, reverse);
      const Tensor& here = step % 2 == 0 ? dc : other;
      launch(kernels::lstm_step_grad, kF32,
             std::array{inputs.select(0, t), a.select(0, t), cells_before.select(0, t), slopes.select(0, t), back,
                        cell_slopes.select(0, t), carried},
             {}, std::array{dx.select(0, t).reshape({n.batch, 4, n.hidden}), here});
      carried = here.select(1, 0);
      back = matmul(dx.select(0, t), weight);
    }
  }
  const DType dtype = x.dtype();
  return {dx.to(dtype), back.to(dtype), carried.to(dtype), weight_gradient(dx, before).to(dtype),
          sum(dx, {0, 1}).to(dtype)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("lstm_sequence_grad");
}

}  // namespace ashlar
