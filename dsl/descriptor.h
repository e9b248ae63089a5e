// A kernel's description of itself, filled in by its members' constructors and read by the generators' main.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dsl/merge.h"
#include "dsl/value.h"
#include "runtime/forms/library.h"
#include "runtime/launch/kernel.h"

namespace ashlar::dsl {

/// What a Dim stands for, once the first input that names it is declared.
struct NamedDim;

/// A symbolic size: as text of the generated C++ ("in[0][1]") and as an expression of the compiled kernel.
struct Size {
  std::string text;
  std::function<Expr()> expr;
  std::shared_ptr<NamedDim> dim = {};  ///< whose size it is, if anybody named it
  bool is_free() const { return text.empty(); }
};
struct NamedDim {
  std::string name;
  Size size;  ///< free until an input names it
};
inline void check_operands(const Size& a, const Size& b) {
  for (const Size* size : {&a, &b}) {
    if (!size->is_free()) continue;
    const std::string what =
        size->dim == nullptr ? "any_size" : "the axis " + size->dim->name + ", which no input has yet";
    mistake("a size is worked out from " + what + ": declare an input that has it first");
  }
}
inline Size operator+(const Size& a, const Size& b) {
  check_operands(a, b);
  return {"(" + a.text + " + " + b.text + ")", [a, b] { return a.expr() + b.expr(); }};
}
inline Size operator*(const Size& a, const Size& b) {
  check_operands(a, b);
  return {"(" + a.text + " * " + b.text + ")", [a, b] { return a.expr() * b.expr(); }};
}
inline Size operator/(const Size& a, const Size& b) {
  check_operands(a, b);
  return {"(" + a.text + " / " + b.text + ")", [a, b] { return a.expr() / b.expr(); }};
}
inline Size constant(int value) {
  return {std::to_string(value), [value] { return Expr(value); }};
}
/// A size that the caller chooses.
inline const Size any_size{};

/// The sizes of a tensor, outermost first.
using Sizes = std::vector<Size>;

struct ArgumentDescription {
  std::string name;
  Argument::Role role;
  DType dtype;
  int element;  ///< index into the kernel's element types, -1 for a fixed dtype; kAnyElement
  int rank;
  Sizes sizes = {};      ///< empty: unconstrained
  int in_place_of = -1;  ///< index among the inputs
  bool is_strided = false;
  bool is_optional = false;        ///< an input that the caller may leave out
  int given_of = -1;               ///< a scalar that says whether that input was given, and isn't the caller's
  std::string default_value = {};  ///< a scalar's, as C++; empty: the caller says it
};

/// Where a tunable means something: elsewhere the tuner leaves it at its default.
enum class On : uint8_t { everywhere, cpu, opencl, cuda, gpu };

struct ParameterDescription {
  std::string name;
  std::vector<std::string> values;  ///< the first is the default
  bool is_comptime;                 ///< changes what is computed; a tunable changes only how fast
  std::function<std::string()> current;
  On on = On::everywhere;
};

/// One way of several to compute a kernel (dsl/plans.h). Expressions over the fields of arguments' buffers: extents,
/// strides, the min behind an input's last dimension.
struct PlanDescription {
  std::string name;
  Expr applies = {};       ///< the calls it can serve; undefined: all
  Expr preferred = {};     ///< those of them that it is for, by the order of the plans; undefined: all
  Expr microseconds = {};  ///< the model: what a call takes on the device (device_multiprocessors() …); undefined: none
  std::vector<std::string> tunables = {};  ///< those that it reads: the tuner leaves the others at their defaults
};

/// What every setting worth trying fulfils, as a sentence and as a test of the tunables' present values.
struct SpaceRule {
  std::string text;
  std::function<bool()> holds;
};

/// The gradient of one input as a C++ expression over the kernel's arguments, its outputs and their gradients, called
/// d<output>; for kAllInputs, an expression that gives the list of all of them (`needs(i)` tells which are wanted), or
/// a call of a kernel whose outputs they are. kZeroGradient: the derivative is 0 wherever there is one.
inline constexpr const char* kAllInputs = "*";
inline constexpr const char* kZeroGradient = "0";
struct GradientRule {
  std::string input;
  std::string expression;
  std::string header = {};  ///< declares the functions that the expression calls, where they are no operators
};

/// A tensor that the gradients name but need in some calls only: `condition` is C++ over the forward call's parameters.
struct SavedWhen {
  std::string tensor;
  std::string condition;
};

/// An output or scratch, and whether algorithm() has given it a value.
struct DefinedTensor {
  std::string name;
  std::function<Halide::Func()> func;
  bool is_defined() const { return func().defined(); }
};

struct Descriptor {
  std::string kernel;  ///< the name it is registered by
  std::string formula;
  const FormSignature* form = &Form::plain;
  bool is_internal = false;  ///< KernelInfo::is_internal
  std::vector<DType> elements;
  std::vector<ArgumentDescription> arguments;
  std::vector<ParameterDescription> parameters;
  std::vector<SpaceRule> space_rules;
  bool has_plans = false;  ///< it is a kernel that declares plans, once its algorithm is defined
  std::vector<PlanDescription> plans;
  std::vector<GradientRule> gradients;
  std::vector<SavedWhen> saved_when;
  OfNone of_none = OfNone::refused;                              ///< KernelInfo::of_none
  OfOne of_one = OfOne::computed;                                ///< KernelInfo::of_one
  std::string parts_kernel, last_kernel, last_with_rest_kernel;  ///< KernelInfo::parts, ::last and ::last_with_rest
  std::vector<std::string> calls;                                ///< KernelInfo::calls
  std::string composed, recorded_parts;                          ///< OperatorDescription::composed and ::recorded_parts
  CodeTarget widest_on_cpu = CodeTarget::cpu_avx512;
  bool on_cpu_alone = false;                       ///< GPUs have no instances of it
  bool on_gpus_alone = false;                      ///< the CPU has none
  std::string vendor;                              ///< an object of ashlar::vendor, or none
  std::string flops;                               ///< C++ expression over `shapes`, e.g. "2.0 * shapes[0].numel()"
  std::vector<std::function<void()>> constraints;  ///< applied to inputs and outputs once the algorithm is defined
  std::vector<DefinedTensor> definitions;
  std::set<std::string> maxima_of_numbers;  ///< stages whose author lets a maximum drop NaN
  std::map<std::string, Merging> merges;    ///< stages that are reduced by a merge of their author's
  std::map<std::string, Scanning> scans;    ///< stages that are scans
  /// What schedules asked for beyond Halide's own lowering (schedules/lowering), in the order of its application.
  std::vector<std::shared_ptr<Halide::Internal::IRMutator>> lowering_passes;
  std::shared_ptr<Halide::Internal::IRMutator> last_lowering_pass;  ///< the build's own, behind them; or none

  int element_index(DType dtype) const {
    for (size_t i = 0; i < elements.size(); i++) {
      if (elements[i] == dtype) return static_cast<int>(i);
    }
    return -1;
  }
  int input_index(const std::string& name) const {
    int index = 0;
    for (const ArgumentDescription& a : arguments) {
      if (a.role != Argument::Role::input) continue;
      if (a.name == name) return index;
      index++;
    }
    return -1;
  }

  /// The kernel under construction on this thread: members report to it.
  static inline thread_local Descriptor* current = nullptr;
  /// The target it is being built for.
  static inline thread_local Halide::Target target;
};

/// Whether the kernel under construction is being built for a GPU.
inline bool on_gpu() { return Descriptor::target.has_gpu_feature(); }

}  // namespace ashlar::dsl
