// dcgan: two convolutional networks, one of which draws images that the other shall not tell from real ones (Goodfellow
// et al. 2014; Radford, Metz and Chintala 2016). Two optimisers take turns, so the loop is written here.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/data/file.h"
#include "nn/init.h"
#include "nn/loss.h"
#include "nn/modules/activations.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/convolution.h"
#include "nn/modules/flatten.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/precision.h"
#include "nn/trainer/checkpoint.h"
#include "nn/trainer/replayed_step.h"
#include "runtime/random/philox.h"
#include "runtime/support/error.h"
#include "tools/train/images.h"
#include "tools/train/program.h"
#include "tools/train/sheet.h"

namespace ashlar::tools::train {
namespace {

constexpr double kSlope = 0.2;             // of leaky_relu
constexpr int64_t kCheckpointEvery = 200;  // steps

struct Settings : Common {
  int64_t channels = 32;
  int64_t latent = 64;
  std::string sheet = "dcgan.png";
};

class LeakyReLU : public nn::ModuleOf<LeakyReLU> {
 public:
  Var forward(const Var& x) const { return ad::leaky_relu(x, kSlope); }
};

/// A code [n, latent] to an image [n, 1, height, width] in [-1, 1].
class Generator : public nn::ModuleOf<Generator> {
 public:
  Generator(const Settings& settings, int64_t height, int64_t width, Random& random)
      : latent_(settings.latent),
        wide_(2 * settings.channels),
        height_(height / 4),
        width_(width / 4),
        code_(latent_, wide_ * height_ * width_, {.bias = false, .random = &random}),
        random_(philox_state(static_cast<int64_t>(random.wide_bits() >> 1))) {
    const nn::ConvTranspose2dOptions twice{.stride = {2}, .padding = {1}, .bias = false, .random = &random};
    rest_.add<nn::BatchNorm2d>(wide_).add<nn::ReLU>();
    rest_.add<nn::ConvTranspose2d>(wide_, settings.channels, Shape{4}, twice);
    rest_.add<nn::BatchNorm2d>(settings.channels).add<nn::ReLU>();
    rest_.add<nn::ConvTranspose2d>(settings.channels, 1, Shape{4}, twice).add<nn::Tanh>();
  }
  Var forward(const Var& code) { return rest_(code_(code).reshape({code.size(0), wide_, height_, width_})); }
  /// n images, of codes from this module's own stream of random numbers.
  Var draw(int64_t n) { return forward(Var(normal(random_.value(), 0, 1, {n, latent_}).to(compute_dtype(*this)))); }
  int64_t latent() const { return latent_; }

 protected:
  void members(nn::Members& members) override {
    members.buffer("random", random_, nn::Saved::with_checkpoints);
    members.child("code", code_);
    members.child("rest", rest_);
  }

 private:
  int64_t latent_, wide_, height_, width_;
  nn::Linear code_;
  nn::Sequential rest_;
  Var random_;
};

/// An image to the logarithm of the odds that it is real, [n, 1].
nn::Sequential discriminator(const Settings& settings, int64_t height, int64_t width, Random& random) {
  const int64_t wide = 2 * settings.channels;
  const auto half = [&](bool bias) {
    return nn::Conv2dOptions{.stride = {2}, .padding = {1}, .bias = bias, .random = &random};
  };
  nn::Sequential model;
  model.add<nn::Conv2d>(1, settings.channels, Shape{4}, half(true)).add<LeakyReLU>();
  model.add<nn::Conv2d>(settings.channels, wide, Shape{4}, half(false)).add<nn::BatchNorm2d>(wide).add<LeakyReLU>();
  model.add<nn::Flatten>().add<nn::Linear>(wide * (height / 4) * (width / 4), 1, random);
  return model;
}

/// Normal with deviation 0.02, as the paper has it.
void initialise(const nn::Module& model, Random& random) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.rank() > 1) nn::init::normal_(parameter, 0, 0.02, &random);
  }
}

