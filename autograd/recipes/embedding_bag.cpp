#include "autograd/recipes/embedding_bag.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/indexing.h"
#include "autograd/recipes/values.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

template <class T>
T embedding_bag_weight_grad(const T& dy, const Tensor& index, const Tensor& offsets, const T& per_sample_weights,
                            const Tensor& winners, int64_t rows, int mode, int64_t padding_idx,
                            bool include_last_offset) {
  if (mode != static_cast<int>(EmbeddingBagMode::max)) {
    const bool is_mean = mode == static_cast<int>(EmbeddingBagMode::mean);
    return embedding_bag_grad(dy, index, offsets, per_sample_weights, rows, is_mean, padding_idx, include_last_offset);
  }
  // A bag of none, which has no winner, gives its nothing to the first row.
  const Tensor first = number(0, winners), is_none = ashlar::lt(winners, first);
  return scatter_into_zeros(T(masked_fill(dy, is_none, 0.0)), ashlar::maximum(winners, first), {rows, dy.shape()[1]},
                            0);
}

template <class T>
T embedding_bag_rows(const T& weight, const Tensor& index, const Tensor& offsets, const T& per_sample_weights,
                     bool is_mean, int64_t padding_idx, bool include_last_offset) {
  const EmbeddingBagMode mode = is_mean ? EmbeddingBagMode::mean : EmbeddingBagMode::sum;
  return embedding_bag(index, weight, offsets, per_sample_weights, mode, padding_idx, include_last_offset).y;
}

template Tensor embedding_bag_weight_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                          int64_t, int, int64_t, bool);
template Var embedding_bag_weight_grad(const Var&, const Tensor&, const Tensor&, const Var&, const Tensor&, int64_t,
                                       int, int64_t, bool);
template Tensor embedding_bag_rows(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, int64_t, bool);
template Var embedding_bag_rows(const Var&, const Tensor&, const Tensor&, const Var&, bool, int64_t, bool);

}  // namespace ashlar::recipes
