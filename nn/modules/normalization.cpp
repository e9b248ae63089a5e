#include "nn/modules/normalization.h"

#include <string>

#include "ashlar/ad.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

void check_sizes(const char* name, const Shape& shape) {
  bool positive = shape.rank() > 0;
  for (int i = 0; i < shape.rank(); i++) positive = positive && shape[i] > 0;
  if (positive) return;
  throw ValueError(name, "the normalised shape " + shape.str(), "one or more positive sizes",
                   "Pass the last dimensions of x");
}

/// x as rows of the normalised elements.
Var rows_of(const char* name, const Var& x, const Shape& shape) {
  bool fits = x.rank() >= shape.rank();
  for (int i = 1; fits && i <= shape.rank(); i++) fits = x.size(-i) == shape[shape.rank() - i];
  if (!fits) {
    throw ShapeError(name, x.value().str(), "a tensor whose last sizes are " + shape.str(),
                     "Give the module the last dimensions of x");
  }
  return shape.rank() == 1 ? x : x.reshape({x.numel() / shape.numel(), shape.numel()});
}

Var flat(const Var& parameter) {
  return parameter.defined() && parameter.rank() != 1 ? parameter.reshape({parameter.numel()}) : parameter;
}

/// 2^-(digits - 1) of the dtype.
double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f64:
      return 0x1p-52;
    default:
      return 0x1p-23;
  }
}

}  // namespace

LayerNorm::LayerNorm(const Shape& normalized_shape, const LayerNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  check_sizes("LayerNorm", shape_);
  if (options.elementwise_affine) begin_as_identity(shape_, options.bias, placement_of(options));
}

Var LayerNorm::forward(const Var& x) const {
  const Var y = ad::layer_norm(rows_of("LayerNorm", x, shape_), flat(weight_), flat(bias_), eps_).y;
  return shape_.rank() == 1 ? y : y.reshape(x.shape());
}

ResultOfSum LayerNorm::of_sum(const Var& x, const Var& residual) const {
  const auto [y, h, mean, rstd] = ad::add_layer_norm(
      rows_of("LayerNorm", x, shape_), rows_of("LayerNorm", residual, shape_), flat(weight_), flat(bias_), eps_);
  return shape_.rank() == 1 ? ResultOfSum{y, h} : ResultOfSum{y.reshape(x.shape()), h.reshape(x.shape())};
}

std::string LayerNorm::details() const { return shape_.str(); }

RMSNorm::RMSNorm(const Shape& normalized_shape, const RmsNormOptions& options)
    : shape_(normalized_shape), eps_(options.eps) {
  check_sizes("RMSNorm", shape_);
  if (options.elementwise_affine) begin_as_identity(shape_, false, placement_of(options));
}

Var RMSNorm::forward(const Var& x) const {
  const double eps = eps_.value_or(epsilon_of(x.dtype()));
  const Var y = ad::rms_norm(rows_of("RMSNorm", x, shape_), flat(weight_), eps).y;
  return shape_.rank() == 1 ? y : y.reshape(x.shape());
}

ResultOfSum RMSNorm::of_sum(const Var& x, const Var& residual) const {
  const double eps = eps_.value_or(epsilon_of(x.dtype()));
  const auto [y, h, rstd] =
      ad::add_rms_norm(rows_of("RMSNorm", x, shape_), rows_of("RMSNorm", residual, shape_), flat(weight_), eps);
  return shape_.rank() == 1 ? ResultOfSum{y, h} : ResultOfSum{y.reshape(x.shape()), h.reshape(x.shape())};
}

std::string RMSNorm::details() const { return shape_.str(); }

}  // namespace ashlar::nn
