#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>

#include "dsl/build/emit.h"
#include "dsl/build/signature.h"

namespace ashlar::dsl {
namespace {

// What a gradient's expressions use of the forward call.
struct Uses {
  std::set<std::string> saved;   ///< tensors whose elements are needed
  std::set<std::string> shaped;  ///< tensors of which only the shape is
};

// Rewrites "x.shape()" to "x_shape" and notes which tensors the expression names.
std::string collect_uses(const std::string& expression, const std::set<std::string>& tensors, Uses& uses) {
  std::string result;
  for (size_t i = 0; i < expression.size();) {
    if (!std::isalpha(static_cast<unsigned char>(expression[i])) && expression[i] != '_') {
      result += expression[i++];
      continue;
    }
    size_t end = i;
    while (end < expression.size() &&
           (std::isalnum(static_cast<unsigned char>(expression[end])) || expression[end] == '_'))
      end++;
    const std::string word = expression.substr(i, end - i);
    static const std::string kShape = ".shape()";
    const bool is_member = i > 0 && expression[i - 1] == '.';
    if (!is_member && tensors.count(word) != 0) {
      if (expression.compare(end, kShape.size(), kShape) == 0) {
        uses.shaped.insert(word);
        result += word + "_shape";
        i = end + kShape.size();
        continue;
      }
      uses.saved.insert(word);
    }
    result += word;
    i = end;
  }
  return result;
}

bool has_gradient(const KernelSummary& kernel, const std::string& input) {
  for (const GradientRule& rule : kernel.descriptor.gradients) {
    if (rule.input == input || rule.input == kAllInputs) return true;
  }
  return false;
}

bool is_optional(const KernelSummary& kernel, const std::string& input) {
  return std::ranges::any_of(kernel.arguments,
                             [&](const ArgumentDescription& a) { return a.is_optional && a.name == input; });
}

// Inputs that can require a gradient arrive as Var, the others (labels, say) as Tensor.
std::vector<Parameter> differentiable_parameters(const KernelSummary& kernel) {
  std::vector<Parameter> parameters = parameters_of(kernel);
  for (Parameter& p : parameters) {
    if (p.is_tensor && has_gradient(kernel, p.name)) p.type = "const Var&";
  }
  // A contraction's bias is one of its options, which hold tensors; the tape needs it as a Var.
  if (kernel.descriptor.form == Form::contraction) parameters.push_back({"const Var&", "bias", "{}"});
  return parameters;
}

void write_gradient(std::ostream& out, const KernelSummary& kernel) {
  const std::string& name = kernel.entry->name;
  const std::vector<Parameter> parameters = differentiable_parameters(kernel);
  std::set<std::string> tensors;
  std::vector<std::string> arguments, variables, captures;
  const bool is_contraction = kernel.descriptor.form == Form::contraction;
  for (const Parameter& p : parameters) {
    if (is_contraction && p.name == "bias") continue;
    const bool is_var = p.type == "const Var&";
    const bool may_be_absent = is_var && is_optional(kernel, p.name);
    arguments.push_back(may_be_absent ? p.name + ".defined() ? " + p.name + ".value() : Tensor()"
                        : is_var      ? p.name + ".value()"
                                      : p.name);
    if (is_var) variables.push_back(p.name);
    if (p.is_tensor) tensors.insert(p.name);
  }
  const auto results = results_of(kernel);
  for (const ArgumentDescription& result : results) tensors.insert(result.name);

  Uses uses;
  std::vector<std::string> gradients;
  for (const GradientRule& rule : kernel.descriptor.gradients) {
    if (rule.input == kAllInputs) gradients.push_back(collect_uses(rule.expression, tensors, uses));
  }
  const bool is_joint = !gradients.empty();
  for (size_t i = 0; i < variables.size(); i++) {
    for (const GradientRule& rule : kernel.descriptor.gradients) {
      if (rule.input != variables[i]) continue;
      std::string expression = collect_uses(rule.expression, tensors, uses);
      if (kernel.descriptor.form == Form::broadcast) {
        expression = "sum_to_shape(" + expression + ", " + variables[i] + "_shape)";
        uses.shaped.insert(variables[i]);
      }
      gradients.push_back("needs(" + std::to_string(i) + ") ? " + expression + " : Tensor()");
    }
  }

  out << "Var " << name << "(" << declare(parameters, false) << ") {\n";
  std::string inputs = "{" + join(variables) + "}";
  if (is_contraction) {
    out << "  MatmulOptions fused = options;\n  if (bias.defined()) fused.bias = bias.value();\n";
    arguments.back() = "fused";
    inputs = "{" + join(variables) + ", bias}";
  }
  if (results.size() == 1) {
    out << "  const Tensor " << results[0].name << " = ashlar::" << name << "(" << join(arguments) << ");\n";
  } else {
    std::vector<std::string> names;
    for (const ArgumentDescription& result : results) names.push_back(result.name);
    out << "  const auto [" << join(names) << "] = ashlar::" << name << "(" << join(arguments) << ");\n";
  }
  std::vector<std::string> body;
  const auto tensor_of = [&](const std::string& tensor) {
    return std::find(variables.begin(), variables.end(), tensor) != variables.end() ? tensor + ".value()" : tensor;
  };
  for (const std::string& tensor : uses.saved) {
    std::string value = is_optional(kernel, tensor) ? tensor : tensor_of(tensor);
    for (const SavedWhen& rule : kernel.descriptor.saved_when) {
      if (rule.tensor == tensor) value = rule.condition + " ? " + value + " : Tensor()";
    }
    captures.push_back("saved_" + tensor + " = save(" + value + ")");
    body.push_back("const Tensor& " + tensor + " = saved_" + tensor + ".get();");
  }
  for (const std::string& tensor : uses.shaped) {
    captures.push_back(tensor + "_shape = " + tensor_of(tensor) + ".shape()");
  }
  // Scalars, axes and options go along only where an expression names them.
  for (const Parameter& p : parameters) {
    if (p.is_tensor) continue;
    Uses named;
    for (const GradientRule& rule : kernel.descriptor.gradients) collect_uses(rule.expression, {p.name}, named);
    if (!named.saved.empty()) captures.push_back(is_contraction ? p.name + " = fused" : p.name);
  }
  out << "  return record(\"" << name << "\", " << inputs << ", " << results[0].name << ",\n                ["
      << join(captures) << "](const Tensor& dy, [[maybe_unused]] Needs needs) -> std::vector<Tensor> {\n";
  for (const std::string& line : body) out << "                  " << line << "\n";
  const std::string list = join(gradients, ",\n                          ");
  out << "                  return " << (is_joint ? list : "{" + list + "}") << ";\n"
      << "                });\n}\n\n";
}

}  // namespace

void emit_gradients(const std::string& name, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream header(folder / (name + ".h")), source(folder / (name + ".cpp"));
  header << "// Made by the build from generators/" << name << ".cpp.\n#pragma once\n\n#include \"ashlar/ops/" << name
         << ".h\"\n#include \"autograd/var.h\"\n\nnamespace ashlar::ad {\n\n";
  source
      << "// Made by the build from generators/" << name << ".cpp.\n#include \"ashlar/ad/" << name
      << ".h\"\n\n#include \"ashlar/ops.h\"\n#include \"autograd/node.h\"\n#include \"autograd/recipes/broadcast.h\"\n"
      << "#include \"autograd/recipes/extremum.h\"\n#include \"autograd/recipes/matmul.h\"\n"
      << "#include \"autograd/recipes/norm.h\"\n#include \"autograd/recipes/reduce.h\"\n\n"
      << "namespace ashlar::ad {\n\nusing namespace ashlar::recipes;\n\n";
  for (const KernelEntry& entry : kernels()) {
    const KernelSummary kernel = summarize(entry);
    if (kernel.descriptor.gradients.empty()) continue;
    header << "/// " << kernel.descriptor.formula << ", recorded on the tape.\nVar " << entry.name << "("
           << declare(differentiable_parameters(kernel), true) << ");\n\n";
    write_gradient(source, kernel);
  }
  header << "}  // namespace ashlar::ad\n";
  source << "}  // namespace ashlar::ad\n";
  if (!header || !source) throw std::runtime_error("can't write to " + folder.string());
}

}  // namespace ashlar::dsl
