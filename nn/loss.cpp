#include "nn/loss.h"

#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/arithmetic.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/composition.h"
#include "autograd/node.h"
#include "runtime/forms/broadcast.h"
#include "runtime/forms/rows.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

const Needs kOfTarget(0b10);  // the second input

Var reduced(const Var& each, Reduction reduction) {
  return reduction == Reduction::none ? each : reduction == Reduction::mean ? ad::mean(each) : ad::sum(each);
}

/// `loss` of no reduction, each element weighted where there are weights.
template <class Loss>
Var weighted(const Loss& loss, const Tensor& weight, Reduction reduction) {
  if (!weight.defined()) return loss(reduction);
  return reduced(ad::mul(loss(Reduction::none), Var(weight)), reduction);
}

/// Where the classes of logits are.
int class_axis(const char* operation, const Var& logits) {
  if (logits.rank() == 0) {
    throw ShapeError(operation, logits.value().str(), "an axis of classes", "Give logits of shape [rows, classes]");
  }
  return logits.rank() == 1 ? 0 : 1;
}

void check_options(const char* operation, const Var& logits, int axis, const CrossEntropyOptions& options) {
  const int64_t classes = logits.size(axis);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw ValueError(operation, "label_smoothing = " + std::to_string(options.label_smoothing), "a number from 0 to 1",
                     "It is the part of a label that goes to all classes");
  }
  if (options.weight.defined() && options.weight.shape() != Shape{classes}) {
    throw ShapeError(operation, "weight: " + options.weight.str() + " for logits: " + logits.value().str(),
                     "a weight for each of the " + std::to_string(classes) + " classes", "Give f32 [classes]");
  }
}

/// The classes' weights, to be multiplied with logits.
Tensor along_classes(const Tensor& weight, int rank, int axis) {
  Shape shape = Shape::filled(rank, 1);
  shape[axis] = weight.numel();
  return weight.to(DType::f32).reshape(shape);
}

void check_labels(const char* operation, const Var& logits, int axis, const Tensor& labels) {
  Shape rows = logits.shape();
  rows.erase(axis);
  if (labels.dtype() == DType::i64 && labels.shape() == rows) return;
  throw ShapeError(operation, "logits: " + logits.value().str() + ", labels: " + labels.str(),
                   "labels of i64" + rows.str(), "Give one label for each row, or probabilities of all classes");
}

/// Losses of rows by their labels, of which some are ignored.
struct Labelled {
  Tensor labels, ignored, weight;  ///< valid labels; where they weren't counted; of each row, 0 where ignored

  Labelled(const char* operation, const Var& logits, int axis, const Tensor& given,
           const CrossEntropyOptions& options) {
    check_labels(operation, logits, axis, given);
    const Shape& rows = given.shape();
    ignored = eq(given, options.ignore_index);
    labels = masked_fill(given, ignored, 0);
    weight = options.weight.defined()
                 ? index_select(options.weight.to(DType::f32), labels.reshape({labels.numel()}), 0).reshape(rows)
                 : Tensor::ones(rows, DType::f32, given.device());
    weight = masked_fill(weight, ignored, 0);
  }

  Var reduce(const Var& each, Reduction reduction) const {
    if (reduction != Reduction::mean) return reduced(each, reduction);
    return ad::div(ad::sum(each), Var(weight.sum()));
  }
  /// 0 where ignored, whatever stands there.
  Var kept(const Var& each) const { return ad::masked_fill(each, ignored, 0); }
};

std::vector<Tensor> run_rows(const KernelInfo& kernel, const std::vector<Tensor>& inputs, int axis,
                             const std::vector<Scalar>& scalars) {
  return forms::Rows::call(
      kernel, {.inputs = inputs, .scalars = scalars, .options = std::array<OptionValue, 1>{int64_t{axis}}});
}

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

/// The rows' losses by their labels, of operators that can be differentiated again.
Var composed_of_labels(const Var& logits, const Tensor& target, int axis, const CrossEntropyOptions& options) {
  const Labelled rows("cross_entropy", logits, axis, target, options);
  Var each = rows.kept(ad::cross_entropy(logits, rows.labels, axis));
  if (options.weight.defined()) each = ad::mul(each, Var(rows.weight));
  if (options.label_smoothing > 0) {
    // The same share of every class: -Σ weight[c] log softmax(x)[c] / classes.
    Var all = ad::log_softmax(logits.to(DType::f32), axis);
    if (options.weight.defined()) all = ad::mul(all, Var(along_classes(options.weight, logits.rank(), axis)));
    const double share = options.label_smoothing / static_cast<double>(logits.size(axis));
    each = ad::affine(each, 1 - options.label_smoothing, 0) - rows.kept(ad::affine(ad::sum(all, {axis}), share, 0));
  }
  return each;
}

