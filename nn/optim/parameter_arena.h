// All parameters of one device and dtype in one piece of memory, so that an optimiser's step is one kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"

namespace ashlar::nn {

/// Each parameter becomes a dense view of one flat tensor, at a multiple of 512 bytes (a GPU's coalescing, and every
/// alignment that a kernel may ask for); its gradient goes to the same place of a second flat tensor. The gaps hold
/// zeros, and every optimiser maps zeros to zeros.
class ParameterArena {
 public:
  /// Moves the parameters' values and gradients in. Throws ValueError on no parameters,
  /// on one without requires_grad, and on mixed devices or dtypes.
  explicit ParameterArena(std::vector<Var> parameters);

  const Tensor& values() const { return values_; }        ///< rank 1
  const Tensor& gradients() const { return gradients_; }  ///< rank 1, as values()
  const std::vector<Var>& parameters() const { return parameters_; }

  /// The i-th parameter's part of a tensor laid out like values(), in the parameter's shape.
  Tensor part(const Tensor& flat, size_t i) const;
  /// False once a parameter was given another value (by Module::to, say): then the arena must be made anew.
  bool holds_parameters() const;
  /// Zeroes the gradients of parameters that backward() didn't reach. False when it reached none.
  bool complete_gradients() const;

 private:
  std::vector<Var> parameters_;
  std::vector<int64_t> offsets_;  // in elements
  std::vector<Shape> shapes_;
  Tensor values_;
  Tensor gradients_;
};

}  // namespace ashlar::nn
