// Random numbers by their place in a stream: Philox 4×32-10 (Salmon, Moraes, Dror and Shaw 2011). The same seed gives
// the same numbers on every device, and the state lies on the device, so that replays of a graph go on with new
// numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/launch/kernel.h"
#include "runtime/launch/launch.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

namespace kernels {
extern const KernelInfo philox_uniform, philox_advance;
}

/// The state of a stream, at its beginning: i64[2], the seed and the number of blocks (of four numbers) given out.
Tensor philox_state(int64_t seed, Device device = {});

/// Goes on by so many blocks, in place. Throws ValueError, DTypeError, ShapeError where `state` is no such tensor.
void philox_advance(const Tensor& state, int64_t blocks);

/// While one lives, it keeps a copy of each state that this thread advances, as it was before: to draw the same numbers
/// again.
class RandomStates {
 public:
  struct Kept {
    Tensor state, before;
  };
  RandomStates();
  ~RandomStates();
  RandomStates(const RandomStates&) = delete;
  RandomStates& operator=(const RandomStates&) = delete;
  const std::vector<Kept>& kept() const { return kept_; }

 private:
  friend void philox_advance(const Tensor& state, int64_t blocks);
  void note(const Tensor& state);
  std::vector<Kept> kept_;
  RandomStates* outer_;
};

/// f32 numbers of that shape in [low, high), low plus multiples of 2^-24 of the range, all equally likely, on the
/// state's device. Advances the state by as many blocks as it takes. Throws DTypeError, ShapeError where `state` is no
/// such tensor, ValueError unless low < high and both are finite.
Tensor philox_uniform(const Tensor& state, const Shape& shape, double low = 0, double high = 1);

/// Numbers of that shape by `kernel`, which takes the state, the first block and `parameters` and makes `per_block` of
/// each block. Advances the state. For distributions. `operation` is who asks.
Tensor philox_draw(const char* operation, const KernelInfo& kernel, const Tensor& state, const Shape& shape,
                   DType dtype, std::span<const Scalar> parameters, int64_t per_block = 4);

/// Throws ValueError, DTypeError, ShapeError unless `state` is what philox_state() makes.
void check_philox_state(const char* operation, const Tensor& state);

}  // namespace ashlar
