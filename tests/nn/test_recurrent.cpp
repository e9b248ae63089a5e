// Recurrent sequences and modules: launches, rows of several lengths, ensembles, the original GRU.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/backward.h"
#include "autograd/grad.h"
#include "nn/modules/recurrent.h"
#include "runtime/device/counters.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/runtime/devices.h"

namespace ashlar::nn {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  return ashlar::max(ashlar::abs(ashlar::sub(a.to(Device::cpu()), b.to(Device::cpu())))).item();
}

// Whole lines of memory on every device. All steps of kFew units are one launch, but on OpenCL; of kMany none are.
constexpr int64_t kFew = 32, kMany = 144;

/// A sequence of `steps` from zeros, of so many gates.
struct Given {
  int64_t hidden;
  Tensor x, h, weight, bias;
  Given(int64_t steps, int64_t gates, Device device, int64_t members = 0, int64_t units = kFew) : hidden(units) {
    Random random(11);
    const auto made = [&](Shape shape, int member_axis) {
      if (members > 0) shape.insert(member_axis, members);
      return Tensor::randn(shape, random).to(device);
    };
    constexpr int64_t kBatch = 4;
    x = made({steps, kBatch, gates * hidden}, 1);
    h = made({kBatch, hidden}, 0);
    weight = affine(made({gates * hidden, hidden}, 0), 0.2, 0);
    bias = made({gates * hidden}, 0);
  }
};

class RecurrentSequences : public ::testing::TestWithParam<Device> {
 protected:
  const Device device_ = GetParam();
  int64_t launches(const std::function<void()>& work) const {
    const Counters before = counters(device_.kind);
    work();
    return (counters(device_.kind) - before).launches;
  }
  /// What one step more costs.
  double launches_of_a_step(const std::function<void(int64_t steps)>& work) const {
    const int64_t few = launches([&] { work(4); }), many = launches([&] { work(8); });
    return static_cast<double>(many - few) / 4;
  }
  /// That each step of so many units is `wanted` launches, forward and back, but for the original GRU.
  void expect_launches_of_a_step(int64_t units, double wanted) const;
};

void RecurrentSequences::expect_launches_of_a_step(int64_t units, double wanted) const {
  for (const int64_t members : {0, 5}) {
    const auto of = [&](int64_t steps, int64_t gates) { return Given(steps, gates, device_, members, units); };
    std::map<int64_t, Given> rnn, gru, lstm;  // made before launches are counted
    for (const int64_t steps : {4, 8}) {
      rnn.emplace(steps, of(steps, 1));
      gru.emplace(steps, of(steps, 3));
      lstm.emplace(steps, of(steps, 4));
    }
    const auto counted = [&](const std::map<int64_t, Given>& all, const auto& work) {
      return launches_of_a_step([&](int64_t steps) { work(all.at(steps)); });
    };
    EXPECT_EQ(counted(rnn, [](const Given& g) { rnn_sequence(g.x, g.h, g.weight, g.bias); }), wanted);
    EXPECT_EQ(counted(gru, [](const Given& g) { gru_sequence(g.x, g.h, g.weight, g.bias); }), wanted);
    EXPECT_EQ(counted(gru, [](const Given& g) { gru_sequence(g.x, g.h, g.weight, g.bias, {}, false, false); }), 2);
    EXPECT_EQ(counted(lstm, [](const Given& g) { lstm_sequence(g.x, g.h, g.h, g.weight, g.bias); }), wanted);
    const auto back = [](const Given& g, bool reset_after) {
      const Tensor y = g.x.slice(-1, 0, g.hidden).contiguous();
      gru_sequence_grad(y, g.x, g.h, g.weight, g.bias, y, {}, false, reset_after);
    };
    EXPECT_EQ(counted(gru, [&](const Given& g) { back(g, true); }), wanted);
    EXPECT_EQ(counted(gru, [&](const Given& g) { back(g, false); }), 2);
    EXPECT_EQ(counted(rnn, [](const Given& g) { rnn_sequence_grad(g.x, g.x, g.h, g.weight, g.bias, g.x); }), wanted);
    EXPECT_EQ(counted(lstm,
                      [](const Given& g) {
                        const Tensor y = g.x.slice(-1, 0, g.hidden).contiguous();
                        lstm_sequence_grad(y, y, g.x, g.h, g.h, g.weight, g.bias, y, y);
                      }),
              wanted);
  }
}

