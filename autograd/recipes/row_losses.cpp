#include "autograd/recipes/row_losses.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/composition.h"
#include "autograd/node.h"

namespace ashlar::recipes {
namespace {

const Needs kOfTarget(0b10);  // the second input

/// A loss of kernels each way: `gradients(tensors, dy, needs)`, one for each input. Second derivatives are those of
/// `composed`.
template <class Gradients>
Var recorded(const char* operation, const std::vector<Var>& inputs, const Tensor& loss, Gradients gradients,
             Composition composed) {
  std::vector<SavedTensor> saved;
  for (size_t i = 0; i < inputs.size(); i++) saved.push_back(save_input(static_cast<int>(i), inputs[i]));
  const auto back = [saved = std::move(saved), gradients, composed = std::move(composed)](const auto& pass) {
    std::vector<std::decay_t<decltype(pass.get(saved[0]))>> x;
    for (const SavedTensor& one : saved) x.push_back(pass.get(one));
    if constexpr (std::is_same_v<std::decay_t<decltype(x[0])>, Tensor>) {
      return gradients(x, pass.dy(), pass.needs());
    } else {
      return gradients_of_composition(composed, x, {pass.dy()}, pass.needs());
    }
  };
  return record(operation, std::span(inputs), loss, back);
}

/// The classes' weights, to be multiplied with logits.
Tensor along_classes(const ClassOptions& options, int rank) {
  Shape shape = Shape::filled(rank, 1);
  shape[options.axis] = options.weight.numel();
  return options.weight.reshape(shape);
}

/// Labels of which some are ignored.
struct Labelled {
  Tensor labels, ignored, weight;  ///< valid labels; where they weren't counted; of each row, 0 where ignored

  Labelled(const Tensor& given, const ClassOptions& options) {
    const Shape& rows = given.shape();
    ignored = ashlar::eq(given, options.ignore_index);
    labels = ashlar::masked_fill(given, ignored, 0);
    weight = options.weight.defined()
                 ? ashlar::index_select(options.weight, labels.reshape({labels.numel()}), 0).reshape(rows)
                 : Tensor::ones(rows, DType::f32, given.device());
    weight = ashlar::masked_fill(weight, ignored, 0);
  }

