#include <fstream>
#include <set>
#include <sstream>

#include "dsl/build/axes.h"
#include "dsl/build/emit.h"
#include "dsl/build/signature.h"

namespace ashlar::dsl {
namespace {

const char* text_of(OfNone result) {
  switch (result) {
    case OfNone::refused:
      return "refused";
    case OfNone::zero:
      return "zero";
    case OfNone::one:
      return "one";
    case OfNone::nan:
      return "nan";
    case OfNone::minus_infinity:
      return "minus_infinity";
  }
  return "";
}

const char* text_of(OfOne result) {
  return result == OfOne::element ? "element" : result == OfOne::place ? "place" : "computed";
}

std::string dtype_text(DType dtype) {
  return "DType::" + (dtype == DType::boolean ? std::string("boolean") : std::string(name_of(dtype)));
}

// "in[1][0]" for readers: "gain[0]"
std::string with_argument_names(std::string text, const KernelSummary& kernel) {
  int index = 0;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role != Argument::Role::input) continue;
    const std::string from = "in[" + std::to_string(index++) + "]";
    for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), argument.name);
  }
  return text;
}

std::string dtypes_doc(const KernelSummary& kernel) {
  std::vector<std::string> names;
  for (const Instance& instance : kernel.entry->instances) {
    const std::string name(name_of(instance.elements[0]));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names);
}

bool has_typed_function(const KernelSummary& kernel) { return !kernel.descriptor.is_internal; }

std::string list_of(const std::string& type, const std::vector<std::string>& names) {
  if (names.empty()) return "std::span<const " + type + ">{}";
  return "std::array<" + type + ", " + std::to_string(names.size()) + ">{" + join(names) + "}";
}

// ---- header
// ----------------------------------------------------------------------------------------------------------

void write_declaration(std::ostream& out, const KernelSummary& kernel) {
  for (const ParameterDescription& comptime : comptimes_of(kernel)) {
    if (kernel.descriptor.form->owns(comptime.name)) continue;
    out << "enum class " << enum_name(kernel, comptime) << " : uint8_t { " << join(comptime.values) << " };\n";
  }
  for (const FormOption& option : kernel.descriptor.form->options) {
    if (option.kind != FormOption::Kind::choice || *option.type) continue;
    out << "enum class " << type_of(kernel, option) << " : uint8_t { "
        << join({option.choices.begin(), option.choices.end()}) << " };\n";
  }
  const auto results = results_of(kernel);
  if (results.size() > 1) {
    out << "struct " << result_type(kernel) << " {\n";
    for (const ArgumentDescription& result : results) out << "  Tensor " << result.name << ";\n";
    out << "};\n";
  }
  out << "/// " << kernel.descriptor.formula << "\n/// dtypes: " << dtypes_doc(kernel)
      << ". Throws ShapeError, DTypeError, DeviceError, MissingKernel, OutOfMemory.\n";
  if (results.empty()) {
    std::vector<std::string> names;
    for (const ArgumentDescription& a : kernel.arguments) {
      if (a.in_place_of >= 0) names.push_back(a.name);
    }
    out << "/// Works in place.\n";
  }
  out << result_type(kernel) << " " << kernel.entry->name << "(" << declare(parameters_of(kernel), true) << ");\n\n";
}

// ---- tables
// ----------------------------------------------------------------------------------------------------------

