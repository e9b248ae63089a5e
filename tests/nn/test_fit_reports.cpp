// What fit() measures and says: metrics, validation, throughput, progress, curves, TensorBoard's event files; replayed
// updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <ctime>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/anomaly_mode.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/trainer/event_file.h"
#include "nn/trainer/fit.h"
#include "nn/trainer/plot.h"
#include "tests/nn/event_reader.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using testing::files_in;
using testing::Message;
using testing::parse;
using testing::read_bytes;
using testing::read_events;
using testing::Scalars;
using testing::scalars_of;
using testing::TemporaryFolder;

std::string text_of(const std::filesystem::path& file) {
  const auto bytes = read_bytes(file);
  return {bytes.begin(), bytes.end()};
}

// ---- metrics, against sums made here

class MetricOnDevice : public testing::OnDevice {};

TEST_P(MetricOnDevice, SumsOfSeveralBatches) {
  const Device device = this->device();
  Accuracy accuracy(device);
  TopKAccuracy top3(3, device);
  Perplexity perplexity(device);
  ConfusionMatrix confusion(5, device);
  Random random(4);
  int64_t hits = 0, near = 0, rows = 0, known = 0;
  double nats = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts;
  for (const int64_t n : {7, 1, 12}) {
    const Tensor outputs = Tensor::randn({n, 2, 5}, random);
    Tensor targets = Tensor::randint(0, 5, {n, 2}, random);
    targets[0][1].fill_(-100);  // padding
    accuracy.add(outputs.to(device), targets.to(device));
    top3.add(outputs.to(device), targets.to(device));
    perplexity.add(outputs.to(device), targets.to(device));
    confusion.add(outputs.to(device), targets.to(device));
    const auto scores = outputs.to_doubles();
    const auto labels = targets.to_vector<int64_t>();
    for (size_t r = 0; r < labels.size(); r++) {
      const double* row = &scores[5 * r];
      const int64_t label = labels[r], best = std::max_element(row, row + 5) - row;
      rows++;
      if (label < 0) continue;
      int larger = 0;
      double sum = 0;
      for (int c = 0; c < 5; c++) {
        larger += row[c] > row[label] ? 1 : 0;
        sum += std::exp(row[c]);
      }
      known++;
      hits += best == label ? 1 : 0;
      near += larger < 3 ? 1 : 0;
      nats += std::log(sum) - row[label];
      counts[{label, best}]++;
    }
  }
  EXPECT_EQ(accuracy.read(), static_cast<double>(hits) / static_cast<double>(rows));
  EXPECT_EQ(top3.read(), static_cast<double>(near) / static_cast<double>(rows));
  EXPECT_NEAR(perplexity.read(), std::exp(nats / static_cast<double>(known)), 1e-4);
  const auto matrix = confusion.matrix().to_vector<int64_t>();
  double recalls = 0;
  for (int64_t row = 0; row < 5; row++) {
    int64_t all = 0;
    for (int64_t column = 0; column < 5; column++) {
      const int64_t count = matrix[static_cast<size_t>(5 * row + column)];
      EXPECT_EQ(count, (counts[{row, column}])) << row << ", " << column;
      all += count;
    }
    ASSERT_GT(all, 0);
    recalls += static_cast<double>(matrix[static_cast<size_t>(6 * row)]) / static_cast<double>(all) / 5;
  }
  EXPECT_NEAR(confusion.read(), recalls, 1e-12);
  for (Metric* metric : std::initializer_list<Metric*>{&accuracy, &top3, &perplexity, &confusion}) {
    metric->reset();
    EXPECT_TRUE(std::isnan(metric->read())) << metric->name();
  }
}

TEST_P(MetricOnDevice, RefusesWhatDoesNotFit) {
  const Device device = this->device();
  Accuracy accuracy(device);
  const Tensor outputs = Tensor::zeros({4, 3}, DType::f32, device);
  EXPECT_THROW(accuracy.add(outputs, Tensor::zeros({4, 1}, DType::i64, device)), ShapeError);
  EXPECT_THROW(accuracy.add(outputs, Tensor::zeros({4}, DType::f32, device)), DTypeError);
  ConfusionMatrix confusion(4, device);
  EXPECT_THROW(confusion.add(outputs, Tensor::zeros({4}, DType::i64, device)), ShapeError);
  EXPECT_THROW(TopKAccuracy(0), ValueError);
  EXPECT_THROW((Metrics{std::make_shared<Accuracy>(), std::make_shared<Accuracy>()}), ValueError);
}

