// Tensors from values and rules.
#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

class Making : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Making, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Making, FromValues) {
  const Tensor x = Tensor::from({1.F, 2.F}, {2}, device());
  EXPECT_EQ(x.str(), "f32[2] on " + device().str());
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(Tensor::from({1.F, 2.F, 3.F}, device()).shape(), (Shape{3}));
  EXPECT_EQ(Tensor::from<float>({1, 2, 3, 4}, {2, 2}, device())[1][1].item(), 4);
  EXPECT_EQ(Tensor::from({1, 2}, device()).dtype(), DType::i32);
  EXPECT_EQ(Tensor::from({1.0, 2.0}, device()).dtype(), DType::f64);
  EXPECT_EQ(Tensor::from({true, false}, device()).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(Tensor::from<float>({}, {0, 3}, device()).shape(), (Shape{0, 3}));
  expect_error<ShapeError>([&] { Tensor::from({1.F, 2.F}, {3}, device()); }, {"Tensor::from", "2 values", "3 values"});
}

TEST_P(Making, LikeAnother) {
  const Tensor x = Tensor::zeros({2, 3}, DType::f16, device());
  EXPECT_EQ(Tensor::empty_like(x).str(), x.str());
  EXPECT_EQ(Tensor::full_like(x, 2.5).to_doubles(), std::vector<double>(6, 2.5));
  EXPECT_EQ(Tensor::ones_like(x, DType::i32).to_vector<int32_t>(), std::vector<int32_t>(6, 1));
  EXPECT_EQ(Tensor::zeros_like(x).str(), x.str());
  expect_error<ValueError>([] { Tensor::zeros_like(Tensor()); }, {"undefined"});
}

TEST_P(Making, FullOfExactIntegers) {
  const int64_t big = INT64_MAX - 1;
  EXPECT_EQ(Tensor::full(2, big, DType::i64, device()).to_vector<int64_t>(), (Integers{big, big}));
  EXPECT_EQ(Tensor::full(2, -big, DType::i64, device()).to_vector<int64_t>(), (Integers{-big, -big}));
  EXPECT_EQ(Tensor::full(1, INT64_MIN, DType::i64, device()).to_vector<int64_t>(), (Integers{INT64_MIN}));
  EXPECT_EQ(Tensor::full({}, true, DType::boolean, device()).to_vector<bool>(), (std::vector<bool>{true}));
  expect_error<ValueError>([&] { Tensor::full(1, big, DType::i32, device()); }, {"i32"});
}

TEST_P(Making, Arange) {
  EXPECT_EQ(Tensor::arange(4, {}, device()).to_vector<int64_t>(), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(Tensor::arange(2, 9, 3, {}, device()).to_vector<int64_t>(), (Integers{2, 5, 8}));
  EXPECT_EQ(Tensor::arange(2, -2, -1, {}, device()).to_vector<int64_t>(), (Integers{2, 1, 0, -1}));
  EXPECT_EQ(Tensor::arange(0, 1, 0.25, {}, device()).to_vector<float>(), (Floats{0, 0.25F, 0.5F, 0.75F}));
  EXPECT_EQ(Tensor::arange(2.5, {}, device()).to_vector<float>(), (Floats{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(3, DType::f64, device()).to_vector<double>(), (std::vector<double>{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(3, DType::u8, device()).to_vector<uint8_t>(), (std::vector<uint8_t>{0, 1, 2}));
  EXPECT_EQ(Tensor::arange(3, 3, 1, {}, device()).shape(), (Shape{0}));
  EXPECT_EQ(Tensor::arange(INT64_MIN, INT64_MAX, INT64_MAX, {}, device()).to_vector<int64_t>(),
            (Integers{INT64_MIN, -1, INT64_MAX - 1}));
  expect_error<ValueError>([] { Tensor::arange(0, 3, 0); }, {"Tensor::arange", "0 to 3", "step"});
  expect_error<ValueError>([] { Tensor::arange(-3); }, {"Tensor::arange", "step"});
  expect_error<ValueError>([] { Tensor::arange(0.0, 1.0 / 0.0, 1.0); }, {"Tensor::arange", "finite"});
  expect_error<OutOfMemory>([] { Tensor::arange(int64_t{1} << 58); }, {});
  expect_error<ShapeError>([] { Tensor::arange(INT64_MAX); }, {"fewer than 2^63 bytes"});
  expect_error<OutOfMemory>([] { Tensor::arange(0, 1, 1e-300); }, {});
}

TEST_P(Making, LinspaceAndEye) {
  EXPECT_EQ(Tensor::linspace(0, 1, 5, DType::f32, device()).to_vector<float>(), (Floats{0, 0.25F, 0.5F, 0.75F, 1}));
  EXPECT_EQ(Tensor::linspace(3, 3, 1, DType::f64, device()).to_vector<double>(), (std::vector<double>{3}));
  EXPECT_EQ(Tensor::linspace(-0.1, 0.1, 7).to_vector<float>().back(), 0.1F);
  expect_error<ShapeError>([] { Tensor::linspace(0, 1, -1); }, {"[-1]"});
  expect_error<DTypeError>([] { Tensor::linspace(0, 1, 3, DType::i32); }, {"linspace", "i32"});
  EXPECT_EQ(Tensor::eye(2, {}, DType::f32, device()).to_vector<float>(), (Floats{1, 0, 0, 1}));
  EXPECT_EQ(Tensor::eye(2, 3, DType::f32, device()).to_vector<float>(), (Floats{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(Tensor::eye(3, 2, DType::i32, device()).to_vector<int32_t>(), (std::vector<int32_t>{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(Tensor::eye(0, 2, DType::f32, device()).shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace ashlar
