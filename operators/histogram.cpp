// bincount and histc (generators/histogram.cpp).
#include "ashlar/ops/histogram.h"

#include <cmath>
#include <string>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/compare.h"
#include "ashlar/ops/maths.h"
#include "ashlar/ops/reduction.h"
#include "ashlar/ops/scatter_add.h"
#include "ashlar/ops/ternary.h"
#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// How often each of [0, places) is among the elements of an i64 tensor, which has no others.
Tensor counted(const Tensor& x, int64_t places) {
  const Tensor zeros = Tensor::zeros({places}, DType::i64, x.device());
  const Tensor one = Tensor::ones({1}, DType::i64, x.device());
  const Tensor flat = x.contiguous().reshape({x.numel()});
  return x.numel() == 0 ? zeros : scatter_add(zeros, flat, one.broadcast_to(flat.shape()).contiguous(), 0);
}

void refuse_in_graph(const char* operation, const Tensor& x, const char* remedy) {
  if (!is_capturing(x.device())) return;
  throw GraphError(operation, "a call that is captured into a graph",
                   "a call outside: the range of the elements is read on the host", remedy);
}

Tensor number(double value, const Tensor& like) { return Tensor::full({}, value, like.dtype(), like.device()); }

}  // namespace

Tensor bincount(const Tensor& x, int64_t minlength) try {
  forms::key_of(kernels::bincount, {.inputs = std::span(&x, 1)});
  if (x.rank() != 1) {
    throw ShapeError("bincount", "x: " + x.str(), "a tensor of rank 1", "Flatten it with reshape()");
  }
  if (minlength < 0) {
    throw ValueError("bincount", "minlength = " + std::to_string(minlength), "0 or more", "Leave it out");
  }
  refuse_in_graph("bincount", x, "Call it before capture(), or scatter_add() ones into a tensor of known size");
  if (x.numel() == 0) return Tensor::zeros({minlength}, DType::i64, x.device());
  const Tensor indices = x.to(DType::i64);
  const auto least = static_cast<int64_t>(min(indices).item()), most = static_cast<int64_t>(max(indices).item());
  if (least < 0) {
    throw ValueError("bincount", "an element of " + std::to_string(least), "elements of 0 or more",
                     "Subtract the smallest one first");
  }
  return counted(indices, std::max(most + 1, minlength));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("bincount");
}

Tensor histc(const Tensor& x, int64_t bins, double low, double high) try {
  forms::key_of(kernels::histc, {.inputs = std::span(&x, 1)});
  if (bins < 1) {
    throw ValueError("histc", "bins = " + std::to_string(bins), "one or more", "Give the number of bins");
  }
  if (x.numel() == 0) return Tensor::zeros({bins}, x.dtype(), x.device());
  const Tensor values = x.to(DType::f32);
  if (low == high) {
    refuse_in_graph("histc", x, "Give min and max");
    low = min(values).item();
    high = max(values).item();
    if (low == high) {
      low -= 1;
      high += 1;
    }
  }
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    throw ValueError("histc", "a range from " + std::to_string(low) + " to " + std::to_string(high),
                     "finite numbers, min below max", "Give min and max");
  }
  const Tensor from = number(low, values), to = number(high, values), count = number(static_cast<double>(bins), values);
  const Tensor is_inside = logical_and(le(from, values), le(values, to));
  // What lies at the upper end belongs to the last bin; what lies outside to one that is left out.
  const Tensor place = floor(div(mul(sub(values, from), count), sub(to, from)));
  const Tensor last = number(static_cast<double>(bins - 1), values);
  const Tensor bin = where(is_inside, where(le(place, last), place, last), count);
  return counted(bin.to(DType::i64), bins + 1).slice(0, 0, bins).to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("histc");
}

}  // namespace ashlar