/// The same by a kernel each way, and what each row counts in a mean.
std::pair<Var, Tensor> of_labels(const Var& logits, const Var& target, int axis, const CrossEntropyOptions& options) {
  check_labels("cross_entropy", logits, axis, target.value());
  const Tensor weight = options.weight.defined() ? options.weight.to(DType::f32) : Tensor();
  const std::vector<Scalar> scalars{options.ignore_index, options.label_smoothing};
  const Composition composed = [=](const std::vector<Var>& in) {
    return std::vector<Var>{composed_of_labels(in[0], in[1].value(), axis, options)};
  };
  const std::vector<Tensor> results =
      run_rows(kernels::cross_entropy_of_weighted, {logits.value(), target.value(), weight}, axis, scalars);
  const auto gradients = [=, sums = results[2], all = results[3]](const std::vector<Tensor>& x, const Tensor& dy,
                                                                  Needs) {
    const std::vector<Tensor> inputs{x[0], x[1], dy, sums, all, weight};
    return std::vector<Tensor>{run_rows(kernels::cross_entropy_of_weighted_grad, inputs, axis, scalars)[0], Tensor()};
  };
  const Var each = recorded("cross_entropy", {logits, target}, results[0], gradients, composed);
  return {each, results[1]};
}

/// -Σ weight[c] target[c] log softmax(x)[c], the target smoothed, of operators that can be differentiated again.
Var composed_of_probabilities(const Var& logits, const Var& target, int axis, const CrossEntropyOptions& options) {
  const auto classes = static_cast<double>(logits.size(axis));
  const double smoothing = options.label_smoothing;
  Var shares = smoothing > 0 ? ad::affine(target, 1 - smoothing, smoothing / classes) : target;
  if (options.weight.defined()) {
    shares = ad::mul(shares, Var(along_classes(options.weight, logits.rank(), axis)));
  }
  return ad::neg(ad::sum(ad::mul(shares, ad::log_softmax(logits, axis)), {axis}));
}

/// The same by a kernel each way; the target's gradient, which few ask for, is composed.
Var of_probabilities(const Var& logits, const Var& target, int axis, const CrossEntropyOptions& options) {
  if (target.shape() != logits.shape()) {
    throw ShapeError("cross_entropy", "logits: " + logits.value().str() + ", target: " + target.value().str(),
                     "probabilities of the logits' shape, or labels of i64", "Give a probability for each class");
  }
  const Tensor weight = options.weight.defined() ? options.weight.to(DType::f32) : Tensor();
  const std::vector<Scalar> scalars{options.label_smoothing};
  const Composition composed = [axis, options](const std::vector<Var>& in) {
    return std::vector<Var>{composed_of_probabilities(in[0], in[1], axis, options)};
  };
  const std::vector<Var> inputs{logits.to(DType::f32), target.to(DType::f32)};
  const std::vector<Tensor> results =
      run_rows(kernels::cross_entropy_of_probabilities, {inputs[0].value(), inputs[1].value(), weight}, axis, scalars);
  const auto gradients = [=, logsumexp = results[1], shares = results[2]](const std::vector<Tensor>& x,
                                                                          const Tensor& dy, Needs needs) {
    std::vector<Tensor> list(2);
    if (needs(0)) {
      list[0] = run_rows(kernels::cross_entropy_of_probabilities_grad, {x[0], x[1], dy, logsumexp, shares, weight},
                         axis, scalars)[0];
    }
    if (needs(1)) list[1] = first_gradients_of_composition(composed, x, {dy}, kOfTarget)[1];
    return list;
  };
  const Var each = recorded("cross_entropy", inputs, results[0], gradients, composed);
  if (options.reduction != Reduction::mean) return reduced(each, options.reduction);
  return ad::affine(ad::sum(each), 1 / static_cast<double>(each.numel()), 0);
}

/// |x + eps| along the last axis
Var distance(const Var& a, const Var& b, double eps) {
  const Var apart = a - b + eps;
  return ad::sqrt(ad::sum(ad::mul(apart, apart), {-1}));
}

/// The rows of pairs or triples: `shape` without its last axis.
Shape rows_of(const char* operation, const Shape& shape) {
  if (shape.rank() == 0) throw ShapeError(operation, "numbers", "rows of one or more numbers", "Use unsqueeze(0)");
  Shape rows = shape;
  rows.erase(shape.rank() - 1);
  return rows;
}

