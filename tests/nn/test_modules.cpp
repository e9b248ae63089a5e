// Modules: names, initial values, state dicts, moving, fusion.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/bilinear.h"
#include "nn/modules/dropout.h"
#include "nn/modules/embedding.h"
#include "nn/modules/flatten.h"
#include "nn/modules/linear.h"
#include "nn/modules/module_list.h"
#include "nn/modules/normalization.h"
#include "nn/modules/residual.h"
#include "nn/modules/sequential.h"
#include "nn/modules/upsample.h"
#include "nn/safetensors.h"
#include "runtime/device/counters.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class ModulesOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, ModulesOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

std::vector<std::string> names_of(const NamedVars& vars) {
  std::vector<std::string> names;
  for (const auto& [name, var] : vars) names.push_back(name);
  return names;
}

void build(Sequential& model, uint64_t seed = 1) {
  Random random(seed);
  model.add<Linear>(4, 3, random).add<ReLU>().add<Linear>(3, 2, LinearOptions{.bias = false, .random = &random});
}

/// A module with a buffer and a child, as a user may write one.
template <class Inner>
class Scaled : public ModuleOf<Scaled<Inner>> {
 public:
  explicit Scaled(Inner inner)
      : scale_(Tensor::full({1}, 2), true), shift_(Tensor::full({1}, 3)), inner_(std::move(inner)) {}
  Var forward(const Var& x) const { return ad::add(ad::mul(inner_(x), scale_), shift_); }

 protected:
  void members(Members& members) override {
    members.parameter("scale", scale_);
    members.buffer("shift", shift_);
    members.child("inner", inner_);
  }

 private:
  Var scale_, shift_;
  Inner inner_;
};

TEST(Modules, NamesAreThoseOfPyTorch) {
  Sequential model;
  build(model);
  EXPECT_EQ(names_of(model.named_parameters()), (std::vector<std::string>{"0.weight", "0.bias", "2.weight"}));
  EXPECT_EQ(model.parameter_count(), 4 * 3 + 3 + 3 * 2);
  const Scaled scaled{Sequential()};
  EXPECT_EQ(names_of(scaled.named_parameters()), (std::vector<std::string>{"scale"}));
  EXPECT_EQ(names_of(scaled.named_buffers()), (std::vector<std::string>{"shift"}));
  EXPECT_EQ(scaled.state_dict().size(), 2U);
}

TEST(Modules, TrainingModeReachesChildren) {
  auto inner = std::make_shared<Dropout>();
  Sequential model;
  model.add(std::make_shared<Residual<Sequential>>(std::move(Sequential().add(inner))));
  EXPECT_TRUE(inner->training());
  model.eval();
  EXPECT_FALSE(inner->training());
  model.train();
  EXPECT_TRUE(inner->training());
}

/// Arguments of any kind and number, some of them no Vars.
class Cell : public ModuleOf<Cell> {
 public:
  explicit Cell(Random& random) : in_(3, 2, random), state_(2, 2, random) {}
  std::pair<Var, int> forward(const Var& x, const Var& h, int steps) const {
    return {ad::tanh(ad::add(in_(x), state_(h))), steps + 1};
  }

 protected:
  void members(Members& members) override {
    members.child("in", in_);
    members.child("state", state_);
  }

 private:
  Linear in_, state_;
};

TEST(Modules, ForwardBelongsToTheClass) {
  Random random(1);
  Cell cell(random);
  auto [h, steps] = cell(Tensor::ones({4, 3}), Tensor::zeros({4, 2}), 6);
  EXPECT_EQ(h.shape(), (Shape{4, 2}));
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(names_of(cell.named_parameters()),
            (std::vector<std::string>{"in.weight", "in.bias", "state.weight", "state.bias"}));
  ModuleList<Cell> cells;
  cells.emplace(random);
  cells.emplace(random);
  for (const Cell& each : cells) h = each(Tensor::ones({4, 3}), h, 0).first;
  EXPECT_EQ(names_of(cells.named_parameters())[4], "1.in.weight");
  EXPECT_THROW(cells[2], IndexError);
  EXPECT_THROW(cells.add(nullptr), ValueError);
}

