// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks").
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "nn/optim/adam.h"
#include "nn/optim/optimizer.h"

namespace ashlar::nn {

struct MuonOptions {
  double learning_rate = 1e-3;  ///< of matrices
  double weight_decay = 0.1;    ///< decoupled
  double momentum = 0.95;
  bool nesterov = true;
  int ns_steps = 5;   ///< of the Newton-Schulz iteration
  double eps = 1e-7;  ///< least norm that an update is divided by
  /// false: this group's matrices are AdamW's too. Embeddings and the last layer should be.
  bool matrices = true;
  AdamOptions adamw = {};  ///< of all that isn't a matrix
};

/// Updates of matrices are made orthogonal: their singular values become about 1. For parameters W [r, c], with the
/// gradient G, as torch.optim.Muon:
///   M = M + (1 - momentum) (G - M),  U = G + momentum (M - G) for Nesterov's, else M
///   X = U / max(|U|, eps), then ns_steps times  A = X Xᵀ,  X = a X + (b A + c A²) X
///     with (a, b, c) = (3.4445, -4.775, 2.0315), on Xᵀ where r > c
///   W = W - learning_rate (sqrt(max(1, r / c)) X + weight_decay W)
/// Other parameters (biases, norms, filters of convolutions) are AdamW's.
///
/// Each group becomes two: its matrices, and the others with adamw's learning rate, which schedules see as groups of
/// their own (0 and 1 of the first). Products are f32; a step is some 15 of them for each matrix and fused kernels over
/// the arenas for the rest.
class Muon : public Optimizer {
 public:
  /// Throws ValueError on a momentum outside of [0, 1), or another negative option.
  explicit Muon(std::vector<Var> parameters, const MuonOptions& options = {})
      : Muon(one_group(std::move(parameters), options)) {}
  explicit Muon(std::vector<ParameterGroup<MuonOptions>> groups);

 protected:
  void update(const Arena& arena) override;

 private:
  void update_matrices(const Arena& arena, const MuonOptions& options) const;
  std::vector<MuonOptions> options_;  // of each group given
};

}  // namespace ashlar::nn
