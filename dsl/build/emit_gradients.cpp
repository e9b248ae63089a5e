// The recording functions, ashlar::ad::NAME, and their backward functions, written from the kernels' gradient rules.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "dsl/build/emit.h"
#include "dsl/build/gradient_rules.h"
#include "dsl/build/signature.h"

namespace ashlar::dsl {
namespace {

// Tensors that may be floating are Vars to recording functions and to gradients of gradients; others (labels, say) stay
// Tensors.
bool is_recorded(const KernelSummary& kernel, const std::string& tensor) {
  for (const ArgumentDescription& argument : kernel.arguments) {
    if (argument.name != tensor) continue;
    if (argument.element < 0) return is_floating(argument.dtype);
    return std::ranges::any_of(kernel.entry->instances, [&](const Instance& instance) {
      return is_floating(instance.elements[static_cast<size_t>(argument.element)]);
    });
  }
  return true;
}

std::vector<Parameter> recorded_parameters(const KernelSummary& kernel) {
  std::vector<Parameter> parameters = parameters_of(kernel);
  for (Parameter& p : parameters) {
    if (p.is_tensor && is_recorded(kernel, p.name)) p.type = "const Var&";
  }
  return parameters;
}

// Whether there is a function to record: one that users call, and that returns what it computes.
bool has_recording_function(const KernelSummary& kernel) {
  if (kernel.descriptor.is_internal || results_of(kernel).empty()) return false;
  const bool is_in_place = std::ranges::any_of(
      kernel.arguments, [](const ArgumentDescription& argument) { return argument.in_place_of >= 0; });
  const std::vector<Parameter> parameters = recorded_parameters(kernel);
  return !is_in_place &&
         std::ranges::any_of(parameters, [](const Parameter& parameter) { return parameter.type == "const Var&"; });
}

bool is_locally_constant(const KernelSummary& kernel) {
  const std::vector<GradientRule>& rules = kernel.descriptor.gradients;
  return !rules.empty() &&
         std::ranges::all_of(rules, [](const GradientRule& rule) { return rule.expression == kZeroGradient; });
}

// One recording function.
class Recording {
 public:
  explicit Recording(const KernelSummary& kernel)
      : kernel_(kernel),
        name_(kernel.entry->name),
        parameters_(recorded_parameters(kernel)),
        results_(results_of(kernel)) {
    for (const Parameter& p : parameters_) {
      if (p.type == "const Var&") variables_.push_back(p.name);
      if (p.type == "const Var&" || p.is_tensor) tensors_.insert(p.name);
    }
    for (const ArgumentDescription& result : results_) tensors_.insert(result.name);
    for (const GradientRule& rule : kernel.descriptor.gradients) {
      for (const std::string& name : names_in(rule.expression)) named_.insert(name);
    }
  }

  void write_declaration(std::ostream& out) const {
    if (results_.size() > 1) {
      out << "struct " << result_type(kernel_) << " {\n";
      for (const ArgumentDescription& result : results_) out << "  Var " << result.name << ";\n";
      out << "};\n";
    }
    out << "/// " << kernel_.descriptor.formula << ", recorded on the tape" << gradients_doc() << ".\n"
        << type() << " " << name_ << "(" << declare(parameters_, true) << ");\n\n";
  }

  void write(std::ostream& out) const {
    if (!kernel_.descriptor.composed.empty()) {
      out << type() << " " << name_ << "(" << declare(parameters_, false) << ") "
          << composed_body(kernel_, parameters_);
      return;
    }
    const bool is_constant = is_locally_constant(kernel_);
    const bool has_rules = !kernel_.descriptor.gradients.empty();
    std::vector<std::string> saved, fields;  // the backward function's members: how they are made, and declared
    if (has_rules && !is_constant) write_backward(out, saved, fields);

    out << type() << " " << name_ << "(" << declare(parameters_, false) << ") {\n";
    std::vector<std::string> arguments;
    for (const Parameter& p : parameters_) {
      arguments.push_back(p.type == "const Var&" ? value_of(p.name) : p.name);
    }
    std::vector<std::string> names;
    for (const ArgumentDescription& result : results_) names.push_back(result.name);
    out << (names.size() == 1 ? "  const Tensor " + names[0] : "  const auto [" + join(names) + "]")
        << " = ashlar::" << name_ << "(" << join(arguments) << ");\n";
    if (is_constant) {
      out << "  return {" << join(names) << "};\n}\n\n";
      return;
    }
    const std::string backward = has_rules ? struct_name() + "{" + join(saved) + "}" : "NoGradient{}";
    const std::string common = "(\"" + name_ + "\", {" + join(variables_) + "}, ";
    if (names.size() == 1) {
      out << "  return record" << common << names[0] << ", " << backward << ");\n}\n\n";
      return;
    }
    uint64_t differentiable = 0;
    for (size_t i = 0; i < names.size(); i++) {
      if (!has_rules || takes_upstream_of(names[i])) differentiable |= uint64_t{1} << i;
    }
    std::vector<std::string> results;
    for (size_t i = 0; i < names.size(); i++) results.push_back("results[" + std::to_string(i) + "]");
    out << "  std::vector<Var> results = record_outputs" << common << "{" << join(names) << "}, " << backward << ", "
        << differentiable << ");\n  return {" << join(results) << "};\n}\n\n";
  }

