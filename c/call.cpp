#include "c/call.h"

#include <algorithm>

#include "c/handles.h"
#include "runtime/all.h"
#include "runtime/support/error.h"

namespace ashlar::c {
namespace {

using Role = Argument::Role;

const char* name_of(AshlarOptionKind kind) {
  constexpr const char* kNames[] = {"an integer", "a real number", "a text", "integers", "a tensor"};
  return kind <= ASHLAR_TENSOR ? kNames[kind] : "of no known kind";
}

}  // namespace

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
  check_given(operation, "name", name);
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

Call::Call(const KernelInfo& kernel, const AshlarTensor* const* inputs, size_t input_count, const AshlarOption* options,
           size_t option_count)
    : kernel_(kernel), options_(FormDefaults::default_options(kernel.form->signature)) {
  const auto declared = arguments_of(kernel, Role::input);
  if (input_count > declared.size()) {
    throw ValueError(kernel.name, std::to_string(input_count) + " inputs", "at most " + std::to_string(declared.size()),
                     "ashlar_operator_describe() lists them");
  }
  if (input_count > 0) check_given(kernel.name, "inputs", inputs);
  for (size_t i = 0; i < input_count; i++) inputs_.push_back(inputs[i] ? inputs[i]->tensor : Tensor());
  if (option_count > 0) check_given(kernel.name, "options", options);
  for (const Argument* scalar : arguments_of(kernel, Role::scalar)) {
    const double value = scalar->default_value.value_or(0);
    scalars_.push_back(is_floating(scalar->dtype) ? Scalar(value) : Scalar(static_cast<int64_t>(value)));
  }
  for (size_t i = 0; i < option_count; i++) take(options[i]);
  for (const Argument* scalar : arguments_of(kernel, Role::scalar)) {
    if (scalar->default_value || given_.contains(scalar->name)) continue;
    throw ValueError(kernel.name, std::string("no ") + scalar->name, std::string("the number ") + scalar->name,
                     "Give it as an option");
  }
  inputs_.resize(declared.size());
}

void Call::take(const AshlarOption& option) {
  check_given(kernel_.name, "an option's name", option.name);
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

void Call::check_kind(const AshlarOption& option, AshlarOptionKind needed) const {
  if (option.kind == needed && (needed != ASHLAR_TEXT || option.text) &&
      (needed != ASHLAR_INTEGERS || option.integers || option.count == 0)) {
    return;
  }
  const bool is_null = option.kind == needed;
  throw ValueError(kernel_.name,
                   std::string(option.name) + (is_null ? " = NULL" : std::string(", which is ") + name_of(option.kind)),
                   name_of(needed), "Set the option's kind and the member that it names");
}

bool Call::take_scalar(const AshlarOption& option) {
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

int64_t Call::choice(const AshlarOption& option, std::span<const char* const> choices) const {
  check_kind(option, ASHLAR_TEXT);
  std::string all;
  for (size_t i = 0; i < choices.size(); i++) {
    if (std::string_view(choices[i]) == option.text) return static_cast<int64_t>(i);
    all += (i ? ", " : "") + std::string(choices[i]);
  }
  throw ValueError(kernel_.name, std::string(option.name) + " = " + option.text, "one of " + all,
                   "Choose one of these");
}

bool Call::take_comptime(const AshlarOption& option) {
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

bool Call::take_form_option(const AshlarOption& option) {
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
        options_[i] = shape_of(kernel_.name, option.count, option.integers);
        break;
      case FormOption::Kind::choice:
        options_[i] = choice(option, declared[i].choices);
        break;
    }
    return true;
  }
  return false;
}

bool Call::take_input(const AshlarOption& option) {
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
bool Call::take_place(const AshlarOption& option) {
  if (std::string_view(option.name) != "device" || !arguments_of(kernel_, Role::input).empty()) return false;
  check_kind(option, ASHLAR_TEXT);
  device_ = parse_device(kernel_.name, option.text);
  return true;
}

}  // namespace ashlar::c
