// The activation of a chain of layers.
#pragma once

#include "ashlar/ops/activations.h"
#include "ashlar/ops/unary.h"
#include "generators/layer_chain.h"
#include "operators/composed/values.h"

namespace ashlar::composed {

template <class T>
T activated(ChainActivation f, const T& x) {
  switch (f) {
    case ChainActivation::relu:
      return relu(x);
    case ChainActivation::tanh:
      return tanh(x);
    case ChainActivation::gelu:
      return gelu(x);
    case ChainActivation::sigmoid:
      return sigmoid(x);
    default:
      return silu(x);
  }
}

}  // namespace ashlar::composed
