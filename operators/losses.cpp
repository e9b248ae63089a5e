// Losses of two tensors, element by element (generators/losses.cpp): in f32, of any strides, broadcast as PyTorch does.
#include "ashlar/ops/losses.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "ashlar/ops/binary.h"
#include "ashlar/ops/reduction.h"
#include "operators/losses.h"
#include "runtime/forms/broadcast.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

constexpr KernelKey kKey{.elements = {DType::f32}};

/// Elements that one result of the sum's first pass takes in: as many results as make a device busy.
int64_t chunk_of(int64_t count, DeviceKind kind) {
  const bool is_cpu = kind == DeviceKind::cpu;
  const int64_t parts = std::min<int64_t>(is_cpu ? 16 : 4096, count / (is_cpu ? 65536 : 4096));
  if (parts <= 1) return count;
  return detail::round_up(detail::over(count, parts), 1024);
}

std::vector<Scalar> with(std::initializer_list<Scalar> first, std::span<const double> options,
                         std::initializer_list<Scalar> last = {}) {
  std::vector<Scalar> all(first);
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

/// scale Σ of the terms
Tensor summed(const LossKernels& loss, const Tensor& x, const Tensor& target, std::span<const double> options,
              double scale) {
  const int64_t count = x.numel(), chunk = chunk_of(count, x.device().kind);
  const Tensor y = Tensor::empty({1, detail::over(count, chunk), 1}, DType::f32, x.device());
  const std::vector<Scalar> scalars = with({chunk}, options, {scale});
  launch(loss.sum, kKey, std::array{x.reshape({1, count, 1}), target}, scalars, std::span(&y, 1));
  return y.numel() == 1 ? y.reshape({}) : y.sum();
}

/// Without the weights that some losses have. Throws DTypeError, DeviceError.
void check_operands(const LossKernels& loss, const Tensor& input, const Tensor& other) {
  const int weights = loss.operation.count(Argument::Role::input) - 2;
  forms::key_of(loss.operation, std::array{input, other}, 0, weights);
}

/// Both as rows of f32 in the shape where they meet.
struct Operands {
  Shape shape;
  Tensor x, target;

  Operands(const LossKernels& loss, const Tensor& input, const Tensor& other) {
    check_operands(loss, input, other);
    shape = broadcast(loss.operation.name, input.shape(), other.shape());
    const auto row = [&](const Tensor& t) {
      return t.to(DType::f32).broadcast_to(shape).contiguous().reshape({shape.numel()});
    };
    x = row(input);
    target = row(other);
  }
};

}  // namespace

double loss_scale(int reduction, const Shape& input, int64_t count) {
  const int64_t parts = reduction == 1 ? count : reduction == 3 ? input[0] : 1;
  return parts > 0 ? 1 / static_cast<double>(parts) : 1.0;
}

