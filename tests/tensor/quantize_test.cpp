// 8-bit integers by hand, and what is refused.
#include "ashlar/ops/quantize.h"

#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;

class Quantize : public testing::OnDevice {
 protected:
  Tensor tensor(const std::vector<float>& values, const Shape& shape) const {
    return Tensor::from(values, shape).to(device());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Quantize, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Quantize, RoundsToEvenPartsOfTheLargest) {
  // Blocks whose largest are 127, 2 and 0, and one with a number so small that 127 parts of it are 0 or none.
  const Tensor x =
      tensor({127, -63.5F, 0.5F, 1.5F, -2, 1, 0.5F, 0.25F, 0, -0.0F, 0, 0, 2e-37F, -2e-37F, 1e-37F, 0}, {2, 8});
  const auto [values, scale] = quantize_int8(x, 4);
  EXPECT_EQ(values.dtype(), DType::i8);
  EXPECT_EQ(values.shape(), (Shape{2, 8}));
  EXPECT_EQ(values.to_doubles(), (std::vector<double>{127, -64, 0, 2, -127, 64, 32, 16, 0, 0, 0, 0, 127, -127, 64, 0}));
  EXPECT_EQ(scale.shape(), (Shape{2, 2}));
  EXPECT_EQ(scale.slice(1, 0, 1).to_doubles(), (std::vector<double>{1, 0}));
  EXPECT_FLOAT_EQ(static_cast<float>(scale.to_doubles()[1]), 2.0F / 127);
  const std::vector<double> back = dequantize_int8(values, scale).to_doubles();
  EXPECT_EQ(back[0], 127);
  EXPECT_EQ(back[1], -64);
  EXPECT_NEAR(back[5], 64 * 2.0 / 127, 1e-6);
}

TEST_P(Quantize, RefusesWhatDoesNotFit) {
  const Tensor x = tensor(std::vector<float>(12, 1), {2, 6});
  expect_error<ValueError>([&] { quantize_int8(x, 4); }, {"quantize_int8", "block_size = 4", "divides the last axis"});
  expect_error<ValueError>([&] { quantize_int8(x, -1); }, {"quantize_int8", "-1"});
  expect_error<MissingKernel>([&] { quantize_int8(x.to(DType::i32)); },
                              {"quantize_rows", "i32", "Convert with to(dtype)"});
  const auto [values, scale] = quantize_int8(x, 3);
  expect_error<ShapeError>(
      [&, &v = values] {
        dequantize_int8(v, Tensor::ones({2, 4}).to(device()));
      },
      {"dequantize_int8", "[2, 4]"});
  expect_error<ShapeError>(
      [&, &s = scale] {
        dequantize_int8(Tensor::zeros({3, 6}, DType::i8, device()), s);
      },
      {"dequantize_int8"});
}

}  // namespace
}  // namespace ashlar