/// Sliced Wasserstein distance of two sets of as many points [n, k] (Rabin et al. 2011): the mean over random
/// directions of ∫ |F⁻¹ - G⁻¹| of the points' projections.
double sliced_wasserstein(const Tensor& a, const Tensor& b) {
  constexpr int64_t kDirections = 128;
  Random random(1);
  Tensor directions = Tensor::randn({kDirections, a.size(1)}, random);
  directions = directions / (directions * directions).sum({1}, true).sqrt();
  const auto projected = [&](const Tensor& points) {
    std::vector<float> all =
        directions.to(points.device()).matmul(points.transpose(0, 1)).to(Device::cpu()).to_vector<float>();
    for (int64_t i = 0; i < kDirections; i++) {
      std::sort(all.begin() + i * points.size(0), all.begin() + (i + 1) * points.size(0));
    }
    return all;
  };
  const std::vector<float> of_a = projected(a), of_b = projected(b);
  double sum = 0;
  for (size_t i = 0; i < of_a.size(); i++) sum += std::abs(of_a[i] - of_b[i]);
  return sum / static_cast<double>(of_a.size());
}

struct Epoch {
  double discriminator = 0, generator = 0;  ///< mean losses
  double distance = 0;                      ///< of drawn images from test images
};

class Adversaries {
 public:
  Adversaries(const Settings& settings, const Images& images, Device device)
      : settings_(settings),
        images_(images),
        device_(device),
        random_(settings.seed),
        generator_(settings, images.height(), images.width(), random_),
        discriminator_(discriminator(settings, images.height(), images.width(), random_)),
        loader_(images.training, {.batch = settings.batch, .shuffle = true, .seed = settings.seed, .drop_last = true}),
        step_(device, {}, [this](const std::vector<Tensor>& batch) { step(batch[0]); }) {
    for (nn::Module* model : {static_cast<nn::Module*>(&generator_), static_cast<nn::Module*>(&discriminator_)}) {
      initialise(*model, random_);
      model->to(device);
    }
    const nn::AdamOptions options{.learning_rate = settings.learning_rate, .beta1 = 0.5};
    generator_adam_.emplace(generator_.parameters(), options);
    discriminator_adam_.emplace(discriminator_.parameters(), options);
    generator_precision_.emplace(*generator_adam_, amp_of(settings));
    discriminator_precision_.emplace(*discriminator_adam_, amp_of(settings));
  }

  const Generator& generator() const { return generator_; }

  /// All epochs, those before an interruption included.
  const std::vector<Epoch>& run() {
    resume();
    if (epochs_.empty() && position_ == 0) std::cout << "at first: distance " << distance() << std::endl;
    while (static_cast<int>(epochs_.size()) < settings_.epochs) run_epoch();
    return epochs_;
  }

  /// Images [n, height, width] in [0, 1], of the same codes each time.
  Tensor samples(int64_t n) {
    const NoGrad no_grad;
    generator_.eval();
    const Tensor state = philox_state(static_cast<int64_t>(settings_.seed >> 1), device_);
    const Tensor drawn = generator_(Var(normal(state, 0, 1, {n, generator_.latent()}))).value();
    generator_.train();
    return affine(drawn, 0.5, 0.5).reshape({n, images_.height(), images_.width()});
  }

 private:
  void run_epoch() {
    loader_.start(epochs_.size(), position_);
    if (position_ == 0) sums_ = Tensor::zeros({2}, DType::f32, device_);
    step_.forget();
    while (const std::optional<std::vector<Tensor>> batch = loader_.next()) {
      step_.run({(*batch)[0]});
      position_ = loader_.position();
      if (position_ % kCheckpointEvery == 0 && position_ < loader_.batches()) {
        check_finite();
        save();
      }
    }
    check_finite();
    const std::vector<float> sums = sums_.to(Device::cpu()).to_vector<float>();
    const auto batches = static_cast<double>(loader_.batches());
    epochs_.push_back({sums[0] / batches, sums[1] / batches, distance()});
    position_ = 0;
    std::cout << "epoch " << epochs_.size() << "/" << settings_.epochs << "  discriminator "
              << epochs_.back().discriminator << "  generator " << epochs_.back().generator << "  distance "
              << epochs_.back().distance << std::endl;
    write_metrics();
    save();
  }

