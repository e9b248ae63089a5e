// What the report times: the conformance cases marked as benchmarks, the sizes that the figures ask for, and programs
// of several calls. ashlar_bench.h hands them to a script, which fills the inputs, checks the numbers and times rivals.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/vendor/vendor.h"
#include "tests/conformance/case.h"

namespace ashlar::bench {

using conformance::Input;
using conformance::Tensors;
using Call = std::function<std::vector<Tensor>(Tensors)>;

struct Benchmark {
  std::string kernel;  ///< what is called
  std::string name;    ///< with what; kernel and name are unique together
  std::vector<Input> inputs;
  std::vector<DType> dtypes{DType::f32};
  /// Makes the function that is timed; state that lives from call to call (a model, a graph) belongs to it.
  std::function<Call()> make;
  double flops = 0;      ///< of one call; 0 where memory is the limit
  double bytes = 0;      ///< read and written by one call; 0: the inputs and outputs, each once
  int checked_call = 1;  ///< the numbers of this call are checked, counted from 1
  int operations = 1;    ///< in one call; times are given for one of them
  VendorPolicy vendor = VendorPolicy::automatic;
  bool stateful = false;  ///< calls differ: a model learns, a graph is bound to its first inputs
};

/// A benchmark of one stateless function.
Benchmark simple(std::string kernel, std::string name, std::vector<Input> inputs, Call call, double flops = 0);

/// The figures' sizes of single operators.
std::vector<Benchmark> operator_benchmarks();
/// Launches, chains, a loss with its gradient, an optimiser's step: several calls each.
std::vector<Benchmark> program_benchmarks();
/// Training steps of networks.
std::vector<Benchmark> training_benchmarks();
/// What forecasts of loss and weights are made of.
std::vector<Benchmark> forecast_benchmarks();
/// All, without repeating a kernel and name.
const std::vector<Benchmark>& all_benchmarks();

}  // namespace ashlar::bench
