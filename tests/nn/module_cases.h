// The modules of tests/nn/torch/cases.py as ours, and what PyTorch said of them: for tests that go over all modules.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"
#include "nn/modules/recurrent.h"

namespace ashlar::nn {

using Vars = std::vector<Var>;

/// Our module of a case, and a call of it.
struct Candidate {
  std::shared_ptr<Module> module;
  std::function<Vars(const Vars& inputs)> call;
};

using Cases = std::map<std::string, std::function<Candidate()>>;

/// By the names of cases.py, which begin with the class's: "Linear.without_bias".
const Cases& all_cases();

/// The tensors of modules.safetensors.gz by case and kind: "Linear" → "state" → ("weight", …).
using Kinds = std::map<std::string, NamedTensors>;
const std::map<std::string, Kinds>& torch_cases();
const NamedTensors& kind_of(const Kinds& kinds, const std::string& kind);
/// A case's inputs; floating ones require gradients.
Vars inputs_of(const Kinds& kinds, Device device);
/// Whether PyTorch's module was in evaluation.
bool is_evaluated(const std::string& name);
/// A case's module, made anew on `device` with PyTorch's weights, in training or evaluation as PyTorch's was.
Candidate loaded(const std::string& name, Device device);

/// The names of all classes in nn/modules that are modules.
std::set<std::string> module_classes();

inline Vars results(const Var& y) { return {y}; }
inline Vars results(const RNN::Result& y) { return {y.output, y.h_n}; }
inline Vars results(const LSTM::Result& y) { return {y.output, y.h_n, y.c_n}; }
inline Vars results(const LSTMCell::Result& y) { return {y.h, y.c}; }

/// forward() of as many inputs as there are, integers as Tensors where it wants these.
template <class M, class... Inputs>
Vars called(const M& module, const Vars& inputs, const Inputs&... taken) {
  if (inputs.size() == sizeof...(taken)) {
    if constexpr (requires { module.forward(taken...); }) return results(module.forward(taken...));
  } else if constexpr (sizeof...(taken) < 4) {
    const Var& next = inputs[sizeof...(taken)];
    return is_floating(next.dtype()) ? called(module, inputs, taken..., next)
                                     : called(module, inputs, taken..., next.value());
  }
  throw std::logic_error("forward() doesn't take these inputs");
}

template <class M>
Candidate of(M made) {
  auto module = std::make_shared<M>(std::move(made));
  return {module, [module](const Vars& x) { return called(*module, x); }};
}

template <class M, class Call>
Candidate of(M made, Call call) {
  auto module = std::make_shared<M>(std::move(made));
  return {module, [module, call](const Vars& x) { return results(call(*module, x)); }};
}

}  // namespace ashlar::nn
