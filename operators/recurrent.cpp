// Recurrent sequences: for each step one kernel (generators/recurrent.cpp), two for the original GRU. Products that
// don't wait for a state are done for all steps at once.
#include "ashlar/ops/recurrent.h"

#include <array>
#include <vector>

#include "ashlar/ops/activations.h"
#include "ashlar/ops/binary.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unary.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

constexpr KernelKey kF32{.elements = {DType::f32, DType::f32}};

Tensor wide(const Tensor& x) { return x.to(DType::f32).contiguous(); }

/// Of all steps; one step for all of them stays one.
Tensor wide_steps(const Tensor& x) {
  if (x.rank() < 3 || x.size(0) < 2 || x.strides()[0] != 0) return wide(x);
  return wide(x.select(0, 0)).unsqueeze(0).broadcast_to(x.shape());
}

/// What a sequence is given, once it has been found to fit: in f32 and with an axis of members, of which there is one
/// where the caller's tensors have none.
struct Sequence {
  int64_t steps, members, batch, hidden, gates;
  Tensor x, weight, bias;  ///< [steps, members, batch, gates · hidden], [members, gates · hidden, hidden or 1]
  Tensor lengths;          ///< [batch], i32; without any there is something to point at
  bool is_bounded, reverse, has_members;

  /// x [steps, batch, gates · hidden], states [batch, hidden], weight_hh [gates · hidden, hidden], bias_hh
  /// [gates · hidden], or all of them with members in front (behind the steps); of one floating dtype. lengths
  /// [batch], i32 or i64. All on one device.
  Sequence(const char* operation, int64_t gate_count, std::initializer_list<const Tensor*> states, const Tensor& given,
           const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& row_lengths, bool is_reverse)
      : gates(gate_count), is_bounded(row_lengths.defined()), reverse(is_reverse), has_members(given.rank() == 4) {
    std::string came = "x: " + given.str() + ", weight_hh: " + weight_hh.str() + ", bias_hh: " + bias_hh.str();
    bool fits = (given.rank() == 3 || has_members) && given.size(-1) % gates == 0;
    hidden = fits ? given.size(-1) / gates : 0;
    batch = fits ? given.size(-2) : 0;
    members = fits && has_members ? given.size(1) : 1;
    const auto of_member = [&](const Shape& shape) { return has_members ? joined(members, shape) : shape; };
    fits = fits && weight_hh.shape() == of_member({gates * hidden, hidden}) &&
           bias_hh.shape() == of_member({gates * hidden});
    bool agrees = weight_hh.dtype() == given.dtype() && bias_hh.dtype() == given.dtype();
    bool is_near = weight_hh.device() == given.device() && bias_hh.device() == given.device();
    for (const Tensor* state : states) {
      came += ", state: " + state->str();
      fits = fits && state->shape() == of_member({batch, hidden});
      agrees = agrees && state->dtype() == given.dtype();
      is_near = is_near && state->device() == given.device();
    }
    bool are_counts = true;
    if (is_bounded) {
      came += ", lengths: " + row_lengths.str();
      fits = fits && row_lengths.shape() == Shape{batch};
      are_counts = row_lengths.dtype() == DType::i32 || row_lengths.dtype() == DType::i64;
      is_near = is_near && row_lengths.device() == given.device();
    }
    const std::string n = std::to_string(gates);
    if (!fits) {
      throw ShapeError(operation, came,
                       "x [steps, batch, " + n + " hidden], states [batch, hidden], weight_hh [" + n +
                           " hidden, hidden], bias_hh [" + n +
                           " hidden], lengths [batch]; or of an ensemble x [steps, "
                           "members, batch, " +
                           n + " hidden] and members before all others but lengths",
                       "Project the inputs first: matmul(x, weight_ih, {.transpose_b = true})");
    }
    if (!agrees || !is_floating(given.dtype()) || given.dtype() == DType::f64 || !are_counts) {
      throw DTypeError(operation, came, "one dtype of f32, f16 and bf16, lengths i32 or i64", "Convert with to(dtype)");
    }
    if (!is_near) throw DeviceError(operation, came, "tensors of one device", "Move them with to(device)");
    steps = given.size(0);
    x = with_members(wide_steps(given), 1);
    weight = with_members(weight_hh.to(DType::f32), 0);
    if (!weight.transpose(1, 2).is_contiguous()) weight = weight.contiguous();
    bias = with_members(wide(bias_hh), 0);
    lengths =
        is_bounded ? row_lengths.to(DType::i32) : Tensor::empty({1}, DType::i32, x.device()).broadcast_to({batch});
  }

