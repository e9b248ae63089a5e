#include "runtime/tensor/promotion.h"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// 0 bool, 1 integer, 2 floating point.
int category(DType dtype) { return is_floating(dtype) ? 2 : dtype == DType::boolean ? 0 : 1; }

bool has_sign(DType dtype) { return name_of(dtype).front() == 'i'; }

/// Of a later priority than `first`: counts by its category alone.
std::optional<DType> combine(std::optional<DType> first, std::optional<DType> later) {
  if (!first || !later) return first ? first : later;
  if (is_floating(*first)) return first;
  // A bool takes anything's dtype; an integer only that of a floating-point number.
  return *first == DType::boolean || is_floating(*later) ? promote(*first, *later) : *first;
}

/// The dtypes of operands by priority: tensors with dimensions, rank-0 tensors.
struct Priorities {
  std::array<std::optional<DType>, 2> dtypes;
  void add(const Tensor& x) {
    if (!x.defined()) {
      throw ValueError("result_type", "an undefined tensor", "tensors with elements",
                       "Make one with Tensor::empty(), Tensor::from() or an operator first");
    }
    std::optional<DType>& dtype = dtypes[x.rank() == 0];
    dtype = dtype ? promote(*dtype, x.dtype()) : x.dtype();
  }
};

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (size_of(a) != size_of(b)) {
    const DType wide = size_of(a) > size_of(b) ? a : b, narrow = wide == a ? b : a;
    // A signed dtype holds every narrower one, an unsigned one only those without a sign.
    if (is_floating(wide) || has_sign(wide) || !has_sign(narrow)) return wide;
  } else if (is_floating(a)) {
    return DType::f32;  // f16 and bf16
  }
  // Signed beside unsigned of as many bits or more: the next signed dtype.
  const int64_t bytes = 2 * std::max(size_of(a), size_of(b));
  for (int i = 0; i < kDTypes; i++) {
    const auto dtype = static_cast<DType>(i);
    if (category(dtype) == 1 && has_sign(dtype) && size_of(dtype) == bytes) return dtype;
  }
  return DType::i64;
}

DType result_type(std::span<const Tensor> tensors) {
  Priorities found;
  for (const Tensor& x : tensors) found.add(x);
  const std::optional<DType> result = combine(found.dtypes[0], found.dtypes[1]);
  if (!result) throw ValueError("result_type", "no tensor", "at least one", "Pass the operands");
  return *result;
}

DType result_type(const Tensor& a, const Tensor& b) {
  Priorities found;
  found.add(a);
  found.add(b);
  return *combine(found.dtypes[0], found.dtypes[1]);
}

DType result_type(const Tensor& x, Number number) {
  Priorities found;
  found.add(x);
  return *combine(x.dtype(), number.dtype());
}

bool can_cast(DType from, DType to) { return category(from) <= category(to); }

}  // namespace ashlar
