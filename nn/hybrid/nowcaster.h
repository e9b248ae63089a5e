// A small network that foretells where each weight goes from its own last moves.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/hybrid/options.h"
#include "nn/module.h"
#include "nn/optim/adam.h"
#include "runtime/tensor/random.h"

namespace ashlar::nn {

/// One network for all weights, in the style of weight nowcaster networks (Jang et al., ICML 2023). It reads a weight's
/// last `moves` moves in units of their own size, and gives its way over the next `ahead` moves in the same unit:
///
///   s = sqrt(mean of v²),  u = v / s
///   way = s (line · u + second · tanh(first u))
///
/// Without biases: a weight that moves the other way is foretold the other way, one that doesn't move stays. At first
/// line is ahead / moves and second 0: the mean move goes on.
class NowcastNetwork : public ModuleOf<NowcastNetwork> {
 public:
  NowcastNetwork(int64_t moves, int64_t ahead, int64_t hidden, Random& random, Device device);
  /// u [weights, moves] to way / s [weights, 1].
  Var forward(const Var& moves) const;

 protected:
  void members(Members& members) override;

 private:
  Var line_, first_, second_;
};

/// The network with its training on the very snapshots that it forecasts from: parts of the window whose outcome is in
/// the window. All of it works on whole arenas or on weights drawn from them, on their device; nothing comes to the
/// host.
class Nowcaster {
 public:
  /// Of windows of so many snapshots, for `ahead` of their distances. Throws ValueError unless a window has room for a
  /// move, what it leads to, and one more.
  Nowcaster(const NowcastOptions& options, int64_t snapshots, int64_t ahead, Device device);

  /// So many steps of Adam as the options say, from windows [snapshots, elements], f32, one for each arena.
  void learn(const std::vector<Tensor>& windows);
  /// The weights of each arena after the part `share` of the way: f32, rank 1.
  std::vector<Tensor> foretell(const std::vector<Tensor>& windows, double share = 1) const;

  int64_t moves() const { return moves_; }
  const NowcastNetwork& network() const { return network_; }

  /// For checkpoints.
  NamedTensors state_dict() const;
  /// Throws ValueError, ShapeError.
  void load_state_dict(const NamedTensors& state);

 private:
  NowcastOptions options_;
  int64_t ahead_, moves_, starts_;
  Random random_;  // of first values
  NowcastNetwork network_;
  Adam adam_;
  Tensor drawn_;  // state of the numbers by chance that choose weights
};

}  // namespace ashlar::nn
