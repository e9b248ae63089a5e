// Every module's gradients by its floating inputs and its parameters, against differences of its own outputs: with
// L = Σ w y, of random weights w, and a random direction v of one tensor x, v · dL/dx is to be
// (L(x + h v) - L(x - h v)) / 2h. Differences are taken on the CPU, whose outputs other devices' have to be, so that a
// device computes each case once. Modules and inputs are those of tests/nn/torch/cases.py and, below, what these leave
// out: training with chance, rows of several lengths, masks, options of losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "nn/modules/dropout.h"
#include "nn/modules/embedding.h"
#include "nn/modules/losses.h"
#include "nn/modules/normalization.h"
#include "nn/modules/rrelu.h"
#include "nn/modules/transformer.h"
#include "tests/nn/module_cases.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

// A step is halved until the slopes by h and by h/2 agree, and the differences between both sides' slopes are twice
// those by h/2. They aren't where a kink lies between (relu's, another maximum), or where x leaves the function's
// domain. What h² f''' / 6 adds is then a third of what the slopes differ by.
constexpr double kFirstStep = 1.0 / 16, kLeastStep = 1.0 / 2048;
constexpr double kAgree = 0.5;  // of the error allowed
// The error allowed of a sum: so much of √Σ (its terms' slopes)², …
constexpr double kOfSlopes = 1e-3;
// … and what some roundings of the outputs in f32, of half an ulp each, come to when they are divided by h.
constexpr double kRoundings = 8 * 0x1p-24;
// A gradient that is off by so much would be found, in one direction of each tensor at least.
constexpr double kFound = 0.01;
constexpr double kSame = 1e-5;               // of |w y|, by which two devices may differ
constexpr int kDirections = 3, kDraws = 12;  // compared of each tensor, drawn for that at most

/// Tensors that outputs don't depend on, and why: their differences and gradients are 0 but for roundings.
const std::map<std::string, std::string> kWithoutInfluence = {
    {"CosineSimilarity.broadcast input 1", "of what is the same along the axis only the sign counts"},
    {"GRUCell.without_bias parameter weight_hh", "the state is 0"},
    {"LSTMCell.without_bias parameter weight_hh", "the state is 0"},
    {"RNNCell.without_bias parameter weight_hh", "the state is 0"},
    {"Sequential.images parameter 0.bias", "BatchNorm takes the mean away"},
};
/// Elements, from the first of these to the last, whose gradient is 0 by definition: directions leave them alone.
const std::map<std::string, std::pair<size_t, size_t>> kHeld = {
    {"Embedding.padding_idx parameter weight", {6, 8}},  // the row of the padding
};

struct Case {
  Candidate candidate;
  Vars inputs;
};

/// |a - scale b|
double distance(const std::vector<double>& a, const std::vector<double>& b, double scale) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += (a[i] - scale * b[i]) * (a[i] - scale * b[i]);
  return std::sqrt(sum);
}
double norm(const std::vector<double>& a) { return distance(a, a, 0); }

/// A case whose tensors can be moved one at a time.
class Subject {
 public:
  explicit Subject(const Case& of) : case_(of) {
    for (const auto& [key, buffer] : case_.candidate.module->named_buffers()) {
      buffers_.emplace_back(buffer.value(), buffer.value().clone());
    }
    for (size_t i = 0; i < case_.inputs.size(); i++) {
      Var& input = case_.inputs[i];
      if (!input.requires_grad()) continue;
      input = Var(input.value().clone(), true);
      tensors_.emplace_back("input " + std::to_string(i), input);
    }
    for (const auto& [key, parameter] : case_.candidate.module->named_parameters()) {
      tensors_.emplace_back("parameter " + key, parameter);
    }
  }

  /// Those with a gradient.
  const NamedVars& tensors() const { return tensors_; }
  /// The module's results from the same buffers on: states of random numbers, running statistics.
  Vars outputs() const {
    for (const auto& [buffer, first] : buffers_) buffer.copy_(first);
    return case_.candidate.call(case_.inputs);
  }

 private:
  Case case_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;  ///< and what they held at first
  NamedVars tensors_;
};

/// Of a case on the CPU, for its gradients on any device.
class Differences {
 public:
  Differences(const std::string& name, const Case& here, const Case& there) : name_(name), here_(here), there_(there) {}

