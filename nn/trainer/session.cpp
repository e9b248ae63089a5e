#include "nn/trainer/session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/data/file.h"
#include "nn/data/sample_forecast.h"
#include "nn/trainer/plot.h"

namespace ashlar::nn {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void write_text(const char* name, const std::filesystem::path& file, const std::string& text) {
  write_file_atomically(name, file, {{reinterpret_cast<const uint8_t*>(text.data()), text.size()}});
}

NamedTensors numbered(const std::vector<Tensor>& tensors) {
  NamedTensors result;
  for (const Tensor& tensor : tensors) result.emplace_back(std::to_string(result.size()), tensor);
  return result;
}

std::vector<std::string> names_of(const Metrics* metrics) {
  return metrics != nullptr ? metrics->names() : std::vector<std::string>();
}

double find(const std::vector<std::pair<std::string, double>>& values, const std::string& name) {
  for (const auto& [key, value] : values) {
    if (key == name) return value;
  }
  return kNone;
}

}  // namespace

TrainingSession::TrainingSession(const Training& training, const char* name, const char* finder)
    : training_(training), name_(name), finder_(finder), start_(std::chrono::steady_clock::now()) {}

// ---- checkpoints

void TrainingSession::add_to(Checkpoint& checkpoint) const {
  checkpoint.add("model", training_.model.state_dict(Saved::with_checkpoints));
  checkpoint.add("optimizer", training_.optimizer.state_dict());
  std::vector<double> history, base_rates;
  for (const FitEpoch& epoch : epochs_) {
    const std::vector<double> numbers = row(epoch);
    history.insert(history.end(), numbers.begin(), numbers.end());
    history.push_back(epoch.samples_per_second);
  }
  const Scheduler* scheduler = training_.scheduler;
  if (scheduler != nullptr) base_rates = scheduler->base_rates();
  const auto size = [](const std::vector<double>& values) { return Shape{static_cast<int64_t>(values.size())}; };
  const std::vector<int64_t> position{first_batch_, scheduler != nullptr ? scheduler->steps() : 0};
  checkpoint.add("training", {{"epochs", Tensor::from(history, size(history))},
                              {"base_rates", Tensor::from(base_rates, size(base_rates))},
                              {"position", Tensor::from(position, {2})},
                              {"loss", loss_.defined() ? loss_ : Tensor::zeros({})}});
  if (training_.metrics != nullptr) checkpoint.add("metrics", numbered(training_.metrics->sums()));
  if (training_.average != nullptr) checkpoint.add("average", training_.average->state_dict());
  if (const SampleForecast* forecast = training_.data.forecast()) checkpoint.add("samples", forecast->state_dict());
  if (training_.plateau != nullptr) {
    const ReduceLROnPlateau::State& state = training_.plateau->state();
    checkpoint.add("plateau",
                   {{"best", Tensor::from({state.best})}, {"counts", Tensor::from({state.bad_steps, state.cooldown})}});
  }
}

void TrainingSession::restore(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  const auto find = [&](const NamedTensors& part, const std::string& name) -> const Tensor& {
    for (const auto& [key, tensor] : part) {
      if (key == name) return tensor;
    }
    throw ValueError(name_, file.string() + " without \"training." + name + "\"", "a checkpoint of this training",
                     "Remove the file to begin anew");
  };
  const NamedTensors progress = checkpoint.part("training");
  const auto history = find(progress, "epochs").to_vector<double>();
  const auto position = find(progress, "position").to_vector<int64_t>();
  const auto sum = find(progress, "loss");
  const auto base_rates = find(progress, "base_rates").to_vector<double>();
  const std::vector<Tensor> sums = training_.metrics != nullptr ? training_.metrics->sums() : std::vector<Tensor>();
  const NamedTensors saved = sums.empty() ? NamedTensors() : checkpoint.part("metrics");
  const size_t width = columns().size() + 1;
  bool fits = position.size() == 2 && history.size() % width == 0 && sum.shape() == Shape{} && position[0] >= 0 &&
              position[0] <= training_.data.batches() && saved.size() == sums.size();
  for (size_t i = 0; fits && i < sums.size(); i++) {
    const Tensor& from = find(saved, std::to_string(i));
    fits = from.shape() == sums[i].shape() && from.dtype() == sums[i].dtype();
  }
  if (!fits) {
    throw ValueError(name_, file.string() + " of other data or metrics", "a checkpoint of this training",
                     "Remove the file to begin anew");
  }
  const NamedTensors plateau = training_.plateau != nullptr ? checkpoint.part("plateau") : NamedTensors();
  const NamedTensors average = training_.average != nullptr ? checkpoint.part("average") : NamedTensors();
  if (SampleForecast* forecast = training_.data.forecast()) forecast->load_state_dict(checkpoint.part("samples"));
  training_.model.load_state_dict(checkpoint.part("model"), Saved::with_checkpoints);
  training_.optimizer.load_state_dict(checkpoint.part("optimizer"));
  if (training_.average != nullptr) training_.average->load_state_dict(average);
  for (size_t i = 0; i < sums.size(); i++) sums[i].copy_(find(saved, std::to_string(i)));
  if (training_.scheduler != nullptr) training_.scheduler->restore(position[1], base_rates);
  if (training_.plateau != nullptr) {
    const auto counts = find(plateau, "counts").to_vector<int64_t>();
    training_.plateau->restore({find(plateau, "best").to_vector<double>().at(0), counts.at(0), counts.at(1)});
  }
  epochs_.clear();
  for (size_t i = 0; i < history.size(); i += width) {
    epochs_.push_back(epoch_from(&history[i]));
    epochs_.back().samples_per_second = history[i + width - 1];
  }
  first_batch_ = position[0];
  loss_ = sum;
}

