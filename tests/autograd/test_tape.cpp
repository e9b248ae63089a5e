// The tape itself: accumulation, freeing, modes, errors, depth, threads.
#include <gtest/gtest.h>

#include <thread>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

Var leaf(std::vector<float> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Var(Tensor::from(values, {size}), true);
}

std::vector<float> grad_of(const Var& x) { return x.grad().to_vector<float>(); }

/// The message of the E that f throws.
template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Tape, GradientsOfSeveralUsesAddUp) {
  const Var x = leaf({2, 3});
  const Var square = ad::mul(x, x);
  backward(ad::sum(ad::add(square, x)));  // d/dx (x² + x) = 2x + 1
  EXPECT_EQ(grad_of(x), (std::vector<float>{5, 7}));
}

TEST(Tape, GradientsOfSeveralPassesAddUpUntilCleared) {
  const Var x = leaf({2, 3});
  backward(ad::sum(ad::mul(x, x)));
  backward(ad::sum(ad::mul(x, x)));
  EXPECT_EQ(grad_of(x), (std::vector<float>{8, 12}));
  x.clear_grad();
  EXPECT_FALSE(x.grad().defined());
  backward(ad::sum(x));
  EXPECT_EQ(grad_of(x), (std::vector<float>{1, 1}));
}

// x → (y, y) → ((z, z), (z, z)): the inner node must wait for all of its consumers.
TEST(Tape, ADiamondIsWalkedOnce) {
  const Var x = leaf({3});
  int calls = 0;
  const Var y = record("count", {x}, x.value().clone(), [&calls](const Tensor& dy) -> std::vector<Tensor> {
    calls++;
    return {dy};
  });
  const Var z = ad::add(y, y);
  backward(ad::sum(ad::mul(ad::add(z, y), z)));  // 3x · 2x = 6x²
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(grad_of(x), (std::vector<float>{36}));
}

TEST(Tape, ASeedWeighsTheOutputs) {
  const Var x = leaf({1, 2, 3});
  backward(ad::mul(x, x), {.seed = Tensor::from(std::vector<float>{1, 10, 100}, {3})});
  EXPECT_EQ(grad_of(x), (std::vector<float>{2, 40, 600}));
}

TEST(Tape, ALeafCanBeTheRoot) {
  const Var x = leaf({1, 2});
  const Tensor seed = Tensor::from(std::vector<float>{3, 4}, {2});
  backward(x, {.seed = seed});
  seed.fill_(0);  // the gradient is a copy of its own
  EXPECT_EQ(grad_of(x), (std::vector<float>{3, 4}));
}

// add hands the same dy to both inputs: their gradients must not share memory.
TEST(Tape, LeavesDoNotShareAGradient) {
  const Var a = leaf({1}), b = leaf({1});
  backward(ad::add(a, b));
  a.grad().fill_(7);
  EXPECT_EQ(grad_of(b), (std::vector<float>{1}));
}

TEST(Tape, AGradientSlotIsFilledInPlace) {
  const Var x = leaf({2, 3});
  const Tensor arena = Tensor::full({8}, -1);
  x.set_grad_slot(arena.slice(0, 4, 6));
  backward(ad::sum(ad::mul(x, x)));
  EXPECT_EQ(x.grad().storage(), arena.storage());
  backward(ad::sum(x));
  EXPECT_EQ(arena.to_vector<float>(), (std::vector<float>{-1, -1, -1, -1, 5, 7, -1, -1}));
  x.clear_grad();
  backward(ad::sum(x));  // overwrites the stale contents
  EXPECT_EQ(grad_of(x), (std::vector<float>{1, 1}));
}

