// What all optimisers share: parameters in arenas, on devices and in 16 bits, groups, clipping, state that is kept.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>

#include "ashlar/ops.h"
#include "nn/optim/adagrad.h"
#include "nn/optim/adam.h"
#include "nn/optim/lion.h"
#include "nn/optim/nadam.h"
#include "nn/optim/rmsprop.h"
#include "nn/optim/sgd.h"
#include "runtime/device/counters.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/nn/optimizers.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class SharedByOptimizers : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, SharedByOptimizers, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

TEST_P(SharedByOptimizers, ParametersBecomeAlignedViewsOfOneArena) {
  const Var a(Tensor::full({3}, 1, DType::f32, device()), true), b(Tensor::full({2, 2}, 2, DType::f32, device()), true);
  const Var copy = a;
  const ParameterArena arena({a, b});
  EXPECT_EQ(a.value().storage(), arena.values().storage());
  EXPECT_EQ(b.value().storage(), arena.values().storage());
  EXPECT_EQ(copy.value().storage(), arena.values().storage()) << "copies of the Var see the move";
  EXPECT_EQ(b.value().offset() * size_of(DType::f32), 512);
  EXPECT_EQ(arena.values().numel() * size_of(DType::f32), 1024);
  EXPECT_EQ(b.value().to_vector<float>(), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_TRUE(arena.holds_parameters());
  a.set_value(a.value().clone());
  EXPECT_FALSE(arena.holds_parameters());
  EXPECT_THROW(ParameterArena({}), ValueError);
  EXPECT_THROW(ParameterArena({a, Var(Tensor::ones({1}))}), ValueError);
}

TEST_P(SharedByOptimizers, AParameterWithoutGradientCountsAsZero) {
  const Var a(Tensor::full({2}, 1, DType::f32, device()), true), b(Tensor::full({2}, 1, DType::f32, device()), true);
  SGD optimizer({a, b}, {.learning_rate = 0.5});
  optimizer.step();
  EXPECT_EQ(optimizer.steps(), 0) << "no gradient at all: no step";
  b.set_grad(Tensor::full({2}, 3, DType::f32, device()));
  optimizer.step();
  optimizer.zero_grad();
  a.set_grad(Tensor::full({2}, 1, DType::f32, device()));
  optimizer.step();
  EXPECT_EQ(optimizer.steps(), 2);
  EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{0.5F, 0.5F}));
  EXPECT_EQ(b.value().to_vector<float>(), (std::vector<float>{-0.5F, -0.5F})) << "b's old gradient is not used again";
}

// Training that moves to another device in the middle ends where training in one place does.
TEST_P(SharedByOptimizers, StateFollowsItsParameters) {
  const auto run = [this](bool moves) {
    const Var a(Tensor::full({2}, 1), true), b(Tensor::full({3}, 2), true);
    Adam optimizer({a, b}, {.learning_rate = 0.1});
    for (int t = 1; t <= 6; t++) {
      if (moves && t == 3) {
        a.set_value(a.value().to(device()));
        b.set_value(b.value().to(device()));
      }
      if (moves && t == 5) a.set_value(a.value().to(Device::cpu()));  // now two arenas
      optimizer.zero_grad();
      a.set_grad(Tensor::from(gradients(2, 0, t), {2}, a.device()));
      b.set_grad(Tensor::from(gradients(3, 2, t), {3}, b.device()));
      optimizer.step();
    }
    EXPECT_EQ(optimizer.steps(), 6);
    std::vector<float> result = a.value().to_vector<float>();
    for (float value : b.value().to_vector<float>()) result.push_back(value);
    for (float value : optimizer.state(1, 1).to_vector<float>()) result.push_back(value);
    return result;
  };
  const auto stayed = run(false), moved = run(true);
  for (size_t i = 0; i < stayed.size(); i++) EXPECT_NEAR(moved[i], stayed[i], 1e-5) << i;
}

TEST_P(SharedByOptimizers, HalfPrecisionParametersKeepStatesInFloat) {
  const Var a(Tensor::full({4}, 1, DType::f16, device()), true);
  Adam optimizer({a}, {.learning_rate = 0.125});
  a.set_grad(Tensor::full({4}, 1e-3, DType::f16, device()));  // squared it is 0 in f16
  optimizer.step();
  EXPECT_EQ(a.dtype(), DType::f16);
  EXPECT_EQ(optimizer.state(0, 0).dtype(), DType::f32);
  EXPECT_NEAR(a.value().to(DType::f32).to_vector<float>()[0], 0.875, 1e-3) << "Adam's first step is the learning rate";
}

