// Losses of two tensors, element by element: each term, the mean and the sum, with both gradients.
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "operators/losses.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

struct Term {
  double value, magnitude;
};

/// One loss, with the domain of its two operands.
struct Loss {
  std::string kernel, name;
  std::function<Tensor(const Tensor&, const Tensor&, int)> call;
  std::function<Var(const Var&, const Var&, int)> record;
  std::function<Term(double x, double t)> term;
  Values input = {}, target = {};
  std::vector<int> differentiated{0, 1};  // labels have no gradient
};

constexpr const char* kReductions[] = {"none", "mean", "sum"};

Expected exact(const Loss& loss, const HostTensor& x, const HostTensor& t, int reduction) {
  Expected each = broadcasted(x, t, [&](double a, double b) { return loss.term(a, b).value; });
  each.magnitudes = broadcasted(x, t, [&](double a, double b) { return loss.term(a, b).magnitude; }).values;
  if (reduction == 0) return each;
  double sum = 0, size = 0;
  for (const double value : each.values) sum += value;
  for (const double value : each.magnitudes) size += std::abs(value);
  const double scale = reduction == 1 ? 1 / static_cast<double>(each.values.size()) : 1;
  if (each.values.empty() && reduction == 1) return {{}, {std::numeric_limits<double>::quiet_NaN()}, {1.0}};
  return {{}, {sum * scale}, {size * (reduction == 1 ? scale : 1)}};
}

Case example(const Loss& loss, std::string name, int reduction, Input x, Input t) {
  x.values = x.values.pattern == Pattern::uniform ? loss.input : x.values;
  t.values = t.values.pattern == Pattern::uniform ? loss.target : t.values;
  return {.kernel = loss.kernel,
          .name = loss.name + name + "_" + kReductions[reduction],
          .inputs = {std::move(x), std::move(t)},
          .call = [=](Tensors in) { return std::vector{loss.call(in[0], in[1], reduction)}; },
          .reference = [=](HostTensors in) { return std::vector{exact(loss, in[0], in[1], reduction)}; },
          .tolerance = terms(3e-6),
          .differentiable = [=](Vars in) { return loss.record(in[0], in[1], reduction); },
          .differentiated = loss.differentiated};
}

Case without_gradient(Case item) {
  item.differentiable = nullptr;
  return item;
}

void add_loss_cases_of(const Loss& loss) {
  for (const int reduction : {0, 1, 2}) {
    add_case(example(loss, "37x11", reduction, {{37, 11}}, {{37, 11}}));
    Case of_none = example(loss, "of_none", reduction, {{0, 3}}, {{0, 3}});
    add_case(reduction == 1 ? without_gradient(of_none) : of_none);  // NaN, which differences can't compare
    add_case(without_gradient(example(loss, "special", reduction, {{50}, {Pattern::special, 0, 1}}, {{50}})));
  }
  add_case(without_gradient(example(loss, "9001", 1, {{9001}}, {{9001}})));
  Case large = without_gradient(example(loss, "200000", 1, {{200'000}}, {{200'000}}));
  large.dtypes = {DType::f32};
  add_case(large);
  add_case(example(loss, "rank0", 1, {{}}, {{}}));
  Case mean = example(loss, "broadcast", 1, {{7, 1, 5}}, {{6, 5}});
  mean.fixed_shapes = true;  // a mean of none would be NaN
  add_case(mean);
  add_case(example(loss, "broadcast", 0, {{7, 1, 5}}, {{6, 5}}));
  add_case(example(loss, "transposed", 1, {{9, 14}, {}, Layout::transposed}, {{9, 14}, {}, Layout::offset}));
}

/// The slope by x of one term, and the kernel that computes it.
struct LossSlope {
  const char* kernel;
  const LossKernels& loss;
  std::vector<double> options;
  double (*exact)(double x, double t);
  double low = -2, high = 2;  // of both operands
  Pattern target = Pattern::uniform;
};

/// 0, or NaN, between both signs.
double sign_of(double d) { return d > 0 ? 1 : d < 0 ? -1 : d; }

