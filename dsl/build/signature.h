// The C++ signature of a kernel's typed function, as its canonical form shapes it.
#pragma once

#include "dsl/build/instances.h"

namespace ashlar::dsl {

struct Parameter {
  std::string type;  ///< "const Tensor&"
  std::string name;
  std::string default_value;  ///< may be empty
  bool is_tensor = false;
};

/// The parameters of the function that users call.
std::vector<Parameter> parameters_of(const KernelSummary& kernel);

/// "void", "Tensor", or the name of a struct that holds several tensors.
std::string result_type(const KernelSummary& kernel);

/// Outputs that are not written over an input.
std::vector<ArgumentDescription> results_of(const KernelSummary& kernel);

/// "input"
const char* role_name(Argument::Role role);

std::vector<ParameterDescription> comptimes_of(const KernelSummary& kernel);
/// "RmsNormActivation": the enum of a comptime parameter.
std::string enum_name(const KernelSummary& kernel, const ParameterDescription& comptime);

std::string join(const std::vector<std::string>& parts, const std::string& separator = ", ");
/// "const Tensor& x, int64_t axis = -1", with or without the default values.
std::string declare(const std::vector<Parameter>& parameters, bool with_defaults);

}  // namespace ashlar::dsl
