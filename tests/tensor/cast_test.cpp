// Every pair of element types against C++'s own conversions.
#include <cmath>

#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar {
namespace {

using testing::OnDevice;

class Cast : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Cast, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

/// An element as a type that C++ can compute with: half floats become float, as in the kernels.
template <class T>
auto widened(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<float>(value);
  } else {
    return value;
  }
}

template <class To, class From>
To converted(From value) {
  if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(widened(value)));
  } else if constexpr (std::is_same_v<To, bool>) {
    return widened(value) != 0;
  } else {
    return static_cast<To>(widened(value));
  }
}

/// Values that `From` and, where it's an integer type, `To` can hold.
template <class From, class To>
std::vector<From> samples() {
  constexpr bool is_fractional = !std::is_integral_v<From>;
  std::vector<From> values;
  const auto fits = [](double value, auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Limits = std::numeric_limits<T>;
      return value >= static_cast<double>(Limits::min()) && std::trunc(value) <= static_cast<double>(Limits::max());
    }
    return true;
  };
  const auto add = [&](double positive) {
    for (const double value : {positive, -positive}) {
      if (!fits(value, From{})) continue;
      const From element = converted<From>(value);
      if (fits(static_cast<double>(widened(element)), To{})) values.push_back(element);
    }
  };
  if constexpr (std::is_same_v<From, bool>) return {true, false, true};
  for (int i = 0; i < 300; i++) add(i);
  if (is_fractional) {
    for (int i = 1; i < 200; i++) add(i * 0.37);
    if (!std::is_integral_v<To>) {
      for (double value : {1e-3, 6.1e-5, 3e-8, 65504.0, 65519.0, 65520.0, 1e20, 3.4e38}) add(value);
      if constexpr (is_fractional) values.push_back(converted<From>(std::numeric_limits<double>::infinity()));
    }
  }
  for (double value : {2049.0, 30001.0, 32767.0, 32768.0}) add(value);
  if (!std::is_same_v<From, Half>) {
    for (double value : {65503.0, 65535.0, 2147483647.0, 4294967295.0}) {
      // Beyond its digits a short float is another number, which the integer may not hold.
      if (!std::is_integral_v<From> && sizeof(From) < 8 && std::is_integral_v<To>) continue;
      add(value);
    }
  }
  // More digits than a float has: 16777217, and for i64 also what an int can't hold.
  if (!std::is_same_v<From, Half> && !std::is_same_v<To, Half>) add(16777217);
  if (std::is_same_v<From, int64_t>) add(9007199254740991.0);
  return values;
}

template <class From, class To>
void check_pair(Device device) {
  const std::vector<From> values = samples<From, To>();
  const int64_t count = static_cast<int64_t>(values.size());
  const Tensor x = Tensor::from(values, {count}, device);
  const Tensor y = x.to(dtype_of<To>);
  ASSERT_EQ(y.dtype(), dtype_of<To>);
  ASSERT_EQ(y.device(), device);
  const std::vector<To> got = y.to_vector<To>(), reversed = x.flip(0).to(dtype_of<To>).template to_vector<To>();
  for (size_t i = 0; i < values.size(); i++) {
    const To expected = converted<To>(static_cast<From>(values[i]));
    const auto same = [&](To value) {
      if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>)
        return value.bits == expected.bits;
      else
        return value == expected;
    };
    ASSERT_TRUE(same(got[i])) << name_of(dtype_of<From>) << " to " << name_of(dtype_of<To>) << " of "
                              << widened(static_cast<From>(values[i])) << ": " << widened(static_cast<To>(got[i]));
    ASSERT_TRUE(same(reversed[values.size() - 1 - i]));
  }
}

template <class From>
void check_from(Device device) {
  check_pair<From, float>(device);
  check_pair<From, Half>(device);
  check_pair<From, BFloat16>(device);
  check_pair<From, double>(device);
  check_pair<From, int32_t>(device);
  check_pair<From, int64_t>(device);
  check_pair<From, uint8_t>(device);
  check_pair<From, bool>(device);
  check_pair<From, uint32_t>(device);
  check_pair<From, int8_t>(device);
  check_pair<From, uint16_t>(device);
  check_pair<From, int16_t>(device);
}

