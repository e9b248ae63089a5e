// The kernels that the forms are tested with, by their tables.
#pragma once

#include "runtime/forms/forms.h"

namespace ashlar::kernels {
extern const KernelInfo neg, affine, add, sub, mul, equal, sum, mean, max, argmax, softmax, cross_entropy, matmul;
}
