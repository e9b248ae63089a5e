// A call of any operator by its name: its inputs and options, found in the operator's descriptor once, called as often
// as wanted.
#pragma once

#include <array>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "c/ashlar.h"
#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::c {

/// Those that are their users' to call, by name.
const std::vector<const KernelInfo*>& operators();

/// Throws ValueError, on behalf of `operation`, where there is none of that name.
const KernelInfo& operator_of(const char* operation, const char* name);

/// An operator's inputs, outputs, or the scalars that its callers give.
std::vector<const Argument*> arguments_of(const KernelInfo& kernel, Argument::Role role);

/// Whether the input may be left out.
bool is_optional(const KernelInfo& kernel, size_t input);

/// A call's arguments, put where its form looks for them.
class Call {
 public:
  /// Throws ValueError where these aren't what the operator takes. Keeps the tensors, nothing else of the caller's.
  Call(const KernelInfo& kernel, const AshlarTensor* const* inputs, size_t input_count, const AshlarOption* options,
       size_t option_count);

  const std::vector<Tensor>& inputs() const { return inputs_; }
  FormCall form_call() const { return {inputs_, scalars_, options_, variant_, device_, elements_}; }
  /// The outputs, in the order of the operator's description. Throws what the operator throws.
  std::vector<Tensor> run() const { return kernel_.form->call(kernel_, form_call()); }

 private:
  void take(const AshlarOption& option);
  void check_kind(const AshlarOption& option, AshlarOptionKind needed) const;
  bool take_scalar(const AshlarOption& option);
  int64_t choice(const AshlarOption& option, std::span<const char* const> choices) const;
  bool take_comptime(const AshlarOption& option);
  bool take_form_option(const AshlarOption& option);
  bool take_input(const AshlarOption& option);
  /// Where an operator without inputs runs.
  bool take_place(const AshlarOption& option);

  const KernelInfo& kernel_;
  std::vector<Tensor> inputs_;
  std::vector<Scalar> scalars_;
  std::vector<OptionValue> options_;
  std::set<std::string> given_;
  uint16_t variant_ = 0;
  Device device_;
  std::array<DType, 2> elements_{DType::f32, DType::f32};
};

}  // namespace ashlar::c
