// Losses of rows, a kernel each way: of logits and the probabilities of their classes, of logarithms of probabilities
// and labels, of pairs of rows and of three. f32 alone, through which calls of 16-bit floats go. Row kernels keep for
// their gradients what they have reduced. The operators that call them and add them up are composed:
// operators/composed/row_losses.h.
#include "dsl/operator.h"
#include "generators/labels.h"
#include "schedules/generic.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// ---- cross-entropy of soft labels

/// What each class counts: weight (target, of which a part goes to all classes alike), Szegedy et al. 2016.
struct SmoothedTarget {
  Scalar<float> label_smoothing{"label_smoothing", 0.0F};

  Value share(const Value& weight, const Value& target, const Expr& classes) const {
    const Value smoothing = label_smoothing;
    return weight * ((1.0 - smoothing) * target + smoothing / Value(Halide::cast<float>(classes)));
  }
};

// loss[r] = Σ_k s[r,k] (lse[r] - x[r,k]),  s = weight[k] (p[r,k], smoothed),  lse[r] = m[r] + ln Σ_k e^(x[r,k] -
// m[r]);  shares[r] = Σ_k s[r,k]
template <ElementType T>
class CrossEntropyOfProbabilities : public Kernel<CrossEntropyOfProbabilities<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> logits{"logits", {rows, columns}}, probabilities{"probabilities", {rows, columns}};
  In<f32, 1> weight{"weight", {columns}, absent_is(1)};
  SmoothedTarget smoothed;
  RowTunables tunables;
  Out<f32, 1> loss{"loss", {rows}}, logsumexp{"logsumexp", {rows}}, shares{"shares", {rows}};

  CrossEntropyOfProbabilities() {
    this->formula("loss[r] = Σ_k weight[k] p[r,k] (lse[r] - x[r,k]), p smoothed");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Axis k = columns.reduce(), j = columns.reduce(), i = columns.reduce(), l = columns.reduce();
    const auto share = [&](const Axis& c) { return smoothed.share(weight(c), probabilities(r, c), columns.extent()); };
    largest(r) = max_of_numbers(k, logits(r, k));  // a NaN reaches the sum in any case
    total(r) = sum(j, exp_below_zero(logits(r, j) - largest(r)));
    below(r) = sum(i, share(i) * as_written(largest(r) - logits(r, i)));
    all(r) = sum(l, share(l));
    const Value logarithm = log(total(r));
    loss(r) = below(r) + logarithm * all(r);
    logsumexp(r) = logarithm + largest(r);
    shares(r) = Value(all(r));
  }
  void schedule(auto to) {
    row_reduction(to, {{largest, total, below, all}, loss.func(), r, Var(), tunables, {logsumexp, shares}});
  }

 private:
  Stage largest{"largest"}, total{"total"}, below{"below"}, all{"all"};
  Var r{"r"};
};

// dlogits[r,c] = dloss[r] (shares[r] e^(x[r,c] - lse[r]) - s[r,c])
template <ElementType T>
class CrossEntropyOfProbabilitiesGradient : public Kernel<CrossEntropyOfProbabilitiesGradient<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> logits{"logits", {rows, columns}}, probabilities{"probabilities", {rows, columns}};
  In<f32, 1> dloss{"dloss", {rows}}, logsumexp{"logsumexp", {rows}}, shares{"shares", {rows}};
  In<f32, 1> weight{"weight", {columns}, absent_is(1)};
  SmoothedTarget smoothed;
  Out<T, 2> dlogits{"dlogits", {rows, columns}};

  CrossEntropyOfProbabilitiesGradient() {
    this->formula("dlogits = the gradient of cross_entropy_of_probabilities' loss").form(Form::rows).internal();
  }
  void algorithm() {
    const Value share = smoothed.share(weight(c), probabilities(r, c), columns.extent());
    dlogits(r, c) = dloss(r) * (shares(r) * exp(logits(r, c) - logsumexp(r)) - share);
  }
  void schedule(auto to) { generic(to, dlogits); }

 private:
  Var r{"r"}, c{"c"};
};

