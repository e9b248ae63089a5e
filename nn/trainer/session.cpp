#include "nn/trainer/session.h"

#include <cmath>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "nn/data/file.h"

namespace ashlar::nn {
namespace {

constexpr int64_t kColumns = 3;  // of FitEpoch

}  // namespace

void TrainingSession::add_to(Checkpoint& checkpoint) const {
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
}

void TrainingSession::restore(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  const NamedTensors progress = checkpoint.part("training");
  const auto find = [&](const char* name) -> const Tensor& {
    for (const auto& [key, tensor] : progress) {
      if (key == name) return tensor;
    }
    throw ValueError(name_, file.string() + " without \"training." + name + "\"", "a checkpoint of this training",
                     "Remove the file to begin anew");
  };
  const auto history = find("epochs").to_vector<double>();
  const auto position = find("position").to_vector<int64_t>();
  const auto sum = find("loss");
  const auto base_rates = find("base_rates").to_vector<double>();
  if (position.size() != 2 || history.size() % kColumns != 0 || sum.shape() != Shape{} || position[0] < 0 ||
      position[0] > training_.data.batches()) {
    throw ValueError(name_, file.string() + " of other data", "a checkpoint of this training",
                     "Remove the file to begin anew");
  }
  training_.model.load_state_dict(checkpoint.part("model"), Saved::with_checkpoints);
  training_.optimizer.load_state_dict(checkpoint.part("optimizer"));
  if (training_.scheduler != nullptr) training_.scheduler->restore(position[1], base_rates);
  epochs_.clear();
  for (size_t i = 0; i < history.size(); i += kColumns) {
    epochs_.push_back({history[i], history[i + 1], history[i + 2]});
  }
  first_batch_ = position[0];
  loss_ = sum;
}

void TrainingSession::start_epoch() {
  training_.model.train();
  training_.data.start(epochs_.size(), first_batch_);
  if (first_batch_ == 0) loss_ = Tensor();
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
                        "Try a smaller learning rate, or set_clipping(); a checkpoint, if any, is from before");
}

void TrainingSession::finish_epoch(int64_t batches) {
  FitEpoch epoch;
  epoch.loss = loss_.defined() && batches > 0 ? loss_.item() / static_cast<double>(batches) : 0;
  epoch.validation = std::numeric_limits<double>::quiet_NaN();
  if (training_.validate) {
    const NoGrad no_grad;
    training_.model.eval();
    epoch.validation = training_.validate();
    training_.model.train();
  }
  epoch.learning_rate = training_.optimizer.learning_rate();
  epochs_.push_back(epoch);
  first_batch_ = 0;
}

void TrainingSession::print_epoch(std::ostream& log, int planned) const {
  log << "epoch " << epochs_.size();
  if (planned > 0) log << "/" << planned;
  log << "  loss " << epochs_.back().loss;
  if (training_.validate) log << "  validation " << epochs_.back().validation;
  log << std::endl;
}

void TrainingSession::write_metrics(const std::filesystem::path& file) const {
  if (file.empty()) return;
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << "epoch,loss,validation,learning_rate\n";
  for (size_t i = 0; i < epochs_.size(); i++) {
    text << i + 1 << ',' << epochs_[i].loss << ',' << epochs_[i].validation << ',' << epochs_[i].learning_rate << '\n';
  }
  const std::string bytes = text.str();
  write_file_atomically(name_, file, {{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
}

}  // namespace ashlar::nn
