#include "operators/sorted_rows.h"

#include <array>
#include <utility>

#include "ashlar/ops/argsort.h"
#include "ashlar/ops/cumsum.h"
#include "generators/radix.h"
#include "runtime/launch/launch.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

/// Rows up to this length are sorted by comparing all of their keys: one launch, and no table that is longer than the
/// row.
constexpr int64_t kShort = 128;

}  // namespace

SortedRows sort_rows(SortedRows rows, int first_bit, int bits) {
  const int64_t count = rows.keys.size(0), n = rows.keys.size(1);
  const Device device = rows.keys.device();
  if (count == 0 || n < 2) return rows;
  const KernelKey key{.elements = {DType::u32}};
  // Passes go from one pair to the other and back.
  SortedRows other{Tensor::empty_like(rows.keys), Tensor::empty_like(rows.order)};
  if (n <= kShort) {
    launch(kernels::sort_short_rows, key, std::array{rows.keys, rows.order}, {}, std::array{other.keys, other.order});
    return other;
  }
  const RadixPass pass = radix_pass(device.kind != DeviceKind::cpu);
  const int64_t blocks = detail::over(n, pass.block);
  for (int bit = first_bit / pass.bits * pass.bits; bit < first_bit + bits; bit += pass.bits) {
    const std::array<Scalar, 1> shift{bit};
    const Tensor counts = Tensor::empty({count, pass.digits(), blocks}, DType::i32, device);
    launch(kernels::radix_count, key, std::span(&rows.keys, 1), shift, std::span(&counts, 1));
    const Tensor ends = cumsum(counts.reshape({count, pass.digits() * blocks})).reshape(counts.shape());
    launch(kernels::radix_move, key, std::array{rows.keys, rows.order, ends}, shift,
           std::array{other.keys, other.order});
    std::swap(rows, other);
  }
  return rows;
}

}  // namespace ashlar