TEST(Modules, CopiesShareAndClonesDoNot) {
  Random random(1);
  Scaled<Residual<Sequential>> model{Residual(Sequential(Linear(2, 2, random), ReLU()))};
  model.eval();
  const Scaled<Residual<Sequential>> copy = model;
  Scaled<Residual<Sequential>> twin = model.clone();
  const std::shared_ptr<Module> other = static_cast<const Module&>(model).clone();
  EXPECT_FALSE(twin.training());
  EXPECT_EQ(names_of(twin.named_parameters()), names_of(model.named_parameters()));
  const auto states = [](const Module& module) {
    std::vector<std::vector<float>> all;
    for (const auto& [name, tensor] : module.state_dict()) all.push_back(tensor.to_vector<float>());
    return all;
  };
  const auto before = states(model);
  EXPECT_EQ(states(twin), before);
  for (const auto& [name, tensor] : model.state_dict()) tensor.fill_(7);
  EXPECT_NE(states(model), before);
  EXPECT_EQ(states(copy), states(model));
  EXPECT_EQ(states(twin), before);
  EXPECT_EQ(states(*other), before);
  EXPECT_TRUE(twin.parameters()[0].requires_grad());
  EXPECT_TRUE(twin.parameters()[0].is_leaf());
  // The copy computes with its own parameters, not with those of the names.
  const Var x = Tensor::ones({1, 2});
  EXPECT_NE(twin(x).value().to_vector<float>(), model(x).value().to_vector<float>());
}

TEST(Modules, WhatIsSharedInsideIsSharedInTheClone) {
  Random random(1);
  const auto layer = std::make_shared<Linear>(2, 2, random);
  Sequential model;
  model.add(layer).add<ReLU>().add(layer);
  EXPECT_EQ(model.parameter_count(), 6) << "counted once";
  EXPECT_EQ(names_of(model.named_parameters()), (std::vector<std::string>{"0.weight", "0.bias"}));
  EXPECT_EQ(model.state_dict().size(), 4U) << "under both names";
  Sequential twin = model.clone();
  EXPECT_EQ(twin.parameter_count(), 6);
  twin.parameters()[0].value().fill_(0);
  EXPECT_EQ(twin.state_dict()[2].second.to_vector<float>(), std::vector<float>(4, 0));
}

// An embedding's weight as a language model's last layer.
TEST(Modules, WeightsMayBeTied) {
  const Embedding embedding(5, 3);
  const Linear head(embedding.weight());
  const Tensor index = Tensor::from<int64_t>({2, 4}, {2});
  backward(ad::sum(head(embedding(index))));
  // Σ_v e_i w_v: of every row the sum of what was looked up, and of those the sum of all rows.
  const Tensor& w = embedding.weight().value();
  const Tensor looked_up = ashlar::sum(ashlar::index_select(w, index), {0}), all = ashlar::sum(w, {0});
  const std::vector<float> gradient = head.weight().grad().to_vector<float>();
  for (int64_t row = 0; row < 5; row++) {
    for (int64_t c = 0; c < 3; c++) {
      const double wanted = looked_up.select(0, c).item() + (row == 2 || row == 4 ? all.select(0, c).item() : 0);
      EXPECT_NEAR(gradient[static_cast<size_t>(row * 3 + c)], wanted, 1e-5);
    }
  }
  EXPECT_THROW(Linear(embedding.weight(), Tensor::zeros({3})), ShapeError);
}

TEST_P(ModulesOnDevice, BagsLeaveOutThePadding) {
  const std::vector<float> none(2, 0);
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const EmbeddingBag bags(4, 2, {.mode = mode, .padding_idx = 1, .include_last_offset = true, .device = device()});
    const auto row = [&](int64_t i) { return bags.weight().value().select(0, i).to_vector<float>(); };
    EXPECT_EQ(row(1), none);
    // Row 0 and padding; nothing; row 2. The last index is in no bag.
    const Var y = bags(Tensor::from<int64_t>({0, 1, 2, 3}, device()), Tensor::from<int64_t>({0, 2, 2, 3}, device()));
    EXPECT_EQ(y.value().select(0, 0).to_vector<float>(), row(0));
    EXPECT_EQ(y.value().select(0, 1).to_vector<float>(), none);
    EXPECT_EQ(y.value().select(0, 2).to_vector<float>(), row(2));
    backward(ad::sum(y));
    EXPECT_EQ(bags.weight().grad().to_vector<float>(), (std::vector<float>{1, 1, 0, 0, 1, 1, 0, 0}));
  }
  EXPECT_THROW(EmbeddingBag(4, 2, {.padding_idx = 4}), ValueError);
}

