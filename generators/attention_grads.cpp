#include "generators/attention_gradients.h"

namespace ashlar::dsl {

template <ElementType T>
class AttentionGradientsOfBatches : public AttentionGradients<AttentionGradientsOfBatches<T>, T, RowsOfBatches> {};

const bool registered = register_kernel<AttentionGradientsOfBatches, f32>("attention_grads");

}  // namespace ashlar::dsl
