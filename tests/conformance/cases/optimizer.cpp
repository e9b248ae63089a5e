// One step of an optimiser over a flat arena, in place.
#include <cmath>

#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

// What a kernel reads as f32 scalars.
constexpr double kMomentum = 0.9F;
constexpr double kWeightDecay = 0.01F;
constexpr double kOneMinusBeta1 = 0.1F;
constexpr double kOneMinusBeta2 = 0.001F;
constexpr double kEps = 1e-8F;
constexpr double kMaxGrad = 0.375F;  // below the largest scaled gradients of the cases

// clamp(scale grad, max_grad); NaN stays
double clipped(double grad, double scale) {
  const double scaled = grad * scale;
  return scaled > kMaxGrad ? kMaxGrad : scaled < -kMaxGrad ? -kMaxGrad : scaled;
}

Input constant(double value) { return {.shape = {}, .values = {.low = value, .high = value}, .dtype = DType::f32}; }

// The updated parameters, in the test's dtype, and their state in f32, each with the sizes of its terms.
struct Updated {
  Expected param;
  std::vector<Expected> state;
  Updated(const Shape& shape, int states)
      : param{shape, {}, {}, {}, {}}, state(states, {shape, {}, {}, DType::f32, {}}) {}
  void add_param(double value, double magnitude) {
    param.values.push_back(value);
    param.magnitudes.push_back(magnitude);
  }
  void add_state(int index, double value, double magnitude) {
    state[index].values.push_back(value);
    state[index].magnitudes.push_back(magnitude);
  }
  std::vector<Expected> all() const {
    std::vector<Expected> outputs{param};
    outputs.insert(outputs.end(), state.begin(), state.end());
    return outputs;
  }
};

// g = grad + decay p;  b' = momentum b + g;  p' = p − lr b'  (Nesterov: p − lr (g + momentum b'))
std::vector<Expected> sgd(HostTensors x, bool nesterov) {
  const double lr = x[3].values[0];
  Updated updated(x[0].shape, 1);
  for (size_t i = 0; i < x[0].values.size(); ++i) {
    const double p = x[0].values[i];
    const double grad = clipped(x[1].values[i], x[4].values[0]);
    const double g = grad + kWeightDecay * p;
    const double g_size = std::abs(grad) + std::abs(kWeightDecay * p);
    const double b = kMomentum * x[2].values[i] + g;
    const double b_size = std::abs(kMomentum * x[2].values[i]) + g_size;
    const double direction = nesterov ? g + kMomentum * b : b;
    updated.add_param(p - lr * direction, std::abs(p) + lr * (nesterov ? g_size + kMomentum * b_size : b_size));
    updated.add_state(0, b, b_size);
  }
  return updated.all();
}

// m' = m + (1−β1)(g − m);  v' = v + (1−β2)(g² − v);  p' = p − lr m'/(1−β1^t) / (√(v'/(1−β2^t)) + eps), with the decay
// added to g (Adam) or multiplied onto p (AdamW)
std::vector<Expected> adam(HostTensors x, bool decoupled) {
  const double lr = x[4].values[0];
  const double t = x[6].values[0];
  const double correction1 = 1 - std::pow(1 - kOneMinusBeta1, t);
  const double correction2 = 1 - std::pow(1 - kOneMinusBeta2, t);
  Updated updated(x[0].shape, 2);
  for (size_t i = 0; i < x[0].values.size(); ++i) {
    const double p = x[0].values[i];
    const double decay = decoupled ? 0 : kWeightDecay * p;
    const double grad = clipped(x[1].values[i], x[5].values[0]);
    const double g = grad + decay;
    const double g_size = std::abs(grad) + std::abs(decay);
    const double m = x[2].values[i] + kOneMinusBeta1 * (g - x[2].values[i]);
    const double m_size = std::abs(x[2].values[i]) + kOneMinusBeta1 * (g_size + std::abs(x[2].values[i]));
    const double v = x[3].values[i] + kOneMinusBeta2 * (g * g - x[3].values[i]);
    const double v_size = x[3].values[i] + kOneMinusBeta2 * (g_size * g_size + x[3].values[i]);
    const double kept = decoupled ? p * (1 - lr * kWeightDecay) : p;
    const double scale = lr / correction1 / (std::sqrt(v / correction2) + kEps);
    updated.add_param(kept - scale * m, std::abs(p) + scale * m_size);
    updated.add_state(0, m, m_size);
    updated.add_state(1, v, v_size);
  }
  return updated.all();
}

