// Recurrent layers.
#pragma once

#include <string>
#include <vector>

#include "nn/initial.h"
#include "nn/module.h"

namespace ashlar::nn {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  bool bidirectional = false;
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// Layers of recurrent cells over a sequence, in one or both directions: what GRU and LSTM have in common. Parameters
/// of layer k are "weight_ih_lk" [gates · hidden, in], "weight_hh_lk" [gates · hidden, hidden], "bias_ih_lk" and
/// "bias_hh_lk" [gates · hidden], and those of the other direction end in "_reverse"; all uniform in ±1/sqrt(hidden) at
/// first, as in torch.nn. The products with the inputs are one for all steps; a step is a product with the state and
/// one kernel.
template <class Derived>
class Recurrent : public ModuleOf<Derived> {
 public:
  std::string details() const override;

 protected:
  /// Throws ValueError unless all sizes are positive.
  Recurrent(const char* kind, int64_t gates, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options);
  void members(Members& members) override;

  struct Direction {
    std::string name;  ///< "l0", "l1_reverse"
    Var weight_ih, weight_hh, bias_ih, bias_hh;
  };
  /// x [steps, batch, in], states [layers · directions, batch, hidden] or undefined: zeros.
  void check(const Var& x, std::initializer_list<const Var*> states) const;
  Var state_of(const Var& states, size_t direction, const Var& x) const;
  /// x weight_ihᵀ + bias_ih
  Var projected(const Var& x, const Direction& direction) const;
  Var bias_of(const Direction& direction) const;
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  const char* kind_;
  int64_t input_size_, hidden_size_, gates_;
  RecurrentOptions options_;
  std::vector<Direction> layers_;  ///< layer by layer, forward before reverse
};

/// Gated recurrent units (Cho et al. 2014; torch.nn.GRU): gates r, z, n in this order; the reset gate stands behind the
/// product, as in cuDNN.
class GRU : public Recurrent<GRU> {
 public:
  struct Result {
    Var output;  ///< [steps, batch, directions · hidden]; batch before steps with batch_first
    Var h_n;     ///< [layers · directions, batch, hidden]
  };
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// x [steps, batch, in], or [batch, steps, in] with batch_first; h_0 as h_n, zeros where it's left out. Throws
  /// ShapeError.
  Result forward(const Var& x, const Var& h_0 = {}) const;
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997; torch.nn.LSTM): gates i, f, g, o in this order.
class LSTM : public Recurrent<LSTM> {
 public:
  struct Result {
    Var output;    ///< as GRU's
    Var h_n, c_n;  ///< [layers · directions, batch, hidden]
  };
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// As GRU's, with the cells' first states.
  Result forward(const Var& x, const Var& h_0 = {}, const Var& c_0 = {}) const;
};

}  // namespace ashlar::nn