  bool is_empty() const { return steps * members * batch * hidden == 0; }
  int64_t at(int64_t step) const { return reverse ? steps - 1 - step : step; }
  Tensor with_members(const Tensor& of, int64_t axis) const { return has_members ? of : of.unsqueeze(axis); }
  Tensor without_members(const Tensor& of, int64_t axis, DType dtype) const {
    return (has_members ? of : of.squeeze(axis)).to(dtype);
  }
  Tensor state(const Tensor& given) const { return with_members(wide(given), 0); }
  Tensor empty(int64_t columns) const {
    return Tensor::empty({steps, members, batch, columns}, DType::f32, x.device());
  }
  Tensor zeros(int64_t columns) const { return Tensor::zeros({members, batch, columns}, DType::f32, x.device()); }
  /// [members, batch, gates · hidden] as [members, batch, gates, hidden].
  Tensor by_gate(const Tensor& of) const { return of.reshape({members, batch, gates, hidden}); }

  /// weight_hhᵀ, whose columns a step's threads or vectors read side by side: copied where that serves several steps
  /// and it doesn't lie so, and on the CPU, whose vectors need it.
  Tensor transposed_weight() const {
    const Tensor columns = weight.transpose(1, 2);
    return (steps > 1 && !columns.is_contiguous()) || x.device().kind == DeviceKind::cpu ? spread(columns) : columns;
  }
  /// weight_hh, for steps back, whose kernels read whole rows.
  Tensor spread_weight() const { return steps > 1 ? spread(weight) : weight.contiguous(); }
  std::vector<Scalar> step_of(int64_t t) const { return {Scalar(t), Scalar(int64_t{is_bounded})}; }

  /// The state before each step.
  Tensor states_before(const Tensor& first, const Tensor& given) const {
    const Tensor states = with_members(wide(given), 1), before = Tensor::empty(states.shape(), DType::f32, x.device());
    if (is_empty()) return before;
    before.select(0, at(0)).copy_(first);
    if (steps == 1) return before;
    if (reverse) {
      before.slice(0, 0, steps - 1).copy_(states.slice(0, 1, steps));
    } else {
      before.slice(0, 1, steps).copy_(states.slice(0, 0, steps - 1));
    }
    return before;
  }

  /// [steps, members, batch, columns] as a matrix for each member, [members, steps · batch, columns], and back.
  Tensor as_matrices(const Tensor& of) const {
    return of.transpose(0, 1).reshape({members, steps * batch, of.size(3)});
  }
  Tensor as_steps(const Tensor& of) const { return of.reshape({members, steps, batch, of.size(2)}).transpose(0, 1); }
  /// What the gradients of the gates make of weights: Σ over steps and rows.
  Tensor weight_gradient(const Tensor& da, const Tensor& before) const {
    return matmul(as_matrices(da), as_matrices(before), {.transpose_a = true});
  }
  /// What reaches the first state.
  Tensor first_gradient(const Tensor& direct, const Tensor& da, const Tensor& rows_of_weight) const {
    return add(direct, matmul(da, rows_of_weight));
  }
  void check_results(const char* operation, std::initializer_list<const Tensor*> results) const {
    const Shape needed = has_members ? Shape{steps, members, batch, hidden} : Shape{steps, batch, hidden};
    for (const Tensor* one : results) {
      if (one->shape() == needed) continue;
      throw ShapeError(operation, one->str(),
                       "all that the sequence returned, and their gradients, of shape " + needed.str(),
                       "Give what the sequence returned");
    }
  }

 private:
  /// A copy whose rows are a line of memory more than a power of two apart, for hidden sizes that are one: a column of
  /// it would otherwise share a few sets of a cache.
  static Tensor spread(const Tensor& matrices) {
    constexpr int64_t kLine = 16;
    Shape shape = matrices.shape();
    shape[2] += kLine;
    Tensor copy = Tensor::empty(shape, matrices.dtype(), matrices.device()).slice(2, 0, matrices.size(2));
    copy.copy_(matrices);
    return copy;
  }
  static Shape joined(int64_t first, const Shape& rest) {
    Shape all{first};
    for (int64_t size : rest) all.push_back(size);
    return all;
  }
};

