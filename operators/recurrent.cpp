// Recurrent sequences: a kernel for each step (generators/recurrent.cpp), two for the original GRU, or one for all
// steps where a group of threads can hold a state. Products that don't wait for a state are done for all steps at once.
#include "ashlar/ops/recurrent.h"

#include <array>
#include <vector>

#include "ashlar/ops/activations.h"
#include "ashlar/ops/binary.h"
#include "ashlar/ops/matmul.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/unary.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

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
  int64_t at_once;         ///< steps of a launch, as many as there may be
  bool packs;              ///< launches pack the weights for their steps
  Tensor x, weight, bias;  ///< [steps, members, batch, gates · hidden], [members, gates · hidden, hidden or 1]
  Tensor lengths;          ///< [batch], i32; without any there is something to point at
  bool is_bounded, reverse, has_members;

  /// x [steps, batch, gates · hidden], states [batch, hidden], weight_hh [gates · hidden, hidden], bias_hh
  /// [gates · hidden], or all of them with members in front (behind the steps); of one floating dtype. lengths
  /// [batch], i32 or i64. All on one device.
  Sequence(const KernelInfo& of, int64_t gate_count, std::initializer_list<const Tensor*> states, const Tensor& given,
           const Tensor& weight_hh, const Tensor& bias_hh, const Tensor& row_lengths, bool is_reverse,
           bool is_a_kernel = true)
      : gates(gate_count), is_bounded(row_lengths.defined()), reverse(is_reverse), has_members(given.rank() == 4) {
    const char* operation = of.name;
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
    // A driver of OpenCL may take what a kernel reads for unchanged by it.
    constexpr int64_t kMostHidden = 128, kMostOfLittleMemory = 96, kMostOfCluster = 256;  // of StepProduct's plans
    constexpr int64_t kMostElements = INT32_MAX;                                          // of a kernel's argument
    const int64_t each = members * batch * gates * hidden;
    // Of 128 units and four gates, the weights that registers don't hold need more shared memory than some GPUs have.
    constexpr int kSharedOfFourGates = 108 << 10;
    const auto most_hidden = [&] {
      const bool has_room = gates < 4 || detail::cuda_shared_bytes(x.device().index) >= kSharedOfFourGates;
      return has_room ? kMostHidden : kMostOfLittleMemory;
    };
    const auto has_plan = [&] {
      return hidden <= most_hidden() ||
             (hidden > kMostHidden && hidden <= kMostOfCluster && detail::cuda_has_clusters(x.device().index));
    };
    const Device device = x.device();
    const bool is_cpu = device.kind == DeviceKind::cpu;
    const bool in_one = device.kind == DeviceKind::cuda && has_plan() && (steps + 1) * each <= kMostElements;
    const std::array plans{Plan{"all_steps", is_a_kernel && (is_cpu || in_one)}, Plan{"each_step"}};
    const bool of_all = choose_plan(of, device, plans, std::array{steps, members, batch, hidden}) == 0;
    packs = is_cpu && of_all;
    at_once = of_all ? std::max<int64_t>(steps, 1) : 1;
    // What a launch hands from step to step takes memory for each of its steps; few of them aren't worth packing.
    constexpr int64_t kMostOfPacked = 1 << 22, kLeastSteps = 8;
    if (packs && steps > 0)
      at_once = std::min(steps, std::max(kLeastSteps, kMostOfPacked / std::max<int64_t>(each, 1)));
  }

  bool is_empty() const { return steps * members * batch * hidden == 0; }
  Tensor with_members(const Tensor& of, int64_t axis) const { return has_members ? of : of.unsqueeze(axis); }
  Tensor without_members(const Tensor& of, int64_t axis, DType dtype) const {
    return (has_members ? of : of.squeeze(axis)).to(dtype).contiguous();
  }
  Tensor state(const Tensor& given) const { return with_members(wide(given), 0); }
  Tensor empty_step() const { return Tensor::empty({1, members, batch, hidden}, DType::f32, x.device()); }
  Shape of_state() const { return {members, batch, hidden}; }
  Shape of_gates() const { return {members, batch, gates * hidden}; }
  Shape by_gates() const { return {members, batch, gates, hidden}; }
  /// [steps, members, batch, gates · hidden] as [steps, members, batch, gates, hidden].
  Tensor by_gate(const Tensor& of) const { return of.reshape({of.size(0), members, batch, gates, hidden}); }

  /// weight_hhᵀ, whose columns a step's threads or vectors read side by side: copied where that serves several steps
  /// and it doesn't lie so, and on the CPU, whose vectors need it, unless the kernel packs it.
  Tensor transposed_weight() const {
    const Tensor columns = weight.transpose(1, 2);
    if (packs) return columns;
    return (steps > 1 && !columns.is_contiguous()) || x.device().kind == DeviceKind::cpu ? spread(columns) : columns;
  }
  /// weight_hh, for steps back, whose kernels read whole rows.
  Tensor spread_weight() const { return steps > 1 && !packs ? spread(weight) : weight.contiguous(); }

  /// The state before each step.
  Tensor states_before(const Tensor& first, const Tensor& given) const {
    const Tensor states = with_members(wide(given), 1), before = Tensor::empty(states.shape(), DType::f32, x.device());
    if (is_empty()) return before;
    before.select(0, reverse ? steps - 1 : 0).copy_(first);
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

/// The order in which a sequence's steps are made: step p of it is the p-th to be made. Launches have steps p,
/// p + 1, … as many as there are at once.
class Order {
 public:
  /// Forward, or back through the steps for gradients.
  Order(const Sequence& sequence, bool is_back) : n_(sequence), from_end_(sequence.reverse != is_back) {}

  bool from_end() const { return from_end_; }
  /// How many steps the launch that begins with step p has.
  int64_t count(int64_t p) const { return std::min(n_.at_once, n_.steps - p); }
  /// Of what has a step at each index of its first axis, those of the launch that begins with step p, or those `behind`
  /// so many.
  Tensor steps_of(const Tensor& all, int64_t p, int64_t behind = 0) const {
    return (from_end_ ? all.flip(0) : all).slice(0, p + behind, p + behind + count(p));
  }
  /// The scalars of that launch (StepOf), and one more.
  std::vector<Scalar> scalars(int64_t p) const {
    return {Scalar(from_end_ ? n_.steps - 1 - p : p), Scalar(int64_t{from_end_ ? -1 : 1}),
            Scalar(int64_t{n_.is_bounded})};
  }
  std::vector<Scalar> scalars(int64_t p, bool flag) const {
    std::vector<Scalar> all = scalars(p);
    all.emplace_back(int64_t{flag});
    return all;
  }
  /// launch(p) for each launch.
  template <class Launch>
  void for_each_launch(Launch launch) const {
    for (int64_t p = 0; p < n_.steps && !n_.is_empty(); p += n_.at_once) launch(p);
  }

 private:
  const Sequence& n_;
  bool from_end_;
};

/// Which of a trail's steps are asked for afterwards.
enum class Keep : uint8_t { all, last };

/// What each step hands to the next one: after(p), which is before(p + 1). Both are views of one memory, so that a
/// kernel of several steps reads what it wrote.
class Trail {
 public:
  /// Each of `sizes`, the first of them `first`, or zeros.
  Trail(const Sequence& sequence, const Order& order, Keep keep, const Shape& sizes, const Tensor& first = {})
      : n_(sequence), order_(order), is_short_(keep == Keep::last && sequence.at_once < sequence.steps) {
    // Each begins where a GPU's kernels may write (16 bytes).
    constexpr int64_t kAligned = 4;
    const int64_t pitch = detail::round_up(sizes.numel(), kAligned);
    const int64_t slots = (is_short_ ? n_.at_once : n_.steps) + 1;
    Shape shape = sizes, strides = dense_strides(sizes);
    shape.insert(0, slots);
    strides.insert(0, pitch);
    all_ = Tensor::empty({slots * pitch}, DType::f32, n_.x.device()).as_strided(shape, strides, 0);
    if (!first.defined()) {
      slot(0).fill_(0);
    } else if (n_.at_once > 1) {
      slot(0).copy_(first);
    } else {
      first_ = first.unsqueeze(0);
    }
  }
  /// To be asked for once for each launch, and before after(p).
  Tensor before(int64_t p) {
    if (p == 0 && first_.defined()) return first_;
    if (!is_short_) return order_.steps_of(all_, p);
    if (takes_turns()) return all_.slice(0, p % 2, p % 2 + 1);
    if (p > 0) slot(0).copy_(slot(n_.at_once));
    return all_.slice(0, 0, order_.count(p));
  }
  Tensor after(int64_t p) const {
    if (!is_short_) return order_.steps_of(all_, p, 1);
    const int64_t at = takes_turns() ? (p + 1) % 2 : 1;
    return all_.slice(0, at, at + order_.count(p));
  }
  Tensor last() const {  ///< where the first is zeros
    if (!is_short_) return slot(n_.steps);
    return slot(takes_turns() ? n_.steps % 2 : (n_.steps - 1) % n_.at_once + 1);
  }
  /// Of all steps, in the sequence's own order.
  Tensor results() const { return order_.from_end() ? all_.slice(0, 0, n_.steps) : all_.slice(0, 1); }

 private:
  bool takes_turns() const { return n_.at_once == 1; }
  Tensor slot(int64_t i) const { return (order_.from_end() && !is_short_ ? all_.flip(0) : all_).select(0, i); }

  const Sequence& n_;
  const Order& order_;
  bool is_short_;  ///< it has no more slots than a launch needs, of which each launch's last is the next one's first
  Tensor all_, first_;
};

}  // namespace

