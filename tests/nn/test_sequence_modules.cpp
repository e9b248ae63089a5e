// Attention and recurrent modules.
#include <gtest/gtest.h>

#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/splitting.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "nn/modules/recurrent.h"
#include "nn/modules/sequential.h"
#include "nn/modules/transformer.h"
#include "nn/optim/sgd.h"
#include "runtime/device/counters.h"
#include "runtime/memory/memory.h"
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

// Heads are cut from rows and laid into rows where they lie: two products and attention are all that runs.
TEST(SequenceModules, HeadsAreNotTurnedRound) {
  Random random(4);
  for (const bool batch_first : {false, true}) {
    const MultiheadAttention attention(8, 2, {.batch_first = batch_first, .random = &random});
    const Var x(Tensor::randn({3, 5, 8}, random));
    const NoGrad no_grad;
    attention(x);  // warm
    const Counters before = counters(DeviceKind::cpu);
    attention(x);
    EXPECT_EQ((counters(DeviceKind::cpu) - before).launches, 3) << batch_first;
  }
}

// Gradients of heads that were cut from one tensor are parts of one: nothing joins them.
TEST(SequenceModules, GradientsOfHeadsAreNotCopied) {
  Random random(5);
  constexpr int64_t kHeads = 2;
  const Tensor rows = Tensor::randn({3, 5, 3 * kHeads, 4}, random), seed = Tensor::randn({3, kHeads, 5, 4}, random);
  const auto attended = [](const std::vector<Var>& parts) {
    const auto heads = [&](int part) { return parts[static_cast<size_t>(part)].permute({0, 2, 1, 3}); };
    return ad::scaled_dot_product_attention(heads(0), heads(1), heads(2), {}, true).y;
  };
  const auto launches_back = [&](const Var& y) {
    const Counters before = counters(DeviceKind::cpu);
    backward(y, {.seed = seed});
    return (counters(DeviceKind::cpu) - before).launches;
  };
  for (int time = 0; time < 2; time++) {  // the first is warm-up
    const Var whole(rows.clone(), true);
    std::vector<Var> apart;
    for (const Tensor& part : split(rows, kHeads, 2)) apart.emplace_back(part.clone(), true);
    const int64_t launches = launches_back(attended(split(whole, kHeads, 2)));
    EXPECT_EQ(launches, launches_back(attended(apart)));
    std::vector<Tensor> gradients;
    for (const Var& part : apart) gradients.push_back(part.grad());
    EXPECT_EQ(whole.grad().to_vector<float>(), cat(gradients, 2).to_vector<float>());
  }
}

