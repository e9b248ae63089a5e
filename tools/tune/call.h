// Calls of any kernel at given canonical sizes, through its form, on made-up inputs.
#pragma once

#include <functional>
#include <vector>

#include "runtime/launch/form.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::tune {

/// One public call.
struct Sample {
  std::vector<Tensor> inputs;
  std::vector<OptionValue> options;
};
/// The calls that are timed together: one for each layout of the operands that the kernel's form tells apart.
using Inputs = std::vector<Sample>;

/// What a shape to be timed consists of, as "outer x reduced x inner" (Form::shape_names).
std::string size_names(const KernelInfo& kernel);

/// Throws ValueError unless `sizes` are as many as the kernel takes and its inputs can be made of them.
void check_shape(const KernelInfo& kernel, const std::vector<int64_t>& sizes);

/// Random inputs on the CPU, the same for the same arguments: floats in [-1, 1), whole numbers in [0, last size).
/// `key` says which instance. Throws as check_shape().
Inputs make_inputs(const KernelInfo& kernel, uint32_t key, const std::vector<int64_t>& sizes);

/// The same tensors on another device, as tensors of their own.
Inputs copy_to(const Inputs& inputs, Device device);

/// Calls the kernel once with each set; the outputs of all.
std::vector<Tensor> call(const KernelInfo& kernel, uint32_t key, const Inputs& inputs);

/// Where `came` differs from `expected` by more than rounding allows: a text; "" where it doesn't. Errors are measured
/// against the larger of the element and the root mean square of all.
std::string difference(const std::vector<Tensor>& came, const std::vector<Tensor>& expected);

/// Sizes beside those to be timed at which candidates are compared with the CPU's results: odd ones, around the edges
/// of tiles, each small.
std::vector<std::vector<int64_t>> check_sizes(const KernelInfo& kernel);

/// The sizes by which a tuned table knows a call of the first set (FormSignature::sizes).
std::vector<int64_t> sizes_for_table(const KernelInfo& kernel, const Inputs& inputs,
                                     const std::vector<Tensor>& outputs);

/// Bytes of the inputs and outputs, and floating-point operations, of one call of the first set.
double bytes_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);

}  // namespace ashlar::tune
