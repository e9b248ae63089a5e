// mlp: a multilayer perceptron on the pixels of labelled images, by ordinary steps or with some of them foretold.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ashlar/ops.h"
#include "nn/data/data_loader.h"
#include "nn/data/file.h"
#include "nn/data/loader.h"
#include "nn/data/mnist.h"
#include "nn/hybrid/hybrid_trainer.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/trainer/checkpoint.h"
#include "nn/trainer/metrics_file.h"
#include "nn/trainer/progress.h"
#include "nn/trainer/trainer.h"
#include "runtime/support/error.h"
#include "tools/options.h"
#include "tools/train/program.h"

namespace ashlar::tools::train {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings : Common {
  std::vector<int64_t> hidden = {256, 128};
  std::optional<double> own_rate;  // none: the optimiser's default
  std::string optimizer = "adam";
  bool check_transfers = false;
  std::string replay = "auto";
  bool hybrid = false;
  std::string checkpoint;
};

void add_options(CLI::App& command, Settings& settings) {
  add_image_folder(command, settings);
  add_device(command, settings);
  add_epochs(command, settings, "Passes over the training images");
  add_batch(command, settings, "Images for each update");
  command.add_option("--hidden", settings.hidden, "Sizes of the hidden layers, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command
      .add_option("--lr", settings.own_rate,
                  "Learning rate at the start; it falls to 0 along a cosine [0.001; 0.05 for sgd; 0.002 with --hybrid]")
      ->check(positive_number());
  command.add_option("--optimizer", settings.optimizer, "adam, adamw (weight decay 0.01) or sgd (momentum 0.9)")
      ->check(CLI::IsMember({"adam", "adamw", "sgd"}))
      ->capture_default_str();
  add_seed(command, settings, "Of the first weights and of the order of images");
  add_results(command, settings);
  add_resume(command, settings);
  add_amp(command, settings);
  command
      .add_option("--graph", settings.replay,
                  "Capture a training step once and replay it: on, off, or auto, which is on for CUDA")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  CLI::Option* check =
      command.add_flag("--check-transfers", settings.check_transfers,
                       "Fail unless steady training steps copy the batch to the device and nothing else either way");
  CLI::Option* hybrid =
      command
          .add_flag(
              "--hybrid", settings.hybrid,
              "Foretell some of the steps (docs/hybrid.md), with averaged weights, a rate that is constant and then "
              "falls along a line, and phases printed as they happen; --metrics FILE.csv comes with FILE.phases.csv "
              "and FILE.phases.svg")
          ->excludes(check);
  command.add_option("--checkpoint", settings.checkpoint, "With --hybrid: go on from this file where it is there")
      ->needs(hybrid);
}

/// Linear, ReLU, Linear, ReLU, …, Linear.
void build_mlp(nn::Sequential& model, int64_t inputs, const std::vector<int64_t>& hidden, int64_t classes,
               uint64_t seed) {
  Random random(seed);
  int64_t width = inputs;
  for (const int64_t next : hidden) {
    model.add<nn::Linear>(width, next, random).add<nn::ReLU>();
    width = next;
  }
  model.add<nn::Linear>(width, classes, random);
}

std::unique_ptr<nn::Optimizer> make_optimizer(const Settings& settings, const nn::Module& model) {
  if (settings.optimizer == "sgd") {
    return std::make_unique<nn::SGD>(
        model.parameters(), nn::SgdOptions{.learning_rate = settings.own_rate.value_or(0.05), .momentum = 0.9});
  }
  const double learning_rate = settings.own_rate.value_or(0.001);
  if (settings.optimizer == "adamw") {
    return std::make_unique<nn::AdamW>(model.parameters(), nn::AdamOptions{.learning_rate = learning_rate});
  }
  return std::make_unique<nn::Adam>(model.parameters(), nn::AdamOptions{.learning_rate = learning_rate});
}

/// Half a cosine from 1 before the first epoch to nearly 0 in the last.
double cosine(int epoch, int epochs) { return 0.5 * (1 + std::cos(std::numbers::pi * epoch / epochs)); }

/// Says what the counters saw; false when a step moved more than its batch.
bool report_transfers(const nn::TransferReport& report, Device device) {
  if (device.kind == DeviceKind::cpu) {
    std::cout << "transfers: none, the CPU works on the host's memory\n";
    return report.bytes_in == 0 && report.bytes_out == 0;
  }
  std::cout << "transfers: " << report.steps << " steady steps copied " << report.bytes_in
            << " bytes in (batches: " << report.batch_bytes << ") and " << report.bytes_out << " bytes out, with "
            << report.allocations << " allocations\n";
  if (report.steps == 0) std::cout << "transfers: no steady step to judge; train longer\n";
  return report.steps > 0 && report.is_clean();
}

/// Metrics for as long as their file takes them: a training outlives a disk that is full.
class Metrics {
 public:
  explicit Metrics(const std::string& file) {
    if (!file.empty()) file_.emplace(file);
  }
  void write(const nn::EpochMetrics& metrics) {
    if (!file_) return;
    try {
      file_->write(metrics);
    } catch (const DataError& error) {
      std::cerr << "\nashlar-train: " << error.what() << "\nashlar-train: training goes on without it" << std::endl;
      file_.reset();
      failed_ = true;
    }
  }
  bool failed() const { return failed_; }

 private:
  std::optional<nn::MetricsFile> file_;
  bool failed_ = false;
};

/// Throws ValueError when the numbers of an epoch say that nothing can be learnt from here on.
void check_finite(const nn::EpochMetrics& epoch, const Settings& settings) {
  if (std::isfinite(epoch.train.loss) && std::isfinite(epoch.test.loss)) return;
  std::ostringstream came;
  came << "a loss of " << epoch.train.loss << " in training and of " << epoch.test.loss << " in the test, in epoch "
       << epoch.epoch << " of " << settings.epochs;
  throw ValueError("training", came.str(), "a training that doesn't diverge", "Try a smaller --lr; nothing was saved");
}

/// What --resume's file keeps after each epoch: the network, the optimiser, the loss' scale, and the epochs' metrics.
class Kept {
 public:
  Kept(const std::string& file, const nn::Module& model, nn::Optimizer& optimizer, const nn::Precision& precision)
      : file_(file), model_(model), optimizer_(optimizer), precision_(precision) {}

  /// The epochs of a training that was interrupted, or none.
  std::vector<nn::EpochMetrics> restore() {
    std::error_code ignored;
    if (file_.empty() || !std::filesystem::exists(file_, ignored)) return {};
    const nn::Checkpoint checkpoint = nn::Checkpoint::read(file_);
    const std::vector<double> rows = checkpoint.part("training").at(0).second.to_vector<double>();
    if (rows.size() % kColumns != 0) {
      throw ValueError("--resume", file_ + " of another program", "the file of this training", "Give another file");
    }
    model_.load_state_dict(checkpoint.part("model"), nn::Saved::with_checkpoints);
    optimizer_.load_state_dict(checkpoint.part("optimizer"));
    if (!precision_.state_dict().empty()) precision_.load_state_dict(checkpoint.part("amp"));
    std::vector<nn::EpochMetrics> epochs;
    for (auto at = rows.begin(); at != rows.end(); at += kColumns) {
      const auto scores = [&](int i) { return nn::Scores{at[i], at[i + 1], static_cast<int64_t>(at[i + 2])}; };
      epochs.push_back({static_cast<int>(at[0]), at[1], scores(2), scores(5), at[8], at[9]});
    }
    return epochs;
  }

  void save(const std::vector<nn::EpochMetrics>& epochs) const {
    if (file_.empty()) return;
    std::vector<double> rows;
    for (const nn::EpochMetrics& epoch : epochs) {
      rows.insert(rows.end(), {static_cast<double>(epoch.epoch), epoch.learning_rate});
      for (const nn::Scores& scores : {epoch.train, epoch.test}) {
        rows.insert(rows.end(), {scores.loss, scores.accuracy, static_cast<double>(scores.samples)});
      }
      rows.insert(rows.end(), {epoch.seconds, epoch.samples_per_second});
    }
    nn::Checkpoint checkpoint;
    checkpoint.add("model", model_.state_dict(nn::Saved::with_checkpoints));
    checkpoint.add("optimizer", optimizer_.state_dict());
    checkpoint.add("amp", precision_.state_dict());
    checkpoint.add("training", {{"epochs", Tensor::from(rows, {static_cast<int64_t>(rows.size())})}});
    checkpoint.write(file_);
  }

 private:
  static constexpr int kColumns = 10;
  const std::string& file_;
  const nn::Module& model_;
  nn::Optimizer& optimizer_;
  const nn::Precision& precision_;
};

/// Where the phases stand beside the metrics: "metrics.phases.csv" beside "metrics.csv". None without metrics.
std::filesystem::path beside_metrics(const Settings& settings, const char* extension) {
  return std::filesystem::path(settings.metrics).replace_extension(settings.metrics.empty() ? "" : extension);
}

/// The same network by nn::HybridTrainer: as many steps, some of them foretold.
int train_hybrid_mlp(const Settings& settings) {
  constexpr int64_t kTestBatch = 1000;
  const Device device = Device::parse(settings.device);
  check_places(settings);
  const std::string& checkpoint = settings.checkpoint.empty() ? settings.resume : settings.checkpoint;
  if (!checkpoint.empty()) nn::check_writable("--checkpoint", checkpoint);
  const std::filesystem::path phases = beside_metrics(settings, ".phases.csv"),
                              plot = beside_metrics(settings, ".phases.svg");
  for (const std::filesystem::path& file : {phases, plot}) {
    if (!file.empty()) nn::check_writable("--metrics", file);
  }
  const nn::ImageDataset data = nn::read_mnist_folder(settings.data);
  const nn::PixelStatistics statistics = nn::pixel_statistics(data.train);
  const nn::TensorDataset training(
      {data.train.images.reshape({data.train.size(), data.train.pixels()}), data.train.labels.to(DType::i64)});
  nn::DataLoader loader(training, {.batch = settings.batch, .shuffle = true, .seed = settings.seed});
  nn::BatchLoader test(data.test, {.batch = kTestBatch, .shuffle = false});

  nn::Sequential model;
  build_mlp(model, data.train.pixels(), settings.hidden, data.classes, settings.seed);
  model.to(device);
  Settings with_rate = settings;
  // What the rate falls from is constant for most of the training, so it may be larger than a cosine's for Adam's kind.
  if (!settings.own_rate && settings.optimizer != "sgd") with_rate.own_rate = 0.002;
  const auto optimizer = make_optimizer(with_rate, model);
  nn::HybridOptions options;
  options.steps = settings.epochs * loader.batches();
  nn::Scheduler scheduler(
      *optimizer,
      nn::warm_up_stable_decay(options.steps, std::min<int64_t>(100, options.steps / 10), options.steps * 3 / 10));
  options.average = 0.995;
  options.checkpoint = checkpoint;
  options.metrics = settings.metrics;
  options.phases = phases;
  options.plot = plot;
  options.log = &std::cout;
  options.amp = amp_of(settings);
  if (settings.replay != "auto") options.replay = settings.replay == "on";
  // Its evaluation; it never trains.
  nn::Trainer evaluation(model, *optimizer, device, statistics);
  nn::Scores last;
  const auto validate = [&] { return (last = evaluation.evaluate(test)).loss; };
  const auto loss = [&](const std::vector<Tensor>& batch) {
    const Tensor pixels =
        affine(batch[0].to(DType::f32), 1 / (255 * statistics.deviation), -statistics.mean / statistics.deviation);
    return nn::cross_entropy(model(pixels.to(compute_dtype(model))).to(DType::f32), batch[1]);
  };
  std::cout << introduction("mlp", model, device) << data.train.size() << " training and " << data.test.size()
            << " test images, " << data.classes << " classes" << std::endl;
  nn::HybridTrainer trainer({model, *optimizer, loader, loss, &scheduler, validate}, options);
  const nn::HybridReport report = trainer.train();
  model.eval();
  last = evaluation.evaluate(test);
  std::cout << report.statistics.str() << "\ntest loss " << four_digits(last.loss) << std::endl;
  const bool all_written = save_weights(model, settings);
  std::cout << "test accuracy " << four_digits(last.accuracy) << std::endl;
  return all_written ? 0 : 1;
}

int train_mlp(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  if (!settings.save.empty()) nn::check_writable("--save", settings.save);
  if (!settings.resume.empty()) nn::check_writable("--resume", settings.resume);
  Metrics metrics(settings.metrics);
  const nn::ImageDataset data = nn::read_mnist_folder(settings.data);

  nn::Sequential model;
  build_mlp(model, data.train.pixels(), settings.hidden, data.classes, settings.seed);
  model.to(device);
  const auto optimizer = make_optimizer(settings, model);
  const double learning_rate = optimizer->learning_rate();
  nn::Trainer trainer(model, *optimizer, device, nn::pixel_statistics(data.train), amp_of(settings));
  if (settings.replay != "auto") trainer.set_replay(settings.replay == "on");
  nn::BatchLoader train(data.train, {.batch = settings.batch, .seed = settings.seed});
  nn::BatchLoader test(data.test, {.batch = 1000, .shuffle = false});
  std::cout << introduction("mlp", model, device) << data.train.size() << " training and " << data.test.size()
            << " test images, " << data.classes << " classes" << std::endl;

  nn::Progress progress(std::cout, isatty(STDOUT_FILENO) != 0, settings.epochs, data.train.size());
  const Clock::time_point start = Clock::now();
  Kept kept(settings.resume, model, *optimizer, trainer.precision());
  std::vector<nn::EpochMetrics> epochs = kept.restore();
  for (const nn::EpochMetrics& epoch : epochs) metrics.write(epoch);
  nn::Scores last = epochs.empty() ? nn::Scores() : epochs.back().test;
  for (int epoch = static_cast<int>(epochs.size()) + 1; epoch <= settings.epochs; epoch++) {
    optimizer->set_learning_rate(learning_rate * cosine(epoch - 1, settings.epochs));
    nn::EpochMetrics result;
    result.epoch = epoch;
    result.learning_rate = optimizer->learning_rate();
    const Clock::time_point epoch_start = Clock::now();
    result.train = trainer.train(train, static_cast<uint64_t>(epoch), [&](int64_t done) {
      if (progress.is_due()) progress.update(epoch, done, trainer.scores());
    });
    result.seconds = std::chrono::duration<double>(Clock::now() - epoch_start).count();
    result.samples_per_second = static_cast<double>(data.train.size()) / result.seconds;
    result.test = last = trainer.evaluate(test);
    metrics.write(result);
    progress.finish_epoch(epoch, result.train, result.samples_per_second,
                          "  test accuracy " + four_digits(result.test.accuracy));
    check_finite(result, settings);
    epochs.push_back(result);
    kept.save(epochs);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::cout << "trained in " << four_digits(seconds) << " s, test loss " << four_digits(last.loss) << "\n";

  const bool all_written = save_weights(model, settings) && !metrics.failed();
  if (settings.check_transfers && !report_transfers(trainer.transfers(), device)) {
    std::cerr << "ashlar-train: a training step copied more than its batch\n";
    return 3;
  }
  std::cout << "test accuracy " << four_digits(last.accuracy) << std::endl;
  return all_written ? 0 : 1;
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<Settings>();
  add_options(command, *settings);
  return [settings] { return settings->hybrid ? train_hybrid_mlp(*settings) : train_mlp(*settings); };
}

}  // namespace

const Program kMlp{"mlp", "A multilayer perceptron with ReLU on the pixels", add};

}  // namespace ashlar::tools::train
