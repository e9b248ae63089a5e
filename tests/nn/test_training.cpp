// Training a small problem to the end, on every device; what it copies; what it reports.
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/trainer/metrics_file.h"
#include "nn/trainer/progress.h"
#include "nn/trainer/trainer.h"
#include "runtime/device/counters.h"
#include "runtime/support/error.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

class TrainingOnDevice : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, TrainingOnDevice, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

/// Images of 4 × 4: class c has its c-th quarter bright, all pixels have noise. Linear models separate them.
LabeledImages quarters(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> images, labels;
  for (int64_t i = 0; i < count; i++) {
    const auto label = static_cast<uint8_t>(random.below(4));
    labels.push_back(label);
    for (uint64_t pixel = 0; pixel < 16; pixel++) {
      const uint64_t quarter = pixel / 8 * 2 + pixel % 4 / 2;
      images.push_back(static_cast<uint8_t>(random.below(120) + (quarter == label ? 100 : 0)));
    }
  }
  return {Tensor::from(images, {count, 4, 4}), Tensor::from(labels, {count})};
}

void build(Sequential& model) {
  Random random(2);
  model.add<Linear>(16, 12, random).add<ReLU>().add<Linear>(12, 4, random);
}

Scores run(Device device, bool adam, int epochs, std::vector<float>* weights = nullptr,
           TransferReport* transfers = nullptr, std::optional<bool> replay = {}) {
  const LabeledImages train = quarters(500, 1), test = quarters(200, 2);
  Sequential model;
  build(model);
  std::unique_ptr<Optimizer> optimizer;
  if (adam)
    optimizer = std::make_unique<Adam>(model.parameters(), AdamOptions{.learning_rate = 0.01});
  else
    optimizer = std::make_unique<SGD>(model.parameters(), SgdOptions{.learning_rate = 0.05, .momentum = 0.9});
  Trainer trainer(model, *optimizer, device, pixel_statistics(train));
  BatchLoader batches(train, {.batch = 32, .seed = 4}), tests(test, {.batch = 64, .shuffle = false});
  if (replay) trainer.set_replay(*replay);
  for (int epoch = 0; epoch < epochs; epoch++) {
    trainer.train(batches, static_cast<uint64_t>(epoch));
    optimizer->set_learning_rate(0.5 * optimizer->learning_rate());
  }
  if (weights != nullptr) *weights = model.parameters()[0].value().to_vector<float>();
  if (transfers != nullptr) *transfers = trainer.transfers();
  return trainer.evaluate(tests);
}

TEST_P(TrainingOnDevice, ASmallProblemIsLearnt) {
  const Scores with_adam = run(device(), true, 8), with_sgd = run(device(), false, 8);
  EXPECT_EQ(with_adam.samples, 200);
  EXPECT_GE(with_adam.accuracy, 0.98);
  EXPECT_GE(with_sgd.accuracy, 0.98);
  EXPECT_LT(with_adam.loss, 0.2);
}

TEST_P(TrainingOnDevice, TheSameSeedGivesTheSameBits) {
  std::vector<float> first, second;
  run(device(), true, 2, &first);
  run(device(), true, 2, &second);
  EXPECT_EQ(first, second);
}

TEST_P(TrainingOnDevice, ReplayedStepsGiveTheSameBits) {
  for (const bool adam : {true, false}) {
    std::vector<float> eager, replayed;
    TransferReport report;
    const Scores first = run(device(), adam, 3, &eager, nullptr, false);
    const Scores second = run(device(), adam, 3, &replayed, &report, true);
    EXPECT_EQ(eager, replayed);
    EXPECT_EQ(first.loss, second.loss);
    EXPECT_EQ(report.bytes_out, 0);
  }
}

