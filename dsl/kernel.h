// Kernel: the base class of every kernel, and its registration. A kernel file includes this and a schedule family.
//
//   template <ElementType T>
//   class Scale : public Kernel<Scale<T>> {
//    public:
//     In<T, 1> x{"x"};
//     Scalar<float> factor{"factor"};
//     Out<T, 1> y{"y", shape_of(x)};
//     Scale() { this->formula("y[i] = factor x[i]").gradient("x", "scale(dy, factor)"); }
//     void algorithm() { y(i) = x(i) * factor; }
//     void schedule(auto target) { elementwise(target, y.func(), i); }
//    private:
//     Var i{"i"};
//   };
//   const bool registered = register_kernel<Scale, f32, f16, bf16>("scale");
#pragma once

#include "dsl/algorithm_checks.h"
#include "dsl/arguments.h"
#include "dsl/checks.h"
#include "dsl/functions.h"
#include "dsl/operator.h"
#include "dsl/plans.h"
#include "dsl/prefetch.h"
#include "dsl/registry.h"
#include "dsl/tunable.h"
#include "dsl/warp_shuffles.h"

namespace ashlar::dsl {

using Halide::Var;

// What schedule(target) is called with. A family has one overload for each.
struct Cpu {};
struct OpenCL {};
struct Cuda {};

template <class K>
concept HasAlgorithm = requires(K& kernel) {
  kernel.algorithm();
};
template <class K, class Target>
concept HasSchedule = requires(K& kernel, Target target) {
  kernel.schedule(target);
};

/// A kernel with `static constexpr bool on_cpu_alone = true;` has no instances on GPUs: what operators written by hand
/// call where the CPU wants other passes than a GPU.
template <class K>
concept OnCpuAlone = requires {
  requires K::on_cpu_alone;
};

/// The other way round: GPUs alone have instances of a kernel with `static constexpr bool on_gpus_alone = true;`.
template <class K>
concept OnGpusAlone = requires {
  requires K::on_gpus_alone;
};

/// CRTP base of a kernel class: `Derived` has algorithm() and schedule(target) for Cpu, OpenCL and Cuda.
template <class Derived>
class Kernel : public DescribedKernel, public Halide::Generator<Derived> {
 public:
  /// Only there because Halide::Generator insists on one; build_pipeline below calls the two halves itself.
  void generate() {}

  Descriptor& descriptor() override { return descriptor_; }
  Halide::Internal::AbstractGenerator& generator() override { return *this; }

  // ---- what a kernel's constructor says about it ---------------------------------------------------------------
  /// One line of mathematics, shown in headers, errors and the reference page.
  Kernel& formula(std::string text) {
    descriptor_.formula = std::move(text);
    return *this;
  }
  /// How public calls become calls of this kernel: Form::rows, or the signature of a form of your own.
  Kernel& form(const FormSignature& form) {
    descriptor_.form = &form;
    return *this;
  }
  /// No typed function: the runtime, or an operator written by hand, calls this kernel.
  Kernel& internal() {
    descriptor_.is_internal = true;
    return *this;
  }
  /// The gradient of one input, a C++ expression over tensors named as the arguments and outputs, over `dy` (dL/dy; for
  /// an output called z it is `dz`) and over every operator of the library, or a call of a function that `header`
  /// declares. Whatever tensors it names are saved; `x.shape()` saves only the shape. Outputs whose d<output> no
  /// gradient names require none, where there are several; where nothing came back to z, `dz` is zeros and `dz_or_none`
  /// undefined. kZeroGradient: 0 wherever there is a derivative. To be differentiated twice, a function has to be there
  /// for Vars as for Tensors: a template, or two overloads.
  Kernel& gradient(std::string input, std::string expression, std::string header = {}) {
    descriptor_.gradients.push_back({std::move(input), std::move(expression), std::move(header)});
    return *this;
  }
  /// That tensor is saved for the gradients only where `condition` holds, a C++ expression over the parameters of the
  /// call; else they are given an undefined one.
  Kernel& saved_when(std::string tensor, std::string condition) {
    descriptor_.saved_when.push_back({std::move(tensor), std::move(condition)});
    return *this;
  }
  /// What a reduction over no elements is. Without this it is a ShapeError.
  Kernel& of_none(OfNone result) {
    descriptor_.of_none = result;
    return *this;
  }
  /// What a reduction over one element is, so that there is nothing to compute.
  Kernel& of_one(OfOne result) {
    descriptor_.of_one = result;
    return *this;
  }
  /// A vendor library's routine that computes the same on some device: the name of an object in
  /// runtime/vendor/vendor.h.
  Kernel& vendor(std::string routine) {
    descriptor_.vendor = std::move(routine);
    return *this;
  }
  /// The widest code that this kernel is compiled to on the CPU, also for processors that run wider code: for what
  /// memory or calls limit, so that programs don't carry code without a use.
  Kernel& widest_on_cpu(CodeTarget widest) {
    descriptor_.widest_on_cpu = widest;
    return *this;
  }
  /// A reduction whose parts can't be reduced by itself: the kernels (of the same file, internal()) that reduce to
  /// parts and then the parts to the result.
  Kernel& passes(std::string parts, std::string last) {
    descriptor_.parts_kernel = std::move(parts);
    descriptor_.last_kernel = std::move(last);
    return *this;
  }
  /// Of these, what does the last one's work where the parts leave a few terms, and these terms'.
  Kernel& last_with_rest(std::string last) {
    descriptor_.last_with_rest_kernel = std::move(last);
    return *this;
  }
  /// Floating-point operations of one call, a C++ expression over `shapes` (inputs, then outputs).
  Kernel& flops(std::string expression) {
    descriptor_.flops = std::move(expression);
    return *this;
  }