Tensor rnn_sequence(const Tensor& x, const Tensor& h, const Tensor& weight_hh, const Tensor& bias_hh,
                    const Tensor& lengths, bool reverse, bool use_relu) try {
  const Sequence n(kernels::rnn_sequence, 1, {&h}, x, weight_hh, bias_hh, lengths, reverse);
  const Tensor weight = n.transposed_weight();
  const Order order(n, false);
  Trail y(n, order, Keep::all, n.of_state(), n.state(h));
  order.for_each_launch([&](int64_t p) {
    launch(kernels::rnn_step, kF32, std::array{order.steps_of(n.x, p), y.before(p), weight, n.bias, n.lengths},
           order.scalars(p, use_relu), std::array{y.after(p)});
  });
  return n.without_members(y.results(), 1, x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("rnn_sequence");
}

RnnSequenceGradResult rnn_sequence_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                                        const Tensor& bias_hh, const Tensor& y, const Tensor& lengths, bool reverse,
                                        bool use_relu) try {
  const Sequence n(kernels::rnn_sequence_grad, 1, {&h}, x, weight_hh, bias_hh, lengths, reverse);
  n.check_results("rnn_sequence_grad", {&dy, &y});
  const Tensor slopes = n.with_members(wide(dy), 1), states = n.with_members(wide(y), 1);
  const Tensor weight = n.spread_weight();
  const Order order(n, true);
  Trail da(n, order, Keep::all, n.of_state()), direct(n, order, Keep::last, n.of_state());
  order.for_each_launch([&](int64_t p) {
    launch(kernels::rnn_step_grad, kF32,
           std::array{order.steps_of(states, p), order.steps_of(slopes, p), direct.before(p), da.before(p), weight,
                      n.lengths},
           order.scalars(p, use_relu), std::array{da.after(p), direct.after(p)});
  });
  const DType dtype = x.dtype();
  const Tensor before = n.states_before(n.state(h), y), dx = da.results();
  return {n.without_members(dx, 1, dtype),
          n.without_members(n.first_gradient(direct.last(), da.last(), n.weight), 0, dtype),
          n.without_members(n.weight_gradient(dx, before), 0, dtype), n.without_members(sum(dx, {0, 2}), 0, dtype)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("rnn_sequence_grad");
}

Tensor gru_sequence(const Tensor& x, const Tensor& h, const Tensor& weight_hh, const Tensor& bias_hh,
                    const Tensor& lengths, bool reverse, bool reset_after) try {
  const Sequence n(kernels::gru_sequence, 3, {&h}, x, weight_hh, bias_hh, lengths, reverse, reset_after);
  const Tensor weight = n.transposed_weight();
  const Order order(n, false);
  Trail y(n, order, Keep::all, n.of_state(), n.state(h));
  std::array<Tensor, 2> gates;
  if (!reset_after) gates = {n.empty_step(), n.empty_step()};
  order.for_each_launch([&](int64_t p) {
    const Tensor input = order.steps_of(n.x, p), state = y.before(p);
    const std::array next{y.after(p)};
    if (reset_after) {
      launch(kernels::gru_step, kF32, std::array{input, state, weight, n.bias, n.lengths}, order.scalars(p), next);
    } else {
      launch(kernels::gru_gates, kF32, std::array{input, state, weight, n.bias}, {}, gates);
      launch(kernels::gru_candidate, kF32, std::array{input, state, gates[0], gates[1], weight, n.bias, n.lengths},
             order.scalars(p), next);
    }
  });
  return n.without_members(y.results(), 1, x.dtype());
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
  const Tensor weight = n.spread_weight();
  const Tensor a = n.as_steps(matmul(n.as_matrices(before), n.weight, {.transpose_b = true}));
  const Order order(n, true);
  Trail dx(n, order, Keep::all, n.of_gates()), da(n, order, Keep::all, n.of_gates());
  Trail direct(n, order, Keep::last, n.by_gates());
  order.for_each_launch([&](int64_t p) {
    launch(kernels::gru_step_grad, kF32,
           std::array{order.steps_of(n.x, p), order.steps_of(a, p), n.bias, order.steps_of(before, p),
                      order.steps_of(slopes, p), direct.before(p).select(3, 0), da.before(p), weight, n.lengths},
           order.scalars(p), std::array{n.by_gate(dx.after(p)), n.by_gate(da.after(p)), direct.after(p)});
  });
  const Tensor dstate = n.first_gradient(direct.last().select(2, 0), da.last(), n.weight);
  return gradients_of(n, dx.results(), dstate, n.weight_gradient(da.results(), before), sum(da.results(), {0, 2}),
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
  const Tensor candidate = tanh(gate_of(reset_state, 2)), weight = n.spread_weight();
  const Tensor dn = n.empty_step(), dz = n.empty_step(), to_state = n.empty_step();
  const Order order(n, true);
  Trail slopes_of_gates(n, order, Keep::all, n.of_gates()), direct(n, order, Keep::last, n.by_gates());
  order.for_each_launch([&](int64_t p) {
    launch(kernels::gru_candidate_grad, kF32,
           std::array{order.steps_of(z, p), order.steps_of(candidate, p), order.steps_of(before, p),
                      order.steps_of(slopes, p), direct.before(p).select(3, 0), slopes_of_gates.before(p), weight,
                      n.lengths},
           order.scalars(p), std::array{dn, dz, to_state});
    launch(kernels::gru_gates_grad, kF32,
           std::array{order.steps_of(r, p), order.steps_of(before, p), dn, dz, to_state, weight}, {},
           std::array{n.by_gate(slopes_of_gates.after(p)), direct.after(p)});
  });
  const Tensor dx = slopes_of_gates.results();
  const Tensor gates = dx.slice(3, 0, 2 * size), dcandidate = dx.slice(3, 2 * size);
  const Tensor dweight = cat({n.weight_gradient(gates, before), n.weight_gradient(dcandidate, reset_state)}, 1);
  const Tensor dh = n.first_gradient(direct.last().select(2, 0), slopes_of_gates.last().slice(2, 0, 2 * size),
                                     n.weight.slice(1, 0, 2 * size));
  return gradients_of(n, dx, dh, dweight, sum(dx, {0, 2}), dtype);
}

}  // namespace

GruSequenceGradResult gru_sequence_grad(const Tensor& dy, const Tensor& x, const Tensor& h, const Tensor& weight_hh,
                                        const Tensor& bias_hh, const Tensor& y, const Tensor& lengths, bool reverse,
                                        bool reset_after) try {
  const Sequence n(kernels::gru_sequence_grad, 3, {&h}, x, weight_hh, bias_hh, lengths, reverse, reset_after);
  n.check_results("gru_sequence_grad", {&dy, &y});
  const Tensor slopes = n.with_members(wide(dy), 1), before = n.states_before(n.state(h), y);
  return reset_after ? reset_after_gradients(n, slopes, before, x.dtype())
                     : reset_before_gradients(n, slopes, before, x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("gru_sequence_grad");
}

LstmSequenceResult lstm_sequence(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_hh,
                                 const Tensor& bias_hh, const Tensor& lengths, bool reverse) try {
  const Sequence n(kernels::lstm_sequence, 4, {&h, &c}, x, weight_hh, bias_hh, lengths, reverse);
  const Tensor weight = n.transposed_weight();
  const Order order(n, false);
  Trail y(n, order, Keep::all, n.of_state(), n.state(h)), cells(n, order, Keep::all, n.of_state(), n.state(c));
  order.for_each_launch([&](int64_t p) {
    launch(kernels::lstm_step, kF32,
           std::array{order.steps_of(n.x, p), y.before(p), cells.before(p), weight, n.bias, n.lengths},
           order.scalars(p), std::array{y.after(p), cells.after(p)});
  });
  return {n.without_members(y.results(), 1, x.dtype()), n.without_members(cells.results(), 1, x.dtype())};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("lstm_sequence");
}

LstmSequenceGradResult lstm_sequence_grad(const Tensor& dy, const Tensor& dcells, const Tensor& x, const Tensor& h,
                                          const Tensor& c, const Tensor& weight_hh, const Tensor& bias_hh,
                                          const Tensor& y, const Tensor& cells, const Tensor& lengths,
                                          bool reverse) try {
  const Sequence n(kernels::lstm_sequence_grad, 4, {&h, &c}, x, weight_hh, bias_hh, lengths, reverse);
  n.check_results("lstm_sequence_grad", {&dy, &dcells, &y, &cells});
  const Tensor slopes = n.with_members(wide(dy), 1), cell_slopes = n.with_members(wide(dcells), 1);
  const Tensor before = n.states_before(n.state(h), y), cells_before = n.states_before(n.state(c), cells);
  const Tensor weight = n.spread_weight();
  const Tensor a = n.as_steps(matmul(n.as_matrices(before), n.weight, {.transpose_b = true}));
  const Order order(n, true);
  Trail da(n, order, Keep::all, n.of_gates()), direct(n, order, Keep::last, n.by_gates()),
      carried(n, order, Keep::last, n.by_gates());
  order.for_each_launch([&](int64_t p) {
    launch(kernels::lstm_step_grad, kF32,
           std::array{order.steps_of(n.x, p), order.steps_of(a, p), n.bias, order.steps_of(cells_before, p),
                      order.steps_of(slopes, p), direct.before(p).select(3, 0), order.steps_of(cell_slopes, p),
                      carried.before(p).select(3, 0), da.before(p), weight, n.lengths},
           order.scalars(p), std::array{n.by_gate(da.after(p)), carried.after(p), direct.after(p)});
  });
  const DType dtype = x.dtype();
  const Tensor dx = da.results(), dstate = n.first_gradient(direct.last().select(2, 0), da.last(), n.weight);
  return {n.without_members(dx, 1, dtype), n.without_members(dstate, 0, dtype),
          n.without_members(carried.last().select(2, 0), 0, dtype),
          n.without_members(n.weight_gradient(dx, before), 0, dtype), n.without_members(sum(dx, {0, 2}), 0, dtype)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("lstm_sequence_grad");
}

}  // namespace ashlar
