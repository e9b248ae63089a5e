// vae: a variational autoencoder of images (Kingma and Welling 2014), which then draws images of its own.
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/grad_mode.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "runtime/random/philox.h"
#include "tools/train/images.h"
#include "tools/train/program.h"
#include "tools/train/sheet.h"

namespace ashlar::tools::train {
namespace {

struct Settings : Common {
  int64_t hidden = 512;
  int64_t latent = 32;
  std::string sheet = "vae.png";
};

class Autoencoder : public nn::ModuleOf<Autoencoder> {
 public:
  Autoencoder(int64_t pixels, const Settings& settings, Random& random)
      : latent_(settings.latent),
        mean_(settings.hidden, latent_, random),
        log_variance_(settings.hidden, latent_, random),
        random_(philox_state(static_cast<int64_t>(random.wide_bits() >> 1))) {
    encoder_.add<nn::Linear>(pixels, settings.hidden, random).add<nn::ReLU>();
    decoder_.add<nn::Linear>(latent_, settings.hidden, random).add<nn::ReLU>();
    decoder_.add<nn::Linear>(settings.hidden, pixels, random);
  }

  struct Result {
    Var logits;              ///< [n, pixels], of each pixel's brightness
    Var mean, log_variance;  ///< [n, latent], of the code
  };
  /// x [n, pixels] in [0, 1], in the parameters' dtype; results are f32. The code is drawn:
  /// mean + e^(log_variance / 2) ε, ε normal.
  Result forward(const Var& x) {
    const Var h = encoder_(x);
    const Var mean = mean_(h).to(DType::f32), log_variance = log_variance_(h).to(DType::f32);
    const Tensor noise = normal(random_.value(), 0, 1, mean.shape());
    const Var code = mean + ad::exp(log_variance * 0.5) * Var(noise);
    return {decoder_(code.to(x.dtype())).to(DType::f32), mean, log_variance};
  }
  /// Images [n, pixels] in [0, 1] of codes drawn from the prior.
  Tensor sample(int64_t n, const Tensor& state) {
    return sigmoid(decoder_(Var(normal(state, 0, 1, {n, latent_}))).value());
  }

 protected:
  void members(nn::Members& members) override {
    members.buffer("random", random_, nn::Saved::with_checkpoints);
    members.child("encoder", encoder_);
    members.child("mean", mean_);
    members.child("log_variance", log_variance_);
    members.child("decoder", decoder_);
  }

 private:
  int64_t latent_;
  nn::Sequential encoder_;
  nn::Linear mean_, log_variance_;
  nn::Sequential decoder_;
  Var random_;
};

int train(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  check_places(settings);
  check_sheet(settings.sheet);
  const Images images(settings.data);
  nn::DataLoader loader(images.training, {.batch = settings.batch, .shuffle = true, .seed = settings.seed});

  Random random(settings.seed);
  Autoencoder model(images.pixels(), settings, random);
  model.to(device);
  nn::Adam optimizer(model.parameters(), {.learning_rate = settings.learning_rate});
  nn::Scheduler scheduler(optimizer, nn::cosine_annealing_lr(settings.epochs * loader.batches()));

  // -ELBO = -E ln p(x | z) + KL(q(z | x), N(0, 1)), KL = -Σ (1 + ln σ² - μ² - σ²) / 2, in nats for an image.
  const auto loss = [&](const std::vector<Tensor>& batch) {
    const int64_t n = batch[0].size(0);
    const Tensor x = affine(batch[0].to(device).to(DType::f32), 1.0 / 255, 0).reshape({n, images.pixels()});
    const Autoencoder::Result y = model(x.to(compute_dtype(model)));
    const Var error = nn::binary_cross_entropy_with_logits(y.logits, x, {.reduction = nn::Reduction::sum});
    const Var divergence = (y.log_variance + 1 - y.mean * y.mean - ad::exp(y.log_variance)).sum() * -0.5;
    return (error + divergence) / static_cast<double>(n);
  };
  const auto validate = [&] {
    double sum = 0;
    images.for_test_parts([&](const Tensor& pixels, const Tensor& labels) {
      sum += loss({pixels, labels}).item() * static_cast<double>(pixels.size(0));
    });
    return sum / static_cast<double>(images.data.test.size());
  };
  std::cout << introduction("vae", model, device) << images.description() << std::endl;
  const auto epochs =
      nn::fit({model, optimizer, loader, loss, &scheduler, validate}, fit_options(settings, settings.epochs));

  const NoGrad no_grad;
  model.eval();
  const Tensor samples = model.sample(kSheetImages, philox_state(static_cast<int64_t>(settings.seed >> 1), device));
  write_sheet(settings.sheet, samples.reshape({kSheetImages, images.height(), images.width()}));
  const bool all_written = save_weights(model, settings);
  std::cout << "test ELBO " << four_digits(-epochs.back().validation) << " nats" << std::endl;
  return all_written ? 0 : 1;
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<Settings>();
  add_image_folder(command, *settings);
  add_device(command, *settings);
  add_epochs(command, *settings, "Passes over the training images");
  add_batch(command, *settings, "Images for each update");
  command.add_option("--hidden", settings->hidden, "Size of the hidden layer on both sides")
      ->check(CLI::Range(1, 65'536))
      ->capture_default_str();
  command.add_option("--latent", settings->latent, "Size of the code")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_learning_rate(command, *settings, "Adam's learning rate at the start; it falls to 0 along a cosine");
  add_seed(command, *settings, "Of the first weights, the order of images, the codes drawn");
  add_sheet(command, settings->sheet);
  add_results(command, *settings);
  add_resume(command, *settings);
  add_amp(command, *settings);
  add_detect_anomaly(command, *settings);
  return [settings] { return train(*settings); };
}

}  // namespace

const Program kVae{"vae", "A variational autoencoder of images; draws a sheet of its own", add};

}  // namespace ashlar::tools::train
