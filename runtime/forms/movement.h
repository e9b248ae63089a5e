// Form::movement: elements go somewhere, nothing is computed but a cast. What Tensor's copies and fills are made of.
#pragma once

#include "runtime/launch/form.h"

namespace ashlar {

namespace kernels {
extern const KernelInfo fill, copy, copy_of_five, copy_parts, cast;
}

namespace forms {

/// Outputs of the first input's shape; the kernel is launched as it is.
struct Movement : FormDefaults {
  static constexpr FormSignature signature{
      .name = "movement", .type = "ashlar::forms::Movement", .header = "runtime/forms/movement.h"};
  static std::vector<Tensor> call(const KernelInfo& kernel, const FormCall& call);
  /// Vectors as inputs; none for a kernel without inputs.
  static std::vector<FormSample> samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape);
};

/// Writes `value`, rounded to the dtype, to every element of `destination` (any strides). Throws ValueError when an
/// integer dtype can't hold it or when elements of `destination` share memory.
void fill(const Tensor& destination, double value);

/// destination[i] = source[i]: one shape, dtype and device; any strides, negative ones too. The two must not overlap.
/// Throws ValueError when elements of `destination` share memory.
void copy(const Tensor& source, const Tensor& destination);

/// copy() of each source to the destination of its number, all dense: on CUDA several in a launch where they go into
/// one piece of memory, as parameters' gradients do. Neither sources nor destinations may overlap others.
void copy_each(std::span<const Tensor> sources, std::span<const Tensor> destinations);

/// A dense tensor of `source`'s elements converted to `dtype`: floats to integers towards zero, saturated, NaN as 0;
/// integers to narrower ones modulo 2^bits; to boolean whether they differ from 0.
Tensor cast(const Tensor& source, DType dtype);

}  // namespace forms

inline constexpr const FormSignature& Form::movement = forms::Movement::signature;
}  // namespace ashlar
