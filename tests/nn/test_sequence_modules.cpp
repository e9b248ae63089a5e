// Attention and recurrent modules.
#include <gtest/gtest.h>

#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "nn/modules/attention.h"
#include "nn/modules/recurrent.h"
#include "nn/optim/sgd.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

std::vector<std::string> names_of(const NamedVars& vars) {
  std::vector<std::string> names;
  for (const auto& [name, var] : vars) names.push_back(name);
  return names;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return ashlar::max(ashlar::abs(ashlar::sub(a, b))).item();
}

TEST(SequenceModules, NamesAreThoseOfPyTorch) {
  EXPECT_EQ(names_of(MultiheadAttention(8, 2).named_parameters()),
            (std::vector<std::string>{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"}));
  EXPECT_EQ(
      names_of(GRU(3, 4, {.bidirectional = true}).named_parameters()),
      (std::vector<std::string>{"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                                "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"}));
  EXPECT_EQ(LSTM(3, 4, {.num_layers = 2, .bias = false}).parameter_count(), 4 * 4 * (3 + 4) + 4 * 4 * (4 + 4));
}

TEST(SequenceModules, SelfAttentionIsAttentionOfTheSame) {
  Random random(1);
  const MultiheadAttention attention(8, 2, {.batch_first = true, .random = &random});
  const Var x(Tensor::randn({2, 5, 8}, random));
  const AttentionMask causal{.is_causal = true};
  EXPECT_LT(largest_difference(attention(x, causal).value(), attention.forward(x, x, x, causal).value()), 1e-6);
  // A causal mask hides what comes later.
  Tensor changed = x.value().clone();
  changed.slice(1, 4).fill_(3);
  const Tensor before = attention(x, causal).value(), after = attention(Var(changed), causal).value();
  EXPECT_LT(largest_difference(before.slice(1, 0, 4), after.slice(1, 0, 4)), 1e-6);
  EXPECT_GT(largest_difference(before.slice(1, 4), after.slice(1, 4)), 1e-3);
  EXPECT_THROW(attention(Var(Tensor::zeros({2, 5, 7}))), ShapeError);
  EXPECT_THROW(MultiheadAttention(8, 3), ValueError);
}

TEST(SequenceModules, BatchFirstIsTheSameTurnedRound) {
  Random random(2);
  const GRU batch_first(3, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true, .random = &random});
  const GRU steps_first(3, 4, {.num_layers = 2, .bidirectional = true});
  steps_first.load_state_dict(batch_first.state_dict());
  const Var x(Tensor::randn({2, 5, 3}, random));
  const auto [a, a_last] = batch_first(x);
  const auto [b, b_last] = steps_first(x.transpose(0, 1));
  EXPECT_EQ(a.shape(), (Shape{2, 5, 8}));
  EXPECT_EQ(a_last.shape(), (Shape{4, 2, 4}));
  EXPECT_LT(largest_difference(a.value(), b.value().transpose(0, 1).contiguous()), 1e-6);
  EXPECT_LT(largest_difference(a_last.value(), b_last.value()), 1e-6);
  // The last layer's states at its ends: forward at the last step, in reverse at the first.
  EXPECT_LT(largest_difference(b.value().select(0, -1).slice(1, 0, 4).contiguous(), b_last.value().select(0, 2)), 1e-6);
  EXPECT_LT(largest_difference(b.value().select(0, 0).slice(1, 4, 8).contiguous(), b_last.value().select(0, 3)), 1e-6);
}

TEST(SequenceModules, AStateGoesOnWhereASequenceWasCut) {
  Random random(3);
  const LSTM lstm(3, 4, {.num_layers = 2, .random = &random});
  const Var x(Tensor::randn({6, 2, 3}, random));
  const auto [whole, h, c] = lstm(x);
  const auto first = lstm(x.slice(0, 0, 4));
  const auto second = lstm(x.slice(0, 4), first.h_n, first.c_n);
  EXPECT_LT(largest_difference(whole.value().slice(0, 4), second.output.value()), 1e-6);
  EXPECT_LT(largest_difference(c.value(), second.c_n.value()), 1e-6);
  EXPECT_LT(largest_difference(h.value(), second.h_n.value()), 1e-6);
  EXPECT_THROW(lstm(x, Var(Tensor::zeros({1, 2, 4}))), ShapeError);
}

template <class Forward>
double learned(const std::vector<Var>& parameters, double learning_rate, const Forward& loss_of) {
  SGD optimizer(parameters, {.learning_rate = learning_rate});
  double first = 0, last = 0;
  for (int step = 0; step < 20; step++) {
    optimizer.zero_grad();
    const Var loss = loss_of();
    backward(loss);
    optimizer.step();
    last = loss.value().item();
    if (step == 0) first = last;
  }
  return last / first;
}

TEST(SequenceModules, Learn) {
  Random random(4);
  const TransformerEncoderLayer encoder(
      8, 2, {.dim_feedforward = 16, .dropout = 0, .batch_first = true, .norm_first = true, .random = &random});
  const GRU gru(8, 8, {.bidirectional = true, .random = &random});
  const Var x(Tensor::randn({2, 5, 8}, random));
  const auto square = [](const Var& y) { return ad::mean(ad::mul(y, y)); };
  EXPECT_LT(learned(encoder.parameters(), 0.05, [&] { return square(encoder(x)); }), 0.9);
  EXPECT_LT(learned(gru.parameters(), 0.5, [&] { return square(gru(x).output); }), 0.9);
}

}  // namespace
}  // namespace ashlar::nn