TEST(Optimizers, SharedParametersAreUpdatedOnce) {
  const Var a(Tensor::ones({1}), true);
  SGD optimizer({a, a}, {.learning_rate = 1});
  a.set_grad(Tensor::full({1}, 0.25));
  optimizer.step();
  EXPECT_EQ(a.value().item(), 0.75);
}

TEST(Optimizers, StepsRefuseWhatOverlapsInPart) {
  using testing::expect_error;
  const Tensor arena = Tensor::ones({12}), grad = Tensor::ones({8}), rate = Tensor::full({}, 0.1),
               scale = Tensor::ones({});
  const Tensor param = arena.slice(0, 0, 8);
  expect_error<ValueError>([&] { sgd_step(param, grad, arena.slice(0, 4), rate, scale, 0.9, 0, 1); },
                           {"sgd_step", "param and buffer share memory", "clone()"});
  expect_error<ValueError>([&] { sgd_step(param, arena.slice(0, 4), grad, rate, scale, 0.9, 0, 1); },
                           {"param and grad"});
  expect_error<ValueError>([&] { sgd_step(param, grad, Tensor::zeros({8}), arena.select(0, 2), scale, 0.9, 0, 1); },
                           {"param and lr"});
  EXPECT_EQ(arena.to_vector<float>(), std::vector<float>(12, 1));
  sgd_step(arena.slice(0, 0, 4), grad.slice(0, 0, 4), arena.slice(0, 8), arena.select(0, 5), scale, 0, 0,
           1);  // neighbours
}

TEST_P(SharedByOptimizers, GroupsHaveOptionsOfTheirOwn) {
  const Var a(Tensor::ones({2}, DType::f32, device()), true), b(Tensor::ones({2}, DType::f32, device()), true);
  SGD optimizer({{{a}, {.learning_rate = 0.5}}, {{b}, {.learning_rate = 0.25, .weight_decay = 1}}});
  EXPECT_EQ(optimizer.group_count(), 2U);
  a.set_grad(Tensor::ones({2}, DType::f32, device()));
  b.set_grad(Tensor::ones({2}, DType::f32, device()));
  optimizer.step();
  EXPECT_EQ(a.value().to_vector<float>(), (std::vector<float>{0.5F, 0.5F}));
  EXPECT_EQ(b.value().to_vector<float>(), (std::vector<float>{0.5F, 0.5F}));  // 1 - 0.25 · (1 + 1)
  optimizer.set_learning_rate(0, 0);
  optimizer.step();
  EXPECT_EQ(a.value().to_vector<float>()[0], 0.5F);
  EXPECT_EQ(b.value().to_vector<float>()[0], 0.125F);  // 0.5 - 0.25 · 1.5
}

// Two groups and three arenas' worth of gradients are one vector; what is captured clips by what comes later.
TEST_P(SharedByOptimizers, ClipsByNormAndByValue) {
  const Var a(Tensor::zeros({2}, DType::f32, device()), true), b(Tensor::zeros({3}, DType::f32, device()), true);
  SGD optimizer({{{a}, {.learning_rate = 1}}, {{b}, {.learning_rate = 1}}});
  const auto give = [&](double x, double y) {
    a.set_grad(Tensor::full({2}, x, DType::f32, device()));
    b.set_grad(Tensor::full({3}, y, DType::f32, device()));
  };
  const auto moved = [&] {
    const std::vector<double> now{-a.value().to_doubles()[1], -b.value().to_doubles()[2]};
    a.value().fill_(0);
    b.value().fill_(0);
    return now;
  };
  const auto expect_moved = [&](double x, double y) {
    const auto now = moved();
    EXPECT_NEAR(now[0], x, 1e-5);
    EXPECT_NEAR(now[1], y, 1e-5);
  };
  optimizer.set_clipping({.norm = 2});
  give(2, 4);  // length √(2 · 4 + 3 · 16) = √56
  optimizer.step();
  EXPECT_NEAR(optimizer.gradient_norm().item(), std::sqrt(56.0), 1e-5);
  expect_moved(2 * 2 / std::sqrt(56.0), 4 * 2 / std::sqrt(56.0));
  const Graph graph = capture(device(), [&] { optimizer.step(); });
  a.grad().fill_(0.1);
  b.grad().fill_(0.2);
  graph.replay();
  expect_moved(0.1, 0.2);
  a.grad().fill_(3);
  b.grad().fill_(0);
  graph.replay();
  expect_moved(3 * 2 / std::sqrt(18.0), 0);

  optimizer.set_clipping({.value = 0.5});
  give(2, -0.25);
  optimizer.step();
  expect_moved(0.5, -0.25);
  optimizer.set_gradient_scale(0.125);  // of eight backward passes
  optimizer.step();
  expect_moved(0.25, -0.03125);
  optimizer.set_clipping({.norm = 0.25, .value = 0.2});
  give(2, 0);  // scaled 0.25, length 0.25 √2
  optimizer.step();
  expect_moved(0.25 / std::sqrt(2.0), 0);
  optimizer.set_clipping({});
  give(std::numeric_limits<double>::infinity(), 1);
  optimizer.step();
  EXPECT_EQ(moved()[0], std::numeric_limits<double>::infinity()) << "nothing hides an overflow";
}

