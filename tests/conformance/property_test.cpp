// The random property test itself: what it draws, and that it finds what is wrong.
#include "tests/conformance/property.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/support/error.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/inputs.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

Case of_two_shapes() {
  return {.kernel = "of_two_shapes",
          .name = "template",
          .inputs = {{.shape = {5, 1, 7}}, {.shape = {7, 9}}, {.shape = {5}, .values = {Pattern::integers, 0, 8}}},
          .call = [](Tensors x) { return std::vector{x[0]}; },
          .reference =
              [](HostTensors x) {
                return std::vector{Expected{x[0].shape, x[0].values}};
              },
          .differentiable = [](Vars x) { return x[0]; }};
}

TEST(Draw, EqualExtentsStayEqualAndSeedsRepeat) {
  Case item = of_two_shapes();
  item.inputs[2].index_of = AxisOf{1, 1};
  const std::vector<Case> all{item};
  const Drawer drawer(all);
  std::set<int64_t> extents;
  int gradients = 0, large = 0, empty = 0, views = 0;
  constexpr int kDraws = 2000;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    const Draw draw = drawer.draw(seed);
    EXPECT_EQ(draw.describe(), drawer.draw(seed).describe());
    const std::vector<Input>& inputs = draw.item.inputs;
    EXPECT_EQ(inputs[0].shape[1], 1);
    EXPECT_EQ(inputs[0].shape[2], inputs[1].shape[0]);
    EXPECT_EQ(inputs[0].shape[0], inputs[2].shape[0]);
    EXPECT_EQ(inputs[2].values.high, static_cast<double>(inputs[1].shape[1] - 1));
    int64_t most = 0;
    for (const Input& input : inputs) {
      most = std::max(most, input.shape.numel());
      views += input.placement.has_value();
    }
    EXPECT_LE(most, int64_t{1} << 22);
    large += most > 4096;
    empty += most > 0 && std::ranges::any_of(inputs, [](const Input& input) { return input.shape.numel() == 0; });
    gradients += draw.gradient;
    extents.insert(inputs[1].shape[1]);
  }
  EXPECT_LE(large, kDraws * 7 / 100);
  EXPECT_GE(large, kDraws * 2 / 100);
  EXPECT_GE(empty, kDraws / 100);
  EXPECT_GE(gradients, kDraws / 4);
  EXPECT_GE(views, kDraws);
  for (const int64_t wanted : {0, 1, 2, 13, 31, 32, 33, 127, 129, 1023})
    EXPECT_TRUE(extents.contains(wanted)) << wanted;
}

TEST(Draw, FixedShapesStay) {
  Case item = of_two_shapes();
  item.fixed_shapes = true;
  const std::vector<Case> all{item};
  const Drawer drawer(all);
  for (uint64_t seed = 0; seed < 50; ++seed) EXPECT_EQ(drawer.draw(seed).item.inputs[1].shape, (Shape{7, 9}));
}

TEST(Draw, ViewsHoldTheSameElements) {
  const std::vector<Case> all{of_two_shapes()};
  const Drawer drawer(all);
  std::set<std::string> kinds;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Draw draw = drawer.draw(seed);
    for (const Input& input : draw.item.inputs) {
      if (input.shape.numel() > 4096) continue;
      const Made made = make(input, DType::f32, Device::cpu(), seed);
      EXPECT_EQ(made.tensor.shape(), input.shape);
      EXPECT_EQ(download(made.tensor).values, made.host.values);
      if (made.tensor.offset() % 2 != 0) kinds.insert("odd offset");
      for (int axis = 0; axis < input.shape.rank(); ++axis) {
        const int64_t stride = made.tensor.strides()[axis];
        if (input.shape[axis] < 2) continue;
        kinds.insert(stride == 0 ? "broadcast" : stride < 0 ? "flipped" : "forward");
        if (axis == 0 && stride == 1 && input.shape.rank() > 1) kinds.insert("permuted");
        if (axis == input.shape.rank() - 1 && stride > 1) kinds.insert("stepped");
      }
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"odd offset", "broadcast", "flipped", "forward", "permuted", "stepped"}));
}

