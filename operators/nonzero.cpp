// Counts on the device, adds the counts up on the host, and finds the places on the device (generators/nonzero.cpp).
#include "ashlar/ops/nonzero.h"

#include <array>
#include <vector>

#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

/// The elements in a dtype that the kernels have, none of them 0 that wasn't.
Tensor countable(const Tensor& x) {
  switch (x.dtype()) {
    case DType::f16:
    case DType::bf16:
      return x.to(DType::f32);
    case DType::boolean:
      return Tensor(x.storage(), x.shape(), x.strides(), x.offset(), DType::u8);
    default:
      return x;
  }
}

}  // namespace

Tensor nonzero(const Tensor& x) try {
  forms::key_of(kernels::nonzero, {.inputs = std::span(&x, 1)});
  const Device device = x.device();
  if (is_capturing(device)) {
    throw GraphError("nonzero", "a call that is captured into a graph",
                     "a call outside: the size of its result is read on the host, and a replay would need another one",
                     "Call it before capture(), or keep the size with a mask: mul() by it, or where");
  }
  const int rank = x.rank();
  if (x.numel() == 0) return Tensor::empty({0, rank}, DType::i64, device);

  const Tensor flat = countable(x).contiguous().reshape({x.numel()});
  const KernelKey key{.elements = {flat.dtype()}};
  constexpr int64_t kBlock = 32;
  const int64_t blocks = detail::over(x.numel(), kBlock);
  const Tensor counts = Tensor::empty({blocks}, DType::i32, device);
  launch(kernels::nonzero_count, key, std::span(&flat, 1), {}, std::span(&counts, 1));

  std::vector<int32_t> ends = counts.to_vector<int32_t>();
  int32_t total = 0;
  for (int32_t& end : ends) end = total += end;
  const Tensor indices = Tensor::empty({total, rank}, DType::i64, device);
  if (indices.numel() == 0) return indices;

  const Shape steps = dense_strides(x.shape());
  const auto on_device = [&](const Shape& numbers) {
    return Tensor::from<int64_t>(std::vector<int64_t>(numbers.begin(), numbers.end()), {rank}, device);
  };
  const std::array inputs{flat, Tensor::from<int32_t>(ends, {blocks}, device), on_device(steps), on_device(x.shape())};
  launch(kernels::nonzero_locate, key, inputs, {}, std::span(&indices, 1));
  return indices;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("nonzero");
}

}  // namespace ashlar