// ---- negative log-likelihood

// loss[r] = -weight[l] x[r,l], counted[r] = weight[l],  l = label[r];  both 0 where l is ignored
template <ElementType T>
class NllOfLabels : public Kernel<NllOfLabels<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  In<i64, 1> labels{"labels", {rows}};
  In<f32, 1> weight{"weight", {columns}, absent_is(1)};
  Scalar<int64_t> ignore_index{"ignore_index", -100};
  OutTuple<1, f32, f32> results{"results", {{{"loss"}, {"counted"}}}, {rows}};

  NllOfLabels() { this->formula("loss[r] = -weight[l] x[r,l], l = labels[r]").form(Form::rows).internal(); }
  void algorithm() {
    const Value label = labels(r), is_counted = label != Value(ignore_index), at = safe_index(label, columns.extent());
    const Value own = weight(at), loss = nan_unless(is_label(label, columns.extent()), 0.0 - own * x(r, at));
    results.define({r}, {select(is_counted, loss, 0.0), select(is_counted, own, 0.0)});
  }
  void schedule(auto to) { generic(to, results); }

 private:
  Var r{"r"};
};

// dx[r,c] = -dloss[r] weight[l] where c = l, else 0
template <ElementType T>
class NllOfLabelsGradient : public Kernel<NllOfLabelsGradient<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  In<i64, 1> labels{"labels", {rows}};
  In<f32, 1> dloss{"dloss", {rows}};
  In<f32, 1> weight{"weight", {columns}, absent_is(1)};
  Scalar<int64_t> ignore_index{"ignore_index", -100};
  Out<T, 2> dx{"dx", {rows, columns}};

  NllOfLabelsGradient() { this->formula("dx[r,c] = -dloss[r] weight[l] [c = l]").form(Form::rows).internal(); }
  void algorithm() {
    const Value label = labels(r), is_counted = label != Value(ignore_index);
    const Value is_own = is_counted && label == Value(Halide::cast<int64_t>(c));
    const Value here = nan_unless(is_label(label, columns.extent()) || !is_counted, 0.0);
    dx(r, c) = select(is_own, 0.0 - dloss(r) * weight(c), here);
  }
  void schedule(auto to) { generic(to, dx); }

 private:
  Var r{"r"}, c{"c"};
};

// ---- of pairs of rows

// cosine[r] = a·b / (|a| |b|), norms at least eps;  loss[r] = 1 - cosine where sign[r] is 1, max(cosine - margin, 0)
// where it is -1, else 0
template <ElementType T>
class CosineEmbedding : public Kernel<CosineEmbedding<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> a{"a", {rows, columns}}, b{"b", {rows, columns}};
  In<f32, 1> sign{"sign", {rows}};
  Scalar<float> margin{"margin"}, eps{"eps"};
  RowTunables tunables;
  Out<f32, 1> loss{"loss", {rows}}, cosine{"cosine", {rows}}, a_norm{"a_norm", {rows}}, b_norm{"b_norm", {rows}};

  CosineEmbedding() {
    this->formula("loss[r] = 1 - cos(a[r], b[r]) where sign[r] is 1, max(cos - margin, 0) where it is -1");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Axis i = columns.reduce(), j = columns.reduce(), k = columns.reduce();
    dots(r) = sum(i, a(r, i) * b(r, i));
    a_squares(r) = sum(j, square(a(r, j)));
    b_squares(r) = sum(k, square(b(r, k)));
    const Value of_a = max(sqrt(a_squares(r)), Value(eps)), of_b = max(sqrt(b_squares(r)), Value(eps));
    const Value angle = dots(r) / (of_a * of_b), t = sign(r);
    loss(r) = select(t == 1.0, 1.0 - angle, select(t == -1.0, relu(angle - margin), 0.0));
    cosine(r) = angle;
    a_norm(r) = of_a;
    b_norm(r) = of_b;
  }
  void schedule(auto to) {
    row_reduction(to, {{dots, a_squares, b_squares}, loss.func(), r, Var(), tunables, {cosine, a_norm, b_norm}});
  }

 private:
  Stage dots{"dots"}, a_squares{"a_squares"}, b_squares{"b_squares"};
  Var r{"r"};
};

