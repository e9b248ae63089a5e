#include "nn/trainer/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>

#include "ashlar/ops.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "nn/data/file.h"
#include "nn/trainer/checkpoint.h"

namespace ashlar::nn {
namespace {

constexpr int64_t kColumns = 3;  // of FitEpoch

class Fit {
 public:
  Fit(const Training& training, const FitOptions& options) : training_(training), options_(options) {}

  std::vector<FitEpoch> run() {
    resume();
    while (static_cast<int>(epochs_.size()) < options_.epochs && !stopped_early()) {
      run_epoch();
      write_metrics();
      save();
    }
    return epochs_;
  }

 private:
  void resume() {
    std::error_code ignored;
    if (options_.checkpoint.empty() || !std::filesystem::exists(options_.checkpoint, ignored)) return;
    const Checkpoint checkpoint = Checkpoint::read(options_.checkpoint);
    const NamedTensors progress = checkpoint.part("training");
    const auto find = [&](const char* name) -> const Tensor& {
      for (const auto& [key, tensor] : progress) {
        if (key == name) return tensor;
      }
      throw ValueError("fit", options_.checkpoint.string() + " without \"training." + name + "\"",
                       "a checkpoint of this training", "Remove the file to begin anew");
    };
    const auto history = find("epochs").to_vector<double>();
    const auto position = find("position").to_vector<int64_t>();
    const auto sum = find("loss");
    const auto base_rates = find("base_rates").to_vector<double>();
    if (position.size() != 2 || history.size() % kColumns != 0 || sum.shape() != Shape{} || position[0] < 0 ||
        position[0] > training_.data.batches()) {
      throw ValueError("fit", options_.checkpoint.string() + " of other data", "a checkpoint of this training",
                       "Remove the file to begin anew");
    }
    training_.model.load_state_dict(checkpoint.part("model"), Saved::with_checkpoints);
    training_.optimizer.load_state_dict(checkpoint.part("optimizer"));
    if (training_.scheduler != nullptr) training_.scheduler->restore(position[1], base_rates);
    for (size_t i = 0; i < history.size(); i += kColumns) {
      epochs_.push_back({history[i], history[i + 1], history[i + 2]});
    }
    first_batch_ = position[0];
    loss_ = sum;
  }

  void save() {
    if (options_.checkpoint.empty()) return;
    Checkpoint checkpoint;
    checkpoint.add("model", training_.model.state_dict(Saved::with_checkpoints));
    checkpoint.add("optimizer", training_.optimizer.state_dict());
    std::vector<double> history, base_rates;
    for (const FitEpoch& epoch : epochs_) {
      history.insert(history.end(), {epoch.loss, epoch.validation, epoch.learning_rate});
    }
    const Scheduler* scheduler = training_.scheduler;
    if (scheduler != nullptr) base_rates = scheduler->base_rates();
    const auto size = [](const std::vector<double>& values) { return Shape{static_cast<int64_t>(values.size())}; };
    const std::vector<int64_t> position{first_batch_, scheduler != nullptr ? scheduler->steps() : 0};
    checkpoint.add("training", {{"epochs", Tensor::from(history, size(history))},
                                {"base_rates", Tensor::from(base_rates, size(base_rates))},
                                {"position", Tensor::from(position, {2})},
                                {"loss", loss_.defined() ? loss_ : Tensor::zeros({})}});
    checkpoint.write(options_.checkpoint);
  }

