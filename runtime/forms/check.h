// What every form asks of its operands before it touches them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/launch/form.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"

namespace ashlar::forms {

/// "to(DType::f32)": how a remedy names a conversion.
std::string conversion(DType dtype);

/// "x: f32[2, 3] on cpu, gain: f16[3] on cpu"
std::string describe(const KernelInfo& kernel, std::span<const Tensor> inputs);

/// The index-th argument of a role.
const Argument& argument_of(const KernelInfo& kernel, Argument::Role role, int index);

/// Checks that there is one defined tensor for each input (the last `optional` ones may be missing), all on one device,
/// of the dtypes that the kernel fixes, and equal where the kernel says equal. Returns the instance they ask for;
/// element types that no input has stay f32. Throws ValueError, DeviceError, DTypeError.
KernelKey key_of(const KernelInfo& kernel, std::span<const Tensor> inputs, uint16_t variant = 0, int optional = 0);
/// The same for a call, which says what element types that no input has are.
KernelKey key_of(const KernelInfo& kernel, const FormCall& call, int optional = 0);

/// `tensor` with its elements in this shape as the kernel's index-th input takes it: a view, where the kernel takes any
/// strides and the tensor's can step through that shape; else dense.
Tensor as_declared(const KernelInfo& kernel, int index, const Tensor& tensor, const Shape& shape);

/// Where an output was to be written over an input, and `results` (in the shapes that the caller knows) hold what was
/// written: copies it there if it lies elsewhere, and puts the input itself in its place.
void write_back(const KernelInfo& kernel, std::span<const Tensor> inputs, std::vector<Tensor>& results);

/// The dtype of an output in the instance `key`.
DType dtype_in(const Argument& argument, KernelKey key);

/// Sizes of the outputs by the kernel's rule for inputs of these sizes. Throws ShapeError with the rule they break.
std::vector<Shape> output_shapes(const KernelInfo& kernel, std::span<const Tensor> inputs,
                                 std::span<const Tensor> canonical);

/// What a kernel overwrites may not share memory with another input, since an element would be read after it was
/// written, or written twice. Where `by_element`, elements are only read where they are written, and an input that is
/// just read may be the very view. Throws ValueError.
void check_in_place(const KernelInfo& kernel, std::span<const Tensor> inputs, bool by_element);

/// A ShapeError (to throw) that shows all inputs.
ShapeError shape_error(const KernelInfo& kernel, std::span<const Tensor> inputs, std::string_view needed,
                       std::string_view remedy);

}  // namespace ashlar::forms
