// What callers of an operator written by hand may leave out, beside its options.
//
//   register_operator({.name = "batch_norm", .inputs = {{"x"}, …, {"weight"}, {"bias"}}, .scalars = {{"eps"}}, …},
//                     {.optional_inputs = {"weight", "bias"}, .scalars = {{"eps", "1e-5"}}, .scalars_last = true})
#pragma once

#include <map>
#include <string>
#include <vector>

#include "dsl/operator.h"

namespace ashlar::dsl {

struct OperatorDefaults {
  /// Inputs for which the function may get an undefined tensor.
  std::vector<std::string> optional_inputs = {};
  /// Default values of scalars, as C++.
  std::map<std::string, std::string> scalars = {};
  bool scalars_last = false;  ///< as FormSignature::scalars_last
};

bool register_operator(const OperatorDescription& description, const OperatorDefaults& defaults);

}  // namespace ashlar::dsl
