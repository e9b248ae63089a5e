// Rows of a table by their numbers.
#pragma once

#include <string>

#include "ashlar/ops/embedding_bag.h"
#include "nn/init.h"
#include "nn/module.h"

namespace ashlar::nn {

struct EmbeddingOptions {
  int64_t padding_idx = -1;  ///< the row of this number is 0 at first and gets no gradient; -1: none
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// y[…] = weight[index[…]]. Parameter "weight" [num_embeddings, embedding_dim], standard normal at first, as in
/// torch.nn.Embedding. The gradient is added up in the same order every time.
class Embedding : public ModuleOf<Embedding> {
 public:
  /// Throws ValueError unless both sizes are positive and padding_idx is a row.
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingOptions& options = {});

  /// index i64 […] to […, embedding_dim]. A number that isn't a row's is an IndexError on the CPU and NaN on a GPU.
  Var forward(const Tensor& index) const;
  const Var& weight() const { return weight_; }
  std::string details() const override;

 protected:
  void members(Members& members) override { members.parameter("weight", weight_); }

 private:
  int64_t padding_idx_;
  Var weight_;
};

using BagMode = EmbeddingBagMode;

struct EmbeddingBagOptions {
  BagMode mode = BagMode::mean;
  int64_t padding_idx = -1;          ///< a row of zeros at first that no bag counts and that gets no gradient; -1: none
  bool include_last_offset = false;  ///< the last offset is where the last bag ends
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// Sums, means or maxima of rows, as in torch.nn.EmbeddingBag: each row is read where it lies, and the gradient is
/// added up in the same order every time (embedding_bag()). Parameter "weight" as Embedding's.
class EmbeddingBag : public ModuleOf<EmbeddingBag> {
 public:
  /// Throws ValueError unless both sizes are positive and padding_idx is a row.
  EmbeddingBag(int64_t num_embeddings, int64_t embedding_dim, const EmbeddingBagOptions& options = {});

  /// Bags of one size, without offsets: index i64 [bags, rows of each] to [bags, embedding_dim]. Or of any sizes, none
  /// too (which give 0): bag b is index[offsets[b]] to index[offsets[b + 1]], the last one up to the end or, with
  /// include_last_offset, to the last offset; index i64 [n], offsets i64, which rise from 0. With mode sum rows may be
  /// multiplied by per_sample_weights, of index's shape. A number that isn't a row's, and offsets that fall, are an
  /// IndexError on the CPU; on a GPU, which doesn't look, the first reads NaN. Throws ShapeError, and ValueError for
  /// weights with another mode.
  Var forward(const Tensor& index, const Tensor& offsets = {}, const Var& per_sample_weights = {}) const;
  const Var& weight() const { return weight_; }
  std::string details() const override;

 protected:
  void members(Members& members) override { members.parameter("weight", weight_); }

 private:
  BagMode mode_;
  int64_t padding_idx_;
  bool include_last_offset_;
  Var weight_;
};

}  // namespace ashlar::nn
