// Modules: names, initial values, state dicts, moving, fusion.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/backward.h"
#include "nn/activations.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/sequential.h"
#include "runtime/support/error.h"
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
  model.add<Linear>(4, 3, random).add<ReLU>().add<Linear>(3, 2, random, /*with_bias=*/false);
}

/// A module with a buffer and a child, as a user may write one.
class Scaled : public Module {
 public:
  explicit Scaled(std::shared_ptr<Module> inner) : inner_(inner) {
    scale_ = register_parameter("scale", Tensor::full({1}, 2));
    shift_ = register_buffer("shift", Tensor::full({1}, 3));
    register_child("inner", std::move(inner));
  }
  Var forward(const Var& x) override { return ad::add(ad::mul(inner_->forward(x), scale_), shift_); }

 private:
  std::shared_ptr<Module> inner_;
  Var scale_, shift_;
};

TEST(Modules, NamesAreThoseOfPyTorch) {
  Sequential model;
  build(model);
  EXPECT_EQ(names_of(model.named_parameters()), (std::vector<std::string>{"0.weight", "0.bias", "2.weight"}));
  EXPECT_EQ(model.parameter_count(), 4 * 3 + 3 + 3 * 2);
  const Scaled scaled(std::make_shared<Sequential>());
  EXPECT_EQ(names_of(scaled.named_parameters()), (std::vector<std::string>{"scale"}));
  EXPECT_EQ(names_of(scaled.named_buffers()), (std::vector<std::string>{"shift"}));
  EXPECT_EQ(scaled.state_dict().size(), 2U);
}

TEST(Modules, TrainingModeReachesChildren) {
  auto inner = std::make_shared<Sequential>();
  Scaled outer(inner);
  EXPECT_TRUE(inner->training());
  outer.eval();
  EXPECT_FALSE(inner->training());
  outer.train();
  EXPECT_TRUE(inner->training());
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
  const auto check = [&](Module&& module, double (*formula)(double)) {
    const auto y = module(x).value().to_vector<float>();
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
  EXPECT_THROW(to.load_state_dict(missing), ValueError);
  EXPECT_THROW(to.load_state_dict(surplus), ValueError);
  EXPECT_THROW(to.load_state_dict(twice), ValueError);
  EXPECT_THROW(to.load_state_dict(shape), ShapeError);
  EXPECT_THROW(to.load_state_dict(dtype), DTypeError);
  EXPECT_EQ(to.parameters()[0].value().to_vector<float>(), before) << "nothing was written";
}

TEST_P(ModulesOnDevice, MovesParametersAndBuffers) {
  Random random(1);
  Scaled module(std::make_shared<Linear>(2, 2, random));
  const auto x = Tensor::from(std::vector<float>{1, 2}, {1, 2});
  const auto before = module(x).value().to_vector<float>();
  module.to(device());
  for (const auto& [name, tensor] : module.state_dict()) EXPECT_EQ(tensor.device(), device()) << name;
  const auto after = module(x.to(device())).value().to_vector<float>();
  for (size_t i = 0; i < before.size(); i++) EXPECT_NEAR(after[i], before[i], 1e-5);
  module.to(DType::f16);
  EXPECT_EQ(module(x.to(device()).to(DType::f16)).dtype(), DType::f16);
}

}  // namespace
}  // namespace ashlar::nn