TEST(Modules, SummaryShowsNamesShapesAndCounts) {
  Random random(1);
  const Sequential model(Linear(4, 3, random), ReLU(), Residual(Linear(3, 3, LinearOptions{.bias = false})),
                         Dropout(0.25, {.random = &random}));
  EXPECT_EQ(model.summary(),
            "(all)        Sequential\n"
            "  0          Linear             weight [3, 4], bias [3]  15\n"
            "  1          ReLU\n"
            "  2          Residual<Linear>\n"
            "    2.inner  Linear             weight [3, 3]            9\n"
            "  3          Dropout(p = 0.25)  random [2]               0\n"
            "24 parameters, 2 elements of buffers, 112 bytes\n");
}

TEST(Modules, LinearStartsUniformInItsBound) {
  Random random(3), same(3), other(4);
  const Linear linear(100, 500, random), twin(100, 500, same), different(100, 500, other);
  const auto weights = linear.weight().value().to_vector<float>();
  EXPECT_EQ(linear.weight().shape(), (Shape{500, 100}));
  const auto [low, high] = std::ranges::minmax(weights);
  EXPECT_GE(low, -0.1F);
  EXPECT_LT(high, 0.1F);
  double sum = 0, squares = 0;
  for (const float w : weights) {
    sum += w;
    squares += static_cast<double>(w) * w;
  }
  const auto n = static_cast<double>(weights.size());
  EXPECT_NEAR(sum / n, 0, 1.5e-3);                // five standard errors
  EXPECT_NEAR(squares / n, 0.1 * 0.1 / 3, 5e-5);  // variance of a uniform distribution
  EXPECT_EQ(twin.weight().value().to_vector<float>(), weights);
  EXPECT_NE(different.weight().value().to_vector<float>(), weights);
  EXPECT_THROW(Linear(0, 3, random), ValueError);
}

TEST_P(ModulesOnDevice, LinearIsAnAffineMap) {
  Random random(1);
  Linear linear(2, 3, random);
  linear.load_state_dict({{"weight", Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2})},
                          {"bias", Tensor::from(std::vector<float>{10, 20, 30}, {3})}});
  linear.to(device());
  const Tensor x = Tensor::from(std::vector<float>{1, 1, 0, -1}, {2, 1, 2}, device());
  const Var y = linear(x);
  EXPECT_EQ(y.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(y.value().to_vector<float>(), (std::vector<float>{13, 27, 41, 8, 16, 24}));
}

// Linear and ReLU fused by Sequential give what the two give apart, gradients included.
TEST_P(ModulesOnDevice, FusionChangesNothing) {
  Sequential fused;
  build(fused);
  fused.to(device());
  std::vector<float> pixels(5 * 4);
  for (size_t i = 0; i < pixels.size(); i++) pixels[i] = std::sin(static_cast<float>(i));
  const Var x(Tensor::from(pixels, {5, 4}, device()));
  const auto gradients = [&](auto forward) {
    for (const Var& p : fused.parameters()) p.clear_grad();
    const Var y = forward();
    backward(ad::sum(ad::mul(y, y)));
    std::vector<std::vector<float>> all{y.value().to_vector<float>()};
    for (const Var& p : fused.parameters()) all.push_back(p.grad().to_vector<float>());
    return all;
  };
  const auto together = gradients([&] { return fused(x); });
  const NamedVars p = fused.named_parameters();
  const auto apart = gradients([&] {
    const Var hidden = ad::relu(ad::add(ad::matmul(x, p[0].second, {.transpose_b = true}), p[1].second));
    return ad::matmul(hidden, p[2].second, {.transpose_b = true});
  });
  ASSERT_EQ(together.size(), apart.size());
  for (size_t i = 0; i < apart.size(); i++) {
    for (size_t j = 0; j < apart[i].size(); j++) EXPECT_NEAR(together[i][j], apart[i][j], 1e-5) << i << ", " << j;
  }
}

TEST_P(ModulesOnDevice, ActivationsComputeTheirFormulas) {
  const std::vector<float> points{-3, -0.5F, 0, 0.25F, 2};
  const Var x(Tensor::from(points, {5}, device()));
  const auto check = [&](auto module, double (*formula)(double)) {
    const auto y = module(x).value().template to_vector<float>();
    for (size_t i = 0; i < points.size(); i++) EXPECT_NEAR(y[i], formula(points[i]), 1e-5) << points[i];
  };
  check(ReLU(), [](double v) { return std::max(v, 0.0); });
  check(GELU(), [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); });
  check(SiLU(), [](double v) { return v / (1 + std::exp(-v)); });
  check(Tanh(), [](double v) { return std::tanh(v); });
  check(Sigmoid(), [](double v) { return 1 / (1 + std::exp(-v)); });
}

