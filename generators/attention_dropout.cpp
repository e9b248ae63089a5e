// Attention with dropout of its weights: kernels of their own, since each weight takes a random number.
#include "generators/attention.h"
#include "generators/attention_gradient.h"

namespace ashlar::dsl {

template <ElementType T>
class AttentionDropout : public AttentionOfBatches<AttentionDropout<T>, T, Dropout> {};
template <ElementType T>
class AttentionDropoutQueryGradient
    : public AttentionGradient<AttentionDropoutQueryGradient<T>, T, Wanted::query, RowsOfBatches, Dropout> {};
template <ElementType T>
class AttentionDropoutKeyGradient
    : public AttentionGradient<AttentionDropoutKeyGradient<T>, T, Wanted::key, RowsOfBatches, Dropout> {};
template <ElementType T>
class AttentionDropoutValueGradient
    : public AttentionGradient<AttentionDropoutValueGradient<T>, T, Wanted::value, RowsOfBatches, Dropout> {};

const bool registered = register_kernel<AttentionDropout, f32>("attention_dropout_at") &&
                        register_kernel<AttentionDropoutQueryGradient, f32>("attention_dropout_query_grad") &&
                        register_kernel<AttentionDropoutKeyGradient, f32>("attention_dropout_key_grad") &&
                        register_kernel<AttentionDropoutValueGradient, f32>("attention_dropout_value_grad");

}  // namespace ashlar::dsl