Case sgd_case(std::string name, int64_t n, SgdStepKind kind) {
  return {.kernel = "sgd_step",
          .name = std::move(name),
          .inputs = {{.shape = {n}}, {.shape = {n}}, {.shape = {n}, .dtype = DType::f32}, constant(0.1), constant(0.5)},
          .call =
              [kind](Tensors x) {
                sgd_step(x[0], x[1], x[2], x[3], x[4], kMomentum, kWeightDecay, kMaxGrad, kind);
                return std::vector{x[0], x[2]};
              },
          .reference = [kind](HostTensors x) { return sgd(x, kind == SgdStepKind::nesterov); },
          .tolerance = terms(2e-6),
          .in_place = true};
}

Case adam_case(std::string name, int64_t n, double step, AdamStepDecay decay) {
  const Input state{.shape = {n}, .dtype = DType::f32};
  Input squares = state;
  squares.values = {.low = 0, .high = 2};
  return {.kernel = "adam_step",
          .name = std::move(name),
          .inputs = {{.shape = {n}}, {.shape = {n}}, state, squares, constant(0.01), constant(0.5), constant(step)},
          .call =
              [decay](Tensors x) {
                adam_step(x[0], x[1], x[2], x[3], x[4], x[5], x[6], kOneMinusBeta1, kOneMinusBeta2, kEps, kWeightDecay,
                          kMaxGrad, decay);
                return std::vector{x[0], x[2], x[3]};
              },
          .reference = [decay](HostTensors x) { return adam(x, decay == AdamStepDecay::decoupled); },
          .tolerance = terms(5e-6),
          .in_place = true};
}

constexpr double kMomentumDecay = 0.004F;
constexpr double kLrDecay = 0.25F;

// μ_t = β1 (1 - 0.96^(tψ) / 2)
double momentum_at(double t) { return (1 - kOneMinusBeta1) * (1 - 0.5 * std::pow(0.96, t * kMomentumDecay)); }

std::vector<Expected> nadam(HostTensors x, bool decoupled) {
  const double lr = x[4].values[0], t = x[6].values[0], product = x[7].values[0];
  const double now = momentum_at(t), next = momentum_at(t + 1);
  const double of_g = (1 - now) / (1 - product), of_m = next / (1 - product * next);
  Updated updated(x[0].shape, 2);
  for (size_t i = 0; i < x[0].values.size(); ++i) {
    const double p = x[0].values[i];
    const double decay = decoupled ? 0 : kWeightDecay * p;
    const double grad = clipped(x[1].values[i], x[5].values[0]);
    const double g = grad + decay, g_size = std::abs(grad) + std::abs(decay);
    const double m = x[2].values[i] + kOneMinusBeta1 * (g - x[2].values[i]);
    const double m_size = std::abs(x[2].values[i]) + kOneMinusBeta1 * (g_size + std::abs(x[2].values[i]));
    const double v = x[3].values[i] + kOneMinusBeta2 * (g * g - x[3].values[i]);
    const double v_size = x[3].values[i] + kOneMinusBeta2 * (g_size * g_size + x[3].values[i]);
    const double kept = decoupled ? p * (1 - lr * kWeightDecay) : p;
    const double scale = lr / (std::sqrt(v / (1 - std::pow(1 - kOneMinusBeta2, t))) + kEps);
    updated.add_param(kept - scale * (of_g * g + of_m * m), std::abs(p) + scale * (of_g * g_size + of_m * m_size));
    updated.add_state(0, m, m_size);
    updated.add_state(1, v, v_size);
  }
  return updated.all();
}

Case nadam_case(std::string name, int64_t n, NadamStepDecay decay) {
  const Input state{.shape = {n}, .dtype = DType::f32};
  Input squares = state;
  squares.values = {.low = 0, .high = 2};
  return {
      .kernel = "nadam_step",
      .name = std::move(name),
      .inputs =
          {{.shape = {n}}, {.shape = {n}}, state, squares, constant(0.01), constant(0.5), constant(3), constant(0.125)},
      .call =
          [decay](Tensors x) {
            nadam_step(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], kOneMinusBeta1, kOneMinusBeta2, kEps,
                       kWeightDecay, kMomentumDecay, kMaxGrad, decay);
            return std::vector{x[0], x[2], x[3]};
          },
      .reference = [decay](HostTensors x) { return nadam(x, decay == NadamStepDecay::decoupled); },
      .tolerance = terms(5e-6),
      .in_place = true};
}

