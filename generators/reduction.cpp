// sum, mean, max and argmax in the canonical form [outer, reduced, inner].
#include "schedules/reduction.h"

namespace ashlar::dsl {

// What the four share: which input elements part p reduces. Part p takes k in [p·chunk, min((p + 1)·chunk, reduced)).
template <class Derived, ElementType T>
class ReductionKernel : public Kernel<Derived> {
 public:
  In<T, 3> x{"x", strided};
  Scalar<int32_t> chunk{"chunk"};
  ReductionTunables tunables;

  void schedule(auto target) {
    auto& kernel = *static_cast<Derived*>(this);
    reduction(target, {total, axis->rvar(), kernel.y.func(), outer, part, inner, tunables});
  }

 protected:
  // The axis over one chunk; call once, from algorithm().
  Axis& make_axis() {
    axis.emplace(Expr(Value(chunk)), "k");
    axis->where(Value(part) * chunk + *axis < Value(x.extent(1)));
    return *axis;
  }
  // The element at index k of the part. The axis' condition keeps it inside, which Halide can't see.
  Value element(const Axis& k) {
    return x(outer, Halide::unsafe_promise_clamped(Expr(Value(part) * chunk + k), 0, x.extent(1) - 1), inner);
  }

  std::optional<Axis> axis;
  Stage total{"total"};
  Var outer{"outer"}, part{"part"}, inner{"inner"};
};

// y[o,p,i] = Σ_k x[o,k,i] over part p
template <ElementType T, ElementType A>
class Sum : public ReductionKernel<Sum<T, A>, T> {
 public:
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Sum() {
    this->formula("y[o,p,i] = Σ_k x[o,k,i], k in part p").form(Form::reduction).empty_is_zero();
    this->gradient("x", "sum_grad(dy, axes, keepdim, x.shape())");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = sum(k, this->element(k));
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,p,i] = scale Σ_k x[o,k,i] over part p;  scale is 1/n in the last pass and 1 before
template <ElementType T, ElementType A>
class Mean : public ReductionKernel<Mean<T, A>, T> {
 public:
  Scalar<float> scale{"scale"};
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Mean() {
    this->formula("y[o,p,i] = scale Σ_k x[o,k,i], k in part p").form(Form::reduction).empty_is_zero();
    this->gradient("x", "mean_grad(dy, axes, keepdim, x.shape())");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = sum(k, this->element(k));
    y(this->outer, this->part, this->inner) = Value(this->total(this->outer, this->part, this->inner)) * scale;
  }
};

// y[o,p,i] = max_k x[o,k,i] over part p, NaN if any is NaN
template <ElementType T, ElementType A>
class Max : public ReductionKernel<Max<T, A>, T> {
 public:
  Out<A, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Max() {
    this->formula("y[o,p,i] = max_k x[o,k,i], k in part p").form(Form::reduction);
    this->gradient("x", "max_grad(dy, x, y, axes, keepdim)");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = max(k, this->element(k));
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

// y[o,0,i] = the first k of the largest x[o,k,i], or of the first NaN. In two passes when there are parts:
// argmax_parts gives each one's key, the value with its index packed into 64 bits, and argmax_last the largest key's
// index.
template <ElementType T>
class Argmax : public ReductionKernel<Argmax<T>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  Argmax() {
    this->formula("y[o,0,i] = argmax_k x[o,k,i]").form(Form::reduction).passes("argmax_parts", "argmax_last");
    this->flops("static_cast<double>(shapes[0].numel())");
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = argmax(k, this->element(k));
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

template <ElementType T>
class ArgmaxParts : public ReductionKernel<ArgmaxParts<T>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  ArgmaxParts() { this->formula("y[o,p,i] = key of argmax_k x[o,k,i], k in part p").form(Form::movement).internal(); }
  void algorithm() {
    const Axis& k = this->make_axis();
    const Value index = Value(this->part) * this->chunk + k;
    const auto key = [](Value packed) { return packed; };
    this->total(this->outer, this->part, this->inner) = max_of_keys(k, argmax_key(index, this->element(k)), key);
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

template <ElementType T>
class ArgmaxLast : public ReductionKernel<ArgmaxLast<T>, T> {
 public:
  Out<i64, 3> y{"y", {this->x.size(0), any_size, this->x.size(2)}};

  ArgmaxLast() {
    this->formula("y[o,0,i] = index of max_k x[o,k,i], x of argmax_parts").form(Form::movement).internal();
  }
  void algorithm() {
    const Axis& k = this->make_axis();
    this->total(this->outer, this->part, this->inner) = max_of_keys(k, this->element(k), index_of_argmax_key);
    y(this->outer, this->part, this->inner) = this->total(this->outer, this->part, this->inner);
  }
};

const bool registered =
    register_kernel_pairs<Sum, Pair<f32, f32>, Pair<f16, f32>, Pair<bf16, f32>, Pair<f64, f64>, Pair<i64, i64>>(
        "sum") &&
    register_kernel_pairs<Mean, Pair<f32, f32>, Pair<f16, f32>, Pair<bf16, f32>>("mean") &&
    register_kernel_pairs<Max, Pair<f32, f32>, Pair<f16, f32>, Pair<bf16, f32>>("max") &&
    register_kernel<Argmax, f32, f16, bf16>("argmax") && register_kernel<ArgmaxParts, f32, f16, bf16>("argmax_parts") &&
    register_kernel<ArgmaxLast, i64>("argmax_last");

}  // namespace ashlar::dsl