// On the CPU many steps are one launch.
TEST_P(RecurrentSequences, AStepIsAtMostOneLaunchForwardAndOneBack) {
  expect_launches_of_a_step(kMany, device_.kind == DeviceKind::cpu ? 0 : 1);
  // A cell's single step copies no weights.
  const Given cell(1, 3, device_);
  EXPECT_EQ(launches([&] { gru_sequence(cell.x, cell.h, cell.weight, cell.bias); }), 1);
}

TEST_P(RecurrentSequences, OfFewUnitsAreOneLaunch) {
  expect_launches_of_a_step(kFew, device_.kind == DeviceKind::opencl ? 1 : 0);
}

TEST_P(RecurrentSequences, TakeAWeightThatLiesTransposed) {
  for (const int64_t steps : {1, 3}) {
    Given given(steps, 4, device_);
    const Tensor dense = given.weight, turned = dense.transpose(0, 1).contiguous().transpose(0, 1), c = given.h;
    const auto gradients = [&](const Tensor& weight) {
      const Var w(weight, true), h(given.h, true);
      const auto out = ad::lstm_sequence(Var(given.x), h, Var(c), w, Var(given.bias));
      return grad({ad::sum(out.y)}, {w, h});
    };
    const auto want = gradients(dense), got = gradients(turned);
    for (size_t i = 0; i < want.size(); i++) {
      EXPECT_LT(largest_difference(got[i].value(), want[i].value()), 1e-4) << steps << " steps, gradient " << i;
    }
  }
}

TEST_P(RecurrentSequences, AreOneGraph) {
  const Given given(6, 3, device_);
  const Tensor lengths = Tensor::from<int64_t>({6, 2, 0, 5}, device_);
  const Tensor wanted = gru_sequence(given.x, given.h, given.weight, given.bias, lengths);
  Tensor got;
  const Graph graph =
      capture(device_, [&] { got = gru_sequence(given.x, given.h, given.weight, given.bias, lengths); });
  lengths.fill_(6);
  graph.replay();
  EXPECT_EQ(largest_difference(got, gru_sequence(given.x, given.h, given.weight, given.bias)), 0) << "lengths are read";
  lengths.copy_(Tensor::from<int64_t>({6, 2, 0, 5}, device_));
  graph.replay();
  EXPECT_EQ(largest_difference(got, wanted), 0);
}

