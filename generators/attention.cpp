#include "generators/attention.h"
#include "generators/attention_gradient.h"
#include "generators/attention_pairs.h"

namespace ashlar::dsl {

template <ElementType T>
class Attention : public AttentionOfBatches<Attention<T>, T, NoDropout> {
 public:
  Attention() { this->passes("attention_by_pairs", "attention_by_pairs"); }
};
template <ElementType T>
class AttentionQueryGradient : public AttentionGradient<AttentionQueryGradient<T>, T, Wanted::query, RowsOfBatches> {};
template <ElementType T>
class AttentionKeyGradient : public AttentionGradient<AttentionKeyGradient<T>, T, Wanted::key, RowsOfBatches> {};
template <ElementType T>
class AttentionValueGradient : public AttentionGradient<AttentionValueGradient<T>, T, Wanted::value, RowsOfBatches> {};

const bool registered = register_kernel<Attention, f32>("scaled_dot_product_attention") &&
                        register_kernel<AttentionByPairs, f32>("attention_by_pairs") &&
                        register_kernel<AttentionQueryGradient, f32>("attention_query_grad") &&
                        register_kernel<AttentionKeyGradient, f32>("attention_key_grad") &&
                        register_kernel<AttentionValueGradient, f32>("attention_value_grad");

}  // namespace ashlar::dsl
