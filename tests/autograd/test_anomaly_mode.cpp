// The first operation that makes a NaN or an infinity is named, forward and backward.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

class AnomalyOnDevice : public testing::OnDevice {
 protected:
  Var leaf(std::vector<float> values) const {
    return Var(Tensor::from(values, {static_cast<int64_t>(values.size())}, device()), true);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AnomalyOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

/// What the AnomalyError says that f throws.
template <class F>
std::string anomaly_of(F f) {
  try {
    f();
  } catch (const AnomalyError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no anomaly";
  return {};
}

void expect_in(const std::string& part, const std::string& text) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" isn't in: " << text;
}

TEST_P(AnomalyOnDevice, NamesTheOperationThatMadeItForward) {
  const Var x = leaf({1, -1, 0});
  const auto network = [&] { return ad::sum(ad::mul(ad::log(ad::affine(x, 2, 0)), x)); };
  EXPECT_TRUE(std::isnan(network().item()));  // without the mode nothing happens
  const AnomalyMode mode;
  const std::string text = anomaly_of(network);
  EXPECT_TRUE(text.starts_with("log:")) << text;
  expect_in("1 NaN and 1 infinite of 3 elements in its result, f32[3]", text);
  expect_in("this operation made it", text);
}

TEST_P(AnomalyOnDevice, TellsWhatCameFromData) {
  const Var x = leaf({1, NAN});
  const AnomalyMode mode;
  const std::string text = anomaly_of([&] { ad::exp(x); });
  EXPECT_TRUE(text.starts_with("exp:")) << text;
  expect_in("from f32[2]", text);
  expect_in("(1 NaN of 2 elements)", text);
  expect_in("an input that no recorded operation made", text);
  const NoGrad no_grad;  // looked at as well
  anomaly_of([&] { ad::exp(x); });
}

TEST_P(AnomalyOnDevice, NamesTheOperationWhoseDerivativeMadeIt) {
  const Var x = leaf({4, 0});
  const Var y = ad::sum(ad::mul(ad::sqrt(x), x));  // finite, but d sqrt(0) isn't
  const AnomalyMode mode;
  const std::string text = anomaly_of([&] { backward(y); });
  EXPECT_TRUE(text.starts_with("backward of sqrt:")) << text;
  expect_in("in the gradient of its input 0, f32[2]", text);
}

TEST_P(AnomalyOnDevice, NamesWhereGradientsAddUpToIt) {
  const Var x = leaf({1});
  const Var y = ad::affine(x, 1, 0);
  const float large = std::numeric_limits<float>::max();
  const Var z = ad::sum(ad::add(ad::affine(y, large, 0), ad::affine(ad::affine(y, -1, 0), large, 0)));  // value 0
  const Var w = ad::sum(ad::add(ad::affine(y, large, 0), ad::affine(ad::affine(y, 1, -1), large, 0)));  // slope 2 max
  const AnomalyMode mode;
  backward(z, {.retain_graph = true});
  EXPECT_EQ(x.grad().item(), 0);
  expect_in("backward of affine: ", anomaly_of([&] { grad({w}, {x}); }));
  expect_in("that arrives at its output 0",
            anomaly_of([&] { grad({ad::affine(x, 2, 0)}, {x}, {Var(leaf({NAN}).value())}); }));
}

TEST_P(AnomalyOnDevice, InfinitiesMayBeAllowed) {
  const Var x = leaf({-1, 2});
  const Tensor mask = lt(x.value(), Tensor::zeros({2}, DType::f32, device()));
  const auto attention = [&] {
    return ad::softmax(ad::masked_fill(x, mask, -std::numeric_limits<double>::infinity()));
  };
  {
    const AnomalyMode mode(Anomaly::nan);
    EXPECT_EQ(attention().value().to_doubles(), (std::vector<double>{0, 1}));
    EXPECT_TRUE(anomaly_of([&] { ad::log(x); }).starts_with("log:"));
    {
      const AnomalyMode stricter;
      EXPECT_TRUE(anomaly_of(attention).starts_with("masked_fill:"));
    }
    attention();
    EXPECT_TRUE(anomaly_mode());
  }
  EXPECT_FALSE(anomaly_mode());
  attention();
}

TEST_P(AnomalyOnDevice, LooksAtNarrowTypes) {
  const Var x = Var(Tensor::full({2}, 60000, DType::f16, device()), true);
  const AnomalyMode mode;
  const std::string text = anomaly_of([&] { ad::add(x, x); });
  expect_in("2 infinite of 2 elements in its result, f16[2]", text);
}

}  // namespace
}  // namespace ashlar