TEST_P(ModulesOnDevice, CrossEntropyIsAMean) {
  const Var logits(Tensor::from(std::vector<float>{0, 0, 0, 1, 2, 3}, {2, 3}, device()));
  const Tensor labels = Tensor::from(std::vector<int64_t>{1, 0}, {2}, device());
  const double second = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0)) - 1;
  const Var loss = cross_entropy(logits, labels);
  EXPECT_EQ(loss.shape(), Shape{});
  EXPECT_NEAR(loss.value().item(), (std::log(3.0) + second) / 2, 1e-5);
  const Tensor wrong = Tensor::from(std::vector<int64_t>{1, 3}, {2}, device());
  EXPECT_TRUE(std::isnan(cross_entropy(logits, wrong).value().item()));
}

TEST(Modules, StateDictsAreStrict) {
  Sequential from, to;
  build(from, 1);
  build(to, 2);
  NamedTensors state = from.state_dict();
  to.load_state_dict(state);
  EXPECT_EQ(to.parameters()[0].value().to_vector<float>(), from.parameters()[0].value().to_vector<float>());
  EXPECT_NE(to.parameters()[0].value().storage(), from.parameters()[0].value().storage());

  NamedTensors missing(state.begin() + 1, state.end()), surplus = state, shape = state, dtype = state, twice = state;
  surplus.emplace_back("3.weight", Tensor::ones({1}));
  shape[0].second = Tensor::ones({3, 5});
  dtype[0].second = Tensor::ones({3, 4}, DType::f64);
  twice.push_back(state[0]);
  const auto before = to.parameters()[0].value().to_vector<float>();
  using testing::expect_error;
  expect_error<ValueError>([&] { to.load_state_dict(missing); }, {"no tensor \"0.weight\"", "same structure"});
  expect_error<ValueError>([&] { to.load_state_dict(surplus); }, {"unexpected \"3.weight\""});
  missing.emplace_back("nonsense", Tensor::ones({1}));
  expect_error<ValueError>([&] { to.load_state_dict(missing); }, {"no tensor \"0.weight\"; unexpected \"nonsense\""});
  EXPECT_THROW(to.load_state_dict(twice), ValueError);
  expect_error<ShapeError>([&] { to.load_state_dict(shape); }, {"\"0.weight\" as f32[3, 5]", "[3, 4]"});
  EXPECT_THROW(to.load_state_dict(dtype), DTypeError);
  EXPECT_EQ(to.parameters()[0].value().to_vector<float>(), before) << "nothing was written";
}

TEST_P(ModulesOnDevice, MovesParametersAndBuffers) {
  Random random(1);
  Scaled module{Linear(2, 2, random)};
  const auto x = Tensor::from(std::vector<float>{1, 2}, {1, 2});
  const auto before = module(x).value().to_vector<float>();
  module.to(device());
  for (const auto& [name, tensor] : module.state_dict()) EXPECT_EQ(tensor.device(), device()) << name;
  const auto after = module(x.to(device())).value().to_vector<float>();
  for (size_t i = 0; i < before.size(); i++) EXPECT_NEAR(after[i], before[i], 1e-5);
  module.to(DType::f16);
  EXPECT_EQ(module(x.to(device()).to(DType::f16)).dtype(), DType::f16);
}

class MyReLU : public ModuleOf<MyReLU> {
 public:
  static constexpr Activation kEpilogue = Activation::relu;
  Var forward(const Var& x) const { return ad::relu(x); }
};
class Unknown : public ModuleOf<Unknown> {
 public:
  Var forward(const Var& x) const { return ad::relu(x); }
};

// GELU is fused as well, and a class of one's own that says what it is.
TEST_P(ModulesOnDevice, DescriptorsSayWhatIsFused) {
  Random random(1);
  const Var x(Tensor::randn({5, 4}, random).to(device()));
  const auto launches = [&](auto activation) {
    Sequential model(Linear(4, 3, {.device = device()}), activation);
    const NoGrad no_grad;  // recorded, GELU is a launch of its own
    const Tensor warm = model(x).value();
    const Counters before = counters(device().kind);
    const Var y = model(x);
    return (counters(device().kind) - before).launches;
  };
  const auto alone = launches(Unknown());
  EXPECT_LT(launches(ReLU()), alone);
  EXPECT_LT(launches(GELU()), alone);
  EXPECT_LT(launches(MyReLU()), alone);
}

