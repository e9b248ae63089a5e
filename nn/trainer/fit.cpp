#include "nn/trainer/fit.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>

#include "ashlar/ops.h"
#include "autograd/anomaly_mode.h"
#include "nn/optim/precision.h"
#include "nn/trainer/checkpoint.h"
#include "nn/trainer/event_file.h"
#include "nn/trainer/progress.h"
#include "nn/trainer/replayed_step.h"
#include "nn/trainer/session.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "fit";

bool is_terminal(const std::ostream* out) {
  return (out == &std::cout && isatty(STDOUT_FILENO) != 0) ||
         ((out == &std::cerr || out == &std::clog) && isatty(STDERR_FILENO) != 0);
}

class Fit {
 public:
  Fit(const Training& training, const FitOptions& options)
      : training_(training),
        options_(options),
        session_(training, kName, "FitOptions::detect_anomaly"),
        device_(training.optimizer.arena_values().at(0).device()),
        precision_(training.optimizer, options.amp),
        update_(device_, options.detect_anomaly ? std::optional(false) : options.replay,
                [this](const std::vector<Tensor>& parts) { compute(parts); }),
        loss_(Tensor::zeros({}, DType::f32, device_)) {}

  std::vector<FitEpoch> run() {
    resume();
    if (options_.progress.value_or(is_terminal(options_.log))) {
      const int64_t batches = training_.data.batches();
      progress_.emplace(*options_.log, is_terminal(options_.log), options_.epochs, batches,
                        static_cast<int64_t>(session_.epochs().size()) * batches + session_.first_batch());
    }
    if (!options_.events.empty()) {
      const int64_t steps = training_.optimizer.steps();
      events_.emplace(options_.events, steps > 0 ? steps + 1 : 0);
    }
    while (static_cast<int>(session_.epochs().size()) < options_.epochs && !stopped_early()) {
      run_epoch();
      report();
      save();
    }
    return session_.epochs();
  }

 private:
  void resume() {
    std::error_code ignored;
    if (options_.checkpoint.empty() || !std::filesystem::exists(options_.checkpoint, ignored)) return;
    const Checkpoint checkpoint = Checkpoint::read(options_.checkpoint);
    const bool scales = !precision_.state_dict().empty();
    const NamedTensors amp = scales ? checkpoint.part("amp") : NamedTensors();
    session_.restore(checkpoint, options_.checkpoint);
    precision_.load_state_dict(amp);
  }

  void save() const {
    if (options_.checkpoint.empty()) return;
    Checkpoint checkpoint;
    session_.add_to(checkpoint);
    checkpoint.add("amp", precision_.state_dict());
    checkpoint.write(options_.checkpoint);
  }

  void run_epoch() {
    BatchSource& data = training_.data;
    session_.start_epoch();
    update_.forget();  // between epochs the model may have changed
    written_batches_ = session_.first_batch();
    written_sum_ = session_.loss().defined() ? session_.loss().item() : 0;
    std::vector<Tensor> parts;
    int64_t waiting = 0;  // batches in `parts`
    while (std::optional<std::vector<Tensor>> batch = data.next()) {
      session_.count_samples(*batch);
      parts.insert(parts.end(), batch->begin(), batch->end());
      waiting++;
      const bool is_last = data.position() == data.batches();
      if (waiting < options_.accumulate && !is_last) continue;
      update(parts, waiting);
      parts.clear();
      waiting = 0;
      session_.advance();
      if (events_) write_update();
      if (progress_ && progress_->is_due()) show_progress();
      if (!is_last && !options_.checkpoint.empty() && ++unsaved_ >= options_.checkpoint_every) {
        unsaved_ = 0;
        session_.check_finite();
        save();
      }
    }
    session_.check_finite();
    session_.finish_epoch(data.batches());
    unsaved_ = 0;
  }

  void update(const std::vector<Tensor>& parts, int64_t batches) {
    if (options_.accumulate > 1) training_.optimizer.set_gradient_scale(1.0 / static_cast<double>(batches));
    batches_ = batches;
    // A graph has `accumulate` draws in it; a last update of fewer runs as it is.
    const bool fits = training_.data.drawn_samples() == 0 || batches == options_.accumulate;
    fits ? update_.run(parts) : compute(parts);
    session_.add_loss(loss_);
    if (training_.scheduler != nullptr) training_.scheduler->step();
  }

  /// The part of an update that the device does, from the parts of one batch after the other.
  void compute(const std::vector<Tensor>& parts) {
    Optimizer& optimizer = training_.optimizer;
    optimizer.zero_grad();
    const int64_t size = batches_ > 0 ? static_cast<int64_t>(parts.size()) / batches_ : 0;
    Tensor sum;
    for (int64_t i = 0; i < batches_; i++) {
      const std::vector<Tensor> batch(parts.begin() + i * size, parts.begin() + (i + 1) * size);
      const Tensor loss = backward(batch);
      sum = sum.defined() ? add(sum, loss) : loss;
    }
    loss_.copy_(sum);
    precision_.step();
    if (session_.averages()) training_.average->update();
  }

