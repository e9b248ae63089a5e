// Gradients of attention that keep weights and slopes, in batches.
#include "generators/attention_pair_gradients.h"

namespace ashlar::dsl {

template <ElementType T>
class GradientsOfBatches : public AttentionPairGradients<GradientsOfBatches<T>, T, PairsOfBatches> {};

const bool registered = register_kernel<GradientsOfBatches, f32>("attention_pair_grads");

}  // namespace ashlar::dsl
