#include "runtime/launch/launch_checks.h"

#include <HalideRuntime.h>

#include <cstddef>
#include <limits>
#include <new>
#include <set>
#include <string>

#include "runtime/launch/bind.h"
#include "runtime/opencl/driver.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"

namespace ashlar::detail {
namespace {

constexpr int64_t kFurthest = std::numeric_limits<int32_t>::max();  // an index, from the first element

std::string describe(const Argument& argument, const Tensor& tensor) {
  return std::string(argument.name) + " = " + tensor.str();
}

void check_count(const KernelInfo& kernel, Argument::Role role, size_t came, const char* what) {
  const auto needed = static_cast<size_t>(kernel.count(role));
  if (came == needed) [[likely]]
    return;
  throw ValueError(kernel.name, std::to_string(came) + " " + what, std::to_string(needed), "");
}

void check_size(const KernelInfo& kernel, const Argument& argument, const Tensor& tensor) {
  if (tensor.numel() == 0 || (tensor.numel() <= kMostElements && span_of(tensor) <= kFurthest)) [[likely]]
    return;
  throw ShapeError(kernel.name, describe(argument, tensor) + " with strides " + tensor.strides().str(),
                   "at most " + std::to_string(kMostElements) + " elements, the last at most 2147483647 from the first",
                   "Split the call along the outermost axis with slice(), or make the view contiguous()");
}

void check_tensor(const KernelInfo& kernel, KernelKey key, const Argument& argument, const Tensor& tensor,
                  const Tensor& first) {
  if (!tensor.defined()) {
    throw ValueError(kernel.name, std::string(argument.name) + " = an undefined tensor", "a tensor",
                     "Make it with Tensor::empty or another factory");
  }
  const DType dtype = dtype_of_argument(argument, key);
  if (tensor.dtype() != dtype) {
    throw DTypeError(kernel.name, describe(argument, tensor), std::string(name_of(dtype)), "Convert it with to(dtype)");
  }
  if (tensor.rank() != argument.rank) {
    throw ShapeError(kernel.name, describe(argument, tensor), "rank " + std::to_string(argument.rank),
                     "Reshape it first");
  }
  if (tensor.storage()->device() != first.storage()->device()) {
    throw DeviceError(kernel.name, describe(argument, tensor) + " beside a tensor on " + first.device().str(),
                      "all tensors on one device", "Move one of them with to(device)");
  }
  check_size(kernel, argument, tensor);
}

void check_output_strides(const KernelInfo& kernel, const Argument& argument, const Tensor& tensor) {
  const int last = tensor.rank() - 1;
  bool good = last < 0 || tensor.strides()[last] == 1 || tensor.shape()[last] <= 1;
  for (int axis = 0; axis < last; ++axis) good &= tensor.strides()[axis] != 0 || tensor.shape()[axis] <= 1;
  if (good) [[likely]]
    return;
  throw ShapeError(kernel.name, describe(argument, tensor) + " with strides " + tensor.strides().str(),
                   "strides other than 0, the innermost 1", "Compute into a dense tensor and copy_ it");
}

void check_input_stride(const KernelInfo& kernel, const Argument& argument, const Tensor& tensor) {
  const int last = tensor.rank() - 1;
  if (argument.is_strided || last < 0 || tensor.strides()[last] == 1 || tensor.shape()[last] <= 1) [[likely]]
    return;
  throw ShapeError(kernel.name, describe(argument, tensor) + " with strides " + tensor.strides().str(),
                   "innermost stride 1", "Make it contiguous() first, or declare the kernel's input strided");
}

/// "f32", "f16 bf16": the element types of an instance.
std::string elements_text(const KernelInfo& kernel, uint32_t key) {
  std::string text;
  for (int i = 0; i < kernel.element_count; ++i) {
    if (i > 0) text += ' ';
    text += name_of(KernelKey::unpacked(key).elements[static_cast<size_t>(i)]);
  }
  return text;
}

/// Every instance for a kind of device, those among them that the program leaves out by its dtype.
template <class Visit>
void for_each_instance(const KernelInfo& kernel, DeviceKind kind, Visit visit) {
  for (size_t i = 0; i < kernel.targets.size(); ++i) {
    const auto target = static_cast<CodeTarget>(i);
    const DeviceKind runs_on = target == CodeTarget::opencl ? DeviceKind::opencl
                               : target == CodeTarget::cuda ? DeviceKind::cuda
                                                            : DeviceKind::cpu;
    const TargetTable* table = kernel.targets[i];
    if (runs_on != kind || table == nullptr) continue;
    for (const KernelInstance& instance : std::span(table->instances, static_cast<size_t>(table->count))) {
      visit(instance);
    }
  }
}

/// The element types of those that are linked, each once: "f32, f16, bf16". Empty where that target isn't linked.
std::string linked_elements(const KernelInfo& kernel, DeviceKind kind) {
  std::string text;
  std::set<std::string> named;
  for_each_instance(kernel, kind, [&](const KernelInstance& instance) {
    const std::string elements = elements_text(kernel, instance.key);
    if (instance.function == nullptr || !named.insert(elements).second) return;
    if (!text.empty()) text += ", ";
    text += elements;
  });
  return text;
}

}  // namespace

void throw_other_version(const KernelInfo& kernel) {
  // All else in a table of another layout may be anything.
  throw KernelError("a call of a compiled kernel",
                    "tables of version " + std::to_string(kernel.version) + " from a library of kernels",
                    "version " + std::to_string(kTablesVersion) + ", which this program's Ashlar reads",
                    "Build the kernels (ashlar_add_kernels) and the program with the same release of Ashlar");
}

Device check_arguments(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments) {
  check_version(kernel);
  check_count(kernel, Argument::Role::input, arguments.inputs.size(), "inputs");
  check_count(kernel, Argument::Role::scalar, arguments.scalars.size(), "scalars");
  check_count(kernel, Argument::Role::output, arguments.outputs.size(), "outputs");
  if (kernel.arguments.size() > kMostArguments || arguments.outputs.empty()) {
    throw ValueError(kernel.name, std::to_string(kernel.arguments.size()) + " arguments",
                     "at least one output and at most " + std::to_string(kMostArguments) + " arguments", "");
  }
  const Tensor& first = arguments.outputs[0];
  size_t input = 0, output = 0;
  for (const Argument& a : kernel.arguments) {
    // The outputs' device is the call's device, so an undefined one has to be found before the others are compared.
    if (a.role == Argument::Role::output && output == 0) check_tensor(kernel, key, a, first, first);
    if (a.role == Argument::Role::output) ++output;
  }
  output = 0;
  for (const Argument& a : kernel.arguments) {
    if (a.role == Argument::Role::input) {
      check_tensor(kernel, key, a, arguments.inputs[input], first);
      check_input_stride(kernel, a, arguments.inputs[input++]);
    }
    if (a.role != Argument::Role::output) continue;
    check_tensor(kernel, key, a, arguments.outputs[output], first);
    check_output_strides(kernel, a, arguments.outputs[output++]);
  }
  return first.storage()->device();
}

void check_inputs_not_empty(const KernelInfo& kernel, std::span<const Tensor> inputs) {
  for (const Tensor& x : inputs) {
    if (x.numel() > 0) [[likely]]
      continue;
    throw ShapeError(kernel.name, "an empty input " + x.str() + " and outputs that aren't empty",
                     "at least one element in every input", "There's nothing to compute such a result from");
  }
}

std::vector<Tensor> make_scratch(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments,
                                 Device device) {
  const int scratch_count = kernel.count(Argument::Role::scratch);
  if (kernel.shape_rule == nullptr) {
    if (scratch_count == 0) [[likely]]
      return {};
    throw KernelError(kernel.name, "scratch buffers without a shape rule", "a rule that gives their shapes",
                      "Give the kernel's Scratch a shape");
  }
  // Made as needed: most calls have three arguments.
  alignas(Shape) std::byte places[2 * kMostArguments][sizeof(Shape)];
  auto* const input_shapes = reinterpret_cast<Shape*>(places);
  auto* const output_shapes = input_shapes + arguments.inputs.size();
  for (size_t i = 0; i < arguments.inputs.size(); ++i) new (input_shapes + i) Shape(arguments.inputs[i].shape());
  for (size_t i = 0; i < kernel.arguments.size(); ++i) new (output_shapes + i) Shape;
  if (const char* violated = kernel.shape_rule(input_shapes, output_shapes)) {
    std::string came;
    for (const Tensor& x : arguments.inputs) came += (came.empty() ? "" : ", ") + x.str();
    throw ShapeError(kernel.name, came, violated, "");
  }
  for (size_t i = 0; i < arguments.outputs.size(); ++i) {
    if (arguments.outputs[i].shape() == output_shapes[i]) [[likely]]
      continue;
    throw ShapeError(kernel.name, "an output " + arguments.outputs[i].str(), "shape " + output_shapes[i].str(), "");
  }
  std::vector<Tensor> scratch;
  scratch.reserve(static_cast<size_t>(scratch_count));
  for (const Argument& a : kernel.arguments) {
    if (a.role != Argument::Role::scratch) continue;
    const Shape& shape = output_shapes[arguments.outputs.size() + scratch.size()];
    scratch.push_back(Tensor::empty(shape, dtype_of_argument(a, key), device));
    check_size(kernel, a, scratch.back());
  }
  return scratch;
}

void throw_missing_kernel(const KernelInfo& kernel, KernelKey key, Device device) {
  std::string wanted = elements_text(kernel, key.packed());
  uint32_t variant = key.variant;
  for (const ComptimeInfo& comptime : kernel.comptimes) {
    wanted += std::string(", ") + comptime.name + " = " + comptime.values[variant % comptime.values.size()];
    variant /= static_cast<uint32_t>(comptime.values.size());
  }
  std::string linked;
  bool is_target_linked = false;
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::opencl, DeviceKind::cuda}) {
    const std::string elements = linked_elements(kernel, kind);
    if (elements.empty()) continue;
    is_target_linked = is_target_linked || kind == device.kind;
    linked += (linked.empty() ? "" : "; ") + std::string(name_of(kind)) + ": " + elements;
  }
  const std::string target(name_of(device.kind));
  bool is_left_out = false;
  for_each_instance(kernel, device.kind, [&](const KernelInstance& instance) {
    is_left_out = is_left_out || (instance.key == key.packed() && instance.function == nullptr);
  });
  throw MissingKernel(
      kernel.name, "a call with " + wanted + " on " + device.str(),
      "one of the instances that this program links (" + (linked.empty() ? "none" : linked) + ")",
      is_left_out ? "Name the dtype in the program's target property ASHLAR_DTYPES, or convert with to(dtype)"
      : is_target_linked
          ? "Convert with to(dtype), or give the dtype to register_kernel() in the kernel's file"
          : "Link the kernels of " + target + ": the program's target property ASHLAR_TARGETS, where it is set, and " +
                "TARGETS of ashlar_add_kernels() have to contain " + target +
                "; or move the tensors with to(device), or call set_fallback(Fallback::cpu)");
}