// Many elements; and NaN and infinities for either operand, where differences say nothing. Of a sum, with one upstream
// gradient, and of terms, which have one each.
void add_slope_cases_of(const LossSlope& slope) {
  const Values numbers{.low = slope.low, .high = slope.high}, special{Pattern::special, slope.low, slope.high};
  const Values target{slope.target, slope.low, slope.high};
  for (const auto& [name, x, t] : {std::tuple{"100003", Input{{100'003}, numbers}, Input{{100'003}, target}},
                                   {"special", Input{{1031}, special}, Input{{1031}, target}},
                                   {"special_target", Input{{1031}, numbers}, Input{{1031}, special}}}) {
    for (const int reduction : {0, 2}) {
      const bool of_each = reduction == 0;
      add_case({.kernel = slope.kernel,
                .name = std::string(name) + (of_each ? "" : "_of_sum"),
                .inputs = {x, t, {of_each ? x.shape : Shape{}}},
                .dtypes = {DType::f32},
                .call =
                    [=](Tensors in) {
                      return std::vector{loss_slope(slope.loss, in[2], in[0], in[1], slope.options, reduction)};
                    },
                .reference =
                    [=](HostTensors in) {
                      Expected dx = broadcasted(in[0], in[1], slope.exact);
                      for (size_t i = 0; i < dx.values.size(); ++i) {
                        const double dy = in[2].values[of_each ? i : 0];
                        dx.magnitudes.push_back(std::abs(dy) * (std::abs(dx.values[i]) + std::abs(in[0].values[i]) +
                                                                std::abs(in[1].values[i])));
                        dx.values[i] *= dy;
                      }
                      return std::vector{dx};
                    },
                .tolerance = terms(3e-6)});
    }
  }
}

double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double held_log(double x) { return std::isnan(x) ? x : std::max(std::log(x), -100.0); }

/// The divergence by its definition, of targets or of their logarithms.
void add_divergences(bool is_log) {
  const auto run = [=](const auto& x, const auto& t) {
    using namespace ad;
    return kl_div(x, t, KlDivReduction::batchmean, is_log);
  };
  add_case({.kernel = "kl_div",
            .name = is_log ? "batchmean_of_logs" : "batchmean",
            .inputs = {{{7, 11}, {.low = -4, .high = 0}},
                       {{7, 11}, is_log ? Values{.low = -4, .high = 0} : Values{.low = 0.05, .high = 1}}},
            .call = [=](Tensors in) { return std::vector{run(in[0], in[1])}; },
            .reference =
                [=](HostTensors in) {
                  double sum = 0, size = 0;
                  for (size_t i = 0; i < in[0].values.size(); i++) {
                    const double t = is_log ? std::exp(in[1].values[i]) : in[1].values[i], x = in[0].values[i];
                    sum += t * (std::log(t) - x);
                    size += t * (std::abs(std::log(t)) + std::abs(x));
                  }
                  const auto rows = static_cast<double>(in[0].shape[0]);
                  return std::vector<Expected>{{{}, {sum / rows}, {size / rows}}};
                },
            .tolerance = terms(3e-6),
            .differentiable = [=](Vars in) { return run(in[0], in[1]); },
            .differentiated = {0, 1},
            .fixed_shapes = true});
}

/// Binary cross-entropy with weights, of probabilities (those alone) and of logits.
void add_weighted(int reduction, bool has_weight, bool has_positive) {
  const Shape shape{7, 6};
  std::vector<Input> factors;
  if (has_weight) factors.push_back({{7, 1}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32});
  if (has_positive) factors.push_back({{6}, {.low = 0.25, .high = 4}, Layout::dense, DType::f32});
  for (const bool is_logit : {true, false}) {
    if (!is_logit && has_positive) continue;
    const auto run = [=](const auto& in) {
      using namespace ad;
      using T = std::decay_t<decltype(in[0])>;
      const T weight = has_weight ? in[2] : T(), positive = has_positive ? in[has_weight ? 3 : 2] : T();
      if (!is_logit) return T(binary_cross_entropy(in[0], in[1], BinaryCrossEntropyReduction(reduction), weight));
      return T(binary_cross_entropy_with_logits(in[0], in[1], BinaryCrossEntropyWithLogitsReduction(reduction), weight,
                                                positive));
    };
    std::vector<Input> inputs{{shape, is_logit ? Values{.low = -5, .high = 5} : Values{.low = 0.05, .high = 0.95}},
                              {shape, {.low = 0, .high = 1}}};
    inputs.insert(inputs.end(), factors.begin(), factors.end());
    add_case({.kernel = is_logit ? "binary_cross_entropy_with_logits" : "binary_cross_entropy",
              .name = std::string(has_weight ? "weighted_" : "") + (has_positive ? "positive_" : "") +
                      kReductions[reduction],
              .inputs = inputs,
              .call = [=](Tensors in) { return std::vector{run(in)}; },
              .reference =
                  [=](HostTensors in) {
                    Expected each{shape, {}, {}};
                    for (size_t i = 0; i < 42; i++) {
                      const double x = in[0].values[i], t = in[1].values[i];
                      const double weight = has_weight ? in[2].values[i / 6] : 1;
                      const double positive = has_positive ? in[has_weight ? 3 : 2].values[i % 6] : 1;
                      const double no = is_logit ? x + softplus_of(-x) : -held_log(1 - x),
                                   yes = is_logit ? softplus_of(-x) : -held_log(x);
                      each.values.push_back(weight * (positive * t * yes + (1 - t) * no));
                      each.magnitudes.push_back(weight * (positive + 1) * (std::abs(x) + yes + no + 1));
                    }
                    if (reduction == 0) return std::vector{each};
                    const double scale = reduction == 1 ? 1.0 / 42 : 1;
                    double sum = 0, size = 0;
                    for (const double value : each.values) sum += value * scale;
                    for (const double value : each.magnitudes) size += value * scale;
                    return std::vector<Expected>{{{}, {sum}, {size}}};
                  },
              .tolerance = terms(3e-6),
              .differentiable = [=](Vars in) { return run(in); },
              .differentiated = {0, 1},
              .fixed_shapes = true});
  }
}

}  // namespace

