#include "runtime/random/philox.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {

Tensor philox_state(int64_t seed, Device device) { return Tensor::from(std::vector<int64_t>{seed, 0}, {2}, device); }

Tensor philox_uniform(const Tensor& state, const Shape& shape) try {
  constexpr const char* kName = "philox_uniform";
  if (!state.defined()) throw ValueError(kName, "an undefined state", "a state", "Make one with philox_state(seed)");
  if (state.dtype() != DType::i64) {
    throw DTypeError(kName, state.str(), "a state of i64[2]", "Make one with philox_state(seed, device)");
  }
  if (state.shape() != Shape{2} || !state.is_contiguous()) {
    throw ShapeError(kName, state.str(), "a dense state of i64[2]", "Make one with philox_state(seed, device)");
  }
  const Tensor result = Tensor::empty(shape, DType::f32, state.device());
  const int64_t count = result.numel();
  const Tensor flat = result.reshape({count});
  constexpr int64_t kMost = int64_t{1} << 30;  // elements of one launch
  for (int64_t begin = 0; begin < count; begin += kMost) {
    const std::array<Tensor, 1> inputs{state}, outputs{flat.slice(0, begin, std::min(count, begin + kMost))};
    launch(kernels::philox_uniform, {.elements = {DType::f32}}, inputs, std::array{Scalar(begin / 4)}, outputs);
  }
  if (count > 0) {
    const std::array<Tensor, 1> states{state};
    launch(kernels::philox_advance, {.elements = {DType::i64}}, states, std::array{Scalar((count + 3) / 4)}, states);
  }
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("philox_uniform");
}

}  // namespace ashlar