void write_shape_rule(std::ostream& out, const KernelSummary& kernel) {
  out << "const char* " << kernel.entry->name
      << "_shapes([[maybe_unused]] const Shape* in, [[maybe_unused]] Shape* out) {\n";
  int input = 0, output = 0;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role == Argument::Role::scalar) continue;
    if (argument.role == Argument::Role::input) {
      for (size_t i = 0; i < argument.sizes.size(); i++) {
        if (argument.sizes[i].is_free()) continue;
        const std::string have = "in[" + std::to_string(input) + "][" + std::to_string(i) + "]";
        const std::string& need = argument.sizes[i].text;
        const std::shared_ptr<NamedDim>& dim = argument.sizes[i].dim;
        out << "  if (" << have << " != " << need << ") return \"" << with_argument_names(have + " == " + need, kernel)
            << (dim == nullptr ? "" : " (" + dim->name + ")") << "\";\n";
      }
      input++;
      continue;
    }
    std::vector<std::string> sizes;
    for (const Size& size : argument.sizes) sizes.push_back(size.text);
    out << "  out[" << output++ << "] = Shape{" << join(sizes) << "};\n";
  }
  out << "  return nullptr;\n}\n";
}

bool has_shape_rule(const KernelSummary& kernel) {
  if (kernel.entry->is_by_hand()) return false;
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role != Argument::Role::output && argument.role != Argument::Role::scratch) continue;
    if (argument.sizes.empty() && argument.rank > 0) return false;
    for (const Size& size : argument.sizes) {
      if (size.is_free()) return false;
    }
  }
  return true;
}

// An operator written by hand is called by its own function, of which this is the form.
void write_by_hand_form(std::ostream& out, const KernelSummary& kernel) {
  const std::string& name = kernel.entry->name;
  const FormSignature& form = *kernel.descriptor.form;
  std::vector<std::string> arguments, behind_options, scalars, options;
  size_t input = 0, optional = 0;
  for (const ArgumentDescription& a : kernel.arguments) {
    if (a.role == Argument::Role::input) {
      const std::string at = std::to_string(input), given = "call.inputs[" + at + "]";
      const bool is_first = form.needed_inputs < 0 || input < static_cast<size_t>(form.needed_inputs);
      input++;
      (is_first ? arguments : behind_options)
          .push_back(a.is_optional ? "call.inputs.size() > " + at + " ? " + given + " : Tensor()" : given);
      optional += a.is_optional;
    }
    if (a.role != Argument::Role::scalar) continue;
    scalars.push_back("call.scalars[" + std::to_string(scalars.size()) + "]." +
                      (is_floating(a.dtype) ? "real" : "integer"));
  }
  if (!form.scalars_last) arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  for (const FormOption& option : form.options) {
    arguments.push_back(from_call(kernel, option, options.size()));
    if (!option.choices.empty()) {
      out << "constexpr const char* " << name << "_" << option.name << "[] = {\""
          << join({option.choices.begin(), option.choices.end()}, "\", \"") << "\"};\n";
    }
    static constexpr const char* kKinds[] = {"boolean", "integer", "integers", "choice"};
    options.push_back("{\"" + std::string(option.name) + "\", FormOption::Kind::" +
                      kKinds[static_cast<size_t>(option.kind)] + ", " + std::to_string(option.default_value) +
                      (option.choices.empty() ? "}" : ", \"\", " + name + "_" + option.name + "}"));
  }
  arguments.insert(arguments.end(), behind_options.begin(), behind_options.end());
  if (form.scalars_last) arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  if (input == 0) arguments.push_back("call.device");
  if (!options.empty()) out << "constexpr FormOption " << name << "_options[] = {" << join(options) << "};\n";
  const auto texts = [&](const char* of, std::span<const char* const> all) {
    const std::string list = name + "_" + of;
    if (all.empty()) return std::string();
    out << "constexpr const char* " << list << "[] = {\"" << join({all.begin(), all.end()}, "\", \"") << "\"};\n";
    return ", ." + std::string(of) + " = " + list;
  };
  const std::string plans = texts("plans", form.plans), plan_sizes = texts("plan_sizes", form.plan_sizes);
  out << "constexpr FormSignature " << name << "_signature{.name = \"" << name << "\", .type = \"\", .header = \"\""
      << (options.empty() ? "" : ", .options = " + name + "_options")
      << (form.needed_inputs < 0 ? "" : ", .needed_inputs = " + std::to_string(form.needed_inputs))
      << (form.scalars_last ? ", .scalars_last = true" : "") << plans << plan_sizes << "};\nstd::vector<Tensor> "
      << name << "_call(const KernelInfo& kernel, const FormCall& call) {\n  forms::key_of(kernel, call"
      << (optional == 0 ? "" : ", " + std::to_string(optional)) << ");\n  ";
  const std::string function = "ashlar::" + name + "(" + join(arguments) + ")";
  const auto results = results_of(kernel);
  std::vector<std::string> names;
  for (const ArgumentDescription& result : results) names.push_back("result." + result.name);
  if (results.size() == 1) {
    out << "return {" << function << "};\n}\n";
  } else {
    out << "const auto result = " << function << ";\n  return {" << join(names) << "};\n}\n";
  }
  out << "constexpr Form " << name << "_form{" << name << "_signature, " << name
      << "_call, FormDefaults::sizes, FormDefaults::shape_names, FormDefaults::samples, "
         "FormDefaults::check_shapes};\n";
  if (!kernel.descriptor.calls.empty()) {
    out << "constexpr const KernelInfo* " << name << "_calls[] = {&" << join(kernel.descriptor.calls, ", &") << "};\n";
  }
}