  /// Returns the batch's loss, after adding its gradients.
  Tensor backward(const std::vector<Tensor>& batch) {
    std::optional<AnomalyMode> both, forward;
    // While f16's scale is being found gradients overflow: no anomaly.
    if (options_.detect_anomaly && options_.amp != DType::f16) both.emplace();
    return precision_.backward([&] {
      if (options_.detect_anomaly) forward.emplace();
      Var loss = session_.loss_of(batch, precision_);
      forward.reset();
      return loss;
    });
  }

  void show_progress() {
    std::ostringstream figures, more;
    figures.precision(4);
    more.precision(4);
    figures << "loss " << session_.loss().item() / static_cast<double>(std::max<int64_t>(session_.first_batch(), 1));
    if (training_.metrics != nullptr) {
      const std::vector<std::string> names = training_.metrics->names();
      const std::vector<double> values = training_.metrics->read();
      for (size_t i = 0; i < names.size(); i++) more << "  " << names[i] << " " << values[i];
    }
    figures << "  " << static_cast<int64_t>(session_.samples_per_second()) << " samples/s";
    progress_->show(static_cast<int>(session_.epochs().size()) + 1, session_.first_batch(), figures.str(), more.str());
  }

  /// A point of the loss within the epoch, where it's time.
  void write_update() {
    if (options_.events_every == 0 || ++unwritten_ < options_.events_every) return;
    unwritten_ = 0;
    const double sum = session_.loss().item();
    const int64_t batches = session_.first_batch();
    events_->write(training_.optimizer.steps(),
                   {{"loss/update", (sum - written_sum_) / static_cast<double>(batches - written_batches_)}});
    written_sum_ = sum;
    written_batches_ = batches;
  }

  /// What is known after an epoch.
  void report() {
    session_.write_metrics(options_.metrics);
    session_.write_plot(options_.plot);
    if (events_) events_->write(training_.optimizer.steps(), session_.scalars());
    if (options_.log == nullptr) return;
    if (!update_.why_not().empty() && !said_why_not_) {
      said_why_not_ = true;
      say("steps aren't replayed: " + update_.why_not());
    }
    say(session_.epoch_text(options_.epochs));
  }

  void say(const std::string& line) {
    if (progress_) {
      progress_->keep(line);
    } else {
      *options_.log << line << std::endl;
    }
  }

  bool stopped_early() const {
    const std::vector<FitEpoch>& epochs = session_.epochs();
    const bool validates = training_.validate || training_.validation != nullptr;
    if (options_.patience <= 0 || !validates || epochs.empty()) return false;
    const auto best = std::ranges::min_element(epochs, {}, &FitEpoch::validation);
    return epochs.end() - best > options_.patience;
  }

  const Training& training_;
  const FitOptions& options_;
  TrainingSession session_;
  Device device_;
  Precision precision_;
  ReplayedStep update_;
  Tensor loss_;          // rank 0, f32: where an update leaves the sum over its batches
  int64_t batches_ = 1;  // of the update that runs
  std::optional<Progress> progress_;
  std::optional<EventFile> events_;
  bool said_why_not_ = false;
  int64_t unsaved_ = 0;  // updates
  int64_t unwritten_ = 0;
  double written_sum_ = 0;  // of losses, and over so many batches of the epoch
  int64_t written_batches_ = 0;
};

}  // namespace

std::vector<FitEpoch> fit(const Training& training, const FitOptions& options) {
  if (options.epochs <= 0 || options.accumulate <= 0 || options.checkpoint_every <= 0 || options.events_every < 0 ||
      !training.loss) {
    throw ValueError(kName,
                     "epochs " + std::to_string(options.epochs) + ", accumulate " + std::to_string(options.accumulate) +
                         ", checkpoint_every " + std::to_string(options.checkpoint_every) + ", events_every " +
                         std::to_string(options.events_every) + (training.loss ? "" : ", no loss"),
                     "positive numbers and a loss", "Start with {.epochs = 10}");
  }
  if (options.progress.value_or(false) && options.log == nullptr) {
    throw ValueError(kName, "a progress line without a log", "a stream to write it to", "Set .log = &std::cout");
  }
  if (training.plateau != nullptr && !training.validate && training.validation == nullptr) {
    throw ValueError(kName, "a plateau without a validation", "what it shall look at", "Set Training::validation");
  }
  for (const Var& parameter : training.model.parameters()) {
    const Device device = training.optimizer.arena_values().at(0).device();
    if (!parameter.requires_grad() || parameter.device() == device) continue;
    throw ValueError(kName, "a parameter " + parameter.value().str() + " with an optimiser on " + device.str(),
                     "both on one device", "Move the model first, then make its optimiser");
  }
  return Fit(training, options).run();
}

}  // namespace ashlar::nn