/// weight ((1 - t) x + (1 + (pos_weight - 1) t) ln(1 + e^-x)) of f32, broadcasting, by a kernel each way; the target's
/// gradient, which few ask for, is composed.
Var weighted_bce(const Var& input, const Var& target, const BinaryCrossEntropyOptions& options) {
  const auto given = [&](const Tensor& weight) {
    return weight.defined() ? weight.to(DType::f32) : Tensor::ones({}, DType::f32, input.device());
  };
  const Tensor weight = given(options.weight), positive = given(options.pos_weight);
  const Composition composed = [=](const std::vector<Var>& in) {
    const Var more = ad::mul(in[1], Var(positive - 1)) + 1;
    const Var each = ad::mul(1 - in[1], in[0]) - ad::mul(more, ad::logsigmoid(in[0]));
    return std::vector<Var>{ad::mul(each, Var(weight))};
  };
  constexpr const char* kName = "binary_cross_entropy_with_logits";
  Shape all = broadcast(kName, input.shape(), target.shape());
  for (const Tensor& factor : {weight, positive}) all = broadcast(kName, all, factor.shape());
  const std::vector<Var> inputs{input.broadcast_to(all), target.broadcast_to(all)};
  const std::array operands{inputs[0].value(), inputs[1].value(), weight, positive};
  const Tensor each = forms::Broadcast::call(kernels::bce_with_logits_weighted, {.inputs = operands})[0];
  const auto gradients = [=](const std::vector<Tensor>& x, const Tensor& dy, Needs needs) {
    std::vector<Tensor> list(2);
    if (needs(0)) {
      const std::array factors{dy, x[0], x[1], weight, positive};
      list[0] = forms::Broadcast::call(kernels::bce_with_logits_weighted_slope, {.inputs = factors})[0];
    }
    if (needs(1)) list[1] = first_gradients_of_composition(composed, x, {dy}, kOfTarget)[1];
    return list;
  };
  return recorded(kName, inputs, each, gradients, composed);
}

/// `one` where the target is 1, `other` where it is -1, else 0, as PyTorch has it.
Var by_sign(const Tensor& target, const Var& one, const Var& other) {
  return ad::where(eq(target, 1), one, Number(0.0)) + ad::where(eq(target, -1), other, Number(0.0));
}

}  // namespace

Var binary_cross_entropy(const Var& input, const Var& target, const BinaryCrossEntropyOptions& options) {
  if (options.pos_weight.defined()) {
    throw ValueError("binary_cross_entropy", "a pos_weight", "none", "Call binary_cross_entropy_with_logits()");
  }
  const auto loss = [&](Reduction reduction) {
    return ad::binary_cross_entropy(input, target, static_cast<BinaryCrossEntropyReduction>(reduction));
  };
  return weighted(loss, options.weight, options.reduction);
}

Var binary_cross_entropy_with_logits(const Var& input, const Var& target, const BinaryCrossEntropyOptions& options) {
  if (!options.weight.defined() && !options.pos_weight.defined()) {
    return ad::binary_cross_entropy_with_logits(input, target,
                                                static_cast<BinaryCrossEntropyWithLogitsReduction>(options.reduction));
  }
  return reduced(weighted_bce(input.to(DType::f32), target.to(DType::f32), options), options.reduction)
      .to(input.dtype());
}

Var kl_div(const Var& input, const Var& target, const KlDivOptions& options) {
  const auto reduction = static_cast<int>(options.batchmean ? Reduction::sum : options.reduction);
  const Var loss = options.log_target
                       ? ad::kl_div_of_log_target(input, target, static_cast<KlDivOfLogTargetReduction>(reduction))
                       : ad::kl_div(input, target, static_cast<KlDivReduction>(reduction));
  return options.batchmean ? loss / static_cast<double>(input.size(0)) : loss;
}

Var cross_entropy(const Var& logits, const Var& target, const CrossEntropyOptions& options) {
  const int axis = class_axis("cross_entropy", logits);
  check_options("cross_entropy", logits, axis, options);
  if (is_floating(target.dtype())) return of_probabilities(logits, target, axis, options);
  const auto [each, counted] = of_labels(logits, target, axis, options);
  if (options.reduction != Reduction::mean) return reduced(each, options.reduction);
  return ad::div(ad::sum(each), Var(counted.sum()));
}

Var nll_loss(const Var& input, const Tensor& labels, const CrossEntropyOptions& options) {
  const int axis = class_axis("nll_loss", input);
  check_options("nll_loss", input, axis, options);
  if (options.label_smoothing != 0) {
    throw ValueError("nll_loss", "label_smoothing = " + std::to_string(options.label_smoothing), "none",
                     "Call cross_entropy() with logits");
  }
  check_labels("nll_loss", input, axis, labels);
  const Tensor weight = options.weight.defined() ? options.weight.to(DType::f32) : Tensor();
  const std::vector<Scalar> scalars{options.ignore_index};
  const Composition composed = [=](const std::vector<Var>& in) {
    const Labelled rows("nll_loss", in[0], axis, labels, options);
    const Var chosen = ad::gather(in[0], rows.labels.unsqueeze(axis), axis).squeeze(axis);
    return std::vector<Var>{ad::mul(ad::neg(rows.kept(chosen)), Var(rows.weight))};
  };
  const Var x = input.to(DType::f32);
  const std::vector<Tensor> results = run_rows(kernels::nll_of_labels, {x.value(), labels, weight}, axis, scalars);
  const auto gradients = [=](const std::vector<Tensor>& in, const Tensor& dy, Needs) {
    return run_rows(kernels::nll_of_labels_grad, {in[0], labels, dy, weight}, axis, scalars);
  };
  const Var each = recorded("nll_loss", {x}, results[0], gradients, composed);
  if (options.reduction != Reduction::mean) return reduced(each, options.reduction);
  return ad::div(ad::sum(each), Var(results[1].sum()));
}

