// Operators on tensors and numbers.
#include <cmath>

#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Floats = std::vector<float>;
using Bools = std::vector<bool>;
using Integers = std::vector<int64_t>;

class Arithmetic : public testing::OnDevice {
 protected:
  Tensor floats(std::initializer_list<float> values) const { return Tensor::from(values, device()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Arithmetic, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Arithmetic, OfTwoTensors) {
  const Tensor a = floats({1, -2, 6}), b = floats({2, 4, -3});
  EXPECT_EQ((a + b).to_vector<float>(), (Floats{3, 2, 3}));
  EXPECT_EQ((a - b).to_vector<float>(), (Floats{-1, -6, 9}));
  EXPECT_EQ((a * b).to_vector<float>(), (Floats{2, -8, -18}));
  EXPECT_EQ((a / b).to_vector<float>(), (Floats{0.5F, -0.5F, -2}));
  EXPECT_EQ((-a).to_vector<float>(), (Floats{-1, 2, -6}));
  EXPECT_EQ((a + b.reshape({3, 1})).shape(), (Shape{3, 3}));
}

TEST_P(Arithmetic, OfATensorAndANumber) {
  const Tensor a = floats({1, -2, 6});
  EXPECT_EQ(add(a, 1.0).to_vector<float>(), (Floats{2, -1, 7}));
  EXPECT_EQ((a + 1).to_vector<float>(), (Floats{2, -1, 7}));
  EXPECT_EQ((1 + a).to_vector<float>(), (Floats{2, -1, 7}));
  EXPECT_EQ((a - 1).to_vector<float>(), (Floats{0, -3, 5}));
  EXPECT_EQ((1 - a).to_vector<float>(), (Floats{0, 3, -5}));
  EXPECT_EQ((2 * a).to_vector<float>(), (Floats{2, -4, 12}));
  EXPECT_EQ((a * 2.5).to_vector<float>(), (Floats{2.5F, -5, 15}));
  EXPECT_EQ((a / 3).to_vector<float>(), (Floats{1.F / 3, -2.F / 3, 2}));
  EXPECT_EQ((6 / a).to_vector<float>(), (Floats{6, -3, 1}));
  EXPECT_EQ(maximum(a, 0).to_vector<float>(), (Floats{1, 0, 6}));
  EXPECT_EQ(minimum(2, a).to_vector<float>(), (Floats{1, -2, 2}));
  const Tensor d = a.to(DType::f64);
  EXPECT_EQ((d + 0.1).to_vector<double>(), (std::vector<double>{1.1, -2 + 0.1, 6.1}));
  EXPECT_EQ((0.1 - d).to_vector<double>(), (std::vector<double>{0.1 - 1, 2.1, 0.1 - 6}));
  EXPECT_EQ((-d).to_vector<double>(), (std::vector<double>{-1, 2, -6}));
}

TEST_P(Arithmetic, SignsOfZeros) {
  const Tensor zeros = floats({0.F, -0.F});
  const auto signs = [](const Tensor& x) {
    Bools found;
    for (const float value : x.to_vector<float>()) found.push_back(std::signbit(value));
    return found;
  };
  EXPECT_EQ(signs(zeros * 3), (Bools{false, true}));
  EXPECT_EQ(signs(zeros * -3), (Bools{true, false}));
  EXPECT_EQ(signs(zeros + 0), (Bools{false, false}));
  EXPECT_EQ(signs(-zeros), (Bools{true, false}));
  EXPECT_EQ(signs(-zeros.to(DType::f64).to(DType::f32)), (Bools{true, false}));
}

TEST_P(Arithmetic, Comparisons) {
  const float nan = NAN;
  const Tensor a = floats({1, 2, 3, nan}), b = floats({2, 2, 2, nan});
  EXPECT_EQ((a == b).to_vector<bool>(), (Bools{false, true, false, false}));
  EXPECT_EQ((a != b).to_vector<bool>(), (Bools{true, false, true, true}));
  EXPECT_EQ((a < b).to_vector<bool>(), (Bools{true, false, false, false}));
  EXPECT_EQ((a <= b).to_vector<bool>(), (Bools{true, true, false, false}));
  EXPECT_EQ((a > b).to_vector<bool>(), (Bools{false, false, true, false}));
  EXPECT_EQ((a >= b).to_vector<bool>(), (Bools{false, true, true, false}));
  EXPECT_EQ((a > 2).to_vector<bool>(), (Bools{false, false, true, false}));
  EXPECT_EQ((2 > a).to_vector<bool>(), (Bools{true, false, false, false}));
  EXPECT_EQ((a >= 2).to_vector<bool>(), (Bools{false, true, true, false}));
  EXPECT_EQ((2 >= a).to_vector<bool>(), (Bools{true, true, false, false}));
  EXPECT_EQ((2 < a).to_vector<bool>(), (Bools{false, false, true, false}));
  EXPECT_EQ((2 <= a).to_vector<bool>(), (Bools{false, true, true, false}));
  EXPECT_EQ((a == 2).to_vector<bool>(), (Bools{false, true, false, false}));
  EXPECT_EQ((2 != a).to_vector<bool>(), (Bools{true, false, true, true}));
  // Integers beside fractions, and one byte beside 16 bits.
  EXPECT_EQ((Tensor::arange(3, {}, device()) < 1.5).to_vector<bool>(), (Bools{true, true, false}));
  EXPECT_EQ((Tensor::from({uint8_t{3}, uint8_t{4}}, device()) == Tensor::from({3.F, 4.5F}, device()).to(DType::bf16))
                .to_vector<bool>(),
            (Bools{true, false}));
}

TEST_P(Arithmetic, Members) {
  const Tensor x = Tensor::from({1.F, 2.F, 3.F, 4.F}, {2, 2}, device());
  EXPECT_EQ(x.sum().item(), 10);
  EXPECT_EQ(x.sum(0).to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(x.sum({1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(x.sum({}).item(), 10);
  EXPECT_EQ(x.mean(-1).to_vector<float>(), (Floats{1.5F, 3.5F}));
  EXPECT_EQ(x.max().item(), 4);
  EXPECT_EQ(x.argmax(0).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(x.matmul(x).to_vector<float>(), (Floats{7, 10, 15, 22}));
  EXPECT_EQ(x.relu().to_vector<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_NEAR(x.exp().log().sqrt().to_doubles()[3], 2, 1e-6);
  EXPECT_NEAR(x.tanh().to_doubles()[0], std::tanh(1), 1e-6);
  EXPECT_NEAR(x.sigmoid().to_doubles()[0], 1 / (1 + std::exp(-1)), 1e-6);
  EXPECT_NEAR(x.softmax(0).sum(0).to_doubles()[1], 1, 1e-6);
}

TEST_P(Arithmetic, SumsOfIntegers) {
  const Tensor x = Tensor::arange(10000, {}, device()).reshape({100, 100});
  EXPECT_EQ((x > 4999).sum().to_vector<int64_t>(), (Integers{5000}));
  EXPECT_EQ((x == x).sum(0).to_vector<int64_t>(), Integers(100, 100));
  EXPECT_EQ(x.sum(1)[99].item(), 990000 + 4950);
  EXPECT_EQ(x.to(DType::u8).slice(0, 0, 1).sum().item(), 4950);
  const int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_EQ(Tensor::from({big, int64_t{2}, -big}, device()).sum().to_vector<int64_t>(), (Integers{2}));
  EXPECT_EQ(Tensor::full(100003, big / 200000, DType::i64, device()).sum().to_vector<int64_t>(),
            (Integers{100003 * (big / 200000)}));
  EXPECT_EQ(Tensor::empty({0}, DType::i32, device()).sum().str(), "i64[] on " + device().str());
}

TEST_P(Arithmetic, InPlace) {
  const Tensor x = Tensor::from({1.F, 2.F, 3.F, 4.F}, {2, 2}, device());
  const Tensor row = x[1];
  const uint64_t version = x.version();
  x += Tensor::from({1.F, 10.F}, device());
  EXPECT_EQ(row.to_vector<float>(), (Floats{4, 14}));
  EXPECT_GT(x.version(), version);
  x -= 1;
  x *= 2.0;
  x /= x;
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 1, 1, 1}));
  x[0] += x[1];
  EXPECT_EQ(x.to_vector<float>(), (Floats{2, 2, 1, 1}));
  x[0] -= x[0];
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 0, 1, 1}));
  // A wider operand is rounded to the tensor's dtype.
  x += Tensor::full({2, 2}, 0.5, DType::f64, device());
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0.5F, 0.5F, 1.5F, 1.5F}));
  const Tensor counts = Tensor::zeros(2, DType::i32, device());
  counts += Tensor::from({int64_t{1}, int64_t{5}}, device());
  EXPECT_EQ(counts.to_vector<int32_t>(), (std::vector<int32_t>{1, 5}));
  EXPECT_EQ(counts.dtype(), DType::i32);
}

