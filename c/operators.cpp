// Any operator by its name, from the descriptors that all of them have.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "autograd/grad.h"
#include "autograd/recorded.h"
#include "c/handles.h"
#include "runtime/all.h"
#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"

using namespace ashlar;
using nlohmann::ordered_json;

namespace {

using Role = Argument::Role;

const std::vector<const KernelInfo*>& operators() {
  static const std::vector<const KernelInfo*> all = [] {
    std::vector<const KernelInfo*> found;
    for (const KernelInfo* kernel : all_kernels()) {
      if (!kernel->is_internal) found.push_back(kernel);
    }
    std::ranges::sort(found, {}, [](const KernelInfo* kernel) { return std::string_view(kernel->name); });
    return found;
  }();
  return all;
}

const KernelInfo& operator_of(const char* operation, const char* name) {
  c::check_given(operation, "name", name);
  for (const KernelInfo* kernel : operators()) {
    if (std::string_view(kernel->name) == name) return *kernel;
  }
  throw ValueError(operation, "the operator " + std::string(name), "the name of one",
                   "ashlar_operator_name() lists all of them");
}

std::vector<const Argument*> arguments_of(const KernelInfo& kernel, Role role) {
  std::vector<const Argument*> found;
  for (const Argument& argument : kernel.arguments) {
    if (role == Role::scalar ? is_callers_scalar(kernel.form->signature, argument) : argument.role == role) {
      found.push_back(&argument);
    }
  }
  return found;
}

bool is_optional(const KernelInfo& kernel, size_t input) {
  const int needed = kernel.form->signature.needed_inputs;
  return (needed >= 0 && input >= static_cast<size_t>(needed)) || arguments_of(kernel, Role::input).at(input)->optional;
}

const char* name_of(AshlarOptionKind kind) {
  constexpr const char* kNames[] = {"an integer", "a real number", "a text", "integers", "a tensor"};
  return kind <= ASHLAR_TENSOR ? kNames[kind] : "of no known kind";
}

/// A call's arguments, put where its form looks for them.
class Call {
 public:
  Call(const KernelInfo& kernel, const AshlarTensor* const* inputs, size_t input_count, const AshlarOption* options,
       size_t option_count)
      : kernel_(kernel), options_(FormDefaults::default_options(kernel.form->signature)) {
    const auto declared = arguments_of(kernel, Role::input);
    if (input_count > declared.size()) {
      throw ValueError(kernel.name, std::to_string(input_count) + " inputs",
                       "at most " + std::to_string(declared.size()), "ashlar_operator_describe() lists them");
    }
    if (input_count > 0) c::check_given(kernel.name, "inputs", inputs);
    for (size_t i = 0; i < input_count; i++) inputs_.push_back(inputs[i] ? inputs[i]->tensor : Tensor());
    if (option_count > 0) c::check_given(kernel.name, "options", options);
    scalars_.assign(arguments_of(kernel, Role::scalar).size(), Scalar(0));
    for (size_t i = 0; i < option_count; i++) take(options[i]);
    for (const Argument* scalar : arguments_of(kernel, Role::scalar)) {
      if (given_.contains(scalar->name)) continue;
      throw ValueError(kernel.name, std::string("no ") + scalar->name, std::string("the number ") + scalar->name,
                       "Give it as an option");
    }
    inputs_.resize(declared.size());
    // A form's own optional inputs may be missing at the end.
    const int needed = kernel.form->signature.needed_inputs;
    while (needed >= 0 && inputs_.size() > static_cast<size_t>(needed) && !inputs_.back().defined()) inputs_.pop_back();
  }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  FormCall form_call() const { return {inputs_, scalars_, options_, variant_, device_, elements_}; }

 private:
  void take(const AshlarOption& option) {
    c::check_given(kernel_.name, "an option's name", option.name);
    const std::string name = option.name;
    if (!given_.insert(name).second) {
      throw ValueError(kernel_.name, "the option " + name + " twice", "each option at most once", "Give it once");
    }
    if (take_scalar(option) || take_comptime(option) || take_form_option(option) || take_input(option) ||
        take_place(option)) {
      return;
    }
    throw ValueError(kernel_.name, "the option " + name, "one that it has", "ashlar_operator_describe() lists them");
  }

  void check_kind(const AshlarOption& option, AshlarOptionKind needed) const {
    if (option.kind == needed && (needed != ASHLAR_TEXT || option.text) &&
        (needed != ASHLAR_INTEGERS || option.integers || option.count == 0)) {
      return;
    }
    const bool is_null = option.kind == needed;
    throw ValueError(
        kernel_.name,
        std::string(option.name) + (is_null ? " = NULL" : std::string(", which is ") + name_of(option.kind)),
        name_of(needed), "Set the option's kind and the member that it names");
  }

