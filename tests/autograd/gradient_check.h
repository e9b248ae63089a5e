// Compares a differentiable function with a reference in double: values directly, gradients and gradients of gradients
// by finite differences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/var.h"
#include "tests/autograd/reference.h"

namespace ashlar {

struct GradientCase {
  std::string name;
  std::vector<Shape> inputs;
  std::function<Var(const std::vector<Var>&)> function;
  std::function<reference::Array(const std::vector<reference::Array>&)> reference;
  double low = -2;  ///< inputs are drawn from [low, high),
  double high = 2;
  double grid = 0;  ///< and rounded to multiples of this where it isn't 0: that gives ties
};

/// GoogleTest expectations on the value, and on the gradients of all inputs together and of each one alone, and on
/// gradients of gradients.
void check_gradients(const GradientCase& test, Device device);

}  // namespace ashlar
