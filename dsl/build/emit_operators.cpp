#include <fstream>
#include <sstream>

#include "dsl/build/emit.h"
#include "dsl/build/signature.h"

namespace ashlar::dsl {
namespace {

const char* text_of(Form form) {
  switch (form) {
    case Form::plain:
      return "plain";
    case Form::pointwise:
      return "pointwise";
    case Form::broadcast:
      return "broadcast";
    case Form::rows:
      return "rows";
    case Form::reduction:
      return "reduction";
    case Form::contraction:
      return "contraction";
    case Form::movement:
      return "movement";
  }
  return "";
}

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

bool has_typed_function(const KernelSummary& kernel) { return kernel.descriptor.form != Form::movement; }

// ---- header
// ----------------------------------------------------------------------------------------------------------

void write_declaration(std::ostream& out, const KernelSummary& kernel) {
  for (const ParameterDescription& comptime : comptimes_of(kernel)) {
    if (kernel.descriptor.form != Form::plain) continue;
    out << "enum class " << enum_name(kernel, comptime) << " : uint8_t { " << join(comptime.values) << " };\n";
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
        out << "  if (" << have << " != " << need << ") return \"" << with_argument_names(have + " == " + need, kernel)
            << "\";\n";
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
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.role != Argument::Role::output && argument.role != Argument::Role::scratch) continue;
    if (argument.sizes.empty() && argument.rank > 0) return false;
    for (const Size& size : argument.sizes) {
      if (size.is_free()) return false;
    }
  }
  return true;
}

void write_table(std::ostream& out, const KernelSummary& kernel) {
  const std::string& name = kernel.entry->name;
  out << "// ---- " << name << "\nextern \"C\" const TargetTable";
  for (size_t t = 0; t < kCodeTargetNames.size(); t++) {
    out << (t ? ", " : " ") << table_of(*kernel.entry, kCodeTargetNames[t]);
  }
  out << ";\nnamespace {\nconstexpr Argument " << name << "_arguments[] = {\n";
  for (const ArgumentDescription& a : kernel.arguments) {
    out << "    {\"" << a.name << "\", Argument::Role::" << role_name(a.role) << ", " << a.element << ", "
        << dtype_text(a.dtype) << ", " << a.rank << ", " << a.in_place_of << "},\n";
  }
  out << "};\n";
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
  out << "}  // namespace\nconst KernelInfo " << name << "{\"" << name << "\", \"" << kernel.descriptor.formula
      << "\", Form::" << text_of(kernel.descriptor.form) << ", " << name << "_arguments, "
      << (comptimes.empty() ? "{}" : name + "_comptimes") << ", " << kernel.entry->instances[0].elements.size() << ", "
      << (has_shape_rule(kernel) ? name + "_shapes" : "nullptr") << ", " << name << "_flops, {{";
  for (const char* target : kCodeTargetNames) out << "&" << table_of(*kernel.entry, target) << ", ";
  const Descriptor& descriptor = kernel.descriptor;
  out << "}}, OfNone::" << text_of(descriptor.of_none) << ", "
      << (descriptor.vendor.empty() ? "nullptr" : "&vendor::" + descriptor.vendor);
  if (!descriptor.parts_kernel.empty()) out << ", &" << descriptor.parts_kernel << ", &" << descriptor.last_kernel;
  out << "};\n\n";
}

// ---- typed functions
// -------------------------------------------------------------------------------------------------

std::string list_of(const std::string& type, const std::vector<std::string>& names) {
  if (names.empty()) return "std::span<const " + type + ">{}";
  return "std::array<" + type + ", " + std::to_string(names.size()) + ">{" + join(names) + "}";
}

void write_function(std::ostream& out, const KernelSummary& kernel) {
  const std::string& name = kernel.entry->name;
  const Form form = kernel.descriptor.form;
  const std::vector<Parameter> parameters = parameters_of(kernel);
  std::vector<std::string> tensors, scalars;
  for (const Parameter& p : parameters) {
    if (p.is_tensor)
      tensors.push_back(p.name);
    else if (p.type == "double" || (p.type == "int64_t" && p.name != "axis"))
      scalars.push_back(p.name);
  }
  out << result_type(kernel) << " " << name << "(" << declare(parameters, false) << ") {\n";
  std::string call = std::string("forms::") + text_of(form) + "(kernels::" + name + ", ";
  bool returns_one = false;
  switch (form) {
    case Form::plain: {
      call += list_of("Tensor", tensors) + ", " + list_of("Scalar", scalars);
      std::string variant, radix = "1";
      int stride = 1;
      for (const ParameterDescription& comptime : comptimes_of(kernel)) {
        variant += (variant.empty() ? "" : " + ") + std::string("static_cast<int>(") + comptime.name + ") * " +
                   std::to_string(stride);
        stride *= static_cast<int>(comptime.values.size());
      }
      if (!variant.empty()) call += ", static_cast<uint8_t>(" + variant + ")";
      break;
    }
    case Form::pointwise:
      call += list_of("Tensor", tensors) + ", " + list_of("Scalar", scalars);
      break;
    case Form::broadcast:
      call += list_of("Tensor", tensors) + ", " + list_of("Scalar", scalars);
      returns_one = true;
      break;
    case Form::rows:
      call += list_of("Tensor", tensors) + ", axis, " + list_of("Scalar", scalars);
      break;
    case Form::reduction:
      call += tensors.at(0) + ", axes, keepdim, " + list_of("Scalar", scalars);
      returns_one = true;
      break;
    case Form::contraction:
      call += tensors.at(0) + ", " + tensors.at(1) + ", options";
      returns_one = true;
      break;
    case Form::movement:
      break;
  }
  call += ")";
  const auto results = results_of(kernel);
  if (returns_one) {
    out << "  return " << call << ";\n";
  } else if (results.empty()) {
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

}  // namespace

void emit_operators(const std::string& name, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream header(folder / (name + ".h")), source(folder / (name + ".cpp"));
  header << "// Made by the build from generators/" << name << ".cpp.\n#pragma once\n\n"
         << "#include \"runtime/forms/forms.h\"\n\nnamespace ashlar {\n\n";
  source << "// Made by the build from generators/" << name << ".cpp.\n#include \"ashlar/ops/" << name
         << ".h\"\n\n#include <array>\n\n#include \"runtime/vendor/vendor.h\"\n\nnamespace ashlar {\nnamespace kernels "
            "{\n\n";
  std::vector<KernelSummary> summaries;
  for (const KernelEntry& entry : kernels()) summaries.push_back(summarize(entry));

  for (const KernelSummary& kernel : summaries) {
    if (has_typed_function(kernel)) write_declaration(header, kernel);
  }
  header << "namespace kernels {\n";
  for (const KernelSummary& kernel : summaries) header << "extern const KernelInfo " << kernel.entry->name << ";\n";
  header << "/// Every kernel of this file.\nstd::span<const KernelInfo* const> all_of_" << name
         << "();\n}  // namespace kernels\n}  // namespace ashlar\n";

  for (const KernelSummary& kernel : summaries) write_table(source, kernel);
  source << "namespace {\nconstexpr const KernelInfo* " << name << "_list[] = {";
  for (const KernelSummary& kernel : summaries) source << "&" << kernel.entry->name << ", ";
  source << "};\n}\nstd::span<const KernelInfo* const> all_of_" << name << "() { return " << name
         << "_list; }\n}  // namespace kernels\n\n";
  for (const KernelSummary& kernel : summaries) {
    if (has_typed_function(kernel)) write_function(source, kernel);
  }
  source << "}  // namespace ashlar\n";
  if (!header || !source) throw std::runtime_error("can't write to " + folder.string());
}

}  // namespace ashlar::dsl
