// Batches that a training step draws on the device itself: by fit() and HybridTrainer, replayed, interrupted, resumed.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ashlar/ashlar.h"
#include "autograd/autograd.h"
#include "nn/data/device_batches.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/trainer/fit.h"
#include "runtime/random/philox.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

constexpr int kBatches = 7;  // of an epoch

struct Interrupt {};

struct Trained {
  std::vector<FitEpoch> epochs;
  std::vector<std::vector<double>> weights;
  int calls = 0;  // of the loss in training
};

class Batches : public testing::OnDevice {
 protected:
  /// 60 samples in batches of 8. Inputs get noise that belongs to their batch. An exception at call number `stop` of
  /// the loss in training.
  template <class Train>
  Trained train_with(Train run, int stop = -1) const {
    Random random(7);
    Sequential model(Linear(4, 16, random), ReLU(), Linear(16, 2, random));
    model.to(device());
    Adam optimizer(model.parameters(), {.learning_rate = 0.01});
    Random points(3);
    const Tensor x = Tensor::randn({60, 4}, points);
    const Tensor y = x.slice(1, 0, 2) * x.slice(1, 2, 4);
    DeviceBatches data({x, y}, {.batch = 8, .seed = 5, .device = device()});
    const TensorDataset held_out({x, y});
    DataLoader validation(held_out, {.batch = 20});
    Trained trained;
    const auto loss = [&](const std::vector<Tensor>& batch) {
      Tensor inputs = batch.at(0);
      if (model.training()) {
        trained.calls++;
        if (--stop == 0) throw Interrupt();
        inputs = inputs + philox_uniform(data.random(), inputs.shape(), -0.1, 0.1);
      }
      const Var error = ad::sub(model(inputs), batch.at(1));
      return ad::mean(ad::mul(error, error));
    };
    trained.epochs =
        run(Training{.model = model, .optimizer = optimizer, .data = data, .loss = loss, .validation = &validation});
    for (const Var& parameter : model.parameters()) trained.weights.push_back(parameter.value().to_doubles());
    return trained;
  }
  Trained fitted(const FitOptions& options, int stop = -1) const {
    return train_with([&](const Training& training) { return fit(training, options); }, stop);
  }
  Trained foretold(const HybridOptions& options) const {
    return train_with([&](const Training& training) { return HybridTrainer(training, options).train().epochs; });
  }
};

void expect_same(const Trained& got, const Trained& wanted, const std::string& when) {
  EXPECT_EQ(got.weights, wanted.weights) << when;
  ASSERT_EQ(got.epochs.size(), wanted.epochs.size()) << when;
  for (size_t i = 0; i < wanted.epochs.size(); i++) {
    EXPECT_EQ(got.epochs[i].loss, wanted.epochs[i].loss) << when;
    EXPECT_EQ(got.epochs[i].validation, wanted.epochs[i].validation) << when;
  }
}

TEST_P(Batches, AnEpochHasEachSampleOnce) {
  const std::vector<Tensor> numbers{Tensor::arange(10, DType::i64)};
  const DeviceDatasetOptions options{.batch = 3, .seed = 4, .device = device()};
  DeviceBatches data(numbers, options);
  DeviceDataset expected(numbers, options);
  EXPECT_EQ(data.size(), 10);
  EXPECT_EQ(data.batches(), 3);
  EXPECT_EQ(data.drawn_samples(), 3);
  EXPECT_FALSE(data.next()) << "before start()";
  std::vector<int64_t> before;
  for (const uint64_t epoch : {0, 1}) {
    data.start(epoch);
    expected.start(epoch);
    std::vector<int64_t> seen;
    while (const auto batch = data.next()) {
      EXPECT_TRUE(batch->empty());
      const std::vector<int64_t> drawn = data.draw()[0].to_vector<int64_t>();
      EXPECT_EQ(drawn, expected.next()[0].to_vector<int64_t>());
      EXPECT_EQ(data.random().to_vector<int64_t>(), expected.random().to_vector<int64_t>());
      seen.insert(seen.end(), drawn.begin(), drawn.end());
      EXPECT_EQ(data.position() * 3, static_cast<int64_t>(seen.size()));
    }
    EXPECT_EQ(seen.size(), 9U);
    EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 9U);
    EXPECT_NE(seen, before);
    before = seen;
  }
  data.start(1, 2);
  EXPECT_TRUE(data.next());
  EXPECT_EQ(data.draw()[0].to_vector<int64_t>(), std::vector<int64_t>(before.begin() + 6, before.end()));
  EXPECT_FALSE(data.next());
  EXPECT_THROW(data.start(0, 4), ValueError);
}