  /// 0 where ignored, whatever stands there.
  Var kept(const Var& each) const { return ad::masked_fill(each, ignored, 0); }
};

/// The rows' losses by their labels, of operators that can be differentiated again.
Var composed_of_labels(const Var& logits, const Tensor& target, const ClassOptions& options) {
  const Labelled rows(target, options);
  Var each = rows.kept(ad::cross_entropy(logits, rows.labels, options.axis));
  if (options.weight.defined()) each = ad::mul(each, Var(rows.weight));
  if (options.label_smoothing > 0) {
    // The same share of every class: -Σ weight[c] log softmax(x)[c] / classes.
    Var all = ad::log_softmax(logits.to(DType::f32), options.axis);
    if (options.weight.defined()) all = ad::mul(all, Var(along_classes(options, logits.rank())));
    const double share = options.label_smoothing / static_cast<double>(logits.size(options.axis));
    each = ad::affine(each, 1 - options.label_smoothing, 0) -
           rows.kept(ad::affine(ad::sum(all, {options.axis}), share, 0));
  }
  return each;
}

/// -Σ weight[c] target[c] log softmax(x)[c], the target smoothed, of operators that can be differentiated again.
Var composed_of_shares(const Var& logits, const Var& target, const ClassOptions& options) {
  const auto classes = static_cast<double>(logits.size(options.axis));
  const double smoothing = options.label_smoothing;
  Var shares = smoothing > 0 ? ad::affine(target, 1 - smoothing, smoothing / classes) : target;
  if (options.weight.defined()) shares = ad::mul(shares, Var(along_classes(options, logits.rank())));
  return ad::neg(ad::sum(ad::mul(shares, ad::log_softmax(logits, options.axis)), {options.axis}));
}

/// |a - b + eps| along the last axis
Var distance(const Var& a, const Var& b, double eps) {
  const Var apart = a - b + eps;
  return ad::sqrt(ad::sum(ad::mul(apart, apart), {-1}));
}

/// `one` where the sign is 1, `other` where it is -1, else 0, as PyTorch has it.
Var by_sign(const Tensor& signs, const Var& one, const Var& other) {
  return ad::where(ashlar::eq(signs, 1), one, Number(0.0)) + ad::where(ashlar::eq(signs, -1), other, Number(0.0));
}

}  // namespace

CountedRows<Var> cross_entropy_rows(const Var& logits, const Tensor& labels, const ClassOptions& options) {
  const std::vector<Scalar> scalars{options.ignore_index, options.label_smoothing};
  const Composition composed = [=](const std::vector<Var>& in) {
    return std::vector<Var>{composed_of_labels(in[0], labels, options)};
  };
  const std::vector<Tensor> results =
      run_rows(kernels::cross_entropy_of_weighted, {logits.value(), labels, options.weight}, options.axis, scalars);
  const auto gradients = [=, sums = results[2], all = results[3]](const std::vector<Tensor>& x, const Tensor& dy,
                                                                  Needs) {
    const std::vector<Tensor> inputs{x[0], labels, dy, sums, all, options.weight};
    return run_rows(kernels::cross_entropy_of_weighted_grad, inputs, options.axis, scalars);
  };
  return {recorded("cross_entropy", {logits}, results[0], gradients, composed), results[1]};
}

// The target's gradient, which few ask for, is composed.
Var cross_entropy_of_shares(const Var& logits, const Var& target, const ClassOptions& options) {
  const std::vector<Scalar> scalars{options.label_smoothing};
  const Composition composed = [=](const std::vector<Var>& in) {
    return std::vector<Var>{composed_of_shares(in[0], in[1], options)};
  };
  const std::vector<Tensor> results = run_rows(kernels::cross_entropy_of_probabilities,
                                               {logits.value(), target.value(), options.weight}, options.axis, scalars);
  const auto gradients = [=, logsumexp = results[1], shares = results[2]](const std::vector<Tensor>& x,
                                                                          const Tensor& dy, Needs needs) {
    std::vector<Tensor> list(2);
    if (needs(0)) {
      const std::vector<Tensor> inputs{x[0], x[1], dy, logsumexp, shares, options.weight};
      list[0] = run_rows(kernels::cross_entropy_of_probabilities_grad, inputs, options.axis, scalars)[0];
    }
    if (needs(1)) list[1] = first_gradients_of_composition(composed, x, {dy}, kOfTarget)[1];
    return list;
  };
  return recorded("cross_entropy", {logits, target}, results[0], gradients, composed);
}

CountedRows<Var> nll_rows(const Var& x, const Tensor& labels, const ClassOptions& options) {
  const std::vector<Scalar> scalars{options.ignore_index};
  const Composition composed = [=](const std::vector<Var>& in) {
    const Labelled rows(labels, options);
    const Var chosen = ad::gather(in[0], rows.labels.unsqueeze(options.axis), options.axis).squeeze(options.axis);
    return std::vector<Var>{ad::mul(ad::neg(rows.kept(chosen)), Var(rows.weight))};
  };
  const std::vector<Tensor> results =
      run_rows(kernels::nll_of_labels, {x.value(), labels, options.weight}, options.axis, scalars);
  const auto gradients = [=](const std::vector<Tensor>& in, const Tensor& dy, Needs) {
    return run_rows(kernels::nll_of_labels_grad, {in[0], labels, dy, options.weight}, options.axis, scalars);
  };
  return {recorded("nll_loss", {x}, results[0], gradients, composed), results[1]};
}

Var cosine_embedding_rows(const Var& a, const Var& b, const Tensor& signs, double margin) {
  const std::vector<Scalar> scalars{margin, kLeastNorm};
  const Composition composed = [=](const std::vector<Var>& in) {
    const Var cosine = ad::cosine_similarity(in[0], in[1], -1, kLeastNorm);
    return std::vector<Var>{by_sign(signs, 1 - cosine, ad::relu(cosine - margin))};
  };
  const std::vector<Tensor> results = run_rows(kernels::cosine_embedding, {a.value(), b.value(), signs}, -1, scalars);
  const auto gradients = [=](const std::vector<Tensor>& x, const Tensor& dy, Needs) {
    return run_rows(kernels::cosine_embedding_grad, {x[0], x[1], signs, dy, results[1], results[2], results[3]}, -1,
                    scalars);
  };
  return recorded("cosine_embedding_loss", {a, b}, results[0], gradients, composed);
}

Var triplet_margin_rows(const Var& anchor, const Var& positive, const Var& negative, double margin, double eps,
                        bool swap) {
  const std::vector<Scalar> scalars{margin, eps, int64_t{swap}};
  const Composition composed = [=](const std::vector<Var>& in) {
    Var far = distance(in[0], in[2], eps);
    if (swap) far = ad::minimum(far, distance(in[1], in[2], eps));
    return std::vector<Var>{ad::relu(distance(in[0], in[1], eps) - far + margin)};
  };
  const std::vector<Tensor> results =
      run_rows(kernels::triplet_margin, {anchor.value(), positive.value(), negative.value()}, -1, scalars);
  const auto gradients = [=](const std::vector<Tensor>& x, const Tensor& dy, Needs) {
    return run_rows(kernels::triplet_margin_grad, {x[0], x[1], x[2], dy, results[1], results[2], results[3]}, -1,
                    scalars);
  };
  return recorded("triplet_margin_loss", {anchor, positive, negative}, results[0], gradients, composed);
}

}  // namespace ashlar::recipes