std::vector<Scalar> with(std::vector<Scalar> scalars, bool flag) {
  scalars.emplace_back(int64_t{flag});
  return scalars;
}

}  // namespace

Tensor rnn_sequence(const Tensor& x, const Tensor& h, const Tensor& weight_hh, const Tensor& bias_hh,
                    const Tensor& lengths, bool reverse, bool use_relu) try {
  const Sequence n("rnn_sequence", 1, {&h}, x, weight_hh, bias_hh, lengths, reverse);
  const Tensor y = n.empty(n.hidden), weight = n.transposed_weight();
  Tensor state = n.state(h);
  for (int64_t step = 0; step < n.steps && !n.is_empty(); step++) {
    const int64_t t = n.at(step);
    const Tensor next = y.select(0, t);
    launch(kernels::rnn_step, kF32, std::array{n.x.select(0, t), state, weight, n.bias, n.lengths},
           with(n.step_of(t), use_relu), std::span(&next, 1));
    state = next;
  }
  return n.without_members(y, 1, x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("rnn_sequence");
}

RnnSequenceGradResult rnn_sequence_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                                        const Tensor& bias_hh, const Tensor& y, const Tensor& lengths, bool reverse,
                                        bool use_relu) try {
  const Sequence n("rnn_sequence_grad", 1, {&h}, x, weight_hh, bias_hh, lengths, reverse);
  n.check_results("rnn_sequence_grad", {&dy, &y});
  const Tensor slopes = n.with_members(wide(dy), 1), states = n.with_members(wide(y), 1);
  const Tensor dx = n.empty(n.hidden), weight = n.spread_weight();
  Tensor direct = n.zeros(n.hidden), da = direct;
  const std::array passed{Tensor::empty_like(direct), Tensor::empty_like(direct)};
  for (int64_t step = n.steps - 1; step >= 0 && !n.is_empty(); step--) {
    const int64_t t = n.at(step);
    const std::array made{dx.select(0, t), passed[static_cast<size_t>(step % 2)]};
    launch(kernels::rnn_step_grad, kF32,
           std::array{states.select(0, t), slopes.select(0, t), direct, da, weight, n.lengths},
           with(n.step_of(t), use_relu), made);
    da = made[0];
    direct = made[1];
  }
  const DType dtype = x.dtype();
  const Tensor before = n.states_before(n.state(h), y);
  return {n.without_members(dx, 1, dtype), n.without_members(n.first_gradient(direct, da, n.weight), 0, dtype),
          n.without_members(n.weight_gradient(dx, before), 0, dtype), n.without_members(sum(dx, {0, 2}), 0, dtype)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("rnn_sequence_grad");
}

Tensor gru_sequence(const Tensor& x, const Tensor& h, const Tensor& weight_hh, const Tensor& bias_hh,
                    const Tensor& lengths, bool reverse, bool reset_after) try {
  const Sequence n("gru_sequence", 3, {&h}, x, weight_hh, bias_hh, lengths, reverse);
  const Tensor y = n.empty(n.hidden), weight = n.transposed_weight();
  std::array<Tensor, 2> gates;
  if (!reset_after) gates = {n.zeros(n.hidden), n.zeros(n.hidden)};
  Tensor state = n.state(h);
  for (int64_t step = 0; step < n.steps && !n.is_empty(); step++) {
    const int64_t t = n.at(step);
    const Tensor next = y.select(0, t), input = n.x.select(0, t);
    if (reset_after) {
      launch(kernels::gru_step, kF32, std::array{input, state, weight, n.bias, n.lengths}, n.step_of(t),
             std::span(&next, 1));
    } else {
      launch(kernels::gru_gates, kF32, std::array{input, state, weight, n.bias}, {}, gates);
      launch(kernels::gru_candidate, kF32, std::array{input, state, gates[0], gates[1], weight, n.bias, n.lengths},
             n.step_of(t), std::span(&next, 1));
    }
    state = next;
  }
  return n.without_members(y, 1, x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gru_sequence");
}

namespace {

GruSequenceGradResult gradients_of(const Sequence& n, const Tensor& dx, const Tensor& dh, const Tensor& dweight,
                                   const Tensor& dbias, DType dtype) {
  return {n.without_members(dx, 1, dtype), n.without_members(dh, 0, dtype), n.without_members(dweight, 0, dtype),
          n.without_members(dbias, 0, dtype)};
}

// With the reset behind the product.
GruSequenceGradResult reset_after_gradients(const Sequence& n, const Tensor& slopes, const Tensor& before,
                                            DType dtype) {
  const Tensor dx = n.empty(3 * n.hidden), da = n.empty(3 * n.hidden), weight = n.spread_weight();
  const Tensor a = n.as_steps(matmul(n.as_matrices(before), n.weight, {.transpose_b = true}));
  Tensor direct = n.zeros(n.hidden), next = n.zeros(3 * n.hidden);
  const std::array passed{n.by_gate(Tensor::empty_like(next)), n.by_gate(Tensor::empty_like(next))};
  for (int64_t step = n.steps - 1; step >= 0 && !n.is_empty(); step--) {
    const int64_t t = n.at(step);
    const Tensor& here = passed[static_cast<size_t>(step % 2)];
    launch(kernels::gru_step_grad, kF32,
           std::array{n.x.select(0, t), a.select(0, t), n.bias, before.select(0, t), slopes.select(0, t), direct, next,
                      weight, n.lengths},
           n.step_of(t), std::array{n.by_gate(dx.select(0, t)), n.by_gate(da.select(0, t)), here});
    direct = here.select(2, 0);
    next = da.select(0, t);
  }
  return gradients_of(n, dx, n.first_gradient(direct, next, n.weight), n.weight_gradient(da, before), sum(da, {0, 2}),
                      dtype);
}

// The original's. Gates don't wait for gradients: they are worked out anew for all steps at once.
GruSequenceGradResult reset_before_gradients(const Sequence& n, const Tensor& slopes, const Tensor& before,
                                             DType dtype) {
  const int64_t size = n.hidden;
  const auto gate_of = [&](const Tensor& state, int64_t gate) {
    const int64_t first = gate * size, last = first + size;
    const Tensor product = matmul(n.as_matrices(state), n.weight.slice(1, first, last), {.transpose_b = true});
    return add(add(n.as_steps(product), n.x.slice(3, first, last)), n.bias.slice(1, first, last).unsqueeze(1));
  };
  const Tensor r = sigmoid(gate_of(before, 0)), z = sigmoid(gate_of(before, 1)), reset_state = mul(r, before);
  const Tensor candidate = tanh(gate_of(reset_state, 2)), dx = n.empty(3 * size), weight = n.spread_weight();
  const Tensor dn = n.zeros(size), dz = n.zeros(size), to_state = n.zeros(size);
  Tensor direct = n.zeros(size), next = n.zeros(3 * size);
  const std::array passed{n.by_gate(Tensor::empty_like(next)), n.by_gate(Tensor::empty_like(next))};
  for (int64_t step = n.steps - 1; step >= 0 && !n.is_empty(); step--) {
    const int64_t t = n.at(step);
    launch(kernels::gru_candidate_grad, kF32,
           std::array{z.select(0, t), candidate.select(0, t), before.select(0, t), slopes.select(0, t), direct, next,
                      weight, n.lengths},
           n.step_of(t), std::array{dn, dz, to_state});
    const Tensor& here = passed[static_cast<size_t>(step % 2)];
    launch(kernels::gru_gates_grad, kF32, std::array{r.select(0, t), before.select(0, t), dn, dz, to_state, weight}, {},
           std::array{n.by_gate(dx.select(0, t)), here});
    direct = here.select(2, 0);
    next = dx.select(0, t);
  }
  const Tensor gates = dx.slice(3, 0, 2 * size), dcandidate = dx.slice(3, 2 * size);
  const Tensor dweight = cat({n.weight_gradient(gates, before), n.weight_gradient(dcandidate, reset_state)}, 1);
  const Tensor dh = n.first_gradient(direct, next.slice(2, 0, 2 * size), n.weight.slice(1, 0, 2 * size));
  return gradients_of(n, dx, dh, dweight, sum(dx, {0, 2}), dtype);
}

}  // namespace

GruSequenceGradResult gru_sequence_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                                        const Tensor& bias_hh, const Tensor& y, const Tensor& lengths, bool reverse,
                                        bool reset_after) try {
  const Sequence n("gru_sequence_grad", 3, {&h}, x, weight_hh, bias_hh, lengths, reverse);
  n.check_results("gru_sequence_grad", {&dy, &y});
  const Tensor slopes = n.with_members(wide(dy), 1), before = n.states_before(n.state(h), y);
  return reset_after ? reset_after_gradients(n, slopes, before, x.dtype())
                     : reset_before_gradients(n, slopes, before, x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gru_sequence_grad");
}

LstmSequenceResult lstm_sequence(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_hh,
                                 const Tensor& bias_hh, const Tensor& lengths, bool reverse) try {
  const Sequence n("lstm_sequence", 4, {&h, &c}, x, weight_hh, bias_hh, lengths, reverse);
  const Tensor y = n.empty(n.hidden), cells = n.empty(n.hidden), weight = n.transposed_weight();
  Tensor state = n.state(h), cell = n.state(c);
  for (int64_t step = 0; step < n.steps && !n.is_empty(); step++) {
    const int64_t t = n.at(step);
    const std::array next{y.select(0, t), cells.select(0, t)};
    launch(kernels::lstm_step, kF32, std::array{n.x.select(0, t), state, cell, weight, n.bias, n.lengths}, n.step_of(t),
           next);
    state = next[0];
    cell = next[1];
  }
  return {n.without_members(y, 1, x.dtype()), n.without_members(cells, 1, x.dtype())};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("lstm_sequence");
}

LstmSequenceGradResult lstm_sequence_grad(const Tensor& dy, const Tensor& dcells, const Tensor& x, const Tensor& h,
                                          const Tensor& c, const Tensor& weight_hh, const Tensor& bias_hh,
                                          const Tensor& y, const Tensor& cells, const Tensor& lengths,
                                          bool reverse) try {
  const Sequence n("lstm_sequence_grad", 4, {&h, &c}, x, weight_hh, bias_hh, lengths, reverse);
  n.check_results("lstm_sequence_grad", {&dy, &dcells, &y, &cells});
  const Tensor slopes = n.with_members(wide(dy), 1), cell_slopes = n.with_members(wide(dcells), 1);
  const Tensor before = n.states_before(n.state(h), y), cells_before = n.states_before(n.state(c), cells);
  const Tensor dx = n.empty(4 * n.hidden), weight = n.spread_weight();
  const Tensor a = n.as_steps(matmul(n.as_matrices(before), n.weight, {.transpose_b = true}));
  Tensor direct = n.zeros(n.hidden), carried = direct, next = n.zeros(4 * n.hidden);
  const auto four = [&] { return n.by_gate(Tensor::empty_like(next)); };
  const std::array passed{four(), four()}, passed_cells{four(), four()};
  for (int64_t step = n.steps - 1; step >= 0 && !n.is_empty(); step--) {
    const int64_t t = n.at(step);
    const auto turn = static_cast<size_t>(step % 2);
    launch(kernels::lstm_step_grad, kF32,
           std::array{n.x.select(0, t), a.select(0, t), n.bias, cells_before.select(0, t), slopes.select(0, t), direct,
                      cell_slopes.select(0, t), carried, next, weight, n.lengths},
           n.step_of(t), std::array{n.by_gate(dx.select(0, t)), passed_cells[turn], passed[turn]});
    carried = passed_cells[turn].select(2, 0);
    direct = passed[turn].select(2, 0);
    next = dx.select(0, t);
  }
  const DType dtype = x.dtype();
  return {n.without_members(dx, 1, dtype), n.without_members(n.first_gradient(direct, next, n.weight), 0, dtype),
          n.without_members(carried.contiguous(), 0, dtype), n.without_members(n.weight_gradient(dx, before), 0, dtype),
          n.without_members(sum(dx, {0, 2}), 0, dtype)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("lstm_sequence_grad");
}

}  // namespace ashlar
