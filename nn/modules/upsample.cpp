#include "nn/modules/upsample.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/recipes/interpolation.h"
#include "operators/composed/interpolation.h"
#include "runtime/memory/host_memory.h"

namespace ashlar::nn {

// The operator interpolate() with a factor for each axis.
Var interpolate(const Var& x, const InterpolateOptions& options) try {
  const ResizeMode mode{options.mode == Interpolation::linear, options.align_corners};
  return composed::interpolated(x, resizes_of(x.value(), options.size, options.scale_factor, mode), mode);
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("interpolate");
}

}  // namespace ashlar::nn
