#include "runtime/forms/aligned_operands.h"

#include <algorithm>
#include <array>
#include <string>

#include "runtime/launch/kernel_start.h"
#include "runtime/launch/plans.h"
#include "runtime/support/environment.h"
#include "runtime/support/recent.h"
#include "runtime/support/rounding.h"

namespace ashlar::forms {
namespace {

using detail::is_in_quads;
using detail::kQuad;

/// Of one more copy: a kernel's start, and each byte read and written.
double copy_microseconds(int64_t elements, double gigabytes_per_second, double start) {
  constexpr double kOfBytes = 1.2;
  return start + kOfBytes * 8.0 * static_cast<double>(elements) / (1e3 * gigabytes_per_second);
}

AlignedOperands quickest(const ProductOperands& x, const AlignedModel& model) {
  AlignedOperands best{.microseconds = model({})};
  if (best.microseconds < 0) return best;
  const Device device = x.y.device();
  const double speed = detail::plan_device_number(device, PlanDevice::gigabytes_per_second),
               start = kernel_start(device.kind);
  const bool left_is = is_in_quads(x.a, x.a.rank() - 2), right_is = is_in_quads(x.b, x.b.rank() - 1),
             result_is = x.y.size(-1) % kQuad == 0;
  for (const auto& [left, right] : {std::pair{true, false}, {false, true}, {true, true}}) {
    if ((left && left_is && !right) || (right && right_is && result_is && !left)) continue;
    double copies = 0;
    if (left) copies += copy_microseconds(x.a.numel(), speed, start);
    if (right) copies += copy_microseconds(x.b.numel(), speed, start);
    if (right && !result_is) copies += copy_microseconds(x.y.numel(), speed, start);
    if (copies >= best.microseconds) continue;
    const double all = copies + model({left, right});
    if (all < best.microseconds) best = {left, right, all};
  }
  return best;
}

/// Strides of dense rows of whole quads.
struct AlignedShape {
  Shape shape, strides;
  int64_t elements;
};
AlignedShape aligned_shape(const Tensor& x, int64_t rows, int64_t columns) {
  AlignedShape to{x.shape(), x.strides(), 1};
  const int rank = to.shape.rank();
  to.shape[rank - 2] = rows;
  to.shape[rank - 1] = columns;
  for (int i = rank - 1; i >= 0; i--) {
    to.strides[i] = to.elements;
    to.elements *= i == rank - 1 ? detail::round_up(columns, kQuad) : to.shape[i];
  }
  return to;
}

}  // namespace

AlignedOperands aligned_operands(const KernelInfo& kernel, const ProductOperands& x, std::span<const int64_t> numbers,
                                 const AlignedModel& model) {
  const Device device = x.y.device();
  const bool is_any_forced = detail::any_plan_forced(),
             is_forced = is_any_forced && detail::forced_rank("aligned_operands") >= 0;
  if (!is_forced && (is_any_forced || device.kind == DeviceKind::cpu)) return {};
  constexpr size_t kMostNumbers = 20;
  const Shape &a = x.a.strides(), &b = x.b.strides();
  const int rank = x.y.rank();
  std::array<int64_t, kMostNumbers> key{rank > 2 ? x.y.size(0) : 1,
                                        x.y.size(-2),
                                        x.y.size(-1),
                                        x.a.size(-1),
                                        rank > 2 ? a[0] : 0,
                                        a[a.rank() - 2],
                                        a[a.rank() - 1],
                                        rank > 2 ? b[0] : 0,
                                        b[b.rank() - 2],
                                        b[b.rank() - 1],
                                        x.a.offset() % kQuad,
                                        x.b.offset() % kQuad,
                                        static_cast<int64_t>(device.kind),
                                        device.index};
  constexpr size_t kOthers = 14;
  std::ranges::copy(numbers, key.begin() + kOthers);
  thread_local detail::Recent<AlignedOperands, kMostNumbers> known;
  const AlignedOperands chosen =
      is_forced ? AlignedOperands{true, true}
                : known.get(std::span(key).first(kOthers + numbers.size()), [&] { return quickest(x, model); });
  if (!chosen.left && !chosen.right) return chosen;
  const std::array sizes{x.y.size(-2), x.y.size(-1), x.a.size(-1)};
  const std::array plans{Plan{"aligned_operands"}, Plan{"as_they_stand"}};
  return choose_plan(kernel, device, plans, sizes) == 0 ? chosen : AlignedOperands{};
}

Tensor room_for_aligned(const Tensor& x, int64_t rows, int64_t columns) {
  const AlignedShape to = aligned_shape(x, rows, columns);
  return Tensor::empty({to.elements}, x.dtype(), x.device()).as_strided(to.shape, to.strides, 0);
}

Tensor laid_aligned(const Tensor& x, int64_t rows, int64_t columns) {
  const Tensor room = room_for_aligned(x, rows, columns);
  const int64_t filled = x.size(-2);
  room.slice(-2, 0, filled).slice(-1, 0, x.size(-1)).copy_(x);
  if (rows > filled) {
    const AlignedShape whole = aligned_shape(x, rows, detail::round_up(columns, kQuad));
    room.as_strided(whole.shape, whole.strides, 0).slice(-2, filled, rows).fill_(0);
  }
  return room;
}

Tensor imagined_aligned(const Tensor& x, int64_t rows, int64_t columns) {
  const AlignedShape to = aligned_shape(x, rows, columns);
  return Tensor(x.storage(), to.shape, to.strides, 0, x.dtype());
}

}  // namespace ashlar::forms
