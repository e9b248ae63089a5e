// Softmax and cross-entropy with integer labels, fused: nothing of the size of the logits is written going forward.
#include "generators/labels.h"
#include "schedules/generic.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// loss[r] = m[r] + ln Σ_k e^(x[r,k] - m[r]) - x[r, label[r]],  m[r] = max_k x[r,k]
template <ElementType T>
class CrossEntropy : public Kernel<CrossEntropy<T>> {
 public:
  In<T, 2> logits{"logits"};
  In<i64, 1> labels{"labels", {logits.size(0)}};
  RowTunables tunables;
  Out<f32, 1> loss{"loss", {logits.size(0)}};

  CrossEntropy() {
    this->formula(
        "cross_entropy(logits, labels)[r] = ln Σ_k e^logits[r,k] - logits[r, labels[r]]; NaN for a label "
        "outside [0, classes)");
    this->form(Form::rows).gradient("logits", "cross_entropy_grad(logits, labels, dloss, axis)");
    this->flops("4.0 * shapes[0].numel()");
  }
  void algorithm() {
    k = logits.reduce(1);
    j = logits.reduce(1);
    largest(r) = max_of_numbers(k, logits(r, k));  // a NaN reaches the sum in any case
    total(r) = sum(j, exp_below_zero(logits(r, j) - largest(r)));
    const Value label = labels(r);
    const Value chosen = logits(r, safe_index(label, logits.extent(1)));
    loss(r) = nan_unless(is_label(label, logits.extent(1)), log(total(r)) + as_written(largest(r) - chosen));
  }
  void schedule(auto target) { row_reduction(target, {{largest, total}, loss.func(), r, Var(), tunables}); }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"};
};

// dlogits[r,c] = dloss[r] (softmax(logits)[r,c] - [c = label[r]])
template <ElementType T>
class CrossEntropyGradient : public Kernel<CrossEntropyGradient<T>> {
 public:
  In<T, 2> logits{"logits"};
  In<i64, 1> labels{"labels", {logits.size(0)}};
  RowTunables tunables;
  In<f32, 1> dloss{"dloss", {logits.size(0)}};
  Out<T, 2> dlogits{"dlogits", shape_of(logits)};

  CrossEntropyGradient() {
    this->formula("cross_entropy_grad(logits, labels, dloss)[r,c] = dloss[r] (softmax(logits)[r,c] - [c = labels[r]])");
    this->form(Form::rows).flops("6.0 * shapes[0].numel()");
    this->gradient("logits", "cross_entropy_grad_of_logits(ddlogits, logits, dloss, axis)");
    this->gradient("dloss", "cross_entropy_grad_of_dloss(ddlogits, logits, labels, dloss.shape(), axis)");
  }
  void algorithm() {
    k = logits.reduce(1);
    j = logits.reduce(1);
    largest(r) = max_of_numbers(k, logits(r, k));  // a NaN reaches the sum in any case
    total(r) = sum(j, exp_below_zero(logits(r, j) - largest(r)));
    const Value label = labels(r);
    const Value hit = select(label == Value(Halide::cast<int64_t>(c)), 1.0, 0.0);
    const Value slope = exp_below_zero(logits(r, c) - largest(r)) * reciprocal(Value(total(r))) - hit;
    dlogits(r, c) = nan_unless(is_label(label, logits.extent(1)), dloss(r) * slope);
  }
  void schedule(auto target) { row_reduction(target, {{largest, total}, dlogits.func(), r, c, tunables}); }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"}, c{"c"};
};

// With PyTorch's options: f32 alone, through which calls of 16-bit floats go with the same bits.

/// How classes and labels count: each class has its weight, rows with the label ignore_index have no loss, and so much
/// of each label goes to all classes alike.
struct ClassOptions {
  Scalar<int64_t> ignore_index{"ignore_index", -100};
  Scalar<float> label_smoothing{"label_smoothing", 0.0F};

  Value counts(const Value& label) const { return label != Value(ignore_index); }
  /// What the label's class has of the loss, and each of all classes.
  Value of_label() const { return 1.0 - Value(label_smoothing); }
  Value of_each(const Expr& classes) const { return Value(label_smoothing) / Value(Halide::cast<float>(classes)); }
};

