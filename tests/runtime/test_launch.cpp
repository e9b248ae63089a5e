// The gate: what it hands to a kernel, what it refuses, and how a kernel's failure comes back.
#include <gtest/gtest.h>

#include <string>

#include "runtime/device/counters.h"
#include "runtime/launch/launch_context.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"
#include "tests/runtime/host_kernel.h"

namespace ashlar::testing {
namespace {

const HostKernel scale("scale", kScaleArguments, &scale_kernel);

TEST(Launch, BindsAndCounts) {
  const Tensor x = upload(ramp(10), Device::cpu());
  const Tensor y = upload(ramp(10), Device::cpu());
  const Counters before = counters(DeviceKind::cpu);
  const uint64_t version = y.version();
  scale({x}, {2.0}, {y});
  EXPECT_EQ(download(y)[9], 18);
  EXPECT_EQ((counters(DeviceKind::cpu) - before).launches, 1);
  EXPECT_GT(y.version(), version);
  EXPECT_EQ((counters(DeviceKind::cpu) - before).allocations, 0);
}

TEST(Launch, ViewsCarryOffsetsAndStrides) {
  const Tensor base = upload(ramp(100), Device::cpu());
  const Tensor every_third(base.storage(), {20}, {3}, 7, DType::f32);
  const Tensor backwards(base.storage(), {20}, {-2}, 60, DType::f32);
  const Tensor repeated(base.storage(), {20}, {0}, 33, DType::f32);
  const Tensor target = upload(ramp(100), Device::cpu());
  const Tensor y(target.storage(), {20}, {1}, 5, DType::f32);
  const auto first_of = [&y](int i) { return download(y)[static_cast<size_t>(i)]; };
  scale({every_third}, {1}, {y});
  EXPECT_EQ(first_of(0), 7);
  EXPECT_EQ(first_of(19), 64);
  EXPECT_EQ(download(target)[4], 4);
  EXPECT_EQ(download(target)[25], 25);
  scale({backwards}, {1}, {y});
  EXPECT_EQ(first_of(1), 58);
  scale({repeated}, {1}, {y});
  EXPECT_EQ(first_of(13), 33);
}

TEST(Launch, BorrowedMemoryOfAnyAlignment) {
  std::vector<float> values = ramp(64), results(64);
  for (size_t shift : {0, 1, 3, 7}) {
    const Tensor x = Tensor::borrow(values.data() + shift, {30});
    const Tensor y = Tensor::borrow(results.data() + shift, {30});
    scale({x}, {3}, {y});
    EXPECT_EQ(results[shift + 29], 3 * values[shift + 29]);
  }
}

// Everything a kernel can see of its buffers.
int inspect(void** arguments) {
  halide_buffer_t& x = buffer_at(arguments, 1);
  halide_buffer_t& y = buffer_at(arguments, 2);
  const auto* context = static_cast<detail::LaunchContext*>(context_at(arguments));
  EXPECT_EQ(context->device, Device::cpu());
  EXPECT_EQ(x.dimensions, 4);
  EXPECT_EQ(x.dim[0], halide_dimension_t(0, 4, 1));
  EXPECT_EQ(x.dim[1], halide_dimension_t(0, 3, 8));
  EXPECT_EQ(x.dim[2], halide_dimension_t(0, 2, 24));
  EXPECT_EQ(x.dim[3], halide_dimension_t(-5, 6, 1));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(x.host) % 256, 0u);
  EXPECT_EQ(x.type, halide_type_t(halide_type_float, 32));
  EXPECT_EQ(y.dimensions, 1);
  EXPECT_EQ(y.dim[0], halide_dimension_t(0, 4, 1));
  for (const halide_buffer_t* b : {&x, &y}) {
    EXPECT_EQ(b->flags, 0u);
    EXPECT_EQ(b->device, 0u);
    EXPECT_EQ(b->device_interface, nullptr);
  }
  return 0;
}

TEST(Launch, RowMajorBecomesInnermostFirst) {
  constexpr Argument arguments[] = {{"x", Argument::Role::input, 0, DType::f32, 3, -1},
                                    {"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const HostKernel kernel("inspect", arguments, &inspect);
  const Tensor base = upload(ramp(100), Device::cpu());
  kernel({Tensor(base.storage(), {2, 3, 4}, {24, 8, 1}, 5, DType::f32)}, {}, {upload(ramp(4), Device::cpu())});
}

int see_scalars(void** arguments) {
  EXPECT_EQ(*static_cast<float*>(arguments[1]), 1.5f);
  EXPECT_EQ(*static_cast<double*>(arguments[2]), 0.1);
  EXPECT_EQ(*static_cast<int32_t*>(arguments[3]), -7);
  EXPECT_EQ(*static_cast<int64_t*>(arguments[4]), int64_t{1} << 60);
  EXPECT_EQ(*static_cast<uint16_t*>(arguments[5]), 0x3c00);
  EXPECT_EQ(*static_cast<uint8_t*>(arguments[6]), 200);
  EXPECT_EQ(buffer_at(arguments, 7).dimensions, 0);
  return 0;
}

TEST(Launch, AKernelThatCountsOnStrideOneGetsIt) {
  static int32_t stride;
  stride = 0;
  constexpr Argument kDense[] = {{"x", Argument::Role::input, 0, DType::f32, 1, -1},
                                 {"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const HostKernel dense("dense", kDense, [](void** arguments) {
    stride = buffer_at(arguments, 1).dim[0].stride;
    return 0;
  });
  const Tensor x = upload(ramp(10), Device::cpu()), y = Tensor::empty({1}), pair = Tensor::empty({2});
  dense({Tensor(x.storage(), {1}, {3}, 8, DType::f32)}, {}, {y});
  EXPECT_EQ(stride, 1);
  try {
    dense({Tensor(x.storage(), {2}, {3}, 0, DType::f32)}, {}, {pair});
    FAIL() << "it read elements that the view doesn't have";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("strides [3]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("contiguous()"), std::string::npos) << error.what();
  }
}

TEST(Launch, NarrowsScalars) {
  using Role = Argument::Role;
  constexpr Argument arguments[] = {
      {"a", Role::scalar, -1, DType::f32, 0, -1}, {"b", Role::scalar, -1, DType::f64, 0, -1},
      {"c", Role::scalar, -1, DType::i32, 0, -1}, {"y", Role::output, 0, DType::f32, 0, -1},  // outputs go last
      {"d", Role::scalar, -1, DType::i64, 0, -1}, {"e", Role::scalar, -1, DType::f16, 0, -1},
      {"f", Role::scalar, -1, DType::u8, 0, -1}};
  const HostKernel kernel("see_scalars", arguments, &see_scalars);
  kernel({}, {1.5, 0.1, -7, int64_t{1} << 60, 1.0f, 200}, {Tensor::empty({})});
}

const char* halves(const Shape* inputs, Shape* outputs) {
  if (inputs[0][0] % 2) return "x[0] even";
  outputs[0] = {inputs[0][0]};
  outputs[1] = {inputs[0][0] / 2, 3};
  return nullptr;
}

int use_scratch(void** arguments) {
  halide_buffer_t& scratch = buffer_at(arguments, 3);
  EXPECT_EQ(scratch.dimensions, 2);
  EXPECT_EQ(scratch.dim[0], halide_dimension_t(0, 3, 1));
  EXPECT_EQ(scratch.dim[1], halide_dimension_t(0, 4, 3));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.host) % 256, 0u);
  EXPECT_EQ(scratch.type, halide_type_t(halide_type_float, 64));
  for (int i = 0; i < 12; ++i) reinterpret_cast<double*>(scratch.host)[i] = i;
  return 0;
}

TEST(Launch, ScratchComesFromThePoolByTheShapeRule) {
  constexpr Argument arguments[] = {{"x", Argument::Role::input, 0, DType::f32, 1, -1},
                                    {"s", Argument::Role::scratch, -1, DType::f64, 2, -1},
                                    {"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const HostKernel kernel("use_scratch", arguments, &use_scratch, &halves);
  const Tensor x = upload(ramp(8), Device::cpu());
  kernel({x}, {}, {upload(ramp(8), Device::cpu())});
  const Counters before = counters(DeviceKind::cpu);
  kernel({x}, {}, {x});
  EXPECT_EQ((counters(DeviceKind::cpu) - before).allocations, 0);
  EXPECT_THROW(kernel({upload(ramp(7), Device::cpu())}, {}, {upload(ramp(7), Device::cpu())}), ShapeError);
  EXPECT_THROW(kernel({x}, {}, {upload(ramp(9), Device::cpu())}), ShapeError);
  const HostKernel without_rule("without_rule", arguments, &use_scratch);
  EXPECT_THROW(without_rule({x}, {}, {x}), KernelError);
}

TEST(Launch, RefusesWhatDoesNotFit) {
  const Tensor x = upload(ramp(10), Device::cpu());
  const Tensor y = upload(ramp(10), Device::cpu());
  const Tensor integers(x.storage(), {10}, {1}, 0, DType::i32);
  const Tensor square(x.storage(), {3, 3}, {3, 1}, 0, DType::f32);
  const Tensor spread(x.storage(), {5}, {2}, 0, DType::f32);
  const Tensor far(x.storage(), {2}, {int64_t{1} << 33}, 0, DType::f32);
  const Tensor huge(x.storage(), {int64_t{1} << 32}, {0}, 0, DType::f32);
  for (int i = 0; i < 2; ++i) scale({x}, {1}, {y});  // what is known of this call says nothing of the others
  EXPECT_THROW(scale({integers}, {1}, {y}), DTypeError);
  EXPECT_THROW(scale({x}, {1}, {integers}), DTypeError);
  EXPECT_THROW(scale({square}, {1}, {y}), ShapeError);
  EXPECT_THROW(scale({x}, {1}, {spread}), ShapeError);
  EXPECT_THROW(scale({far}, {1}, {y}), ShapeError);
  EXPECT_THROW(scale({huge}, {1}, {y}), ShapeError);
  EXPECT_THROW(scale({Tensor()}, {1}, {y}), ValueError);
  EXPECT_THROW(scale({x}, {1}, {Tensor()}), ValueError);
  EXPECT_THROW(scale({x, x}, {1}, {y}), ValueError);
  EXPECT_THROW(scale({x}, {}, {y}), ValueError);
  EXPECT_THROW(scale({x}, {1}, {}), ValueError);
  EXPECT_EQ(download(y), ramp(10));
  for (const Device& device : memory_devices()) {
    if (device == Device::cpu()) continue;
    EXPECT_THROW(scale({upload(ramp(10), device)}, {1}, {y}), DeviceError);
    EXPECT_THROW(scale({upload(ramp(10), device)}, {1}, {upload(ramp(10), device)}), MissingKernel);
  }
}

TEST(Launch, EmptyOutputsAreDoneAndEmptyInputsRefused) {
  const Tensor nothing = Tensor::empty({0});
  const Counters before = counters(DeviceKind::cpu);
  scale({nothing}, {1}, {nothing});
  EXPECT_EQ((counters(DeviceKind::cpu) - before).launches, 0);
  EXPECT_THROW(scale({nothing}, {1}, {upload(ramp(3), Device::cpu())}), ShapeError);
}

TEST(Launch, AMissingInstanceNamesWhatWasAskedFor) {
  const Tensor x(upload(ramp(10), Device::cpu()).storage(), {10}, {1}, 0, DType::i32);
  constexpr Argument arguments[] = {{"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const HostKernel kernel("only_f32", arguments, [](void**) { return 0; });
  const std::vector<Tensor> outputs = {x};
  const KernelKey key{.elements = {DType::i32}};
  EXPECT_TRUE(has_instance(kernel.info(), KernelKey{}, DeviceKind::cpu));
  EXPECT_FALSE(has_instance(kernel.info(), key, DeviceKind::cpu));
  EXPECT_FALSE(has_instance(kernel.info(), KernelKey{}, DeviceKind::cuda));
  try {
    launch(kernel.info(), key, {}, {}, outputs);
    FAIL() << "no exception";
  } catch (const MissingKernel& error) {
    EXPECT_NE(std::string(error.what()).find("i32"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("links (cpu: f32). Convert with to(dtype)"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.operation(), "only_f32");
  }
}

TEST(Launch, AMissingTargetNamesThePropertyThatChoosesTargets) {
  for (const Device& device : memory_devices()) {
    if (device == Device::cpu()) continue;
    const Tensor y = upload(ramp(10), device);
    constexpr Argument arguments[] = {{"y", Argument::Role::output, 0, DType::f32, 1, -1}};
    const HostKernel kernel("only_cpu", arguments, [](void**) { return 0; });
    try {
      launch(kernel.info(), {}, {}, {}, std::span(&y, 1));
      FAIL() << "no exception";
    } catch (const MissingKernel& error) {
      const std::string target(name_of(device.kind)), text = error.what();
      EXPECT_NE(text.find("(cpu: f32). Link the kernels of " + target), std::string::npos) << text;
      EXPECT_NE(text.find("ASHLAR_TARGETS"), std::string::npos) << text;
    }
  }
}

TEST(Launch, AReadBeyondATensorIsTheDefinitionsMistake) {
  const Tensor y = upload(ramp(10), Device::cpu());
  constexpr Argument arguments[] = {{"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const HostKernel kernel("beyond", arguments, [](void**) { return int{halide_error_code_access_out_of_bounds}; });
  try {
    launch(kernel.info(), {}, {}, {}, std::span(&y, 1));
    FAIL() << "no exception";
  } catch (const KernelError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("check the order of its indices"), std::string::npos) << text;
    EXPECT_EQ(text.find("report"), std::string::npos) << text;
  }
}

TEST(Launch, FallsBackToTheCpuWhenToldTo) {
  set_fallback(Fallback::cpu);
  for (const Device& device : memory_devices()) {
    if (device == Device::cpu()) continue;
    const Tensor base = upload(ramp(60), device);
    const Tensor x(base.storage(), {5}, {-3}, 40, DType::f32);
    const Tensor target = upload(ramp(60), device);
    const Tensor y(target.storage(), {5}, {1}, 3, DType::f32);
    const Counters before = counters(device.kind);
    scale({x}, {2}, {y});
    EXPECT_EQ((counters(device.kind) - before).cpu_fallbacks, 1);
    std::vector<float> expected = ramp(60);
    for (size_t i = 0; i < 5; ++i) expected[3 + i] = 2.0f * (40.0f - 3.0f * static_cast<float>(i));
    EXPECT_EQ(download(target), expected);
  }
  set_fallback(Fallback::error);
}

template <int kCode>
int fail(void** arguments) {
  halide_error(context_at(arguments), "the first message.\n");
  halide_error(context_at(arguments), "a later one");
  return kCode;
}

int fail_in_parallel(void** arguments) {
  const auto piece = [](void* context, int i, uint8_t*) {
    halide_error(context, "a piece failed");
    return i % 2 ? static_cast<int>(halide_error_code_requirement_failed) : 0;
  };
  return halide_do_par_for(context_at(arguments), piece, 0, 64, nullptr);
}

int ask_for_too_much(void** arguments) {
  void* memory = halide_malloc(context_at(arguments), size_t{1} << 60);
  return memory ? 0 : halide_error_out_of_memory(context_at(arguments));
}

TEST(Launch, AFailingKernelBecomesATypedException) {
  constexpr Argument arguments[] = {{"y", Argument::Role::output, 0, DType::f32, 1, -1}};
  const Tensor y = upload(ramp(10), Device::cpu());
  const HostKernel refuses("refuses", arguments, &fail<halide_error_code_access_out_of_bounds>);
  try {
    refuses({}, {}, {y});
    FAIL() << "no exception";
  } catch (const KernelError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the first message)"), std::string::npos) << text;
    EXPECT_EQ(text.find("a later one"), std::string::npos) << text;
  }
  EXPECT_THROW(HostKernel("parallel", arguments, &fail_in_parallel)({}, {}, {y}), KernelError);
  EXPECT_THROW(HostKernel("greedy", arguments, &ask_for_too_much)({}, {}, {y}), OutOfMemory);
  EXPECT_NO_THROW(scale({y}, {1}, {y}));
}

}  // namespace
}  // namespace ashlar::testing