void write_table(std::ostream& out, const KernelSummary& kernel) {
  const std::string& name = kernel.entry->name;
  out << "// ---- " << name << "\nextern \"C\" const TargetTable";
  for (size_t t = 0; t < kCodeTargetNames.size(); t++) {
    out << (t ? ", " : " ") << table_of(*kernel.entry, kCodeTargetNames[t]);
  }
  KernelAxes axes;
  out << ";\nnamespace {\nconstexpr Argument " << name << "_arguments[] = {\n";
  for (const ArgumentDescription& a : kernel.arguments) {
    out << "    {\"" << a.name << "\", Argument::Role::" << role_name(a.role) << ", " << a.element << ", "
        << dtype_text(a.dtype) << ", " << a.rank << ", " << a.in_place_of << ", " << (a.is_strided ? "true" : "false")
        << ", {" << join(axes.of_argument(a)) << "}, " << (a.is_optional ? "true" : "false") << ", " << a.given_of
        << (a.default_value.empty() ? "" : ", " + a.default_value) << "},\n";
  }
  out << "};\nconstexpr const char* " << name << "_axes[] = {\"" << join(axes.names, "\", \"") << "\"};\n";
  const auto comptimes = comptimes_of(kernel);
  for (const ParameterDescription& comptime : comptimes) {
    out << "constexpr const char* " << name << "_" << comptime.name << "[] = {\"" << join(comptime.values, "\", \"")
        << "\"};\n";
  }
  if (!comptimes.empty()) {
    out << "constexpr ComptimeInfo " << name << "_comptimes[] = {";
    for (const ParameterDescription& c : comptimes) out << "{\"" << c.name << "\", " << name << "_" << c.name << "}, ";
    out << "};\n";
  }
  if (has_shape_rule(kernel)) write_shape_rule(out, kernel);
  int last = -1;
  for (const ArgumentDescription& a : kernel.arguments) {
    last += a.role == Argument::Role::input || a.role == Argument::Role::output;
  }
  const std::string& flops = kernel.descriptor.flops;
  out << "double " << name << "_flops(const Shape* shapes) { return "
      << (flops.empty() ? "static_cast<double>(shapes[" + std::to_string(last) + "].numel())" : flops) << "; }\n";
  if (kernel.entry->is_by_hand()) write_by_hand_form(out, kernel);
  out << "}  // namespace\nconst KernelInfo " << name << "{\n    .version = kTablesVersion,\n    .name = \"" << name
      << "\",\n    .formula = \"" << kernel.descriptor.formula << "\",\n    .form = "
      << (kernel.entry->is_by_hand() ? "&" + name + "_form"
                                     : "&form_of<" + std::string(kernel.descriptor.form->type) + ">")
      << ",\n    .arguments = " << name << "_arguments,\n";
  out << "    .comptimes = " << (comptimes.empty() ? "{}" : name + "_comptimes")
      << ",\n    .element_count = " << kernel.entry->instances[0].elements.size() << ",\n";
  out << "    .shape_rule = " << (has_shape_rule(kernel) ? name + "_shapes" : "nullptr") << ",\n    .flops = " << name
      << "_flops,\n    .targets = {{";
  const Descriptor& descriptor = kernel.descriptor;
  for (const std::string target : kCodeTargetNames) {
    out << (is_on(descriptor, target) ? "&" + table_of(*kernel.entry, target) : "nullptr") << ", ";
  }
  out << "}},\n    .of_none = OfNone::" << text_of(descriptor.of_none)
      << ",\n    .of_one = OfOne::" << text_of(descriptor.of_one) << ",\n";
  if (!descriptor.vendor.empty()) out << "    .vendor = &vendor::" << descriptor.vendor << ",\n";
  if (!descriptor.parts_kernel.empty()) {
    out << "    .parts = &" << descriptor.parts_kernel << ",\n    .last = &" << descriptor.last_kernel << ",\n";
  }
  if (!descriptor.last_with_rest_kernel.empty()) {
    out << "    .last_with_rest = &" << descriptor.last_with_rest_kernel << ",\n";
  }
  if (descriptor.is_internal) out << "    .is_internal = true,\n";
  if (kernel.entry->is_by_hand()) {
    out << "    .is_by_hand = true,\n";
    if (!descriptor.calls.empty()) out << "    .calls = " << name << "_calls,\n";
  }
  out << "    .axis_names = " << name << "_axes,\n};\n\n";
}

