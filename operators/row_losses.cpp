#include "operators/row_losses.h"

#include <array>

#include "ashlar/ops/cross_entropy.h"
#include "ashlar/ops/row_losses.h"
#include "runtime/forms/rows.h"

namespace ashlar {

std::vector<Tensor> run_rows(const KernelInfo& kernel, const std::vector<Tensor>& inputs, int axis,
                             const std::vector<Scalar>& scalars) {
  return forms::Rows::call(
      kernel, {.inputs = inputs, .scalars = scalars, .options = std::array<OptionValue, 1>{int64_t{axis}}});
}

CountedRows<Tensor> cross_entropy_rows(const Tensor& logits, const Tensor& labels, const ClassOptions& options) {
  const std::vector<Tensor> results = run_rows(kernels::cross_entropy_of_weighted, {logits, labels, options.weight},
                                               options.axis, {options.ignore_index, options.label_smoothing});
  return {results[0], results[1]};
}

Tensor cross_entropy_of_shares(const Tensor& logits, const Tensor& target, const ClassOptions& options) {
  return run_rows(kernels::cross_entropy_of_probabilities, {logits, target, options.weight}, options.axis,
                  {options.label_smoothing})[0];
}

CountedRows<Tensor> nll_rows(const Tensor& x, const Tensor& labels, const ClassOptions& options) {
  const std::vector<Tensor> results =
      run_rows(kernels::nll_of_labels, {x, labels, options.weight}, options.axis, {options.ignore_index});
  return {results[0], results[1]};
}

Tensor cosine_embedding_rows(const Tensor& a, const Tensor& b, const Tensor& signs, double margin) {
  return run_rows(kernels::cosine_embedding, {a, b, signs}, -1, {margin, kLeastNorm})[0];
}

Tensor triplet_margin_rows(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
                           double eps, bool swap) {
  return run_rows(kernels::triplet_margin, {anchor, positive, negative}, -1, {margin, eps, int64_t{swap}})[0];
}

}  // namespace ashlar
