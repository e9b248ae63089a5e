// Operators written by hand: a public C++ function that calls kernels (several passes, an algorithm chosen by size, a
// vendor's routine). It is declared here beside its kernels and defined in a C++ file of its own, which
// ashlar_add_kernels() compiles as one of its OPERATORS; from the declaration the build writes the function's header,
// its differentiable version and its entry in the list of all operators.
//
//   const bool registered = register_kernel<Count, f32>("nonzero_count") && … &&
//                           register_operator({.name = "nonzero",
//                                              .formula = "nonzero(x)[j] = index of the j-th x that isn't 0",
//                                              .dtypes = {DType::f32},
//                                              .inputs = {{"x"}},
//                                              .outputs = {{"indices", DType::i64}},
//                                              .calls = {"nonzero_count", "nonzero_locate"}});
//
// One that calls nothing but other operators is composed: its text is a template that Tensors and Vars share, in a
// header that `composed` names, and the build writes both functions (docs/how-to/add-a-form.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/registry.h"

namespace ashlar::dsl {

/// A tensor of any rank.
struct OperatorTensor {
  std::string name;
  std::optional<DType> dtype = {};  ///< where it isn't the call's element type
  bool is_optional = false;         ///< an input that callers may leave out, as all behind it: it is undefined then
  bool is_of_any_dtype = false;     ///< an input of whatever dtype: the function says what it makes of it
};

struct OperatorScalar {
  std::string name;
  DType dtype = DType::f32;        ///< a floating type is a double of the function's, an integer an int64_t
  std::string default_value = {};  ///< C++
};

/// A parameter with a default value. One with choices becomes an enum of the operator's and the option's name.
struct OperatorOption {
  std::string name;
  FormOption::Kind kind = FormOption::Kind::integer;
  int64_t default_value = 0;  ///< as in FormOption
  std::vector<std::string> choices = {};
};

struct OperatorDescription {
  std::string name;
  std::string formula;        ///< one line of mathematics
  std::vector<DType> dtypes;  ///< element types that it is for
  std::vector<OperatorTensor> inputs;
  std::vector<OperatorScalar> scalars = {};
  std::vector<OperatorOption> options = {};
  bool scalars_last = false;   ///< as FormSignature::scalars_last
  bool optional_last = false;  ///< inputs that may be left out come behind the options
  std::vector<OperatorTensor> outputs;
  std::vector<std::string> calls{};  ///< kernels of whatever file; the operator is there where all of them are
  /// As Kernel::gradient() and saved_when().
  std::vector<GradientRule> gradients = {};
  std::vector<SavedWhen> saved_when = {};
  std::string flops = {};   ///< as Kernel::flops()
  std::string vendor = {};  ///< as Kernel::vendor(): for the function to ask
  /// Among which the function chooses by choose_plan(), and the sizes of a call by which tables know it.
  std::vector<std::string> plans = {}, plan_sizes = {};
  /// Of an operator with one output that is composed of others: the header that defines ashlar::composed::NAME, a
  /// template with the function's parameters, `const T&` in place of each tensor that may be floating. It states no
  /// gradients: on Vars it is recorded, and differentiated, by its parts.
  std::string composed = {};
  /// What declares the parts of it that are no operators, as functions of Vars; their functions of Tensors the text's
  /// own header includes.
  std::string recorded_parts = {};
};

/// Adds one. Returns true, so that a namespace-scope constant can call it.
bool register_operator(const OperatorDescription& description);

}  // namespace ashlar::dsl
