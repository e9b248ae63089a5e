// Any operator by its name, from the descriptors that all of them have.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "autograd/grad.h"
#include "autograd/recorded.h"
#include "c/call.h"
#include "c/handles.h"
#include "runtime/support/error.h"

using namespace ashlar;
using c::arguments_of, c::Call, c::is_optional, c::operator_of, c::operators;
using nlohmann::ordered_json;

namespace {

using Role = Argument::Role;

ordered_json describe(const KernelInfo& kernel) {
  const auto tensor = [](const Argument& argument) {
    ordered_json one{{"name", argument.name}};
    if (argument.element == -1) one["dtype"] = ashlar::name_of(argument.dtype);
    if (argument.element == kAnyElement) one["dtype"] = "any";
    return one;
  };
  ordered_json inputs = ordered_json::array(), scalars = ordered_json::array(), options = ordered_json::array(),
               outputs = ordered_json::array();
  for (const Argument* argument : arguments_of(kernel, Role::input)) {
    inputs.push_back(tensor(*argument));
    if (is_optional(kernel, inputs.size() - 1)) inputs.back()["optional"] = true;
  }
  for (const Argument* scalar : arguments_of(kernel, Role::scalar)) {
    const bool is_real = is_floating(scalar->dtype);
    ordered_json one{{"name", scalar->name}, {"kind", is_real ? "real" : "integer"}};
    if (const auto value = scalar->default_value) {
      one["default"] = is_real ? ordered_json(*value) : ordered_json(static_cast<int64_t>(*value));
    }
    scalars.push_back(one);
  }
  for (const ComptimeInfo& comptime : kernel.comptimes) {
    if (kernel.form->signature.owns(comptime.name)) continue;
    options.push_back({{"name", comptime.name},
                       {"kind", "text"},
                       {"default", comptime.values[0]},
                       {"choices", std::vector<std::string>(comptime.values.begin(), comptime.values.end())}});
  }
  for (const FormOption& option : kernel.form->signature.options) {
    ordered_json one{{"name", option.name}};
    switch (option.kind) {
      case FormOption::Kind::boolean:
        one["kind"] = "boolean";
        one["default"] = option.default_value != 0;
        break;
      case FormOption::Kind::integer:
        one["kind"] = "integer";
        one["default"] = option.default_value;
        break;
      case FormOption::Kind::integers:
        one["kind"] = "integers";
        one["default"] = ordered_json::array();
        break;
      case FormOption::Kind::choice:
        one["kind"] = "text";
        one["default"] = option.choices[static_cast<size_t>(option.default_value)];
        one["choices"] = std::vector<std::string>(option.choices.begin(), option.choices.end());
        break;
    }
    options.push_back(one);
  }
  for (const Argument* output : arguments_of(kernel, Role::output)) outputs.push_back(tensor(*output));
  return {{"name", kernel.name}, {"formula", kernel.formula}, {"inputs", inputs},
          {"scalars", scalars},  {"options", options},        {"outputs", outputs}};
}

}  // namespace

size_t ashlar_operator_count() {
  size_t count = 0;
  c::guarded([&] { count = operators().size(); });
  return count;
}

const char* ashlar_operator_name(size_t index) {
  const char* name = nullptr;
  c::guarded([&] { name = index < operators().size() ? operators()[index]->name : nullptr; });
  return name;
}

AshlarStatus ashlar_operator_describe(const char* name, const char** json) {
  return c::guarded([&] {
    c::check_given("ashlar_operator_describe", "json", json);
    const KernelInfo& kernel = operator_of("ashlar_operator_describe", name);
    static std::mutex& mutex = *new std::mutex;
    static auto& texts = *new std::map<std::string, std::string>;
    const std::lock_guard lock(mutex);
    std::string& text = texts[kernel.name];
    if (text.empty()) text = describe(kernel).dump();
    *json = text.c_str();
  });
}

AshlarStatus ashlar_call(const char* name, const AshlarTensor* const* inputs, size_t input_count,
                         const AshlarOption* options, size_t option_count, AshlarTensor** outputs, size_t capacity,
                         size_t* output_count) {
  return c::guarded([&] {
    const KernelInfo& kernel = operator_of("ashlar_call", name);
    const auto count = static_cast<size_t>(kernel.count(Role::output));
    if (capacity < count) {
      throw ValueError(kernel.name, "room for " + std::to_string(capacity) + " outputs",
                       "room for " + std::to_string(count), "Give a longer array and its length");
    }
    c::check_given(kernel.name, "outputs", outputs);
    const Call call(kernel, inputs, input_count, options, option_count);
    std::vector<std::unique_ptr<AshlarTensor>> handles;
    for (Tensor& y : call.run()) handles.emplace_back(c::handle_of(std::move(y)));
    for (size_t i = 0; i < handles.size(); i++) outputs[i] = handles[i].release();
    if (output_count != nullptr) *output_count = handles.size();
  });
}

AshlarStatus ashlar_gradients(const char* name, const AshlarTensor* const* inputs, size_t input_count,
                              const AshlarOption* options, size_t option_count,
                              const AshlarTensor* const* output_gradients, size_t output_count, const int* wanted,
                              AshlarTensor** gradients) {
  return c::guarded([&] {
    const KernelInfo& kernel = operator_of("ashlar_gradients", name);
    const auto recorded = std::ranges::find(all_recorded(), &kernel, &RecordedOperator::kernel);
    if (recorded == all_recorded().end()) {
      throw AutogradError(kernel.name, "a call for its gradients", "an operator that is differentiable",
                          "It changes its inputs or has none of floating point");
    }
    c::check_given(kernel.name, "gradients", gradients);
    const Call call(kernel, inputs, input_count, options, option_count);
    std::vector<Var> variables, differentiated;
    std::vector<size_t> places;
    for (size_t i = 0; i < call.inputs().size(); i++) {
      const Tensor& x = call.inputs()[i];
      if (!x.defined()) {
        variables.emplace_back();
        continue;
      }
      const bool is_wanted = i < input_count && is_floating(x.dtype()) && (wanted == nullptr || wanted[i] != 0);
      variables.emplace_back(x, is_wanted);
      if (!is_wanted) continue;
      differentiated.push_back(variables.back());
      places.push_back(i);
    }
    const std::vector<Var> outputs = recorded->call(variables, call.form_call());
    if (output_count != outputs.size()) {
      throw ValueError(kernel.name, std::to_string(output_count) + " gradients of outputs",
                       std::to_string(outputs.size()), "Give one for each output, NULL where it doesn't matter");
    }
    c::check_given(kernel.name, "output_gradients", output_gradients);
    std::vector<Var> of, upstream;
    for (size_t i = 0; i < outputs.size(); i++) {
      if (output_gradients[i] == nullptr) continue;
      of.push_back(outputs[i]);
      upstream.emplace_back(output_gradients[i]->tensor);
    }
    std::vector<std::unique_ptr<AshlarTensor>> handles(input_count);
    if (!differentiated.empty()) {
      const std::vector<Var> found = grad(of, differentiated, upstream, {.allow_unused = true});
      for (size_t i = 0; i < found.size(); i++) {
        if (found[i].defined()) handles[places[i]].reset(c::handle_of(found[i].value()));
      }
    }
    for (size_t i = 0; i < input_count; i++) gradients[i] = handles[i].release();
  });
}
