#include "nn/hybrid/snapshots.h"

#include <string>
#include <unordered_map>

#include "ashlar/ops.h"
#include "autograd/grad_mode.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr const char* kRemedy = "Load what a training of the same network with the same options saved";

}  // namespace

void SnapshotWindow::allocate() {
  const std::vector<Tensor> values = optimizer_.arena_values();
  bool fits = windows_.size() == values.size();
  for (size_t i = 0; fits && i < values.size(); i++) {
    fits = windows_[i].size(1) == values[i].numel() && windows_[i].device() == values[i].device();
  }
  if (fits) return;
  if (taken_ > 0) {
    throw ValueError("SnapshotWindow", "parameters that have moved since the first snapshot",
                     "those that it was taken of", "Move the module before its training");
  }
  windows_.clear();
  for (const Tensor& arena : values) {
    windows_.push_back(Tensor::zeros({snapshots_, arena.numel()}, DType::f32, arena.device()));
  }
}

void SnapshotWindow::take() {
  if (is_full()) {
    throw ValueError("SnapshotWindow::take", "a snapshot beyond " + std::to_string(snapshots_), "room for it",
                     "clear() it first");
  }
  allocate();
  const std::vector<Tensor> values = optimizer_.arena_values();
  for (size_t i = 0; i < values.size(); i++) windows_[i].select(0, taken_).copy_(values[i].to(DType::f32));
  taken_++;
}

std::vector<Tensor> SnapshotWindow::combined(const std::vector<double>& coefficients) const {
  if (!is_full() || static_cast<int64_t>(coefficients.size()) != snapshots_) {
    throw ValueError("SnapshotWindow::combined",
                     std::to_string(coefficients.size()) + " coefficients, " + std::to_string(taken_) + " snapshots",
                     std::to_string(snapshots_) + " of both", "take() all snapshots first");
  }
  const NoGrad no_grad;
  const std::vector<float> narrow(coefficients.begin(), coefficients.end());
  std::vector<Tensor> result;
  for (const Tensor& window : windows_) {
    const Tensor row = Tensor::from(narrow, {1, snapshots_}, window.device());
    result.push_back(matmul(row, window).reshape({window.size(1)}));
  }
  return result;
}

void SnapshotWindow::move_to(const std::vector<Tensor>& weights) const {
  const std::vector<Tensor> values = optimizer_.arena_values();
  for (size_t i = 0; i < values.size(); i++) values[i].copy_(weights[i].to(values[i].dtype()));
}

std::vector<double> SnapshotWindow::gram() const {
  const NoGrad no_grad;
  const int64_t moves = snapshots_ - 1;
  std::vector<double> sum(static_cast<size_t>(moves * moves), 0.0);
  for (const Tensor& window : windows_) {
    const Tensor difference = sub(window.slice(0, 1), window.slice(0, 0, moves));
    const std::vector<double> part = matmul(difference, difference.transpose(0, 1)).to_doubles();
    for (size_t i = 0; i < sum.size(); i++) sum[i] += part[i];
  }
  return sum;
}

NamedTensors SnapshotWindow::state_dict() const {
  NamedTensors result;
  if (taken_ == 0) return result;
  for (size_t i = 0; i < windows_.size(); i++) {
    result.emplace_back("snapshots." + std::to_string(i), windows_[i].slice(0, 0, taken_));
  }
  return result;
}

void SnapshotWindow::load_state_dict(const NamedTensors& state) {
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  taken_ = 0;
  if (!given.contains("snapshots.0")) return;
  allocate();
  for (size_t i = 0; i < windows_.size(); i++) {
    const auto found = given.find("snapshots." + std::to_string(i));
    if (found == given.end()) throw ValueError("SnapshotWindow", "too few tensors", "one for each arena", kRemedy);
    const Tensor& from = found->second;
    if (from.rank() != 2 || from.size(0) > snapshots_ || from.size(1) != windows_[i].size(1) ||
        from.dtype() != DType::f32) {
      throw ShapeError("SnapshotWindow", from.str(), "rows of " + windows_[i].str(), kRemedy);
    }
  }
  for (size_t i = 0; i < windows_.size(); i++) {
    const Tensor& from = given.at("snapshots." + std::to_string(i));
    taken_ = from.size(0);
    windows_[i].slice(0, 0, taken_).copy_(from);
  }
}

std::vector<Tensor> GoodState::live() const {
  std::vector<Tensor> all = optimizer_.arena_state();
  for (const auto& [name, buffer] : model_.named_buffers()) all.push_back(buffer.value());
  all.insert(all.end(), more_.begin(), more_.end());
  return all;
}

void GoodState::keep() {
  const std::vector<Tensor> now = live();
  if (copies_.size() != now.size()) {
    copies_.clear();
    for (const Tensor& tensor : now) copies_.push_back(tensor.clone());
  } else {
    for (size_t i = 0; i < now.size(); i++) copies_[i].copy_(now[i]);
  }
  kept_ = true;
}

void GoodState::restore() const {
  if (!kept_) throw ValueError("GoodState::restore", "nothing kept", "a state", "keep() one first");
  const std::vector<Tensor> now = live();
  for (size_t i = 0; i < now.size(); i++) now[i].copy_(copies_[i]);
}

NamedTensors GoodState::state_dict() const {
  NamedTensors result;
  if (!kept_) return result;
  for (size_t i = 0; i < copies_.size(); i++) result.emplace_back("good." + std::to_string(i), copies_[i]);
  return result;
}

void GoodState::load_state_dict(const NamedTensors& state) {
  const std::unordered_map<std::string, Tensor> given(state.begin(), state.end());
  kept_ = false;
  if (!given.contains("good.0")) return;
  const std::vector<Tensor> now = live();
  std::vector<Tensor> copies;
  for (size_t i = 0; i < now.size(); i++) {
    const auto found = given.find("good." + std::to_string(i));
    if (found == given.end()) throw ValueError("GoodState", "too few tensors", std::to_string(now.size()), kRemedy);
    if (found->second.shape() != now[i].shape() || found->second.dtype() != now[i].dtype()) {
      throw ShapeError("GoodState", found->second.str(), now[i].str(), kRemedy);
    }
    copies.push_back(found->second.to(now[i].device()).clone());
  }
  copies_ = std::move(copies);
  kept_ = true;
}

}  // namespace ashlar::nn
