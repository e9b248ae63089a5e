// argsort, sort and topk: keys that are ordered as numbers, sorted by their digits (generators/argsort.cpp).
#include "ashlar/ops/argsort.h"

#include <array>
#include <vector>

#include "ashlar/ops/gather.h"
#include "operators/sorted_rows.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// How a dtype's elements become keys.
struct KeyRule {
  DType instance;           ///< of kernels::sort_keys; the elements are widened to it
  int64_t bias = 0;         ///< added to integers, so that none is negative
  int first_bit = 0;        ///< below it keys of these elements don't differ
  int bits = 32;            ///< from there on
  bool has_halves = false;  ///< of 64 bits: the lower half is sorted by first
};

KeyRule rule_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {DType::f32, 0, 13, 19};
    case DType::bf16:
      return {DType::f32, 0, 16, 16};
    case DType::f64:
      return {DType::f64, 0, 0, 32, true};
    case DType::i32:
      return {DType::i32, int64_t{1} << 31};
    case DType::i64:
      return {DType::i64, 0, 0, 32, true};
    case DType::i16:
      return {DType::i32, 1 << 15, 0, 16};
    case DType::i8:
      return {DType::i32, 1 << 7, 0, 8};
    case DType::u16:
      return {DType::i32, 0, 0, 16};
    case DType::u8:
      return {DType::i32, 0, 0, 8};
    case DType::boolean:
      return {DType::i32, 0, 0, 1};
    case DType::u32:
      return {DType::u32};
    default:
      return {DType::f32};
  }
}

/// A tensor whose rows run along `axis`, and the way back.
struct Rows {
  Shape to, back;  ///< permutations
  Shape shape;     ///< with the rows last

  Rows(const char* operation, const Tensor& x, int64_t axis) {
    const int along = normalize_reduced_axis(operation, axis, x.rank());
    for (int i = 0; i < x.rank(); i++) {
      if (i != along) to.push_back(i);
    }
    if (x.rank() > 0) to.push_back(along);
    back = to;
    for (int i = 0; i < x.rank(); i++) {
      back[static_cast<int>(to[i])] = i;
      shape.push_back(x.shape()[static_cast<int>(to[i])]);
    }
  }
  int64_t length() const { return shape.rank() == 0 ? 1 : shape.back(); }
};

Tensor sorted_order(const Tensor& x, const Rows& rows, bool descending) {
  const int64_t n = rows.length(), count = n == 0 ? 0 : x.numel() / n;
  if (count == 0) return Tensor::empty(rows.shape, DType::i64, x.device());
  const KeyRule rule = rule_of(x.dtype());
  const Tensor moved = x.permute(rows.to).to(rule.instance);
  const Tensor row = forms::as_declared(kernels::sort_keys, 0, moved, {count, n});
  const auto keys_of = [&](int64_t word) {
    const SortedRows made{Tensor::empty({count, n}, DType::u32, x.device()),
                          Tensor::empty({count, n}, DType::i32, x.device())};
    const std::array<Scalar, 3> scalars{rule.bias, word, static_cast<int64_t>(descending)};
    launch(kernels::sort_keys, {.elements = {rule.instance}}, std::span(&row, 1), scalars,
           std::array{made.keys, made.order});
    return made;
  };
  SortedRows sorted = sort_rows(keys_of(0), rule.first_bit, rule.bits);
  if (rule.has_halves) {
    sorted.keys = gather(keys_of(1).keys, sorted.order.to(DType::i64));
    sorted = sort_rows(sorted, 0, 32);
  }
  return sorted.order.to(DType::i64).reshape(rows.shape);
}

}  // namespace

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  forms::key_of(kernels::argsort, {.inputs = std::span(&x, 1)});
  const Rows rows("argsort", x, axis);
  return sorted_order(x, rows, descending).permute(rows.back).contiguous();
}

SortResult sort(const Tensor& x, int64_t axis, bool descending) {
  forms::key_of(kernels::sort, {.inputs = std::span(&x, 1)});
  const Rows rows("sort", x, axis);
  const Tensor order = sorted_order(x, rows, descending);
  const Tensor values = gather(x.permute(rows.to), order);
  return {values.permute(rows.back).contiguous(), order.permute(rows.back).contiguous()};
}

TopkResult topk(const Tensor& x, int64_t k, int64_t axis, bool largest) {
  forms::key_of(kernels::topk, {.inputs = std::span(&x, 1)});
  const Rows rows("topk", x, axis);
  if (k < 0 || k > rows.length()) {
    throw ValueError("topk", "k = " + std::to_string(k) + " of " + x.str(),
                     "k from 0 to " + std::to_string(rows.length()) + ", the size of the axis",
                     "Give min(k, x.size(axis))");
  }
  Tensor order = sorted_order(x, rows, largest);
  if (x.rank() > 0) {
    order = order.slice(-1, 0, k).contiguous();
  } else if (k == 0) {
    throw ValueError("topk", "k = 0 of a tensor of rank 0", "k = 1", "Give x.reshape({1})");
  }
  const Tensor values = gather(x.permute(rows.to), order);
  return {values.permute(rows.back).contiguous(), order.permute(rows.back).contiguous()};
}

}  // namespace ashlar