  void run_epoch() {
    Module& model = training_.model;
    DataLoader& data = training_.data;
    model.train();
    data.start(epochs_.size(), first_batch_);
    if (first_batch_ == 0) loss_ = Tensor();
    std::vector<std::vector<Tensor>> batches;
    while (std::optional<std::vector<Tensor>> batch = data.next()) {
      batches.push_back(std::move(*batch));
      const bool is_last = data.position() == data.batches();
      if (static_cast<int64_t>(batches.size()) < options_.accumulate && !is_last) continue;
      update(batches);
      batches.clear();
      first_batch_ = data.position();
      if (!is_last && !options_.checkpoint.empty() && ++unsaved_ >= options_.checkpoint_every) {
        unsaved_ = 0;
        check_finite();
        save();
      }
    }
    check_finite();
    FitEpoch epoch;
    epoch.loss = loss_.defined() ? loss_.item() / static_cast<double>(data.batches()) : 0;
    epoch.validation = std::numeric_limits<double>::quiet_NaN();
    if (training_.validate) {
      const NoGrad no_grad;
      model.eval();
      epoch.validation = training_.validate();
      model.train();
    }
    epoch.learning_rate = training_.optimizer.learning_rate();
    epochs_.push_back(epoch);
    first_batch_ = 0;
    unsaved_ = 0;
    if (options_.log == nullptr) return;
    *options_.log << "epoch " << epochs_.size() << "/" << options_.epochs << "  loss " << epoch.loss;
    if (training_.validate) *options_.log << "  validation " << epoch.validation;
    *options_.log << std::endl;
  }

  void update(const std::vector<std::vector<Tensor>>& batches) {
    Optimizer& optimizer = training_.optimizer;
    optimizer.zero_grad();
    if (options_.accumulate > 1) optimizer.set_gradient_scale(1.0 / static_cast<double>(batches.size()));
    for (const std::vector<Tensor>& batch : batches) {
      const Var loss = training_.loss(batch);
      backward(loss);
      const Tensor value = loss.value().to(DType::f32).reshape({});
      // Added up on its device: nothing is waited for.
      if (!loss_.defined()) {
        loss_ = value.clone();
      } else {
        loss_ = add(loss_.to(value.device()), value);
      }
    }
    optimizer.step();
    if (training_.scheduler != nullptr) training_.scheduler->step();
  }

  void check_finite() const {
    if (!loss_.defined() || std::isfinite(loss_.item())) return;
    throw DivergenceError("fit",
                          "a loss that isn't finite in epoch " + std::to_string(epochs_.size() + 1) + ", batch " +
                              std::to_string(first_batch_) + " or before",
                          "finite numbers",
                          "Try a smaller learning rate, or set_clipping(); a checkpoint, if any, is from before");
  }

  bool stopped_early() const {
    if (options_.patience <= 0 || !training_.validate || epochs_.empty()) return false;
    const auto best = std::ranges::min_element(epochs_, {}, &FitEpoch::validation);
    return epochs_.end() - best > options_.patience;
  }

  /// All rows anew, so that none is there twice or missing after an interruption.
  void write_metrics() const {
    if (options_.metrics.empty()) return;
    std::ostringstream text;
    text.precision(std::numeric_limits<double>::max_digits10);
    text << "epoch,loss,validation,learning_rate\n";
    for (size_t i = 0; i < epochs_.size(); i++) {
      text << i + 1 << ',' << epochs_[i].loss << ',' << epochs_[i].validation << ',' << epochs_[i].learning_rate
           << '\n';
    }
    const std::string bytes = text.str();
    write_file_atomically("fit", options_.metrics, {{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
  }

  const Training& training_;
  const FitOptions& options_;
  std::vector<FitEpoch> epochs_;
  int64_t first_batch_ = 0;  // the next one of the epoch that runs
  int64_t unsaved_ = 0;      // updates
  Tensor loss_;              // sum over the epoch's batches so far, rank 0
};

}  // namespace

std::vector<FitEpoch> fit(const Training& training, const FitOptions& options) {
  if (options.epochs <= 0 || options.accumulate <= 0 || options.checkpoint_every <= 0 || !training.loss) {
    throw ValueError("fit",
                     "epochs " + std::to_string(options.epochs) + ", accumulate " + std::to_string(options.accumulate) +
                         ", checkpoint_every " + std::to_string(options.checkpoint_every) +
                         (training.loss ? "" : ", no loss"),
                     "positive numbers and a loss", "Start with {.epochs = 10}");
  }
  return Fit(training, options).run();
}

}  // namespace ashlar::nn