TEST_P(Batches, ReplayedStepsTrainAsALoopDoes) {
  const Trained by_hand = train_with([](const Training& training) {
    training.model.train();
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
      training.data.start(epoch);
      while (training.data.next()) {
        training.optimizer.zero_grad();
        backward(training.loss(training.data.draw()));
        training.optimizer.step();
      }
    }
    return std::vector<FitEpoch>();
  });
  const Trained called = fitted({.epochs = 3, .replay = false}), replayed = fitted({.epochs = 3, .replay = true});
  EXPECT_EQ(called.calls, 3 * kBatches);
  EXPECT_EQ(replayed.calls, 3 * 2) << "of each epoch the first step as it is, the second to be captured";
  EXPECT_EQ(called.weights, by_hand.weights);
  expect_same(replayed, called, "replayed");
  EXPECT_GT(called.epochs.back().samples_per_second, 0);
}

TEST_P(Batches, FitGoesOnInTheMiddleOfAnEpoch) {
  const Trained wanted = fitted({.epochs = 3, .replay = false});
  for (const int stop : {1, 4, 7, 8, 13, 21}) {
    for (const bool replay : {false, true}) {
      const std::string when = "after " + std::to_string(stop) + (replay ? ", replayed" : "");
      const testing::TemporaryFolder folder;
      FitOptions options{.epochs = 3, .checkpoint = folder / "checkpoint.safetensors", .checkpoint_every = 2};
      options.replay = false;
      EXPECT_THROW(fitted(options, stop), Interrupt);
      options.replay = replay;
      const Trained resumed = fitted(options);
      expect_same(resumed, wanted, when);
      const int done = stop - 1, saved = done / kBatches * kBatches + done % kBatches / 2 * 2;
      if (!replay) {
        EXPECT_EQ(resumed.calls, 3 * kBatches - saved) << when;
      }
    }
  }
}

TEST_P(Batches, AccumulatedUpdatesDrawOneBatchAfterTheOther) {
  // Updates of three, three and one batch: the last one of an epoch is no replay, or it would draw three.
  const Trained called = fitted({.epochs = 4, .accumulate = 3, .replay = false});
  EXPECT_EQ(called.calls, 4 * kBatches);
  expect_same(fitted({.epochs = 4, .accumulate = 3, .replay = true}), called, "replayed");
}

TEST_P(Batches, HybridTrainerTakesThem) {
  HybridOptions options{.steps = 3 * kBatches, .forecaster = Forecaster::none, .replay = true};
  expect_same(foretold(options), fitted({.epochs = 3, .replay = false}), "without jumps it is fit()");
  options = {.steps = 60, .forecaster = Forecaster::direction};
  options.warm_up = 10;
  options.start = 0;
  options.window = 8;
  options.horizon = 2;
  options.full = 6;
  options.correct = 6;
  options.guard_every = 3;
  options.divergence = 100;  // none is rolled back
  options.replay = false;
  const Trained called = foretold(options);
  EXPECT_LT(called.calls, 60) << "it jumped";
  options.replay = true;
  expect_same(foretold(options), called, "replayed");
}

INSTANTIATE_TEST_SUITE_P(, Batches, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

}  // namespace
}  // namespace ashlar::nn