// Doubles, but for what `spoil` does with the values.
Case doubling(const std::string& kernel, std::function<void(std::vector<float>&)> spoil) {
  return {.kernel = kernel,
          .name = "5",
          .inputs = {{.shape = {5}}},
          .dtypes = {DType::f32},
          .call =
              [spoil](Tensors x) {
                std::vector<float> values = x[0].to_vector<float>();
                for (float& v : values) v *= 2;
                spoil(values);
                return std::vector{Tensor::from(values, x[0].shape())};
              },
          .reference = [](HostTensors x) { return std::vector{pointwise(x[0], [](double v) { return 2 * v; })}; },
          .tolerance = ulps(1)};
}

// The failures and what was printed.
std::pair<int, std::string> run(const std::string& kernel, int64_t draws = 300, uint64_t seed = 1) {
  PropertyRun run;
  run.draws = draws;
  run.seed = seed;
  run.wanted = [&](const std::string& name) { return name == kernel; };
  run.ways = [](const std::string&, DType, DeviceKind) { return std::vector<Way>(1); };
  run.program = "conformance";
  testing::internal::CaptureStdout();
  const int failures = run_draws(run, Device::cpu());
  return {failures, testing::internal::GetCapturedStdout()};
}

TEST(Property, PassesWhatIsRight) {
  add_case(doubling("property_right", [](std::vector<float>&) {}));
  const auto [failures, text] = run("property_right");
  EXPECT_EQ(failures, 0) << text;
  EXPECT_NE(text.find("--draws 300 --seed 1"), std::string::npos) << text;
}

TEST(Property, FindsAnErrorAtOneEdgeAndMakesItSmall) {
  add_case(doubling("property_edge", [](std::vector<float>& values) {
    if (values.size() > 32 && values.size() % 32 == 1) values.back() = 0;
  }));
  const auto [failures, text] = run("property_edge");
  ASSERT_GE(failures, 1) << text;
  EXPECT_NE(text.find("f32[33] dense"), std::string::npos) << text;

  // The command that is printed repeats that draw alone.
  const std::string command = "conformance --devices cpu --draws 1 --seed ";
  const size_t at = text.find("repeat: " + command);
  ASSERT_NE(at, std::string::npos) << text;
  const uint64_t seed = std::stoull(text.substr(at + 8 + command.size()));
  EXPECT_EQ(run("property_edge", 1, seed).first, 1);
}

TEST(Property, ARefusalMustBeTheReferencesToo) {
  const auto refuse = [](const Shape& shape) {
    if (shape.numel() == 0) throw ShapeError("doubling", "nothing", "something", "Don't");
  };
  for (const bool agreed : {false, true}) {
    const std::string kernel = agreed ? "property_refuses" : "property_refuses_alone";
    Case item = doubling(kernel, [](std::vector<float>&) {});
    item.call = [refuse, call = item.call](Tensors x) {
      refuse(x[0].shape());
      return call(x);
    };
    if (agreed) {
      item.reference = [refuse, reference = item.reference](HostTensors x) {
        refuse(x[0].shape);
        return reference(x);
      };
    }
    add_case(item);
    const auto [failures, text] = run(kernel);
    EXPECT_EQ(failures > 0, !agreed) << text;
    EXPECT_EQ(text.find(" 0 refused") != std::string::npos, !agreed) << text;
  }
  // Nor may it take what it must refuse.
  Case item = doubling("property_takes_all", [](std::vector<float>&) {});
  item.reference = [refuse, reference = item.reference](HostTensors x) {
    refuse(x[0].shape);
    return reference(x);
  };
  add_case(item);
  EXPECT_GE(run("property_takes_all").first, 1);
}

}  // namespace
}  // namespace ashlar::conformance
