#include "dsl/build/signature.h"

namespace ashlar::dsl {
namespace {

std::string pascal_case(const std::string& snake_case) {
  std::string result;
  bool upper = true;
  for (char c : snake_case) {
    if (c == '_') {
      upper = true;
      continue;
    }
    result += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = false;
  }
  return result;
}

// What forms::reduction passes by itself (runtime/forms/reduction.cpp).
bool is_own_scalar_of_reduction(const std::string& name) { return name == "chunk" || name == "scale"; }

}  // namespace

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

std::string declare(const std::vector<Parameter>& parameters, bool with_defaults) {
  std::vector<std::string> parts;
  for (const Parameter& p : parameters) {
    parts.push_back(p.type + " " + p.name + (with_defaults && !p.default_value.empty() ? " = " + p.default_value : ""));
  }
  return join(parts);
}

const char* role_name(Argument::Role role) {
  switch (role) {
    case Argument::Role::input:
      return "input";
    case Argument::Role::scalar:
      return "scalar";
    case Argument::Role::output:
      return "output";
    case Argument::Role::scratch:
      return "scratch";
  }
  return "";
}

std::vector<ParameterDescription> comptimes_of(const KernelSummary& kernel) {
  std::vector<ParameterDescription> comptimes;
  for (const ParameterDescription& parameter : kernel.descriptor.parameters) {
    if (parameter.is_comptime) comptimes.push_back(parameter);
  }
  return comptimes;
}

std::string enum_name(const KernelSummary& kernel, const ParameterDescription& comptime) {
  return pascal_case(kernel.entry->name) + pascal_case(comptime.name);
}

std::vector<ArgumentDescription> results_of(const KernelSummary& kernel) {
  std::vector<ArgumentDescription> results;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role == Argument::Role::output && argument.in_place_of < 0) results.push_back(argument);
  }
  return results;
}

std::string result_type(const KernelSummary& kernel) {
  const size_t count = results_of(kernel).size();
  if (count == 0) return "void";
  return count == 1 ? "Tensor" : pascal_case(kernel.entry->name) + "Result";
}

std::vector<Parameter> parameters_of(const KernelSummary& kernel) {
  const Form form = kernel.descriptor.form;
  // A contraction chooses its scalars, and its bias is one of its options; a reduction's own come after its axes.
  const bool has_own_scalars = form == Form::contraction || form == Form::reduction;
  std::vector<Parameter> parameters;
  int tensors = 0;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role == Argument::Role::input && !(form == Form::contraction && tensors >= 2)) {
      parameters.push_back({"const Tensor&", argument.name, "", true});
      tensors++;
    } else if (argument.role == Argument::Role::scalar && !has_own_scalars) {
      parameters.push_back({is_floating(argument.dtype) ? "double" : "int64_t", argument.name, argument.default_value});
    }
  }
  if (form == Form::plain) {
    for (const ParameterDescription& comptime : comptimes_of(kernel)) {
      const std::string type = enum_name(kernel, comptime);
      parameters.push_back({type, comptime.name, type + "::" + comptime.values[0]});
    }
  }
  if (form == Form::rows) parameters.push_back({"int64_t", "axis", "-1"});
  if (form == Form::reduction) {
    parameters.push_back({"const Axes&", "axes", "{}"});
    parameters.push_back({"bool", "keepdim", "false"});
    for (const ArgumentDescription& argument : kernel.arguments) {
      if (argument.role != Argument::Role::scalar || is_own_scalar_of_reduction(argument.name)) continue;
      parameters.push_back({is_floating(argument.dtype) ? "double" : "int64_t", argument.name, argument.default_value});
    }
  }
  if (form == Form::contraction) parameters.push_back({"const MatmulOptions&", "options", "{}"});
  return parameters;
}

}  // namespace ashlar::dsl
