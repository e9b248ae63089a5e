#include "dsl/build/signature.h"

#include <set>

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

bool is_optional(const KernelSummary& kernel, const std::string& input) {
  const int needed = kernel.descriptor.form->needed_inputs;
  int index = 0;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role != Argument::Role::input) continue;
    if (argument.name == input) return argument.is_optional || (needed >= 0 && index >= needed);
    index++;
  }
  return false;
}

std::string type_of(const KernelSummary& kernel, const FormOption& option) {
  switch (option.kind) {
    case FormOption::Kind::boolean:
      return "bool";
    case FormOption::Kind::integer:
      return "int64_t";
    case FormOption::Kind::integers:
      return "const Axes&";
    case FormOption::Kind::choice:
      return *option.type ? option.type : pascal_case(kernel.entry->name) + pascal_case(option.name);
  }
  return "";
}

std::string default_of(const KernelSummary& kernel, const FormOption& option) {
  switch (option.kind) {
    case FormOption::Kind::boolean:
      return option.default_value != 0 ? "true" : "false";
    case FormOption::Kind::integer:
      return std::to_string(option.default_value);
    case FormOption::Kind::integers:
      return "{}";
    case FormOption::Kind::choice:
      return type_of(kernel, option) + "::" + option.choices[static_cast<size_t>(option.default_value)];
  }
  return "";
}

std::string from_call(const KernelSummary& kernel, const FormOption& option, size_t index) {
  const std::string integer = "call.integer(" + std::to_string(index) + ")";
  switch (option.kind) {
    case FormOption::Kind::boolean:
      return integer + " != 0";
    case FormOption::Kind::integer:
      return integer;
    case FormOption::Kind::integers:
      return "call.integers(" + std::to_string(index) + ")";
    case FormOption::Kind::choice:
      return "static_cast<" + type_of(kernel, option) + ">(" + integer + ")";
  }
  return "";
}

std::string composed_includes(const std::vector<KernelSummary>& kernels, ComposedOf what) {
  std::set<std::string> texts, parts;
  for (const KernelSummary& kernel : kernels) {
    if (!kernel.descriptor.composed.empty()) texts.insert(kernel.descriptor.composed);
    if (!kernel.descriptor.recorded_parts.empty()) parts.insert(kernel.descriptor.recorded_parts);
  }
  if (texts.empty()) return {};
  const bool is_of_vars = what == ComposedOf::vars;
  std::vector<std::string> headers{is_of_vars ? "ashlar/var_arithmetic.h" : "ashlar/arithmetic.h"};
  if (is_of_vars) headers.insert(headers.end(), parts.begin(), parts.end());  // for the texts to find
  headers.emplace_back("runtime/memory/host_memory.h");
  headers.insert(headers.end(), texts.begin(), texts.end());
  return "#include \"" + join(headers, "\"\n#include \"") + "\"\n";
}

std::string composed_body(const KernelSummary& kernel, const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  const std::string& name = kernel.entry->name;
  return "try {\n  return composed::" + name + "(" + join(names) +
         ");\n} catch (const std::bad_alloc&) {\n  detail::throw_out_of_host_memory(\"" + name + "\");\n}\n\n";
}

std::vector<Parameter> parameters_of(const KernelSummary& kernel) {
  using Kind = Parameter::Kind;
  const FormSignature& form = *kernel.descriptor.form;
  const bool has_struct = *form.options_type != 0;
  std::vector<Parameter> parameters, scalars_last, behind_options;
  int tensors = 0;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role == Argument::Role::input) {
      const bool is_first = form.needed_inputs < 0 || tensors < form.needed_inputs;
      tensors++;
      (is_first ? parameters : behind_options)
          .push_back(
              {"const Tensor&", argument.name, is_optional(kernel, argument.name) ? "{}" : "", true, Kind::tensor});
    } else if (is_callers_scalar(form, argument)) {
      (form.scalars_last ? scalars_last : parameters)
          .push_back({is_floating(argument.dtype) ? "double" : "int64_t", argument.name, argument.default_value, false,
                      Kind::scalar});
    }
  }
  for (const ParameterDescription& comptime : comptimes_of(kernel)) {
    if (form.owns(comptime.name)) continue;
    const std::string type = enum_name(kernel, comptime);
    parameters.push_back({type, comptime.name, type + "::" + comptime.values[0], false, Kind::comptime});
  }
  if (has_struct) {
    parameters.push_back({"const " + std::string(form.options_type) + "&", "options", "{}", false, Kind::options});
  } else {
    for (const FormOption& option : form.options) {
      parameters.push_back({type_of(kernel, option), option.name, default_of(kernel, option), false, Kind::option});
    }
  }
  parameters.insert(parameters.end(), behind_options.begin(), behind_options.end());
  parameters.insert(parameters.end(), scalars_last.begin(), scalars_last.end());
  if (tensors == 0) parameters.push_back({"Device", "device", "Device::cpu()", false, Kind::device});
  return parameters;
}

}  // namespace ashlar::dsl
