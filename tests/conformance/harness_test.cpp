// The harness itself: it must see what is wrong.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include "ashlar/ops.h"
#include "autograd/node.h"
#include "runtime/forms/library.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "tests/conformance/changed.h"
#include "tests/conformance/check.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/cover.h"
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

TEST(Check, WorksTheReferenceOutOnceAndSeesWhatALaterWayGetsWrong) {
  int references = 0;
  bool is_wrong = false, writes = false;
  Case item = doubling([&](Tensors x) {
    std::vector<float> values = twice(x[0]);
    if (is_wrong) values[6] += 1;
    if (writes) static_cast<float*>(x[0].data())[3] = 5;
    return std::vector{Tensor::from(values, {7})};
  });
  item.reference = [&references, reference = item.reference](HostTensors x) {
    ++references;
    return reference(x);
  };
  DrawnCase drawn(item, DType::f32);
  ResultCheck check(drawn);
  EXPECT_EQ(check(Device::cpu()), "");
  is_wrong = true;
  EXPECT_NE(check(Device::cpu()), "");
  is_wrong = false, writes = true;
  EXPECT_EQ(check(Device::cpu()), "input 0 was changed");
  writes = false;
  EXPECT_EQ(check(Device::cpu()), "");
  EXPECT_EQ(references, 1);
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

TEST(Gradient, WorksDifferencesOutOnceAndSeesWhatALaterWayGetsWrong) {
  int references = 0;
  float slope = 2;
  Case item = doubling([](Tensors x) { return std::vector{Tensor::from(twice(x[0]), {7})}; });
  item.reference = [&references, reference = item.reference](HostTensors x) {
    ++references;
    return reference(x);
  };
  item.differentiable = [&slope](Vars x) {
    return record("doubling", {x[0]}, Tensor::from(twice(x[0].value()), {7}), [&slope](const Tensor& dy) {
      std::vector<float> dx = dy.to_vector<float>();
      for (float& v : dx) v *= slope;
      return std::vector{Tensor::from(dx, {7})};
    });
  };
  DrawnCase drawn(item, DType::f32);
  GradientsCheck check(drawn, {.twice = false});
  EXPECT_EQ(check(Device::cpu()), "");
  const int first = references;
  slope = 2.01F;
  EXPECT_NE(check(Device::cpu()), "");
  slope = 2;
  EXPECT_EQ(check(Device::cpu()), "");
  EXPECT_EQ(references, first);
}

TEST(Gradient, SeesChangedInputsAndChance) {
  int passes = 0;
  bool by_chance = false, writes = false;
  Case item = doubling([](Tensors x) { return std::vector{Tensor::from(twice(x[0]), {7})}; });
  item.differentiable = [&](Vars x) {
    const Tensor y = Tensor::from(twice(x[0].value()), {7});
    if (writes) static_cast<float*>(x[0].value().data())[3] = 5;
    return record("doubling", {x[0]}, y, [&](const Tensor& dy) {
      std::vector<float> dx = twice(dy);
      if (by_chance && ++passes == 2) dx[2] = std::nextafter(dx[2], 100.0F);
      return std::vector{Tensor::from(dx, {7})};
    });
  };
  const auto run = [&] { return check_gradient(item, DType::f32, Device::cpu()); };
  EXPECT_EQ(run(), "");
  by_chance = true;
  EXPECT_EQ(run(), "the gradient of input 0 differs between two calls with the same inputs");
  by_chance = false, writes = true;
  EXPECT_EQ(run(), "input 0 was changed");
}

// x², whose slope is right; its slope's slope is `second`, and its slope's by dy `by_dy` x.
TEST(Gradient, SeesWrongSecondOnes) {
  const auto run = [](double second, double by_dy) {
    Case item = doubling([](Tensors x) { return std::vector{mul(x[0], x[0])}; });
    item.reference = [](HostTensors x) { return std::vector{pointwise(x[0], [](double v) { return v * v; })}; };
    const auto slope = [=](const Var& dy, const Var& x) {
      const Tensor dx = affine(mul(dy.value(), x.value()), 2, 0);
      return record("slope", {dy, x}, dx, [=, dy_ = save(dy), x_ = save(x)](const Tensor& ddx) {
        return std::vector{affine(mul(ddx, x_.get()), by_dy, 0), affine(mul(ddx, dy_.get()), second, 0)};
      });
    };
    item.differentiable = [=](Vars x) {
      return record("square", {x[0]}, mul(x[0].value(), x[0].value()), [=, x_ = save_input(0, x[0])](const auto& pass) {
        if constexpr (std::is_same_v<std::decay_t<decltype(pass.dy())>, Var>) {
          return pass.gradients(slope(pass.dy(), pass.get(x_)));
        } else {
          return pass.gradients(affine(mul(pass.dy(), pass.get(x_)), 2, 0));
        }
      });
    };
    return check_gradient(item, DType::f32, Device::cpu());
  };
  EXPECT_EQ(run(2, 2), "");
  EXPECT_NE(run(2.01, 2).find("input 0"), std::string::npos);
  EXPECT_NE(run(2, 2.01).find("weight"), std::string::npos);
  EXPECT_NE(run(std::numeric_limits<double>::quiet_NaN(), 2), "");
}

int nothing(void**) { return 0; }

/// A kernel that is compiled for CUDA, with two GPU functions and two cases in two element types.
struct Linked {
  static constexpr uint32_t kKeys[] = {static_cast<uint32_t>(DType::f32), static_cast<uint32_t>(DType::f16)};
  KernelInstance instances[2] = {{kKeys[0], nothing, "a", "", "one two"}, {kKeys[1], nothing, "b", "", "one"}};
  TargetTable table{instances, 2, nullptr, 0, 7};
  KernelInfo info{kTablesVersion, "linked", "", &form_of<forms::Pointwise>, {}, {}, 1, nullptr, nullptr, {}};
  const KernelInfo* list[1] = {&info};

  Linked() {
    info.targets[static_cast<size_t>(CodeTarget::cuda)] = &table;
    static bool added = false;
    if (std::exchange(added, true)) return;
    for (const char* name : {"1", "2"}) {
      Case item = doubling([](Tensors x) { return std::vector{x[0]}; });
      item.kernel = "linked";
      item.name = name;
      item.dtypes = {DType::f32, DType::f16};
      item.differentiable = [](Vars x) { return x[0]; };
      item.gradient_dtypes = {DType::f32};
      add_case(item);
    }
  }

  /// A run of all its tests but those whose name contains `left_out`.
  DeviceRun run(const std::string& left_out = "nothing") const {
    DeviceRun run;
    run.revision = "1234567";
    run.date = "2026-11-22T01:00:00Z";
    run.target = "cuda";
    run.description = "a GPU";
    for (const Job& job : jobs_on(Device::cuda(), list)) {
      if (job.item->kernel != "linked" || job.test().find(left_out) != std::string::npos) continue;
      run.add("linked", std::string(name_of(job.dtype)), job.test(), job.fingerprint(), job.gradient, Outcome::passed,
              "");
      (job.gradient ? run.kernels["linked"].gradients_ran : run.kernels["linked"].ran)["linked cuda"] = 7;
    }
    return run;
  }
  std::string row(const std::vector<DeviceRun>& runs) const {
    const std::string table = support_table(runs, Expectation(list));
    const size_t at = table.find("| linked");
    return table.substr(at, table.find('\n', at) - at);
  }
};

TEST(Report, OneFailureTakesTheMarkAway) {
  const Linked linked;
  DeviceRun run = linked.run();
  EXPECT_EQ(linked.row({run}), "| linked | f32 f16 | ✓ |");
  EXPECT_NE(status_table({run}, Expectation(linked.list)).find("| 1234567 | 2026-11-22 | 6 | 0 | 0 | 0 | none |"),
            std::string::npos);
  run.add("linked", "f16", "linked.3", 3, false, Outcome::failed, "");
  run.add("linked", "f32", "linked.4", 4, true, Outcome::failed, "");
  run.add("linked", "f32", "linked.5", 5, false, Outcome::skipped, "no device");
  EXPECT_EQ(linked.row({run}), "| linked | f32 ✗f16 | ✗ (CUDA) |");
  EXPECT_NE(status_table({run}, Expectation(linked.list)).find("| 6 | 2 | 1 |"), std::string::npos);
  EXPECT_NE(status_table({run}, Expectation(linked.list)).find("failed: linked.3"), std::string::npos);
  DeviceRun again = linked.run();
  again.date = "2026-11-22T02:00:00Z";
  EXPECT_EQ(status_table({run, again}, Expectation(linked.list)).find("failed: "), std::string::npos);
}

TEST(Report, ChangedCodeIsStale) {
  Linked linked;
  const DeviceRun run = linked.run();
  linked.table.code_hash = 8;
  EXPECT_EQ(linked.row({run}), "| linked | f32 f16 (stale) | (CUDA: stale) |");
  EXPECT_NE(status_table({run}, Expectation(linked.list)).find("| all 1 |"), std::string::npos);
  EXPECT_EQ(to_run_again({run}, "cuda", Expectation(linked.list)), std::set<std::string>{"linked"});
  DeviceRun again = run;
  again.date = "2026-11-22T02:00:00Z";
  again.kernels["linked"].ran["linked cuda"] = again.kernels["linked"].gradients_ran["linked cuda"] = 8;
  for (const auto& runs : {std::vector{run, again}, {again, run}}) {
    EXPECT_EQ(linked.row(runs), "| linked | f32 f16 | ✓ |");
    EXPECT_EQ(to_run_again(runs, "cuda", Expectation(linked.list)), std::set<std::string>{});
  }
  again.kernels["linked"].ran.clear();  // nothing says what ran
  EXPECT_EQ(linked.row({run, again}), "| linked | f32 f16 (stale) | ✓ |");
}

TEST(Report, APartOfTheTestsIsNoMark) {
  const Linked linked;
  EXPECT_EQ(linked.row({linked.run("2/f16")}), "| linked | f32 ?f16 | ✓ |");
  EXPECT_EQ(linked.row({linked.run("f16")}), "| linked | f32 ?f16 | ✓ |");
  EXPECT_EQ(linked.row({linked.run("1/gradient/f32")}), "| linked | f32 f16 | (CUDA: not all ran) |");
  EXPECT_EQ(to_run_again({linked.run("2/f16")}, "cuda", Expectation(linked.list)), std::set<std::string>{"linked"});
  // As many tests as there are, but not these.
  DeviceRun run = linked.run("2/f16");
  run.add("linked", "f16", "linked.gone", 99, false, Outcome::passed, "");
  EXPECT_EQ(linked.row({run}), "| linked | f32 ?f16 | ✓ |");
  EXPECT_NE(status_table({run}, Expectation(linked.list)).find("| all 1 |"), std::string::npos);
  // A run without the kernel.
  run.kernels.clear();
  EXPECT_EQ(linked.row({run}), "| linked | ?f32 ?f16 | (CUDA: not all ran) |");
}

TEST(Report, ResultsComeBackAsTheyWere) {
  const Linked linked;
  const std::string file = ::testing::TempDir() + "/results.json";
  write_results(file, {linked.run("2/f16")});
  EXPECT_EQ(linked.row(read_results(file)), linked.row({linked.run("2/f16")}));
  std::ofstream(file) << R"([{"target": "cuda", "kernels": {"linked": {"f32": true}}}])";  // no hash, no numbers
  EXPECT_THROW(read_results(file), DataError);
}

TEST(Report, PartsOfARunAreTheWholeOfIt) {
  const Linked linked;
  const std::vector<DeviceRun> all = joined({linked.run(".1/"), linked.run(".2/")});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(linked.row(all), linked.row({linked.run()}));
  EXPECT_EQ(all[0].passed, linked.run().passed);
  EXPECT_EQ(linked.row({linked.run(".1/")}), "| linked | ?f32 ?f16 | (CUDA: not all ran) |");
  DeviceRun elsewhere = linked.run(".2/");
  elsewhere.description = "another GPU";
  EXPECT_EQ(joined({linked.run(".1/"), elsewhere}).size(), 2U);
}

TEST(Changed, LeavesOutWhatNoChosenCaseLaunches) {
  const Linked linked;
  KernelInfo called = linked.info, other = linked.info, moving = linked.info;
  called.name = "called", other.name = "other", moving.name = "moving", moving.form = &form_of<forms::Movement>;
  const KernelInfo* list[] = {&linked.info, &called, &other, &moving};
  DeviceRun run = linked.run();
  run.kernels["linked"].gradients_ran["called opencl"] = 1;
  const auto left_out = [&](const std::vector<DeviceRun>& runs, const char* table) {
    return tables_left_out({{"cuda", {"linked"}}}, runs, list).find(table) != std::string::npos;
  };
  EXPECT_TRUE(left_out({run}, " ashlar_other_cuda{}"));
  EXPECT_TRUE(left_out({run}, " ashlar_linked_cpu_avx2{}"));
  for (const char* kept : {"linked_cuda", "called_cuda", "moving_cuda", "moving_cpu{"}) {
    EXPECT_FALSE(left_out({run}, kept)) << kept;
  }
  EXPECT_FALSE(left_out({}, "other_cuda")) << "nothing says what the cases launch";
}

TEST(Cover, IsCheapAndReachesEverything) {
  const Linked linked;
  const std::vector<DeviceFunction> all = device_functions(linked.list, DeviceKind::cuda);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].str(), "linked f32 (cuda) two");
  const std::vector<Reach> reaches{
      {"small", 0.1, {all[0]}}, {"large", 9.0, {all[0], all[1]}}, {"middle", 1.0, {all[1]}}, {"other", 0.5, {}}};
  const auto chosen = [&](int times) {
    std::vector<std::string> names;
    for (const Reach& reach : cheapest_cover(reaches, all, times).tests) names.push_back(reach.test);
    return names;
  };
  EXPECT_EQ(chosen(1), (std::vector<std::string>{"middle", "small"}));
  EXPECT_EQ(chosen(2), (std::vector<std::string>{"large", "middle", "small"}));
  EXPECT_EQ(cheapest_cover(reaches, all, 1).missed, std::vector{all[2]});
}

TEST(Cases, MustBeCompleteAndUnique) {
  EXPECT_THROW(add_case({.kernel = "doubling", .name = "nothing to call"}), ValueError);
  const Case item = doubling([](Tensors x) { return std::vector{x[0]}; });
  add_case(item);
  EXPECT_THROW(add_case(item), ValueError);
}

}  // namespace
}  // namespace ashlar::conformance
