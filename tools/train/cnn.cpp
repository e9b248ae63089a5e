// cnn: a convolutional classifier of images in the manner of LeNet (LeCun et al. 1998), with batch normalisation.
#include <iostream>
#include <memory>
#include <vector>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/convolution.h"
#include "nn/modules/dropout.h"
#include "nn/modules/flatten.h"
#include "nn/modules/linear.h"
#include "nn/modules/pooling.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/trainer/meter.h"
#include "runtime/support/error.h"
#include "tools/options.h"
#include "tools/train/images.h"
#include "tools/train/program.h"

namespace ashlar::tools::train {
namespace {

struct Settings : Common {
  std::vector<int64_t> channels = {16, 32};
  int64_t hidden = 128;
  double dropout = 0.25;
};

/// For each number of channels a convolution of 3 × 3, normalised, and the maximum of each 2 × 2; then two layers.
nn::Sequential build(const Settings& settings, const Images& images) {
  Random random(settings.seed);
  nn::Sequential model;
  int64_t in = 1, height = images.height(), width = images.width();
  for (const int64_t out : settings.channels) {
    if (height < 2 || width < 2) {
      throw ValueError("--channels",
                       std::to_string(settings.channels.size()) + " stages for images of " +
                           std::to_string(images.height()) + " × " + std::to_string(images.width()),
                       "at least 2 × 2 pixels before each stage, which halves them", "Give fewer numbers of channels");
    }
    model.add<nn::Conv2d>(in, out, Shape{3}, nn::Conv2dOptions{.padding = {1}, .bias = false, .random = &random});
    model.add<nn::BatchNorm2d>(out).add<nn::ReLU>().add<nn::MaxPool2d>(Shape{2});
    in = out;
    height /= 2;
    width /= 2;
  }
  const nn::DropoutOptions seeded{.random = &random};
  model.add<nn::Flatten>().add<nn::Dropout>(settings.dropout, seeded);
  model.add<nn::Linear>(in * height * width, settings.hidden, random).add<nn::ReLU>();
  model.add<nn::Dropout>(settings.dropout, seeded).add<nn::Linear>(settings.hidden, images.data.classes, random);
  return model;
}

int train(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  check_places(settings);
  const Images images(settings.data);
  nn::DataLoader loader(images.training, {.batch = settings.batch, .shuffle = true, .seed = settings.seed});

  nn::Sequential model = build(settings, images);
  model.to(device);
  nn::AdamW optimizer(model.parameters(), {.learning_rate = settings.learning_rate});
  const int64_t steps = settings.epochs * loader.batches();
  nn::Scheduler scheduler(optimizer, nn::one_cycle_lr(settings.learning_rate, steps));

  const nn::PixelStatistics statistics = nn::pixel_statistics(images.data.train);
  const auto logits_of = [&](const Tensor& pixels) {
    const Tensor x = affine(pixels.to(device).to(DType::f32), 1 / (255 * statistics.deviation),
                            -statistics.mean / statistics.deviation);
    return model(x.to(compute_dtype(model))).to(DType::f32);
  };
  const auto loss = [&](const std::vector<Tensor>& batch) {
    return nn::cross_entropy(logits_of(batch[0]), batch[1].to(device));
  };
  double accuracy = 0;
  const auto validate = [&] {
    nn::Meter meter(device);
    images.for_test_parts([&](const Tensor& pixels, const Tensor& labels) {
      const Var logits = logits_of(pixels);
      const Tensor wanted = labels.to(device);
      meter.add(nn::cross_entropy(logits, wanted).value(), logits.value(), wanted);
    });
    const nn::Scores scores = meter.read();
    accuracy = scores.accuracy;
    return scores.loss;
  };
  std::cout << introduction("cnn", model, device) << images.description() << std::endl;
  nn::fit({model, optimizer, loader, loss, &scheduler, validate}, fit_options(settings, settings.epochs));

  const NoGrad no_grad;
  model.eval();
  std::cout << "test loss " << four_digits(validate()) << "\n";
  const bool all_written = save_weights(model, settings);
  std::cout << "test accuracy " << four_digits(accuracy) << std::endl;
  return all_written ? 0 : 1;
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<Settings>();
  settings->learning_rate = 0.004;
  add_image_folder(command, *settings);
  add_device(command, *settings);
  add_epochs(command, *settings, "Passes over the training images");
  add_batch(command, *settings, "Images for each update");
  command.add_option("--channels", settings->channels, "Of each stage's convolution, separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--hidden", settings->hidden, "Size of the layer before the last")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command.add_option("--dropout", settings->dropout, "Part of the inputs of the last two layers that is left out")
      ->check(number_between(0, 0.99))
      ->capture_default_str();
  add_learning_rate(command, *settings, "AdamW's largest learning rate: one cycle, up and down along cosines");
  add_seed(command, *settings, "Of the first weights and of the order of images");
  add_results(command, *settings);
  add_resume(command, *settings);
  add_amp(command, *settings);
  add_detect_anomaly(command, *settings);
  return [settings] { return train(*settings); };
}

}  // namespace

const Program kCnn{"cnn", "Convolutions on labelled images", add};

}  // namespace ashlar::tools::train