Var cosine_similarity(const Var& a, const Var& b, int64_t axis, double eps) {
  // The axis is one of both as they are broadcast.
  const Shape both = broadcast("cosine_similarity", a.shape(), b.shape());
  const Var x = a.broadcast_to(both), y = b.broadcast_to(both);
  // norm(), unlike a square root of squares, has a gradient at zeros: 0.
  const auto length = [&](const Var& v) { return ad::maximum(ad::norm(v, 2, {axis}), eps); };
  return ad::sum(ad::mul(x, y), {axis}) / ad::mul(length(x), length(y));
}

Var cosine_embedding_loss(const Var& a, const Var& b, const Tensor& target, double margin, Reduction reduction) {
  constexpr double kEps = 1e-8;  // cosine_similarity()'s
  const Shape both = broadcast("cosine_embedding_loss", a.shape(), b.shape());
  const Tensor signs = target.to(DType::f32).broadcast_to(rows_of("cosine_embedding_loss", both));
  const std::vector<Scalar> scalars{margin, kEps};
  const Composition composed = [=](const std::vector<Var>& in) {
    const Var cosine = cosine_similarity(in[0], in[1], -1, kEps);
    return std::vector<Var>{by_sign(signs, 1 - cosine, ad::relu(cosine - margin))};
  };
  const std::vector<Var> inputs{a.to(DType::f32).broadcast_to(both), b.to(DType::f32).broadcast_to(both)};
  const std::vector<Tensor> results =
      run_rows(kernels::cosine_embedding, {inputs[0].value(), inputs[1].value(), signs}, -1, scalars);
  const auto gradients = [=](const std::vector<Tensor>& x, const Tensor& dy, Needs) {
    return run_rows(kernels::cosine_embedding_grad, {x[0], x[1], signs, dy, results[1], results[2], results[3]}, -1,
                    scalars);
  };
  const Var each = recorded("cosine_embedding_loss", inputs, results[0], gradients, composed);
  return reduced(each, reduction).to(a.dtype());
}

Var hinge_embedding_loss(const Var& input, const Tensor& target, double margin, Reduction reduction) {
  return ad::hinge_embedding_loss(input, Var(target.to(input.dtype())), margin,
                                  static_cast<HingeEmbeddingLossReduction>(reduction));
}

Var margin_ranking_loss(const Var& a, const Var& b, const Tensor& target, double margin, Reduction reduction) {
  return reduced(ad::relu(margin - ad::mul(Var(target.to(a.dtype())), a - b)), reduction);
}

Var triplet_margin_loss(const Var& anchor, const Var& positive, const Var& negative, const TripletOptions& options) {
  constexpr const char* kName = "triplet_margin_loss";
  const Shape all = broadcast(kName, broadcast(kName, anchor.shape(), positive.shape()), negative.shape());
  rows_of(kName, all);
  const std::vector<Scalar> scalars{options.margin, options.eps, int64_t{options.swap}};
  const Composition composed = [options](const std::vector<Var>& in) {
    Var far = distance(in[0], in[2], options.eps);
    if (options.swap) far = ad::minimum(far, distance(in[1], in[2], options.eps));
    return std::vector<Var>{ad::relu(distance(in[0], in[1], options.eps) - far + options.margin)};
  };
  std::vector<Var> inputs;
  for (const Var& rows : {anchor, positive, negative}) inputs.push_back(rows.to(DType::f32).broadcast_to(all));
  const std::vector<Tensor> results =
      run_rows(kernels::triplet_margin, {inputs[0].value(), inputs[1].value(), inputs[2].value()}, -1, scalars);
  const auto gradients = [=](const std::vector<Tensor>& x, const Tensor& dy, Needs) {
    return run_rows(kernels::triplet_margin_grad, {x[0], x[1], x[2], dy, results[1], results[2], results[3]}, -1,
                    scalars);
  };
  const Var each = recorded(kName, inputs, results[0], gradients, composed);
  return reduced(each, options.reduction).to(anchor.dtype());
}

}  // namespace ashlar::nn
