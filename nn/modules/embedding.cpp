#include "nn/modules/embedding.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

Var table(const char* name, int64_t rows, int64_t columns, const Placement& placement) {
  if (rows <= 0 || columns <= 0) {
    throw ValueError(name, std::to_string(rows) + " rows of " + std::to_string(columns), "positive numbers of both",
                     "Pass how many different indices there are, and how wide a row is");
  }
  return Var(initial_normal({rows, columns}, 0, 1, placement), true);
}

std::string described(const Var& weight) {
  return std::to_string(weight.size(0)) + " rows of " + std::to_string(weight.size(1));
}

}  // namespace

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options)
    : padding_idx_(options.padding_idx),
      weight_(table("Embedding", num_embeddings, embedding_dim, placement_of(options))) {
  if (padding_idx_ < -1 || padding_idx_ >= num_embeddings) {
    throw ValueError("Embedding", "padding_idx = " + std::to_string(padding_idx_),
                     "a row of " + std::to_string(num_embeddings) + ", or -1", "Count from 0");
  }
  if (padding_idx_ >= 0) weight_.value().select(0, padding_idx_).fill_(0);
}

Var Embedding::forward(const Tensor& index) const { return ad::embedding(index, weight_, padding_idx_); }

std::string Embedding::details() const { return described(weight_); }

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingBagOptions& options)
    : mode_(options.mode), weight_(table("EmbeddingBag", num_embeddings, embedding_dim, placement_of(options))) {}

Var EmbeddingBag::forward(const Tensor& index) const {
  if (index.rank() != 2) {
    throw ShapeError("EmbeddingBag", index.str(), "[bags, rows of each]", "Give offsets with a row of indices");
  }
  const Var rows = ad::embedding(index, weight_);
  if (mode_ == BagMode::max) return ad::max(rows, {1});
  return mode_ == BagMode::sum ? ad::sum(rows, {1}) : ad::mean(rows, {1});
}

Var EmbeddingBag::forward(const Tensor& index, const Tensor& offsets, const Var& per_sample_weights) const {
  const bool is_weighted = per_sample_weights.defined();
  if (mode_ == BagMode::max || (is_weighted && mode_ != BagMode::sum)) {
    throw ValueError("EmbeddingBag", mode_ == BagMode::max ? "maxima of bags of any sizes" : "weights of a mean",
                     "sums or means, and weights of sums alone", "Give bags of one size, or multiply the rows");
  }
  if (index.rank() != 1 || offsets.rank() != 1 || (is_weighted && per_sample_weights.shape() != index.shape())) {
    throw ShapeError("EmbeddingBag",
                     "index: " + index.str() + ", offsets: " + offsets.str() +
                         (is_weighted ? ", weights: " + per_sample_weights.value().str() : ""),
                     "index [n], offsets [bags], weights [n]", "Flatten them");
  }
  const int64_t n = index.size(0), bags = offsets.size(0);
  const Device device = index.device();
  // How many bags have begun at each place; the last of them is the one that the place belongs to.
  const Tensor begun = ashlar::index_add(Tensor::zeros({n + 1}, DType::i64, device), offsets,
                                         Tensor::ones({bags}, DType::i64, device), 0);
  const Tensor bag = ashlar::sub(ashlar::cumsum(begun.slice(0, 0, n)), Tensor::ones({}, DType::i64, device));
  Var rows = ad::embedding(index, weight_);
  if (is_weighted) rows = ad::mul(rows, per_sample_weights.unsqueeze(1));
  const Tensor none = Tensor::zeros({bags, weight_.size(1)}, rows.dtype(), device);
  const Var sums = ad::index_add(none, bag, rows, 0);
  if (mode_ == BagMode::sum) return sums;
  const Tensor counts =
      ashlar::index_add(Tensor::zeros({bags}, DType::f32, device), bag, Tensor::ones({n}, DType::f32, device), 0);
  const Tensor shares = ashlar::reciprocal(ashlar::maximum(counts, Tensor::ones({}, DType::f32, device)));
  return ad::mul(sums, shares.unsqueeze(1).to(sums.dtype()));
}

std::string EmbeddingBag::details() const { return described(weight_); }

}  // namespace ashlar::nn