// loss[r] = of_label weight[l] (lse[r] - x[r,l]) + of_each Σ_k weight[k] (lse[r] - x[r,k]),  l = label[r],
// lse[r] = m[r] + ln Σ_k e^(x[r,k] - m[r]);  counted[r] = weight[l];  both 0 where l is ignored;  all[r] = Σ_k
// weight[k]
template <ElementType T>
class CrossEntropyOfWeighted : public Kernel<CrossEntropyOfWeighted<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> logits{"logits", {rows, columns}};
  In<i64, 1> labels{"labels", {rows}};
  In<f32, 1> weight{"weight", {columns}, absent_is(1)};
  ClassOptions options;
  RowTunables tunables;
  Out<f32, 1> loss{"loss", {rows}}, counted{"counted", {rows}}, logsumexp{"logsumexp", {rows}}, all{"all", {rows}};

  CrossEntropyOfWeighted() {
    this->formula(
        "loss[r] = (1 - s) weight[l] (lse - x[r,l]) + s / classes Σ_k weight[k] (lse - x[r,k]), l = labels[r]");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Axis k = columns.reduce(), j = columns.reduce(), i = columns.reduce(), w = columns.reduce();
    largest(r) = max_of_numbers(k, logits(r, k));  // a NaN reaches the sum in any case
    total(r) = sum(j, exp_below_zero(logits(r, j) - largest(r)));
    below(r) = sum(i, weight(i) * as_written(largest(r) - logits(r, i)));
    weights(r) = sum(w, weight(w));
    const Value label = labels(r), is_counted = options.counts(label), logarithm = log(total(r));
    const Value at = safe_index(label, columns.extent()), own = weight(at);
    const Value of_label = own * (logarithm + as_written(largest(r) - logits(r, at)));
    const Value of_all = below(r) + logarithm * weights(r), each = options.of_each(columns.extent());
    const Value smoothed = select(Value(options.label_smoothing) > 0.0, each * of_all, 0.0);
    const Value here = nan_unless(is_label(label, columns.extent()), options.of_label() * of_label + smoothed);
    loss(r) = select(is_counted, here, 0.0);
    counted(r) = select(is_counted, own, 0.0);
    logsumexp(r) = logarithm + largest(r);
    all(r) = weights(r);
  }
  void schedule(auto target) {
    row_reduction(target,
                  {{largest, total, below, weights}, loss.func(), r, Var(), tunables, {counted, logsumexp, all}});
  }

 private:
  Stage largest{"largest"}, total{"total"}, below{"below"}, weights{"weights"};
  Var r{"r"};
};

// dx[r,c] = dloss[r] ((of_label weight[l] + of_each all[r]) e^(x[r,c] - lse[r]) - of_label weight[l] [c = l] -
// of_each weight[c]),  0 where l is ignored
template <ElementType T>
class CrossEntropyOfWeightedGradient : public Kernel<CrossEntropyOfWeightedGradient<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> logits{"logits", {rows, columns}};
  In<i64, 1> labels{"labels", {rows}};
  In<f32, 1> dloss{"dloss", {rows}}, logsumexp{"logsumexp", {rows}}, all{"all", {rows}};
  In<f32, 1> weight{"weight", {columns}, absent_is(1)};
  ClassOptions options;
  Out<T, 2> dlogits{"dlogits", {rows, columns}};

  CrossEntropyOfWeightedGradient() {
    this->formula("dlogits = the gradient of cross_entropy_of_weighted's loss");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Value label = labels(r), hit = select(label == Value(Halide::cast<int64_t>(c)), 1.0, 0.0);
    const Value of_label = options.of_label() * weight(safe_index(label, columns.extent()));
    const Value each = options.of_each(columns.extent());
    const Value slope =
        (of_label + each * all(r)) * exp(logits(r, c) - logsumexp(r)) - of_label * hit - each * weight(c);
    const Value here = nan_unless(is_label(label, columns.extent()), dloss(r) * slope);
    dlogits(r, c) = select(options.counts(label), here, 0.0);
  }
  void schedule(auto target) { generic(target, dlogits); }

 private:
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<CrossEntropy, f32, f16, bf16>("cross_entropy") &&
                        register_kernel<CrossEntropyGradient, f32, f16, bf16>("cross_entropy_grad") &&
                        register_kernel<CrossEntropyOfWeighted, f32>("cross_entropy_of_weighted") &&
                        register_kernel<CrossEntropyOfWeightedGradient, f32>("cross_entropy_of_weighted_grad");

}  // namespace ashlar::dsl