TEST_P(Arithmetic, Clamp) {
  const float nan = NAN;
  const Tensor x = floats({-2, 0.5F, 3, nan}), low = floats({-1, 1, nan, 0}), high = floats({0, 2, 2, 0});
  const auto same = [](const Tensor& got, const Floats& wanted) {
    const Floats values = got.to_vector<float>();
    ASSERT_EQ(values.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); i++) {
      if (std::isnan(wanted[i])) {
        EXPECT_TRUE(std::isnan(values[i])) << i;
      } else {
        EXPECT_EQ(values[i], wanted[i]) << i;
      }
    }
  };
  same(clamp(x, low, high), {-1, 1, nan, nan});
  same(clamp(x, low, Tensor()), {-1, 1, nan, nan});
  same(clamp(x, Tensor(), high), {-2, 0.5F, 2, nan});
  same(clamp_min(x, 1), {1, 1, 3, nan});
  same(clamp_max(x, 1), {-2, 0.5F, 1, nan});
  same(clamp(x, 0, 1), {0, 0.5F, 1, nan});
  same(clamp(floats({1, 5}), floats({4, 4}), floats({2, 2})), {2, 2});  // the largest bound wins
  EXPECT_EQ(clamp(x, low.reshape({4, 1}), Tensor()).shape(), (Shape{4, 4}));
  // Integers stay what they are, exactly; f64 keeps its digits.
  const int64_t large = (int64_t{1} << 60) + 1;
  const Tensor whole = Tensor::from<int64_t>({-5, 3, large + 7}, device());
  const Tensor held = clamp(whole, 0, large);
  EXPECT_EQ(held.dtype(), DType::i64);
  EXPECT_EQ(held.to_vector<int64_t>(), (Integers{0, 3, large}));
  EXPECT_EQ(clamp_min(whole, 4).to_vector<int64_t>(), (Integers{4, 4, large + 7}));
  EXPECT_EQ(clamp(whole.slice(0, 0, 2).to(DType::i8), 0, 2).dtype(), DType::i8);
  same(clamp(whole.slice(0, 0, 2), Number(0.5), Number(2)), {0.5F, 2});
  const Tensor precise = Tensor::from({-1.0, 0.1, 2.0}, device());
  ASSERT_EQ(precise.dtype(), DType::f64);
  EXPECT_EQ(clamp(precise, Number(0.05), Number(0.3)).to_vector<double>()[1], 0.1);
  EXPECT_EQ(clamp_max(precise, 1).to_vector<double>()[1], 0.1);
  expect_error<ValueError>([&] { clamp(x, Tensor(), Tensor()); }, {"clamp", "no bound"});
}