// g = clipped grad + decay p;  v' = v + (1-α)(g² - v);  b' = momentum b + g / (√v' + eps);  p' = p - lr b'
Case rmsprop_case(std::string name, int64_t n) {
  const Input state{.shape = {n}, .dtype = DType::f32};
  Input squares = state;
  squares.values = {.low = 0, .high = 2};
  const auto reference = [](HostTensors x) {
    const double lr = x[4].values[0];
    Updated updated(x[0].shape, 2);
    for (size_t i = 0; i < x[0].values.size(); ++i) {
      const double p = x[0].values[i], v0 = x[2].values[i], b0 = x[3].values[i];
      const double grad = clipped(x[1].values[i], x[5].values[0]);
      const double g = grad + kWeightDecay * p, g_size = std::abs(grad) + std::abs(kWeightDecay * p);
      const double v = v0 + kOneMinusBeta2 * (g * g - v0), v_size = v0 + kOneMinusBeta2 * (g_size * g_size + v0);
      const double size = std::sqrt(v) + kEps;
      const double b = kMomentum * b0 + g / size, b_size = std::abs(kMomentum * b0) + g_size / size;
      updated.add_param(p - lr * b, std::abs(p) + lr * b_size);
      updated.add_state(0, v, v_size);
      updated.add_state(1, b, b_size);
    }
    return updated.all();
  };
  return {.kernel = "rmsprop_step",
          .name = std::move(name),
          .inputs = {{.shape = {n}}, {.shape = {n}}, squares, state, constant(0.01), constant(0.5)},
          .call =
              [](Tensors x) {
                rmsprop_step(x[0], x[1], x[2], x[3], x[4], x[5], kOneMinusBeta2, kEps, kMomentum, kWeightDecay,
                             kMaxGrad);
                return std::vector{x[0], x[2], x[3]};
              },
          .reference = reference,
          .tolerance = terms(5e-6),
          .in_place = true};
}

// g = clipped grad + decay p;  s' = s + g²;  p' = p - lr / (1 + (t-1) lr_decay) g / (√s' + eps)
Case adagrad_case(std::string name, int64_t n) {
  const auto reference = [](HostTensors x) {
    const double rate = x[3].values[0] / (1 + (x[5].values[0] - 1) * kLrDecay);
    Updated updated(x[0].shape, 1);
    for (size_t i = 0; i < x[0].values.size(); ++i) {
      const double p = x[0].values[i], grad = clipped(x[1].values[i], x[4].values[0]);
      const double g = grad + kWeightDecay * p, g_size = std::abs(grad) + std::abs(kWeightDecay * p);
      const double sum = x[2].values[i] + g * g, size = std::sqrt(sum) + kEps;
      updated.add_param(p - rate * g / size, std::abs(p) + rate * g_size / size);
      updated.add_state(0, sum, x[2].values[i] + g_size * g_size);
    }
    return updated.all();
  };
  return {.kernel = "adagrad_step",
          .name = std::move(name),
          .inputs = {{.shape = {n}},
                     {.shape = {n}},
                     {.shape = {n}, .values = {.low = 0.5, .high = 2}, .dtype = DType::f32},
                     constant(0.1),
                     constant(0.5),
                     constant(3)},
          .call =
              [](Tensors x) {
                adagrad_step(x[0], x[1], x[2], x[3], x[4], x[5], kLrDecay, kEps, kWeightDecay, kMaxGrad);
                return std::vector{x[0], x[2]};
              },
          .reference = reference,
          .tolerance = terms(5e-6),
          .in_place = true};
}

// p' = p (1 - lr decay) - lr sign(m + (1-β1)(g - m));  m' = m + (1-β2)(g - m), away from where the sign turns
Case lion_case(std::string name, int64_t n) {
  const auto reference = [](HostTensors x) {
    const double lr = x[3].values[0];
    Updated updated(x[0].shape, 1);
    for (size_t i = 0; i < x[0].values.size(); ++i) {
      const double p = x[0].values[i], g = clipped(x[1].values[i], x[4].values[0]), m = x[2].values[i];
      const double c = m + kOneMinusBeta1 * (g - m);
      const double sign = c > 0 ? 1 : c < 0 ? -1 : c;
      updated.add_param(p * (1 - lr * kWeightDecay) - lr * sign, std::abs(p) + lr);
      updated.add_state(0, m + kOneMinusBeta2 * (g - m), std::abs(m) + kOneMinusBeta2 * (std::abs(g) + std::abs(m)));
    }
    return updated.all();
  };
  return {.kernel = "lion_step",
          .name = std::move(name),
          .inputs = {{.shape = {n}},
                     {.shape = {n}, .values = {.low = -2, .high = -0.125}},
                     {.shape = {n}, .values = {.low = -2, .high = -0.0625}, .dtype = DType::f32},
                     constant(0.01),
                     constant(0.5)},
          .call =
              [](Tensors x) {
                lion_step(x[0], x[1], x[2], x[3], x[4], kOneMinusBeta1, kOneMinusBeta2, kWeightDecay, kMaxGrad);
                return std::vector{x[0], x[2]};
              },
          .reference = reference,
          .tolerance = terms(2e-6),
          .in_place = true};
}

