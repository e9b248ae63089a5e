// Softmax and cross-entropy with integer labels, fused: nothing of the size of the logits is written going forward.
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

namespace {
// A label outside [0, classes) reads a valid element and is then turned into NaN: no call reads out of bounds.
Value valid(const Value& label, const Expr& classes) {
  return label >= 0 && label < Value(Halide::cast<int64_t>(classes));
}
Value safe_index(const Value& label, const Expr& classes) {
  return Halide::cast<int32_t>(
      Halide::clamp(label.expr(), Halide::cast<int64_t>(0), Halide::cast<int64_t>(classes - 1)));
}
}  // namespace

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
    loss(r) = nan_unless(valid(label, logits.extent(1)), log(total(r)) + as_written(largest(r) - chosen));
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
    dlogits(r, c) = nan_unless(valid(label, logits.extent(1)), dloss(r) * slope);
  }
  void schedule(auto target) { row_reduction(target, {{largest, total}, dlogits.func(), r, c, tunables}); }

 private:
  Axis k, j;
  Stage largest{"largest"}, total{"total"};
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<CrossEntropy, f32, f16, bf16>("cross_entropy") &&
                        register_kernel<CrossEntropyGradient, f32, f16, bf16>("cross_entropy_grad");

}  // namespace ashlar::dsl
