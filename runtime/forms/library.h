// The library's own forms: what Form::rows and its like name.
#pragma once

#include "runtime/forms/broadcast.h"
#include "runtime/forms/contraction.h"
#include "runtime/forms/movement.h"
#include "runtime/forms/plain.h"
#include "runtime/forms/pointwise.h"
#include "runtime/forms/reduction.h"
#include "runtime/forms/rows.h"
