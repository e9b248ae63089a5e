// Module: a differentiable function with named parameters, and a tree of modules.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/var.h"

namespace ashlar::nn {

using NamedVars = std::vector<std::pair<std::string, Var>>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Parameters, buffers and children are registered by a derived class's constructor. Their names joined with dots are
/// PyTorch's ("0.weight"), in the order of registration: own parameters, own buffers, then each child's.
class Module {
 public:
  virtual ~Module() = default;
  Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Var forward(const Var& x) = 0;
  Var operator()(const Var& x) { return forward(x); }

  NamedVars named_parameters() const;
  NamedVars named_buffers() const;
  std::vector<Var> parameters() const;
  /// Number of elements of all parameters.
  int64_t parameter_count() const;

  /// Parameters and buffers. The tensors share storage with the module.
  NamedTensors state_dict() const;
  /// Copies tensors of the same names, shapes and dtypes (from any device) into parameters and buffers. Throws
  /// ValueError, before anything is written, when a name is missing or too many; ShapeError or DTypeError when a
  /// tensor doesn't fit.
  void load_state_dict(const NamedTensors& state) const;

  /// Moves parameters and buffers. Gradients are forgotten; an optimiser notices at its next step.
  void to(Device device) const;
  /// Casts floating-point parameters and buffers.
  void to(DType dtype) const;

  /// Training or evaluation mode of the whole tree (training at first).
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

 protected:
  Var register_parameter(std::string name, Tensor value);
  Var register_buffer(std::string name, Tensor value);
  void register_child(std::string name, std::shared_ptr<Module> child);

 private:
  void collect(const std::string& prefix, NamedVars* parameters, NamedVars* buffers, NamedVars* all) const;
  NamedVars all() const;

  NamedVars parameters_;
  NamedVars buffers_;
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
  bool training_ = true;
};

}  // namespace ashlar::nn