/// Arenas of several dtypes, one of which takes several passes: squares are added up in f32, and read no oftener than a
/// sum reads them.
TEST_P(SharedByOptimizers, GradientsOfAllArenasHaveOneNorm) {
  Random random(3);
  const auto make = [&](const Shape& shape, DType dtype) { return Var(Tensor::zeros(shape, dtype, device()), true); };
  const Var large = make({300, 701}, DType::f32), half = make({1000}, DType::f16), brain = make({77}, DType::bf16),
            other = make({5}, DType::f32);
  SGD optimizer({{{large, half, brain}, {}}, {{other}, {}}});
  ASSERT_EQ(optimizer.arena_values().size(), 4U);
  EXPECT_EQ(optimizer.norm_of_gradients().item(), 0) << "there is none yet";
  const auto give = [&](double size) {  // returns their norm
    double squares = 0;
    for (const Var& parameter : {large, half, brain, other}) {
      const Tensor numbers = affine(Tensor::randn(parameter.shape(), random), size, 0.0).to(parameter.dtype());
      parameter.set_grad(numbers.to(device()));
      for (const double number : numbers.to_doubles()) squares += number * number;
    }
    return std::sqrt(squares);
  };
  double norm = give(100);  // f16's squares are infinite in f16
  EXPECT_NEAR(optimizer.norm_of_gradients().item(), norm, 1e-5 * norm);
  Tensor replayed;
  const Graph graph = capture(device(), [&] { replayed = optimizer.norm_of_gradients(); });
  for (const double size : {0.01, 3.0}) {
    norm = give(size);
    graph.replay();
    EXPECT_NEAR(replayed.item(), norm, 1e-5 * norm);
  }
  optimizer.zero_grad();
  other.set_grad(Tensor::full({5}, 2, DType::f32, device()));
  EXPECT_NEAR(optimizer.norm_of_gradients().item(), std::sqrt(20.0), 1e-5) << "of one arena alone";

  SGD single({large}, {});
  large.set_grad(Tensor::ones(large.shape(), DType::f32, device()));
  const Tensor gradients = single.parameter_arenas()[0]->gradients();
  const auto launches = [&](auto work) {
    const Counters before = counters(device().kind);
    work();
    return (counters(device().kind) - before).launches;
  };
  EXPECT_EQ(launches([&] { single.norm_of_gradients(); }), launches([&] { sqrt(sum(gradients)); }));
}

