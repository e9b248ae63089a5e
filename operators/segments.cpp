#include "operators/segments.h"

#include <array>
#include <bit>

#include "ashlar/ops/scatter_add.h"
#include "operators/sorted_rows.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"

namespace ashlar {

Tensor as_lines(const Tensor& rows, bool shared, int64_t outer, int64_t inner) {
  const int64_t count = rows.size(1);
  const Shape strides = shared ? Shape{0, 1, 0} : Shape{inner * count, 1, count};
  return rows.as_strided({outer, count, inner}, strides, rows.offset());
}

bool walks_along_lines(const KernelInfo& operation, Device device, int64_t count) {
  constexpr int64_t kFewTerms = 16;
  // A CPU's task walks along lines of its own; of a GPU's threads each has one place's terms.
  const std::array plans{Plan{"segments", true, device.kind != DeviceKind::cpu && count > kFewTerms}, Plan{"lines"}};
  return choose_plan(operation, device, plans, std::span(&count, 1)) == 1;
}

Segments sorted_segments(const Places& places, int64_t outer, int64_t n, int64_t inner) {
  const int64_t count = places.shared ? places.index.numel() : places.index.size(1);
  const Tensor index = places.shared ? places.index.reshape({1, count})
                                     : places.index.permute({0, 2, 1}).reshape({outer * inner, count});
  const Device device = index.device();
  SortedRows rows{Tensor::empty(index.shape(), DType::u32, device), Tensor::empty(index.shape(), DType::i32, device)};
  const std::array<Scalar, 2> scalars{n, places.skip};
  launch(kernels::scatter_keys, {.elements = {DType::i64}}, std::span(&index, 1), scalars,
         std::array{rows.keys, rows.order});
  rows = sort_rows(rows, 0, std::bit_width(static_cast<uint64_t>(n)));
  const Tensor starts = Tensor::empty({index.size(0), n + 1}, DType::i32, device);
  launch(kernels::segment_starts, {.elements = {DType::u32}}, std::span(&rows.keys, 1), {}, std::span(&starts, 1));
  return {as_lines(rows.order, places.shared, outer, inner), as_lines(starts, places.shared, outer, inner)};
}

}  // namespace ashlar