void throw_launch_error(const KernelInfo& kernel, const KernelInstance& instance, int code,
                        const LaunchContext& context) {
  std::string came = "code " + std::to_string(code) + " from " + instance.symbol + " on " + context.device.str();
  if (*context.message()) came += std::string(" (") + context.message() + ")";
  if (context.out_of_memory || code == halide_error_code_out_of_memory) {
    throw OutOfMemory(kernel.name, came, "memory for the call", "Free tensors or make the call smaller");
  }
  if (context.failed_call != nullptr) {
    throw DriverError(kernel.name,
                      came + ": " + context.failed_call + " returned " + std::to_string(context.driver_status),
                      "a driver call that succeeds", "Set ASHLAR_LOG=1 to see what was done before");
  }
  if (code == halide_error_code_access_out_of_bounds) {
    throw KernelError(kernel.name, came, "indices that stay inside every tensor, for every shape that the rules allow",
                      "The kernel's definition reads or writes beyond a tensor: check the order of its indices, which "
                      "are (row, column), and that the tensor's shape rule gives it the size that they run over");
  }
  throw KernelError(kernel.name, came, "a call that the compiled kernel accepts",
                    "Compare the shapes with the kernel's shape rule; if they fit, please report it");
}

void release_forgotten(LaunchContext& context) noexcept {
  if (context.unreleased_kernel == nullptr && context.unreleased_program == nullptr) return;
  const opencl::Api& api = *opencl::api();
  if (context.unreleased_kernel) api.release_kernel(static_cast<cl_kernel>(context.unreleased_kernel));
  if (context.unreleased_program) api.release_program(static_cast<cl_program>(context.unreleased_program));
  context.unreleased_kernel = context.unreleased_program = nullptr;
}

}  // namespace ashlar::detail