// With g = dloss (d/dcos) loss:  da = g (b / (|a| |b|) - cos a / |a|²), db likewise; the second term is none of a norm
// that is eps.
template <ElementType T>
class CosineEmbeddingGradient : public Kernel<CosineEmbeddingGradient<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> a{"a", {rows, columns}}, b{"b", {rows, columns}};
  In<f32, 1> sign{"sign", {rows}}, dloss{"dloss", {rows}};
  In<f32, 1> cosine{"cosine", {rows}}, a_norm{"a_norm", {rows}}, b_norm{"b_norm", {rows}};
  Scalar<float> margin{"margin"}, eps{"eps"};
  OutTuple<2, T, T> gradients{"gradients", {{{"da"}, {"db"}}}, {rows, columns}};

  CosineEmbeddingGradient() {
    this->formula("da, db = the gradients of cosine_embedding's loss").form(Form::rows).internal();
  }
  void algorithm() {
    const Value t = sign(r), angle = cosine(r), of_a = a_norm(r), of_b = b_norm(r);
    const Value slope = select(t == 1.0, -1.0, select(t == -1.0 && angle > margin, 1.0, 0.0)) * dloss(r);
    const auto by = [&](const Value& x, const Value& norm, const Value& other) {
      return slope * (other / (of_a * of_b) - select(norm > eps, angle * x / (norm * norm), 0.0));
    };
    gradients.define({r, c}, {by(a(r, c), of_a, b(r, c)), by(b(r, c), of_b, a(r, c))});
  }
  void schedule(auto to) { generic(to, gradients); }

 private:
  Var r{"r"}, c{"c"};
};

// ---- of an anchor, a positive and a negative

struct TripletOptions {
  Scalar<float> margin{"margin"}, eps{"eps"};
  Scalar<int32_t> swap{"swap"};

  /// Of the distance of the negative from the anchor, how much it counts beside that from the positive: 1 where it is
  /// less, or the others' aren't compared; half of what is alike, as of any minimum.
  Value of_far(const Value& far, const Value& cross) const {
    return select(Value(swap) == 0 || far < cross, 1.0, select(far == cross, 0.5, 0.0));
  }
};

// near = |a - p + eps|, far = |a - n + eps|, cross = |p - n + eps|, rows' norms;
// loss = max(near - (swap ? min(far, cross) : far) + margin, 0)  (Balntas et al. 2016)
template <ElementType T>
class TripletMargin : public Kernel<TripletMargin<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> anchor{"anchor", {rows, columns}}, positive{"positive", {rows, columns}};
  In<T, 2> negative{"negative", {rows, columns}};
  TripletOptions options;
  RowTunables tunables;
  Out<f32, 1> loss{"loss", {rows}}, near{"near", {rows}}, far{"far", {rows}}, cross{"cross", {rows}};

  TripletMargin() {
    this->formula("loss[r] = max(|anchor - positive + eps| - |anchor - negative + eps| + margin, 0)");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Axis i = columns.reduce(), j = columns.reduce(), k = columns.reduce();
    const Value eps = options.eps;
    near_squares(r) = sum(i, square(anchor(r, i) - positive(r, i) + eps));
    far_squares(r) = sum(j, square(anchor(r, j) - negative(r, j) + eps));
    cross_squares(r) = sum(k, square(positive(r, k) - negative(r, k) + eps));
    const Value to_positive = sqrt(near_squares(r)), to_negative = sqrt(far_squares(r)),
                between = sqrt(cross_squares(r));
    const Value least = select(Value(options.swap) == 0, to_negative, min(to_negative, between));
    loss(r) = relu(to_positive - least + options.margin);
    near(r) = to_positive;
    far(r) = to_negative;
    cross(r) = between;
  }
  void schedule(auto to) {
    row_reduction(to,
                  {{near_squares, far_squares, cross_squares}, loss.func(), r, Var(), tunables, {near, far, cross}});
  }

 private:
  Stage near_squares{"near_squares"}, far_squares{"far_squares"}, cross_squares{"cross_squares"};
  Var r{"r"};
};

