#include "tools/named_call.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "ashlar/ad.h"
#include "autograd/grad.h"
#include "autograd/recorded.h"
#include "c/call.h"
#include "c/handles.h"
#include "nn/modules/upsample.h"
#include "runtime/support/error.h"

using nlohmann::json;

namespace ashlar::tools {
namespace {

constexpr const char* kName = "a call by name";

Shape shape_of(const json& sizes) {
  const auto numbers = sizes.get<std::vector<int64_t>>();
  return c::shape_of(kName, numbers.size(), numbers.data());
}

/// Options and what they point to.
class Options {
 public:
  explicit Options(const json& named) {
    for (const auto& [name, value] : named.items()) add(name, value);
  }
  const std::vector<AshlarOption>& all() const { return all_; }

 private:
  void add(const std::string& name, const json& value) {
    AshlarOption option{};
    option.name = texts_.emplace_back(name).c_str();
    if (value.is_boolean() || value.is_number_integer()) {
      option.kind = ASHLAR_INTEGER;
      option.integer = value.is_boolean() ? value.get<bool>() : value.get<int64_t>();
    } else if (value.is_number()) {
      option.kind = ASHLAR_REAL;
      option.real = value.get<double>();
    } else if (value.is_string()) {
      option.kind = ASHLAR_TEXT;
      option.text = texts_.emplace_back(value.get<std::string>()).c_str();
    } else {
      const auto& numbers = integers_.emplace_back(value.get<std::vector<int64_t>>());
      option.kind = ASHLAR_INTEGERS;
      option.integers = numbers.data();
      option.count = numbers.size();
    }
    all_.push_back(option);
  }
  std::vector<AshlarOption> all_;
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> integers_;
};

// ---- what a network calls as one, and is several operators

using Recorded = std::function<std::vector<Var>(std::span<const Var>)>;

/// x, h, weight_ih, weight_hh, bias_ih, bias_hh: a layer of GRU over a sequence.
std::vector<Var> gru(std::span<const Var> in) {
  return {ad::gru_sequence(ad::matmul(in[0], in[2], {.transpose_b = true}, in[4]), in[1], in[3], in[5])};
}

/// x, h, c and weights as of gru().
std::vector<Var> lstm(std::span<const Var> in) {
  return {ad::lstm_sequence(ad::matmul(in[0], in[3], {.transpose_b = true}, in[5]), in[1], in[2], in[4], in[6]).y};
}

Recorded interpolation(const json& options) {
  const bool is_linear = options.at("mode") == "linear";
  const nn::InterpolateOptions to{.size = shape_of(options.at("size")),
                                  .mode = is_linear ? nn::Interpolation::linear : nn::Interpolation::nearest};
  return [to](std::span<const Var> in) { return std::vector{nn::interpolate(in[0], to)}; };
}

/// None where `name` is an operator.
Recorded composition(const std::string& name, const json& options) {
  if (name == "gru") return gru;
  if (name == "lstm") return lstm;
  if (name == "interpolate") return interpolation(options);
  return {};
}

Recorded recording(const c::Call& call, const KernelInfo& kernel) {
  const auto recorded = std::ranges::find(all_recorded(), &kernel, &RecordedOperator::kernel);
  if (recorded == all_recorded().end()) {
    throw AutogradError(kernel.name, "a call for its gradients", "an operator that is differentiable",
                        "It changes its inputs or has none of floating point");
  }
  return [call, recorded](std::span<const Var> in) { return recorded->call(in, call.form_call()); };
}

std::vector<Tensor> values_of(const std::vector<Var>& variables) {
  std::vector<Tensor> values;
  for (const Var& variable : variables) values.push_back(variable.value());
  return values;
}

/// The gradients of a call's first output by some of its inputs. The forward pass runs at the first call.
class Gradients {
 public:
  Gradients(Recorded forward, std::vector<Tensor> inputs, std::vector<size_t> wanted, Tensor upstream)
      : forward_(std::move(forward)),
        inputs_(std::move(inputs)),
        wanted_(std::move(wanted)),
        upstream_(std::move(upstream)) {}

  std::vector<Tensor> operator()() {
    if (!y_.defined()) {
      std::vector<Var> variables;
      for (size_t i = 0; i < inputs_.size(); i++)
        variables.emplace_back(inputs_[i], std::ranges::count(wanted_, i) > 0);
      for (const size_t i : wanted_) of_.push_back(variables[i]);
      y_ = forward_(variables).at(0);
    }
    return values_of(grad({y_}, of_, {upstream_}, {.retain_graph = true}));
  }

 private:
  Recorded forward_;
  std::vector<Tensor> inputs_;
  std::vector<size_t> wanted_;
  Var upstream_, y_;
  std::vector<Var> of_;
};

}  // namespace

std::vector<Tensor> buffers_of(const json& call, Device device) {
  std::vector<Tensor> buffers;
  for (const json& input : call.at("inputs")) {
    buffers.push_back(Tensor::empty({input.at("elements").get<int64_t>()},
                                    c::parse_dtype(kName, input.at("dtype").get<std::string>().c_str()), device));
  }
  return buffers;
}

std::function<std::vector<Tensor>()> bound_call(const json& call, const std::vector<Tensor>& buffers) {
  std::vector<Tensor> views;
  for (size_t i = 0; i < buffers.size(); i++) {
    const json& view = call.at("inputs").at(i);
    views.push_back(buffers[i].as_strided(shape_of(view.at("shape")), shape_of(view.at("strides")),
                                          buffers[i].offset() + view.at("offset").get<int64_t>()));
  }
  const auto name = call.at("operator").get<std::string>();
  if (name == "copy") return [x = views.at(0)] { return std::vector{x.clone()}; };
  const auto wanted = call.value("wanted", std::vector<size_t>());
  Tensor upstream;
  if (!wanted.empty()) {
    upstream = views.at(views.size() - 1);
    views.pop_back();
  }
  Recorded forward = composition(name, call.at("options"));
  if (!forward) {
    std::vector<AshlarTensor> handles;
    for (const Tensor& view : views) handles.push_back({view, view.device().str()});
    std::vector<const AshlarTensor*> inputs;
    for (const AshlarTensor& handle : handles) inputs.push_back(&handle);
    const Options options(call.at("options"));
    const KernelInfo& kernel = c::operator_of(kName, name.c_str());
    c::Call bound(kernel, inputs.data(), inputs.size(), options.all().data(), options.all().size());
    if (wanted.empty()) return [bound = std::move(bound)] { return bound.run(); };
    forward = recording(bound, kernel);
  }
  if (!wanted.empty()) return Gradients(std::move(forward), std::move(views), wanted, std::move(upstream));
  return [forward = std::move(forward), in = std::vector<Var>(views.begin(), views.end())] {
    return values_of(forward(in));
  };
}

}  // namespace ashlar::tools