  /// Compares all tensors' gradients with differences; returns how many had one.
  int check() {
    const std::vector<Var> gradients = differentiated();
    int compared = 0;
    for (size_t i = 0; i < gradients.size(); i++) {
      const auto& [key, x] = here_.tensors()[i];
      const std::string what = name_ + " " + key;
      EXPECT_TRUE(gradients[i].defined()) << what << " has no gradient";
      if (!gradients[i].defined()) continue;
      compare(x, gradients[i].value().to_doubles(), what);
      compared++;
    }
    return compared;
  }

 private:
  /// How the terms of L go along a direction, and how far off their sum may be.
  struct Slope {
    std::vector<double> terms, bends;  ///< slopes, and how much more each is on the one side than on the other
    double allowed;
    double sum() const { return std::accumulate(terms.begin(), terms.end(), 0.0); }
  };

  /// dL/dx of each tensor, and with them w.
  std::vector<Var> differentiated() {
    const Vars y = there_.outputs();
    Vars weights, x;
    for (const Var& part : y) {
      std::vector<float> values;
      for (int64_t i = 0; i < part.numel(); i++) values.push_back(drawn());
      weights_.insert(weights_.end(), values.begin(), values.end());
      weights.emplace_back(Tensor::from(values, part.shape(), part.device()));
    }
    const std::vector<double> here = weighted(here_.outputs());
    EXPECT_LE(distance(weighted(y), here, 1), kSame * norm(here)) << name_ << " has other outputs on the CPU";
    for (const auto& [key, tensor] : there_.tensors()) x.push_back(tensor);
    return grad(y, x, weights, {.allow_unused = true});
  }

  /// Of either sign, and none too small to show.
  float drawn() {
    const float size = std::uniform_real_distribution<float>(0.25F, 1)(engine_);
    return engine_() % 2 == 0 ? size : -size;
  }

  /// w y of all elements.
  std::vector<double> weighted(const Vars& outputs) const {
    std::vector<double> all;
    for (const Var& y : outputs) {
      for (const double value : y.value().to_doubles()) all.push_back(value * weights_[all.size()]);
    }
    return all;
  }

  /// The same with x at `values`.
  std::vector<double> terms(const Var& x, const std::vector<float>& values) const {
    const NoGrad guard;
    x.value().copy_(Tensor::from(values, x.shape()));
    return weighted(here_.outputs());
  }

  Slope slope(const Var& x, const std::vector<float>& at, const std::vector<float>& v, double h,
              const std::vector<double>& middle) const {
    std::vector<float> above = at, below = at;
    for (size_t i = 0; i < at.size(); i++) {
      above[i] += static_cast<float>(h) * v[i];
      below[i] -= static_cast<float>(h) * v[i];
    }
    Slope made{terms(x, above), {}, 0};
    const std::vector<double> lower = terms(x, below);
    for (size_t i = 0; i < lower.size(); i++) {
      made.bends.push_back((made.terms[i] - 2 * middle[i] + lower[i]) / h);
      made.terms[i] = (made.terms[i] - lower[i]) / (2 * h);
    }
    made.allowed = kOfSlopes * norm(made.terms) + kRoundings * norm(middle) / h;
    return made;
  }

  /// None where two steps that follow each other never agree.
  std::optional<Slope> smooth_slope(const Var& x, const std::vector<float>& at, const std::vector<float>& v,
                                    const std::vector<double>& middle) const {
    Slope wide = slope(x, at, v, kFirstStep, middle);
    for (double h = kFirstStep / 2; h >= kLeastStep; h /= 2) {
      Slope narrow = slope(x, at, v, h, middle);
      const double apart = distance(wide.terms, narrow.terms, 1), bent = distance(wide.bends, narrow.bends, 2);
      if (apart <= kAgree * narrow.allowed && bent <= kAgree * narrow.allowed) return narrow;
      wide = std::move(narrow);
    }
    return {};
  }

