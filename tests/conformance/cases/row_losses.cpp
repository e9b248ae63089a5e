// Kernels of losses of rows, which operators/composed/row_losses.h adds up, and of their gradients: probabilities of
// classes, labels, pairs and triples of rows; and BCE with weights, element by element.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "ashlar/ops/losses.h"
#include "ashlar/ops/row_losses.h"
#include "runtime/forms/broadcast.h"
#include "runtime/forms/rows.h"
#include "runtime/support/error.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/cases/many_rows.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN(), kSmoothing = 0.1, kMargin = 0.3, kEps = 1e-6;
constexpr int64_t kIgnored = 2;

std::vector<Tensor> run(const KernelInfo& kernel, Tensors x, size_t count, std::vector<Scalar> scalars) {
  std::vector<Tensor> inputs(x.begin(), x.end());
  inputs.resize(count);  // without weights: none
  return forms::Rows::call(kernel,
                           {.inputs = inputs, .scalars = scalars, .options = std::array<OptionValue, 1>{int64_t{-1}}});
}

/// One kernel's results, as they are worked out: value and magnitude of output `o`.
class Results {
 public:
  Results(size_t count, const Shape& shape) : all_(count, Expected{shape, {}, {}, DType::f32}) {}
  void add(size_t o, double value, double magnitude) {
    all_[o].values.push_back(value);
    all_[o].magnitudes.push_back(magnitude + 1e-30);
  }
  std::vector<Expected> take() { return std::move(all_); }

 private:
  std::vector<Expected> all_;
};

/// Element c of row r, and a row's own value.
struct Rows {
  HostTensors in;
  int64_t count() const { return in[0].shape[0]; }
  int64_t columns() const { return in[0].shape[1]; }
  double at(size_t input, int64_t r, int64_t c) const {
    return in[input].values[static_cast<size_t>(r * columns() + c)];
  }
  double of(size_t input, int64_t i) const { return in[input].values[static_cast<size_t>(i)]; }
  /// That of a column, from an input that may be left out.
  double weight(size_t input, int64_t c) const { return in.size() > input ? of(input, c) : 1.0; }
  void refuse_no_columns(const char* kernel) const {
    if (count() > 0 && columns() == 0) throw ShapeError(kernel, "no columns", "one or more", "Skip the call");
  }
};

// ---- probabilities: logits, target, weights or none

double share(const Rows& rows, size_t weight, int64_t r, int64_t c) {
  const auto classes = static_cast<double>(rows.columns());
  return rows.weight(weight, c) * ((1 - kSmoothing) * rows.at(1, r, c) + kSmoothing / classes);
}

std::vector<Expected> exact_probabilities(HostTensors in) {
  const Rows rows{in};
  rows.refuse_no_columns("cross_entropy_of_probabilities");
  Results results(3, {rows.count()});
  for (int64_t r = 0; r < rows.count(); ++r) {
    double largest = rows.at(0, r, 0), sum = 0, loss = 0, all = 0, size = 0;
    for (int64_t c = 0; c < rows.columns(); ++c) largest = std::max(largest, rows.at(0, r, c));
    for (int64_t c = 0; c < rows.columns(); ++c) sum += std::exp(rows.at(0, r, c) - largest);
    const double logsumexp = largest + std::log(sum);
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double part = share(rows, 2, r, c);
      loss += part * (logsumexp - rows.at(0, r, c));
      size += part * (std::abs(logsumexp - rows.at(0, r, c)) + std::log(sum) + 1);
      all += part;
    }
    results.add(0, loss, size);
    results.add(1, logsumexp, std::abs(largest) + std::log(sum) + 1);
    results.add(2, all, all);
  }
  return results.take();
}

// logits, target, dloss, logsumexp, shares, weights or none
std::vector<Expected> exact_probabilities_grad(HostTensors in) {
  const Rows rows{in};
  Results results(1, in[0].shape);
  for (int64_t r = 0; r < rows.count(); ++r) {
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double off = rows.at(0, r, c) - rows.of(3, r), of_all = rows.of(4, r) * std::exp(off);
      const double own = share(rows, 5, r, c), dloss = rows.of(2, r);
      results.add(0, dloss * (of_all - own), std::abs(dloss) * (of_all * (1 + std::abs(off)) + own));
    }
  }
  return results.take();
}

// ---- labels: x, labels, weights or none

bool is_class(double label, int64_t classes) { return label >= 0 && label < static_cast<double>(classes); }

