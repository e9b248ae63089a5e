// Bags of a table's rows (generators/embedding_bag.cpp), and their gradients: by the rows, which are sums over sorted
// segments of the indices, and by the weights of samples.
#include "ashlar/ops/embedding_bag.h"

#include <algorithm>
#include <array>
#include <string>

#include "ashlar/ops/binary.h"
#include "operators/indexing.h"
#include "operators/segments.h"
#include "runtime/forms/check.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

/// Which bags a call's indices are in.
struct Bags {
  Tensor index;    ///< i64 [n]
  Tensor offsets;  ///< i64: where bags begin, and behind them where the last one ends, if not with the indices
  int64_t count = 0;
  int64_t size = -1;  ///< of each bag, whatever the offsets are; -1: by the offsets

  Bags(const char* operation, const Tensor& given, const Tensor& begins, bool include_last_offset);
  bool is_empty() const { return index.numel() == 0; }
  /// Which bag each index is in, i32 [n]; -1: none. There are indices.
  Tensor of_entries() const;
};

/// Looked at where that costs no wait, on the CPU outside of a capture: they rise from 0 to `total` at most.
void check_offsets(const char* operation, const Tensor& offsets, int64_t total) {
  if (offsets.device().kind != DeviceKind::cpu || is_capturing(offsets.device())) return;
  const auto* values = static_cast<const int64_t*>(offsets.data());
  for (int64_t i = 0; i < offsets.numel(); i++) {
    if (i == 0 ? values[0] == 0 : values[i] >= values[i - 1] && values[i] <= total) continue;
    throw IndexError(operation, "offsets[" + std::to_string(i) + "] = " + std::to_string(values[i]),
                     "offsets that rise from 0 to " + std::to_string(total) + " at most, the number of indices",
                     "Add up the bags' sizes");
  }
}

Bags::Bags(const char* operation, const Tensor& given, const Tensor& begins, bool include_last_offset)
    : index(given.contiguous().reshape({given.numel()})) {
  const std::string came =
      "index: " + given.str() + ", offsets: " + (begins.defined() ? begins.str() : std::string("none"));
  if (given.rank() == 2 && !begins.defined()) {
    count = given.size(0);
    size = given.size(1);
    offsets = index;
    return;
  }
  if (given.rank() != 1 || !begins.defined() || begins.rank() != 1) {
    throw ShapeError(operation, came, "an index [n] with offsets [bags], or one [bags, n] without",
                     "Flatten the index, or leave the offsets out");
  }
  if (include_last_offset && begins.numel() == 0) {
    throw ShapeError(operation, came, "an offset behind the last bag", "Give where it ends");
  }
  offsets = begins.contiguous();
  count = offsets.numel() - int64_t{include_last_offset};
  check_offsets(operation, offsets, index.numel());
}

Tensor Bags::of_entries() const {
  const Tensor bag = Tensor::empty(index.shape(), DType::i32, index.device());
  const std::array<Scalar, 2> scalars{size, count};
  launch(kernels::bag_of_entries, {.elements = {DType::i32}}, std::span(&offsets, 1), scalars, std::span(&bag, 1));
  return bag;
}

void check_table(const char* operation, const Tensor& weight, int64_t padding_idx) {
  if (weight.rank() != 2) {
    throw ShapeError(operation, "weight: " + weight.str(), "a weight of rank 2, [rows, columns]", "Reshape it");
  }
  if (padding_idx < -1 || padding_idx >= weight.size(0)) {
    throw ValueError(operation, "padding_idx = " + std::to_string(padding_idx) + " for weight: " + weight.str(),
                     "-1 for none, or a row of the weight", "Count it from the front");
  }
}

void check_samples(const char* operation, const Tensor& index, const Tensor& weights, bool is_sum) {
  if (!weights.defined()) return;
  if (!is_sum) {
    throw ValueError(operation, "weights of samples for means or maxima", "weights of sums alone",
                     "Call it with mode sum, or without per_sample_weights");
  }
  if (weights.shape() != index.shape()) {
    throw ShapeError(operation, "index: " + index.str() + ", per_sample_weights: " + weights.str(),
                     "a weight for each index", "Reshape the weights as the index");
  }
}

/// The columns of each bag's gradient.
int64_t columns_of(const char* operation, const Tensor& dy, const Bags& bags) {
  if (dy.rank() == 2 && dy.size(0) == bags.count) return dy.size(1);
  throw ShapeError(operation, "dy: " + dy.str(), "dy [" + std::to_string(bags.count) + ", columns], a row for each bag",
                   "Pass the gradient of the bags");
}

/// The table itself where its rows lie as kernels read them.
Tensor as_rows(const Tensor& weight) {
  const bool is_read = weight.strides()[1] == 1 && weight.strides()[0] >= 0;
  return is_read ? weight : weight.contiguous();
}

}  // namespace