// ---- typed functions
// -------------------------------------------------------------------------------------------------

std::string option_value(const FormOption& option, const std::string& name) {
  if (option.kind == FormOption::Kind::integers) return "OptionValue(" + name + ")";
  return "OptionValue(static_cast<int64_t>(" + name + "))";
}

// "static_cast<size_t>(kind) * 1 + …": the public digits of KernelKey::variant.
std::string variant_of(const KernelSummary& kernel) {
  std::string variant;
  size_t stride = 1;
  for (const ParameterDescription& comptime : comptimes_of(kernel)) {
    if (!kernel.descriptor.form->owns(comptime.name)) {
      variant += (variant.empty() ? "" : " + ") + std::string("static_cast<size_t>(") + comptime.name + ") * " +
                 std::to_string(stride);
    }
    stride *= comptime.values.size();
  }
  return variant;
}

void write_function(std::ostream& out, const KernelSummary& kernel) {
  using Kind = Parameter::Kind;
  const std::string& name = kernel.entry->name;
  const FormSignature& form = *kernel.descriptor.form;
  const std::vector<Parameter> parameters = parameters_of(kernel);
  std::vector<std::string> tensors, scalars, options, fields;
  std::string device;
  const std::string of_options = *form.options_type ? "options." : "";
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role == Argument::Role::input) {
      tensors.push_back(argument.name);
    } else if (is_callers_scalar(form, argument)) {
      scalars.push_back(argument.name);
    }
  }
  for (const FormOption& option : form.options) options.push_back(option_value(option, of_options + option.name));
  for (const Parameter& p : parameters) {
    if (p.kind == Kind::device) device = p.name;
  }
  if (!tensors.empty()) fields.push_back(".inputs = " + list_of("Tensor", tensors));
  if (!scalars.empty()) fields.push_back(".scalars = " + list_of("Scalar", scalars));
  if (!options.empty()) fields.push_back(".options = " + list_of("OptionValue", options));
  if (const std::string variant = variant_of(kernel); !variant.empty()) {
    fields.push_back(".variant = static_cast<uint16_t>(" + variant + ")");
  }
  if (!device.empty()) fields.push_back(".device = " + device);
  const std::string call = std::string(form.type) + "::call(kernels::" + name + ", {" + join(fields) + "})";

  out << result_type(kernel) << " " << name << "(" << declare(parameters, false) << ") {\n";
  const auto results = results_of(kernel);
  if (results.empty()) {
    out << "  " << call << ";\n";
  } else {
    out << "  std::vector<Tensor> results = " << call << ";\n  return ";
    std::vector<std::string> moved;
    int output = 0;
    for (const ArgumentDescription& a : kernel.arguments) {
      if (a.role != Argument::Role::output) continue;
      if (a.in_place_of < 0) moved.push_back("std::move(results[" + std::to_string(output) + "])");
      output++;
    }
    out << (results.size() == 1 ? moved[0] : "{" + join(moved) + "}") << ";\n";
  }
  out << "}\n\n";
}

