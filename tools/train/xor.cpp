// xor: the smallest problem that a line doesn't solve (Minsky and Papert 1969), by two layers.
#include <array>
#include <iostream>
#include <memory>
#include <vector>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/data/data_loader.h"
#include "nn/data/dataset.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "tools/train/program.h"

namespace ashlar::tools::train {
namespace {

constexpr std::array<float, 8> kPoints = {0, 0, 0, 1, 1, 0, 1, 1};
constexpr std::array<float, 4> kAnswers = {0, 1, 1, 0};
constexpr int64_t kRounds = 64;  // of the four points in an epoch

int train(const Common& common) {
  const Device device = Device::parse(common.device);
  check_places(common);
  const Tensor points = Tensor::from(std::span<const float>(kPoints), {4, 2});
  const Tensor answers = Tensor::from(std::span<const float>(kAnswers), {4, 1});
  const nn::TensorDataset data({tile(points, {kRounds, 1}), tile(answers, {kRounds, 1})});
  nn::DataLoader loader(data, {.batch = common.batch, .shuffle = true, .seed = common.seed});

  Random random(common.seed);
  nn::Sequential model;
  model.add<nn::Linear>(2, 16, random).add<nn::Tanh>().add<nn::Linear>(16, 1, random);
  model.to(device);
  nn::Adam optimizer(model.parameters(), {.learning_rate = common.learning_rate});
  const auto loss = [&](const std::vector<Tensor>& batch) {
    return nn::binary_cross_entropy_with_logits(model(batch[0].to(device)).to(DType::f32), batch[1].to(device));
  };
  std::cout << introduction("xor", model, device) << "4 points" << std::endl;
  nn::fit({model, optimizer, loader, loss}, fit_options(common, common.epochs));

  const NoGrad no_grad;
  const std::vector<float> said = sigmoid(model(points.to(device)).value()).to(Device::cpu()).to_vector<float>();
  int right = 0;
  for (size_t i = 0; i < kAnswers.size(); i++) {
    right += (said[i] > 0.5F) == (kAnswers[i] > 0.5F) ? 1 : 0;
    std::cout << kPoints[2 * i] << " xor " << kPoints[2 * i + 1] << ": " << four_digits(said[i]) << "\n";
  }
  const bool all_written = save_weights(model, common);
  std::cout << "accuracy " << four_digits(right / 4.0) << std::endl;
  return all_written ? 0 : 1;
}

std::function<int()> add(CLI::App& command) {
  const auto common = std::make_shared<Common>();
  common->epochs = 10;
  common->batch = 4;
  common->learning_rate = 0.02;
  add_device(command, *common);
  add_epochs(command, *common, "Passes over 64 times the four points");
  add_batch(command, *common, "Points for each update");
  add_learning_rate(command, *common, "Adam's learning rate");
  add_seed(command, *common, "Of the first weights and of the order of points");
  add_results(command, *common);
  add_resume(command, *common);
  add_amp(command, *common);
  add_detect_anomaly(command, *common);
  return [common] { return train(*common); };
}

}  // namespace

const Program kXor{"xor", "Exclusive or of two numbers, by two layers", add};

}  // namespace ashlar::tools::train
