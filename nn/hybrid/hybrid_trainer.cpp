#include "nn/hybrid/hybrid_trainer.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "nn/hybrid/forecast.h"
#include "nn/hybrid/phase_plot.h"
#include "nn/trainer/checkpoint.h"

namespace ashlar::nn {
namespace {

constexpr const char* kName = "HybridTrainer";
constexpr const char* kRemedy = "Remove the file to begin anew";

std::vector<Tensor> averages_of(const std::optional<WeightAverage>& average) {
  std::vector<Tensor> result;
  if (!average) return result;
  for (const auto& [name, tensor] : average->state_dict()) result.push_back(tensor);
  return result;
}

}  // namespace

HybridTrainer::HybridTrainer(const Training& training, const HybridOptions& options)
    : training_(training),
      options_((options.validate(), options)),
      device_(training.optimizer.arena_values().at(0).device()),
      session_(training_, kName, "an AnomalyMode"),
      precision_(training.optimizer, options.amp),
      average_(options.average ? std::optional<WeightAverage>(std::in_place, training.optimizer, options.average)
                               : std::nullopt),
      window_(training.optimizer, options.count()),
      good_(training.model, training.optimizer, averages_of(average_)),
      step_(device_, options.replay, [this](const std::vector<Tensor>& batch) { compute(batch); }) {
  if (!training.loss) throw ValueError(kName, "no loss", "a function from a batch to a loss", "Set Training::loss");
  if (training.average != nullptr) {
    throw ValueError(kName, "Training::average", "none: it makes an average of its own", "Set HybridOptions::average");
  }
  for (const Var& parameter : training.model.parameters()) {
    if (parameter.device() == device_) continue;
    throw ValueError(kName, "a parameter " + parameter.value().str() + " with an optimiser on " + device_.str(),
                     "both on one device", "Move the model first, then make its optimiser");
  }
  // Without a forecaster there is nothing to take back.
  if (options.monitor && options.forecaster != Forecaster::none) {
    monitor_.emplace(*options.monitor, options.amp == DType::f16);
  }
  steps_ = Tensor::zeros({monitor_ ? 2 : 1, options.correct}, DType::f32, device_);
  last_loss_ = Tensor::zeros({}, DType::f32, device_);
  last_norm_ = Tensor::zeros({}, DType::f32, device_);
  if (options.forecaster == Forecaster::nowcast) {
    nowcaster_.emplace(options.nowcast, options.count(), options.horizon / options.stride(), device_);
  }
  if (options.length == JumpLength::forecast) {
    losses_ahead_.emplace(options.loss_forecast, training.optimizer, device_, options.replay);
    if (options.residuals > 0) {
      residuals_.emplace(training.optimizer, options.residuals, options.residual_rank, options.loss_forecast.seed);
    }
  }
}

HybridReport HybridTrainer::train() {
  const bool plain = options_.forecaster == Forecaster::none;
  records_ = {PhaseRecord{.phase = plain ? Phase::full : Phase::warm_up}};
  resume();
  if (!options_.events.empty() && position_ < options_.steps) {
    events_.emplace(options_.events, position_ > 0 ? position_ + 1 : 0);
  }
  mark_ = std::chrono::steady_clock::now();
  while (position_ < options_.steps) {
    if (jump_is_due()) {
      const int64_t steps = losses_ahead_ ? forecast_length() : options_.horizon;
      if (steps > 0) jump(steps);
    }
    ordinary_step();
  }
  if (session_.first_batch() > 0) {
    look();
    finish_epoch(session_.first_batch());
  }
  count_time();
  if (records_.back().steps > 0 && records_.back().loss == 0) {
    records_.back().loss = recent_loss(std::max<int64_t>(options_.correct / 2, 1)).value;
  }
  write_phase_events();
  save();
  if (average_ && ordinary_ > 0) average_->apply();
  return {session_.epochs(), records_, HybridStatistics::of(records_),
          losses_ahead_ ? losses_ahead_->report() : LossForecastReport()};
}

void HybridTrainer::use_trained_weights() {
  if (average_) average_->restore();
}

// Steps.

void HybridTrainer::ordinary_step() {
  if (!epoch_started_) {
    session_.start_epoch();
    epoch_started_ = true;
    if (session_.first_batch() == 0) discarded_ = 0;
  }
  const std::optional<std::vector<Tensor>> batch = training_.data.next();
  if (!batch) throw ValueError(kName, "a loader without batches", "at least one sample", "Give it data");
  step_.run(*batch);
  session_.count_samples(*batch);
  const Tensor now = steps_.select(1, ordinary_ % options_.correct);
  now.select(0, 0).copy_(last_loss_);
  if (monitor_) now.select(0, 1).copy_(last_norm_);
  session_.add_loss(last_loss_);
  if (losses_ahead_) losses_ahead_->keep();
  if (training_.scheduler != nullptr) training_.scheduler->step();
  session_.advance();
  position_++;
  ordinary_++;
  since_++;
  records_.back().steps++;

  const auto warm =
      std::max(options_.warm_up, static_cast<int64_t>(std::ceil(options_.start * static_cast<double>(options_.steps))));
  if (phase() == Phase::warm_up && position_ >= warm) {
    session_.check_finite();
    begin(Phase::full);
    start_full(std::max(options_.full, options_.window));
    if (options_.log != nullptr) {
      *options_.log << "step " << position_ << "  warm-up is over: jumps of " << (losses_ahead_ ? "at most " : "")
                    << options_.horizon << " steps by " << name_of(options_.forecaster) << std::endl;
    }
  } else if (phase() == Phase::correct && since_ % options_.guard_every == 0) {
    if (!roll_back_if_diverged() && since_ == options_.correct) judge();
  }
  if (losses_ahead_ && losses_ahead_->is_due()) learn_losses();
  take_snapshot_if_due();
  if (session_.first_batch() == training_.data.batches()) {
    look();
    finish_epoch(training_.data.batches());
    save();
  } else if (ordinary_ % options_.checkpoint_every == 0 && !options_.checkpoint.empty()) {
    look();
    save();
  }
}

void HybridTrainer::compute(const std::vector<Tensor>& batch) {
  training_.optimizer.zero_grad();
  last_loss_.copy_(precision_.backward([&] { return session_.loss_of(batch, precision_); }));
  precision_.step();
  if (average_) average_->update();
  if (losses_ahead_) losses_ahead_->measure(last_loss_);
  if (monitor_) {
    last_norm_.copy_(losses_ahead_ ? losses_ahead_->last_norm() : training_.optimizer.norm_of_gradients());
  }
}

void HybridTrainer::finish_epoch(int64_t batches) {
  count_time();
  const bool averaged = average_ && (training_.validate || training_.validation != nullptr);
  if (averaged) average_->apply();
  session_.finish_epoch(batches - discarded_);
  if (averaged) average_->restore();
  epoch_started_ = false;
  epoch_ends_.push_back(position_);
  session_.write_metrics(options_.metrics);
  if (events_) events_->write(position_, session_.scalars());
  if (options_.log != nullptr) *options_.log << session_.epoch_text(0) << std::endl;
  mark_ = std::chrono::steady_clock::now();
}

// Phases.

HybridTrainer::Steps HybridTrainer::recent(int64_t count) const {
  const std::vector<float> rings = steps_.to_vector<float>();
  Steps steps;
  for (int64_t i = std::min({count, ordinary_, options_.correct}); i > 0; i--) {
    const int64_t at = (ordinary_ - i) % options_.correct;
    steps.losses.push_back(rings[static_cast<size_t>(at)]);
    if (monitor_) steps.gradients.push_back(rings[static_cast<size_t>(options_.correct + at)]);
  }
  return steps;
}

HybridTrainer::Mean HybridTrainer::Steps::mean_of_last(int64_t count) const {
  count = std::min(count, static_cast<int64_t>(losses.size()));
  const auto ago = [&](int64_t steps) { return losses[losses.size() - static_cast<size_t>(steps)]; };
  double sum = 0, squares = 0;
  for (int64_t i = 1; i <= count; i++) sum += ago(i);
  Mean mean{sum / static_cast<double>(std::max<int64_t>(count, 1)), 0};
  for (int64_t i = 1; i <= count; i++) squares += (ago(i) - mean.value) * (ago(i) - mean.value);
  if (count > 1) mean.variance = squares / static_cast<double>(count - 1) / static_cast<double>(count);
  return mean;
}

void HybridTrainer::count_time() {
  const auto now = std::chrono::steady_clock::now();
  records_.back().seconds += std::chrono::duration<double>(now - mark_).count();
  mark_ = now;
}

void HybridTrainer::begin(Phase phase, int64_t steps) {
  if (losses_ahead_) learn_losses();  // of the phase that ends
  // Reading the losses waits for the device: the phase's work is in its time.
  records_.back().loss = recent_loss(std::min(std::max<int64_t>(options_.correct / 2, 1), since_)).value;
  count_time();
  write_phase_events();
  records_.push_back({.step = position_, .phase = phase, .steps = steps});
}

/// Of the phase that ends. Its time isn't the next one's.
void HybridTrainer::write_phase_events() {
  if (!events_) return;
  const PhaseRecord& record = records_.back();
  std::vector<std::pair<std::string, double>> scalars{{"phase", static_cast<double>(record.phase)},
                                                      {"phase/steps", static_cast<double>(record.steps)},
                                                      {"phase/seconds", record.seconds}};
  if (record.phase != Phase::predict) scalars.emplace_back("loss/phase", record.loss);
  if (record.verdict != Verdict::none) {
    const HybridStatistics so_far = HybridStatistics::of(records_);
    scalars.emplace_back("jumps/accepted", static_cast<double>(so_far.accepted));
    scalars.emplace_back("jumps/rejected", static_cast<double>(so_far.rejected));
    scalars.emplace_back("jumps/rolled_back", static_cast<double>(so_far.rolled_back));
    scalars.emplace_back("seconds/saved", so_far.seconds_saved);
    scalars.emplace_back("seconds/spent", so_far.seconds_spent);
  }
  events_->write(record.step + record.steps, scalars);
  mark_ = std::chrono::steady_clock::now();
}

void HybridTrainer::start_full(int64_t interval) {
  since_ = 0;
  interval_ = interval;
  window_.clear();
}

bool HybridTrainer::jump_is_due() const {
  return phase() == Phase::full && since_ >= interval_ && window_.is_full() &&
         position_ + options_.horizon + options_.correct <= options_.steps;
}

void HybridTrainer::take_snapshot_if_due() {
  if (options_.forecaster == Forecaster::none || phase() == Phase::warm_up || window_.is_full()) return;
  // No jump will come of it.
  if (position_ + (interval_ - since_) + options_.horizon + options_.correct > options_.steps) return;
  const int64_t ahead = interval_ - since_;  // steps to the jump, where the last one is taken
  if (ahead >= 0 && ahead == (options_.count() - 1 - window_.taken()) * options_.stride()) window_.take();
}

TrainingPlace HybridTrainer::place() const {
  return {.phase = phase(), .steps_in_phase = records_.back().steps, .position = position_, .steps = options_.steps};
}

/// Its time is counted as its own, so the device is waited for at both ends.
void HybridTrainer::learn_losses() {
  const Stream stream = Stream::current(device_);
  stream.synchronize();
  const auto start = std::chrono::steady_clock::now();
  losses_ahead_->learn(place());
  stream.synchronize();
  records_.back().forecast_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Steps of the jump that is due; 0: not now.
int64_t HybridTrainer::forecast_length() {
  learn_losses();
  const LossForecast forecast = losses_ahead_->forecast(place());
  const int64_t steps = options_.jump_length(forecast.confidence, consecutive_);
  if (steps > 0) {
    confidence_ = forecast.confidence;
    return steps;
  }
  if (options_.log != nullptr) {
    *options_.log << "step " << position_ << "  no jump: ";
    if (forecast.is_used) {
      *options_.log << "confidence " << forecast.confidence << std::endl;
    } else {
      *options_.log << "losses can't be foretold" << std::endl;
    }
  }
  records_.back().held_back++;
  consecutive_ = 0;
  window_.clear();
  interval_ = since_ + options_.window;
  take_snapshot_if_due();
  return 0;
}

/// Of the snapshots, for so many steps ahead.
std::vector<double> HybridTrainer::coefficients(int64_t steps) const {
  if (options_.forecaster == Forecaster::modes) {
    return mode_coefficients(window_.gram(), options_.rank, std::max<int64_t>(steps / options_.stride(), 1));
  }
  return line_coefficients(options_.forecaster, options_.count(), options_.stride(), steps);
}

/// What the forecaster says the weights are so many steps ahead, for each arena.
std::vector<Tensor> HybridTrainer::weights_after(int64_t steps) const {
  if (!nowcaster_) return window_.combined(coefficients(steps));
  return nowcaster_->foretell(window_.windows(), static_cast<double>(steps) / static_cast<double>(options_.horizon));
}

void HybridTrainer::jump(int64_t steps) {
  const Steps before = recent(std::min(std::max<int64_t>(options_.correct / 2, 1), since_));
  before_ = before.mean_of_last(since_);
  if (!std::isfinite(before_.value)) session_.check_finite();
  if (monitor_) monitor_->jump(before.losses, before.gradients);
  begin(Phase::predict, steps);
  records_.back().confidence = confidence_;
  if (losses_ahead_) losses_ahead_->jump();
  consecutive_++;
  jumped_ = steps;
  good_.keep();
  kept_ = {.position = position_,
           .schedule = training_.scheduler != nullptr ? training_.scheduler->steps() : 0,
           .epoch = static_cast<int64_t>(session_.epochs().size()),
           .discarded = discarded_,
           .loss = session_.loss().defined() ? session_.loss().clone() : Tensor::zeros({}, DType::f32, device_)};
  if (nowcaster_) nowcaster_->learn(window_.windows());
  window_.move_to(weights_after(steps));
  if (residuals_) {
    foretold_ = {.key = losses_ahead_->state(place()), .weights = weights_after(steps + options_.correct)};
    residuals_->apply(foretold_.key, static_cast<double>(steps) / static_cast<double>(steps + options_.correct));
  }
  position_ += steps;
  if (training_.scheduler != nullptr) training_.scheduler->go_to(kept_.schedule + steps);
  begin(Phase::correct);
  start_full(std::max(options_.correct + options_.full, options_.window));
  take_snapshot_if_due();
}

void HybridTrainer::longer_pause() {
  pause_ = std::min(2 * pause_, options_.longest_pause);
  consecutive_ = 0;
}

bool HybridTrainer::roll_back_if_diverged() {
  const int64_t looked_at = std::min(options_.guard_every, since_);
  const Steps steps = recent(since_);
  const Mean now = steps.mean_of_last(looked_at);
  // A mean of few losses is off by chance; by how much, those before the jump say.
  const double of_one = before_.variance * static_cast<double>(std::max<int64_t>(options_.correct / 2, 1));
  const double noise =
      options_.divergence_errors * std::sqrt(before_.variance + of_one / static_cast<double>(looked_at));
  const double limit = before_.value + std::max((options_.divergence - 1) * std::abs(before_.value), noise);
  const Alarm alarm =
      monitor_ ? monitor_->check(steps.losses, steps.gradients, static_cast<size_t>(looked_at)) : Alarm::none;
  if (now.value <= limit && alarm == Alarm::none) return false;  // not so for NaN
  if (options_.log != nullptr) {
    *options_.log << "step " << position_ << "  loss " << before_.value << " -> " << now.value;
    if (alarm != Alarm::none) *options_.log << ", alarm: " << name_of(alarm);
    *options_.log << ": back to step " << kept_.position << std::endl;
  }
  records_.back().verdict = Verdict::rolled_back;
  records_.back().alarm = alarm;
  good_.restore();
  good_.forget();
  foretold_.weights.clear();
  position_ = kept_.position;
  if (training_.scheduler != nullptr) training_.scheduler->go_to(kept_.schedule);
  const bool same_epoch = kept_.epoch == static_cast<int64_t>(session_.epochs().size());
  session_.set_loss(same_epoch ? kept_.loss : Tensor::zeros({}, DType::f32, device_));
  discarded_ = same_epoch ? kept_.discarded + since_ : session_.first_batch();
  longer_pause();
  if (losses_ahead_) losses_ahead_->go_back();
  begin(Phase::full);
  start_full(std::max(options_.full * pause_, options_.window));
  take_snapshot_if_due();  // where an epoch ends there is no other occasion
  return true;
}

void HybridTrainer::judge() {
  const Mean now = recent_loss(options_.correct / 2);
  const double error = std::sqrt(before_.variance + now.variance);
  const bool accepted = now.value <= before_.value + options_.tolerance * error;
  records_.back().verdict = accepted ? Verdict::accepted : Verdict::rejected;
  if (options_.log != nullptr) {
    *options_.log << "step " << position_ << "  " << jumped_ << " steps predicted, " << options_.correct
                  << " corrections: loss " << before_.value << " -> " << now.value << ", "
                  << name_of(records_.back().verdict) << std::endl;
  }
  good_.forget();
  if (residuals_) residuals_->put(foretold_.key, std::exchange(foretold_.weights, {}));
  begin(Phase::full);
  if (accepted) {
    pause_ = 1;
    return;
  }
  // The snapshots may have begun during the corrections: they begin anew for the later jump.
  longer_pause();
  window_.clear();
  interval_ = std::max(options_.correct + options_.full * pause_, since_ + options_.window);
}

/// Before a state is saved or an epoch's mean said: is it worth it?
void HybridTrainer::look() {
  if (phase() == Phase::correct) {
    roll_back_if_diverged();
  } else {
    session_.check_finite();
  }
}

// Checkpoints.

std::vector<double> HybridTrainer::option_numbers() const {
  const HybridOptions& o = options_;
  const LossForecastOptions& f = o.loss_forecast;
  std::vector<double> numbers;
  for (const int64_t value : {o.steps,
                              static_cast<int64_t>(o.forecaster),
                              o.warm_up,
                              o.window,
                              o.horizon,
                              o.snapshots,
                              o.rank,
                              o.full,
                              o.correct,
                              o.guard_every,
                              o.longest_pause,
                              o.checkpoint_every,
                              static_cast<int64_t>(o.length),
                              f.members,
                              f.hidden,
                              f.encoded,
                              f.horizon,
                              f.block,
                              f.every,
                              f.batch,
                              f.memory,
                              f.held_out,
                              static_cast<int64_t>(f.seed),
                              o.residuals,
                              o.residual_rank,
                              o.nowcast.hidden,
                              o.nowcast.updates,
                              o.nowcast.batch,
                              static_cast<int64_t>(o.nowcast.seed)}) {
    numbers.push_back(static_cast<double>(value));
  }
  numbers.insert(numbers.end(), {o.start, o.tolerance, o.divergence, o.divergence_errors, o.average.value_or(-1),
                                 o.amp ? static_cast<double>(*o.amp) : -1, o.confidence, f.learning_rate, f.gain,
                                 f.rise, o.nowcast.learning_rate, f.dropout, f.layer_norm ? 1.0 : 0.0});
  const DivergenceMonitorOptions m = o.monitor.value_or(DivergenceMonitorOptions());
  numbers.insert(numbers.end(), {o.monitor ? 1.0 : 0.0, m.loss_deviations, m.gradient_most, m.gradient_least, m.turns,
                                 m.swing, static_cast<double>(m.oscillation_steps)});
  return numbers;
}

void HybridTrainer::save() {
  count_time();
  if (!options_.phases.empty()) write_phases(options_.phases, records_);
  if (!options_.plot.empty()) {
    write_phase_plot(options_.plot, training_.model.kind(), records_, session_.epochs(), epoch_ends_);
  }
  if (!options_.checkpoint.empty()) {
    Checkpoint checkpoint;
    session_.add_to(checkpoint);
    const std::vector<double> options = option_numbers();
    const std::vector<int64_t> counts{position_,   ordinary_,       since_,         interval_,
                                      pause_,      discarded_,      kept_.position, kept_.schedule,
                                      kept_.epoch, kept_.discarded, consecutive_,   jumped_};
    NamedTensors state{{"options", Tensor::from(options, {static_cast<int64_t>(options.size())})},
                       {"counts", Tensor::from(counts, {static_cast<int64_t>(counts.size())})},
                       {"before", Tensor::from({before_.value, before_.variance})},
                       {"records", to_tensor(records_)},
                       {"losses", steps_},
                       {"epoch_ends", Tensor::from(epoch_ends_, {static_cast<int64_t>(epoch_ends_.size())})},
                       {"kept_loss", kept_.loss.defined() ? kept_.loss : Tensor::zeros({})}};
    for (const NamedTensors& more : {window_.state_dict(), good_.state_dict()}) {
      state.insert(state.end(), more.begin(), more.end());
    }
    if (monitor_) {
      const std::vector<double> monitor = monitor_->state();
      state.emplace_back("monitor", Tensor::from(monitor, {static_cast<int64_t>(monitor.size())}));
    }
    checkpoint.add("hybrid", state);
    checkpoint.add("amp", precision_.state_dict());
    if (average_) checkpoint.add("average", average_->state_dict());
    if (nowcaster_) checkpoint.add("nowcast", nowcaster_->state_dict());
    if (losses_ahead_) checkpoint.add("loss_forecast", losses_ahead_->state_dict());
    if (residuals_) checkpoint.add("residuals", residual_state());
    checkpoint.write(options_.checkpoint);
  }
  mark_ = std::chrono::steady_clock::now();
}

NamedTensors HybridTrainer::residual_state() const {
  NamedTensors state = residuals_->state_dict();
  if (foretold_.weights.empty()) return state;
  state.emplace_back("foretold.key", Tensor::from(std::span<const float>(foretold_.key), {kStateFeatures}));
  for (size_t i = 0; i < foretold_.weights.size(); i++) {
    state.emplace_back("foretold." + std::to_string(i), foretold_.weights[i]);
  }
  return state;
}

void HybridTrainer::load_residual_state(const NamedTensors& state) {
  residuals_->load_state_dict(state);
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  foretold_.weights.clear();
  if (!given.contains("foretold.key")) return;
  const std::vector<float> key = given.at("foretold.key").to_vector<float>();
  std::vector<Tensor> weights;
  for (const Tensor& arena : training_.optimizer.arena_values()) {
    const auto found = given.find("foretold." + std::to_string(weights.size()));
    if (found == given.end() || found->second.shape() != arena.shape() || key.size() != foretold_.key.size()) {
      throw ValueError(kName, "forecasts of other weights", "one for each arena, of its shape", kRemedy);
    }
    weights.push_back(found->second.to(arena.device()));
  }
  std::ranges::copy(key, foretold_.key.begin());
  foretold_.weights = std::move(weights);
}

void HybridTrainer::resume() {
  std::error_code ignored;
  if (options_.checkpoint.empty() || !std::filesystem::exists(options_.checkpoint, ignored)) return;
  const Checkpoint checkpoint = Checkpoint::read(options_.checkpoint);
  const NamedTensors state = checkpoint.part("hybrid");
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  for (const char* name : {"options", "counts", "before", "records", "losses", "epoch_ends", "kept_loss"}) {
    if (given.contains(name)) continue;
    throw ValueError(kName, options_.checkpoint.string() + " without \"hybrid." + name + "\"",
                     "a checkpoint of a hybrid training", kRemedy);
  }
  if (given.at("options").to_doubles() != option_numbers()) {
    throw ValueError(kName, options_.checkpoint.string() + " of a training with other options",
                     "the options that it began with", kRemedy);
  }
  const std::vector<int64_t> counts = given.at("counts").to_vector<int64_t>();
  const std::vector<double> before = given.at("before").to_vector<double>();
  if (counts.size() != 12 || before.size() != 2 || given.at("losses").shape() != steps_.shape() ||
      given.at("kept_loss").shape() != Shape{} || given.at("records").numel() == 0 ||
      (monitor_ && !given.contains("monitor"))) {
    throw ValueError(kName, options_.checkpoint.string() + " that is damaged", "what save() wrote", kRemedy);
  }
  const NamedTensors amp = precision_.state_dict().empty() ? NamedTensors() : checkpoint.part("amp");
  session_.restore(checkpoint, options_.checkpoint);
  precision_.load_state_dict(amp);
  if (average_) average_->load_state_dict(checkpoint.part("average"));
  if (nowcaster_) nowcaster_->load_state_dict(checkpoint.part("nowcast"));
  if (losses_ahead_) losses_ahead_->load_state_dict(checkpoint.part("loss_forecast"));
  if (residuals_) load_residual_state(checkpoint.part("residuals"));
  window_.load_state_dict(state);
  good_.load_state_dict(state);
  records_ = records_from(given.at("records"));
  steps_.copy_(given.at("losses"));
  if (monitor_) monitor_->restore(given.at("monitor").to_vector<double>());
  epoch_ends_ = given.at("epoch_ends").to_vector<int64_t>();
  before_ = {before[0], before[1]};
  size_t i = 0;
  for (int64_t* count : {&position_, &ordinary_, &since_, &interval_, &pause_, &discarded_, &kept_.position,
                         &kept_.schedule, &kept_.epoch, &kept_.discarded, &consecutive_, &jumped_}) {
    *count = counts[i++];
  }
  kept_.loss = given.at("kept_loss").to(device_);
}

}  // namespace ashlar::nn