  /// One step of each: the discriminator's, on images drawn before the generator's.
  void step(const Tensor& pixels) {
    const int64_t n = pixels.size(0);
    const Tensor real = affine(pixels.to(DType::f32), 1 / 127.5, -1);
    const Tensor ones = Tensor::ones({n, 1}, DType::f32, device_), zeros = Tensor::zeros({n, 1}, DType::f32, device_);
    const auto judged = [&](const Var& x, const Tensor& as) {
      return nn::binary_cross_entropy_with_logits(discriminator_(x).to(DType::f32), as);
    };
    Tensor told;
    generator_adam_->zero_grad();
    const Tensor fooled = generator_precision_->backward([&] {
      const Var drawn = generator_.draw(n);
      discriminator_adam_->zero_grad();
      told = discriminator_precision_->backward(
          [&] { return ad::add(judged(discriminator_precision_->input(real), ones), judged(drawn.detach(), zeros)); });
      discriminator_precision_->step();

      const auto autocast = discriminator_precision_->autocast();
      discriminator_.requires_grad(false);  // its gradients aren't wanted now
      const Var result = judged(drawn, ones);
      discriminator_.requires_grad(true);
      return result;
    });
    generator_precision_->step();
    sums_.copy_(add(sums_, cat({told.reshape({1}), fooled.reshape({1})})));
  }

  double distance() {
    const int64_t n = std::min<int64_t>(images_.data.test.size(), 2000);
    const Tensor real =
        affine(images_.data.test.images.slice(0, 0, n).to(DType::f32), 1.0 / 255, 0).reshape({n, images_.pixels()});
    return sliced_wasserstein(real, samples(n).reshape({n, images_.pixels()}));
  }

  void check_finite() const {
    if (std::isfinite(sums_.sum().item())) return;
    throw nn::DivergenceError("dcgan", "a loss that isn't finite in epoch " + std::to_string(epochs_.size() + 1),
                              "finite numbers", "Try a smaller --lr; --resume's file, if any, is from before");
  }

  void save() const {
    if (settings_.resume.empty()) return;
    nn::Checkpoint checkpoint;
    checkpoint.add("generator", generator_.state_dict(nn::Saved::with_checkpoints));
    checkpoint.add("discriminator", discriminator_.state_dict(nn::Saved::with_checkpoints));
    checkpoint.add("generator_adam", generator_adam_->state_dict());
    checkpoint.add("discriminator_adam", discriminator_adam_->state_dict());
    checkpoint.add("generator_amp", generator_precision_->state_dict());
    checkpoint.add("discriminator_amp", discriminator_precision_->state_dict());
    std::vector<double> history;
    for (const Epoch& epoch : epochs_) {
      history.insert(history.end(), {epoch.discriminator, epoch.generator, epoch.distance});
    }
    checkpoint.add("training", {{"epochs", Tensor::from(history, {static_cast<int64_t>(epochs_.size()), 3})},
                                {"position", Tensor::from({position_})},
                                {"sums", sums_}});
    checkpoint.write(settings_.resume);
  }

