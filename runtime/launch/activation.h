// What may be done to sums before they are stored.
#pragma once

#include <cstdint>

namespace ashlar {

enum class Activation : uint8_t { none, relu, gelu };

}  // namespace ashlar