Case average_case(std::string name, int64_t n) {
  const auto reference = [](HostTensors x) {
    Expected average{x[0].shape, {}, {}, DType::f32, {}};
    for (size_t i = 0; i < x[0].values.size(); ++i) {
      const double a = x[0].values[i], p = x[1].values[i], weight = x[2].values[0];
      average.values.push_back(a + weight * (p - a));
      average.magnitudes.push_back(std::abs(a) + weight * (std::abs(p) + std::abs(a)));
    }
    return std::vector{average};
  };
  return {.kernel = "average_step",
          .name = std::move(name),
          .inputs = {{.shape = {n}, .dtype = DType::f32}, {.shape = {n}}, constant(0.25)},
          .call =
              [](Tensors x) {
                average_step(x[0], x[1], x[2]);
                return std::vector{x[0]};
              },
          .reference = reference,
          .tolerance = terms(1e-6),
          .in_place = true};
}

// An arena's view that begins in the middle, as one layer's parameters do.
Case in_the_middle(Case item) {
  for (size_t i = 0; i < item.inputs.size(); ++i) {
    if (item.inputs[i].shape.rank() == 1) item.inputs[i].layout = Layout::offset;
  }
  return item;
}

// All of the step's vectors side by side in one storage, in f32.
Case in_one_arena(Case item) {
  item.dtypes = {DType::f32};
  item.call = [call = item.call](Tensors x) {
    const int64_t n = x[0].numel();
    const Tensor arena = Tensor::empty({8 * n}, DType::f32, x[0].device());
    std::vector<Tensor> parts;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto first = static_cast<int64_t>(2 * i) * n;
      parts.push_back(x[i].rank() == 0 ? x[i] : arena.slice(0, first, first + n));
      if (x[i].rank() == 1) parts.back().copy_(x[i]);
    }
    return call(parts);
  };
  return item;
}

}  // namespace

void add_optimizer_cases() {
  for (const int64_t n : {0, 1, 15, 16, 17, 257, 1025, 100003}) {
    const std::string size = std::to_string(n);
    add_case(sgd_case("classic_" + size, n, SgdStepKind::classic));
    add_case(sgd_case("nesterov_" + size, n, SgdStepKind::nesterov));
    add_case(adam_case("adam_" + size, n, 3, AdamStepDecay::coupled));
    add_case(adam_case("adamw_" + size, n, 3, AdamStepDecay::decoupled));
    add_case(nadam_case("coupled_" + size, n, NadamStepDecay::coupled));
    add_case(nadam_case("decoupled_" + size, n, NadamStepDecay::decoupled));
    add_case(rmsprop_case(size, n));
    add_case(adagrad_case(size, n));
    add_case(lion_case(size, n));
    add_case(average_case(size, n));
  }
  add_case(in_the_middle(nadam_case("coupled_offset", 130, NadamStepDecay::coupled)));
  add_case(in_the_middle(nadam_case("decoupled_offset", 130, NadamStepDecay::decoupled)));
  for (const Case& item : {rmsprop_case("offset", 130), adagrad_case("offset", 130), lion_case("offset", 130),
                           average_case("offset", 130)}) {
    add_case(in_the_middle(item));
  }
  add_case(in_the_middle(sgd_case("offset", 130, SgdStepKind::classic)));
  add_case(in_the_middle(adam_case("offset", 130, 2, AdamStepDecay::coupled)));
  add_case(in_the_middle(sgd_case("nesterov_offset", 130, SgdStepKind::nesterov)));
  add_case(in_the_middle(adam_case("adamw_offset", 130, 2, AdamStepDecay::decoupled)));
  add_case(in_one_arena(sgd_case("one_arena", 130, SgdStepKind::nesterov)));
  add_case(in_one_arena(adam_case("one_arena", 130, 2, AdamStepDecay::decoupled)));
  // The bias corrections at the first step and when they have died away.
  add_case(adam_case("first_step", 257, 1, AdamStepDecay::decoupled));
  add_case(adam_case("step_100000", 257, 100000, AdamStepDecay::decoupled));
  for (Case item :
       {sgd_case("special", 515, SgdStepKind::classic), adam_case("special", 515, 2, AdamStepDecay::coupled)}) {
    item.inputs[1].values.pattern = Pattern::special;
    add_case(item);
  }
  for (Case item : {sgd_case("16M", int64_t{1} << 24, SgdStepKind::classic),
                    adam_case("16M", int64_t{1} << 24, 3, AdamStepDecay::decoupled)}) {
    item.benchmark = true;
    add_case(item);
  }
}

}  // namespace ashlar::conformance