TEST_P(TrainingOnDevice, SteadyStepsCopyTheirBatchAndNothingElse) {
  TransferReport report;
  run(device(), true, 2, nullptr, &report);
  EXPECT_EQ(report.steps, 2 * 16 - 3);
  EXPECT_EQ(report.bytes_out, 0);
  if (device().kind == DeviceKind::cpu) {
    EXPECT_EQ(report.bytes_in, 0);
  } else {
    EXPECT_TRUE(report.is_clean()) << report.bytes_in << " bytes in, batches of " << report.batch_bytes;
    EXPECT_GT(report.batch_bytes, 0);
  }
}

// An untrained model's loss is ln 4 or so; the meter weighs the smaller last batch rightly.
TEST_P(TrainingOnDevice, ScoresAreMeansOverSamples) {
  Meter meter(device());
  const auto logits = [&](std::vector<float> values, int64_t rows) {
    return Tensor::from(values, {rows, 2}, device());
  };
  meter.add(Tensor::full({}, 2, DType::f32, device()), logits({1, 0, 0, 1, 1, 0}, 3),
            Tensor::from(std::vector<int64_t>{0, 1, 1}, {3}, device()));
  meter.add(Tensor::full({}, 4, DType::f32, device()), logits({0, 5}, 1),
            Tensor::from(std::vector<int64_t>{1}, {1}, device()));
  const Scores scores = meter.read();
  EXPECT_EQ(scores.samples, 4);
  EXPECT_NEAR(scores.loss, 2.5, 1e-6);
  EXPECT_NEAR(scores.accuracy, 0.75, 1e-6);
  meter.reset();
  EXPECT_EQ(meter.read().samples, 0);
}

TEST(Training, TheObserverSeesEveryStep) {
  const LabeledImages data = quarters(100, 1);
  Sequential model;
  build(model);
  SGD optimizer(model.parameters(), {.learning_rate = 0.01});
  Trainer trainer(model, optimizer, Device::cpu(), pixel_statistics(data));
  BatchLoader batches(data, {.batch = 30});
  std::vector<int64_t> seen;
  trainer.train(batches, 0, [&](int64_t done) {
    seen.push_back(done);
    EXPECT_EQ(trainer.scores().samples, done);
  });
  EXPECT_EQ(seen, (std::vector<int64_t>{30, 60, 90, 100}));
}

TEST(Training, MetricsAreCsv) {
  const testing::TemporaryFolder folder;
  MetricsFile metrics(folder / "metrics.csv");
  EpochMetrics row;
  row.epoch = 1;
  row.learning_rate = 0.5;
  row.train = {0.25, 0.75, 10};
  row.test = {0.125, 0.875, 10};
  row.seconds = 2;
  row.samples_per_second = 5;
  metrics.write(row);
  const auto bytes = testing::read_bytes(folder / "metrics.csv");
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()),
            "epoch,learning_rate,train_loss,train_accuracy,test_loss,test_accuracy,seconds,samples_per_second\n"
            "1,0.5,0.25,0.75,0.125,0.875,2,5\n");
  EXPECT_THROW(MetricsFile(folder / "missing" / "metrics.csv"), DataError);
}

TEST(Training, ProgressRewritesItsLineOnATerminalOnly) {
  std::ostringstream terminal, log;
  for (auto* out : {&terminal, &log}) {
    Progress progress(*out, out == &terminal, 2, 100);
    progress.update(1, 50, {0.5, 0.25, 50});
    progress.finish_epoch(1, {0.25, 0.5, 100}, 1000, "  test accuracy 0.5000");
  }
  EXPECT_EQ(log.str().find('\r'), std::string::npos);
  EXPECT_EQ(std::ranges::count(log.str(), '\n'), 2);
  EXPECT_EQ(std::ranges::count(terminal.str(), '\n'), 1);
  EXPECT_EQ(std::ranges::count(terminal.str(), '\r'), 2);
  EXPECT_NE(log.str().find("epoch 1/2  50%  loss 0.5000  accuracy 0.2500"), std::string::npos) << log.str();
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(59.5), "1 min 00 s");
  EXPECT_EQ(duration_text(3725), "1 h 02 min");
}

}  // namespace
}  // namespace ashlar::nn
