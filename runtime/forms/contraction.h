// Form::contraction: strided batched matrices; what follows a product is fused.
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

struct Contraction : FormDefaults {
  static constexpr const char* activations[] = {"none", "relu", "gelu"};
  static constexpr FormOption options[] = {{"transpose_a", FormOption::Kind::boolean, false},
                                           {"transpose_b", FormOption::Kind::boolean, false},
                                           {"activation", FormOption::Kind::choice, 0, "Activation", activations},
                                           {"allow_tf32", FormOption::Kind::boolean, false}};
  static constexpr const char* own[] = {"epilogue"};
  static constexpr const char* plans[] = {"split_k", "at_once", "aligned_operands", "as_they_stand"};
  static constexpr const char* plan_sizes[] = {"m", "n", "k"};
  static constexpr FormSignature signature{.name = "contraction",
                                           .type = "ashlar::forms::Contraction",
                                           .header = "runtime/forms/contraction.h",
                                           .options = options,
                                           .options_type = "MatmulOptions",
                                           .needed_inputs = 2,
                                           .own = own,
                                           .sizes = {"batch", "m", "n", "k"},
                                           .plans = plans,
                                           .plan_sizes = plan_sizes};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
  static CanonicalSizes sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  /// The operands as a layer's forward and backward passes lay them out: a·b, a·bᵀ, aᵀ·b.
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  static std::vector<std::vector<int64_t>> check_shapes(const KernelInfo& kernel);
};

}  // namespace ashlar::forms

namespace ashlar {
inline constexpr const FormSignature& Form::contraction = forms::Contraction::signature;
}