  void compare(const Var& x, const std::vector<double>& gradient, const std::string& what) {
    const std::vector<float> at = x.value().to_vector<float>();
    const std::vector<double> middle = terms(x, at);
    int compared = 0;
    bool would_be_found = false;
    for (int draw = 0; draw < kDraws && (compared < kDirections || !would_be_found); draw++) {
      std::vector<float> v(at.size());
      for (float& value : v) value = drawn();
      if (const auto held = kHeld.find(what); held != kHeld.end()) {
        std::fill(v.begin() + held->second.first, v.begin() + held->second.second + 1, 0.0F);
      }
      const std::optional<Slope> wanted = smooth_slope(x, at, v, middle);
      if (!wanted) continue;
      double got = 0;
      for (size_t i = 0; i < v.size(); i++) got += gradient[i] * static_cast<double>(v[i]);
      EXPECT_NEAR(got, wanted->sum(), wanted->allowed) << what << ", direction " << draw;
      would_be_found |= kFound * std::abs(wanted->sum()) > wanted->allowed;
      compared++;
    }
    x.value().copy_(Tensor::from(at, x.shape()));
    EXPECT_GE(compared, kDirections) << what << ": too many kinks";
    EXPECT_EQ(would_be_found, !kWithoutInfluence.contains(what)) << what << ": found if it were off";
  }

  std::string name_;
  Subject here_, there_;
  std::vector<double> weights_;
  std::mt19937 engine_{7};
};

// ---- what PyTorch's cases leave out: training with dropout, whose numbers are its own, and more of options

class MoreCases {
 public:
  explicit MoreCases(Device device) : device_(device) {
    manual_seed(3);
    add_chance();
    add_recurrent<RNN>("RNN.lengths", {}, 1);
    add_recurrent<RNN>("RNN.relu_lengths", {.nonlinearity = RecurrentActivation::relu}, 1);
    add_recurrent<GRU>("GRU.lengths", {}, 1);
    add_recurrent<GRU>("GRU.reset_before", {.reset_after = false}, 1);
    add_recurrent<LSTM>("LSTM.lengths", {}, 2);
    add("GRUCell.reset_before", of(GRUCell(3, 4, {.reset_after = false})), {normal({2, 3}), normal({2, 4})});
    add_attention();
    add_losses();
    add("EmbeddingBag.padding_idx", of(EmbeddingBag(7, 3, {.padding_idx = 2})),
        {Tensor::randint(0, 7, {4, 5}, random_)});
    const auto of_sum = [](const auto& m, const Vars& x) {
      const ResultOfSum stream = m.of_sum(x[0], x[1]);
      return RNN::Result{stream.y, stream.h};
    };
    add("LayerNorm.of_sum", of(LayerNorm(6), of_sum), {normal({2, 4, 6}), normal({2, 4, 6})});
    add("RMSNorm.of_sum", of(RMSNorm(6), of_sum), {normal({2, 4, 6}), normal({2, 4, 6})});
  }

  const std::map<std::string, Case>& all() const { return all_; }

 private:
  void add(const std::string& name, const Candidate& candidate, const std::vector<Tensor>& inputs) {
    Case& made = all_[name] = {candidate, {}};
    made.candidate.module->to(device_);
    for (const Tensor& input : inputs) made.inputs.emplace_back(input.to(device_), is_floating(input.dtype()));
  }

  Tensor normal(const Shape& shape) { return Tensor::randn(shape, random_); }
  Tensor uniform(double low, double high, const Shape& shape) {
    return Tensor::rand(shape, random_) * (high - low) + low;
  }

  void add_chance() {
    const Tensor images = normal({4, 5, 3, 3, 2});
    add("Dropout.training", of(Dropout(0.4)), {normal({4, 6})});
    add("Dropout1d.training", of(Dropout1d(0.4)), {normal({4, 5, 3})});
    add("Dropout2d.training", of(Dropout2d(0.4)), {normal({4, 5, 3, 2})});
    add("Dropout3d.training", of(Dropout3d(0.4)), {images});
    add("AlphaDropout.training", of(AlphaDropout(0.4)), {normal({4, 6})});
    add("FeatureAlphaDropout.training", of(FeatureAlphaDropout(0.4)), {images});
    add("RReLU.training", of(RReLU(0.1, 0.9)), {normal({4, 6})});
  }

  /// Two layers in both directions with dropout between them, over rows that end at steps of their own, one at once.
  template <class Layer>
  void add_recurrent(const std::string& name, RecurrentOptions options, int states) {
    options.num_layers = 2;
    options.bidirectional = true;
    options.dropout = 0.3;
    std::vector<Tensor> inputs{normal({5, 4, 3})};
    for (int i = 0; i < states; i++) inputs.push_back(normal({4, 4, 5}));
    inputs.push_back(Tensor::from<int64_t>({3, 5, 0, 2}));
    add(name, of(Layer(3, 5, options)), inputs);
  }

