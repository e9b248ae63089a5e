// The form of attention: queries, keys and values of any strides, [batch, heads, rows, width] as they lie, an optional
// mask, grouped heads.
#pragma once

#include "runtime/launch/form.h"

namespace ashlar::forms {

/// Tensors [batch, heads, rows, width], [batch, rows, width] or [rows, width], all of one rank; keys and values may
/// have fewer heads than queries, which then share them in groups of equal size. Rows are read where they lie if each
/// is dense. `attn_mask` broadcasts to [..., queries, keys]: boolean (true: takes part), or floating and added. With
/// is_causal query q sees keys 0 to q. 16-bit elements are computed in f32. Kernels that drop weights have a state
/// (runtime/random/philox.h) among their inputs and a scalar p in front of scale, from 0 to 1.
struct Attention : FormDefaults {
  static constexpr FormOption options[] = {{"is_causal", FormOption::Kind::boolean, false}};
  static constexpr const char* own[] = {"diagonal", "is_boolean", "first_head", "threshold"};
  /// All scores of a call in memory, in pieces of kMostBytes, or tiles of them that pass by. `causal` is 1 or, where it
  /// is so, 2.
  static constexpr const char* plans[] = {"by_pairs", "by_tiles"};
  static constexpr const char* plan_sizes[] = {"heads", "queries", "keys", "width", "causal"};
  static constexpr FormSignature signature{.name = "attention",
                                           .type = "ashlar::forms::Attention",
                                           .header = "runtime/forms/attention.h",
                                           .options = options,
                                           .own = own,
                                           .scalars_last = true,
                                           .sizes = {"heads", "queries", "keys", "width"},
                                           .plans = plans,
                                           .plan_sizes = plan_sizes};
  /// Of scores, or of weights and slopes, that kernels for GPUs keep at a time: a quarter of it has so few tiles of
  /// long sequences that most of an H100 waits. Buffers of half of it, which OpenCL has from 1 GB of memory on.
  static constexpr int64_t kMostBytes = int64_t{1} << 29;
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
  static CanonicalSizes sizes(std::span<const Tensor> inputs, std::span<const Tensor> outputs);
  static std::vector<std::string> shape_names(const KernelInfo& kernel);
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
  static std::vector<std::vector<int64_t>> check_shapes(const KernelInfo& kernel);
};

}  // namespace ashlar::forms
