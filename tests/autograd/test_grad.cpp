// grad(): gradients as results, gradients of gradients, and operations with several outputs.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/autograd.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

Var leaf(std::vector<float> values) {
  const auto size = static_cast<int64_t>(values.size());
  return Var(Tensor::from(values, {size}), true);
}

std::vector<float> values_of(const Var& x) { return x.value().to_vector<float>(); }
using Floats = std::vector<float>;

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

Var cube(const Var& x) { return ad::mul(ad::mul(x, x), x); }

TEST(Grad, OfLeavesAndOfWhatWasComputed) {
  const Var x = leaf({2, 3}), w = leaf({5, 7});
  const Var y = ad::mul(x, x), z = ad::sum(ad::mul(y, w));
  const std::vector<Var> gradients = grad({z}, {x, y, w, z}, {}, {.retain_graph = true});
  EXPECT_EQ(values_of(gradients[0]), (Floats{20, 42}));
  EXPECT_EQ(values_of(gradients[1]), (Floats{5, 7}));
  EXPECT_EQ(values_of(gradients[2]), (Floats{4, 9}));
  EXPECT_EQ(values_of(gradients[3]), (Floats{1}));
  EXPECT_FALSE(gradients[0].requires_grad());
  EXPECT_FALSE(x.grad().defined()) << "no leaf is touched";
  EXPECT_EQ(values_of(grad({z}, {x, x})[1]), (Floats{20, 42})) << "twice the same input";
}

TEST(Grad, AddsUpOverOutputsWithTheirSeeds) {
  const Var x = leaf({2, 3});
  const Var squares = ad::mul(x, x), total = ad::sum(x);
  const Var seed(Tensor::from<float>({1, 10}, {2}));
  EXPECT_EQ(values_of(grad({squares, total}, {x}, {seed, Var()})[0]), (Floats{5, 61}));
  EXPECT_EQ(values_of(grad({x}, {x}, {seed})[0]), (Floats{1, 10})) << "a leaf that is the output";
}

TEST(Grad, OfAGradientOfAGradient) {
  const Var x = leaf({2, -3});
  const Var first = grad({ad::sum(cube(x))}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(first), (Floats{12, 27}));
  const Var second = grad({ad::sum(first)}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(second), (Floats{12, -18}));
  const Var third = grad({ad::sum(second)}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(third), (Floats{6, 6}));
  EXPECT_EQ(values_of(first), (Floats{12, 27})) << "the first one's graph is still there";
}

TEST(Grad, PenaltiesOnGradientsReachTheirLeaves) {
  const Var x = leaf({2, 3}), w = leaf({5, 7});
  const Var slope = grad({ad::sum(ad::mul(ad::mul(x, x), w))}, {x}, {}, {.create_graph = true})[0];
  backward(ad::sum(ad::mul(slope, slope)));  // Σ (2 x w)²
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{8 * 2 * 25, 8 * 3 * 49}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{8 * 4 * 5, 8 * 9 * 7}));
}

TEST(Grad, IsDifferentiableByItsSeed) {
  const Var x = leaf({2, 3}), seed = leaf({1, 10});
  const Var first = grad({ad::mul(x, x)}, {x}, {seed}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(grad({ad::sum(first)}, {seed})[0]), (Floats{4, 6}));
}