  void add_attention() {
    const Tensor keys = Tensor::from<bool>({true, true, false, true, false, true, true, true}, {2, 4});
    const Tensor q = normal({2, 5, 4}), k = normal({2, 4, 4}), v = normal({2, 4, 4});
    using Attention = MultiheadAttention;
    add("MultiheadAttention.dropout",
        of(Attention(4, 2, {.batch_first = true, .dropout = 0.3}),
           [](const Attention& m, const Vars& x) {
             return m.forward(x[0], x[1], x[2], {.attn_mask = x[3], .is_causal = true, .key_mask = x[4]});
           }),
        {q, k, v, normal({5, 4}), keys});
    const TransformerLayerOptions layer{.dim_feedforward = 6, .dropout = 0.2, .gelu = true, .batch_first = true};
    add("TransformerEncoderLayer.training",
        of(TransformerEncoderLayer(4, 2, layer),
           [](const auto& m, const Vars& x) { return m.forward(x[0], {.key_mask = x[1]}); }),
        {k, keys});
    add("TransformerDecoderLayer.training",
        of(TransformerDecoderLayer(4, 2, layer),
           [](const auto& m, const Vars& x) { return m.forward(x[0], x[1], {.is_causal = true}, {.key_mask = x[2]}); }),
        {q, k, keys});
    add("Transformer.training",
        of(Transformer(4, 2, {.num_encoder_layers = 2, .num_decoder_layers = 2, .layer = layer}),
           [](const auto& m, const Vars& x) {
             return m.forward(x[0], x[1], {.key_mask = x[2]}, {.is_causal = true}, {.key_mask = x[2]});
           }),
        {k, q, keys});
  }

  void add_losses() {
    const Tensor logits = normal({4, 5}), labels = Tensor::from<int64_t>({3, 0, 4, 2});
    const Tensor of_classes = uniform(0.5, 1.5, {5}).to(device_), of_elements = uniform(0.5, 1.5, {4, 5}).to(device_);
    const Tensor probabilities = uniform(0.2, 0.8, {4, 5}), targets = uniform(0, 1, {4, 5});
    add("CrossEntropyLoss.weighted", of(CrossEntropyLoss({.weight = of_classes, .label_smoothing = 0.2})),
        {logits, labels});
    add("NLLLoss.weighted", of(NLLLoss({.weight = of_classes, .reduction = Reduction::none})), {logits, labels});
    add("BCELoss.weighted", of(BCELoss({.weight = of_elements})), {probabilities, targets});
    add("BCEWithLogitsLoss.weighted", of(BCEWithLogitsLoss({.weight = of_elements, .pos_weight = of_classes})),
        {logits, targets});
    add("KLDivLoss.logarithms", of(KLDivLoss({.log_target = true})), {logits, normal({4, 5})});
    add("TripletMarginLoss.swap", of(TripletMarginLoss({.swap = true, .reduction = Reduction::none})),
        {normal({4, 5}), normal({4, 5}), normal({4, 5})});
  }

  Device device_;
  Random random_{5};
  std::map<std::string, Case> all_;
};

class ModuleGradientsOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, ModuleGradientsOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

std::map<std::string, Case> cases_on(Device device) {
  std::map<std::string, Case> cases = MoreCases(device).all();
  for (const auto& [name, kinds] : torch_cases()) {
    EXPECT_TRUE(cases.emplace(name, Case{loaded(name, device), inputs_of(kinds, device)}).second) << name;
  }
  return cases;
}

TEST_P(ModuleGradientsOnDevice, AreWhatDifferencesSay) {
  const std::map<std::string, Case> here = cases_on(Device::cpu()), there = cases_on(device());
  std::set<std::string> checked;
  int tensors = 0;
  for (const auto& [name, of] : there) {
    const int compared = Differences(name, here.at(name), of).check();
    if (compared > 0) checked.insert(name.substr(0, name.find('.')));
    tensors += compared;
  }
  EXPECT_EQ(checked, module_classes());
  EXPECT_GT(tensors, 900);
}

}  // namespace
}  // namespace ashlar::nn
