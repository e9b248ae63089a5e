// What a form is: how a public call on tensors of any rank and stride becomes calls of a kernel that was compiled for a
// few. A form is a class of static members in a file of its own (runtime/forms/rows.h); both halves read it: the build
// its signature, to write typed functions, and the runtime, tools and tests the rest, by KernelInfo::form.
//
// docs/how-to/add-a-form.md has a complete one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/launch/kernel.h"

namespace ashlar {

class Tensor;
struct Scalar;

/// A parameter of a form's functions beside the tensors, scalars and comptime values of the kernel.
struct FormOption {
  enum class Kind : uint8_t { boolean, integer, integers, choice };
  const char* name;
  Kind kind;
  int64_t default_value = 0;                  ///< boolean, integer, or the index of a choice; integers are none
  const char* type = "";                      ///< of a choice: the C++ enum, whose values count from 0
  std::span<const char* const> choices = {};  ///< their names
};

/// What the build has to know of a form to write its kernels' typed functions. The parameters are the kernel's inputs,
/// its scalars, an enum for each of its comptime values, and the options.
struct FormSignature {
  const char* name;    ///< "rows"
  const char* type;    ///< the class in C++, "ashlar::forms::Rows"
  const char* header;  ///< what declares it, as generated code includes it
  std::span<const FormOption> options = {};
  /// Where it isn't empty, the options are members of this struct, which the header declares, and come as one
  /// parameter.
  const char* options_type = "";
  /// Inputs beyond these may be left out; they come behind the options. -1: all are needed.
  int needed_inputs = -1;
  /// Scalars and comptime values that the form itself gives to its kernels: no parameters.
  std::span<const char* const> own = {};
  /// The kernel's scalars come after the options, as PyTorch's reductions have them.
  bool scalars_last = false;
  /// Inputs are broadcast against each other: a gradient is summed to its input's shape.
  bool sums_gradients = false;
  /// What tells two calls apart for a tuner: sizes of the canonical shapes.
  std::array<const char*, kMostSizes> sizes{"elements"};
  /// The ways among which the form, or an operator written by hand, chooses before it calls kernels (choose_plan()),
  /// and the sizes by which tables know such a call; no more than kMostSizes.
  std::span<const char* const> plans = {};
  std::span<const char* const> plan_sizes = {};

  constexpr bool owns(std::string_view name) const {
    for (const char* one : own) {
      if (name == one) return true;
    }
    return false;
  }
  constexpr int size_count() const {
    int count = 0;
    for (const char* size : sizes) count += size != nullptr;
    return count;
  }
};

/// Whether an argument is a scalar that callers give: neither the form's own, nor whether an optional input is there.
/// For the tables' Argument and for the build's ArgumentDescription.
template <class A>
bool is_callers_scalar(const FormSignature& form, const A& argument) {
  return argument.role == Argument::Role::scalar && !form.owns(argument.name) && argument.given_of < 0;
}

/// boolean, integer or choice; or integers.
using OptionValue = std::variant<int64_t, Shape>;

/// A public call. Inputs that may be left out can be missing at the end, or undefined.
struct FormCall {
  std::span<const Tensor> inputs;
  std::span<const Scalar> scalars = {};
  std::span<const OptionValue> options = {};  ///< as many as the signature has, in its order
  uint16_t variant = 0;                       ///< KernelKey::variant, 0 in the digits of what is the form's own
  /// Of a call without inputs, where it runs; and of elements that no input has, the dtypes.
  Device device = Device::cpu();
  std::array<DType, 2> elements{DType::f32, DType::f32};

  int64_t integer(size_t option) const { return std::get<int64_t>(options[option]); }
  const Shape& integers(size_t option) const { return std::get<Shape>(options[option]); }
};

/// A call to time or to check: the shapes of its inputs, and options.
struct FormSample {
  std::vector<Shape> inputs;
  std::vector<OptionValue> options;
};

using CanonicalSizes = std::array<int64_t, kMostSizes>;

/// A form at run time: the static members of its class.
struct Form {
  const FormSignature& signature;
  /// The outputs in the order of declaration; one that is written over an input is that input. Throws as its typed
  /// functions say.
  std::vector<Tensor> (*call)(const KernelInfo& kernel, const FormCall& call);
  /// The sizes of a canonical call (tensors as launch() has them), in the order of FormSignature::sizes; the rest 1.
  CanonicalSizes (*sizes)(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  /// What a shape to be timed consists of: {"outer", "reduced", "inner"}.
  std::vector<std::string> (*shape_names)(const KernelInfo& kernel);
  /// Calls at such a shape: one, or one for each layout that matters. None where the kernel's rule accepts no inputs.
  std::vector<FormSample> (*samples)(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  /// Shapes beside those to be timed at which a tuner's candidates are compared with the CPU's results: odd ones,
  /// around the edges of tiles, each small.
  std::vector<std::vector<int64_t>> (*check_shapes)(const KernelInfo& kernel);

  /// The library's own, by which kernels name them: this->form(Form::rows).
  static const FormSignature &plain, &pointwise, &broadcast, &rows, &reduction, &contraction, &movement;
};

/// What most forms have in common, to derive a form's class from: one size, the elements of the first output; samples
/// whose inputs are vectors of that many elements.
struct FormDefaults {
  static CanonicalSizes sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static std::vector<std::string> shape_names(const KernelInfo& kernel);
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  static std::vector<std::vector<int64_t>> check_shapes(const KernelInfo& kernel);
  /// Every option at its default.
  static std::vector<OptionValue> default_options(const FormSignature& signature);
};

/// The form of a class.
template <class F>
inline constexpr Form form_of{F::signature, F::call, F::sizes, F::shape_names, F::samples, F::check_shapes};

}  // namespace ashlar
