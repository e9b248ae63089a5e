#include "runtime/forms/check.h"

#include <array>

#include "runtime/forms/collapse.h"
#include "runtime/forms/overlap.h"
#include "runtime/launch/launch_checks.h"

namespace ashlar::forms {

std::string conversion(DType dtype) {
  return "to(DType::" + std::string(dtype == DType::boolean ? "boolean" : name_of(dtype)) + ")";
}

const Argument& argument_of(const KernelInfo& kernel, Argument::Role role, int index) {
  for (const Argument& argument : kernel.arguments) {
    if (argument.role == role && index-- == 0) return argument;
  }
  throw ValueError(kernel.name, "more arguments than it has", "the arguments it declares", "Check the call");
}

std::string describe(const KernelInfo& kernel, std::span<const Tensor> inputs) {
  std::string text;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (i > 0) text += ", ";
    text += argument_of(kernel, Argument::Role::input, static_cast<int>(i)).name;
    text += ": " + inputs[i].str();
  }
  return text;
}

ShapeError shape_error(const KernelInfo& kernel, std::span<const Tensor> inputs, std::string_view needed,
                       std::string_view remedy) {
  return ShapeError(kernel.name, describe(kernel, inputs), needed, remedy);
}

void check_in_place(const KernelInfo& kernel, std::span<const Tensor> inputs, bool by_element) {
  unsigned written = 0;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role == Argument::Role::output && argument.in_place_of >= 0) written |= 1u << argument.in_place_of;
  }
  for (size_t i = 0; i < inputs.size() && written != 0; i++) {
    if (!(written >> i & 1)) continue;
    for (size_t j = 0; j < inputs.size(); j++) {
      const Tensor &x = inputs[i], &other = inputs[j];
      if (i == j || x.storage() != other.storage()) continue;
      const bool is_same = x.shape() == other.shape() && x.strides() == other.strides() &&
                           x.offset() == other.offset() && x.dtype() == other.dtype();
      if ((by_element && is_same && !(written >> j & 1)) || !share_memory(x, other)) continue;
      const auto name = [&](size_t at) {
        return argument_of(kernel, Argument::Role::input, static_cast<int>(at)).name;
      };
      throw ValueError(kernel.name,
                       describe(kernel, inputs) + ", where " + name(i) + " and " + name(j) + " share memory",
                       std::string(name(i)) + ", which is written, in memory of its own",
                       std::string("Give a clone() of ") + name(j));
    }
  }
}

DType dtype_in(const Argument& argument, KernelKey key) {
  return argument.element < 0 ? argument.dtype : key.elements[static_cast<size_t>(argument.element)];
}

KernelKey key_of(const KernelInfo& kernel, std::span<const Tensor> inputs, uint16_t variant, int optional) {
  return key_of(kernel, {.inputs = inputs, .variant = variant}, optional);
}

KernelKey key_of(const KernelInfo& kernel, const FormCall& call, int optional) {
  detail::check_version(kernel);
  const std::span<const Tensor> inputs = call.inputs;
  const int expected = kernel.count(Argument::Role::input);
  const int given = static_cast<int>(inputs.size());
  if (given > expected || given < expected - optional) {
    throw ValueError(kernel.name, std::to_string(given) + " tensors", std::to_string(expected),
                     "Give one tensor for each input");
  }
  KernelKey key{call.elements, call.variant};
  std::array<bool, 2> is_known{};
  for (size_t i = 0; i < inputs.size(); i++) {
    const Tensor& x = inputs[i];
    const Argument& argument = argument_of(kernel, Argument::Role::input, static_cast<int>(i));
    if (!x.defined() && argument.optional) continue;
    if (!x.defined()) {
      throw ValueError(kernel.name, describe(kernel, inputs), "tensors with elements",
                       "Make them with Tensor::empty(), Tensor::from() or an operator first");
    }
    if (x.device() != inputs[0].device()) {
      const std::string device = inputs[0].device().str();
      throw DeviceError(kernel.name, describe(kernel, inputs), "all tensors on one device",
                        "Copy with to(Device), here to(Device::parse(\"" + device + "\"))");
    }
    if (argument.element == kAnyElement) continue;
    if (argument.element >= 0 && !is_known[static_cast<size_t>(argument.element)]) {
      is_known[static_cast<size_t>(argument.element)] = true;
      key.elements[static_cast<size_t>(argument.element)] = x.dtype();
    }
    const DType needed = dtype_in(argument, key);
    if (x.dtype() != needed) {
      throw DTypeError(kernel.name, describe(kernel, inputs),
                       std::string(argument.name) + " of " + std::string(name_of(needed)),
                       "Convert it with " + conversion(needed));
    }
  }
  return key;
}

Tensor as_declared(const KernelInfo& kernel, int index, const Tensor& tensor, const Shape& shape) {
  bool is_strided = argument_of(kernel, Argument::Role::input, index).is_strided;
  for (const Argument& argument : kernel.arguments) {
    is_strided = is_strided && (argument.role != Argument::Role::output || argument.in_place_of != index);
  }
  return is_strided ? without_negative_strides(tensor).reshape(shape) : dense_as(tensor, shape);
}

void write_back(const KernelInfo& kernel, std::span<const Tensor> inputs, std::vector<Tensor>& results) {
  size_t output = 0;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::output) continue;
    Tensor& result = results[output++];
    if (argument.in_place_of < 0) continue;
    const Tensor& original = inputs[static_cast<size_t>(argument.in_place_of)];
    if (result.storage() != original.storage()) original.copy_(result);
    result = original;
  }
}

std::vector<Shape> output_shapes(const KernelInfo& kernel, std::span<const Tensor> inputs,
                                 std::span<const Tensor> canonical) {
  std::vector<Shape> given;
  for (const Tensor& x : canonical) given.push_back(x.shape());
  const int outputs = kernel.count(Argument::Role::output);
  std::vector<Shape> result(static_cast<size_t>(outputs + kernel.count(Argument::Role::scratch)));
  if (const char* broken = kernel.shape_rule(given.data(), result.data())) {
    throw shape_error(kernel, inputs, broken, "Reshape or slice the inputs to fit");
  }
  result.resize(static_cast<size_t>(outputs));
  return result;
}

}  // namespace ashlar::forms
