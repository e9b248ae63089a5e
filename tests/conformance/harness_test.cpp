// The harness itself: it must see what is wrong.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "runtime/error.h"
#include "runtime/forms/movement.h"
#include "runtime/launch.h"
#include "tests/conformance/check.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/gradient.h"
#include "tests/conformance/inputs.h"
#include "tests/conformance/reference.h"
#include "tests/conformance/report.h"
#include "tests/runtime/host_kernel.h"

namespace ashlar::conformance {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Values, RoundToNearestEven) {
  EXPECT_EQ(rounded(1 + 0x1p-24, DType::f32), 1);
  EXPECT_EQ(rounded(1 + 3 * 0x1p-24, DType::f32), 1 + 0x1p-22);
  EXPECT_EQ(rounded(65519.0, DType::f16), 65504);
  EXPECT_EQ(rounded(65520.0, DType::f16), kInfinity);
  EXPECT_EQ(rounded(0x1p-25, DType::f16), 0);
  EXPECT_EQ(rounded(3 * 0x1p-26, DType::f16), 0x1p-24);
  EXPECT_EQ(rounded(1 + 0x1p-8, DType::bf16), 1);
  EXPECT_EQ(rounded(1 + 3 * 0x1p-8, DType::bf16), 1 + 0x1p-6);
  EXPECT_EQ(rounded(-2.7, DType::i32), -2);
  EXPECT_FALSE(std::signbit(rounded(-0.3, DType::i64)));
}

TEST(Values, EveryHalfIsStoredAndRead) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const auto stored = static_cast<uint16_t>(bits);
      const double value = load(dtype, &stored);
      if (std::isnan(value)) continue;
      EXPECT_EQ(value, rounded(value, dtype));
      uint16_t again = 0;
      store(value, dtype, &again);
      EXPECT_EQ(again, stored);
    }
  }
}

TEST(Values, PatternsAreRepresentableAndRepeatable) {
  for (const Pattern pattern : {Pattern::uniform, Pattern::integers, Pattern::distinct, Pattern::special,
                                Pattern::masked, Pattern::denormal, Pattern::huge, Pattern::tiny, Pattern::wide}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      const std::vector<double> drawn = draw({pattern}, 500, dtype, 7);
      const std::vector<double> again = draw({pattern}, 500, dtype, 7);
      int special = 0;
      for (size_t i = 0; i < drawn.size(); ++i) {
        if (std::isnan(drawn[i])) {
          ++special;
          EXPECT_TRUE(std::isnan(again[i]));
          continue;
        }
        special += std::isinf(drawn[i]);
        EXPECT_EQ(drawn[i], rounded(drawn[i], dtype));
        EXPECT_EQ(drawn[i], again[i]);
        if (pattern == Pattern::denormal) {
          EXPECT_LT(std::abs(drawn[i]), smallest_normal(dtype));
        }
      }
      EXPECT_EQ(special > 0, pattern == Pattern::special || pattern == Pattern::masked);
    }
  }
}

std::string verdict(double got, double expected, Tolerance tolerance, DType dtype, double magnitude = 0) {
  Expected reference{{1}, {expected}};
  if (magnitude > 0) reference.magnitudes = {magnitude};
  return compare({{1}, {got}, dtype}, reference, nullptr, tolerance, dtype);
}

TEST(Compare, SeesWrongNumbers) {
  EXPECT_EQ(verdict(1 + 0x1p-23, 1, ulps(1), DType::f32), "");
  EXPECT_NE(verdict(1 + 0x1p-22, 1, ulps(1), DType::f32), "");
  EXPECT_NE(verdict(1.001, 1, ulps(1), DType::f64), "");
  EXPECT_NE(verdict(kNaN, 1, ulps(1e9), DType::f32), "");
  EXPECT_NE(verdict(1, kNaN, ulps(1e9), DType::f32), "");
  EXPECT_NE(verdict(kInfinity, 1e30, ulps(4), DType::f32), "");
  EXPECT_NE(verdict(kInfinity, -kInfinity, ulps(4), DType::f32), "");
  EXPECT_EQ(verdict(kInfinity, 1e6, ulps(4), DType::f16), "");
  EXPECT_EQ(verdict(kNaN, kNaN, ulps(0), DType::f16), "");
  EXPECT_EQ(verdict(1.00001, 1, terms(), DType::f32, 2), "");
  EXPECT_NE(verdict(1.00003, 1, terms(), DType::f32, 2), "");
  EXPECT_NE(verdict(1.00001, 1, terms(), DType::f64, 2), "");
  EXPECT_NE(verdict(-0.0, 0.0, kExact, DType::f32), "");
  EXPECT_NE(verdict(-0.0, 0.0, ulps(0), DType::f32), "");
  EXPECT_NE(verdict(0.0, -0.0, ulps(0), DType::f16), "");
  EXPECT_EQ(verdict(-0.0, 0.0, ulps(1), DType::f32), "");
  EXPECT_EQ(verdict(-0.0, -0x1p-140, ulps(0), DType::f32), "");
  EXPECT_NE(verdict(0.0, -0x1p-140, ulps(0), DType::f32), "");
  for (const Tolerance tolerance : {terms(), ulps(4)}) {
    EXPECT_NE(verdict(5, 1, tolerance, DType::f32, kInfinity), "");
    EXPECT_EQ(verdict(1, 1, tolerance, DType::f32, kInfinity), "");
    EXPECT_NE(compare({{1}, {5}, DType::f32}, {{1}, {1}, {kNaN}}, nullptr, tolerance, DType::f32), "");
  }
}

