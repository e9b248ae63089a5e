#include "runtime/forms/cast_path.h"

#include "runtime/forms/movement.h"
#include "runtime/launch/launch.h"

namespace ashlar::forms {
namespace {

/// Binary digits of a number without its sign.
int digits_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 24;
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    case DType::f64:
      return 53;
    case DType::boolean:
      return 1;
    default:
      return 8 * static_cast<int>(size_of(dtype)) - is_signed(dtype);
  }
}

/// Every value of `from` is one of `to`.
bool is_lossless(DType from, DType to) {
  if (from == to) return true;
  if (is_floating(from)) return to == DType::f64 || (to == DType::f32 && from != DType::f64);
  if (to == DType::boolean) return false;
  return digits_of(from) <= digits_of(to) && (!is_signed(from) || is_floating(to) || is_signed(to));
}

/// A cast from `from` to `via` and on to `to` gives what one from `from` to `to` does: nothing is lost on the way, or
/// integers are taken modulo a power of two twice. Floats saturate at integers, which integers themselves don't.
bool leads_through(DType from, DType via, DType to) {
  if (is_integer(from) && is_integer(via) && is_integer(to) && size_of(via) >= size_of(to)) return true;
  return is_lossless(from, via) && (is_floating(from) || !is_floating(via) || !is_integer(to));
}

bool is_one_step(DType from, DType to, DeviceKind kind) {
  return keeps_bits(from, to) || has_instance(kernels::cast, {.elements = {from, to}}, kind);
}

bool find_path(DType from, DType to, DeviceKind kind, int steps, std::vector<DType>& path) {
  if (steps == 1) {
    if (!is_one_step(from, to, kind)) return false;
    path.push_back(to);
    return true;
  }
  for (int i = 0; i < kDTypes; i++) {
    const auto via = static_cast<DType>(i);
    if (via == from || via == to || !leads_through(from, via, to) || !is_one_step(from, via, kind)) continue;
    path.push_back(via);
    if (find_path(via, to, kind, steps - 1, path)) return true;
    path.pop_back();
  }
  return false;
}

}  // namespace

bool keeps_bits(DType from, DType to) { return size_of(from) == size_of(to) && !is_floating(from) && is_integer(to); }

std::vector<DType> cast_path(DType from, DType to, DeviceKind kind) {
  std::vector<DType> path;
  for (int steps = 1; steps <= 4; steps++) {
    if (find_path(from, to, kind, steps, path)) return path;
  }
  return {to};
}

}  // namespace ashlar::forms