  bool take_scalar(const AshlarOption& option) {
    const auto scalars = arguments_of(kernel_, Role::scalar);
    for (size_t i = 0; i < scalars.size(); i++) {
      if (std::string_view(scalars[i]->name) != option.name) continue;
      if (option.kind == ASHLAR_INTEGER) {
        scalars_[i] = Scalar(option.integer);
      } else {
        check_kind(option, is_floating(scalars[i]->dtype) ? ASHLAR_REAL : ASHLAR_INTEGER);
        scalars_[i] = Scalar(option.real);
      }
      return true;
    }
    return false;
  }

  int64_t choice(const AshlarOption& option, std::span<const char* const> choices) const {
    check_kind(option, ASHLAR_TEXT);
    std::string all;
    for (size_t i = 0; i < choices.size(); i++) {
      if (std::string_view(choices[i]) == option.text) return static_cast<int64_t>(i);
      all += (i ? ", " : "") + std::string(choices[i]);
    }
    throw ValueError(kernel_.name, std::string(option.name) + " = " + option.text, "one of " + all,
                     "Choose one of these");
  }

  bool take_comptime(const AshlarOption& option) {
    size_t stride = 1;
    for (const ComptimeInfo& comptime : kernel_.comptimes) {
      if (std::string_view(comptime.name) == option.name && !kernel_.form->signature.owns(comptime.name)) {
        variant_ = static_cast<uint16_t>(variant_ + stride * static_cast<size_t>(choice(option, comptime.values)));
        return true;
      }
      stride *= comptime.values.size();
    }
    return false;
  }

  bool take_form_option(const AshlarOption& option) {
    const auto& declared = kernel_.form->signature.options;
    for (size_t i = 0; i < declared.size(); i++) {
      if (std::string_view(declared[i].name) != option.name) continue;
      switch (declared[i].kind) {
        case FormOption::Kind::boolean:
        case FormOption::Kind::integer:
          check_kind(option, ASHLAR_INTEGER);
          options_[i] = option.integer;
          break;
        case FormOption::Kind::integers:
          check_kind(option, ASHLAR_INTEGERS);
          options_[i] = c::shape_of(kernel_.name, option.count, option.integers);
          break;
        case FormOption::Kind::choice:
          options_[i] = choice(option, declared[i].choices);
          break;
      }
      return true;
    }
    return false;
  }

  bool take_input(const AshlarOption& option) {
    const auto declared = arguments_of(kernel_, Role::input);
    for (size_t i = 0; i < declared.size(); i++) {
      if (std::string_view(declared[i]->name) != option.name || !is_optional(kernel_, i)) continue;
      check_kind(option, ASHLAR_TENSOR);
      if (option.tensor == nullptr) return true;
      if (i < inputs_.size() && inputs_[i].defined()) {
        throw ValueError(kernel_.name, "the input " + std::string(option.name) + " twice", "each input once",
                         "Give it among the inputs or as an option");
      }
      if (i >= inputs_.size()) inputs_.resize(i + 1);
      inputs_[i] = option.tensor->tensor;
      return true;
    }
    return false;
  }

  /// Where an operator without inputs runs.
  bool take_place(const AshlarOption& option) {
    if (std::string_view(option.name) != "device" || !arguments_of(kernel_, Role::input).empty()) return false;
    check_kind(option, ASHLAR_TEXT);
    device_ = c::parse_device(kernel_.name, option.text);
    return true;
  }

  const KernelInfo& kernel_;
  std::vector<Tensor> inputs_;
  std::vector<Scalar> scalars_;
  std::vector<OptionValue> options_;
  std::set<std::string> given_;
  uint16_t variant_ = 0;
  Device device_;
  std::array<DType, 2> elements_{DType::f32, DType::f32};
};

ordered_json describe(const KernelInfo& kernel) {
  const auto tensor = [](const Argument& argument) {
    ordered_json one{{"name", argument.name}};
    if (argument.element < 0) one["dtype"] = ashlar::name_of(argument.dtype);
    return one;
  };
  ordered_json inputs = ordered_json::array(), scalars = ordered_json::array(), options = ordered_json::array(),
               outputs = ordered_json::array();
  for (const Argument* argument : arguments_of(kernel, Role::input)) {
    inputs.push_back(tensor(*argument));
    if (is_optional(kernel, inputs.size() - 1)) inputs.back()["optional"] = true;
  }
  for (const Argument* scalar : arguments_of(kernel, Role::scalar)) {
    scalars.push_back({{"name", scalar->name}, {"kind", is_floating(scalar->dtype) ? "real" : "integer"}});
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
    for (Tensor& y : kernel.form->call(kernel, call.form_call())) handles.emplace_back(c::handle_of(std::move(y)));
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
