#include "runtime/random/philox.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

thread_local RandomStates* innermost = nullptr;

}  // namespace

RandomStates::RandomStates() : outer_(innermost) { innermost = this; }
RandomStates::~RandomStates() { innermost = outer_; }

void RandomStates::note(const Tensor& state) {
  const bool known = std::ranges::any_of(kept_, [&](const Kept& kept) {
    return kept.state.storage() == state.storage() && kept.state.offset() == state.offset();
  });
  if (!known) kept_.push_back({state, state.clone()});
  if (outer_ != nullptr) outer_->note(state);
}

Tensor philox_state(int64_t seed, Device device) { return Tensor::from(std::vector<int64_t>{seed, 0}, {2}, device); }

void check_philox_state(const char* operation, const Tensor& state) {
  if (!state.defined())
    throw ValueError(operation, "an undefined state", "a state", "Make one with philox_state(seed)");
  if (state.dtype() != DType::i64) {
    throw DTypeError(operation, state.str(), "a state of i64[2]", "Make one with philox_state(seed, device)");
  }
  if (state.shape() != Shape{2} || !state.is_contiguous()) {
    throw ShapeError(operation, state.str(), "a dense state of i64[2]", "Make one with philox_state(seed, device)");
  }
}

void philox_advance(const Tensor& state, int64_t blocks) {
  check_philox_state("philox_advance", state);
  if (innermost != nullptr) innermost->note(state);
  const std::array<Tensor, 1> states{state};
  launch(kernels::philox_advance, {.elements = {DType::i64}}, states, std::array{Scalar(blocks)}, states);
}

Tensor philox_draw(const char* operation, const KernelInfo& kernel, const Tensor& state, const Shape& shape,
                   DType dtype, std::span<const Scalar> parameters, int64_t per_block) try {
  check_philox_state(operation, state);
  const Tensor result = Tensor::empty(shape, dtype, state.device());
  const int64_t count = result.numel();
  const Tensor flat = result.reshape({count});
  constexpr int64_t kMost = int64_t{1} << 30;  // elements of one launch
  for (int64_t begin = 0; begin < count; begin += kMost) {
    std::vector<Scalar> scalars{Scalar(begin / per_block)};
    scalars.insert(scalars.end(), parameters.begin(), parameters.end());
    const std::array<Tensor, 1> inputs{state}, outputs{flat.slice(0, begin, std::min(count, begin + kMost))};
    launch(kernel, {.elements = {dtype}}, inputs, scalars, outputs);
  }
  if (count > 0) philox_advance(state, detail::over(count, per_block));
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(operation);
}

Tensor philox_uniform(const Tensor& state, const Shape& shape, double low, double high) {
  const auto first = static_cast<float>(low), last = static_cast<float>(high), range = static_cast<float>(high - low);
  if (!(first < last) || !std::isfinite(range)) {
    throw ValueError("uniform", "low = " + std::to_string(low) + ", high = " + std::to_string(high),
                     "finite numbers of f32, low < high", "Give the bounds in their order");
  }
  // Twelve digits, and the others: the kernel's products are exact.
  const auto coarse = std::bit_cast<float>(std::bit_cast<uint32_t>(range) & 0xfffff000U);
  const std::array<Scalar, 4> parameters{first, coarse, range - coarse, std::nextafter(last, first)};
  return philox_draw("uniform", kernels::philox_uniform, state, shape, DType::f32, parameters);
}

}  // namespace ashlar