  // The same function with a FormCall's options, to be called by name (autograd/recorded.h).
  void write_call(std::ostream& out) const {
    using Kind = Parameter::Kind;
    const FormSignature& form = *kernel_.descriptor.form;
    std::map<std::string, std::string> of_input;
    std::map<std::string, size_t> scalars;
    for (const ArgumentDescription& argument : kernel_.arguments) {
      if (argument.role == Argument::Role::input) {
        of_input[argument.name] = "inputs[" + std::to_string(of_input.size()) + "]";
      } else if (is_callers_scalar(form, argument)) {
        scalars.emplace(argument.name, scalars.size());
      }
    }
    std::map<std::string, std::string> comptimes;
    size_t stride = 1;
    for (const ParameterDescription& comptime : comptimes_of(kernel_)) {
      comptimes[comptime.name] = "static_cast<" + enum_name(kernel_, comptime) + ">(call.variant / " +
                                 std::to_string(stride) + " % " + std::to_string(comptime.values.size()) + ")";
      stride *= comptime.values.size();
    }
    std::vector<std::string> arguments;
    size_t option = 0;
    out << "namespace {\nstd::vector<Var> " << name_
        << "_call([[maybe_unused]] std::span<const Var> inputs, [[maybe_unused]] const FormCall& call) {\n";
    for (const Parameter& p : parameters_) {
      const auto input = of_input.find(p.name);
      if (input != of_input.end() && p.kind == Kind::tensor) {
        const std::string value = input->second + (p.type == "const Var&" ? "" : ".value()");
        const std::string at = input->second.substr(7, input->second.size() - 8);  // "2" of "inputs[2]"
        const bool has_none = is_optional(kernel_, p.name);
        // One that was left out before another is there, undefined.
        const std::string given =
            "inputs.size() > " + at + (p.type == "const Var&" ? "" : " && " + input->second + ".defined()");
        const std::string none = p.type == "const Var&" ? "Var()" : "Tensor()";
        arguments.push_back(has_none ? given + " ? " + value + " : " + none : value);
      } else if (p.kind == Kind::scalar) {
        arguments.push_back("call.scalars[" + std::to_string(scalars.at(p.name)) + "]." +
                            (p.type == "double" ? "real" : "integer"));
      } else if (p.kind == Kind::comptime) {
        arguments.push_back(comptimes.at(p.name));
      } else if (p.kind == Kind::options) {
        out << "  " << form.options_type << " options;\n";
        for (size_t i = 0; i < form.options.size(); i++) {
          out << "  options." << form.options[i].name << " = " << from_call(kernel_, form.options[i], i) << ";\n";
        }
        arguments.push_back("options");
      } else if (p.kind == Kind::option) {
        arguments.push_back(from_call(kernel_, form.options[option], option));
        option++;
      } else if (p.kind == Kind::device) {
        arguments.push_back("call.device");
      }
    }
    std::vector<std::string> results;
    for (const ArgumentDescription& result : results_) results.push_back("results." + result.name);
    const std::string called = name_ + "(" + join(arguments) + ")";
    if (results.size() == 1) {
      out << "  return {" << called << "};\n}\n}  // namespace\n\n";
    } else {
      out << "  const auto results = " << called << ";\n  return {" << join(results) << "};\n}\n}  // namespace\n\n";
    }
  }

  const std::string& name() const { return name_; }

 private:
  std::string type() const { return results_.size() == 1 ? "Var" : result_type(kernel_); }
  std::string struct_name() const { return name_ + "_backward"; }

