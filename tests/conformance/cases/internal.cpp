// Element-wise kernels that have no public function, called as their operators call them, but with every way of
// broadcasting that they were compiled for. The operators' own cases check the numbers; here the kernel's CPU code on
// dense operands says what they are.
#include <algorithm>
#include <cmath>

#include "runtime/forms/broadcast.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "tests/conformance/cases/broadcasts.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/inputs.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

Tensor call_broadcast(const KernelInfo& kernel, Tensors inputs) {
  const std::vector<Scalar> scalars(static_cast<size_t>(kernel.count(Argument::Role::scalar)), Scalar(0.75));
  return forms::Broadcast::call(kernel, {.inputs = inputs, .scalars = scalars}).front();
}

Expected on_cpu(const KernelInfo& kernel, HostTensors inputs) {
  Shape shape;
  for (const HostTensor& input : inputs) shape = broadcast(kernel.name, shape, input.shape);
  std::vector<Tensor> dense;
  for (const HostTensor& input : inputs) dense.push_back(upload(input, Device::cpu()).broadcast_to(shape).contiguous());
  const HostTensor y = download(call_broadcast(kernel, dense));
  Expected expected{y.shape, y.values};
  // Of results that cancel, what went in tells how large an error may be.
  for (const double value : y.values) expected.magnitudes.push_back(std::max(std::abs(value), 8.0));
  return expected;
}

// The first operand's memory is the result's too: no element may be worked out twice.
std::vector<Tensor> call_in_place(const KernelInfo& kernel, Tensors inputs) {
  std::vector<Tensor> operands;
  for (const Tensor& input : inputs) operands.push_back(input.broadcast_to(inputs[0].shape()));
  const std::vector<Scalar> scalars(static_cast<size_t>(kernel.count(Argument::Role::scalar)), Scalar(0.75F));
  launch(kernel, forms::key_of(kernel, inputs), operands, scalars, std::span(&inputs[0], 1));
  return {inputs[0]};
}

std::vector<DType> compiled_for(const KernelInfo& kernel) {
  std::vector<DType> dtypes;
  const TargetTable* table = kernel.targets[static_cast<size_t>(CodeTarget::cpu)];
  if (table == nullptr) return dtypes;
  for (const KernelInstance& instance : std::span(table->instances, static_cast<size_t>(table->count))) {
    const DType dtype = KernelKey::unpacked(instance.key).elements[0];
    if (std::ranges::find(dtypes, dtype) == dtypes.end()) dtypes.push_back(dtype);
  }
  return dtypes;
}

}  // namespace

void add_internal_cases(Kernels kernels) {
  for (const KernelInfo* kernel : kernels) {
    if (!kernel->is_internal || kernel->is_by_hand || kernel->form != &form_of<forms::Broadcast>) continue;
    Case item{.kernel = kernel->name, .name = "operands", .dtypes = compiled_for(*kernel), .tolerance = terms()};
    if (item.dtypes.empty()) continue;
    for (const Argument& argument : kernel->arguments) {
      if (argument.role != Argument::Role::input) continue;
      Input input{.shape = {2, 3, 5}, .values = {Pattern::uniform, 0.5, 2}};
      if (argument.element < 0) input.dtype = argument.dtype;
      if (input.dtype && !is_floating(*input.dtype)) input.values = {Pattern::integers, 0, 1};
      item.inputs.push_back(input);
    }
    item.call = [kernel](Tensors x) -> std::vector<Tensor> { return {call_broadcast(*kernel, x)}; };
    item.reference = [kernel](HostTensors x) -> std::vector<Expected> { return {on_cpu(*kernel, x)}; };
    item.vary = with_other_broadcasting;
    for (const auto& [name, shapes] : broadcasts_of_one_among(item.inputs.size())) {
      Case other = item;
      other.name = name;
      for (size_t i = 0; i < shapes.size(); ++i) other.inputs[i].shape = shapes[i];
      add_case(std::move(other));
    }
    const Argument& result = forms::argument_of(*kernel, Argument::Role::output, 0);
    if (result.element >= 0 && result.element == forms::argument_of(*kernel, Argument::Role::input, 0).element) {
      for (const int64_t columns : {5, 1521, 12289}) {  // of rows that don't begin at multiples of a vector
        Case in_place = item;
        in_place.name = "in place, rows of " + std::to_string(columns);
        for (Input& input : in_place.inputs) input.shape = {1, 6, 1, 1};
        in_place.inputs[0].shape = {8, 6, 1, columns};
        in_place.call = [kernel](Tensors x) { return call_in_place(*kernel, x); };
        in_place.in_place = in_place.fixed_shapes = true;
        in_place.is_drawn = false;  // results are dense
        in_place.vary = {};
        add_case(std::move(in_place));
      }
    }
    add_case(std::move(item));
  }
}

}  // namespace ashlar::conformance