// With g = dloss where the loss is positive, s the part that far counts, and the unit vectors u = (a - p + eps) / near,
// v = (a - n + eps) / far, w = (p - n + eps) / cross:
// da = g (u - s v), dp = -g (u + (1 - s) w), dn = g (s v + (1 - s) w)
template <ElementType T>
class TripletMarginGradient : public Kernel<TripletMarginGradient<T>> {
 public:
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> anchor{"anchor", {rows, columns}}, positive{"positive", {rows, columns}};
  In<T, 2> negative{"negative", {rows, columns}};
  In<f32, 1> dloss{"dloss", {rows}};
  In<f32, 1> near{"near", {rows}}, far{"far", {rows}}, cross{"cross", {rows}};
  TripletOptions options;
  OutTuple<2, T, T, T> gradients{"gradients", {{{"danchor"}, {"dpositive"}, {"dnegative"}}}, {rows, columns}};

  TripletMarginGradient() {
    this->formula("danchor, dpositive, dnegative = the gradients of triplet_margin's loss");
    this->form(Form::rows).internal();
  }
  void algorithm() {
    const Value a = anchor(r, c), p = positive(r, c), n = negative(r, c), eps = options.eps;
    const Value of_far = options.of_far(far(r), cross(r)), of_cross = 1.0 - of_far;
    const Value least = select(Value(options.swap) == 0, far(r), min(far(r), cross(r)));
    const Value g = select(near(r) - least + options.margin > 0.0, dloss(r), 0.0);
    // A distance that doesn't count may be 0.
    const auto unit = [](const Value& part, const Value& difference, const Value& distance) {
      return select(part > 0.0, part * difference / distance, 0.0);
    };
    const Value u = unit(1.0, a - p + eps, near(r)), v = unit(of_far, a - n + eps, far(r)),
                w = unit(of_cross, p - n + eps, cross(r));
    gradients.define({r, c}, {g * (u - v), 0.0 - g * (u + w), g * (v + w)});
  }
  void schedule(auto to) { generic(to, gradients); }

 private:
  Var r{"r"}, c{"c"};
};

// ---- the operators

const OperatorOption kReduction{"reduction", FormOption::Kind::choice, 1, {"none", "mean", "sum"}};
const OperatorTensor kClassWeight{.name = "weight", .is_optional = true, .is_of_any_dtype = true};

/// What all have in common.
OperatorDescription row_loss(const std::string& name, const std::string& formula, std::vector<OperatorTensor> inputs,
                             std::vector<std::string> calls) {
  for (const char* adding : {"sum", "mean", "div", "affine"}) calls.emplace_back(adding);
  return {.name = name,
          .formula = name + formula,
          .dtypes = {DType::f32, DType::f16, DType::bf16},
          .inputs = std::move(inputs),
          .options = {kReduction},
          .outputs = {{"loss"}},
          .calls = std::move(calls),
          .composed = "operators/composed/row_losses.h",
          .recorded_parts = "autograd/recipes/row_losses.h"};
}

bool add_losses_of_classes() {
  OperatorDescription cross_entropy =
      row_loss("cross_entropy_loss",
               "(input, target)[r] = -weight[l] ln softmax(input)[r,l] of labels l = target[r], 0 where l is "
               "ignore_index; of probabilities, floating and of input's shape, -Σ_c weight[c] target[r,c] ln "
               "softmax(input)[r,c]; classes along axis 1 (of rank 1 axis 0), label_smoothing / classes of each label "
               "to all of them: each, in f32, their mean, by the labels' weights, or their sum",
               {{"input"}, {.name = "target", .is_of_any_dtype = true}, kClassWeight},
               {"cross_entropy_of_weighted", "cross_entropy_of_weighted_grad", "cross_entropy_of_probabilities",
                "cross_entropy_of_probabilities_grad"});
  cross_entropy.scalars = {{"label_smoothing", DType::f64, "0.0"}};
  OperatorDescription nll =
      row_loss("nll_loss",
               "(input, target)[r] = -weight[l] input[r,l], l = target[r], 0 where l is "
               "ignore_index; classes along axis 1 (of rank 1 axis 0): each, in f32, their mean, "
               "by the labels' weights, or their sum",
               {{"input"}, {"target", DType::i64}, kClassWeight}, {"nll_of_labels", "nll_of_labels_grad"});
  for (OperatorDescription* of_classes : {&cross_entropy, &nll}) {
    of_classes->options.push_back({"ignore_index", FormOption::Kind::integer, -100});
    of_classes->outputs = {{"loss", DType::f32}};
    of_classes->scalars_last = of_classes->optional_last = true;
  }
  return register_operator(cross_entropy) && register_operator(nll);
}

