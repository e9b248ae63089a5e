#include "operators/indexing.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "ashlar/ops/gather.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {

AxisInMiddle::AxisInMiddle(const char* operation, const Shape& shape, int64_t wanted)
    : axis(normalize_reduced_axis(operation, wanted, shape.rank())) {
  for (int i = 0; i < shape.rank(); i++) (i < axis ? outer : i == axis ? extent : inner) *= shape[i];
}

namespace {

/// Whether all of `index`, dense on the CPU, is in [0, size).
bool all_inside(const Tensor& index, int64_t size) {
  constexpr int64_t kBlock = 16384;
  const int64_t count = index.numel();
  const auto* values = static_cast<const int64_t*>(index.data());
  if (count < kBlock) {
    uint64_t signs = 0;  // of what is below 0 or above size - 1: without a branch, so that the loop runs in vectors
    for (int64_t i = 0; i < count; i++) {
      const auto value = static_cast<uint64_t>(values[i]);
      signs |= value | (static_cast<uint64_t>(size - 1) - value);
    }
    return signs >> 63 == 0;
  }
  const Tensor found = Tensor::empty({detail::over(count, kBlock)}, DType::i64, index.device());
  const Tensor flat = index.reshape({count});
  const std::array<Scalar, 2> scalars{size - 1, kBlock};
  launch(kernels::indices_outside, {.elements = {DType::i64}}, std::span(&flat, 1), scalars, std::span(&found, 1));
  const std::span blocks(static_cast<const int64_t*>(found.data()), static_cast<size_t>(found.numel()));
  return std::ranges::none_of(blocks, [](int64_t signs) { return signs < 0; });
}

}  // namespace

void check_indices(const char* operation, const Tensor& index, int64_t size) {
  const auto refuse = [&](const std::string& came) {
    throw IndexError(operation, came, "indices from 0 to " + std::to_string(size - 1),
                     "Negative indices don't count from the end here: add the size to them");
  };
  if (index.numel() == 0) return;
  if (size == 0) {
    throw IndexError(operation, "index: " + index.str() + " into an axis of size 0", "no indices",
                     "Skip the call where there is nothing to index");
  }
  if (index.device().kind != DeviceKind::cpu || is_capturing(index.device())) return;
  const Tensor dense = index.contiguous();
  const auto* values = static_cast<const int64_t*>(dense.data());
  const auto inside = [&](int64_t value) { return static_cast<uint64_t>(value) < static_cast<uint64_t>(size); };
  const int64_t count = dense.numel();
  if (all_inside(dense, size)) return;
  int64_t at = 0;
  while (inside(values[at])) at++;
  refuse("index " + std::to_string(values[at]) + " at element " + std::to_string(at) + " of " + index.str());
}

void check_index_tensor(const char* operation, const Tensor& x, const Tensor& index) {
  if (!x.defined() || !index.defined()) {
    throw ValueError(operation, "an undefined tensor", "tensors with elements", "Give one for each input");
  }
  if (index.dtype() != DType::i64) {
    throw DTypeError(operation, "index: " + index.str(), "an index of i64", "Convert it with to(DType::i64)");
  }
  if (x.device() != index.device()) {
    throw DeviceError(operation, x.str() + " and index: " + index.str(), "both on one device",
                      "Move one of them with to(device)");
  }
}

void check_index_shape(const char* operation, const Tensor& x, const Tensor& index, int axis, const char* name) {
  const auto refuse = [&](const std::string& needed) {
    throw ShapeError(operation, std::string(name) + ": " + x.str() + ", index: " + index.str(), needed,
                     "Slice the index, or broadcast_to() what is smaller");
  };
  if (x.rank() != index.rank() && !(x.numel() == 1 && index.rank() <= 1 && x.rank() <= 1) &&
      !(x.rank() == 1 && index.rank() == 0)) {
    refuse("an index of the same rank");
  }
  for (int i = 0; i < index.rank() && i < x.rank(); i++) {
    if (i != axis && index.shape()[i] > x.shape()[i]) {
      refuse("an index of at most " + std::to_string(x.shape()[i]) + " along axis " + std::to_string(i));
    }
  }
}

void check_source(const char* operation, const Tensor& x, const Tensor& src) {
  if (!src.defined()) throw ValueError(operation, "an undefined source", "a tensor", "Give one for each input");
  if (src.dtype() != x.dtype()) {
    throw DTypeError(operation, "x: " + x.str() + ", src: " + src.str(), "both of one dtype", "Convert one with to()");
  }
  if (src.device() != x.device()) {
    throw DeviceError(operation, "x: " + x.str() + ", src: " + src.str(), "both on one device",
                      "Move one of them with to(device)");
  }
}

Tensor seen_by(const Tensor& x, const Shape& index, int axis) {
  Tensor seen = x;
  for (int i = 0; i < x.rank() && i < index.rank(); i++) {
    if (i != axis && index[i] < x.shape()[i]) seen = seen.slice(i, 0, index[i]);
  }
  return seen;
}

}  // namespace ashlar
