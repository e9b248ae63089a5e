// The vocabulary of kernels beyond operators: docs/device-functions.md lists all, with their errors.
#pragma once

#include "dsl/functions/activations.h"
#include "dsl/functions/arithmetic.h"
#include "dsl/functions/bessel.h"
#include "dsl/functions/conversion.h"
#include "dsl/functions/error_function.h"
#include "dsl/functions/exponential.h"
#include "dsl/functions/float_parts.h"
#include "dsl/functions/gamma.h"
#include "dsl/functions/hyperbolic.h"
#include "dsl/functions/logarithm.h"
#include "dsl/functions/roots.h"
#include "dsl/functions/rounding.h"
#include "dsl/functions/trigonometric.h"