TEST_P(Arithmetic, ExtremaOfEveryDtype) {
  const int64_t large = (int64_t{1} << 62) + 1;
  const Tensor whole = Tensor::from<int64_t>({3, large, -large - 1, large, -large - 1, 2}, {2, 3}, device());
  EXPECT_EQ(argmax(whole).item(), 1);
  EXPECT_EQ(argmin(whole).item(), 2);
  EXPECT_EQ(argmax(whole, {1}).to_vector<int64_t>(), (Integers{1, 0}));
  EXPECT_EQ(argmin(whole, {0}, true).to_vector<int64_t>(), (Integers{0, 1, 0}));
  EXPECT_EQ(amin(whole, {1}).to_vector<int64_t>(), (Integers{-large - 1, -large - 1}));
  for (const DType dtype : {DType::i32, DType::i16, DType::i8, DType::u8, DType::boolean}) {
    const Tensor x = Tensor::from<int64_t>({0, 1, 1, 0}, device()).to(dtype);
    EXPECT_EQ(argmax(x).item(), 1) << name_of(dtype);
    EXPECT_EQ(argmin(x).item(), 0) << name_of(dtype);
    EXPECT_EQ(max(x).dtype(), dtype);
    EXPECT_EQ(sum(x).dtype(), DType::i64);
    EXPECT_EQ(sum(x).item(), 2);
    EXPECT_EQ(prod(x).dtype(), DType::i64);
    EXPECT_EQ(prod(x).item(), 0);
  }
  // f64 beyond f32's digits; the first NaN counts as the largest and the smallest; zeros of both signs are equal.
  const double one = 1 + 0x1p-40;
  const Tensor precise = Tensor::from({1.0, one, one, -one, -0.0, 0.0}, {2, 3}, device());
  EXPECT_EQ(argmax(precise).item(), 1);
  EXPECT_EQ(argmin(precise).item(), 3);
  EXPECT_EQ(max(precise).to_vector<double>()[0], one);
  EXPECT_EQ(min(precise, {1}).to_vector<double>(), (std::vector<double>{1, -one}));
  EXPECT_EQ(argmax(precise, {1}).to_vector<int64_t>(), (Integers{1, 1}));
  const Tensor spoiled = Tensor::from({1.0, -double{NAN}, double{NAN}, 5.0}, device());
  EXPECT_EQ(argmax(spoiled).item(), 1);
  EXPECT_EQ(argmin(spoiled).item(), 1);
  EXPECT_TRUE(std::isnan(max(spoiled).to_vector<double>()[0]));
  EXPECT_TRUE(std::isnan(min(spoiled).to_vector<double>()[0]));
  // Long ones, which floats reduce in parts.
  const int64_t count = 300'001;
  const Tensor long_one = Tensor::arange(count, DType::i64).to(device());
  EXPECT_EQ(argmax(long_one).item(), count - 1);
  EXPECT_EQ(argmin(-1 * long_one.to(DType::f64)).item(), count - 1);
  EXPECT_EQ(max(long_one.to(DType::f64)).to_vector<double>()[0], count - 1);
  expect_error<ShapeError>([&] { argmax(Tensor::empty({0}, DType::i32, device())); }, {"argmax"});
}