TEST_P(Cast, FromF32) { check_from<float>(device()); }
TEST_P(Cast, FromF16) { check_from<Half>(device()); }
TEST_P(Cast, FromBF16) { check_from<BFloat16>(device()); }
TEST_P(Cast, FromF64) { check_from<double>(device()); }
TEST_P(Cast, FromI32) { check_from<int32_t>(device()); }
TEST_P(Cast, FromI64) { check_from<int64_t>(device()); }
TEST_P(Cast, FromU8) { check_from<uint8_t>(device()); }
TEST_P(Cast, FromBool) { check_from<bool>(device()); }
TEST_P(Cast, FromU32) { check_from<uint32_t>(device()); }
TEST_P(Cast, FromI8) { check_from<int8_t>(device()); }
TEST_P(Cast, FromU16) { check_from<uint16_t>(device()); }
TEST_P(Cast, FromI16) { check_from<int16_t>(device()); }

TEST_P(Cast, NarrowIntegersSaturateFloatsAndWrapIntegers) {
  const std::vector<double> values{-1e20, -2147483649.0, -32769.5, -129, -128.5, -0.5,  std::nan(""), 0.5,
                                   127.9, 128,           255.9,    256,  32768,  65536, 4294967296.0, 1e20};
  const auto count = static_cast<int64_t>(values.size());
  const auto check = [&]<class T>(T, const Tensor& x) {
    const std::vector<T> got = x.to(dtype_of<T>).template to_vector<T>();
    for (size_t i = 0; i < values.size(); i++) {
      using Limits = std::numeric_limits<T>;
      const double low = static_cast<double>(Limits::min()), high = static_cast<double>(Limits::max());
      const double expected = std::isnan(values[i]) ? 0 : std::clamp(std::trunc(values[i]), low, high);
      EXPECT_EQ(static_cast<double>(got[i]), expected) << values[i] << " to " << name_of(dtype_of<T>);
    }
  };
  const Tensor x = Tensor::from(values, {count}, device());
  check(uint32_t{}, x);
  check(int8_t{}, x);
  check(uint16_t{}, x);
  check(int16_t{}, x);
  // Of 16-bit floats, by way of wider ones: 300 and -129 exist in both.
  for (const DType half : {DType::f16, DType::bf16}) {
    const Tensor y = Tensor::from(std::vector<float>{300, -129, 127, -128, 3.75f, NAN}, {6}, device()).to(half);
    EXPECT_EQ(y.to(DType::i8).to_vector<int8_t>(), (std::vector<int8_t>{127, -128, 127, -128, 3, 0}));
    EXPECT_EQ(y.to(DType::u16).to_vector<uint16_t>(), (std::vector<uint16_t>{300, 0, 127, 0, 3, 0}));
  }
  const Tensor whole = Tensor::from(std::vector<int64_t>{-1, 0x1'8000'ff80, 300}, {3}, device());
  EXPECT_EQ(whole.to(DType::u32).to_vector<uint32_t>(), (std::vector<uint32_t>{0xffffffffu, 0x8000ff80u, 300}));
  EXPECT_EQ(whole.to(DType::i16).to_vector<int16_t>(), (std::vector<int16_t>{-1, -128, 300}));
  EXPECT_EQ(whole.to(DType::i8).to_vector<int8_t>(), (std::vector<int8_t>{-1, -128, 44}));
  EXPECT_EQ(whole.to(DType::i8).to(DType::u32).to_vector<uint32_t>(), (std::vector<uint32_t>{~0u, ~0u - 127, 44}));
  // No cast gives out its operand's own memory.
  const Tensor bits = Tensor::from(std::vector<uint32_t>{1, 2}, {2}, device()), same = bits.to(DType::i32);
  same.fill_(7);
  EXPECT_EQ(bits.to_vector<uint32_t>(), (std::vector<uint32_t>{1, 2}));
}

TEST_P(Cast, OfViews) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 30; trial++) {
    const testing::RandomView expected = testing::random_view(random);
    std::vector<int32_t> values;
    for (int64_t i = 0; i < expected.base.numel(); i++) values.push_back(static_cast<int32_t>(i));
    const Tensor view = expected.apply(Tensor::from(values, expected.base, device()));
    ASSERT_EQ(view.to(DType::f64).to_vector<double>(),
              std::vector<double>(expected.model.position.begin(), expected.model.position.end()));
  }
}

}  // namespace
}  // namespace ashlar