void add_loss_cases() {
  const auto distance = [](double value, double x, double t) { return Term{value, value + std::abs(x) + std::abs(t)}; };
  add_loss_cases_of({"mse_loss", "",
                     [](const Tensor& x, const Tensor& t, int r) { return mse_loss(x, t, MseLossReduction(r)); },
                     [](const Var& x, const Var& t, int r) { return ad::mse_loss(x, t, MseLossReduction(r)); },
                     [](double x, double t) {
                       return Term{(x - t) * (x - t), (x - t) * (x - t)};
                     }});
  add_loss_cases_of({"l1_loss", "",
                     [](const Tensor& x, const Tensor& t, int r) { return l1_loss(x, t, L1LossReduction(r)); },
                     [](const Var& x, const Var& t, int r) { return ad::l1_loss(x, t, L1LossReduction(r)); },
                     [=](double x, double t) { return distance(std::abs(x - t), x, t); }});
  for (const double beta : {1.0, 0.3, 0.0}) {
    add_loss_cases_of(
        {"smooth_l1_loss", "beta_" + std::to_string(beta) + "_",
         [=](const Tensor& x, const Tensor& t, int r) { return smooth_l1_loss(x, t, beta, SmoothL1LossReduction(r)); },
         [=](const Var& x, const Var& t, int r) { return ad::smooth_l1_loss(x, t, beta, SmoothL1LossReduction(r)); },
         [=](double x, double t) {
           const double d = std::abs(x - t);
           return distance(d < beta ? d * d / (2 * beta) : d - beta / 2, x, t);
         }});
  }
  for (const double delta : {1.0, 0.5}) {
    add_loss_cases_of(
        {"huber_loss", "delta_" + std::to_string(delta) + "_",
         [=](const Tensor& x, const Tensor& t, int r) { return huber_loss(x, t, delta, HuberLossReduction(r)); },
         [=](const Var& x, const Var& t, int r) { return ad::huber_loss(x, t, delta, HuberLossReduction(r)); },
         [=](double x, double t) {
           const double d = std::abs(x - t);
           return distance(d <= delta ? d * d / 2 : delta * (d - delta / 2), x, t);
         }});
  }
  add_loss_cases_of(
      {"binary_cross_entropy",
       "",
       [](const Tensor& x, const Tensor& t, int r) {
         return binary_cross_entropy(x, t, BinaryCrossEntropyReduction(r));
       },
       [](const Var& x, const Var& t, int r) { return ad::binary_cross_entropy(x, t, BinaryCrossEntropyReduction(r)); },
       [](double x, double t) {
         const double yes = -held_log(x), no = -held_log(1 - x);
         return Term{t * yes + (1 - t) * no, yes + no + 1};
       },
       {.low = 0.05, .high = 0.95},
       {.low = 0, .high = 1}});
  Loss with_logits{"binary_cross_entropy_with_logits",
                   "",
                   [](const Tensor& x, const Tensor& t, int r) {
                     return binary_cross_entropy_with_logits(x, t, BinaryCrossEntropyWithLogitsReduction(r));
                   },
                   [](const Var& x, const Var& t, int r) {
                     return ad::binary_cross_entropy_with_logits(x, t, BinaryCrossEntropyWithLogitsReduction(r));
                   },
                   [](double x, double t) {
                     return Term{softplus_of(x) - t * x, softplus_of(x) + std::abs(t * x) + 1};
                   },
                   {.low = -5, .high = 5},
                   {.low = 0, .high = 1}};
  add_loss_cases_of(with_logits);
  for (const double margin : {1.0, 0.25}) {
    // x where t is 1, max(margin - x, 0) where it is -1, else 0; both off the margin, for differences.
    add_loss_cases_of({"hinge_embedding_loss",
                       "margin_" + std::to_string(margin) + "_",
                       [=](const Tensor& x, const Tensor& t, int r) {
                         return hinge_embedding_loss(x, t, margin, HingeEmbeddingLossReduction(r));
                       },
                       [=](const Var& x, const Var& t, int r) {
                         return ad::hinge_embedding_loss(x, t, margin, HingeEmbeddingLossReduction(r));
                       },
                       [=](double x, double t) {
                         return Term{t == 1 ? x : t == -1 ? max_of(margin - x, 0) : 0.0, std::abs(x) + margin};
                       },
                       {.low = -2, .high = 0.2},
                       {Pattern::integers, -1, 1},
                       {0}});
  }
  add_loss_cases_of({"kl_div",
                     "",
                     [](const Tensor& x, const Tensor& t, int r) { return kl_div(x, t, KlDivReduction(r)); },
                     [](const Var& x, const Var& t, int r) { return ad::kl_div(x, t, KlDivReduction(r)); },
                     [](double x, double t) {
                       const double of_target = t == 0 ? 0 : t * std::log(t);
                       return Term{of_target - t * x, std::abs(of_target) + std::abs(t * x) + t};
                     },
                     {.low = -4, .high = 0},
                     {.low = 0.05, .high = 1}});
  for (const bool is_log : {false, true}) add_divergences(is_log);
  for (const int reduction : {0, 1, 2}) {
    for (const int given : {1, 2, 3}) add_weighted(reduction, (given & 1) != 0, (given & 2) != 0);
  }
  add_loss_cases_of(
      {"kl_div_of_log_target",
       "",
       [](const Tensor& x, const Tensor& t, int r) { return kl_div_of_log_target(x, t, KlDivOfLogTargetReduction(r)); },
       [](const Var& x, const Var& t, int r) { return ad::kl_div_of_log_target(x, t, KlDivOfLogTargetReduction(r)); },
       [](double x, double t) {
         return Term{std::exp(t) * (t - x), std::exp(t) * (std::abs(t) + std::abs(x))};
       },
       {.low = -4, .high = 0},
       {.low = -4, .high = 0}});

  for (const LossSlope& slope : {
           LossSlope{"mse_slope", kMse, {}, [](double x, double t) { return 2 * (x - t); }},
           {"l1_slope", kL1, {}, [](double x, double t) { return sign_of(x - t); }},
           {"smooth_l1_slope",
            kSmoothL1,
            {0.5},
            [](double x, double t) { return std::abs(x - t) < 0.5 ? (x - t) / 0.5 : sign_of(x - t); }},
           {"huber_slope",
            kHuber,
            {0.5},
            [](double x, double t) { return std::abs(x - t) <= 0.5 ? x - t : 0.5 * sign_of(x - t); }},
           {"bce_slope", kBce, {}, [](double x, double t) { return (x - t) / max_of((1 - x) * x, 1e-12); }, 0.05, 0.95},
           {"bce_with_logits_slope",
            kBceWithLogits,
            {},
            [](double x, double t) { return (x >= 0 ? 1 : std::exp(x)) / (1 + std::exp(-std::abs(x))) - t; }},
           {"hinge_slope",
            kHingeEmbedding,
            {0.5},
            [](double x, double t) { return t == 1               ? 1.0
                                            : t == -1 && x < 0.5 ? -1.0
                                                                 : 0.0; },
            -2,
            2,
            Pattern::integers},
           {"kl_div_of_target_slope", kKlDiv, {}, [](double, double t) { return -t; }},
           {"kl_div_of_logs_slope", kKlDivOfLogs, {}, [](double, double t) { return -std::exp(t); }},
       }) {
    add_slope_cases_of(slope);
  }
}

}  // namespace ashlar::conformance
