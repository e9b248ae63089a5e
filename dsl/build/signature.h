// The C++ signature of a kernel's typed function, as its canonical form shapes it.
#pragma once

#include "dsl/build/instances.h"

namespace ashlar::dsl {

struct Parameter {
  /// `options` is the struct that holds all options.
  enum class Kind : uint8_t { tensor, scalar, comptime, option, options, device };
  std::string type;  ///< "const Tensor&"
  std::string name;
  std::string default_value;  ///< may be empty
  bool is_tensor = false;
  Kind kind = Kind::tensor;
};

/// The parameters of the function that users call.
std::vector<Parameter> parameters_of(const KernelSummary& kernel);

/// Whether a call may leave this input out, as a contraction's bias.
bool is_optional(const KernelSummary& kernel, const std::string& input);

/// An option's type in C++, "const Axes&", and its default value.
std::string type_of(const KernelSummary& kernel, const FormOption& option);
std::string default_of(const KernelSummary& kernel, const FormOption& option);
/// Its value in C++, of the index-th option of `call`, a FormCall.
std::string from_call(const KernelSummary& kernel, const FormOption& option, size_t index);

/// "void", "Tensor", or the name of a struct that holds several tensors.
std::string result_type(const KernelSummary& kernel);

/// Outputs that are not written over an input.
std::vector<ArgumentDescription> results_of(const KernelSummary& kernel);

/// "input"
const char* role_name(Argument::Role role);

std::vector<ParameterDescription> comptimes_of(const KernelSummary& kernel);
/// "RmsNormActivation": the enum of a comptime parameter.
std::string enum_name(const KernelSummary& kernel, const ParameterDescription& comptime);

/// Of operators composed of others (OperatorDescription::composed): what a file of theirs includes, none where there
/// are none, and the body of such a function, of Tensors or of Vars.
enum class ComposedOf : uint8_t { tensors, vars };
std::string composed_includes(const std::vector<KernelSummary>& kernels, ComposedOf what);
std::string composed_body(const KernelSummary& kernel, const std::vector<Parameter>& parameters);

std::string join(const std::vector<std::string>& parts, const std::string& separator = ", ");
/// "const Tensor& x, int64_t axis = -1", with or without the default values.
std::string declare(const std::vector<Parameter>& parameters, bool with_defaults);

}  // namespace ashlar::dsl
