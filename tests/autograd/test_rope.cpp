// Offsets of rotary position embeddings that lie on the device.
#include <gtest/gtest.h>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Doubles = std::vector<double>;

class Rope : public testing::OnDevice {
 protected:
  Tensor offsets(const std::vector<int64_t>& values) {
    return Tensor::from(values, {static_cast<int64_t>(values.size())}, device());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Rope, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Rope, OffsetsAreThoseOfTheHost) {
  const Tensor x = numbers({3, 2, 5, 8});
  for (const bool interleaved : {false, true}) {
    const auto turned = [&](const Tensor& of, int64_t offset, const Tensor& at) {
      return rope(of, 10000, offset, interleaved, -2, false, at).to_doubles();
    };
    const Doubles expected = turned(x, 7, {});
    EXPECT_EQ(turned(x, 0, offsets({7})), expected);
    EXPECT_EQ(turned(x, 3, offsets({4})), expected);
    EXPECT_EQ(turned(x, 0, offsets({7, 7, 7}).to(DType::i32)), expected);
    EXPECT_EQ(turned(x, 0, Tensor::full({}, 7, DType::i64, device())), expected);
    const Doubles all = turned(x, 0, offsets({1, 200, 0}));
    for (int64_t b = 0; b < 3; b++) {
      const Doubles one = turned(x.select(0, b), std::array<int64_t, 3>{1, 200, 0}[static_cast<size_t>(b)], {});
      for (size_t i = 0; i < one.size(); i++) EXPECT_EQ(all[static_cast<size_t>(b) * one.size() + i], one[i]);
    }
  }
}

TEST_P(Rope, GradientsTurnBack) {
  const Var x(numbers({2, 5, 8}), true);
  const Tensor dy = numbers({2, 5, 8}), at = offsets({3, 40});
  const Var y = ad::rope(x, 10000, 0, false, -2, false, at);
  EXPECT_EQ(grad({y}, {x}, {Var(dy)})[0].value().to_doubles(), rope(dy, 10000, 0, false, -2, true, at).to_doubles());
}

TEST_P(Rope, ReplaysReadNewOffsets) {
  const Tensor x = numbers({2, 1, 8}), at = offsets({0, 0});
  Tensor y;
  const Graph graph = capture(device(), [&] { y = rope(x, 10000, 0, false, -2, false, at); });
  for (const auto& [first, second] : {std::pair<int64_t, int64_t>{0, 0}, {5, 9}, {1000, 1}}) {
    at.copy_(offsets({first, second}));
    graph.replay();
    const Doubles got = y.to_doubles();
    for (int64_t b = 0; b < 2; b++) {
      const Doubles one = rope(x.select(0, b), 10000, b == 0 ? first : second).to_doubles();
      for (size_t i = 0; i < one.size(); i++) EXPECT_EQ(got[static_cast<size_t>(b) * one.size() + i], one[i]);
    }
  }
}

TEST_P(Rope, WrongOffsetsSayWhatIsNeeded) {
  const Tensor x = numbers({3, 5, 8});
  const auto turn = [&](const Tensor& at, int64_t axis = -2) { rope(x, 10000, 0, false, axis, false, at); };
  expect_error<ShapeError>([&] { turn(offsets({1, 2})); }, {"rope", "one for each index of axis 0"});
  expect_error<ShapeError>([&] { turn(offsets({1, 2, 3}), 0); }, {"rope", "axis 0"});
  expect_error<ShapeError>([&] { turn(offsets({1}).reshape({1, 1})); }, {"rope"});
  expect_error<DTypeError>([&] { turn(numbers({1})); }, {"rope", "i64 or i32"});
}

}  // namespace
}  // namespace ashlar
