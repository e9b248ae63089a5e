// The same operators on Vars.
#include <cmath>

#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Floats = std::vector<float>;

class VarArithmetic : public testing::OnDevice {
 protected:
  Var leaf(std::initializer_list<float> values, DType dtype = DType::f32) const {
    return Var(Tensor::from(values, device()).to(dtype), true);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, VarArithmetic, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(VarArithmetic, RecordsAndDifferentiates) {
  const Var x = leaf({1, 2, 4});
  const Var y = leaf({2, 4, -1});
  const Var loss = ((2 * x + y) * x - y / x + 1.0 - (3 - x) / 2 + 8 / y - (-y)).sum();
  loss.backward();
  // dx = 4x + y + y/x² + 1/2;  dy = x - 1/x - 8/y² + 1
  Floats dx, dy;
  for (const auto& [a, b] : {std::pair{1.F, 2.F}, {2.F, 4.F}, {4.F, -1.F}}) {
    dx.push_back(4 * a + b + b / (a * a) + 0.5F);
    dy.push_back(a - 1 / a - 8 / (b * b) + 1);
  }
  const Floats found_dx = x.grad().to_vector<float>(), found_dy = y.grad().to_vector<float>();
  for (size_t i = 0; i < 3; i++) {
    EXPECT_NEAR(found_dx[i], dx[i], 1e-5);
    EXPECT_NEAR(found_dy[i], dy[i], 1e-5);
  }
  EXPECT_NEAR(loss.item(), (4 - 2 + 1 - 1 + 4 + 2) + (16 - 2 + 1 - 0.5 + 2 + 4) + (28 + 0.25 + 1 + 0.5 - 8 - 1), 1e-4);
}

TEST_P(VarArithmetic, ClampGivesEachItsShare) {
  // Within, on and beyond the bounds, and bounds that cross: torch.clamp's gradients.
  const Var x = leaf({-2, 0, 1, 3, 5}), low = leaf({-1, 0, 0, 1, 4}), high = leaf({2, 2, 1, 2, 3});
  const Tensor dy = Tensor::from({1.F, 2.F, 4.F, 8.F, 16.F}, device());
  (dy * ad::clamp(x, low, high)).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 2, 4, 0, 0}));
  EXPECT_EQ(low.grad().to_vector<float>(), (Floats{1, 0, 0, 0, 0}));
  EXPECT_EQ(high.grad().to_vector<float>(), (Floats{0, 0, 0, 8, 16}));
  const Var z = leaf({-1, 0, 2}), one = leaf({0});
  ad::clamp_min(z, one).sum().backward();
  EXPECT_EQ(z.grad().to_vector<float>(), (Floats{0, 1, 1}));
  EXPECT_EQ(one.grad().to_vector<float>(), Floats{1});
  const Var wide = leaf({-1, 0.5F, 2}, DType::f64);
  ad::clamp(wide, 0, 1).sum().backward();
  EXPECT_EQ(wide.grad().to_vector<double>(), (std::vector<double>{0, 1, 0}));
  const Var v = leaf({1, 2});
  (ad::clamp_max(v, 1.5) * v).sum().backward();
  EXPECT_EQ(v.grad().to_vector<float>(), (Floats{2, 1.5F}));
}

TEST_P(VarArithmetic, TensorsAreConstants) {
  const Var x = leaf({1, 2});
  const Tensor scale = Tensor::from({3.F, 5.F}, device());
  (scale * x + x * scale).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{6, 10}));
}

TEST_P(VarArithmetic, MixedDtypes) {
  const Var half = leaf({1, 2}, DType::f16), x = leaf({3, 4});
  const Var y = half * x;
  EXPECT_EQ(y.dtype(), DType::f32);
  y.sum().backward();
  EXPECT_EQ(half.grad().dtype(), DType::f16);
  EXPECT_EQ(half.grad().to_doubles(), (std::vector<double>{3, 4}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1, 2}));
  const Var wide = leaf({1, 2}, DType::f64);
  const Var z = wide * 0.1 + 0.2 + wide;
  EXPECT_EQ(z.dtype(), DType::f64);
  backward(z, {.seed = Tensor::ones(2, DType::f64, device())});
  EXPECT_EQ(wide.grad().to_doubles(), (std::vector<double>{1.1, 1.1}));
  // Integers take part, without gradients.
  const Var counts(Tensor::from({2, 3}, device()));
  EXPECT_EQ((counts * 1.5).value().to_vector<float>(), (Floats{3, 4.5F}));
  EXPECT_EQ((x * counts).dtype(), DType::f32);
}