// What GELU was given is kept for its gradient: the product isn't taken again, as matmul's own gradient does.
TEST_P(ModulesOnDevice, GeluKeepsWhatItWasGiven) {
  Random random(1);
  const Linear linear(6, 4, {.device = device(), .random = &random});
  const Tensor x = Tensor::randn({5, 6}, random).to(device()), seed = Tensor::randn({5, 4}, random).to(device());
  struct Run {
    std::vector<Tensor> values;
    int64_t backward_launches;
  };
  const auto run = [&](const auto& layer) {
    linear.zero_grad();
    const Var input(x.clone(), true), y = layer(input);
    const Counters before = counters(device().kind);
    backward(y, {.seed = seed});
    const int64_t launches = (counters(device().kind) - before).launches;
    return Run{{y.value(), input.grad(), linear.weight().grad(), linear.bias().grad()}, launches};
  };
  const auto fused = [&](const Var& v) {
    return ad::matmul(v, linear.weight(), {.transpose_b = true, .activation = Activation::gelu}, linear.bias());
  };
  const auto kept = [&](const Var& v) { return linear.forward(v, Activation::gelu); };
  run(fused);  // warm
  run(kept);
  const Run wanted = run(fused), got = run(kept);
  EXPECT_LT(got.backward_launches, wanted.backward_launches);
  for (size_t i = 0; i < got.values.size(); i++) {
    const auto a = got.values[i].to_doubles(), b = wanted.values[i].to_doubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t j = 0; j < a.size(); j++) EXPECT_NEAR(a[j], b[j], 1e-6) << i << ", " << j;
  }
}

class RowMean : public ModuleOf<RowMean> {
 public:
  Var forward(const Var& x) const { return ad::mean(x, {-1}, true); }
};

// A residual's addition is a normalisation's, behind it or first in the next one; values, gradients and names are those
// of each by itself.
TEST_P(ModulesOnDevice, NormalisationsAddWhatResidualsLeave) {
  Random random(1);
  const LinearOptions linear{.device = device(), .random = &random};
  const LayerNormOptions norm{.device = device()};
  const Linear first(6, 6, linear), second(6, 6, linear), third(6, 6, linear);
  const LayerNorm one(6, norm), last(6, norm);
  const RMSNorm two(6, {.device = device()});
  const Sequential model(Residual(Sequential(first, Tanh())), one, Residual(Sequential(two, second, ReLU())),
                         Residual(Sequential(last, third)), Residual(Tanh()));
  const auto separate = [&](const Var& x) {
    const Var a = one(ad::add(x, ad::tanh(first(x))));
    const Var b = ad::add(a, second.forward(two(a), Activation::relu));
    const Var c = ad::add(b, third(last(b)));
    return ad::add(c, ad::tanh(c));
  };
  const Tensor x = Tensor::randn({5, 6}, random).to(device()), seed = Tensor::randn({5, 6}, random).to(device());
  struct Run {
    std::vector<Tensor> values;
    int64_t launches;
  };
  const auto run = [&](const auto& function) {
    model.zero_grad();
    const Var input(x.clone(), true);
    const Counters before = counters(device().kind);
    const Var y = function(input);
    const int64_t launches = (counters(device().kind) - before).launches;
    backward(y, {.seed = seed});
    std::vector<Tensor> values{y.value(), input.grad()};
    for (const Var& parameter : model.parameters()) values.push_back(parameter.grad().clone());
    return Run{values, launches};
  };
  run(separate);  // warm
  const Run wanted = run(separate), got = run(model);
  EXPECT_EQ(got.launches, wanted.launches - 2);
  ASSERT_EQ(got.values.size(), 2U + 11U);
  for (size_t i = 0; i < got.values.size(); i++) {
    const auto a = got.values[i].to_doubles(), b = wanted.values[i].to_doubles();
    for (size_t j = 0; j < a.size(); j++) EXPECT_NEAR(a[j], b[j], 1e-5 * (1 + std::abs(b[j]))) << i << " " << j;
  }
  // A branch of another shape is add()'s.
  const auto broadcast = Sequential(Residual(RowMean()), one)(x).value().to_doubles();
  const auto added = one(ad::add(x, RowMean().forward(x))).value().to_doubles();
  EXPECT_EQ(broadcast, added);
}

