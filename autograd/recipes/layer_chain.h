// Gradients of small layers one after the other: those of the layers, each a product.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// layer_chain's {dx, dweight1, dbias1, dweight2, dbias2, dweight3, dbias3}; `activation` is a ChainActivation
/// (generators/layer_chain.h). What the layers gave to each other is worked out again.
template <class T>
std::vector<T> layer_chain_grad(const T& dy, const T& x, const T& weight1, const T& bias1, const T& weight2,
                                const T& bias2, const T& weight3, const T& bias3, int activation, bool activate_last,
                                Needs needs);

}  // namespace ashlar::recipes
