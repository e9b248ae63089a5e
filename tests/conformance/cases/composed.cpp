// Products, comparisons, norms and losses of rows that are composed of other operators, against straight loops.
#include "tests/conformance/cases/composed.h"

#include <algorithm>
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"

namespace ashlar::conformance {
namespace {

/// Rows along the last axis.
struct LastAxis {
  const HostTensor& x;
  int64_t columns() const { return x.shape.back(); }
  int64_t rows() const {
    Shape shape = x.shape;
    shape.erase(shape.rank() - 1);
    return shape.numel();
  }
  double operator()(int64_t r, int64_t c) const { return x.values[static_cast<size_t>(r * columns() + c)]; }
};

Shape without_last(Shape shape) {
  shape.erase(shape.rank() - 1);
  return shape;
}

// ---- products

void add_linear(const std::string& name, const Shape& x, int64_t out, bool has_bias) {
  std::vector<Input> inputs{{x}, {{out, x.back()}}};
  if (has_bias) inputs.push_back({{out}});
  const auto run = [=](const auto& in) {
    using namespace ad;
    using T = std::decay_t<decltype(in[0])>;
    return T(linear(in[0], in[1], has_bias ? in[2] : T()));
  };
  add_composed(drawn({"linear", name, inputs, [=](Tensors in) { return run(in); }, [=](Vars in) { return run(in); },
                      [=](HostTensors in) {
                        const LastAxis a{in[0]}, w{in[1]};
                        const int64_t outputs = w.rows();
                        Expected y{without_last(in[0].shape), {}, {}};
                        y.shape.push_back(outputs);
                        for (int64_t r = 0; r < a.rows(); r++)
                          for (int64_t o = 0; o < outputs; o++) {
                            double sum = has_bias ? in[2].values[static_cast<size_t>(o)] : 0, size = std::abs(sum);
                            for (int64_t i = 0; i < a.columns(); i++)
                              sum += a(r, i) * w(o, i), size += std::abs(a(r, i) * w(o, i));
                            y.values.push_back(sum);
                            y.magnitudes.push_back(size);
                          }
                        return y;
                      },
                      has_bias ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1}}));
}

void add_bilinear(const Shape& rows, int64_t in1, int64_t in2, int64_t out) {
  const auto with = [&](int64_t last) {
    Shape shape = rows;
    shape.push_back(last);
    return shape;
  };
  const auto run = [](const auto& in) {
    using namespace ad;
    return bilinear(in[0], in[1], in[2], in[3]);
  };
  add_composed(cancelling({"bilinear",
                           rows.str(),
                           {{with(in1)}, {with(in2)}, {{out, in1, in2}}, {{out}}},
                           [=](Tensors in) { return run(in); },
                           [=](Vars in) { return run(in); },
                           [=](HostTensors in) {
                             const LastAxis a{in[0]}, b{in[1]};
                             Expected y{without_last(in[0].shape), {}, {}};
                             y.shape.push_back(out);
                             for (int64_t r = 0; r < a.rows(); r++)
                               for (int64_t o = 0; o < out; o++) {
                                 double sum = in[3].values[static_cast<size_t>(o)], size = std::abs(sum);
                                 for (int64_t i = 0; i < in1; i++)
                                   for (int64_t j = 0; j < in2; j++) {
                                     const double term =
                                         a(r, i) * b(r, j) * in[2].values[static_cast<size_t>((o * in1 + i) * in2 + j)];
                                     sum += term;
                                     size += std::abs(term);
                                   }
                                 y.values.push_back(sum);
                                 y.magnitudes.push_back(size);
                               }
                             return y;
                           },
                           {0, 1, 2, 3}}));
}

// ---- elements

void add_elements() {
  for (const bool is_strict : {true, false}) {
    const auto run = [=](const Tensor& a, const Tensor& b) { return is_strict ? gt(a, b) : ge(a, b); };
    for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
      add_composed(drawn({is_strict ? "gt" : "ge",
                          std::string(ashlar::name_of(dtype)),
                          {{{7, 1, 5}, {Pattern::integers}}, {{6, 5}, {Pattern::integers}}},
                          [=](Tensors in) { return run(in[0], in[1]); },
                          nullptr,
                          [=](HostTensors in) {
                            Expected y = broadcasted(
                                in[0], in[1], [=](double a, double b) -> double { return is_strict ? a > b : a >= b; });
                            y.dtype = DType::boolean;
                            return y;
                          },
                          {0},
                          {dtype},
                          kExact}));
    }
  }
  const auto cut = [](const auto& x) {
    using namespace ad;
    return threshold(x, 0.25, -1.5);
  };
  add_composed(drawn({"threshold",
                      "37x11",
                      {{{37, 11}}},
                      [=](Tensors in) { return cut(in[0]); },
                      [=](Vars in) { return cut(in[0]); },
                      [](HostTensors in) { return pointwise(in[0], [](double x) { return x <= 0.25 ? -1.5 : x; }); }}));
  const auto shuffled = [](const auto& x) {
    using namespace ad;
    return channel_shuffle(x, 3);
  };
  add_composed({"channel_shuffle",
                "2x6x5",
                {{{2, 6, 5}}},
                [=](Tensors in) { return shuffled(in[0]); },
                [=](Vars in) { return shuffled(in[0]); },
                [](HostTensors in) {
                  Expected y{in[0].shape, {}, {}};
                  for_each_index(y.shape, dense_strides(y.shape), [&](const Shape& at, int64_t) {
                    const int64_t from = at[1] % 3 * 2 + at[1] / 3;
                    y.values.push_back(in[0].values[static_cast<size_t>((at[0] * 6 + from) * 5 + at[2])]);
                  });
                  return y;
                }});
}