std::vector<Expected> exact_nll(HostTensors in) {
  const Rows rows{in};
  rows.refuse_no_columns("nll_of_labels");
  Results results(2, {rows.count()});
  for (int64_t r = 0; r < rows.count(); ++r) {
    const double label = rows.of(1, r);
    const bool ignored = label == static_cast<double>(kIgnored);
    const int64_t at = std::clamp<int64_t>(static_cast<int64_t>(label), 0, rows.columns() - 1);
    const double own = rows.weight(2, at), loss = -own * rows.at(0, r, at);
    results.add(0, ignored ? 0 : is_class(label, rows.columns()) ? loss : kNone, std::abs(loss));
    results.add(1, ignored ? 0 : own, own);
  }
  return results.take();
}

// x, labels, dloss, weights or none
std::vector<Expected> exact_nll_grad(HostTensors in) {
  const Rows rows{in};
  Results results(1, in[0].shape);
  for (int64_t r = 0; r < rows.count(); ++r) {
    const double label = rows.of(1, r);
    const bool ignored = label == static_cast<double>(kIgnored);
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double own = label == static_cast<double>(c) ? -rows.of(2, r) * rows.weight(3, c) : 0.0;
      results.add(0, ignored ? 0 : is_class(label, rows.columns()) ? own : kNone, std::abs(own));
    }
  }
  return results.take();
}

// ---- pairs: a, b, target

std::vector<Expected> exact_cosine(HostTensors in) {
  const Rows rows{in};
  rows.refuse_no_columns("cosine_embedding");
  Results results(4, {rows.count()});
  for (int64_t r = 0; r < rows.count(); ++r) {
    double dot = 0, terms = 0, aa = 0, bb = 0;
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double a = rows.at(0, r, c), b = rows.at(1, r, c);
      dot += a * b, terms += std::abs(a * b), aa += a * a, bb += b * b;
    }
    const double of_a = std::max(std::sqrt(aa), kEps), of_b = std::max(std::sqrt(bb), kEps),
                 angle = dot / (of_a * of_b);
    const double t = rows.of(2, r), loss = t == 1 ? 1 - angle : t == -1 ? std::max(angle - kMargin, 0.0) : 0;
    const double size = terms / (of_a * of_b) + 1;
    results.add(0, loss, size);
    results.add(1, angle, size);
    results.add(2, of_a, of_a);
    results.add(3, of_b, of_b);
  }
  return results.take();
}

// a, b, target, dloss, cosine, |a|, |b|
std::vector<Expected> exact_cosine_grad(HostTensors in) {
  const Rows rows{in};
  Results results(2, in[0].shape);
  for (int64_t r = 0; r < rows.count(); ++r) {
    const double t = rows.of(2, r), angle = rows.of(4, r), of_a = rows.of(5, r), of_b = rows.of(6, r);
    const double slope = rows.of(3, r) * (t == 1 ? -1 : t == -1 && angle > kMargin ? 1 : 0);
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double a = rows.at(0, r, c), b = rows.at(1, r, c);
      const double a_own = of_a > kEps ? angle * a / (of_a * of_a) : 0,
                   b_own = of_b > kEps ? angle * b / (of_b * of_b) : 0;
      results.add(0, slope * (b / (of_a * of_b) - a_own),
                  std::abs(slope) * (std::abs(b) / (of_a * of_b) + std::abs(a_own)));
      results.add(1, slope * (a / (of_a * of_b) - b_own),
                  std::abs(slope) * (std::abs(a) / (of_a * of_b) + std::abs(b_own)));
    }
  }
  return results.take();
}

// ---- triples: anchor, positive, negative

std::vector<Expected> exact_triplet(HostTensors in, bool swap) {
  const Rows rows{in};
  rows.refuse_no_columns("triplet_margin");
  Results results(4, {rows.count()});
  for (int64_t r = 0; r < rows.count(); ++r) {
    double near = 0, far = 0, cross = 0;
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double a = rows.at(0, r, c), p = rows.at(1, r, c), n = rows.at(2, r, c);
      near += (a - p + kEps) * (a - p + kEps), far += (a - n + kEps) * (a - n + kEps);
      cross += (p - n + kEps) * (p - n + kEps);
    }
    near = std::sqrt(near), far = std::sqrt(far), cross = std::sqrt(cross);
    results.add(0, std::max(near - (swap ? std::min(far, cross) : far) + kMargin, 0.0), near + far + 1);
    results.add(1, near, near);
    results.add(2, far, far);
    results.add(3, cross, cross);
  }
  return results.take();
}