/// Of -gradients down is where of gradients up is: with weight decay, clipped by norm and by value, scaled, and beside
/// a group that goes down.
TEST_P(SharedByOptimizers, MaximizeGoesUpTheGradient) {
  const auto steps = [&](auto kind, auto options, bool maximize, double sign) {
    using Kind = typename decltype(kind)::type;
    const Tensor first = Tensor::arange(6, DType::f32, device());
    const Var a(first.clone(), true), b(first.clone(), true);
    options.maximize = maximize;
    auto down = options;
    down.maximize = false;
    Kind optimizer({{{a}, options}, {{b}, down}});
    for (int t = 1; t <= 6; t++) {
      if (t == 3) optimizer.set_clipping({.norm = 3, .value = 1});
      if (t == 5) optimizer.set_gradient_scale(0.5);
      const Tensor gradient = Tensor::from(gradients(6, 0, t), {6}, device());
      a.set_grad(affine(gradient, sign, 0.0));
      b.set_grad(gradient.clone());
      optimizer.step();
    }
    std::vector<float> result = a.value().template to_vector<float>();
    for (const float value : b.value().template to_vector<float>()) result.push_back(value);
    return result;
  };
  const auto check = [&](auto kind, auto options) {
    options.weight_decay = 0.1;
    const auto up = steps(kind, options, true, 1), wanted = steps(kind, options, false, -1);
    EXPECT_EQ(up, wanted);
    EXPECT_NE(up, steps(kind, options, false, 1));
  };
  check(std::type_identity<SGD>(), SgdOptions{.momentum = 0.9});
  check(std::type_identity<Adam>(), AdamOptions{});
  check(std::type_identity<AdamW>(), AdamOptions{});
  check(std::type_identity<Adam>(), AdamOptions{.amsgrad = true});
  check(std::type_identity<NAdam>(), NAdamOptions{});
  check(std::type_identity<RMSprop>(), RMSpropOptions{});
  check(std::type_identity<Adagrad>(), AdagradOptions{});
}

TEST_P(SharedByOptimizers, StateGoesAndComesBack) {
  const auto make = [&] { return Var(Tensor::full({3}, 2, DType::f32, device()), true); };
  const Var a = make(), b = make();
  Adam first({a}, {.learning_rate = 0.1}), second({b}, {.learning_rate = 0.3});
  const auto step = [&](Adam& adam, const Var& w, int t) {
    w.set_grad(Tensor::from(gradients(3, 0, t), {3}, device()));
    adam.step();
  };
  for (int t = 0; t < 3; t++) step(first, a, t);
  second.load_state_dict(first.state_dict());
  b.value().copy_(a.value());
  EXPECT_EQ(second.learning_rate(), 0.1);
  for (int t = 3; t < 6; t++) {
    step(first, a, t);
    step(second, b, t);
    EXPECT_EQ(a.value().to_vector<float>(), b.value().to_vector<float>());
  }
  EXPECT_EQ(second.steps(), 6);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : first.state_dict()) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"state.0.step", "state.0.exp_avg", "state.0.exp_avg_sq", "learning_rates"}));
  NamedTensors state = first.state_dict();
  const auto before = second.state(0, 0).to_vector<float>();
  state[1].second = Tensor::ones({2});
  EXPECT_THROW(second.load_state_dict(state), ShapeError);
  state.erase(state.begin() + 1);
  EXPECT_THROW(second.load_state_dict(state), ValueError);
  EXPECT_EQ(second.state(0, 0).to_vector<float>(), before);
  SGD other({b}, {});
  EXPECT_THROW(other.load_state_dict(first.state_dict()), ValueError);
}

TEST(Optimizers, NonsenseIsRefused) {
  const Var a(Tensor::ones({1}), true);
  EXPECT_THROW(SGD({}, {}), ValueError);
  EXPECT_THROW(SGD({Var(Tensor::ones({1}))}, {}), ValueError) << "requires no gradient";
  EXPECT_THROW(SGD({a}, {.learning_rate = -1}), ValueError);
  EXPECT_THROW(SGD({a}, {.momentum = -1}), ValueError);
  EXPECT_THROW(Adam({a}, {.beta1 = 1}), ValueError);
  EXPECT_THROW(Adam({a}, {.learning_rate = std::numeric_limits<double>::infinity()}), ValueError);
  EXPECT_THROW(AdamW({a}, {.weight_decay = -0.1}), ValueError);
  EXPECT_THROW(NAdam({a}, {.momentum_decay = -1}), ValueError);
  EXPECT_THROW(RMSprop({a}, {.alpha = 1}), ValueError);
  EXPECT_THROW(Adagrad({a}, {.initial_accumulator_value = -1}), ValueError);
  EXPECT_THROW(Lion({a}, {.beta2 = -1}), ValueError);
  SGD optimizer({a}, {});
  EXPECT_THROW(optimizer.set_learning_rate(std::nan("")), ValueError);
  EXPECT_THROW(optimizer.state(0, 7), IndexError);
  EXPECT_THROW(optimizer.state(1, 0), IndexError);
  EXPECT_THROW(optimizer.set_learning_rate(1, 1), IndexError);
  EXPECT_THROW(optimizer.set_clipping({.norm = 0}), ValueError);
  EXPECT_THROW(optimizer.set_gradient_scale(std::nan("")), ValueError);
}

}  // namespace
}  // namespace ashlar::nn