// An operator composed of others is a call of the text that its two functions share.
void write_composed_function(std::ostream& out, const KernelSummary& kernel) {
  out << "Tensor " << kernel.entry->name << "(" << declare(parameters_of(kernel), false) << ") "
      << composed_body(kernel, parameters_of(kernel));
}

}  // namespace

void emit_operators(const std::string& name, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream header(folder / (name + ".h")), source(folder / (name + ".cpp"));
  std::vector<KernelSummary> summaries;
  for (const KernelEntry& entry : kernels()) summaries.push_back(summarize(entry));
  header << "// Made by the build from generators/" << name << ".cpp.\n#pragma once\n\n"
         << "#include \"runtime/forms/forms.h\"\n";
  std::set<std::string> headers;
  for (const KernelSummary& kernel : summaries) {
    if (!kernel.entry->is_by_hand()) headers.insert(kernel.descriptor.form->header);
  }
  for (const std::string& include : headers) header << "#include \"" << include << "\"\n";
  header << "\nnamespace ashlar {\n\n";
  source << "// Made by the build from generators/" << name << ".cpp.\n#include \"ashlar/ops/" << name
         << ".h\"\n\n#include <array>\n\n#include \"runtime/forms/check.h\"\n#include "
            "\"runtime/vendor/vendor.h\"\n"
         << composed_includes(summaries, ComposedOf::tensors) << "\nnamespace ashlar {\nnamespace kernels {\n\n";
  for (const KernelSummary& kernel : summaries) {
    if (has_typed_function(kernel)) write_declaration(header, kernel);
  }
  header << "namespace kernels {\n";
  for (const KernelSummary& kernel : summaries) header << "extern const KernelInfo " << kernel.entry->name << ";\n";
  header << "/// Every kernel of this file.\nstd::span<const KernelInfo* const> all_of_" << name
         << "();\n}  // namespace kernels\n}  // namespace ashlar\n";

  for (const KernelSummary& kernel : summaries) {
    for (const std::string& called : kernel.descriptor.calls) source << "extern const KernelInfo " << called << ";\n";
  }
  for (const KernelSummary& kernel : summaries) write_table(source, kernel);
  source << "namespace {\nconstexpr const KernelInfo* " << name << "_list[] = {";
  for (const KernelSummary& kernel : summaries) source << "&" << kernel.entry->name << ", ";
  source << "};\n}\nstd::span<const KernelInfo* const> all_of_" << name << "() { return " << name
         << "_list; }\n}  // namespace kernels\n\n";
  for (const KernelSummary& kernel : summaries) {
    if (has_typed_function(kernel) && !kernel.entry->is_by_hand()) write_function(source, kernel);
    if (!kernel.descriptor.composed.empty()) write_composed_function(source, kernel);
  }
  source << "}  // namespace ashlar\n";
  if (!header || !source) throw std::runtime_error("can't write to " + folder.string());
}

}  // namespace ashlar::dsl