// anchor, positive, negative, dloss, near, far, cross
std::vector<Expected> exact_triplet_grad(HostTensors in, bool swap) {
  const Rows rows{in};
  Results results(3, in[0].shape);
  for (int64_t r = 0; r < rows.count(); ++r) {
    const double near = rows.of(4, r), far = rows.of(5, r), cross = rows.of(6, r);
    const double of_far = !swap || far < cross ? 1 : far == cross ? 0.5 : 0;
    const double g = near - (swap ? std::min(far, cross) : far) + kMargin > 0 ? rows.of(3, r) : 0;
    for (int64_t c = 0; c < rows.columns(); ++c) {
      const double a = rows.at(0, r, c), p = rows.at(1, r, c), n = rows.at(2, r, c);
      const double u = (a - p + kEps) / near, v = of_far > 0 ? of_far * (a - n + kEps) / far : 0,
                   w = of_far < 1 ? (1 - of_far) * (p - n + kEps) / cross : 0;
      const double size = std::abs(g) * ((std::abs(a) + std::abs(p)) / near + (std::abs(a) + std::abs(n)) / far +
                                         (std::abs(p) + std::abs(n)) / cross);
      results.add(0, g * (u - v), size);
      results.add(1, -g * (u + w), size);
      results.add(2, g * (v + w), size);
    }
  }
  return results.take();
}

// ---- cases

struct Kernel {
  const KernelInfo& info;
  size_t inputs;
  std::vector<Scalar> scalars;
  std::function<std::vector<Expected>(HostTensors)> exact;
};

void add(const Kernel& kernel, const std::string& name, std::vector<Input> inputs) {
  add_case({.kernel = kernel.info.name,
            .name = name,
            .inputs = std::move(inputs),
            .dtypes = {DType::f32},
            .call = [=](Tensors x) { return run(kernel.info, x, kernel.inputs, kernel.scalars); },
            .reference = kernel.exact,
            .tolerance = terms()});
}

