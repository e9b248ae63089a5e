// Recurrent layers and cells.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nn/init.h"
#include "nn/module.h"
#include "nn/modules/dropout.h"

namespace ashlar::nn {

enum class RecurrentActivation : uint8_t { tanh, relu };

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;  ///< of what a layer gives to the next one, in training
  bool bidirectional = false;
  RecurrentActivation nonlinearity = RecurrentActivation::tanh;  ///< RNN's; the others have their own
  bool reset_after = true;  ///< GRU's: the reset gate stands behind the product with the state, not before it
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// The weights of a cell: "weight_ih" [gates · hidden, in], "weight_hh" [gates · hidden, hidden], "bias_ih" and
/// "bias_hh" [gates · hidden], all uniform in ±1/sqrt(hidden) at first, as in torch.nn.
struct RecurrentWeights {
  Var weight_ih, weight_hh, bias_ih, bias_hh;

  RecurrentWeights(int64_t gates, int64_t input_size, int64_t hidden_size, bool bias, const Placement& placement);
  /// Under these names with `suffix` behind them.
  void tell(Members& members, const std::string& suffix);
  /// x weight_ihᵀ + bias_ih
  Var projected(const Var& x) const;
  /// bias_hh, zeros where there is none.
  Var bias() const;
};

/// Layers of recurrent cells over a sequence, in one or both directions: what RNN, GRU and LSTM have in common.
/// Parameters of layer k are RecurrentWeights' with "_lk" behind their names, and those of the other direction end in
/// "_reverse", as in torch.nn. The products with the inputs are one for all steps; a step is one kernel.
///
/// forward() takes `lengths` [batch] (i32 or i64, on x's device) of rows that end before x does, with the meaning of
/// PyTorch's packed sequences: past a row's length the output is 0, the last states are those of its own last step, and
/// the other direction begins there. Rows may stand in any order, and one of length 0 keeps its first state.
template <class Derived>
class Recurrent : public ModuleOf<Derived> {
 public:
  std::string details() const override;

 protected:
  /// Throws ValueError unless all sizes are positive and dropout is a probability.
  Recurrent(int64_t gates, int64_t input_size, int64_t hidden_size, const RecurrentOptions& options);
  void members(Members& members) override;

  /// All layers over x from `states` on ([layers · directions, batch, hidden] each, or undefined: zeros). `sequence(x
  /// projected, first states, weights, is_reverse)` gives the states of all steps, of which the first are the output.
  /// Returns the output and the last ones of each state. Throws ShapeError.
  template <class Sequence>
  std::vector<Var> run(const Var& x, std::vector<Var> states, const Tensor& lengths, const Sequence& sequence) const;

  int64_t input_size_, hidden_size_;
  RecurrentOptions options_;

 private:
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  void check(const Var& x, const std::vector<Var>& states) const;

  std::vector<RecurrentWeights> layers_;  ///< layer by layer, forward before reverse
  std::shared_ptr<Dropout> dropout_;      ///< none where it is 0
};

/// h' = tanh(x weight_ihᵀ + bias_ih + h weight_hhᵀ + bias_hh), or relu (Elman 1990; torch.nn.RNN).
class RNN : public Recurrent<RNN> {
 public:
  struct Result {
    Var output;  ///< [steps, batch, directions · hidden]; batch before steps with batch_first
    Var h_n;     ///< [layers · directions, batch, hidden]
  };
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// x [steps, batch, in], or [batch, steps, in] with batch_first; h_0 as h_n, zeros where it's left out. Throws
  /// ShapeError.
  Result forward(const Var& x, const Var& h_0 = {}, const Tensor& lengths = {}) const;
};

/// Gated recurrent units (Cho et al. 2014; torch.nn.GRU): gates r, z, n in this order; the reset gate stands behind the
/// product, as in cuDNN, or before it with `reset_after = false`, as in the paper; a step is two kernels then.
class GRU : public Recurrent<GRU> {
 public:
  using Result = RNN::Result;
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// As RNN's.
  Result forward(const Var& x, const Var& h_0 = {}, const Tensor& lengths = {}) const;
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997; torch.nn.LSTM): gates i, f, g, o in this order.
class LSTM : public Recurrent<LSTM> {
 public:
  struct Result {
    Var output;    ///< as RNN's
    Var h_n, c_n;  ///< [layers · directions, batch, hidden]
  };
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& options = {});
  /// As RNN's, with the cells' first states.
  Result forward(const Var& x, const Var& h_0 = {}, const Var& c_0 = {}, const Tensor& lengths = {}) const;
};

struct RecurrentCellOptions {
  bool bias = true;
  RecurrentActivation nonlinearity = RecurrentActivation::tanh;  ///< RNNCell's
  bool reset_after = true;                                       ///< GRUCell's, as GRU's
  Device device = {};
  DType dtype = DType::f32;
  Random* random = nullptr;  ///< of the first values; none: the process's own (manual_seed())
};

/// One step of a layer, with RecurrentWeights under their own names: what RNNCell, GRUCell and LSTMCell have in common.
template <class Derived>
class RecurrentCell : public ModuleOf<Derived> {
 public:
  std::string details() const override;

 protected:
  /// Throws ValueError unless both sizes are positive.
  RecurrentCell(int64_t gates, int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options);
  void members(Members& members) override { weights_.tell(members, ""); }
  /// The state, zeros [batch, hidden] where there is none. Throws ShapeError unless x and it fit.
  Var state_of(const Var& x, const Var& state) const;

  int64_t input_size_, hidden_size_;
  RecurrentWeights weights_;
};

/// x [batch, in] and h [batch, hidden], zeros where it's left out, to the next h (torch.nn.RNNCell). Throws ShapeError.
class RNNCell : public RecurrentCell<RNNCell> {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {});
  Var forward(const Var& x, const Var& h = {}) const;

 private:
  RecurrentActivation nonlinearity_;
};

/// The same for GRU's step (torch.nn.GRUCell).
class GRUCell : public RecurrentCell<GRUCell> {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {});
  Var forward(const Var& x, const Var& h = {}) const;

 private:
  bool reset_after_;
};

/// The same for LSTM's (torch.nn.LSTMCell), with the cells' states.
class LSTMCell : public RecurrentCell<LSTMCell> {
 public:
  struct Result {
    Var h, c;  ///< [batch, hidden]
  };
  LSTMCell(int64_t input_size, int64_t hidden_size, const RecurrentCellOptions& options = {});
  Result forward(const Var& x, const Var& h = {}, const Var& c = {}) const;
};

}  // namespace ashlar::nn
