// Gradients that take more than an expression. A kernel's gradient may call them, and what its own header declares.
#pragma once

#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/elementwise.h"
#include "autograd/recipes/extremum.h"
#include "autograd/recipes/indexing.h"
#include "autograd/recipes/matmul.h"
#include "autograd/recipes/norm.h"
#include "autograd/recipes/recurrent.h"
#include "autograd/recipes/reduce.h"
#include "autograd/recipes/second_derivatives.h"
#include "autograd/recipes/softmax.h"
#include "autograd/recipes/window.h"
