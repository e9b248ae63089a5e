// ashlar-train: trains a network on a folder of images from the command line.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "nn/data/dataset.h"
#include "nn/data/loader.h"
#include "nn/linear.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/safetensors.h"
#include "nn/sequential.h"
#include "nn/trainer/metrics.h"
#include "nn/trainer/progress.h"
#include "nn/trainer/trainer.h"
#include "runtime/error.h"

namespace {

using namespace ashlar;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string data = "/usr/share/datasets/fashion-mnist";  // where Debian's dataset-fashion-mnist puts it
  std::string device = "cpu";
  int epochs = 8;
  int64_t batch = 128;
  std::vector<int64_t> hidden = {256, 128};
  double learning_rate = 0;  // 0: the optimiser's default
  std::string optimizer = "adam";
  uint64_t seed = 0;
  std::string metrics;
  std::string save;
  bool check_transfers = false;
  std::string replay = "auto";
};

void add_options(CLI::App& command, Settings& settings) {
  command.add_option("--data", settings.data, "Folder in MNIST's format: four IDX files, with or without .gz")
      ->capture_default_str();
  command.add_option("--device", settings.device, "cpu, opencl, cuda, or with an index as in cuda:1")
      ->capture_default_str();
  command.add_option("--epochs", settings.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--batch", settings.batch, "Images for each update")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--hidden", settings.hidden, "Sizes of the hidden layers, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command
      .add_option("--lr", settings.learning_rate,
                  "Learning rate at the start; it falls to 0 along a cosine [0.001; 0.05 for sgd]")
      ->check(CLI::PositiveNumber);
  command.add_option("--optimizer", settings.optimizer, "adam, adamw (weight decay 0.01) or sgd (momentum 0.9)")
      ->check(CLI::IsMember({"adam", "adamw", "sgd"}))
      ->capture_default_str();
  command.add_option("--seed", settings.seed, "Of the first weights and of the order of images")->capture_default_str();
  command.add_option("--metrics", settings.metrics, "Write a CSV file with a row for each epoch");
  command.add_option("--save", settings.save, "Write the trained weights as safetensors");
  command
      .add_option("--graph", settings.replay,
                  "Capture a training step once and replay it: on, off, or auto, which is on for CUDA")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command.add_flag("--check-transfers", settings.check_transfers,
                   "Fail unless steady training steps copy the batch to the device and nothing else either way");
}

/// Linear, ReLU, Linear, ReLU, …, Linear.
void build_mlp(nn::Sequential& model, int64_t inputs, const std::vector<int64_t>& hidden, int64_t classes,
               uint64_t seed) {
  nn::Generator generator(seed);
  int64_t width = inputs;
  for (const int64_t next : hidden) {
    model.add<nn::Linear>(width, next, generator).add<nn::ReLU>();
    width = next;
  }
  model.add<nn::Linear>(width, classes, generator);
}

std::unique_ptr<nn::Optimizer> make_optimizer(const Settings& settings, const nn::Module& model) {
  const double given = settings.learning_rate;
  if (settings.optimizer == "sgd") {
    return std::make_unique<nn::SGD>(model.parameters(),
                                     nn::SgdOptions{.learning_rate = given > 0 ? given : 0.05, .momentum = 0.9});
  }
  const double learning_rate = given > 0 ? given : 0.001;
  if (settings.optimizer == "adamw") {
    return std::make_unique<nn::AdamW>(model.parameters(), nn::AdamOptions{.learning_rate = learning_rate});
  }
  return std::make_unique<nn::Adam>(model.parameters(), nn::AdamOptions{.learning_rate = learning_rate});
}

/// Half a cosine from 1 before the first epoch to nearly 0 in the last.
double cosine(int epoch, int epochs) { return 0.5 * (1 + std::cos(std::numbers::pi * epoch / epochs)); }

std::string four_digits(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

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

int train_mlp(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  const nn::ImageDataset data = nn::read_mnist_folder(settings.data);
  std::optional<nn::MetricsFile> metrics;
  if (!settings.metrics.empty()) metrics.emplace(settings.metrics);

  nn::Sequential model;
  build_mlp(model, data.train.pixels(), settings.hidden, data.classes, settings.seed);
  model.to(device);
  const auto optimizer = make_optimizer(settings, model);
  const double learning_rate = optimizer->learning_rate();
  nn::Trainer trainer(model, *optimizer, device, nn::pixel_statistics(data.train));
  if (settings.replay != "auto") trainer.set_replay(settings.replay == "on");
  nn::BatchLoader train(data.train, {.batch = settings.batch, .seed = settings.seed});
  nn::BatchLoader test(data.test, {.batch = 1000, .shuffle = false});
  std::cout << "mlp with " << model.parameter_count() << " parameters on " << device.str() << " ("
            << device.description() << "): " << data.train.size() << " training and " << data.test.size()
            << " test images, " << data.classes << " classes" << std::endl;

  nn::Progress progress(std::cout, isatty(STDOUT_FILENO) != 0, settings.epochs, data.train.size());
  const Clock::time_point start = Clock::now();
  nn::Scores last;
  for (int epoch = 1; epoch <= settings.epochs; epoch++) {
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
    if (metrics) metrics->write(result);
    progress.finish_epoch(epoch, result.train, result.samples_per_second,
                          "  test accuracy " + four_digits(result.test.accuracy));
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::cout << "trained in " << four_digits(seconds) << " s, test loss " << four_digits(last.loss) << "\n";

  if (!settings.save.empty()) {
    nn::write_safetensors(settings.save, model.state_dict(), {{"format", "pt"}});
    std::cout << "weights in " << settings.save << "\n";
  }
  if (settings.check_transfers && !report_transfers(trainer.transfers(), device)) {
    std::cerr << "ashlar-train: a training step copied more than its batch\n";
    return 3;
  }
  std::cout << "test accuracy " << four_digits(last.accuracy) << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trains a network on labelled images."};
  app.require_subcommand(1);
  Settings settings;
  CLI::App* mlp = app.add_subcommand("mlp", "A multilayer perceptron with ReLU on the pixels");
  add_options(*mlp, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    return train_mlp(settings);
  } catch (const std::exception& error) {
    std::cerr << "ashlar-train: " << error.what() << std::endl;
    return 1;
  }
}