// What a layer adds last is the next norm's, in a stack, behind it and in a Sequential.
TEST(SequenceModules, LayersLeaveTheirLastAdditionToTheNextNorm) {
  Random random(6);
  const TransformerLayerOptions options{
      .dim_feedforward = 12, .dropout = 0, .batch_first = true, .norm_first = true, .random = &random};
  const TransformerEncoder encoder(2, 8, 2, options, true);
  const Sequential sequence(TransformerEncoderLayer(8, 2, options), TransformerEncoderLayer(8, 2, options),
                            LayerNorm(8));
  std::vector<Var> theirs = sequence.parameters(), ours = encoder.parameters();
  ASSERT_EQ(theirs.size(), ours.size());
  for (size_t i = 0; i < ours.size(); i++) theirs[i].value().copy_(ours[i].value());
  const Tensor x = Tensor::randn({2, 3, 8}, random), seed = Tensor::randn({2, 3, 8}, random);
  struct Run {
    Tensor y, dx;
    int64_t launches;
  };
  const auto run = [&](const auto& model) {
    const Var input(x.clone(), true);
    const Counters before = counters(DeviceKind::cpu);
    const Var y = model(input);
    const int64_t launches = (counters(DeviceKind::cpu) - before).launches;
    backward(y, {.seed = seed});
    return Run{y.value(), input.grad(), launches};
  };
  const auto by_layers = [&](const Var& input) {
    Var y = input;
    for (const TransformerEncoderLayer& layer : encoder.layers()) y = layer(y);
    return static_cast<const LayerNorm&>(sequence[2])(y);
  };
  run(by_layers);  // warm
  const Run apart = run(by_layers), stacked = run(encoder), in_sequence = run(sequence);
  EXPECT_EQ(stacked.launches, apart.launches - 2);
  EXPECT_EQ(in_sequence.launches, apart.launches - 2);
  EXPECT_LT(largest_difference(stacked.y, apart.y), 1e-6);
  EXPECT_LT(largest_difference(stacked.dx, apart.dx), 1e-5);
  EXPECT_LT(largest_difference(in_sequence.y, apart.y), 1e-6);
  EXPECT_LT(largest_difference(in_sequence.dx, apart.dx), 1e-5);
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

// A mask of keys hides them from every query of its sequence; with attn_mask, what either hides is hidden.
TEST(SequenceModules, MasksOfKeysHideThem) {
  Random random(5);
  const MultiheadAttention attention(8, 2, {.batch_first = true, .random = &random});
  const Var x(Tensor::randn({2, 4, 8}, random));
  const Tensor keys = Tensor::from<bool>({true, true, false, true, true, true, true, true}, {2, 4});
  const AttentionMask mask{.is_causal = true, .key_mask = keys};
  Tensor changed = x.value().clone();
  changed.select(0, 0).select(0, 2).fill_(3);
  const auto others = [&](const Tensor& x) {
    const Tensor y = attention.forward(x, mask).value();
    return ashlar::cat({y.select(0, 0).slice(0, 0, 2), y.select(0, 0).slice(0, 3), y.select(0, 1)});
  };
  EXPECT_LT(largest_difference(others(x.value()), others(changed)), 1e-6);
  const Tensor weights = attention.weights(x, x, mask).value();
  EXPECT_EQ(weights.shape(), (Shape{2, 2, 4, 4}));
  EXPECT_EQ(ashlar::max(weights.select(0, 0).select(-1, 2).contiguous()).item(), 0);
  EXPECT_LT(largest_difference(ashlar::sum(weights, {-1}), Tensor::ones({2, 2, 4})), 1e-6);
  // A query that sees nothing gets nothing, not NaN, by either way of computing.
  const AttentionMask none{.attn_mask = Tensor::zeros({4, 4}, DType::boolean)};
  EXPECT_EQ(ashlar::max(ashlar::abs(attention.weights(x, x, none).value())).item(), 0);
  EXPECT_TRUE(std::isfinite(ashlar::max(attention.forward(x, none).value()).item()));
  EXPECT_THROW(attention.forward(x, {.key_mask = Tensor::ones({2, 3}, DType::boolean)}), ShapeError);
}

// In training dropout changes numbers from call to call; the mean of many calls is what evaluation gives.
TEST(SequenceModules, DropoutStandsInsideInTraining) {
  Random random(6);
  MultiheadAttention attention(8, 2, {.batch_first = true, .dropout = 0.3, .random = &random});
  GRU gru(8, 8, {.num_layers = 2, .dropout = 0.3, .random = &random});
  const Var x(Tensor::randn({2, 5, 8}, random));
  EXPECT_GT(largest_difference(attention(x).value(), attention(x).value()), 1e-3);
  EXPECT_GT(largest_difference(gru(x).output.value(), gru(x).output.value()), 1e-3);
  Tensor sum = Tensor::zeros({2, 5, 8});
  for (int i = 0; i < 400; i++) sum = ashlar::add(sum, attention(x).value());
  attention.eval();
  gru.eval();
  const Tensor expected = attention(x).value();
  EXPECT_LT(largest_difference(ashlar::affine(sum, 1.0 / 400, 0), expected), 0.1);
  EXPECT_EQ(largest_difference(expected, attention(x).value()), 0);
  EXPECT_EQ(largest_difference(gru(x).output.value(), gru(x).output.value()), 0);
  EXPECT_EQ(gru.state_dict().size(), 8U) << "files have PyTorch's names alone";
  EXPECT_THROW(GRU(3, 4, {.dropout = 1.5}), ValueError);
}

// Two heads' weights of 2048 queries by as many keys would be 32 MB.
TEST(SequenceModules, DropoutOfAttentionTakesNoMemoryForWeights) {
  Random random(6);
  const MultiheadAttention attention(8, 2, {.batch_first = true, .dropout = 0.5, .random = &random});
  const Var x(Tensor::randn({1, 2048, 8}, random), true);
  set_memory_cap(Device::cpu(), int64_t{1} << 24);
  EXPECT_NO_THROW(backward(ad::sum(attention.forward(x, AttentionMask{.is_causal = true}))));
  set_memory_cap(Device::cpu(), 0);
  const double largest = ashlar::max(ashlar::abs(x.grad())).item();
  EXPECT_TRUE(largest > 0 && std::isfinite(largest));
}

TEST(SequenceModules, CellsAreStepsOfTheirLayers) {
  Random random(7);
  const LSTM layer(3, 4, {.random = &random});
  const LSTMCell cell(3, 4);
  NamedTensors state = layer.state_dict();
  for (auto& [name, tensor] : state) name = name.substr(0, name.rfind('_'));
  cell.load_state_dict(state);
  const Var x(Tensor::randn({3, 2, 3}, random));
  LSTMCell::Result now;
  for (int64_t t = 0; t < 3; t++) now = cell(x.select(0, t), now.h, now.c);
  const LSTM::Result all = layer(x);
  EXPECT_LT(largest_difference(now.h.value(), all.h_n.value().select(0, 0)), 1e-6);
  EXPECT_LT(largest_difference(now.c.value(), all.c_n.value().select(0, 0)), 1e-6);
  EXPECT_THROW(cell(x), ShapeError);
  EXPECT_THROW(GRUCell(0, 4), ValueError);
  // More steps than cat() takes at once.
  EXPECT_EQ(RNN(3, 4)(Var(Tensor::zeros({130, 1, 3}))).output.shape(), (Shape{130, 1, 4}));
}

TEST(SequenceModules, TransformersStackLayers) {
  const TransformerEncoder encoder(2, 4, 2, {.dim_feedforward = 6});
  EXPECT_EQ(names_of(encoder.named_parameters())[0], "layers.0.self_attn.in_proj_weight");
  EXPECT_NE(encoder.parameters()[0].value().to_vector<float>(),
            encoder.layers()[1].parameters()[0].value().to_vector<float>())
      << "each layer begins with numbers of its own";
  EXPECT_THROW(TransformerDecoder(0, 4, 2), ValueError);
}

}  // namespace
}  // namespace ashlar::nn