// ---- an epoch

void TrainingSession::start_epoch() {
  training_.model.train();
  training_.data.start(epochs_.size(), first_batch_);
  samples_ = 0;
  start_ = std::chrono::steady_clock::now();
  if (first_batch_ > 0) return;
  loss_ = Tensor();
  if (training_.metrics != nullptr) training_.metrics->reset();
}

Var TrainingSession::loss_of(std::vector<Tensor> batch, const Precision& precision) const {
  BatchSource& data = training_.data;
  if (data.drawn_samples() > 0) batch = data.draw();
  if (!batch.empty()) batch[0] = precision.input(batch[0]);
  const Var loss = training_.loss(batch);
  if (SampleForecast* forecast = data.forecast()) forecast->observe(loss.value());
  return loss.value().numel() == 1 ? loss : ad::mean(loss);
}

void TrainingSession::count_samples(const std::vector<Tensor>& batch) {
  const int64_t drawn = training_.data.drawn_samples();
  samples_ += drawn > 0 ? drawn : batch.empty() ? 0 : batch[0].size(0);
}

void TrainingSession::add_loss(const Tensor& loss) {
  loss_ = loss_.defined() ? add(loss_.to(loss.device()), loss) : loss.clone();
}

void TrainingSession::check_finite() const {
  if (!loss_.defined() || std::isfinite(loss_.item())) return;
  throw DivergenceError(name_,
                        "a loss that isn't finite in epoch " + std::to_string(epochs_.size() + 1) + ", batch " +
                            std::to_string(first_batch_) + " or before",
                        "finite numbers",
                        std::string("Try a smaller learning rate, or set_clipping(); ") + finder_ +
                            " names the operation. A checkpoint, if any, is from before");
}

double TrainingSession::samples_per_second() const {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
  return seconds.count() > 0 ? static_cast<double>(samples_) / seconds.count() : 0;
}

double TrainingSession::mean_loss_of(DataLoader& data) const {
  const Device device = training_.optimizer.arena_values().at(0).device();
  Tensor sum = Tensor::zeros({}, DType::f32, device);
  int64_t samples = 0;
  data.start(0);
  while (std::optional<std::vector<Tensor>> batch = data.next()) {
    for (Tensor& part : *batch) part = part.to(device);
    const int64_t size = batch->empty() ? 1 : (*batch)[0].size(0);
    const Tensor losses = training_.loss(*batch).value().to(DType::f32);
    const Tensor loss = (losses.numel() == 1 ? losses : mean(losses)).reshape({});
    sum = add(sum, affine(loss, static_cast<double>(size), 0.0));
    samples += size;
  }
  return samples > 0 ? sum.item() / static_cast<double>(samples) : kNone;
}

std::vector<std::pair<std::string, double>> TrainingSession::read_metrics() const {
  std::vector<std::pair<std::string, double>> result;
  const std::vector<std::string> names = names_of(training_.metrics);
  const std::vector<double> values = training_.metrics != nullptr ? training_.metrics->read() : std::vector<double>();
  for (size_t i = 0; i < names.size(); i++) {
    if (!std::isnan(values[i])) result.emplace_back(names[i], values[i]);
  }
  return result;
}