TEST(Tape, NoGradRecordsNothing) {
  const Var x = leaf({1, 2});
  {
    const NoGrad outer;
    {
      const NoGrad inner;
      EXPECT_FALSE(grad_enabled());
    }
    EXPECT_FALSE(grad_enabled());
    const Var y = ad::mul(x, x);
    EXPECT_FALSE(y.requires_grad());
    EXPECT_TRUE(y.is_leaf());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(ad::mul(x, x).requires_grad());
}

TEST(Tape, NoGradIsOfOneThread) {
  const NoGrad no_grad;
  bool enabled = false;
  std::thread([&enabled] { enabled = grad_enabled(); }).join();
  EXPECT_TRUE(enabled);
}

TEST(Tape, ConstantsAndDetachedValuesGetNoGradient) {
  const Var x = leaf({2}), constant(Tensor::ones({1}));
  const Var y = ad::mul(ad::mul(x, x).detach(), x);  // 4x with a constant 4
  backward(ad::sum(ad::mul(y, constant)));
  EXPECT_EQ(grad_of(x), (std::vector<float>{4}));
  EXPECT_FALSE(constant.grad().defined());
}

TEST(Tape, IntegersEndTheHistory) {
  const Var x = leaf({1.5, 2.5});
  EXPECT_FALSE(ad::to(x, DType::i32).requires_grad());
  EXPECT_THROW(Var(Tensor::zeros({2}, DType::i64), true), AutogradError);
}

TEST(Tape, ASavedTensorsChangeIsNoticed) {
  const Var x = leaf({1, 2});
  const Var y = ad::mul(x, x);
  x.value().fill_(3);
  const std::string message = message_of<AutogradError>([&] { backward(ad::sum(y)); });
  EXPECT_NE(message.find("mul"), std::string::npos) << message;
  EXPECT_NE(message.find("clone()"), std::string::npos) << message;
}

TEST(Tape, AChangeOfWhatWasNotSavedIsFine) {
  const Var x = leaf({1, 2});
  const Var y = ad::add(x, x);
  x.value().fill_(3);
  backward(ad::sum(y));
  EXPECT_EQ(grad_of(x), (std::vector<float>{2, 2}));
}

TEST(Tape, AFreedGraphSaysSo) {
  const Var x = leaf({1, 2});
  const Var y = ad::mul(x, x), loss = ad::sum(y);
  backward(loss);
  const std::string message = message_of<AutogradError>([&] { backward(loss); });
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
  EXPECT_EQ(grad_of(x), (std::vector<float>{2, 4})) << "nothing is added before the check";
  EXPECT_THROW(backward(ad::sum(ad::exp(y))), AutogradError) << "a new graph on top of a freed one";
  EXPECT_EQ(grad_of(x), (std::vector<float>{2, 4}));
}

TEST(Tape, ARetainedGraphCanBeWalkedAgain) {
  const Var x = leaf({1, 2});
  const Var loss = ad::sum(ad::mul(x, x));
  backward(loss, {.retain_graph = true});
  backward(loss);
  EXPECT_EQ(grad_of(x), (std::vector<float>{4, 8}));
  EXPECT_THROW(backward(loss), AutogradError);
}

TEST(Tape, BackwardFreesWhatItSaved) {
  const Var x = leaf({1, 2});
  const Tensor kept = Tensor::ones({2});
  const Var y = record("hold", {x}, x.value().clone(), [saved = save(kept)](const Tensor& dy) -> std::vector<Tensor> {
    return {mul(dy, saved.get())};
  });
  const Var loss = ad::sum(y);
  EXPECT_EQ(kept.storage().use_count(), 2);
  backward(loss);
  EXPECT_EQ(kept.storage().use_count(), 1);
}

TEST(Tape, WrongRootsAreRefused) {
  const Var x = leaf({1, 2});
  EXPECT_THROW(backward(ad::mul(x, x)), AutogradError) << "two elements, no seed";
  EXPECT_THROW(backward(Var(Tensor::ones({1}))), AutogradError) << "nothing to differentiate";
  EXPECT_THROW(backward(ad::mul(x, x), {.seed = Tensor::ones({3})}), ShapeError);
  EXPECT_THROW(backward(ad::mul(x, x), {.seed = Tensor::ones({2}, DType::f64)}), DTypeError);
  EXPECT_THROW(backward(Var()), ValueError);
}

TEST(Tape, WrongGradientsAreRefused) {
  const Var x = leaf({1, 2});
  const auto recorded = [&x](std::vector<Tensor> gradients) {
    return record("wrong", {x}, Tensor::ones({1}), [gradients](const Tensor&) { return gradients; });
  };
  EXPECT_THROW(backward(recorded({})), AutogradError) << "too few";
  EXPECT_THROW(backward(recorded({Tensor::ones({3})})), AutogradError) << "another shape";
  EXPECT_THROW(backward(recorded({Tensor::ones({2}, DType::f16)})), AutogradError) << "another dtype";
  EXPECT_THROW(backward(recorded({Tensor::ones({2}), Tensor::ones({2})})), AutogradError) << "too many";
  backward(recorded({Tensor()}));
  EXPECT_FALSE(x.grad().defined()) << "an undefined gradient stands for none";
}

TEST(Tape, NeedsTellsWhichGradientsAreWanted) {
  const Var a = leaf({1}), b(Tensor::ones({1})), c = leaf({1});
  std::vector<bool> needed;
  const Var y = record("ask", {a, b, c}, Tensor::ones({1}), [&needed](const Tensor& dy, Needs needs) {
    needed = {needs(0), needs(1), needs(2)};
    return std::vector<Tensor>{dy, Tensor(), dy};
  });
  backward(y);
  EXPECT_EQ(needed, (std::vector<bool>{true, false, true}));
}

TEST(Tape, LeavesOnlyCanBeChanged) {
  const Var x = leaf({1, 2});
  const Var y = ad::mul(x, x);
  EXPECT_THROW(y.set_value(Tensor::ones({2})), AutogradError);
  EXPECT_THROW(y.set_requires_grad(false), AutogradError);
  x.set_requires_grad(false);
  EXPECT_FALSE(ad::mul(x, x).requires_grad());
}

// A hundred thousand operations in a row: neither the walk nor the destructors may recurse.
TEST(Tape, DeepGraphsNeedNoStack) {
  constexpr int kDepth = 100'000;
  const auto chain = [](const Var& x) {
    Var y = x;
    for (int i = 0; i < kDepth; i++) {
      y = record("identity", {y}, y.value(), [](const Tensor& dy) -> std::vector<Tensor> { return {dy}; });
    }
    return y;
  };
  const Var x = leaf({1});
  backward(chain(x));
  EXPECT_EQ(grad_of(x), (std::vector<float>{1}));
  chain(x);  // dropped without a backward pass
}

TEST(Tape, CastsAndMovesPassGradientsBack) {
  for (const Device device : testing::usable_devices()) {
    const Var x = leaf({1, 2});
    const Var y = ad::to(ad::to(x, device), DType::f64);
    EXPECT_EQ(y.device(), device);
    backward(y, {.seed = Tensor::full({2}, 3, DType::f64, device)});
    EXPECT_EQ(grad_of(x), (std::vector<float>{3, 3}));
    EXPECT_EQ(x.grad().device(), Device::cpu());
  }
}

TEST(Tape, TwoRunsGiveTheSameBits) {
  const auto run = [] {
    const Var x = leaf({0.1F, 0.7F, 1.3F});
    Var sum = x;
    for (int i = 0; i < 20; i++) sum = ad::add(ad::mul(sum, x), ad::exp(x));
    backward(ad::sum(sum));
    return grad_of(x);
  };
  EXPECT_EQ(run(), run());
}

// Threads share a constant leaf and have graphs of their own.
TEST(Tape, ThreadsWorkOnGraphsOfTheirOwn) {
  const Var shared(Tensor::full({16}, 2));
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&result, &shared] {
      for (int i = 0; i < 20; i++) {
        const Var x(Tensor::full({16}, 3), true);
        backward(ad::sum(ad::mul(ad::mul(x, x), shared)));
        result = grad_of(x);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, std::vector<float>(16, 12));
}

}  // namespace
}  // namespace ashlar