bool add_losses_of_pairs() {
  const OperatorTensor signs{.name = "target", .is_of_any_dtype = true};
  OperatorDescription embedding = row_loss(
      "cosine_embedding_loss",
      "(input1, input2, target)[r] = 1 - cos(input1[r], input2[r]) where target[r] is 1, max(cos - margin, 0) where it "
      "is -1, rows along the last axis: each, their mean or their sum",
      {{"input1"}, {"input2"}, signs}, {"cosine_embedding", "cosine_embedding_grad"});
  embedding.scalars = {{"margin", DType::f64, "0.0"}};
  OperatorDescription ranking = row_loss("margin_ranking_loss",
                                         "(input1, input2, target) = max(margin - target (input1 - input2), 0), "
                                         "broadcasting: each, their mean or their sum",
                                         {{"input1"}, {"input2"}, signs}, {"sub", "mul", "relu", "cast"});
  ranking.scalars = {{"margin", DType::f64, "0.0"}};
  OperatorDescription triplet = row_loss(
      "triplet_margin_loss",
      "(anchor, positive, negative)[r] = max(|a - p + eps| - |a - n + eps| + margin, 0), distances along the last "
      "axis; "
      "with swap min(|a - n + eps|, |p - n + eps|) in place of the second (Balntas et al. 2016): each, their mean or "
      "their sum",
      {{"anchor"}, {"positive"}, {"negative"}}, {"triplet_margin", "triplet_margin_grad"});
  triplet.scalars = {{"margin", DType::f64, "1.0"}, {"eps", DType::f64, "1e-6"}};
  triplet.options.insert(triplet.options.begin(), {"swap", FormOption::Kind::boolean});
  OperatorDescription cosine = row_loss(
      "cosine_similarity", "(x1, x2) = Σ x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along an axis, broadcasting",
      {{"x1"}, {"x2"}},
      {"sum_of_abs", "sum_of_squares", "sum_of_powers", "nonzero_sum", "max", "min", "abs", "pow", "maximum", "mul"});
  cosine.scalars = {{"eps", DType::f64, "1e-8"}};
  cosine.options = {{"axis", FormOption::Kind::integer, 1}};
  cosine.scalars_last = true;
  cosine.outputs = {{"y"}};
  return register_operator(cosine) && register_operator(embedding) && register_operator(ranking) &&
         register_operator(triplet);
}

const bool registered =
    register_kernel<CrossEntropyOfProbabilities, f32>("cross_entropy_of_probabilities") &&
    register_kernel<CrossEntropyOfProbabilitiesGradient, f32>("cross_entropy_of_probabilities_grad") &&
    register_kernel<NllOfLabels, f32>("nll_of_labels") &&
    register_kernel<NllOfLabelsGradient, f32>("nll_of_labels_grad") &&
    register_kernel<CosineEmbedding, f32>("cosine_embedding") &&
    register_kernel<CosineEmbeddingGradient, f32>("cosine_embedding_grad") &&
    register_kernel<TripletMargin, f32>("triplet_margin") &&
    register_kernel<TripletMarginGradient, f32>("triplet_margin_grad") && add_losses_of_classes() &&
    add_losses_of_pairs();

}  // namespace ashlar::dsl
