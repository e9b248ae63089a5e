// Every module against PyTorch's numbers: tests/nn/torch/modules.safetensors.gz, which tests/nn/torch/modules.py makes
// of tests/nn/torch/cases.py. Weights are loaded by PyTorch's names; outputs, gradients of inputs and of parameters,
// and buffers after a call are compared.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "nn/safetensors.h"
#include "tests/nn/module_cases.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

constexpr double kTolerance = 1e-5, kSmall = 0.1;  // of the largest element, or of this

void expect_close(const Tensor& got, const Tensor& wanted, const std::string& what) {
  ASSERT_TRUE(got.defined()) << what << " is missing";
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  const std::vector<double> a = got.to_doubles(), b = wanted.to_doubles();
  double largest = 0, distance = 0;
  for (size_t i = 0; i < a.size(); i++) {
    largest = std::max(largest, std::abs(b[i]));
    distance = std::isnan(a[i]) ? INFINITY : std::max(distance, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(distance, kTolerance * std::max(largest, kSmall)) << what << ", of at most " << largest;
}

/// The same numbers as weights_like() of modules.py.
Tensor weights_like(const Tensor& y) {
  constexpr std::array kWeights{0.5F, 0.25F, -0.25F, -0.5F, 1.0F, -0.75F, 0.125F, 0.75F, -1.0F, 0.375F, -0.125F};
  std::vector<float> values(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < values.size(); i++) values[i] = kWeights[i % kWeights.size()];
  return Tensor::from(values, y.shape(), y.device());
}

class AgainstTorchOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, AgainstTorchOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

TEST_P(AgainstTorchOnDevice, OutputsAndGradientsAgree) {
  for (const auto& [name, kinds] : torch_cases()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(all_cases().contains(name)) << "no module for this case of modules.py";
    Candidate candidate;
    ASSERT_NO_THROW(candidate = loaded(name, device()));
    const Vars inputs = inputs_of(kinds, device());
    const Vars outputs = candidate.call(inputs);
    const NamedTensors& wanted = kind_of(kinds, "output");
    ASSERT_EQ(outputs.size(), wanted.size());
    Var total;
    for (size_t i = 0; i < outputs.size(); i++) {
      expect_close(outputs[i].value(), wanted[i].second, "output " + wanted[i].first);
      const Var part = ad::sum(ad::mul(outputs[i], Var(weights_like(outputs[i].value()))));
      total = total.defined() ? ad::add(total, part) : part;
    }
    if (total.requires_grad()) backward(total);
    const auto gradient = [](const Var& x) { return x.grad().defined() ? x.grad() : Tensor::zeros_like(x.value()); };
    for (const auto& [at, tensor] : kind_of(kinds, "dinput")) {
      expect_close(gradient(inputs[std::stoul(at)]), tensor, "gradient of input " + at);
    }
    std::map<std::string, Var> parameters;
    for (const auto& [key, parameter] : candidate.module->named_parameters()) parameters[key] = parameter;
    EXPECT_EQ(parameters.size(), kind_of(kinds, "grad").size());
    for (const auto& [key, tensor] : kind_of(kinds, "grad")) expect_close(gradient(parameters[key]), tensor, "d" + key);
    std::map<std::string, Tensor> now;
    for (const auto& [key, tensor] : candidate.module->state_dict()) now[key] = tensor;
    for (const auto& [key, tensor] : kind_of(kinds, "after")) expect_close(now[key], tensor, key + " afterwards");
  }
}

// Every class of nn/modules that is a module has a case, and no case of ours is one that PyTorch didn't see.
TEST(AgainstTorch, EveryModuleIsChecked) {
  std::set<std::string> checked;
  for (const auto& [name, make] : all_cases()) {
    EXPECT_TRUE(torch_cases().contains(name)) << name << " isn't in modules.safetensors.gz: run modules.py --add";
    checked.insert(name.substr(0, name.find('.')));
  }
  const std::set<std::string> classes = module_classes();
  for (const std::string& name : classes) {
    EXPECT_TRUE(checked.contains(name)) << name << " has no case in tests/nn/torch/cases.py";
  }
  EXPECT_GT(classes.size(), 80U);
}

// What a module is made of is told once, so that copies, moves, casts and summaries reach all of it.
TEST(AgainstTorch, EveryModuleIsCopiedCastAndPrinted) {
  for (const auto& [name, make] : all_cases()) {
    SCOPED_TRACE(name);
    const Candidate candidate = make();
    const std::shared_ptr<Module> twin = candidate.module->clone();
    const NamedTensors own = candidate.module->state_dict(Saved::with_checkpoints);
    const NamedTensors copied = twin->state_dict(Saved::with_checkpoints);
    ASSERT_EQ(own.size(), copied.size());
    for (size_t i = 0; i < own.size(); i++) {
      EXPECT_EQ(own[i].first, copied[i].first);
      EXPECT_EQ(own[i].second.to_doubles(), copied[i].second.to_doubles());
      EXPECT_NE(own[i].second.storage(), copied[i].second.storage()) << own[i].first;
    }
    twin->to(DType::f16);
    for (const auto& [key, tensor] : twin->state_dict()) EXPECT_NE(tensor.dtype(), DType::f32) << key;
    for (const auto& [key, tensor] : candidate.module->state_dict()) EXPECT_NE(tensor.dtype(), DType::f16) << key;
    const std::string summary = candidate.module->summary();
    EXPECT_EQ(summary.find("(all)"), 0U);
    EXPECT_NE(summary.find(name.substr(0, name.find('.'))), std::string::npos);
    EXPECT_NE(summary.find(std::to_string(candidate.module->parameter_count()) + " parameters"), std::string::npos);
  }
}

// Weights of our own first values, and what comes of them, for `modules.py --check PROGRAM`, which loads them into
// PyTorch's modules; without that every name and shape is compared with PyTorch's.
TEST(AgainstTorch, WeightsGoBack) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, make] : all_cases()) {
    SCOPED_TRACE(name);
    if (!torch_cases().contains(name)) continue;
    const Kinds& kinds = torch_cases().at(name);
    const Candidate candidate = make();
    std::map<std::string, Shape> names;
    for (const auto& [key, tensor] : candidate.module->state_dict()) {
      names[key] = tensor.shape();
      all.emplace_back(name + "/state/" + key, tensor.clone());
    }
    std::map<std::string, Shape> wanted;
    for (const auto& [key, tensor] : kind_of(kinds, "state")) wanted[key] = tensor.shape();
    EXPECT_EQ(names, wanted);
    if (is_evaluated(name)) candidate.module->eval();
    const Vars outputs = candidate.call(inputs_of(kinds, Device{}));
    for (size_t i = 0; i < outputs.size(); i++)
      all.emplace_back(name + "/output/" + std::to_string(i), outputs[i].value());
  }
  if (const char* file = std::getenv("ASHLAR_SAVE_WEIGHTS")) write_safetensors(file, all);
}

}  // namespace
}  // namespace ashlar::nn