TEST(Grad, RecordsInsideOfNoGradWhenAsked) {
  const Var x = leaf({2});
  const Var y = cube(x);
  const NoGrad no_grad;
  const Var first = grad({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_TRUE(first.requires_grad());
  EXPECT_FALSE(ad::mul(x, x).requires_grad());
  EXPECT_EQ(values_of(grad({first}, {x})[0]), (Floats{12}));
}

TEST(Grad, WhatIsLinearHasNoSecondGradient) {
  const Var x = leaf({2, 3});
  const Var first = grad({ad::sum(ad::affine(x, 3, 1))}, {x}, {}, {.create_graph = true})[0];
  EXPECT_FALSE(first.requires_grad());
}

TEST(Grad, UnusedInputsAreAnErrorUnlessAllowed) {
  const Var x = leaf({2}), unused = leaf({3});
  const Var y = cube(x);
  const std::string message = message_of<AutogradError>([&] { grad({y}, {x, unused}, {}, {.retain_graph = true}); });
  EXPECT_NE(message.find("input 1"), std::string::npos) << message;
  EXPECT_NE(message.find("allow_unused"), std::string::npos) << message;
  const std::vector<Var> gradients = grad({y}, {x, unused, cube(unused)}, {}, {.allow_unused = true});
  EXPECT_EQ(values_of(gradients[0]), (Floats{12}));
  EXPECT_FALSE(gradients[1].defined());
  EXPECT_FALSE(gradients[2].defined());
}

TEST(Grad, WrongCallsAreRefused) {
  const Var x = leaf({1, 2}), constant(Tensor::ones({2}));
  const Var y = ad::mul(x, x);
  EXPECT_THROW(grad({}, {x}), ValueError);
  EXPECT_THROW(grad({y}, {}), ValueError);
  EXPECT_THROW(grad({y}, {x}, {Var(), Var()}), ValueError) << "two seeds for one output";
  EXPECT_THROW(grad({y}, {x}), AutogradError) << "two elements, no seed";
  EXPECT_THROW(grad({y}, {x}, {Var(Tensor::ones({3}))}), ShapeError);
  EXPECT_THROW(grad({y}, {x}, {Var(Tensor::ones({2}, DType::f64))}), DTypeError);
  EXPECT_THROW(grad({y}, {constant}, {constant}), AutogradError) << "an input without gradient";
  EXPECT_THROW(grad({constant}, {x}, {constant}), AutogradError) << "an output without gradient";
  EXPECT_THROW(grad({Var()}, {x}), ValueError);
  EXPECT_THROW(grad({y}, {Var()}), ValueError);
  EXPECT_EQ(values_of(grad({y}, {x}, {constant})[0]), (Floats{2, 4})) << "nothing was freed on the way";
}

TEST(Grad, FreesTheGraphUnlessItIsRetained) {
  const Var x = leaf({2});
  const Var y = cube(x);
  grad({y}, {x}, {}, {.create_graph = true});
  grad({y}, {x}, {}, {.retain_graph = true});
  grad({y}, {x});
  const std::string message = message_of<AutogradError>([&] { grad({y}, {x}); });
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
  EXPECT_THROW(backward(y), AutogradError);
  // What was freed can still be asked for, as an input.
  const Var z = ad::mul(y, y);
  EXPECT_EQ(values_of(grad({z}, {y})[0]), (Floats{16}));
}

TEST(Grad, RunsAndFreesNothingBesideTheWay) {
  const Var a = leaf({2}), b = leaf({3});
  int calls = 0;
  const auto counted = [&calls](const Var& x) {
    return record("count", {x}, x.value().clone(), [&calls](const Tensor& dy) -> std::vector<Tensor> {
      calls++;
      return {dy};
    });
  };
  const Var side = counted(b);
  const Var y = ad::mul(ad::mul(a, a), side);
  EXPECT_EQ(values_of(grad({y}, {a})[0]), (Floats{12}));
  EXPECT_EQ(calls, 0);
  backward(side);  // still alive
  EXPECT_EQ(calls, 1);
}

TEST(Grad, GraphsOfGradientsGoWhenDropped) {
  std::weak_ptr<detail::Storage> saved, of_gradient;
  {
    const Var x = leaf({2, 3});
    const Var y = ad::exp(ad::sigmoid(x));
    saved = y.value().storage();
    const Var first = grad({ad::sum(y)}, {x}, {}, {.create_graph = true})[0];
    const Var squares = ad::mul(first, first);
    of_gradient = first.value().storage();
    const Var second = grad({ad::sum(squares)}, {x}, {}, {.create_graph = true})[0];
    EXPECT_TRUE(second.requires_grad());
    EXPECT_FALSE(saved.expired());
  }
  EXPECT_TRUE(saved.expired());
  EXPECT_TRUE(of_gradient.expired());
}

// An output that its own gradient needs must not keep itself alive.
TEST(Grad, ASavedOutputIsNoCycle) {
  std::weak_ptr<detail::Storage> saved;
  {
    const Var x = leaf({2, 3});
    const Var y = ad::softmax(x);
    saved = y.value().storage();
    const Var first = grad({y}, {x}, {Var(Tensor::ones({2}))}, {.create_graph = true})[0];
    EXPECT_TRUE(first.requires_grad());
  }
  EXPECT_TRUE(saved.expired());
}

TEST(Grad, DeepGraphsOfGradientsNeedNoStack) {
  constexpr int kDepth = 50'000;
  const Var x = leaf({1});
  Var y = x;
  for (int i = 0; i < kDepth; i++) {
    y = record("identity", {y}, y.value(), [](const auto& pass) {
      using T = std::decay_t<decltype(pass.dy())>;
      if constexpr (std::is_same_v<T, Tensor>) {
        return pass.gradients(pass.dy());
      } else {
        return pass.gradients(record("identity", {pass.dy()}, pass.dy().value(),
                                     [](const auto& again) { return again.gradients(again.dy()); }));
      }
    });
  }
  const Var seed = leaf({3});
  const Var first = grad({y}, {x}, {seed}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(grad({first}, {seed})[0]), (Floats{1}));
}

TEST(Grad, WhatIsNotDifferentiableTwiceSaysSo) {
  const Var x = leaf({2, 3});
  const auto once = [](const Var& v) {
    return record("once", {v}, v.value().clone(), [](const Tensor& dy) -> std::vector<Tensor> { return {dy}; });
  };
  const Var y = ad::sum(once(ad::mul(x, x)));
  const std::string message = message_of<AutogradError>([&] { grad({y}, {x}, {}, {.create_graph = true}); });
  EXPECT_NE(message.find("backward of once"), std::string::npos) << message;
  EXPECT_NE(message.find("create_graph"), std::string::npos) << message;
  EXPECT_EQ(values_of(grad({y}, {x})[0]), (Floats{4, 6})) << "once it is";
}

TEST(Grad, WhatHasNoGradientSaysSo) {
  const Var x = leaf({2, 3});
  const Var y = record("rounded", {x}, x.value().clone(), NoGradient{});
  for (const bool create_graph : {false, true}) {
    const std::string message = message_of<AutogradError>(
        [&] { grad({ad::sum(y)}, {x}, {}, {.create_graph = create_graph, .retain_graph = true}); });
    EXPECT_NE(message.find("backward of rounded"), std::string::npos) << message;
  }
}

// That their numbers are right, tests/conformance says; there, what can't be differentiated twice passes.
TEST(Grad, TheLibrarysFunctionsAreDifferentiableThrice) {
  const Tensor labels = Tensor::from<int64_t>({1, 0}, {2});
  const std::vector<std::pair<const char*, std::function<Var(const Var&)>>> functions{
      {"exp", ad::exp},
      {"log", ad::log},
      {"sqrt", ad::sqrt},
      {"rsqrt", ad::rsqrt},
      {"tanh", ad::tanh},
      {"sigmoid", ad::sigmoid},
      {"relu", ad::relu},
      {"gelu", ad::gelu},
      {"silu", ad::silu},
      {"neg", ad::neg},
      {"softmax", [](const Var& x) { return ad::softmax(x); }},
      {"log_softmax", [](const Var& x) { return ad::log_softmax(x); }},
      {"cross_entropy", [&](const Var& x) { return ad::cross_entropy(x, labels); }},
      {"matmul", [](const Var& x) { return ad::matmul(x, x, {.activation = Activation::gelu}); }},
      {"gelu_tanh", ad::gelu_tanh},
      {"mish", ad::mish},
      {"hardswish", ad::hardswish},
      {"selu", ad::selu},
      {"softsign", ad::softsign},
      {"elu", [](const Var& x) { return ad::elu(x, 0.5); }},
      {"celu", [](const Var& x) { return ad::celu(x, 0.5); }},
      {"softplus", [](const Var& x) { return ad::softplus(x, 2, 20); }},
      {"lgamma", ad::lgamma},
      {"digamma", ad::digamma},
      {"var", [](const Var& x) { return ad::var(x, {1}); }},
      {"std", [](const Var& x) { return ad::std(x, {1}); }},
      {"norm", [](const Var& x) { return ad::norm(x, 3, {1}); }},
      {"logsumexp", [](const Var& x) { return ad::logsumexp(x, {1}); }},
      {"prod", [](const Var& x) { return ad::prod(x, {1}); }},
      {"cumsum", [](const Var& x) { return ad::cumsum(x); }},
      {"cumprod", [](const Var& x) { return ad::cumprod(x); }},
      {"logcumsumexp", [](const Var& x) { return ad::logcumsumexp(x); }},
      {"sort", [](const Var& x) { return ad::sort(x).values; }},
      {"layer_norm", [](const Var& x) { return ad::layer_norm(x, {}, {}).y; }},
      {"rms_norm", [](const Var& x) { return ad::rms_norm(x).y; }},
      {"batch_norm", [](const Var& x) { return ad::batch_norm(x, {}, {}, {}, {}, true).y; }},
      {"group_norm", [](const Var& x) { return ad::group_norm(x).y; }},
      {"attention", [](const Var& x) { return ad::scaled_dot_product_attention(x, x, x).y; }},
      {"gru_sequence",
       [](const Var& x) {
         const Var weight(Tensor::full({3, 1}, 0.5)), bias(Tensor::zeros({3}));
         const Var steps = ad::cat({x, x, x}, 1).reshape({2, 2, 3});
         return ad::gru_sequence(steps, x.slice(1, 0, 1), weight, bias);
       }},
      {"conv1d", [](const Var& x) { return ad::conv1d(x.unsqueeze(0), x.unsqueeze(0)); }}};
  for (const auto& [name, function] : functions) {
    const Var x(Tensor::from<float>({0.5f, 1, 2, 3}, {2, 2}), true);
    const Var squares = ad::mul(x, x);
    Var y = ad::sum(function(ad::mul(squares, squares)));
    for (int order = 1; order <= 3; order++) {
      ASSERT_NO_THROW(y = ad::sum(grad({y}, {x}, {}, {.create_graph = true})[0])) << name << ", " << order;
    }
  }
}

// ---- gradients of a composition

/// x² y by a kernel, let us say: its own gradient takes tensors alone, the one that is recorded is composed.
Var square_times(const Var& x, const Var& y, int* composed = nullptr) {
  const Tensor value = mul(mul(x.value(), x.value()), y.value());
  return record("square_times", {x, y}, value,
                [x_ = save_input(0, x), y_ = save_input(1, y), composed](const auto& pass) {
                  using T = std::decay_t<decltype(pass.dy())>;
                  const T x = pass.get(x_), y = pass.get(y_);
                  if constexpr (std::is_same_v<T, Tensor>) {
                    return pass.gradients(mul(pass.dy(), mul(affine(x, 2, 0), y)), mul(pass.dy(), mul(x, x)));
                  } else {
                    const auto forward = [composed](const std::vector<Var>& inputs) {
                      if (composed != nullptr) ++*composed;
                      return std::vector<Var>{ad::mul(ad::mul(inputs[0], inputs[0]), inputs[1])};
                    };
                    return gradients_of_composition(forward, {x, y}, {pass.dy()}, pass.needs());
                  }
                });
}

TEST(Composition, StandsForAKernelsGradient) {
  const Var x = leaf({2, -3}), y = leaf({5, 7});
  int composed = 0;
  EXPECT_EQ(values_of(grad({ad::sum(square_times(x, y, &composed))}, {x})[0]), (Floats{20, -42}));
  EXPECT_EQ(composed, 0) << "first gradients go their own way";
  const std::vector<Var> first = grad({ad::sum(square_times(x, y, &composed))}, {x, y}, {}, {.create_graph = true});
  EXPECT_EQ(composed, 1) << "once for all inputs";
  EXPECT_EQ(values_of(first[0]), (Floats{20, -42}));
  EXPECT_EQ(values_of(first[1]), (Floats{4, 9}));
  const std::vector<Var> second = grad({ad::sum(first[0])}, {x, y}, {}, {.create_graph = true});
  EXPECT_EQ(values_of(second[0]), (Floats{10, 14}));
  EXPECT_EQ(values_of(second[1]), (Floats{4, -6}));
  EXPECT_EQ(values_of(grad({ad::sum(second[0])}, {y})[0]), (Floats{2, 2})) << "and on and on";
}

TEST(Composition, ReachesWhatInputsWereComputedFrom) {
  const Var x = leaf({2, -3});
  const Var squares = ad::mul(x, x);
  const Var first = grad({ad::sum(square_times(squares, x))}, {x}, {}, {.create_graph = true})[0];  // 5 x⁴
  EXPECT_EQ(values_of(first), (Floats{80, 405}));
  EXPECT_EQ(values_of(grad({ad::sum(first)}, {x})[0]), (Floats{160, -540}));
}

// A thousand of them on top of each other: each walks over itself alone.
TEST(Composition, IsNotWalkedBeyondItsInputs) {
  constexpr int kDepth = 1000;
  const Var x = leaf({1}), one(Tensor::ones({1}));
  Var y = x;
  int composed = 0;
  for (int i = 0; i < kDepth; i++) y = ad::affine(square_times(y, one, &composed), 0.5, 0.5);  // 1 is a fixed point
  const Var first = grad({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(composed, kDepth);
  EXPECT_EQ(values_of(first), (Floats{1}));
}

TEST(Composition, AsksOnlyForWhatIsNeeded) {
  const Var x = leaf({2, -3}), y(Tensor::from<float>({5, 7}, {2}));
  const Var first = grad({ad::sum(square_times(x, y))}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(grad({ad::sum(first)}, {x})[0]), (Floats{10, 14}));
  const auto forward = [](const std::vector<Var>& inputs) { return std::vector<Var>{ad::mul(inputs[0], inputs[0])}; };
  const std::vector<Var> unused =
      gradients_of_composition(forward, {x, leaf({1, 1})}, {Var(Tensor::ones({2}))}, Needs(3));
  EXPECT_EQ(values_of(unused[0]), (Floats{4, -6}));
  EXPECT_FALSE(unused[1].defined());
  EXPECT_FALSE(gradients_of_composition(forward, {x}, {Var()}, Needs(1))[0].defined()) << "nothing came back";
}

// More steps than one operation takes Vars.
TEST(Composition, OfALongSequenceIsTheKernelsGradient) {
  for (const bool reverse : {false, true}) {
    Random random(6);
    const auto leaf_of = [&](const Shape& shape) { return Var(Tensor::randn(shape, random), true); };
    const Var x = leaf_of({130, 2, 8}), h = leaf_of({2, 2}), c = leaf_of({2, 2});
    const Var weight = leaf_of({8, 2}), bias = leaf_of({8});
    const ad::LstmSequenceResult y = ad::lstm_sequence(x, h, c, weight, bias, {}, reverse);
    const Var loss = ad::add(ad::sum(ad::mul(y.y, y.y)), ad::sum(ad::tanh(y.cells)));
    const std::vector<Var> inputs{x, h, c, weight, bias};
    const std::vector<Var> composed = grad({loss}, inputs, {}, {.create_graph = true}), kernels = grad({loss}, inputs);
    for (size_t i = 0; i < inputs.size(); i++) {
      const Floats got = values_of(composed[i]), wanted = values_of(kernels[i]);
      for (size_t j = 0; j < got.size(); j++) {
        ASSERT_NEAR(got[j], wanted[j], 1e-4 * (1 + std::abs(wanted[j]))) << "input " << i << ", element " << j;
      }
    }
  }
}

// A norm of zeros and what sums to nothing: the derivatives that there are, and no NaN for a penalty to choke on.
TEST(Grad, ANormOfZerosHasFiniteSecondGradients) {
  const Var x(Tensor::from<float>({0, 0, 3, 4}, {2, 2}), true);
  const Var first = grad({ad::sum(ad::norm(x, 2, {1}))}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(first), (Floats{0, 0, 0.6f, 0.8f}));
  const Floats second = values_of(grad({ad::sum(ad::mul(first, first))}, {x})[0]);
  for (const float slope : second) EXPECT_NEAR(slope, 0, 1e-6);  // |∇norm| is 1 whatever x
}

// A sum of singular values has the gradient u vh, however they lie; vectors that may turn among themselves have none.
TEST(Grad, SingularValuesMayBeEqualOrZeroForGradientsOfTheirOwn) {
  const Var equal(Tensor::from<float>({2, 0, 0, 2, 0, 0}, {3, 2}), true);
  EXPECT_EQ(values_of(grad({ad::sum(ad::svd(equal).s)}, {equal})[0]), (Floats{1, 0, 0, 1, 0, 0}));
  for (const Shape& shape : {Shape{4, 3}, Shape{3, 4}}) {
    const Var nothing(Tensor::zeros(shape), true);
    for (const float slope : values_of(grad({ad::sum(ad::svd(nothing).s)}, {nothing})[0]))
      EXPECT_LE(std::abs(slope), 1);
  }
  const Var turned = ad::mul(ad::svd(equal).u, Var(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {3, 2})));
  EXPECT_FALSE(std::isfinite(values_of(grad({ad::sum(turned)}, {equal})[0])[0]));
}

TEST(Grad, ComparisonsAreConstants) {
  const Var x = leaf({2, 3}), y = leaf({2, 4});
  EXPECT_FALSE(ad::equal(x, y).requires_grad());
}

// In-place writes, whoever does them: what a gradient needs must be as it was.
TEST(Grad, WritesInPlaceAreNoticed) {
  const Var x = leaf({2, 3});
  const Var first = grad({ad::sum(cube(x))}, {x}, {}, {.create_graph = true})[0];
  const Tensor momentum = Tensor::zeros({2}), rate = Tensor::full({}, 0.5);
  sgd_step(x.value(), Tensor::ones({2}), momentum, rate, Tensor::ones({}), 0.0, 0.0, 1.0);
  const std::string message = message_of<AutogradError>([&] { grad({ad::sum(first)}, {x}); });
  EXPECT_NE(message.find("backward of mul"), std::string::npos) << message;
  EXPECT_NE(message.find("clone()"), std::string::npos) << message;
}

TEST(Grad, AReplacedLeafIsNoticed) {
  const Var x = leaf({2, 3});
  const Var y = ad::sum(cube(x));
  x.set_value(Tensor::ones({2}));
  EXPECT_EQ(values_of(grad({y}, {x}, {}, {.retain_graph = true})[0]), (Floats{12, 27})) << "first gradients don't mind";
  const std::string message = message_of<AutogradError>([&] { grad({y}, {x}, {}, {.create_graph = true}); });
  EXPECT_NE(message.find("set_value()"), std::string::npos) << message;
}

// ---- several outputs

/// x² and x³, and the number of elements.
std::vector<Var> powers(const Var& x, int* calls = nullptr) {
  const Tensor squares = mul(x.value(), x.value()), cubes = mul(squares, x.value());
  return record_outputs("powers", {x}, {squares, cubes, Tensor::full({}, 2, DType::i64)},
                        [x_ = save_input(0, x), calls](const auto& pass) {
                          using namespace ad;
                          if (calls != nullptr) ++*calls;
                          const auto x = pass.get(x_);
                          const auto of_squares = affine(mul(pass.dy(0), x), 2, 0);
                          const auto of_cubes = affine(mul(pass.dy(1), mul(x, x)), 3, 0);
                          return pass.gradients(add(of_squares, of_cubes));
                        });
}

TEST(SeveralOutputs, AreDifferentiatedTogether) {
  const Var x = leaf({2, -3});
  int calls = 0;
  const std::vector<Var> y = powers(x, &calls);
  EXPECT_TRUE(y[0].requires_grad() && y[1].requires_grad());
  EXPECT_FALSE(y[2].requires_grad()) << "integers";
  backward(ad::sum(ad::mul(y[0], y[1])));  // x⁵
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{80, 405}));
}

TEST(SeveralOutputs, AnUnusedOneCountsAsZero) {
  const Var x = leaf({2, -3});
  EXPECT_EQ(values_of(grad({ad::sum(powers(x)[0])}, {x})[0]), (Floats{4, -6}));
  EXPECT_EQ(values_of(grad({ad::sum(powers(x)[1])}, {x})[0]), (Floats{12, 27}));
}

TEST(SeveralOutputs, AreInputsOfGradEachByItself) {
  const Var x = leaf({2, -3});
  const std::vector<Var> y = powers(x);
  const std::vector<Var> gradients = grad({ad::sum(ad::mul(y[0], y[1]))}, {y[0], y[1], x});
  EXPECT_EQ(values_of(gradients[0]), (Floats{8, -27}));
  EXPECT_EQ(values_of(gradients[1]), (Floats{4, 9}));
  EXPECT_EQ(values_of(gradients[2]), (Floats{80, 405}));
}

TEST(SeveralOutputs, AreDifferentiatedTwice) {
  const Var x = leaf({2, -3});
  const std::vector<Var> y = powers(x);
  const Var first = grad({ad::sum(y[0]), ad::sum(y[1])}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(values_of(grad({ad::sum(first)}, {x})[0]), (Floats{2 + 12, 2 - 18}));
}

// y and 1/y, the latter without a gradient, but used by the one of the former.
std::vector<Var> root(const Var& x) {
  const Tensor y = sqrt(x.value()), inverse = rsqrt(x.value());
  return record_outputs(
      "root", {x}, {y, inverse},
      [inverse_ = save_output(1, inverse)](const auto& pass) {
        using namespace ad;
        return pass.gradients(affine(mul(pass.dy(), pass.get(inverse_)), 0.5, 0));
      },
      /*differentiable=*/1);
}

TEST(SeveralOutputs, OneMayHaveNoGradient) {
  const Var x = leaf({4, 16});
  const std::vector<Var> y = root(x);
  EXPECT_FALSE(y[1].requires_grad());
  EXPECT_EQ(values_of(grad({ad::sum(ad::mul(y[0], y[1]))}, {x})[0]), (Floats{0.125, 0.03125})) << "a constant";
  // Differentiating the gradient would need it: an error and no wrong number.
  const Var first = grad({ad::sum(root(x)[0])}, {x}, {}, {.create_graph = true})[0];
  const std::string message = message_of<AutogradError>([&] { grad({ad::sum(first)}, {x}); });
  EXPECT_NE(message.find("backward of root"), std::string::npos) << message;
  EXPECT_NE(message.find("output 1"), std::string::npos) << message;
}

TEST(SeveralOutputs, AreFreedOnceForAll) {
  const Var x = leaf({2, -3});
  const std::vector<Var> y = powers(x);
  backward(ad::sum(y[0]));
  EXPECT_THROW(backward(ad::sum(y[1])), AutogradError);
}

// ---- second gradients on every device, and in 16 bits

TEST(Grad, HessianVectorProductsOnEveryDevice) {
  for (const Device device : testing::usable_devices()) {
    const Var x(Tensor::from<float>({0.5f, -1, 2}, {3}, device), true);
    const Var v(Tensor::from<float>({1, 2, 3}, {3}, device));
    // L = (Σ x²)²: H = 8 x xᵀ + 4 |x|² I
    const Var squares = ad::sum(ad::mul(x, x));
    const Var slope = grad({ad::mul(squares, squares)}, {x}, {}, {.create_graph = true})[0];
    const Floats product = values_of(grad({slope}, {x}, {v})[0]);
    const float dot = 0.5f - 2 + 6, norm = 0.25f + 1 + 4;
    const Floats wanted{8 * 0.5f * dot + 4 * norm, -8 * dot + 8 * norm, 16 * dot + 12 * norm};
    for (size_t i = 0; i < 3; i++) EXPECT_NEAR(product[i], wanted[i], 1e-4) << device.str();
  }
}

TEST(Grad, SixteenBitSumsStayExactTwice) {
  // y = Σ over 4096 rows of a b, b broadcast: products that are summed are taken in f32.
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); i++) values[i] = i % 2 == 0 ? 1.5f : -1.25f;
  const Var a(Tensor::from(values, {4096, 1}).to(DType::bf16), true), b(Tensor::ones({1}, DType::bf16), true);
  const Var squares = ad::mul(ad::mul(a, a), b);
  const Var seed(Tensor::ones({4096, 1}, DType::bf16));
  const Var first = grad({squares}, {b}, {seed}, {.create_graph = true})[0];  // Σ a²
  EXPECT_EQ(first.value().item(), Tensor::full({}, 2048 * (2.25 + 1.5625), DType::bf16).item());
  const Var second = grad({first}, {a})[0];  // 2 a
  EXPECT_EQ(second.value().to(DType::f32).to_vector<float>()[1], -2.5f);
}

}  // namespace
}  // namespace ashlar