TEST_P(ModulesOnDevice, OptionsPlaceParameters) {
  const Linear linear(3, 2, {.device = device(), .dtype = DType::f16});
  EXPECT_EQ(linear.weight().device(), device());
  EXPECT_EQ(linear.bias().dtype(), DType::f16);
  manual_seed(5);
  const Linear first(3, 2, {.device = device()});
  manual_seed(5);
  const Linear second(3, 2);
  EXPECT_EQ(first.weight().value().to_vector<float>(), second.weight().value().to_vector<float>());
}

TEST_P(ModulesOnDevice, BilinearIsItsSum) {
  Random random(2);
  const Bilinear layer(3, 4, 2, {.device = device(), .random = &random});
  const Tensor a = Tensor::randn({2, 3, 3}, random), b = Tensor::randn({2, 3, 4}, random);
  const Var y = layer(a.to(device()), b.to(device()));
  ASSERT_EQ(y.shape(), (Shape{2, 3, 2}));
  const auto w = layer.weight().value().to_vector<float>(), bias = layer.bias().value().to_vector<float>();
  const auto x1 = a.to_vector<float>(), x2 = b.to_vector<float>(), got = y.value().to_vector<float>();
  for (size_t row = 0; row < 6; row++) {
    for (size_t o = 0; o < 2; o++) {
      double sum = bias[o];
      for (size_t i = 0; i < 3; i++) {
        for (size_t j = 0; j < 4; j++) sum += double{x1[row * 3 + i]} * w[(o * 3 + i) * 4 + j] * x2[row * 4 + j];
      }
      EXPECT_NEAR(got[row * 2 + o], sum, 1e-5);
    }
  }
  backward(ad::sum(y));
  for (const Var& p : layer.parameters()) EXPECT_EQ(p.grad().shape(), p.shape());
  EXPECT_THROW(layer(a.to(device()), a.to(device())), ShapeError);
}

TEST_P(ModulesOnDevice, UpsampledImagesCanBeCaptured) {
  const Var x(Tensor::ones({1, 2, 3, 4}, DType::f32, device()), true);
  const Upsample linear({.scale_factor = {1.7}, .mode = Interpolation::linear});
  Tensor y, dx;
  const auto step = [&] {
    x.clear_grad();
    const Var up = linear(x);
    backward(ad::sum(up));
    y = up.value();
    dx = x.grad();
  };
  step();  // what a device makes at first use
  Graph graph = capture(device(), step);
  x.value().fill_(3);
  graph.replay();
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(2 * 5 * 6, 3));
  EXPECT_NEAR(ashlar::sum(dx).item(), 2 * 5 * 6, 1e-4);
  EXPECT_THROW(interpolate(x, {}), ValueError);
  EXPECT_THROW(interpolate(x, {.size = {3, 3, 3}}), ValueError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {0.1}}), ValueError);
  EXPECT_THROW(interpolate(x, {.scale_factor = {2}, .align_corners = true}), ValueError);
}

TEST(Modules, FlattenJoinsDimensions) {
  const Var x(Tensor::ones({2, 3, 4, 5}));
  EXPECT_EQ(Flatten()(x).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(0, 1)(x).shape(), (Shape{6, 4, 5}));
  EXPECT_EQ(Flatten(-2)(x).shape(), (Shape{2, 3, 20}));
  EXPECT_THROW(Flatten(2, 1)(x), ValueError);
  EXPECT_THROW(Flatten(4)(x), IndexError);
}

TEST(Modules, WeightsGoThroughFiles) {
  const testing::TemporaryFolder folder;
  Random random(1);
  Sequential from(Linear(3, 2, random), Residual(Linear(2, 2, random)));
  Sequential to = from.clone();
  for (const Var& p : to.parameters()) p.value().fill_(0);
  write_safetensors(folder / "model.safetensors", from.state_dict());
  to.load_state_dict(read_safetensors(folder / "model.safetensors").tensors);
  EXPECT_EQ(to.parameters()[2].value().to_vector<float>(), from.parameters()[2].value().to_vector<float>());
}

}  // namespace
}  // namespace ashlar::nn
