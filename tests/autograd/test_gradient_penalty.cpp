// Networks whose training differentiates gradients: a critic held to slopes of 1 (Gulrajani et al. 2017, WGAN-GP), and
// products of a Hessian with a vector.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ashlar.h"
#include "autograd/autograd.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/normalization.h"
#include "nn/modules/recurrent.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "runtime/graph/graph.h"

namespace ashlar {
namespace {

using nn::LayerNorm, nn::Linear, nn::Sequential, nn::SiLU;

/// E[critic(made)] - E[critic(real)] + 10 E[(|d critic / dx| - 1)²], x between the two.
Var critic_loss(const Sequential& critic, const Tensor& real, const Tensor& made, const Tensor& mix) {
  const Var x(lerp(real, made, mix), true);
  const Var slope = grad({ad::sum(critic.forward(x))}, {x}, {}, {.create_graph = true})[0];
  const Var excess = ad::norm(slope, 2, {1}) - 1;
  return ad::mean(critic.forward(Var(made))) - ad::mean(critic.forward(Var(real))) +
         10 * ad::mean(ad::mul(excess, excess));
}

TEST(GradientPenalty, TrainsACriticAndAGenerator) {
  Random random(3);
  Sequential critic(Linear(2, 24, random), LayerNorm(Shape{24}), SiLU(), Linear(24, 24, random), SiLU(),
                    Linear(24, 1, random));
  Linear generator(2, 2, random);
  nn::Adam of_critic(critic.parameters(), {.learning_rate = 5e-3, .beta1 = 0.5, .beta2 = 0.9});
  nn::Adam of_generator(generator.parameters(), {.learning_rate = 2e-2, .beta1 = 0.5, .beta2 = 0.9});
  const Tensor centre = Tensor::from<float>({2, -1}, {2});
  const auto real_points = [&] { return Tensor::randn({32, 2}, random) * 0.3 + centre; };
  const auto distance = [&] {  // of the generator's mean from the centre
    const std::vector<float> mean = generator.bias().value().to_vector<float>();
    return std::hypot(mean[0] - 2, mean[1] + 1);
  };

  const double before = distance();
  double loss = 0;
  for (int step = 0; step < 80; step++) {
    for (int round = 0; round < 3; round++) {
      of_critic.zero_grad();
      const Tensor made = generator.forward(Var(Tensor::randn({32, 2}, random))).value();
      const Var total = critic_loss(critic, real_points(), made, Tensor::rand({32, 1}, random));
      loss = total.item();
      ASSERT_TRUE(std::isfinite(loss)) << step;
      total.backward();
      of_critic.step();
    }
    of_generator.zero_grad();
    (-ad::mean(critic.forward(generator.forward(Var(Tensor::randn({32, 2}, random)))))).backward();
    of_generator.step();
  }
  EXPECT_GT(before, 1.5);
  EXPECT_LT(distance(), 0.7) << "the generator has found the data";

  // And the critic is what the penalty wants: its slopes are about 1 between the points.
  const Tensor made = generator.forward(Var(Tensor::randn({256, 2}, random))).value();
  const Tensor real = Tensor::randn({256, 2}, random) * 0.3 + centre;
  const Var x(lerp(real, made, Tensor::rand({256, 1}, random)), true);
  const Var slope = grad({ad::sum(critic.forward(x))}, {x})[0];
  EXPECT_NEAR(ad::mean(ad::norm(slope, 2, {1})).item(), 1, 0.35);
}

// Nothing on the way of a composed gradient reads elements on the host or copies from it.
TEST(GradientPenalty, IsCapturedIntoAGraph) {
  Random random(4);
  const Var weight(Tensor::randn({6, 6}, random), true), recurrent(Tensor::randn({6, 2}, random), true);
  const Tensor points = Tensor::randn({3, 2, 6}, random);
  const Var bias(Tensor::zeros({6})), state(Tensor::zeros({2, 2})), none;
  const auto penalty = [&] {
    const Var x(points, true);
    Var y = ad::mish(ad::layer_norm(ad::matmul(x, weight), none, none).y);
    y = ad::batch_norm(y.permute({1, 2, 0}), none, none, none, none, true).y.permute({2, 0, 1});
    y = ad::gru_sequence(y, state, recurrent, bias);
    const Var total = ad::sum(ad::cumprod(y, 0)) + ad::sum(ad::logsumexp(y, {0})) + ad::sum(ad::std(y, {0}));
    const Var slope = grad({total}, {x}, {}, {.create_graph = true})[0];
    return grad({ad::norm(slope, 2)}, {weight, recurrent});
  };
  const std::vector<Var> wanted = penalty();
  std::vector<Var> got;
  const Graph graph = capture(Device::cpu(), [&] { got = penalty(); });
  graph.replay();
  for (size_t i = 0; i < wanted.size(); i++) {
    EXPECT_EQ(got[i].value().to_vector<float>(), wanted[i].value().to_vector<float>()) << i;
  }
  EXPECT_NE(wanted[0].value().to_vector<float>(), std::vector<float>(36)) << "or nothing was compared";
}

// Of a recurrent network's loss by its parameters: against differences of the gradient.
TEST(HessianVectorProduct, OfARecurrentNetwork) {
  Random random(5);
  const nn::GRU gru(3, 4, {.random = &random});
  const LayerNorm norm(Shape{4});
  const Var x(Tensor::randn({5, 2, 3}, random));
  std::vector<Var> parameters = gru.parameters(), directions;
  for (const Var& parameter : norm.parameters()) parameters.push_back(parameter);
  for (const Var& parameter : parameters) directions.emplace_back(Tensor::randn(parameter.shape(), random));
  const auto gradients = [&](bool create_graph) {
    const Var y = norm.forward(gru.forward(x).output);
    return grad({ad::mean(ad::mul(y, ad::mish(y)))}, parameters, {}, {.create_graph = create_graph});
  };
  const std::vector<Var> product = grad(gradients(true), parameters, directions);

  constexpr float kStep = 4e-3f;
  const auto moved = [&](float step) {
    for (size_t i = 0; i < parameters.size(); i++) {
      parameters[i].value().copy_(parameters[i].value() + directions[i].value() * step);
    }
  };
  moved(kStep);
  const std::vector<Var> above = gradients(false);
  moved(-2 * kStep);
  const std::vector<Var> below = gradients(false);
  moved(kStep);
  double largest = 0;
  for (size_t i = 0; i < parameters.size(); i++) {
    const std::vector<float> got = product[i].value().to_vector<float>();
    const std::vector<float> high = above[i].value().to_vector<float>(), low = below[i].value().to_vector<float>();
    for (size_t j = 0; j < got.size(); j++) {
      const double wanted = (high[j] - low[j]) / (2 * kStep);
      EXPECT_NEAR(got[j], wanted, 2e-3 * (1 + std::abs(wanted))) << "parameter " << i << ", element " << j;
      largest = std::max(largest, std::abs(wanted));
    }
  }
  EXPECT_GT(largest, 0.1) << "or nothing was compared";
}

}  // namespace
}  // namespace ashlar
