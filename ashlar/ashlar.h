// All that a program needs to compute with tensors: include this, link ashlar_ops_gradients (ashlar_ops without Var).
//
//   runtime/tensor/tensor.h      Tensor: making, views, moving; a.sum(), a[i], a += b
//   ashlar/functions.h           every function, a line each
//   ashlar/arithmetic.h          a + b, 2 * a, a < b
//   ashlar/splitting.h           split(), chunk()
//   autograd/var.h               Var: a tensor with a history; loss.backward()
//   runtime/tensor/random.h      Random, manual_seed()
//
// Networks, optimisers and data are in nn/.
#pragma once

#include "ashlar/arithmetic.h"
#include "ashlar/functions.h"
#include "ashlar/splitting.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/autograd.h"
#include "runtime/support/error.h"
#include "runtime/tensor/promotion.h"
#include "runtime/tensor/random.h"
