// Gradients of bags of a table's rows.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// y, winners = embedding_bag(index, weight, offsets, …): dL/dweight of `rows` rows. Of sums and means the kernel's; a
/// maximum's goes to the row that it is of. `mode` is an EmbeddingBagMode.
template <class T>
T embedding_bag_weight_grad(const T& dy, const Tensor& index, const Tensor& offsets, const T& per_sample_weights,
                            const Tensor& winners, int64_t rows, int mode, int64_t padding_idx,
                            bool include_last_offset);

/// The bags' sums, or means, of the rows of a gradient that has the weight's shape.
template <class T>
T embedding_bag_rows(const T& weight, const Tensor& index, const Tensor& offsets, const T& per_sample_weights,
                     bool is_mean, int64_t padding_idx, bool include_last_offset);

}  // namespace ashlar::recipes