// PyTorch's: whole, modulo 2^bits; of a negative exponent what is left of 1 / a^|b| without its fraction.
TEST_P(Arithmetic, PowersOfIntegersAreIntegers) {
  const Tensor a = Tensor::from<int64_t>({3, -2, 1, -1, 0, 7, -1}, device()),
               b = Tensor::from<int64_t>({39, 63, -5, -3, 0, -1, 1'000'000'000'001}, device());
  const Tensor y = pow(a, b);
  EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_EQ(y.to_vector<int64_t>(), (Integers{4052555153018976267, INT64_MIN, 1, -1, 1, 0, -1}));
  EXPECT_EQ(pow(a.to(DType::i32), 3).dtype(), DType::i32);
  EXPECT_EQ(pow(a.to(DType::i32), 3).to_vector<int32_t>(), (std::vector<int32_t>{27, -8, 1, -1, 0, 343, -1}));
  EXPECT_EQ(pow(2, Tensor::from<int64_t>({10, 62}, device())).to_vector<int64_t>(), (Integers{1024, int64_t{1} << 62}));
  EXPECT_EQ(pow(a, 0.5).dtype(), DType::f32);
  EXPECT_EQ(pow(a, -2.0).to_vector<float>()[1], 0.25F);
}

TEST_P(Arithmetic, RefusedInPlace) {
  const Tensor x = Tensor::ones({2}, DType::f32, device()), whole = Tensor::ones({2}, DType::i64, device());
  expect_error<ShapeError>(
      [&] {
        x += Tensor::ones({3, 2}, DType::f32, device());
      },
      {"operator+=", "f32[2]", "[3, 2]", "x = x + y"});
  expect_error<DTypeError>([&] { whole += 0.5; }, {"operator+=", "i64[2]", "f32"});
  expect_error<DTypeError>([&] { whole /= 2; }, {"operator/=", "i64[2]", "f32"});
  expect_error<ValueError>([&] { x.broadcast_to({3, 2}) *= 2; }, {"share memory"});
  EXPECT_EQ(x.to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
}

TEST_P(Arithmetic, Refused) {
  const Tensor x = Tensor::ones({2}, DType::f32, device());
  expect_error<ShapeError>([&] { x + Tensor::ones({3}, DType::f32, device()); }, {"add", "[2] and [3]", "equal or 1"});
  expect_error<ValueError>([&] { x + Tensor(); }, {"add", "undefined"});
  expect_error<ValueError>([&] { Tensor() * 2; }, {"undefined"});
  expect_error<DTypeError>([&] { -(x == x); }, {"neg", "bool[2]", "x == false"});
  expect_error<ValueError>([&] { Tensor::ones({2}, DType::u8, device()) + 300; }, {"300", "u8"});
  expect_error<ValueError>([&] { pow(Tensor::ones({2}, DType::i32, device()), -1); }, {"pow", "i32[2]", "-1", "to("});
  if (device() != Device::cpu()) {
    expect_error<DeviceError>([&] { x + Tensor::ones({2}); }, {"add", "on cpu", "to(Device)"});
    expect_error<DeviceError>([&] { x + Tensor::ones({2}, DType::f64); }, {"add", "on cpu", "to(Device)"});
  }
}

}  // namespace
}  // namespace ashlar
