// Everything that records and differentiates, except the operators themselves (ashlar/ad.h).
#pragma once

#include "autograd/anomaly_mode.h"
#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "autograd/composition.h"
#include "autograd/grad.h"
#include "autograd/grad_mode.h"
#include "autograd/node.h"
#include "autograd/var.h"
#include "autograd/views.h"