void TrainingSession::finish_epoch(int64_t batches) {
  FitEpoch epoch;
  epoch.loss = loss_.defined() && batches > 0 ? loss_.item() / static_cast<double>(batches) : 0;  // waits
  epoch.samples_per_second = samples_per_second();
  epoch.metrics = read_metrics();
  epoch.validation = kNone;
  if (validates()) {
    const NoGrad no_grad;
    if (training_.metrics != nullptr) training_.metrics->reset();
    if (averages()) training_.average->apply();
    training_.model.eval();
    if (training_.validation != nullptr) epoch.validation = mean_loss_of(*training_.validation);
    if (training_.validate) epoch.validation = training_.validate();
    training_.model.train();
    if (averages()) training_.average->restore();
    epoch.validation_metrics = read_metrics();
  }
  if (training_.plateau != nullptr) training_.plateau->step(epoch.validation);
  SampleForecast* forecast = training_.data.forecast();
  if (forecast != nullptr && validates()) forecast->watch(epoch.validation);
  epoch.learning_rate = training_.optimizer.learning_rate();
  epochs_.push_back(std::move(epoch));
  first_batch_ = 0;
}

// ---- reports

std::vector<std::string> TrainingSession::columns() const {
  std::vector<std::string> result{"loss", "validation", "learning_rate"};
  for (const std::string& name : names_of(training_.metrics)) {
    result.push_back(name);
    result.push_back("validation_" + name);
  }
  return result;
}

std::vector<double> TrainingSession::row(const FitEpoch& epoch) const {
  std::vector<double> result{epoch.loss, epoch.validation, epoch.learning_rate};
  for (const std::string& name : names_of(training_.metrics)) {
    result.push_back(find(epoch.metrics, name));
    result.push_back(find(epoch.validation_metrics, name));
  }
  return result;
}

FitEpoch TrainingSession::epoch_from(const double* row) const {
  FitEpoch epoch{.loss = row[0], .validation = row[1], .learning_rate = row[2]};
  row += 3;
  for (const std::string& name : names_of(training_.metrics)) {
    if (!std::isnan(row[0])) epoch.metrics.emplace_back(name, row[0]);
    if (!std::isnan(row[1])) epoch.validation_metrics.emplace_back(name, row[1]);
    row += 2;
  }
  return epoch;
}

std::string TrainingSession::epoch_text(int planned) const {
  const FitEpoch& epoch = epochs_.back();
  std::ostringstream text;
  text << "epoch " << epochs_.size();
  if (planned > 0) text << "/" << planned;
  text << "  loss " << epoch.loss;
  if (validates()) text << "  validation " << epoch.validation;
  for (const auto& [name, value] : epoch.metrics) text << "  " << name << " " << value;
  for (const auto& [name, value] : epoch.validation_metrics) text << "  validation " << name << " " << value;
  return text.str();
}

void TrainingSession::write_metrics(const std::filesystem::path& file) const {
  if (file.empty()) return;
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << "epoch";
  for (const std::string& column : columns()) text << ',' << column;
  text << '\n';
  for (size_t i = 0; i < epochs_.size(); i++) {
    text << i + 1;
    for (const double value : row(epochs_[i])) text << ',' << value;
    text << '\n';
  }
  write_text(name_, file, text.str());
}

std::vector<std::pair<std::string, double>> TrainingSession::scalars() const {
  const FitEpoch& epoch = epochs_.back();
  std::vector<std::pair<std::string, double>> result{{"loss/training", epoch.loss}};
  if (!std::isnan(epoch.validation)) result.emplace_back("loss/validation", epoch.validation);
  result.emplace_back("learning_rate", epoch.learning_rate);
  result.emplace_back("samples_per_second", epoch.samples_per_second);
  for (const auto& [name, value] : epoch.metrics) result.emplace_back(name + "/training", value);
  for (const auto& [name, value] : epoch.validation_metrics) result.emplace_back(name + "/validation", value);
  return result;
}

void TrainingSession::write_plot(const std::filesystem::path& file) const {
  if (file.empty()) return;
  std::vector<double> x;
  std::vector<std::vector<double>> columns(this->columns().size());
  for (const FitEpoch& epoch : epochs_) {
    x.push_back(static_cast<double>(x.size() + 1));
    const std::vector<double> numbers = row(epoch);
    for (size_t i = 0; i < columns.size(); i++) columns[i].push_back(numbers[i]);
  }
  const auto both = [&](const std::string& title, size_t training, size_t validation) {
    Panel panel{title, {{"training", x, columns[training]}}};
    if (validates()) panel.curves.push_back({"validation", x, columns[validation]});
    return panel;
  };
  std::vector<Panel> panels{both("loss", 0, 1)};
  const std::vector<std::string> names = names_of(training_.metrics);
  for (size_t i = 0; i < names.size(); i++) panels.push_back(both(names[i], 3 + 2 * i, 4 + 2 * i));
  panels.push_back({"learning rate", {{"after the epoch", x, columns[2]}}});
  write_text(name_, file, plot_svg(training_.model.kind(), panels, "epoch"));
}

}  // namespace ashlar::nn