/// Of tensors that differ along the axis, two or three.
void add_concat(const std::vector<int64_t>& sizes, int64_t axis, std::vector<DType> dtypes) {
  std::vector<Input> inputs;
  std::vector<int> all;
  Shape whole{3, 2, 4};
  whole[static_cast<int>(axis)] = 0;
  for (const int64_t size : sizes) {
    Shape shape{3, 2, 4};
    shape[static_cast<int>(axis)] = size;
    whole[static_cast<int>(axis)] += size;
    all.push_back(static_cast<int>(inputs.size()));
    inputs.push_back({shape});
  }
  const bool has_three = sizes.size() == 3;
  const auto run = [=](const auto& in) {
    using namespace ad;
    using T = std::decay_t<decltype(in[0])>;
    return concat(in[0], in[1], T(), has_three ? in[2] : T(), T(), T(), T(), T(), axis);
  };
  const bool is_float = is_floating(dtypes[0]);
  add_composed({"concat", std::to_string(sizes.size()) + " along " + std::to_string(axis) + (is_float ? "" : ", whole"),
                inputs, [=](Tensors in) { return run(in); },
                is_float ? std::function<Var(Vars)>([=](Vars in) { return run(in); }) : nullptr,
                [=](HostTensors in) {
                  Expected y{whole, {}, {}};
                  for_each_index(whole, dense_strides(whole), [&](const Shape& place, int64_t) {
                    Shape at = place;
                    size_t from = 0;
                    while (at[static_cast<int>(axis)] >= sizes[from]) at[static_cast<int>(axis)] -= sizes[from++];
                    const Shape strides = dense_strides(in[from].shape);
                    int64_t offset = 0;
                    for (int i = 0; i < 3; i++) offset += at[i] * strides[i];
                    y.values.push_back(in[from].values[static_cast<size_t>(offset)]);
                  });
                  return y;
                },
                all, dtypes});
}

// ---- rows

void add_softmin(const Shape& shape, int64_t axis) {
  const auto run = [=](const auto& x) {
    using namespace ad;
    return softmin(x, axis);
  };
  add_composed(cancelling(drawn({"softmin",
                                 shape.str() + " along " + std::to_string(axis),
                                 {{shape}},
                                 [=](Tensors in) { return run(in[0]); },
                                 [=](Vars in) { return run(in[0]); },
                                 [=](HostTensors in) {
                                   return row_wise(in[0], axis,
                                                   [](const std::vector<double>& row, double* y, double* size) {
                                                     double sum = 0;
                                                     for (const double x : row) sum += std::exp(-x);
                                                     for (size_t i = 0; i < row.size(); i++)
                                                       y[i] = std::exp(-row[i]) / sum, size[i] = 4 * y[i];
                                                   });
                                 }})));
}

double norm_of(const std::vector<double>& row, double p) {
  double sum = 0;
  for (const double x : row) sum += std::pow(std::abs(x), p);
  return std::pow(sum, 1 / p);
}

