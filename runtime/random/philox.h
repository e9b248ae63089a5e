// Random numbers by their place in a stream: Philox 4×32-10 (Salmon, Moraes, Dror and Shaw 2011). The same seed gives
// the same numbers on every device, and the state lies on the device, so that replays of a graph go on with new
// numbers.
#pragma once

#include <cstdint>

#include "runtime/launch/kernel.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

namespace kernels {
extern const KernelInfo philox_uniform, philox_advance;
}

/// The state of a stream, at its beginning: i64[2], the seed and the number of blocks (of four numbers) given out.
Tensor philox_state(int64_t seed, Device device = {});

/// f32 numbers of that shape, multiples of 2^-24 in [0, 1), all equally likely, on the state's device. Advances the
/// state by as many blocks as it takes. Throws DTypeError, ShapeError where `state` is no such tensor.
Tensor philox_uniform(const Tensor& state, const Shape& shape);

}  // namespace ashlar
