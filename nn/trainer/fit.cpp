#include "nn/trainer/fit.h"

#include <algorithm>
#include <ostream>
#include <string>

#include "autograd/backward.h"
#include "nn/trainer/checkpoint.h"
#include "nn/trainer/session.h"

namespace ashlar::nn {
namespace {

class Fit {
 public:
  Fit(const Training& training, const FitOptions& options)
      : training_(training), options_(options), session_(training, "fit") {}

  std::vector<FitEpoch> run() {
    resume();
    while (static_cast<int>(session_.epochs().size()) < options_.epochs && !stopped_early()) {
      run_epoch();
      session_.write_metrics(options_.metrics);
      save();
    }
    return session_.epochs();
  }

 private:
  void resume() {
    std::error_code ignored;
    if (options_.checkpoint.empty() || !std::filesystem::exists(options_.checkpoint, ignored)) return;
    session_.restore(Checkpoint::read(options_.checkpoint), options_.checkpoint);
  }

  void save() const {
    if (options_.checkpoint.empty()) return;
    Checkpoint checkpoint;
    session_.add_to(checkpoint);
    checkpoint.write(options_.checkpoint);
  }

  void run_epoch() {
    DataLoader& data = training_.data;
    session_.start_epoch();
    std::vector<std::vector<Tensor>> batches;
    while (std::optional<std::vector<Tensor>> batch = data.next()) {
      batches.push_back(std::move(*batch));
      const bool is_last = data.position() == data.batches();
      if (static_cast<int64_t>(batches.size()) < options_.accumulate && !is_last) continue;
      update(batches);
      batches.clear();
      session_.advance();
      if (!is_last && !options_.checkpoint.empty() && ++unsaved_ >= options_.checkpoint_every) {
        unsaved_ = 0;
        session_.check_finite();
        save();
      }
    }
    session_.check_finite();
    session_.finish_epoch(data.batches());
    unsaved_ = 0;
    if (options_.log != nullptr) session_.print_epoch(*options_.log, options_.epochs);
  }

  void update(const std::vector<std::vector<Tensor>>& batches) {
    Optimizer& optimizer = training_.optimizer;
    optimizer.zero_grad();
    if (options_.accumulate > 1) optimizer.set_gradient_scale(1.0 / static_cast<double>(batches.size()));
    for (const std::vector<Tensor>& batch : batches) {
      const Var loss = training_.loss(batch);
      backward(loss);
      session_.add_loss(loss.value().to(DType::f32).reshape({}));
    }
    optimizer.step();
    if (training_.scheduler != nullptr) training_.scheduler->step();
  }

  bool stopped_early() const {
    const std::vector<FitEpoch>& epochs = session_.epochs();
    if (options_.patience <= 0 || !training_.validate || epochs.empty()) return false;
    const auto best = std::ranges::min_element(epochs, {}, &FitEpoch::validation);
    return epochs.end() - best > options_.patience;
  }

  const Training& training_;
  const FitOptions& options_;
  TrainingSession session_;
  int64_t unsaved_ = 0;  // updates
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