void add_norms(double p) {
  const std::string name = "p = " + std::to_string(p);
  const auto normal = [=](const auto& x) {
    using namespace ad;
    return normalize(x, 1, p);
  };
  add_composed(cancelling({"normalize",
                           name,
                           {{{3, 5, 4}}},
                           [=](Tensors in) { return normal(in[0]); },
                           [=](Vars in) { return normal(in[0]); },
                           [=](HostTensors in) {
                             return row_wise(in[0], 1, [=](const std::vector<double>& row, double* y, double* size) {
                               const double norm = norm_of(row, p);
                               for (size_t i = 0; i < row.size(); i++) y[i] = row[i] / norm, size[i] = 1;
                             });
                           }}));
  const auto apart = [=](const auto& a, const auto& b) {
    using namespace ad;
    return pairwise_distance(a, b, p, 1e-6, true);
  };
  add_composed(cancelling({"pairwise_distance",
                           name,
                           {{{4, 6}}, {{4, 6}}},
                           [=](Tensors in) { return apart(in[0], in[1]); },
                           [=](Vars in) { return apart(in[0], in[1]); },
                           [=](HostTensors in) {
                             const LastAxis a{in[0]}, b{in[1]};
                             Expected y{{4, 1}, {}, {}};
                             for (int64_t r = 0; r < 4; r++) {
                               std::vector<double> row;
                               for (int64_t c = 0; c < 6; c++) row.push_back(a(r, c) - b(r, c) + 1e-6);
                               y.values.push_back(norm_of(row, p));
                               y.magnitudes.push_back(4 * y.values.back() + 8);
                             }
                             return y;
                           },
                           {0, 1}}));
}

double cosine_of(const LastAxis& a, const LastAxis& b, int64_t r) {
  double dot = 0, aa = 0, bb = 0;
  for (int64_t c = 0; c < a.columns(); c++) dot += a(r, c) * b(r, c), aa += a(r, c) * a(r, c), bb += b(r, c) * b(r, c);
  return dot / (std::max(std::sqrt(aa), 1e-8) * std::max(std::sqrt(bb), 1e-8));
}

// ---- losses

/// Losses of rows by a reduction 0, 1 or 2; `counted` is what each has in a mean.
Expected reduced_rows(const Shape& shape, const std::vector<double>& losses, int reduction,
                      const std::vector<double>& counted, double size, std::optional<DType> dtype) {
  if (reduction == 0) return {shape, losses, std::vector<double>(losses.size(), size), dtype};
  double sum = 0, count = 0;
  for (const double loss : losses) sum += loss;
  for (const double one : counted) count += one;
  const double scale = reduction == 1 ? 1 / count : 1;
  return {{}, {sum * scale}, {size * static_cast<double>(losses.size()) * std::abs(scale)}, dtype};
}

const std::string kReductions[] = {"none", "mean", "sum"};

/// Classes along axis 1 of x: calls f(row, element of class c) of each row, in the order of x's other axes.
template <class F>
void for_each_row(const HostTensor& x, const F& f) {
  const Shape strides = dense_strides(x.shape);
  Shape others = x.shape, steps = strides;
  const int axis = x.shape.rank() == 1 ? 0 : 1;
  others.erase(axis);
  steps.erase(axis);
  size_t row = 0;
  for_each_index(others, steps, [&](const Shape&, int64_t offset) {
    std::vector<double> classes;
    for (int64_t c = 0; c < x.shape[axis]; c++) {
      classes.push_back(x.values[static_cast<size_t>(offset + c * strides[axis])]);
    }
    f(row++, classes);
  });
}

struct Classes {
  std::string name;
  Shape logits;
  int reduction;
  bool has_weight = true;
  double smoothing = 0;
  int64_t ignored = 2;

  Shape rows() const {
    Shape shape = logits;
    shape.erase(axis());
    return shape;
  }
  int axis() const { return logits.rank() == 1 ? 0 : 1; }
  std::vector<Input> inputs(bool of_probabilities, Values values) const {
    const auto last = static_cast<double>(logits[axis()] - 1);
    std::vector<Input> all{{logits, values}};
    if (of_probabilities) {
      all.push_back({logits, {.low = 0.1, .high = 1}});
    } else {
      all.push_back({.shape = rows(), .values = {Pattern::integers, 0, last}, .dtype = DType::i64});
    }
    if (has_weight) all.push_back({{logits[axis()]}, {.low = 0.5, .high = 2}, Layout::dense, DType::f32});
    return all;
  }
  double weight(HostTensors in, size_t c) const { return has_weight ? in[2].values[c] : 1; }
};

std::vector<double> log_softmax_of(const std::vector<double>& row) {
  double largest = row[0], sum = 0;
  for (const double x : row) largest = std::max(largest, x);
  for (const double x : row) sum += std::exp(x - largest);
  std::vector<double> y;
  for (const double x : row) y.push_back(x - largest - std::log(sum));
  return y;
}