TEST(Compare, SeesWrongShapesAndTypes) {
  const Expected expected{{2, 1}, {1, 2}};
  EXPECT_EQ(compare({{2, 1}, {1, 2}, DType::f32}, expected, nullptr, kExact, DType::f32), "");
  EXPECT_NE(compare({{2}, {1, 2}, DType::f32}, expected, nullptr, kExact, DType::f32), "");
  EXPECT_NE(compare({{2, 1}, {1, 2}, DType::f16}, expected, nullptr, kExact, DType::f32), "");
}

TEST(Inputs, LayoutsHoldTheSameElements) {
  for (const Layout layout : {Layout::dense, Layout::offset, Layout::transposed, Layout::stepped, Layout::flipped,
                              Layout::broadcast_first, Layout::broadcast_last}) {
    const Made made = make({.shape = {3, 4}, .layout = layout}, DType::f32, Device::cpu(), 1);
    EXPECT_EQ(made.tensor.shape(), made.host.shape);
    EXPECT_EQ(download(made.tensor).values, made.host.values);
    EXPECT_EQ(made.tensor.is_contiguous(), layout == Layout::dense || layout == Layout::offset);
  }
}

Case doubling(std::function<std::vector<Tensor>(Tensors)> call) {
  return {.kernel = "doubling",
          .name = "7",
          .inputs = {{.shape = {7}}},
          .call = std::move(call),
          .reference = [](HostTensors x) { return std::vector{pointwise(x[0], [](double v) { return 2 * v; })}; },
          .tolerance = ulps(1)};
}

std::vector<float> twice(const Tensor& x) {
  std::vector<float> values = x.to_vector<float>();
  for (float& v : values) v *= 2;
  return values;
}

TEST(Check, SeesWrongResultsChangedInputsAndChance) {
  const auto run = [](auto call) { return check_result(doubling(call), DType::f32, Device::cpu()); };
  EXPECT_EQ(run([](Tensors x) { return std::vector{Tensor::from(twice(x[0]), {7})}; }), "");
  EXPECT_NE(run([](Tensors x) { return std::vector{x[0]}; }), "");
  EXPECT_NE(run([](Tensors) { return std::vector<Tensor>{}; }), "");
  EXPECT_NE(run([](Tensors x) {
              const std::vector<float> values = twice(x[0]);
              static_cast<float*>(x[0].data())[3] += 1;
              return std::vector{Tensor::from(values, {7})};
            }),
            "");
  int calls = 0;
  EXPECT_NE(run([&calls](Tensors x) {
              std::vector<float> values = twice(x[0]);
              if (++calls == 2) values[2] = std::nextafter(values[2], 100.0F);
              return std::vector{Tensor::from(values, {7})};
            }),
            "");
}

