// What forecasts of weights were off by, compressed, and given to later forecasts.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "nn/hybrid/training_state.h"
#include "nn/optim/optimizer.h"

namespace ashlar::nn {

/// A matrix of low rank: left rightᵀ.
struct LowRank {
  Tensor left;    ///< [rows, rank], orthogonal columns as long as the singular values
  Tensor right;   ///< [columns, rank], orthonormal columns
  Tensor values;  ///< [rank], the singular values, the largest first
};

/// The nearest matrix of that rank, nearly, by a randomized singular value decomposition (svd_lowrank; Halko,
/// Martinsson and Tropp 2011) that draws from `random`, a philox_state() on the residual's device. residual [rows,
/// columns], f32. Throws as svd_lowrank.
LowRank compress_residual(const Tensor& random, const Tensor& residual, int64_t rank);

/// weights + share · left rightᵀ, with share of rank 0, f32. Throws ShapeError, DeviceError.
Tensor apply_correction(const Tensor& weights, const LowRank& correction, const Tensor& share);

/// The last residuals of an optimiser's weights, each with the state of the training that it belongs to. Parameters of
/// two and more axes are matrices [size(0), the rest] of at most `rank`; smaller ones are kept as they are.
class ResidualStore {
 public:
  /// The optimiser must outlive it. Throws ValueError unless both numbers are positive.
  ResidualStore(Optimizer& optimizer, int64_t capacity, int64_t rank, uint64_t seed);

  /// Of the weights of now against where a forecast saw them, a tensor for each arena as arena_values(), f32. The
  /// oldest of more than `capacity` is forgotten.
  void put(const TrainingState& key, std::span<const Tensor> foretold);
  /// Weights of now += share · similarity · the residual of the most similar state. Returns the similarity,
  /// exp(-|difference of states|² / 64), 0 where there is none.
  double apply(const TrainingState& key, double share);
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }

  /// For checkpoints: "residual.…".
  NamedTensors state_dict() const;
  /// Throws ValueError, ShapeError.
  void load_state_dict(const NamedTensors& state);

 private:
  struct Part {
    LowRank matrix;
    Tensor whole;  // one of the two
  };
  struct Entry {
    TrainingState key{};
    std::vector<Part> parts;  // of each parameter
  };
  template <class Visit>
  void for_each_parameter(const Visit& visit) const;
  bool is_compressed(const Shape& shape) const;

  Optimizer& optimizer_;
  int64_t capacity_, rank_;
  Tensor random_;
  std::deque<Entry> entries_;
};

}  // namespace ashlar::nn