/// A mean of labels that are all ignored, as they may be drawn, is NaN.
ComposedCase unless_none_count(ComposedCase of, int reduction) {
  of.is_drawn = reduction != 1;
  return of;
}

void add_cross_entropy(const Classes& of, bool of_probabilities) {
  const auto run = [=](const auto& in) {
    using namespace ad;
    using T = std::decay_t<decltype(in[0])>;
    return T(cross_entropy_loss(in[0], in[1], CrossEntropyLossReduction(of.reduction), of.ignored,
                                of.has_weight ? in[2] : T(), of.smoothing));
  };
  add_composed(unless_none_count(
      {"cross_entropy_loss",
       of.name + (of_probabilities ? ", probabilities, " : ", labels, ") + kReductions[of.reduction],
       of.inputs(of_probabilities, {}), [=](Tensors in) { return run(in); }, [=](Vars in) { return run(in); },
       [=](HostTensors in) {
         std::vector<double> losses, counted;
         std::vector<std::vector<double>> targets;
         if (of_probabilities) for_each_row(in[1], [&](size_t, const auto& row) { targets.push_back(row); });
         for_each_row(in[0], [&](size_t r, const auto& logits) {
           const std::vector<double> y = log_softmax_of(logits);
           const double each = of.smoothing / static_cast<double>(y.size());
           double loss = 0, count = 1;
           const bool is_ignored = !of_probabilities && in[1].values[r] == static_cast<double>(of.ignored);
           for (size_t c = 0; c < y.size(); c++) {
             const double own = of_probabilities ? targets[r][c] : in[1].values[r] == static_cast<double>(c);
             loss -= of.weight(in, c) * ((1 - of.smoothing) * own + each) * y[c];
             if (!of_probabilities && own != 0) count = of.weight(in, c);
           }
           losses.push_back(is_ignored ? 0 : loss);
           counted.push_back(is_ignored ? 0 : count);
         });
         return reduced_rows(of.rows(), losses, of.reduction, counted, 20, DType::f32);
       },
       of_probabilities ? std::vector<int>{0, 1} : std::vector<int>{0}},
      of.reduction));
}

void add_nll(const Classes& of) {
  const auto run = [=](const auto& in) {
    using namespace ad;
    using T = std::decay_t<decltype(in[0])>;
    if constexpr (std::same_as<T, Tensor>) {
      return nll_loss(in[0], in[1], NllLossReduction(of.reduction), of.ignored, of.has_weight ? in[2] : T());
    } else {
      return nll_loss(in[0], in[1].value(), NllLossReduction(of.reduction), of.ignored, of.has_weight ? in[2] : T());
    }
  };
  add_composed(unless_none_count(
      {"nll_loss", of.name + ", " + kReductions[of.reduction], of.inputs(false, {.low = -4, .high = 0}),
       [=](Tensors in) { return run(in); }, [=](Vars in) { return run(in); },
       [=](HostTensors in) {
         std::vector<double> losses, counted;
         for_each_row(in[0], [&](size_t r, const auto& row) {
           const auto label = static_cast<size_t>(in[1].values[r]);
           const bool is_ignored = static_cast<int64_t>(label) == of.ignored;
           losses.push_back(is_ignored ? 0 : -of.weight(in, label) * row[label]);
           counted.push_back(is_ignored ? 0 : of.weight(in, label));
         });
         return reduced_rows(of.rows(), losses, of.reduction, counted, 8, DType::f32);
       }},
      of.reduction));
}