/// Of every loss of rows, and of its gradient.
void add_all(const std::string& name, const Shape& shape) {
  const Shape rows{shape[0]};
  const auto element = [&](double low, double high) { return Input{shape, {.low = low, .high = high}}; };
  const auto each = [&](double low, double high) {
    return Input{rows, {.low = low, .high = high}, Layout::dense, DType::f32};
  };
  const Input signs{rows, {Pattern::integers, -1, 1}, Layout::dense, DType::f32};
  const Input labels{.shape = rows,
                     .values = {Pattern::integers, -1, static_cast<double>(shape[1])},
                     .dtype = DType::i64,
                     .index_of = AxisOf{0, 1}};
  const Input weights{{shape[1]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32};
  const bool has_weights = shape[1] % 2 == 0;
  const auto with_weights = [&](std::vector<Input> inputs) {
    if (has_weights) inputs.push_back(weights);
    return inputs;
  };

  add({kernels::cross_entropy_of_probabilities, 3, {kSmoothing}, exact_probabilities}, name,
      with_weights({element(-8, 8), element(0, 1)}));
  add({kernels::cross_entropy_of_probabilities_grad, 6, {kSmoothing}, exact_probabilities_grad}, name,
      with_weights({element(-8, 8), element(0, 1), each(-1, 1), each(2, 9), each(1, 5)}));
  add({kernels::nll_of_labels, 3, {kIgnored}, exact_nll}, name, with_weights({element(-8, 0), labels}));
  add({kernels::nll_of_labels_grad, 4, {kIgnored}, exact_nll_grad}, name,
      with_weights({element(-8, 0), labels, each(-1, 1)}));
  add({kernels::cosine_embedding, 3, {kMargin, kEps}, exact_cosine}, name, {element(-1, 2), element(-1, 2), signs});
  add({kernels::cosine_embedding_grad, 7, {kMargin, kEps}, exact_cosine_grad}, name,
      {element(-1, 2), element(-1, 2), signs, each(-1, 1), each(-1, 1), each(0.5, 4), each(0.5, 4)});
  for (const bool swap : {false, true}) {
    const std::vector<Scalar> scalars{kMargin, kEps, int64_t{swap}};
    const std::string of = name + (swap ? "_swapped" : "");
    add({kernels::triplet_margin, 3, scalars, [=](HostTensors in) { return exact_triplet(in, swap); }}, of,
        {element(-1, 2), element(-1, 2), element(-1, 2)});
    add({kernels::triplet_margin_grad, 7, scalars, [=](HostTensors in) { return exact_triplet_grad(in, swap); }}, of,
        {element(-1, 2), element(-1, 2), element(-1, 2), each(-1, 1), each(0.5, 4), each(0.5, 4), each(0.5, 4)});
  }
}

// ---- weighted BCE: x, t, weight, pos_weight, and dy before them

/// f of the elements that meet, all broadcast: value and magnitude.
Expected broadcasted_terms(HostTensors in,
                           const std::function<std::pair<double, double>(const std::vector<double>&)>& f) {
  Shape shape = in[0].shape;
  for (const HostTensor& x : in) shape = broadcast("reference", shape, x.shape);
  std::vector<std::vector<double>> meeting(static_cast<size_t>(shape.numel()));
  for (const HostTensor& x : in) {
    size_t i = 0;
    for_each_index(shape, broadcast_strides(x.shape, shape),
                   [&](const Shape&, int64_t at) { meeting[i++].push_back(x.values[static_cast<size_t>(at)]); });
  }
  Expected y{shape, {}};
  for (const std::vector<double>& values : meeting) {
    const auto [value, magnitude] = f(values);
    y.values.push_back(value);
    y.magnitudes.push_back(magnitude + 1e-30);
  }
  return y;
}

double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

void add_weighted_bce(const std::string& name, const std::array<Shape, 4>& shapes) {
  const std::vector<Input> inputs{{shapes[0], {.low = -5, .high = 5}},
                                  {shapes[1], {.low = 0, .high = 1}},
                                  {shapes[2], {.low = 0.5, .high = 2}},
                                  {shapes[3], {.low = 0.25, .high = 4}}};
  const auto call = [](const KernelInfo& kernel, Tensors x) {
    return forms::Broadcast::call(kernel, {.inputs = std::vector<Tensor>(x.begin(), x.end())});
  };
  add_case({.kernel = "bce_with_logits_weighted",
            .name = name,
            .inputs = inputs,
            .dtypes = {DType::f32},
            .call = [=](Tensors x) { return call(kernels::bce_with_logits_weighted, x); },
            .reference =
                [](HostTensors in) {
                  return std::vector{broadcasted_terms(in, [](const std::vector<double>& v) {
                    const double positive = 1 + (v[3] - 1) * v[1],
                                 value = (1 - v[1]) * v[0] + positive * softplus_of(-v[0]);
                    return std::pair{v[2] * value,
                                     v[2] * (std::abs((1 - v[1]) * v[0]) + positive * (softplus_of(-v[0]) + 1))};
                  })};
                },
            .tolerance = terms(3e-6)});
  std::vector<Input> with_dy{{shapes[0], {.low = -1, .high = 1}}};
  with_dy.insert(with_dy.end(), inputs.begin(), inputs.end());
  add_case({.kernel = "bce_with_logits_weighted_slope",
            .name = name,
            .inputs = with_dy,
            .dtypes = {DType::f32},
            .call = [=](Tensors x) { return call(kernels::bce_with_logits_weighted_slope, x); },
            .reference =
                [](HostTensors in) {
                  return std::vector{broadcasted_terms(in, [](const std::vector<double>& v) {
                    const double positive = (1 + (v[4] - 1) * v[2]) / (1 + std::exp(v[1])), rest = 1 - v[2];
                    return std::pair{v[0] * v[3] * (rest - positive), std::abs(v[0]) * v[3] * (rest + positive)};
                  })};
                },
            .tolerance = terms(3e-6)});
}

}  // namespace

void add_row_loss_cases() {
  for (const int64_t columns : {1, 3, 10, 17, 33, 128, 130, 512, 600, 1024, 2051, 4096, 5001, 8192, 16392}) {
    add_all("columns_" + std::to_string(columns), {5, columns});
  }
  for (const int64_t rows : {0, 1, 33, 1025, 20000}) add_all(std::to_string(rows) + "_rows_of_12", {rows, 12});
  for (const Shape& shape : kManyRows) add_all(name_of_rows(shape), shape);
  add_weighted_bce("37x11", {Shape{37, 11}, Shape{37, 11}, Shape{}, Shape{11}});
  add_weighted_bce("flat", {Shape{9001}, Shape{9001}, Shape{9001}, Shape{9001}});
  add_weighted_bce("broadcast", {Shape{7, 6, 5}, Shape{6, 5}, Shape{7, 1, 1}, Shape{5}});
  add_weighted_bce("none", {Shape{0, 3}, Shape{0, 3}, Shape{}, Shape{3}});
}

}  // namespace ashlar::conformance