EmbeddingBagResult embedding_bag(const Tensor& index, const Tensor& weight, const Tensor& offsets,
                                 const Tensor& per_sample_weights, EmbeddingBagMode mode, int64_t padding_idx,
                                 bool include_last_offset) try {
  constexpr const char* kName = "embedding_bag";
  forms::key_of(kernels::embedding_bag, std::array{index, weight, offsets, per_sample_weights}, 0, 2);
  const Bags bags(kName, index, offsets, include_last_offset);
  check_table(kName, weight, padding_idx);
  check_samples(kName, index, per_sample_weights, mode == EmbeddingBagMode::sum);
  check_indices(kName, bags.index, weight.size(0));
  const Shape shape{bags.count, weight.size(1)};
  const bool is_max = mode == EmbeddingBagMode::max;
  const Device device = weight.device();
  if (bags.is_empty() || shape.numel() == 0) {
    return {Tensor::zeros(shape, weight.dtype(), device),
            Tensor::full(is_max ? shape : Shape{0}, -1, DType::i64, device)};
  }
  const Tensor rows = as_rows(weight), y = Tensor::empty(shape, weight.dtype(), device);
  if (is_max) {
    const Tensor winners = Tensor::empty(shape, DType::i64, device);
    launch(kernels::bag_maxima, {.elements = {weight.dtype()}}, std::array{bags.index, bags.offsets, rows},
           std::array<Scalar, 2>{bags.size, padding_idx}, std::array{y, winners});
    return {y, winners};
  }
  const bool is_weighted = per_sample_weights.defined();
  // Without weights nobody reads them.
  const Tensor weights = is_weighted ? per_sample_weights.contiguous().reshape(bags.index.shape()) : rows.select(0, 0);
  const KernelKey key{.elements = {weight.dtype()}, .variant = is_weighted};
  const std::array<Scalar, 3> scalars{bags.size, padding_idx, int64_t{mode == EmbeddingBagMode::mean}};
  launch(kernels::bag_sums, key, std::array{bags.index, bags.offsets, rows, weights}, scalars, std::span(&y, 1));
  return {y, Tensor::empty({0}, DType::i64, device)};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("embedding_bag");
}

Tensor embedding_bag_grad(const Tensor& dy, const Tensor& index, const Tensor& offsets,
                          const Tensor& per_sample_weights, int64_t rows, bool is_mean, int64_t padding_idx,
                          bool include_last_offset) try {
  constexpr const char* kName = "embedding_bag_grad";
  forms::key_of(kernels::embedding_bag_grad, std::array{dy, index, offsets, per_sample_weights}, 0, 2);
  const Bags bags(kName, index, offsets, include_last_offset);
  const int64_t columns = columns_of(kName, dy, bags);
  check_samples(kName, index, per_sample_weights, !is_mean);
  if (rows < 0) throw ValueError(kName, "rows = " + std::to_string(rows), "0 or more", "It is a number of rows");
  check_indices(kName, bags.index, rows);
  const Device device = dy.device();
  if (bags.is_empty() || bags.count == 0 || rows * columns == 0) {
    return Tensor::zeros({rows, columns}, dy.dtype(), device);
  }
  // 16-bit floats are summed in f32 and rounded once.
  const DType dtype = size_of(dy.dtype()) == 2 ? DType::f32 : dy.dtype();
  const KernelKey key{.elements = {dtype}};
  Tensor slopes = dy.to(dtype).contiguous();
  if (is_mean) {
    const Tensor sizes = Tensor::empty({bags.count}, dtype, device);
    launch(kernels::bag_sizes, key, std::array{bags.index, bags.offsets}, std::array<Scalar, 2>{bags.size, padding_idx},
           std::span(&sizes, 1));
    slopes = div(slopes, sizes.unsqueeze(1));
  }
  const Tensor weights = per_sample_weights.defined()
                             ? per_sample_weights.to(dtype).contiguous().reshape(bags.index.shape())
                             : Tensor::ones(bags.index.shape(), dtype, device);
  const Segments segments = sorted_segments({bags.index, true, padding_idx}, 1, rows, 1);
  const std::array inputs{slopes, weights, bags.of_entries(), segments.order.reshape(bags.index.shape()),
                          segments.starts.reshape({rows + 1})};
  const Tensor dweight = Tensor::empty({rows, columns}, dtype, device);
  launch(kernels::bag_gradient, key, inputs, {}, std::span(&dweight, 1));
  return dweight.to(dy.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("embedding_bag_grad");
}

Tensor embedding_bag_samples_grad(const Tensor& dy, const Tensor& index, const Tensor& weight, const Tensor& offsets,
                                  int64_t padding_idx, bool include_last_offset) try {
  constexpr const char* kName = "embedding_bag_samples_grad";
  forms::key_of(kernels::embedding_bag_samples_grad, std::array{dy, index, weight, offsets}, 0, 1);
  const Bags bags(kName, index, offsets, include_last_offset);
  check_table(kName, weight, padding_idx);
  if (columns_of(kName, dy, bags) != weight.size(1)) {
    throw ShapeError(kName, "dy: " + dy.str() + ", weight: " + weight.str(), "as many columns of both",
                     "Pass the gradient of bags of that weight's rows");
  }
  check_indices(kName, bags.index, weight.size(0));
  if (bags.is_empty() || bags.count == 0 || weight.size(1) == 0) {
    return Tensor::zeros(index.shape(), weight.dtype(), weight.device());
  }
  const Tensor dsamples = Tensor::empty(bags.index.shape(), weight.dtype(), weight.device());
  const std::array<Scalar, 1> padding{padding_idx};
  launch(kernels::bag_dots, {.elements = {weight.dtype()}},
         std::array{bags.index, bags.of_entries(), as_rows(weight), dy.contiguous()}, padding, std::span(&dsamples, 1));
  return dsamples.reshape(index.shape());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("embedding_bag_samples_grad");
}

}  // namespace ashlar