Tensor loss_of(const LossKernels& loss, const Tensor& input, const Tensor& other, std::span<const double> options,
               int reduction) try {
  const Operands both(loss, input, other);
  const int64_t count = both.shape.numel();
  if (reduction == 0) {
    const Tensor y = Tensor::empty(both.shape, DType::f32, input.device()), row = y.reshape({count});
    launch(loss.terms, kKey, std::array{both.x, both.target}, with({}, options), std::span(&row, 1));
    return y.to(input.dtype());
  }
  if (count == 0) {
    const bool is_of_none = reduction == 1 || (reduction == 3 && input.size(0) == 0);
    const double none = is_of_none ? std::numeric_limits<double>::quiet_NaN() : 0.0;
    return Tensor::full({}, none, input.dtype(), input.device());
  }
  const double scale = loss_scale(reduction, input.shape(), count);
  return summed(loss, both.x, both.target, options, scale).to(input.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(loss.operation.name);
}

Tensor loss_slope(const LossKernels& loss, const Tensor& dy, const Tensor& input, const Tensor& other,
                  std::span<const double> options, int reduction) try {
  const Operands both(loss, input, other);
  const int64_t count = both.shape.numel();
  const Tensor dx = Tensor::empty(both.shape, DType::f32, input.device()), row = dx.reshape({count});
  const bool of_each = reduction == 0;
  const Tensor upstream = dy.to(DType::f32).contiguous().reshape({of_each ? count : 1});
  const double scale = loss_scale(reduction, input.shape(), count);
  const KernelKey key{.elements = kKey.elements, .variant = of_each};
  launch(loss.slope, key, std::array{upstream, both.x, both.target}, with({}, options, {scale}), std::span(&row, 1));
  return dx;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(loss.operation.name);
}

Tensor weight_or_one(const Tensor& weight, const Tensor& beside) {
  return weight.defined() ? weight.to(DType::f32) : Tensor::ones({}, DType::f32, beside.device());
}

const LossKernels kMse{kernels::mse_loss, kernels::mse_terms, kernels::mse_sum, kernels::mse_slope};
const LossKernels kL1{kernels::l1_loss, kernels::l1_terms, kernels::l1_sum, kernels::l1_slope};
const LossKernels kSmoothL1{kernels::smooth_l1_loss, kernels::smooth_l1_terms, kernels::smooth_l1_sum,
                            kernels::smooth_l1_slope};
const LossKernels kHuber{kernels::huber_loss, kernels::huber_terms, kernels::huber_sum, kernels::huber_slope};
const LossKernels kBce{kernels::binary_cross_entropy, kernels::bce_terms, kernels::bce_sum, kernels::bce_slope};
const LossKernels kBceWithLogits{kernels::binary_cross_entropy_with_logits, kernels::bce_with_logits_terms,
                                 kernels::bce_with_logits_sum, kernels::bce_with_logits_slope};
const LossKernels kKlDiv{kernels::kl_div, kernels::kl_div_of_target_terms, kernels::kl_div_of_target_sum,
                         kernels::kl_div_of_target_slope};
const LossKernels kKlDivOfLogs{kernels::kl_div_of_log_target, kernels::kl_div_of_logs_terms,
                               kernels::kl_div_of_logs_sum, kernels::kl_div_of_logs_slope};
const LossKernels kHingeEmbedding{kernels::hinge_embedding_loss, kernels::hinge_terms, kernels::hinge_sum,
                                  kernels::hinge_slope};

namespace {

void require_positive(const char* operation, const char* name, double value, bool or_zero) {
  if (value > 0 || (or_zero && value == 0)) return;
  throw ValueError(operation, std::string(name) + " = " + std::to_string(value),
                   or_zero ? "0 or more" : "a positive number", "1 is usual");
}

Tensor reduced(const Tensor& each, int reduction, DType dtype) {
  return (reduction == 0 ? each : reduction == 1 ? mean(each) : sum(each)).to(dtype);
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, MseLossReduction reduction) {
  return loss_of(kMse, input, target, {}, static_cast<int>(reduction));
}

Tensor l1_loss(const Tensor& input, const Tensor& target, L1LossReduction reduction) {
  return loss_of(kL1, input, target, {}, static_cast<int>(reduction));
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, double beta, SmoothL1LossReduction reduction) {
  require_positive("smooth_l1_loss", "beta", beta, true);
  return loss_of(kSmoothL1, input, target, std::array{beta}, static_cast<int>(reduction));
}

Tensor huber_loss(const Tensor& input, const Tensor& target, double delta, HuberLossReduction reduction) {
  require_positive("huber_loss", "delta", delta, false);
  return loss_of(kHuber, input, target, std::array{delta}, static_cast<int>(reduction));
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, BinaryCrossEntropyReduction reduction,
                            const Tensor& weight) {
  if (!weight.defined()) return loss_of(kBce, input, target, {}, static_cast<int>(reduction));
  check_operands(kBce, input, target);
  const Tensor each = loss_of(kBce, input.to(DType::f32), target.to(DType::f32), {}, 0);
  return reduced(mul(each, weight.to(DType::f32)), static_cast<int>(reduction), input.dtype());
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        BinaryCrossEntropyWithLogitsReduction reduction, const Tensor& weight,
                                        const Tensor& pos_weight) {
  if (!weight.defined() && !pos_weight.defined()) {
    return loss_of(kBceWithLogits, input, target, {}, static_cast<int>(reduction));
  }
  check_operands(kBceWithLogits, input, target);
  const std::array operands{input.to(DType::f32), target.to(DType::f32), weight_or_one(weight, input),
                            weight_or_one(pos_weight, input)};
  const Tensor each = forms::Broadcast::call(kernels::bce_with_logits_weighted, {.inputs = operands})[0];
  return reduced(each, static_cast<int>(reduction), input.dtype());
}

Tensor kl_div(const Tensor& input, const Tensor& target, KlDivReduction reduction, bool log_target) {
  if (reduction == KlDivReduction::batchmean) static_cast<void>(input.size(0));  // throws where there is none
  return loss_of(log_target ? kKlDivOfLogs : kKlDiv, input, target, {}, static_cast<int>(reduction));
}

Tensor kl_div_of_log_target(const Tensor& input, const Tensor& target, KlDivOfLogTargetReduction reduction) {
  return loss_of(kKlDivOfLogs, input, target, {}, static_cast<int>(reduction));
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin,
                            HingeEmbeddingLossReduction reduction) {
  return loss_of(kHingeEmbedding, input, target, std::array{margin}, static_cast<int>(reduction));
}

}  // namespace ashlar
