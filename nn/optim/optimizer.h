// What all optimisers share: arenas, states, learning rate and step count.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/optim/parameter_arena.h"

namespace ashlar::nn {

/// Parameters are gathered into one arena for each device and dtype; step() runs one kernel over each. What changes
/// between steps (learning rate, step count) lies in rank-0 f32 tensors on the device, so that a recorded step can be
/// replayed with other values.
///
/// When parameters have moved (Module::to), the next step() makes new arenas and takes the state along. Parameters that
/// backward() didn't reach are treated as having a zero gradient.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update from the gradients at hand. Does nothing to an arena none of whose parameters has a gradient.
  void step();
  /// Forgets all gradients.
  void zero_grad() const;

  double learning_rate() const { return learning_rate_; }
  /// Takes effect with the next step. Throws ValueError when negative or not finite.
  void set_learning_rate(double learning_rate);
  /// Updates so far, read from the device: waits for it.
  int64_t steps() const;

  /// For tests and checkpoints: the state-th moment of the i-th parameter given to the constructor (duplicates once).
  Tensor state(size_t parameter, size_t state) const;

 protected:
  /// `state_count` flat tensors, zero at first, of each arena's layout.
  Optimizer(std::vector<Var> parameters, double learning_rate, size_t state_count);

  struct Group {
    ParameterArena arena;
    std::vector<Tensor> states;  ///< f32, each laid out like arena.values()
    Tensor learning_rate;        ///< rank 0, f32
    Tensor step;                 ///< rank 0, f32: updates including the one that runs
  };
  virtual void update(const Group& group) = 0;

 private:
  void gather();

  std::vector<Var> parameters_;
  double learning_rate_;
  size_t state_count_;
  std::vector<Group> groups_;
};

}  // namespace ashlar::nn