  std::string gradients_doc() const {
    if (is_locally_constant(kernel_)) return " as a constant";
    const bool is_composed = !kernel_.descriptor.composed.empty();
    if (is_composed && is_recorded(kernel_, results_[0].name)) return " by its parts";
    if (kernel_.descriptor.gradients.empty()) return "; it states no gradient: asking for one is an AutogradError";
    std::vector<std::string> constants;
    for (const ArgumentDescription& result : results_) {
      if (results_.size() > 1 && !takes_upstream_of(result.name)) constants.push_back(result.name);
    }
    return constants.empty() ? "" : "; " + join(constants) + " as constants";
  }

  // The tensor of a Var, undefined as it is.
  std::string value_of(const std::string& variable) const {
    return is_optional(kernel_, variable) ? variable + ".defined() ? " + variable + ".value() : Tensor()"
                                          : variable + ".value()";
  }

  bool takes_upstream_of(const std::string& result) const {
    return named_.count(upstream_of(result)) + named_.count(upstream_or_none_of(result)) != 0;
  }

  const GradientRule* rule_of(const std::string& input) const {
    for (const GradientRule& rule : kernel_.descriptor.gradients) {
      if (rule.input == input) return &rule;
    }
    return nullptr;
  }

  // How a tensor that the gradients name is saved by the recording function.
  std::string saving(const std::string& tensor) const {
    std::string made;
    const auto input = std::find(variables_.begin(), variables_.end(), tensor);
    if (input != variables_.end()) {
      made = "save_input(" + std::to_string(input - variables_.begin()) + ", " + tensor + ")";
    } else {
      made = "save(" + tensor + ")";
      for (size_t i = 0; i < results_.size(); i++) {
        if (results_[i].name == tensor) made = "save_output(" + std::to_string(i) + ", " + tensor + ")";
      }
    }
    if (is_optional(kernel_, tensor)) made = tensor + ".defined() ? " + made + " : SavedTensor()";
    for (const SavedWhen& when : kernel_.descriptor.saved_when) {
      if (when.tensor == tensor) made = when.condition + " ? " + made + " : SavedTensor()";
    }
    return made;
  }

  // `target = expression`, or an error where it can't be had for Vars.
  static std::string assignment(const std::string& target, const std::string& expression, const std::string& indent) {
    return indent + "if constexpr (std::same_as<T, Tensor> || requires { " + target + " = " + expression + "; }) {\n" +
           indent + "  " + target + " = " + expression + ";\n" + indent + "} else {\n" + indent +
           "  detail::throw_not_differentiable_twice(pass_.operation());\n" + indent + "}\n";
  }

  void write_backward(std::ostream& out, std::vector<std::string>& saved, std::vector<std::string>& fields) const {
    std::set<std::string> whole, shaped;
    std::string body;
    if (const GradientRule* joint = rule_of(kAllInputs)) {
      const std::string expression = with_shapes_apart(joint->expression, tensors_, whole, shaped);
      body += assignment("gradients_", "detail::as_list<T>(" + expression + ")", "    ");
    } else {
      for (size_t i = 0; i < variables_.size(); i++) body += gradient_of(i, whole, shaped);
    }

    std::string locals;
    for (const std::string& tensor : whole) {
      saved.push_back(saving(tensor));
      fields.push_back("SavedTensor saved_" + tensor);
      const std::string got =
          is_recorded(kernel_, tensor) ? "pass_.get(saved_" + tensor + ")" : "saved_" + tensor + ".get()";
      locals += "    [[maybe_unused]] decltype(auto) " + tensor + " = " + got + ";\n";
    }
    for (const std::string& tensor : shaped) {
      const bool is_variable = std::find(variables_.begin(), variables_.end(), tensor) != variables_.end();
      saved.push_back(is_optional(kernel_, tensor) ? "(" + value_of(tensor) + ").shape()"
                                                   : tensor + (is_variable ? ".value().shape()" : ".shape()"));
      fields.push_back("Shape " + tensor + "_shape");
    }
    // Scalars, axes and options go along only where an expression names them.
    for (const Parameter& p : parameters_) {
      if (tensors_.count(p.name) != 0 || named_.count(p.name) == 0) continue;
      std::string type = p.type;
      if (type.rfind("const ", 0) == 0) type = type.substr(6);
      if (type.back() == '&') type.pop_back();
      saved.push_back(p.name);
      fields.push_back(type + " " + p.name);
    }
    for (size_t i = 0; i < results_.size(); i++) {
      const std::string& result = results_[i].name;
      const std::string upstream = "pass_.dy(" + std::to_string(i) + ");\n";
      if (named_.count(upstream_or_none_of(result)) != 0) {
        locals += "    const T " + upstream_or_none_of(result) + " = !pass_.has(" + std::to_string(i) +
                  ") ? T() : " + upstream;
      }
      if (named_.count(upstream_of(result)) != 0) {
        locals += "    [[maybe_unused]] const T& " + upstream_of(result) + " = " + upstream;
      }
    }

    out << "namespace {\nstruct " << struct_name() << " {\n";
    for (const std::string& field : fields) out << "  " << field << ";\n";
    out << "  template <class T>\n  std::vector<T> operator()(const Pass<T>& pass_) const {\n"
        << "    [[maybe_unused]] const Needs needs = pass_.needs();\n"
        << locals << "    std::vector<T> gradients_(" << variables_.size() << ");\n"
        << body << "    return gradients_;\n  }\n};\n}  // namespace\n";
  }

