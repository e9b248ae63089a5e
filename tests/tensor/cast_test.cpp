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
  const bool is_signed = !std::is_same_v<From, uint8_t> && !std::is_same_v<From, bool> && !std::is_same_v<To, uint8_t>;
  const bool is_wide = !std::is_same_v<From, uint8_t> && !std::is_same_v<From, bool> && !std::is_same_v<To, uint8_t>;
  constexpr bool is_fractional = !std::is_integral_v<From>;
  std::vector<From> values;
  const auto add = [&](double value) {
    if (value < 0 && !is_signed) return;
    if (std::abs(value) > 255 && !is_wide) return;
    values.push_back(converted<From>(value));
    if (is_signed) values.push_back(converted<From>(-value));
  };
  for (int i = 0; i < 300; i++) add(i);
  if (is_fractional) {
    for (int i = 1; i < 200; i++) add(i * 0.37);
    if (!std::is_integral_v<To>) {
      for (double value : {1e-3, 6.1e-5, 3e-8, 65504.0, 65519.0, 65520.0, 1e20, 3.4e38}) add(value);
      values.push_back(converted<From>(std::numeric_limits<double>::infinity()));
    }
  }
  for (double value : {2049.0, 30001.0, 65503.0}) add(value);
  // More digits than a float has: 16777217, and for i64 also what an int can't hold.
  if (!std::is_same_v<From, Half> && !std::is_same_v<To, Half>) add(16777217);
  if (std::is_same_v<From, int64_t> && !std::is_same_v<To, int32_t>) add(9007199254740991.0);
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
}

TEST_P(Cast, FromF32) { check_from<float>(device()); }
TEST_P(Cast, FromF16) { check_from<Half>(device()); }
TEST_P(Cast, FromBF16) { check_from<BFloat16>(device()); }
TEST_P(Cast, FromF64) { check_from<double>(device()); }
TEST_P(Cast, FromI32) { check_from<int32_t>(device()); }
TEST_P(Cast, FromI64) { check_from<int64_t>(device()); }
TEST_P(Cast, FromU8) { check_from<uint8_t>(device()); }
TEST_P(Cast, FromBool) { check_from<bool>(device()); }

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