void add_pairs(int reduction) {
  const Shape shape{6, 7};
  const Input signs{{6}, {Pattern::integers, -1, 1}, Layout::dense, DType::f32};
  const std::vector<double> counted(6, 1);
  const auto similar = [](const auto& a, const auto& b, int64_t axis) {
    using namespace ad;
    return cosine_similarity(a, b, axis);
  };
  const auto embedded = [=](const auto& in) {
    using namespace ad;
    return cosine_embedding_loss(in[0], in[1], in[2], 0.1, CosineEmbeddingLossReduction(reduction));
  };
  const auto ranked = [=](const auto& in) {
    using namespace ad;
    return margin_ranking_loss(in[0], in[1], in[2], 0.3, MarginRankingLossReduction(reduction));
  };
  const std::string& name = kReductions[reduction];
  if (reduction == 0) {
    add_composed(cancelling({"cosine_similarity",
                             "last axis",
                             {{shape}, {shape}},
                             [=](Tensors in) { return similar(in[0], in[1], -1); },
                             [=](Vars in) { return similar(in[0], in[1], -1); },
                             [=](HostTensors in) {
                               Expected y{{6}, {}, {}};
                               for (int64_t r = 0; r < 6; r++) {
                                 y.values.push_back(cosine_of({in[0]}, {in[1]}, r));
                                 y.magnitudes.push_back(4);
                               }
                               return y;
                             },
                             {0, 1}}));
  }
  add_composed({"cosine_embedding_loss",
                name,
                {{shape}, {shape}, signs},
                [=](Tensors in) { return embedded(in); },
                [=](Vars in) { return embedded(in); },
                [=](HostTensors in) {
                  std::vector<double> losses;
                  for (int64_t r = 0; r < 6; r++) {
                    const double angle = cosine_of({in[0]}, {in[1]}, r), sign = in[2].values[static_cast<size_t>(r)];
                    losses.push_back(sign == 1 ? 1 - angle : sign == -1 ? std::max(angle - 0.1, 0.0) : 0);
                  }
                  return reduced_rows({6}, losses, reduction, counted, 2, {});
                },
                {0, 1}});
  add_composed({"margin_ranking_loss",
                name,
                {{{6}}, {{6}}, signs},
                [=](Tensors in) { return ranked(in); },
                [=](Vars in) { return ranked(in); },
                [=](HostTensors in) {
                  std::vector<double> losses;
                  for (size_t i = 0; i < 6; i++) {
                    losses.push_back(std::max(0.3 - in[2].values[i] * (in[0].values[i] - in[1].values[i]), 0.0));
                  }
                  return reduced_rows({6}, losses, reduction, counted, 5, {});
                },
                {0, 1}});
}

void add_triplet(int reduction, bool swap) {
  const auto run = [=](const auto& in) {
    using namespace ad;
    return triplet_margin_loss(in[0], in[1], in[2], 0.7, 1e-6, swap, TripletMarginLossReduction(reduction));
  };
  add_composed({"triplet_margin_loss",
                kReductions[reduction] + (swap ? ", swapped" : ""),
                {{{5, 6}}, {{5, 6}}, {{5, 6}}},
                [=](Tensors in) { return run(in); },
                [=](Vars in) { return run(in); },
                [=](HostTensors in) {
                  const LastAxis a{in[0]}, p{in[1]}, n{in[2]};
                  std::vector<double> losses;
                  for (int64_t r = 0; r < 5; r++) {
                    const auto apart = [&](const LastAxis& x, const LastAxis& y) {
                      double sum = 0;
                      for (int64_t c = 0; c < 6; c++) sum += std::pow(x(r, c) - y(r, c) + 1e-6, 2);
                      return std::sqrt(sum);
                    };
                    const double far = swap ? std::min(apart(a, n), apart(p, n)) : apart(a, n);
                    losses.push_back(std::max(apart(a, p) - far + 0.7, 0.0));
                  }
                  return reduced_rows({5}, losses, reduction, std::vector<double>(5, 1), 12, {});
                },
                {0, 1, 2}});
}

}  // namespace

void add_composed_cases() {
  add_linear("37x11 to 5", {37, 11}, 5, true);
  add_linear("without a bias", {2, 3, 7}, 4, false);
  add_linear("one row", {9}, 3, true);
  add_bilinear({4}, 3, 5, 2);
  add_bilinear({2, 3}, 4, 2, 3);
  add_elements();
  for (const int64_t axis : {0, 1, 2}) {
    add_concat({2, 3}, axis, {DType::f32, DType::f16, DType::bf16});
    add_concat({1, 4, 2}, axis, {DType::f32, DType::f16, DType::bf16});
  }
  add_concat({2, 1}, 0, {DType::i64});
  add_softmin({5, 9}, -1);
  add_softmin({3, 4, 5}, 1);
  add_norms(2);
  add_norms(3);
  for (const int reduction : {0, 1, 2}) {
    for (const bool of_probabilities : {false, true}) {
      add_cross_entropy({"7x5", {7, 5}, reduction}, of_probabilities);
      add_cross_entropy({"smoothed", {3, 4, 2, 3}, reduction, true, 0.1}, of_probabilities);
      add_cross_entropy({"one row", {5}, reduction, false, 0.2, -100}, of_probabilities);
    }
    add_nll({"7x5", {7, 5}, reduction});
    add_nll({"images", {3, 4, 2, 3}, reduction, false, 0, -100});
    add_pairs(reduction);
    for (const bool swap : {false, true}) add_triplet(reduction, swap);
  }
}

}  // namespace ashlar::conformance