  std::string gradient_of(size_t index, std::set<std::string>& whole, std::set<std::string>& shaped) const {
    const std::string& variable = variables_[index];
    const std::string if_needed = "    if (needs(" + std::to_string(index) + ")) ";
    const GradientRule* rule = rule_of(variable);
    if (rule == nullptr) {
      return if_needed + "detail::throw_no_gradient(pass_.operation(), \"its input " + variable + "\");\n";
    }
    if (rule->expression == kZeroGradient) return {};
    std::string expression = with_shapes_apart(rule->expression, tensors_, whole, shaped);
    if (kernel_.descriptor.form->sums_gradients) {
      expression = "sum_to_shape<T>(" + expression + ", " + variable + "_shape)";
      shaped.insert(variable);
    }
    return if_needed + "{\n" + assignment("gradients_[" + std::to_string(index) + "]", expression, "      ") +
           "    }\n";
  }

  const KernelSummary& kernel_;
  std::string name_;
  std::vector<Parameter> parameters_;
  std::vector<ArgumentDescription> results_;
  std::vector<std::string> variables_;  // parameters that are Vars
  std::set<std::string> tensors_;       // they, the other tensors and the results
  std::set<std::string> named_;         // by some gradient
};

}  // namespace

void emit_gradients(const std::string& name, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream header(folder / (name + ".h")), source(folder / (name + ".cpp"));
  std::vector<KernelSummary> summaries;
  for (const KernelEntry& entry : kernels()) {
    KernelSummary kernel = summarize(entry);
    if (has_recording_function(kernel)) summaries.push_back(std::move(kernel));
  }
  std::set<std::string> headers;
  for (const KernelSummary& kernel : summaries) {
    for (const GradientRule& rule : kernel.descriptor.gradients) {
      if (!rule.header.empty()) headers.insert(rule.header);
    }
  }

  header << "// Made by the build from generators/" << name << ".cpp.\n#pragma once\n\n#include \"ashlar/ops/" << name
         << ".h\"\n#include \"autograd/recorded.h\"\n#include \"autograd/var.h\"\n\nnamespace ashlar::ad {\n\n";
  source << "// Made by the build from generators/" << name << ".cpp.\n#include \"ashlar/ad/" << name
         << ".h\"\n\n#include \"ashlar/ad.h\"\n#include \"ashlar/ops.h\"\n#include \"autograd/node.h\"\n"
         << "#include \"autograd/recipes/recipes.h\"\n";
  for (const std::string& included : headers) source << "#include \"" << included << "\"\n";
  source << composed_includes(summaries, ComposedOf::vars);
  source << "\nnamespace ashlar::ad {\n\nusing namespace ashlar::recipes;\n\n";
  std::string recorded;
  for (const KernelSummary& kernel : summaries) {
    const Recording recording(kernel);
    recording.write_declaration(header);
    recording.write(source);
    recording.write_call(source);
    recorded += "    {&kernels::" + recording.name() + ", " + recording.name() + "_call},\n";
  }
  header << "/// All of them, to be called by name.\nstd::span<const RecordedOperator> recorded_in_" << name
         << "();\n\n";
  source << "std::span<const RecordedOperator> recorded_in_" << name << "() {\n";
  if (recorded.empty()) {
    source << "  return {};\n}\n";
  } else {
    source << "  static constexpr RecordedOperator recorded[] = {\n" << recorded << "  };\n  return recorded;\n}\n";
  }
  header << "}  // namespace ashlar::ad\n";
  source << "}  // namespace ashlar::ad\n";
  if (!header || !source) throw std::runtime_error("can't write to " + folder.string());
}

}  // namespace ashlar::dsl
