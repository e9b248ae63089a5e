#include "runtime/launch/launch.h"

#include <HalideRuntime.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>

#include "runtime/device/stream_state.h"
#include "runtime/launch/bind.h"
#include "runtime/launch/dispatch.h"
#include "runtime/launch/halide_hooks.h"
#include "runtime/launch/known_calls.h"
#include "runtime/launch/launch_checks.h"
#include "runtime/launch/launch_context.h"
#include "runtime/launch/launch_detour.h"
#include "runtime/memory/host_memory.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "runtime/support/trace.h"
#include "runtime/tensor/storage.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace detail {
namespace {

std::atomic<LaunchObserver> launch_observer{nullptr};

/// A scalar as its kernel reads it.
union ScalarBits {
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
  uint32_t u32;
  uint16_t u16;
  uint8_t u8;
};

ScalarBits narrow(Scalar scalar, DType dtype) {
  ScalarBits bits{.i64 = 0};
  switch (dtype) {
    case DType::f32:
      bits.f32 = static_cast<float>(scalar.real);
      break;
    case DType::f64:
      bits.f64 = scalar.real;
      break;
    case DType::f16:
      bits.u16 = Half(static_cast<float>(scalar.real)).bits;
      break;
    case DType::bf16:
      bits.u16 = BFloat16(static_cast<float>(scalar.real)).bits;
      break;
    case DType::i32:
      bits.i32 = static_cast<int32_t>(scalar.integer);
      break;
    case DType::i64:
      bits.i64 = scalar.integer;
      break;
    case DType::u8:
    case DType::i8:
      bits.u8 = static_cast<uint8_t>(scalar.integer);
      break;
    case DType::u32:
      bits.u32 = static_cast<uint32_t>(scalar.integer);
      break;
    case DType::u16:
    case DType::i16:
      bits.u16 = static_cast<uint16_t>(scalar.integer);
      break;
    case DType::boolean:
      bits.u8 = scalar.integer != 0;
      break;
  }
  return bits;
}

/// Makes a call the thread's active one, and afterwards releases what Halide's runtime forgot on an error.
class ActiveLaunch {
 public:
  explicit ActiveLaunch(LaunchContext& context) : previous_(active_launch) { active_launch = &context; }
  ~ActiveLaunch() {
    release_forgotten(*active_launch);
    active_launch = previous_;
  }
  ActiveLaunch(const ActiveLaunch&) = delete;
  ActiveLaunch& operator=(const ActiveLaunch&) = delete;

 private:
  LaunchContext* previous_;
};

/// The compiled function's argument list, filled in Halide's order: inputs and scalars as declared, outputs, scratch.
class Call {
 public:
  Call(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments) {
    slots_[0] = &context_address_;
    size_t input = 0, scalar = 0;
    for (const Argument& a : kernel.arguments) {
      if (a.role == Argument::Role::input) add_input(arguments.inputs[input++], a.is_strided);
      if (a.role == Argument::Role::scalar) add_scalar(narrow(arguments.scalars[scalar++], dtype_of_argument(a, key)));
    }
    for (const Tensor& y : arguments.outputs) add_output(y);
    for (const Tensor& s : arguments.scratch) add_output(s);
  }

  /// Runs it once. Returns Halide's code; what else there is to know stands in the context.
  int run(const KernelInstance& instance, LaunchContext& context) {
    context_address_ = &context;
    if (context.device.kind == DeviceKind::cpu) return instance.function(slots_);
    ActiveLaunch active(context);
    return instance.function(slots_);
  }

 private:
  void add_input(const Tensor& x, bool is_strided) {
    Binding& binding = *new (next_place()) Binding;
    binding.input(x, is_strided);
    slots_[slot_count_++] = &binding.buffer;
  }
  void add_output(const Tensor& y) {
    Binding& binding = *new (next_place()) Binding;
    binding.output(y);
    slots_[slot_count_++] = &binding.buffer;
  }
  void* next_place() { return bindings_ + sizeof(Binding) * static_cast<size_t>(binding_count_++); }
  void add_scalar(ScalarBits bits) {
    scalars_[scalar_count_] = bits;
    slots_[slot_count_++] = &scalars_[scalar_count_++];
  }

