// Gradients of gradients of every operator that has a recording function: on the conformance run's cases, against
// differences of their references in double. An operator is differentiated twice by a case of its own or on the way of
// another's (mish_grad by mish), or it stands below with the reason why it isn't.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autograd/grad.h"
#include "autograd/node.h"
#include "autograd/recorded.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/gradient.h"
#include "tests/conformance/inputs.h"

namespace ashlar {
namespace {

using conformance::Case;
using conformance::SecondCheck;

struct Without {
  const char* reason;
  std::vector<std::string> operators;
};

const std::vector<Without>& without_second_derivatives() {
  static const std::vector<Without> lists{
      {"truth values, whole numbers and counts have no derivatives",
       {"isnan", "isinf",  "isfinite", "logical_not",   "eq",         "ne",          "lt",
        "le",    "gt",     "ge",       "logical_and",   "logical_or", "logical_xor", "any",
        "all",   "argmax", "argmin",   "count_nonzero", "nonzero",    "argsort",     "histc"}},
      {"whole numbers, what they stand for, and what is drawn",
       {"quantize_rows", "quantize_int8", "dequantize_rows", "dequantize_int8", "sample_top_k", "draw_by_forecast",
        "forecast_weights", "update_forecasts"}},
      {"constant between jumps: recorded as such", {"floor", "ceil", "round", "trunc", "sign", "equal", "bernoulli"}},
      {"a gradient in one kernel, of Tensors: under create_graph the operator's gradient is composed instead",
       {"attention_query_grad", "attention_key_grad", "attention_value_grad", "attention_dropout_query_grad",
        "attention_dropout_key_grad", "attention_dropout_value_grad", "rnn_sequence_grad", "gru_sequence_grad",
        "lstm_sequence_grad", "layer_norm_grad", "rms_norm_grad", "add_layer_norm_grad", "add_rms_norm_grad",
        "norm_weight_sums", "swiglu_grad", "geglu_grad"}},
      {"a pass of an operator that has them",
       {"var_parts", "var_last", "logsumexp_parts", "logsumexp_last", "compensated_sum_parts", "compensated_sum_last"}},
  };
  return lists;
}

constexpr int64_t kLargest = 700;  // elements: what is larger, the conformance run checks

bool has_small_gradient(const Case& item, DType dtype) {
  const auto has = [dtype](const std::vector<DType>& dtypes) {
    return std::ranges::find(dtypes, dtype) != dtypes.end();
  };
  int64_t elements = 0;
  for (const conformance::Input& input : item.inputs) elements += input.shape.numel();
  return item.differentiable && has(item.dtypes) && has(item.gradient_dtypes) && elements <= kLargest;
}

struct Recorded {
  std::vector<Var> inputs, first;  ///< those that are differentiated, and their gradients with create_graph
};

Recorded recorded(const Case& item, DType dtype) {
  std::vector<Var> inputs, wanted;
  for (size_t i = 0; i < item.inputs.size(); i++) {
    const bool is_wanted = std::ranges::find(item.differentiated, static_cast<int>(i)) != item.differentiated.end();
    inputs.emplace_back(conformance::make(item.inputs[i], dtype, Device::cpu(), i).tensor, is_wanted);
    if (is_wanted) wanted.push_back(inputs.back());
  }
  const Var y = item.differentiable(inputs);
  const Var seed(Tensor::ones(y.shape(), y.dtype()), true);
  return {wanted, grad({y}, wanted, {seed}, {.create_graph = true, .allow_unused = true})};
}

/// The operations that the gradients of the case's gradients go through.
void collect_operations(const Case& item, std::set<std::string>& operations) {
  const std::vector<Var> first = recorded(item, DType::f32).first;
  std::vector<const Node*> pending;
  std::set<const Node*> seen;
  const auto discover = [&](const Node* node) {
    if (node != nullptr && seen.insert(node).second) pending.push_back(node);
  };
  for (const Var& slope : first) {
    if (slope.defined()) discover(slope.state()->node.get());
  }
  while (!pending.empty()) {
    const Node* node = pending.back();
    pending.pop_back();
    operations.insert(node->operation());
    for (const Node::Edge& edge : node->edges()) discover(edge.node.get());
  }
}

const std::vector<Case>& all_cases() {
  static const bool added = (conformance::add_all_cases(), true);
  static_cast<void>(added);
  return conformance::cases();
}

TEST(SecondGradients, OfEveryOperatorOrAReason) {
  std::set<std::string> twice;
  for (const Case& item : all_cases()) {
    if (!has_small_gradient(item, DType::f32)) continue;
    SCOPED_TRACE(item.kernel + "/" + item.name);
    const SecondCheck check = conformance::check_second_gradient(item, Device::cpu());
    EXPECT_EQ(check.report, "");
    if (check.outcome != SecondCheck::Outcome::agrees) continue;
    twice.insert(item.kernel);
    collect_operations(item, twice);
  }
  std::map<std::string, const char*> reasons;
  for (const Without& list : without_second_derivatives()) {
    for (const std::string& name : list.operators) {
      EXPECT_TRUE(reasons.emplace(name, list.reason).second) << name << " stands in the lists twice";
    }
  }
  size_t recorded = 0;
  for (const RecordedOperator& one : all_recorded()) {
    const std::string name = one.kernel->name;
    recorded++;
    EXPECT_NE(twice.contains(name), reasons.contains(name))
        << name
        << (twice.contains(name) ? " has second derivatives and stands in the lists of those without: take it out"
                                 : " is differentiated twice by no case: give it one (tests/conformance/cases), "
                                   "and a gradient that Vars can be given, or a reason above");
    reasons.erase(name);
  }
  for (const auto& [name, reason] : reasons) ADD_FAILURE() << name << ", without second derivatives, is no operator";
  EXPECT_GT(recorded, 200u);
}

// In 16 bits each gradient has its input's dtype, whatever its arithmetic was in.
TEST(SecondGradients, OfSixteenBitsHaveTheirDtype) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Case& item : all_cases()) {
      if (!has_small_gradient(item, dtype)) continue;
      SCOPED_TRACE(item.kernel + "/" + item.name + " in " + std::string(name_of(dtype)));
      try {
        const Recorded one = recorded(item, dtype);
        std::vector<Var> slopes, seeds;
        for (const Var& slope : one.first) {
          if (!slope.defined()) continue;
          slopes.push_back(slope);
          seeds.emplace_back(Tensor::ones(slope.shape(), slope.dtype()));
        }
        const std::vector<Var> second = grad(slopes, one.inputs, seeds, {.allow_unused = true});
        for (size_t i = 0; i < second.size(); i++) {
          EXPECT_TRUE(!second[i].defined() || second[i].dtype() == one.inputs[i].dtype()) << second[i].value().str();
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace ashlar