// Five members in one launch are what each is by itself, forward and back.
TEST_P(RecurrentSequences, OfAnEnsembleAreThoseOfItsMembers) {
  const Given all(4, 3, device_, 5);
  const auto gradients = [](const Tensor& x, const Tensor& h, const Tensor& weight, const Tensor& bias) {
    const std::vector<Var> inputs{Var(x, true), Var(h, true), Var(weight, true), Var(bias, true)};
    const Var y = ad::gru_sequence(inputs[0], inputs[1], inputs[2], inputs[3]);
    std::vector<Var> results = grad({ad::sum(ad::mul(y, y))}, inputs);
    results.push_back(y);
    return results;
  };
  const std::vector<Var> whole = gradients(all.x, all.h, all.weight, all.bias);
  for (int64_t m = 0; m < 5; m++) {
    const std::vector<Var> single = gradients(all.x.select(1, m).contiguous(), all.h.select(0, m).contiguous(),
                                              all.weight.select(0, m).contiguous(), all.bias.select(0, m).contiguous());
    for (size_t i = 0; i < single.size(); i++) {
      const bool has_steps = i == 0 || i == 4;
      EXPECT_LT(largest_difference(whole[i].value().select(has_steps ? 1 : 0, m).contiguous(), single[i].value()), 1e-3)
          << "member " << m << ", result " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RecurrentSequences, ::testing::ValuesIn(testing::kernel_devices()),
                         [](const auto& info) { return std::string(name_of(info.param.kind)); });

// A row with a length is that row cut off there, in both directions and through layers, and so are its gradients.
template <class Layer>
void expect_rows_cut_off(const RecurrentOptions& options) {
  const Layer layer(3, 4, options);
  Random random(12);
  const Tensor x = Tensor::randn({3, 6, 3}, random);
  const std::vector<int64_t> lengths{4, 6, 1};
  const Tensor counts = Tensor::from(lengths, {3});
  const auto forward = [&](const Var& rows, const Tensor& row_lengths) {
    if constexpr (std::same_as<Layer, LSTM>) {
      return layer(rows, Var(), Var(), row_lengths);
    } else {
      return layer(rows, Var(), row_lengths);
    }
  };
  const auto loss_of = [](const auto& result) {
    return ad::add(ad::sum(ad::tanh(result.output)), ad::sum(result.h_n));
  };
  const auto all = forward(Var(x), counts);
  const std::vector<Var> gradients = grad({loss_of(all)}, layer.parameters());
  std::vector<Tensor> sums;
  for (int64_t row = 0; row < 3; row++) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    const auto alone = forward(Var(x.slice(0, row, row + 1).slice(1, 0, length).contiguous()), Tensor());
    const Tensor output = all.output.value().select(0, row);
    EXPECT_LT(largest_difference(output.slice(0, 0, length).contiguous(), alone.output.value().select(0, 0)), 1e-6);
    if (length < 6) {
      EXPECT_EQ(ashlar::max(ashlar::abs(output.slice(0, length).contiguous())).item(), 0);
    }
    EXPECT_LT(
        largest_difference(all.h_n.value().select(1, row).contiguous(), alone.h_n.value().select(1, 0).contiguous()),
        1e-6);
    const std::vector<Var> of_row = grad({loss_of(alone)}, layer.parameters());
    for (size_t i = 0; i < of_row.size(); i++) {
      if (row == 0)
        sums.push_back(of_row[i].value());
      else
        sums[i] = ashlar::add(sums[i], of_row[i].value());
    }
  }
  for (size_t i = 0; i < sums.size(); i++) EXPECT_LT(largest_difference(sums[i], gradients[i].value()), 1e-5) << i;
}

TEST(RecurrentLengths, ARowEndsWhereItsLengthSays) {
  RecurrentOptions options{.num_layers = 2, .batch_first = true, .bidirectional = true};
  expect_rows_cut_off<RNN>(options);
  expect_rows_cut_off<GRU>(options);
  expect_rows_cut_off<LSTM>(options);
  options.reset_after = false;
  expect_rows_cut_off<GRU>(options);
}

TEST(RecurrentLengths, OfNoStepKeepTheFirstState) {
  const GRU gru(3, 4);
  Random random(13);
  const Var x(Tensor::randn({5, 2, 3}, random)), h(Tensor::randn({1, 2, 4}, random));
  const auto [output, last] = gru(x, h, Tensor::from<int32_t>({0, 9}));
  EXPECT_EQ(largest_difference(last.value().select(1, 0).contiguous(), h.value().select(1, 0).contiguous()), 0);
  EXPECT_LT(
      largest_difference(output.value().select(1, 1).contiguous(), gru(x, h).output.value().select(1, 1).contiguous()),
      1e-6)
      << "more than there are is all";
  EXPECT_THROW(gru(x, h, Tensor::from<int64_t>({1, 2, 3})), ShapeError);
  EXPECT_THROW(gru(x, h, Tensor::from<float>({1, 2})), DTypeError);
}

TEST(RecurrentCells, OfTheOriginalGruAreItsSteps) {
  Random random(14);
  const GRU layer(3, 4, {.reset_after = false, .random = &random}), usual(3, 4);
  const GRUCell cell(3, 4, {.reset_after = false});
  NamedTensors state = layer.state_dict();
  usual.load_state_dict(state);
  for (auto& [name, tensor] : state) name = name.substr(0, name.rfind('_'));
  cell.load_state_dict(state);
  const Var x(Tensor::randn({3, 2, 3}, random));
  Var now;
  for (int64_t t = 0; t < 3; t++) now = cell(x.select(0, t), now);
  EXPECT_LT(largest_difference(now.value(), layer(x).h_n.value().select(0, 0)), 1e-6);
  EXPECT_GT(largest_difference(usual(x).output.value(), layer(x).output.value()), 1e-4);
}

}  // namespace
}  // namespace ashlar::nn