 protected:
  Kernel() {
    Descriptor::current = &descriptor_;
    descriptor_.kernel = NamedKernel::current();
    descriptor_.on_cpu_alone = OnCpuAlone<Derived>;
    descriptor_.on_gpus_alone = OnGpusAlone<Derived>;
  }

  // A derived schedule(auto) hides Halide's schedule(), which then finds none and compiles the kernel unscheduled
  // without a word. So neither half is left to Halide.
  Halide::Pipeline build_pipeline() override {
    static_assert(HasAlgorithm<Derived>, "a kernel class needs `void algorithm()`: the mathematics, without a device");
    static_assert(HasSchedule<Derived, Cpu>, "a kernel class needs schedule(Cpu), or `void schedule(auto target)`");
    static_assert(OnCpuAlone<Derived> || HasSchedule<Derived, OpenCL>,
                  "a kernel class needs schedule(OpenCL), or `void schedule(auto target)`");
    static_assert(OnCpuAlone<Derived> || HasSchedule<Derived, Cuda>,
                  "a kernel class needs schedule(Cuda), or `void schedule(auto target)`");
    const NamedKernel named(descriptor_.kernel);
    try {
      return define_and_schedule(*static_cast<Derived*>(this));
    } catch (const Halide::CompileError& error) {
      tell_with_kernel(error.what());
    }
  }

 private:
  Halide::Pipeline define_and_schedule(Derived& kernel) {
    const Halide::Target target = this->get_target();
    Descriptor::current = &descriptor_;
    Descriptor::target = target;
    this->ensure_configure_has_been_called();
    check_parameters();
    this->pre_generate();
    kernel.algorithm();
    check_defined(descriptor_);
    this->post_generate();
    this->pre_schedule();
    for (const auto& constrain : descriptor_.constraints) constrain();
    Halide::Pipeline pipeline = this->get_pipeline();
    check_maxima(pipeline.outputs(), descriptor_.maxima_of_numbers);
    check_indices(pipeline.outputs());
    check_tuple_updates(pipeline.outputs());
    if constexpr (OnCpuAlone<Derived>) {
      kernel.schedule(Cpu{});
    } else if (target.has_feature(Halide::Target::CUDA)) {
      kernel.schedule(Cuda{});
    } else if (target.has_feature(Halide::Target::OpenCL)) {
      kernel.schedule(OpenCL{});
    } else {
      kernel.schedule(Cpu{});
    }
    this->post_schedule();
    check_scheduled(pipeline.outputs(), target);
    check_reductions_placed(pipeline.outputs());
    drop_size_product_checks(pipeline);
    if (!target.has_gpu_feature()) descriptor_.lowering_passes.push_back(prefetches_into_all_caches());
    if (target.has_feature(Halide::Target::CUDA)) descriptor_.lowering_passes.push_back(rotations_by_one_shuffle());
    if (descriptor_.last_lowering_pass) descriptor_.lowering_passes.push_back(descriptor_.last_lowering_pass);
    for (const auto& pass : descriptor_.lowering_passes) pipeline.add_custom_lowering_pass(pass.get(), [pass] {});
    return pipeline;
  }

  void check_parameters() {
    for (const ParameterDescription& parameter : descriptor_.parameters) {
      const std::string value = parameter.current();
      if (std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end()) continue;
      std::string allowed;
      for (const std::string& text : parameter.values) allowed += (allowed.empty() ? "" : ", ") + text;
      mistake(parameter.name + " = " + value + " is not among its values (" + allowed + ")");
    }
  }
  Descriptor descriptor_;
};

// ---- registration
// ----------------------------------------------------------------------------------------------------

namespace detail {
template <class K, class... Bind>
Instance make_instance(std::vector<DType> elements, Bind... bind) {
  return {elements, [elements, bind...](const Halide::GeneratorContext& context) -> std::unique_ptr<DescribedKernel> {
            std::unique_ptr<K> kernel = K::create(context);
            kernel->descriptor().elements = elements;
            (bind(*kernel), ...);
            return kernel;
          }};
}
}  // namespace detail

/// Registers a kernel class for each element type. Returns true, so that a namespace-scope constant can call it.
template <template <class> class K, ElementType... T>
bool register_kernel(const std::string& name) {
  return add_kernel({name, {detail::make_instance<K<T>>({Element<T>::dtype})...}});
}

/// A pair of element types, for kernels with two.
template <ElementType A, ElementType B>
struct Pair {};

namespace detail {
template <template <class, class> class K, class P>
struct PairInstance;
template <template <class, class> class K, class A, class B>
struct PairInstance<K, Pair<A, B>> {
  static Instance make() { return make_instance<K<A, B>>({Element<A>::dtype, Element<B>::dtype}); }
};
}  // namespace detail

/// The same for a kernel class with two element types.
template <template <class, class> class K, class... Pairs>
bool register_kernel_pairs(const std::string& name) {
  return add_kernel({name, {detail::PairInstance<K, Pairs>::make()...}});
}

/// Registers kernels that share one class and differ in a value, such as the operator of an element-wise function:
/// `bind(kernel)` is called on every new instance. One class for twenty operators compiles five times quicker.
template <template <class> class K, ElementType... T, class Bind>
bool register_bound_kernel(const std::string& name, Bind bind) {
  return add_kernel({name, {detail::make_instance<K<T>>({Element<T>::dtype}, bind)...}});
}

}  // namespace ashlar::dsl
