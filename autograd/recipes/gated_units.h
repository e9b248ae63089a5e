// Gradients of gated linear units.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

enum class GatedUnitKind : uint8_t { swiglu, geglu };

/// y = f(gate) x: {dgate, dx} = {dy x f'(gate), dy f(gate)}, of Tensors by one kernel.
template <class T>
std::vector<T> gated_unit_grad(GatedUnitKind unit, const T& dy, const T& gate, const T& x);

}  // namespace ashlar::recipes
