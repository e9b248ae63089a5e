#include "autograd/anomaly_mode.h"

#include <string>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"

namespace ashlar {
namespace {

// 0: none
thread_local uint8_t mode = 0;
constexpr uint8_t mode_of(Anomaly what) { return what == Anomaly::nan ? 1 : 2; }

/// What isn't as it should be is looked at with the mode off: the looking's own operations aren't the network's.
class Off {
 public:
  Off() : previous_(mode) { mode = 0; }
  ~Off() { mode = previous_; }
  Off(const Off&) = delete;
  Off& operator=(const Off&) = delete;
  bool only_nan() const { return previous_ == mode_of(Anomaly::nan); }

 private:
  uint8_t previous_;
};

/// "3 NaN and 1 infinite of 12 elements"; empty where all is well.
std::string faults_of(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype()) || x.numel() == 0) return {};
  const NoGrad no_grad;
  const Off off;
  const Tensor wide = x.dtype() == DType::f64 ? x : x.to(DType::f32);
  const auto nans = static_cast<int64_t>(count_nonzero(isnan(wide)).item());
  const auto infinities = off.only_nan() ? 0 : static_cast<int64_t>(count_nonzero(isinf(wide)).item());
  if (nans + infinities == 0) return {};
  std::string text;
  if (nans > 0) text = std::to_string(nans) + " NaN";
  if (infinities > 0) text += (text.empty() ? "" : " and ") + std::to_string(infinities) + " infinite";
  return text + " of " + std::to_string(x.numel()) + " elements";
}

}  // namespace

AnomalyMode::AnomalyMode(Anomaly what) : previous_(mode) { mode = mode_of(what); }
AnomalyMode::~AnomalyMode() { mode = previous_; }

bool anomaly_mode() { return mode != 0; }

namespace detail {

void check_forward(const char* operation, std::span<const Var> inputs, std::span<const Tensor> values) {
  for (size_t i = 0; i < values.size(); i++) {
    const std::string faults = faults_of(values[i]);
    if (faults.empty()) continue;
    std::string came = faults + " in ";
    came += values.size() > 1 ? "output " + std::to_string(i) + ", " : "its result, ";
    came += values[i].str() + ", from";
    bool is_maker = true;
    for (size_t k = 0; k < inputs.size(); k++) {
      if (!inputs[k].defined()) continue;
      const std::string before = faults_of(inputs[k].value());
      came += (k == 0 ? " " : ", ") + inputs[k].value().str();
      if (before.empty()) continue;
      is_maker = false;
      came += " (" + before + ")";
    }
    throw AnomalyError(operation, came, "finite numbers",
                       is_maker ? "The inputs are as they should be: this operation made it. Look at their range"
                                : "It came with an input that no recorded operation made: data, weights or a buffer");
  }
}

void check_arrived(const char* operation, int output, const Tensor& gradient) {
  const std::string faults = faults_of(gradient);
  if (faults.empty()) return;
  throw AnomalyError(
      std::string("backward of ") + operation,
      faults + " in the gradient that arrives at its output " + std::to_string(output) + ", " + gradient.str(),
      "finite numbers", "The seed isn't finite, or gradients of several consumers add up to this");
}

void check_backward(const char* operation, int input, const Tensor& gradient) {
  const std::string faults = faults_of(gradient);
  if (faults.empty()) return;
  throw AnomalyError(std::string("backward of ") + operation,
                     faults + " in the gradient of its input " + std::to_string(input) + ", " + gradient.str(),
                     "finite numbers",
                     "What arrived is as it should be: this operation's derivative made it. Look at the range of its "
                     "inputs");
}

}  // namespace detail
}  // namespace ashlar