  void resume() {
    std::error_code ignored;
    if (settings_.resume.empty() || !std::filesystem::exists(settings_.resume, ignored)) return;
    const nn::Checkpoint checkpoint = nn::Checkpoint::read(settings_.resume);
    std::vector<double> history;
    for (const auto& [name, tensor] : checkpoint.part("training")) {
      if (name == "epochs") history = tensor.to_vector<double>();
      if (name == "position") position_ = static_cast<int64_t>(tensor.item());
      if (name == "sums") sums_ = tensor.to(device_);
    }
    if (history.size() % 3 != 0 || position_ < 0 || position_ > loader_.batches() ||
        (position_ > 0 && sums_.shape() != Shape{2})) {
      throw ValueError("--resume", settings_.resume + " of other data", "the file of this training",
                       "Remove the file to begin anew");
    }
    for (size_t i = 0; i < history.size(); i += 3) epochs_.push_back({history[i], history[i + 1], history[i + 2]});
    generator_.load_state_dict(checkpoint.part("generator"), nn::Saved::with_checkpoints);
    discriminator_.load_state_dict(checkpoint.part("discriminator"), nn::Saved::with_checkpoints);
    generator_adam_->load_state_dict(checkpoint.part("generator_adam"));
    discriminator_adam_->load_state_dict(checkpoint.part("discriminator_adam"));
    if (generator_precision_->state_dict().empty()) return;
    generator_precision_->load_state_dict(checkpoint.part("generator_amp"));
    discriminator_precision_->load_state_dict(checkpoint.part("discriminator_amp"));
  }

  void write_metrics() const {
    if (settings_.metrics.empty()) return;
    std::ostringstream text;
    text.precision(std::numeric_limits<double>::max_digits10);
    text << "epoch,discriminator,generator,distance\n";
    for (size_t i = 0; i < epochs_.size(); i++) {
      text << i + 1 << ',' << epochs_[i].discriminator << ',' << epochs_[i].generator << ',' << epochs_[i].distance
           << '\n';
    }
    const std::string bytes = text.str();
    nn::write_file_atomically("--metrics", settings_.metrics,
                              {{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
  }

  const Settings& settings_;
  const Images& images_;
  Device device_;
  Random random_;
  Generator generator_;
  nn::Sequential discriminator_;
  nn::DataLoader loader_;
  std::optional<nn::Adam> generator_adam_, discriminator_adam_;
  std::optional<nn::Precision> generator_precision_, discriminator_precision_;
  nn::ReplayedStep step_;
  std::vector<Epoch> epochs_;
  int64_t position_ = 0;  // batches of the epoch that runs
  Tensor sums_;           // of both losses in it
};

int train(const Settings& settings) {
  const Device device = Device::parse(settings.device);
  check_places(settings);
  check_sheet(settings.sheet);
  const Images images(settings.data);
  if (images.height() % 4 != 0 || images.width() % 4 != 0 || images.data.train.size() < settings.batch) {
    throw ValueError("dcgan",
                     images.data.train.images.str() + " as training images, --batch " + std::to_string(settings.batch),
                     "height and width of multiples of 4, and at least a batch of images",
                     "Pad or scale the images, or give a smaller --batch");
  }
  Adversaries adversaries(settings, images, device);
  std::cout << introduction("dcgan", adversaries.generator(), device) << images.description() << std::endl;
  const std::vector<Epoch>& epochs = adversaries.run();
  write_sheet(settings.sheet, adversaries.samples(kSheetImages));
  const bool all_written = save_weights(adversaries.generator(), settings);
  std::cout << "distance " << four_digits(epochs.back().distance) << std::endl;
  return all_written ? 0 : 1;
}

std::function<int()> add(CLI::App& command) {
  const auto settings = std::make_shared<Settings>();
  settings->epochs = 5;
  settings->batch = 64;
  settings->learning_rate = 2e-4;
  add_image_folder(command, *settings);
  add_device(command, *settings);
  add_epochs(command, *settings, "Passes over the training images");
  add_batch(command, *settings, "Images for each update");
  command.add_option("--channels", settings->channels, "Of the larger images; the smaller ones have twice as many")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--latent", settings->latent, "Size of the code")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_learning_rate(command, *settings, "Adam's learning rate, of both networks");
  add_seed(command, *settings, "Of the first weights, the order of images, the codes drawn");
  add_sheet(command, settings->sheet);
  add_results(command, *settings);
  add_resume(command, *settings);
  add_amp(command, *settings);
  return [settings] { return train(*settings); };
}

}  // namespace

const Program kDcgan{"dcgan", "Two networks against each other; draws a sheet of images", add};

}  // namespace ashlar::tools::train