TEST(Check, SeesAChangedInputOfAnySize) {
  Case item = doubling({});
  item.inputs = {{.shape = {200'003}, .layout = Layout::stepped}};
  bool between = false;
  item.call = [&between](Tensors x) {
    HostTensor y = download(x[0]);
    for (double& v : y.values) v *= 2;
    // The last element, or the memory before it.
    static_cast<float*>(x[0].data())[2 * 200'002 - (between ? 1 : 0)] = 5;
    return std::vector{upload(y, Device::cpu())};
  };
  EXPECT_EQ(check_result(item, DType::f32, Device::cpu()), "input 0 was changed");
  between = true;
  EXPECT_EQ(check_result(item, DType::f32, Device::cpu()), "input 0 was changed");
}

TEST(Check, SeesThatAnInPlaceCallChangedWhatItOnlyReads) {
  bool both = false;
  Case item = doubling([&both](Tensors x) {
    for (int i = 0; i < (both ? 2 : 1); ++i) {
      auto* values = static_cast<float*>(x[i].data());
      for (int at = 0; at < 7; ++at) values[at] *= 2;
    }
    return std::vector{x[0]};
  });
  item.inputs.push_back({.shape = {7}});
  item.in_place = true;
  EXPECT_EQ(check_result(item, DType::f32, Device::cpu()), "");
  both = true;
  EXPECT_EQ(check_result(item, DType::f32, Device::cpu()), "input 1 was changed");
}

// A compiled kernel that is told of an output larger than its storage writes beyond it.
TEST(Check, SeesWritesBesideAnOutputOnEveryDevice) {
  for (const Device device : Device::available()) {
    const auto run = [device](int64_t before, int64_t behind) {
      Case item = doubling([device, before, behind](Tensors) {
        const Tensor y = Tensor::empty({7}, DType::f32, device);
        const Tensor larger(y.storage(), {before + 28 + behind}, {1}, -before, DType::u8);
        launch(kernels::fill, {.elements = {DType::u8}}, {}, std::array{Scalar(0)}, std::array{larger});
        return std::vector{y};
      });
      item.reference = [](HostTensors x) { return std::vector{Expected{x[0].shape, std::vector<double>(7)}}; };
      return check_result(item, DType::f32, device);
    };
    EXPECT_EQ(run(0, 0), "") << device.str();
    EXPECT_NE(run(0, 1).find("bytes [0, 1) of the 4096 behind the last"), std::string::npos) << device.str();
    EXPECT_NE(run(4096, 0).find("bytes [0, 4096) of the 4096 before the first"), std::string::npos) << device.str();
  }
}

// y = 2x by way of a scratch buffer of 28 bytes, one of whose neighbours it writes where asked.
int doubling_through_scratch(void** arguments) {
  const auto floats = [arguments](int i) { return reinterpret_cast<float*>(testing::buffer_at(arguments, i).host); };
  const float *x = floats(1), offset = *static_cast<const float*>(arguments[2]);
  float *y = floats(3), *scratch = floats(4);
  for (int i = 0; i < 7; ++i) scratch[i] = 2 * x[i];
  for (int i = 0; i < 7; ++i) y[i] = scratch[i];
  if (offset != 0) reinterpret_cast<char*>(scratch)[static_cast<int>(offset)] = 0;
  return 0;
}

TEST(Check, SeesWritesBesideScratch) {
  static constexpr Argument kArguments[] = {{"x", Argument::Role::input, 0, DType::f32, 1, -1},
                                            {"offset", Argument::Role::scalar, -1, DType::f32, 0, -1},
                                            {"y", Argument::Role::output, 0, DType::f32, 1, -1},
                                            {"part", Argument::Role::scratch, 0, DType::f32, 1, -1}};
  const auto shapes = [](const Shape* inputs, Shape* outputs) -> const char* {
    outputs[0] = outputs[1] = inputs[0];
    return nullptr;
  };
  const testing::HostKernel kernel("doubling", kArguments, doubling_through_scratch, shapes);
  const auto run = [&kernel](int offset) {
    return check_result(doubling([&kernel, offset](Tensors x) {
                          const Tensor y = Tensor::empty({7});
                          kernel({x[0]}, {Scalar(offset)}, {y});
                          return std::vector{y};
                        }),
                        DType::f32, Device::cpu());
  };
  EXPECT_EQ(run(0), "");
  EXPECT_NE(run(-1).find("bytes [4095, 4096) of the 4096 before the first"), std::string::npos) << run(-1);
  EXPECT_NE(run(28).find("bytes [0, 1) of the 4096 behind the last"), std::string::npos) << run(28);
}

TEST(Check, SeesAnElementThatNobodyWrote) {
  const std::string report = check_result(doubling([](Tensors x) {
                                            const Tensor y = Tensor::empty({7});
                                            const std::vector<float> values = twice(x[0]);
                                            std::copy_n(values.data(), 6, static_cast<float*>(y.data()));
                                            return std::vector{y};
                                          }),
                                          DType::f32, Device::cpu());
  EXPECT_NE(report.find("1 of 7 elements are wrong"), std::string::npos) << report;
}

TEST(Gradient, SeesWrongOnes) {
  const auto run = [](float slope) {
    Case item = doubling([](Tensors x) { return std::vector{Tensor::from(twice(x[0]), {7})}; });
    item.differentiable = [slope](Vars x) {
      return record("doubling", {x[0]}, Tensor::from(twice(x[0].value()), {7}), [slope](const Tensor& dy) {
        std::vector<float> dx = dy.to_vector<float>();
        for (float& v : dx) v *= slope;
        return std::vector{Tensor::from(dx, {7})};
      });
    };
    return check_gradient(item, DType::f32, Device::cpu());
  };
  EXPECT_EQ(run(2), "");
  EXPECT_NE(run(2.01F), "");
  EXPECT_NE(run(std::numeric_limits<float>::quiet_NaN()), "");
}

TEST(Report, OneFailureTakesTheMarkAway) {
  DeviceRun run;
  run.target = "cpu";
  run.add("exp", "f32", "exp.1", false, Outcome::passed, "");
  run.add("exp", "f16", "exp.2", false, Outcome::failed, "");
  run.add("exp", "f16", "exp.3", true, Outcome::passed, "");
  run.add("log", "f32", "log.1", false, Outcome::skipped, "no device");
  const std::string table = support_table({run});
  EXPECT_NE(table.find("| exp | f32 ✗f16 | ✓ |"), std::string::npos) << table;
  EXPECT_EQ(table.find("log"), std::string::npos) << table;
  EXPECT_NE(status_table({run}).find("| 2 | 1 | 1 |"), std::string::npos) << status_table({run});
}

TEST(Cases, MustBeCompleteAndUnique) {
  EXPECT_THROW(add_case({.kernel = "doubling", .name = "nothing to call"}), ValueError);
  const Case item = doubling([](Tensors x) { return std::vector{x[0]}; });
  add_case(item);
  EXPECT_THROW(add_case(item), ValueError);
}

}  // namespace
}  // namespace ashlar::conformance
