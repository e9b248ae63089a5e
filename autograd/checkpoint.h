// Memory for time: a part of a network that is computed once more in the backward pass, instead of keeping what is
// between its inputs and outputs (Chen, Xu, Zhang and Guestrin 2016).
#pragma once

#include <functional>
#include <vector>

#include "autograd/var.h"

namespace ashlar::ad {

/// function(inputs), of which the tape keeps the inputs alone. backward() and grad() call `function` again and walk
/// through it then: the same gradients, bit for bit, for inputs and for the parameters that it uses.
///
/// `function` is kept, and called when the gradients are computed: what it refers to has to live until then. It must do
/// the same both times, and get all that was computed before (not parameters, and not constants) by `inputs`. Random
/// numbers of a Philox state (Dropout's) are the same again; those drawn on the host (Tensor::rand) aren't. Running
/// statistics of batch norms move once.
///
/// Throws ValueError where inputs and parameters are more than 64 together: take fewer layers at a time. Gradients of
/// gradients are an AutogradError, and so is an input or parameter that was overwritten meanwhile.
std::vector<Var> checkpoint(std::function<std::vector<Var>(const std::vector<Var>&)> function,
                            const std::vector<Var>& inputs);
/// The same for one input and one output: `x = ad::checkpoint([&](const Var& x) { return block(x); }, x)`.
Var checkpoint(std::function<Var(const Var&)> function, const Var& input);

/// Whether this thread computes something once more, for what a function does beside its result.
bool is_recomputing();

}  // namespace ashlar::ad
