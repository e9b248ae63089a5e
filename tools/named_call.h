// Any operator by its name, as the C interface has it, on views of whole buffers.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::tools {

/// {"operator": "add", "inputs": [{"dtype", "elements", "shape", "strides", "offset"}, …], "options": {name: value}}.
/// Each input is a view of a buffer of so many elements. With "wanted", a list of inputs' numbers, the call is
/// dL/d(input) of these alone and the last input dL/d(first output); the forward pass runs at the first call. What
/// isn't an operator: "copy" makes its view dense; "gru", "lstm" (x, first states, weight_ih, weight_hh, bias_ih,
/// bias_hh) and "interpolate" are layers.
///
/// The buffers of the call's inputs, uninitialised.
std::vector<Tensor> buffers_of(const nlohmann::json& call, Device device);
/// The call, its arguments bound once. Throws what the C interface throws of them.
std::function<std::vector<Tensor>()> bound_call(const nlohmann::json& call, const std::vector<Tensor>& buffers);

}  // namespace ashlar::tools
