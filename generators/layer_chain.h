// What the kernel of small layers and the operator that calls it agree on.
#pragma once

#include <cstdint>

namespace ashlar {

/// In the order of the operator's option.
enum class ChainActivation : uint8_t { relu, tanh, gelu, sigmoid, silu };

/// A block's rows and columns of the last layer; and the most units of a layer between, which it keeps.
inline constexpr int kChainRows = 4, kChainColumns = 64, kMostChainUnits = 512;

}  // namespace ashlar
