// What the build writes of gradient rules that the library's own kernels don't have (kernels/tape_family.cpp).
#include <gtest/gtest.h>

#include "ashlar/ad.h"
#include "ashlar/ad/tape_family.h"
#include "autograd/autograd.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

using Floats = std::vector<float>;

Var leaf(const Floats& values) { return Var(Tensor::from(values, {static_cast<int64_t>(values.size())}), true); }
Floats values_of(const Var& x) { return x.value().to_vector<float>(); }
Var sum(const Var& x) { return ad::sum(x); }

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const AutogradError& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Generated, SeveralOutputsHaveGradients) {
  const Var x = leaf({2, -3});
  const ad::PowersResult y = ad::powers(x);
  EXPECT_EQ(values_of(y.squares), (Floats{4, 9}));
  EXPECT_EQ(values_of(y.cubes), (Floats{8, -27}));
  EXPECT_EQ(values_of(grad({sum(y.squares)}, {x}, {}, {.retain_graph = true})[0]), (Floats{4, -6}));
  EXPECT_EQ(values_of(grad({sum(y.cubes)}, {x}, {}, {.retain_graph = true})[0]), (Floats{12, 27}));
  backward(sum(ad::mul(y.squares, y.cubes)));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{80, 405}));
}

// x's gradient reads the output `squares`, which depends on x in its turn.
TEST(Generated, SeveralOutputsAreDifferentiatedTwice) {
  const Var x = leaf({2, -3});
  const Var slope = grad({sum(ad::powers(x).cubes)}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(grad({sum(slope)}, {x})[0]), (Floats{12, -18}));
}

TEST(Generated, AnOutputThatNoGradientNamesIsAConstant) {
  const Var x = leaf({4, 16});
  const ad::RootAndInverseResult y = ad::root_and_inverse(x);
  EXPECT_TRUE(y.root.requires_grad());
  EXPECT_FALSE(y.inverse.requires_grad());
  const Var slope = grad({sum(y.root)}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(slope), (Floats{0.25, 0.125}));
  const std::string message = message_of([&] { grad({sum(slope)}, {x}); });
  EXPECT_NE(message.find("root_and_inverse and its output 1"), std::string::npos) << message;
}

TEST(Generated, AKernelOfSeveralOutputsMayBeTheGradientOfAllInputs) {
  const Var a = leaf({2, -3}), b = leaf({5, 7});
  const ad::ScalesResult y = ad::scales(a, b);
  const Var loss = sum(ad::mul(y.product, y.total));  // Σ a² b + a b²
  const std::vector<Var> first = grad({loss}, {a, b}, {}, {.create_graph = true});
  EXPECT_EQ(values_of(first[0]), (Floats{2 * 2 * 5 + 25, -2 * 3 * 7 + 49}));
  EXPECT_EQ(values_of(first[1]), (Floats{4 + 2 * 2 * 5, 9 - 2 * 3 * 7}));
  const std::vector<Var> second = grad({sum(first[0])}, {a, b});
  EXPECT_EQ(values_of(second[0]), (Floats{10, 14}));
  EXPECT_EQ(values_of(second[1]), (Floats{2 * 2 + 2 * 5, -2 * 3 + 2 * 7}));
}

TEST(Generated, AGradientMayBeAFunctionWithAHeader) {
  const Var x = leaf({2, -3});
  const Var slope = grad({sum(ad::cube(x))}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(slope), (Floats{12, 27}));
  EXPECT_EQ(values_of(grad({sum(slope)}, {x})[0]), (Floats{12, -18}));
}

TEST(Generated, AFunctionOfTensorsAloneIsDifferentiableOnce) {
  const Var x = leaf({2, -3});
  const Var y = sum(ad::triple(x));
  const std::string message = message_of([&] { grad({y}, {x}, {}, {.create_graph = true}); });
  EXPECT_NE(message.find("backward of triple: got gradients of gradients through triple"), std::string::npos)
      << message;
  EXPECT_EQ(values_of(grad({y}, {x})[0]), (Floats{3, 3}));
}

TEST(Generated, AKernelWithoutGradientSaysSo) {
  const Var x = leaf({2, -3});
  const Var y = ad::half(x);
  EXPECT_EQ(values_of(y), (Floats{1, -1.5}));
  const std::string message = message_of([&] { backward(sum(y)); });
  EXPECT_NE(message.find("backward of half: got a gradient through half"), std::string::npos) << message;
}

TEST(Generated, AnInputWithoutGradientSaysSo) {
  const Var x = leaf({2, -3}), weight = leaf({5, 7});
  EXPECT_EQ(values_of(grad({sum(ad::weighted(x, weight))}, {x})[0]), (Floats{5, 7}));
  const std::string message = message_of([&] { backward(sum(ad::weighted(x, weight))); });
  EXPECT_NE(message.find("its input weight"), std::string::npos) << message;
}

}  // namespace
}  // namespace ashlar
