#include "nn/modules/residual_stream.h"

#include "ashlar/ad.h"

namespace ashlar::nn {

Var added(const Terms& x) { return x.branch.defined() ? ad::add(x.stream, x.branch) : x.stream; }

}  // namespace ashlar::nn