INSTANTIATE_TEST_SUITE_P(Devices, MetricOnDevice, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

// ---- trainings

struct Results {
  std::vector<FitEpoch> epochs;
  std::vector<double> weights;
  int64_t calls = 0;  // of the loss
};

/// A classifier of three classes, with dropout, metrics and a validation set. The last batch is smaller.
Results classify(Device device, const FitOptions& options, std::shared_ptr<ConfusionMatrix> confusion = nullptr) {
  Random random(7);
  const Tensor x = Tensor::randn({90, 4}, random);
  const Tensor y = argmax(x.slice(1, 0, 3), {-1}).to(DType::i64);
  const TensorDataset data({x.slice(0, 0, 60), y.slice(0, 0, 60)}), held_out({x.slice(0, 60), y.slice(0, 60)});
  DataLoader loader(data, {.batch = 16, .shuffle = true, .seed = 5}), validation(held_out, {.batch = 8});
  Sequential model(Linear(4, 16, random), ReLU(), Dropout(0.1, {.random = &random}), Linear(16, 3, random));
  model.to(device);
  Adam optimizer(model.parameters(), {.learning_rate = 0.05});
  Scheduler scheduler(optimizer, linear_lr(1, 0.1, 12));
  if (confusion == nullptr) confusion = std::make_shared<ConfusionMatrix>(3, device);
  const Metrics metrics{std::make_shared<Accuracy>(device), std::make_shared<TopKAccuracy>(2, device), confusion};
  Results results;
  const auto loss = [&](const std::vector<Tensor>& batch) {
    results.calls++;
    EXPECT_EQ(batch[0].device(), device);
    const Var logits = model(batch[0]);
    metrics.add(logits, batch[1]);
    return cross_entropy(logits, batch[1]);
  };
  results.epochs = fit({.model = model,
                        .optimizer = optimizer,
                        .data = loader,
                        .loss = loss,
                        .scheduler = &scheduler,
                        .validation = &validation,
                        .metrics = &metrics},
                       options);
  for (const Var& parameter : model.parameters()) {
    for (const double value : parameter.value().to_doubles()) results.weights.push_back(value);
  }
  return results;
}

class FitOnDevice : public testing::OnDevice {};

TEST_P(FitOnDevice, ReplayedUpdatesGiveTheSameBits) {
  for (const int64_t accumulate : {1, 3}) {
    const Results plain = classify(device(), {.epochs = 3, .accumulate = accumulate, .replay = false});
    const Results replayed = classify(device(), {.epochs = 3, .accumulate = accumulate, .replay = true});
    EXPECT_EQ(replayed.weights, plain.weights);
    if (accumulate == 1) {
      EXPECT_LT(replayed.calls, plain.calls);
    }
    for (size_t i = 0; i < plain.epochs.size(); i++) {
      EXPECT_EQ(replayed.epochs[i].loss, plain.epochs[i].loss);
      EXPECT_EQ(replayed.epochs[i].validation, plain.epochs[i].validation);
      EXPECT_EQ(replayed.epochs[i].metrics, plain.epochs[i].metrics);
      EXPECT_EQ(replayed.epochs[i].validation_metrics, plain.epochs[i].validation_metrics);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FitOnDevice, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

/// A loss that looks at a number on the host can't be captured: an error where replays were asked for.
TEST(FitReplay, SaysWhyAStepCannotBeCaptured) {
  Random random(1);
  Sequential model(Linear(4, 1, random));
  SGD optimizer(model.parameters(), {.learning_rate = 0.01});
  const TensorDataset data({Tensor::randn({32, 4}, random)});
  DataLoader loader(data, {.batch = 8});
  const auto loss = [&](const std::vector<Tensor>& batch) {
    const Var y = ad::mean(model(batch[0]));
    EXPECT_TRUE(std::isfinite(y.item()));
    return y;
  };
  EXPECT_THROW(fit({model, optimizer, loader, loss}, {.replay = true}), GraphError);
  EXPECT_EQ(fit({model, optimizer, loader, loss}, {}).size(), 1U);
}

/// Under an AnomalyMode nothing is replayed, and the operation is named.
TEST(FitReplay, AnomaliesAreNamed) {
  Random random(1);
  Sequential model(Linear(4, 1, random));
  SGD optimizer(model.parameters(), {.learning_rate = 0.01});
  const Tensor x = Tensor::ones({40, 4});
  x.slice(0, 32).fill_(0);
  const TensorDataset data({x});
  DataLoader loader(data, {.batch = 8});
  const auto loss = [&](const std::vector<Tensor>& batch) {
    return ad::add(ad::mean(model(batch[0])), ad::log(ad::mean(ad::affine(Var(batch[0]), 1, 0))));
  };
  EXPECT_THROW(fit({model, optimizer, loader, loss}, {.replay = true}), DivergenceError);
  const AnomalyMode mode;
  try {
    fit({model, optimizer, loader, loss}, {.replay = true});
    ADD_FAILURE() << "no anomaly";
  } catch (const AnomalyError& error) {
    EXPECT_EQ(error.operation(), "log");
  }
}

TEST(FitReports, EpochsHaveMetricsOfTrainingAndValidation) {
  const TemporaryFolder folder;
  std::ostringstream log;
  const auto confusion = std::make_shared<ConfusionMatrix>(3);
  const Results run = classify(
      Device::cpu(), {.epochs = 12, .metrics = folder / "m.csv", .log = &log, .plot = folder / "plot.svg"}, confusion);
  const FitEpoch& last = run.epochs.back();
  ASSERT_EQ(last.metrics.size(), 3U);
  ASSERT_EQ(last.validation_metrics.size(), 3U);
  EXPECT_EQ(last.metrics[0].first, "accuracy");
  EXPECT_GT(last.metrics[0].second, 0.8);
  EXPECT_GT(last.validation_metrics[0].second, 0.7);
  EXPECT_GE(last.metrics[1].second, last.metrics[0].second);  // top 2
  EXPECT_GT(last.samples_per_second, 0);
  EXPECT_LT(last.validation, run.epochs[0].validation);
  // The matrix is the validation's: 30 samples, of which the diagonal holds the part that is the accuracy.
  const auto matrix = confusion->matrix().to_vector<int64_t>();
  int64_t all = 0;
  for (const int64_t count : matrix) all += count;
  EXPECT_EQ(all, 30);
  EXPECT_NEAR(static_cast<double>(matrix[0] + matrix[4] + matrix[8]) / 30, last.validation_metrics[0].second, 1e-12);
  EXPECT_NE(log.str().find("epoch 12/12  loss "), std::string::npos) << log.str();
  EXPECT_NE(log.str().find("  validation accuracy "), std::string::npos) << log.str();

  const std::string csv = text_of(folder / "m.csv");
  EXPECT_TRUE(
      csv.starts_with("epoch,loss,validation,learning_rate,accuracy,validation_accuracy,top_2_accuracy,"
                      "validation_top_2_accuracy,balanced_accuracy,validation_balanced_accuracy\n1,"))
      << csv;
  EXPECT_EQ(std::ranges::count(csv, '\n'), 13);

  const std::string svg = text_of(folder / "plot.svg");
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"));
  size_t curves = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) curves++;
  EXPECT_EQ(curves, 2 * 4 + 1U);  // loss and three metrics twice, the rate
}

TEST(FitReports, PlotsLeaveOutWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string svg =
      plot_svg("a < b", {{"loss", {{"x & y", {1, 2, 3, 4}, {0, infinity, 10, NAN}}}}, {"none", {}}}, "n");
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find("x &amp; y"), std::string::npos);
  EXPECT_NE(svg.find("nothing finite to show"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  const size_t points = svg.find("points=\"") + 8;
  EXPECT_EQ(std::count(&svg[points], &svg[svg.find('"', points)], ','), 2);  // two of four
}

TEST(FitReports, ProgressStandsInTheLog) {
  std::ostringstream log;
  classify(Device::cpu(), {.epochs = 2, .log = &log, .progress = true});
  EXPECT_NE(log.str().find("epoch 2/2  loss "), std::string::npos) << log.str();
  Random random(1);
  Sequential model(Linear(4, 2, random));
  SGD optimizer(model.parameters(), {});
  const TensorDataset data({Tensor::zeros({4, 4})});
  DataLoader loader(data, {});
  const auto loss = [&](const std::vector<Tensor>& batch) { return ad::mean(model(batch[0])); };
  EXPECT_THROW(fit({model, optimizer, loader, loss}, {.progress = true}), ValueError);
}

// ---- event files

TEST(EventFile, ChecksumIsTheStandards) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);  // RFC 3720, B.4, and the catalogue of CRCs
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(EventFile, HoldsWhatFitMeasured) {
  const TemporaryFolder folder;
  const Results run =
      classify(Device::cpu(), {.epochs = 2, .checkpoint = folder / "checkpoint", .events = folder / "events"});
  auto files = files_in(folder / "events");
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(files[0].filename().string().starts_with("events.out.tfevents."));
  const auto events = read_events(files[0]);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].strings.find(3)->second, "brain.Event:2");
  for (size_t epoch = 0; epoch < 2; epoch++) {
    const Message& event = events[epoch + 1];
    EXPECT_EQ(event.numbers.find(2)->second, 4 * (epoch + 1));  // updates
    const auto time = std::bit_cast<double>(event.numbers.find(1)->second);
    EXPECT_NEAR(time, static_cast<double>(std::time(nullptr)), 60);
    Scalars scalars = scalars_of(event);
    EXPECT_EQ(scalars.size(), 10U);
    EXPECT_EQ(scalars.at("loss/training"), static_cast<float>(run.epochs[epoch].loss));
    EXPECT_EQ(scalars.at("loss/validation"), static_cast<float>(run.epochs[epoch].validation));
    EXPECT_EQ(scalars.at("accuracy/validation"), static_cast<float>(run.epochs[epoch].validation_metrics[0].second));
    EXPECT_EQ(scalars.at("learning_rate"), static_cast<float>(run.epochs[epoch].learning_rate));
    EXPECT_GT(scalars.at("samples_per_second"), 0);
  }
  // Going on: another file, which says that what others know of later steps is out of date.
  const Results more =
      classify(Device::cpu(), {.epochs = 3, .checkpoint = folder / "checkpoint", .events = folder / "events"});
  ASSERT_EQ(more.epochs.size(), 3U);
  EXPECT_EQ(more.epochs[1].validation_metrics, run.epochs[1].validation_metrics);
  files = files_in(folder / "events");
  ASSERT_EQ(files.size(), 2U);
  const auto later = read_events(files[1]);
  ASSERT_EQ(later.size(), 3U);
  EXPECT_EQ(later[1].numbers.find(2)->second, 9U);
  EXPECT_EQ(parse(later[1].strings.find(7)->second).numbers.find(1)->second, 1U);  // SessionLog::START
  EXPECT_EQ(later[2].numbers.find(2)->second, 12U);
}

TEST(EventFile, HoldsTheLossWithinAnEpoch) {
  const TemporaryFolder folder;
  const Results run = classify(Device::cpu(), {.epochs = 2, .events = folder.path(), .events_every = 2});
  std::vector<std::pair<uint64_t, double>> points;
  for (const Message& event : read_events(files_in(folder.path())[0])) {
    if (!event.strings.contains(5)) continue;
    const Scalars scalars = scalars_of(event);
    if (scalars.contains("loss/update")) points.emplace_back(event.numbers.find(2)->second, scalars.at("loss/update"));
  }
  ASSERT_EQ(points.size(), 4U);  // 4 updates in each of 2 epochs
  for (size_t epoch = 0; epoch < 2; epoch++) {
    EXPECT_EQ(points[2 * epoch].first, 4 * epoch + 2);
    EXPECT_EQ(points[2 * epoch + 1].first, 4 * epoch + 4);
    EXPECT_NEAR((points[2 * epoch].second + points[2 * epoch + 1].second) / 2, run.epochs[epoch].loss, 1e-6);
  }
}

TEST(EventFile, RefusesAFolderThatCannotBe) {
  const TemporaryFolder folder;
  EventFile(folder / "a" / "b");
  EXPECT_THROW(EventFile(files_in(folder / "a" / "b")[0]), DataError);
}

}  // namespace
}  // namespace ashlar::nn
