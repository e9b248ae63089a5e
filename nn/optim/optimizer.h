// What all optimisers share: parameter groups, arenas, states, learning rates, step counts, clipping.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "nn/optim/parameter_arena.h"
#include "runtime/memory/host_memory.h"

namespace ashlar::nn {

/// Parameters that share an optimiser's options: `{{body.parameters(), {.learning_rate = 1e-4}}, {head.parameters()}}`.
template <class Options>
struct ParameterGroup {
  std::vector<Var> parameters;
  Options options = {};
};

template <class Options>
std::vector<ParameterGroup<Options>> one_group(std::vector<Var> parameters, const Options& options) try {
  std::vector<ParameterGroup<Options>> groups(1);
  groups[0] = {std::move(parameters), options};
  return groups;
} catch (const std::bad_alloc&) {
  ashlar::detail::throw_out_of_host_memory("Optimizer");  // nn has a namespace of that name, too
}

/// Bounds of a gradient, as in torch.nn.utils: by norm first, then by value. None at first.
struct Clipping {
  /// All gradients of the optimiser together, as one vector, are shortened to this length.
  double norm = std::numeric_limits<double>::infinity();
  /// Each element is held between minus this and this.
  double value = std::numeric_limits<double>::infinity();
};

/// Parameters are gathered into one arena for each group, device and dtype; step() runs one kernel over each. What
/// changes between steps (learning rate, step count, scale of the gradient) lies in rank-0 f32 tensors on the device,
/// so that a recorded step can be replayed with other values.
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

  size_t group_count() const { return learning_rates_.size(); }
  /// Throws IndexError on a group that isn't there.
  double learning_rate(size_t group = 0) const;
  /// Takes effect with the next step. Throws ValueError when negative or not finite.
  void set_learning_rate(double learning_rate);
  /// The same for one group.
  void set_learning_rate(double learning_rate, size_t group);
  /// Updates so far, read from the device: waits for it.
  int64_t steps() const;

  /// From the next step on (a step captured before stays as it was). Costs no pass over the gradients but the one that
  /// finds their norm, and nothing comes to the host. Throws ValueError unless both bounds are positive.
  void set_clipping(const Clipping& clipping);
  /// The gradients are multiplied by this before all else: 1 / n where n backward passes are added up. Throws
  /// ValueError unless finite.
  void set_gradient_scale(double scale);
  /// Length of the scaled gradients in the last step, before clipping: rank 0, f32, on the first parameter's device.
  /// Undefined before a step with Clipping::norm.
  const Tensor& gradient_norm() const { return norm_; }
  /// √Σ gradient² of the gradients at hand, neither scaled nor clipped: rank 0, f32, on the first parameter's device. 0
  /// where there is none.
  Tensor norm_of_gradients() const;

  /// The parameters' flat arenas, in the order of groups; a parameter's values are a view of one. Made anew when
  /// parameters have moved.
  std::vector<Tensor> arena_values() const;
  /// All that step() changes: values, moments and numbers of each arena, the optimiser's own tensors. To keep a state
  /// and to go back to it with few large copies.
  std::vector<Tensor> arena_state() const;
  /// The state-th moment of each arena that has so many: f32, rank 1.
  std::vector<Tensor> arena_moments(size_t state) const;

  /// Where parameters and gradients lie, in the order of arena_values(), after those that moved were gathered: for what
  /// works on whole arenas. Valid until parameters move again.
  std::vector<const ParameterArena*> parameter_arenas();

  /// The state-th moment of the i-th parameter given to the constructor (duplicates once), for tests.
  Tensor state(size_t parameter, size_t state) const;
  /// Everything that a training needs to go on: moments under "state.<i>.<PyTorch's name>", counts, learning rates.
  NamedTensors state_dict() const;
  /// Throws, before anything is written, ValueError on missing or unexpected names, ShapeError, DTypeError.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// A tensor that the optimiser keeps, by PyTorch's name, and what it is full of at first.
  struct Kept {
    const char* name;
    double first = 0;
  };
  struct Group {
    std::vector<Var> parameters;
    double learning_rate;
    std::vector<Kept> moments;  ///< f32 for each element
    std::vector<Kept> numbers;  ///< f32 for each arena, beside the step count
    bool maximize = false;      ///< gradients are taken with the other sign
  };
  explicit Optimizer(std::vector<Group> groups);
  /// Groups that all keep the same.
  template <class Options>
  static std::vector<Group> groups_of(const std::vector<ParameterGroup<Options>>& groups, std::vector<Kept> moments,
                                      std::vector<Kept> numbers = {}) {
    std::vector<Group> all;
    for (const ParameterGroup<Options>& group : groups) {
      all.push_back({group.parameters, group.options.learning_rate, moments, numbers});
      if constexpr (requires { group.options.maximize; }) all.back().maximize = group.options.maximize;
    }
    return all;
  }

  struct Arena {
    size_t group;
    ParameterArena parameters;
    std::vector<Tensor> moments;  ///< f32, each laid out like parameters.values()
    std::vector<Tensor> numbers;  ///< rank 0, f32; the first counts updates, the one that runs included
    Tensor learning_rate;         ///< rank 0, f32
    Tensor gradient_scale;        ///< rank 0, f32: what kernels multiply gradients by
    const Tensor& step() const { return numbers[0]; }
  };
  virtual void update(const Arena& arena) = 0;
  /// Largest size of a gradient's element.
  double largest_gradient() const { return clipping_.value; }

 private:
  struct Place {
    const Arena* arena;
    size_t index;
  };
  void gather();
  void gather_if_moved();
  Place place_of(size_t parameter) const;
  NamedTensors tensors() const;
  void scale_gradients();
  double sign(const Arena& arena) const { return groups_[arena.group].maximize ? -1 : 1; }

  std::vector<Group> groups_;
  std::vector<double> learning_rates_;
  std::vector<Var> parameters_;   // of all groups
  std::vector<size_t> group_of_;  // of each parameter
  std::vector<Arena> arenas_;
  Clipping clipping_;
  double gradient_scale_ = 1;
  Tensor norm_;
};

}  // namespace ashlar::nn
