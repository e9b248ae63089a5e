#include "tests/autograd/gradient_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "autograd/backward.h"
#include "autograd/grad.h"

namespace ashlar {
namespace {

constexpr double kStep = 1e-5;       // of the central differences: error about 1e-10 in double
constexpr double kTolerance = 2e-5;  // of f32, relative to 1 + |expected|

reference::Array random_array(const Shape& shape, const GradientCase& test, std::mt19937& engine) {
  std::uniform_real_distribution<double> draw(test.low, test.high);
  reference::Array array(shape);
  for (double& value : array.values) {
    value = draw(engine);
    if (test.grid > 0) value = std::round(value / test.grid) * test.grid;
    value = static_cast<float>(value);  // both sides see the same number
  }
  return array;
}

Tensor as_tensor(const reference::Array& array, Device device) {
  return Tensor::from(std::vector<float>(array.values.begin(), array.values.end()), array.shape, device);
}

void expect_near(const Tensor& got, const std::vector<double>& wanted, const std::string& what) {
  const std::vector<float> values = got.to_vector<float>();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  for (size_t i = 0; i < wanted.size(); i++) {
    ASSERT_NEAR(values[i], wanted[i], kTolerance * (1 + std::abs(wanted[i]))) << what << ", element " << i;
  }
}

double weighted_sum(const reference::Array& y, const reference::Array& weights) {
  double sum = 0;
  for (size_t i = 0; i < y.values.size(); i++) sum += y.values[i] * weights.values[i];
  return sum;
}

/// The gradients of S = Σ v · dL/dx, L = Σ weights · y, against differences of the reference: by each input, and by the
/// weights.
void check_second(const GradientCase& test, std::vector<reference::Array> inputs, const reference::Array& weights,
                  Device device, std::mt19937& engine) {
  constexpr double kSecondStep = 1e-4;  // error about 1e-8
  const GradientCase plain{.name = {}, .inputs = {}, .function = {}, .reference = {}};
  std::vector<reference::Array> directions;
  for (const Shape& shape : test.inputs) directions.push_back(random_array(shape, plain, engine));
  const auto along = [&](double t) {
    std::vector<reference::Array> moved = inputs;
    for (size_t i = 0; i < moved.size(); i++) {
      for (size_t j = 0; j < moved[i].values.size(); j++) moved[i].values[j] += t * directions[i].values[j];
    }
    return test.reference(moved);
  };

  std::vector<Var> variables, seeds;
  for (size_t i = 0; i < inputs.size(); i++) {
    variables.emplace_back(as_tensor(inputs[i], device), true);
    seeds.emplace_back(as_tensor(directions[i], device));
  }
  const Var w(as_tensor(weights, device), true);
  const std::vector<Var> first = grad({test.function(variables)}, variables, {w}, {.create_graph = true});
  std::vector<Var> all = variables;
  all.push_back(w);
  const std::vector<Var> second = grad(first, all, seeds, {.allow_unused = true});

  const reference::Array above = along(kSecondStep), below = along(-kSecondStep);
  std::vector<double> wanted;
  for (size_t j = 0; j < above.values.size(); j++) {
    wanted.push_back((above.values[j] - below.values[j]) / (2 * kSecondStep));
  }
  const std::string name = test.name + " on " + device.str() + ", second gradient of ";
  expect_near(second.back().value(), wanted, name + "the weights");
  for (size_t i = 0; i < inputs.size(); i++) {
    wanted.clear();
    for (double& x : inputs[i].values) {
      const double kept = x;
      double sum = 0;
      for (const int side : {1, -1}) {
        x = kept + side * kSecondStep;
        sum += side * (weighted_sum(along(kSecondStep), weights) - weighted_sum(along(-kSecondStep), weights));
      }
      x = kept;
      wanted.push_back(sum / (4 * kSecondStep * kSecondStep));
    }
    // None at all stands for 0.
    const Tensor got = second[i].defined() ? second[i].value() : Tensor::zeros(inputs[i].shape, DType::f32, device);
    ASSERT_EQ(got.shape(), inputs[i].shape) << name << "input " << i;
    expect_near(got, wanted, name + "input " + std::to_string(i));
  }
}

}  // namespace

void check_gradients(const GradientCase& test, Device device) {
  std::mt19937 engine(7);
  std::vector<reference::Array> inputs;
  for (const Shape& shape : test.inputs) inputs.push_back(random_array(shape, test, engine));
  const reference::Array y = test.reference(inputs);
  reference::Array weights = random_array(y.shape, {.name = {}, .inputs = {}, .function = {}, .reference = {}}, engine);

  // dL/dx of L = Σ weights · y, by (L(x + h) - L(x - h)) / 2h
  std::vector<std::vector<double>> wanted;
  for (reference::Array& input : inputs) {
    std::vector<double>& gradient = wanted.emplace_back();
    for (double& x : input.values) {
      const double kept = x;
      x = kept + kStep;
      const double above = weighted_sum(test.reference(inputs), weights);
      x = kept - kStep;
      const double below = weighted_sum(test.reference(inputs), weights);
      x = kept;
      gradient.push_back((above - below) / (2 * kStep));
    }
  }

  const size_t all = inputs.size();
  for (size_t only = 0; only <= all; only++) {  // the last round: all of them
    std::vector<Var> variables;
    for (size_t i = 0; i < inputs.size(); i++) {
      variables.emplace_back(as_tensor(inputs[i], device), only == all || only == i);
    }
    const Var result = test.function(variables);
    ASSERT_EQ(result.shape(), y.shape) << test.name;
    expect_near(result.value(), y.values, test.name + " on " + device.str());
    backward(result, {.seed = as_tensor(weights, device)});
    for (size_t i = 0; i < inputs.size(); i++) {
      const bool wants = only == all || only == i;
      ASSERT_EQ(variables[i].grad().defined(), wants) << test.name << ", input " << i;
      if (!wants) continue;
      ASSERT_EQ(variables[i].grad().shape(), inputs[i].shape) << test.name;
      expect_near(variables[i].grad(), wanted[i],
                  test.name + " on " + device.str() + ", gradient of input " + std::to_string(i));
    }
  }
  if (test.grid == 0) check_second(test, inputs, weights, device, engine);  // ties have none
}

}  // namespace ashlar