  void* context_address_ = nullptr;
  static_assert(std::is_trivially_destructible_v<Binding>);
  alignas(Binding) std::byte bindings_[sizeof(Binding) * kMostArguments];  // made as needed: most calls have three
  ScalarBits scalars_[kMostArguments];
  void* slots_[kMostArguments + 1];
  int binding_count_ = 0;
  int scalar_count_ = 0;
  int slot_count_ = 1;
};

/// Runs a bound call on a stream, which needn't be the one it was bound for. Throws as launch() says.
void run_call(const KernelInfo& kernel, const KernelInstance& instance, Call& call, StreamState& stream) {
  const auto run = [&](LaunchContext& context) {
    context.device = stream.device();
    context.stream = &stream;
    context.instance = &instance;
    return call.run(instance, context);
  };
  if (stream.device().kind == DeviceKind::cpu) stream.count_launch();
  LaunchContext context;
  int code = run(context);
  if (code == halide_error_code_success) [[likely]]
    return;
  if (context.out_of_memory && context.driver_launches == 0 && stream.owner().trim() > 0) {
    LaunchContext again;  // nothing ran yet, and there's more room now
    code = run(again);
    if (code != halide_error_code_success) throw_launch_error(kernel, instance, code, again);
    return;
  }
  throw_launch_error(kernel, instance, code, context);
}

void run_on_device(const KernelInfo& kernel, KernelKey key, const KernelInstance& instance,
                   const CallArguments& arguments, StreamState& stream) {
  if (const LaunchObserver observer = launch_observer.load(std::memory_order_relaxed)) observer(kernel, instance);
  GraphRecorder* recorder = stream.recorder();
  if (stream.device().kind != DeviceKind::cpu || recorder != nullptr) {
    for (const Tensor& x : arguments.inputs) x.storage()->prepare_read(stream);
    for (const Tensor& y : arguments.outputs) y.storage()->prepare_write(stream);
  }
  if (recorder != nullptr && !recorder->driver_records()) {
    const auto call = std::make_shared<Call>(kernel, key, arguments);
    recorder->add([&kernel, &instance, call](StreamState& on) { run_call(kernel, instance, *call, on); });
    return;
  }
  Call call(kernel, key, arguments);
  run_call(kernel, instance, call, stream);
}

/// Runs a call that has passed the checks, of which less has to be found out for the next one like it.
void run_checked(const KernelInfo& kernel, KernelKey key, CallArguments arguments, Device device,
                 const CallNumbers& numbers) {
  const KernelInstance* instance = choose_instance(kernel, key, device, arguments.inputs, arguments.outputs);
  if (instance == nullptr) {
    if (device.kind == DeviceKind::cpu || fallback() == Fallback::error ||
        find_instance(kernel, key, DeviceKind::cpu) == nullptr) {
      throw_missing_kernel(kernel, key, device);
    }
    run_on_cpu_instead(kernel, key, arguments);
    return;
  }

  StreamState& stream = current_stream(device);
  const std::vector<Tensor> scratch = make_scratch(kernel, key, arguments, device);
  arguments.scratch = scratch;
  if (const OutputDetour detour(arguments); detour.needed()) {
    CallArguments redirected = arguments;
    redirected.outputs = detour.outputs();
    // A plan may ask for their strides.
    instance = choose_instance(kernel, key, device, arguments.inputs, redirected.outputs);
    run_on_device(kernel, key, *instance, redirected, stream);
    detour.store();
    return;
  }
  // On OpenCL whether there's a detour may depend on whether tensors share a buffer.
  const bool is_simple =
      scratch.empty() && (device.kind != DeviceKind::opencl ||
                          std::ranges::all_of(arguments.outputs, [](const Tensor& y) { return y.offset() == 0; }));
  run_on_device(kernel, key, *instance, arguments, stream);
  if (is_simple) keep_instance(numbers, instance);
}

[[gnu::cold]] void describe(TraceSpan& span, Device device, std::span<const Tensor> inputs,
                            std::span<const Tensor> outputs) {
  std::string shapes;
  for (const auto& tensors : {inputs, outputs}) {
    if (!shapes.empty()) shapes += " to ";
    for (const Tensor& x : tensors)
      shapes += (&x == tensors.data() ? "" : ", ") + std::string(name_of(x.dtype())) + x.shape().str();
  }
  span.note("device", device.str());
  span.note("tensors", shapes);
}

}  // namespace
}  // namespace detail

void launch(const KernelInfo& kernel, KernelKey key, std::span<const Tensor> inputs, std::span<const Scalar> scalars,
            std::span<const Tensor> outputs, Precision precision) try {
  using namespace detail;
  require_hooks();
  const CallArguments arguments{inputs, scalars, outputs, {}};
  const CallNumbers numbers(kernel, key, arguments);
  const KernelInstance* known = known_instance(numbers);
  const Device device = known ? outputs[0].storage()->device() : check_arguments(kernel, key, arguments);
  if (!known) {
    if (std::ranges::all_of(outputs, [](const Tensor& y) { return y.numel() == 0; })) return;
    check_inputs_not_empty(kernel, inputs);
  }
  TraceSpan span("call", kernel.name);
  if (span.is_on()) [[unlikely]]
    describe(span, device, inputs, outputs);
  if (const VendorCall call{kernel, key, inputs, outputs, precision.allow_tf32};
      is_vendors(call, device) && run_by_vendor(call)) {
    return;
  }
  if (known)
    run_on_device(kernel, key, *known, arguments, current_stream(device));
  else
    run_checked(kernel, key, arguments, device, numbers);
  for (const Tensor& y : outputs) y.storage()->bump();
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kernel.name);
}

bool run_by_vendor(const VendorCall& call) {
  const VendorRoutine* routine = call.kernel.vendor;
  if (!routine->run(call)) return false;
  if (const LaunchObserver observer = detail::launch_observer.load(std::memory_order_relaxed)) {
    observer(call.kernel, {call.key.packed(), nullptr, routine->name});
  }
  for (const Tensor& y : call.outputs) y.storage()->bump();
  return true;
}

LaunchObserver set_launch_observer(LaunchObserver observer) { return detail::launch_observer.exchange(observer); }

DeviceFunctionObserver set_device_function_observer(DeviceFunctionObserver observer) {
  return detail::device_function_observer.exchange(observer);
}

}  // namespace ashlar
