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

/// The row of that number, if any, is 0.
void clear_padding(const char* name, int64_t padding_idx, const Var& weight) {
  if (padding_idx < -1 || padding_idx >= weight.size(0)) {
    throw ValueError(name, "padding_idx = " + std::to_string(padding_idx),
                     "a row of " + std::to_string(weight.size(0)) + ", or -1", "Count from 0");
  }
  if (padding_idx >= 0) weight.value().select(0, padding_idx).fill_(0);
}

std::string described(const Var& weight) {
  return std::to_string(weight.size(0)) + " rows of " + std::to_string(weight.size(1));
}

}  // namespace

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options)
    : padding_idx_(options.padding_idx),
      weight_(table("Embedding", num_embeddings, embedding_dim, placement_of(options))) {
  clear_padding("Embedding", padding_idx_, weight_);
}

Var Embedding::forward(const Tensor& index) const { return ad::embedding(index, weight_, padding_idx_); }

std::string Embedding::details() const { return described(weight_); }

EmbeddingBag::EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingBagOptions& options)
    : mode_(options.mode),
      padding_idx_(options.padding_idx),
      include_last_offset_(options.include_last_offset),
      weight_(table("EmbeddingBag", num_embeddings, embedding_dim, placement_of(options))) {
  clear_padding("EmbeddingBag", padding_idx_, weight_);
}

Var EmbeddingBag::forward(const Tensor& index, const Tensor& offsets, const Var& per_sample_weights) const {
  return ad::embedding_bag(index, weight_, offsets, per_sample_weights, mode_, padding_idx_, include_last_offset_).y;
}

std::string EmbeddingBag::details() const { return described(weight_); }

}  // namespace ashlar::nn