TEST_P(VarArithmetic, Members) {
  const Var x(Tensor::from({1.F, 2.F, 3.F, 4.F}, {2, 2}, device()), true);
  const Var y = x.matmul(x).relu().reshape(-1).sum() + x[1].mean() + x.transpose(0, 1).max(0).sum(0) +
                x.softmax().sum() + x.exp().log().sqrt().tanh().sigmoid().sum();
  y.backward({.retain_graph = true});
  EXPECT_EQ(x.grad().shape(), (Shape{2, 2}));
  const Var parts = ad::cat({x, x.sum(0, true) * 2}) + 0;
  EXPECT_EQ(parts.value().to_vector<float>(), (Floats{1, 2, 3, 4, 8, 12}));
  x.clear_grad();
  const Tensor weights = Tensor::from({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}, {3, 2}, device());
  (parts * weights).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{11, 14, 13, 16}));
  x.clear_grad();
  (ad::stack({x[0], x[1], x[0]}, 1) * weights.reshape({2, 3})).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{1 + 3, 4 + 6, 2, 5}));
}

TEST_P(VarArithmetic, Splits) {
  const Var x(Tensor::from({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}, {2, 3}, device()), true);
  const std::vector<Var> parts = split(x, Shape{2, 1}, -1);
  EXPECT_EQ(parts[0].value().storage(), x.value().storage());
  ((parts[0] * parts[0]).sum() + (parts[1] * 10).sum()).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{2, 4, 10, 8, 10, 10}));
  x.clear_grad();
  (split(x, 1, 1)[1] * 3).sum().backward();  // the other parts get nothing back
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{0, 3, 0, 0, 3, 0}));
  // Twice, and more parts than one operation has outputs.
  const Var cubes = chunk(x, 3, 1)[2];
  const Var slope = grad({(cubes * cubes * cubes).sum()}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(grad({slope.sum()}, {x})[0].value().to_vector<float>(), (Floats{0, 0, 18, 0, 0, 36}));
  const Var many(Tensor::arange(65, DType::f32, device()), true);
  split(many, 1)[64].sum().backward();
  EXPECT_EQ(many.grad().to_vector<float>().back(), 1);
}

TEST_P(VarArithmetic, OfNumbersByName) {
  const Var x = leaf({1, 3});
  const Var all = ad::pow(2, x) + ad::maximum(x, 2) + ad::minimum(2, x) + ad::fmod(x, 2) + ad::remainder(x, 2);
  EXPECT_EQ(all.value().to_vector<float>(), (Floats{2 + 2 + 1 + 1 + 1, 8 + 3 + 2 + 1 + 1}));
  all.sum().backward();
  const Floats slopes = x.grad().to_vector<float>();  // 2^x ln 2, and 1 each of maximum or minimum, fmod, remainder
  EXPECT_NEAR(slopes[0], 2 * std::log(2.0) + 3, 1e-5);
  EXPECT_NEAR(slopes[1], 8 * std::log(2.0) + 3, 1e-5);
}

TEST_P(VarArithmetic, ComparesValues) {
  const Var x = leaf({1, 2, 3}), y = leaf({3, 2, 1});
  const auto bits = [](const Tensor& held) { return held.to(DType::u8).to_vector<uint8_t>(); };
  using Bits = std::vector<uint8_t>;
  EXPECT_EQ(bits(x < y), (Bits{1, 0, 0}));
  EXPECT_EQ(bits(x <= y), (Bits{1, 1, 0}));
  EXPECT_EQ(bits(x > y), (Bits{0, 0, 1}));
  EXPECT_EQ(bits(x >= y), (Bits{0, 1, 1}));
  EXPECT_EQ(bits(x == y), (Bits{0, 1, 0}));
  EXPECT_EQ(bits(x != y), (Bits{1, 0, 1}));
  EXPECT_EQ(bits(x > 2), (Bits{0, 0, 1}));
  EXPECT_EQ(bits(x == 2), (Bits{0, 1, 0}));
  EXPECT_EQ(bits(2 < x), (Bits{0, 0, 1}));
  EXPECT_EQ(bits(2 >= x), (Bits{1, 1, 0}));
}

TEST_P(VarArithmetic, InPlace) {
  const Var x = leaf({1, 2});
  Var y = x * 1;
  const Var before = y;
  y += x;
  y *= 3;
  y -= 1;
  y /= 2;
  EXPECT_EQ(y.value().to_vector<float>(), (Floats{2.5F, 5.5F}));
  EXPECT_EQ(before.value().to_vector<float>(), (Floats{1, 2}));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{3, 3}));

  Var weight = x;  // another name of the leaf
  expect_error<AutogradError>([&] { weight -= 1; }, {"operator-=", "a leaf", "NoGrad"});
  expect_error<AutogradError>([&] { weight *= x; }, {"operator*=", "a leaf", "NoGrad"});
  {
    const NoGrad no_grad;
    weight -= 0.5 * x.grad();
  }
  EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
  EXPECT_EQ(x.value().to_vector<float>(), (Floats{-0.5F, 0.5F}));

  Var total = Tensor::zeros(2, DType::f32, device());
  total += x;
  EXPECT_TRUE(total.requires_grad());
}

}  // namespace
}  // namespace ashlar
