// scaled_dot_product_attention and the kernels of its gradients.
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/attention.h"
#include "runtime/forms/attention.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Options {
  bool is_causal = false;
  double scale = 0;
  double dropped = 0;  ///< part of the weights, where a state is given
};

/// The sizes of a call, whatever its rank: [batch, heads, rows, width], [batch, rows, width] or [rows, width].
struct Sizes {
  int64_t batch, heads, key_heads, queries, keys, width, value_width;
  Sizes(const HostTensor& query, const HostTensor& key, const HostTensor& value) {
    const int rank = query.shape.rank();
    batch = rank > 2 ? query.shape[0] : 1;
    heads = rank > 3 ? query.shape[1] : 1;
    key_heads = rank > 3 ? key.shape[1] : 1;
    queries = query.shape[rank - 2];
    keys = key.shape[rank - 2];
    width = query.shape[rank - 1];
    value_width = value.shape[rank - 1];
    if (width == 0) throw ShapeError("attention", "a width of 0", "1 or more", "");
  }
};

/// Everything of one head that takes part: its weights, row by row, and what is made of them.
struct Head {
  std::vector<double> weights, logsumexp, largest;
};

double mask_at(const HostTensor& mask, int64_t b, int64_t h, int64_t q, int64_t k, int rank) {
  Shape shape = mask.shape;
  while (shape.rank() < rank) shape.insert(0, 1);
  if (rank < 4) shape.insert(rank == 3 ? 1 : 0, 1);
  while (shape.rank() < 4) shape.insert(0, 1);
  const int64_t index[] = {b, h, q, k};
  int64_t at = 0;
  for (int axis = 0; axis < 4; axis++) at = at * shape[axis] + (shape[axis] == 1 ? 0 : index[axis]);
  const double value = mask.values[static_cast<size_t>(at)];
  return mask.dtype == DType::boolean ? (value != 0 ? 0 : -kInfinity) : value;
}

/// What dropout multiplies a head's weights by: 0 or 1 / (1 - p), by word 2 (q % 2) + k % 2 of a block for each pair of
/// queries and pair of keys.
std::vector<double> factors_of(const HostTensor* state, double p, const Sizes& n, int64_t head) {
  std::vector<double> factors(static_cast<size_t>(n.queries * n.keys), 1.0);
  for (int64_t q = 0; state != nullptr && q < n.queries; q++) {
    for (int64_t k = 0; k < n.keys; k++) {
      const int64_t pair = (head * ((n.queries + 1) / 2) + q / 2) * ((n.keys + 1) / 2) + k / 2;
      const auto block = static_cast<uint64_t>(static_cast<int64_t>(state->values[1]) + pair);
      const auto words =
          ashlar::Random::philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                                 static_cast<uint64_t>(static_cast<int64_t>(state->values[0])));
      const bool is_kept = words[static_cast<size_t>(q % 2 * 2 + k % 2)] >> 8 >= std::ceil(p * 0x1p24);
      factors[static_cast<size_t>(q * n.keys + k)] = is_kept ? 1 / (1 - p) : 0;
    }
  }
  return factors;
}

Head weights_of(HostTensors in, const HostTensor* mask, const Options& options, const Sizes& n, int64_t b, int64_t h) {
  const HostTensor &query = in[0], &key = in[1];
  const int64_t key_head = h / (n.heads / n.key_heads);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(n.width));
  Head head;
  for (int64_t q = 0; q < n.queries; q++) {
    std::vector<double> row;
    double largest = -kInfinity, sum = 0, terms = 0;
    for (int64_t k = 0; k < n.keys; k++) {
      double dot = 0, size = 0;
      for (int64_t c = 0; c < n.width; c++) {
        const double term = query.values[((b * n.heads + h) * n.queries + q) * n.width + c] *
                            key.values[((b * n.key_heads + key_head) * n.keys + k) * n.width + c] * scale;
        dot += term;
        size += std::abs(term);
      }
      const double added = mask == nullptr ? 0 : mask_at(*mask, b, h, q, k, query.shape.rank());
      row.push_back(options.is_causal && k > q ? -kInfinity : dot + added);
      largest = max_of(largest, row.back());
      if (std::isfinite(added)) terms = max_of(terms, size + std::abs(added));
    }
    for (double& s : row) {
      s = largest == -kInfinity ? 0 : std::exp(s - largest);
      sum += s;
    }
    for (const double s : row) head.weights.push_back(largest == -kInfinity ? 0 : s / sum);
    head.logsumexp.push_back(largest == -kInfinity ? -kInfinity : largest + std::log(sum));
    head.largest.push_back(terms);
  }
  return head;
}

/// y and logsumexp. What a score is off by, its weight is off by relatively. `state`: of dropout.
std::vector<Expected> attended(HostTensors in, const HostTensor* mask, const Options& options,
                               const HostTensor* state = nullptr) {
  const Sizes n(in[0], in[1], in[2]);
  Shape rows = in[0].shape;
  rows.erase(rows.rank() - 1);
  Shape shape = rows;
  shape.push_back(n.value_width);
  Expected y{shape, {}, {}}, logsumexp{rows, {}, {}, DType::f32};
  for (int64_t b = 0; b < n.batch; b++) {
    for (int64_t h = 0; h < n.heads; h++) {
      const Head head = weights_of(in, mask, options, n, b, h);
      const std::vector<double> factors = factors_of(state, options.dropped, n, b * n.heads + h);
      const int64_t key_head = h / (n.heads / n.key_heads);
      for (int64_t q = 0; q < n.queries; q++) {
        for (int64_t c = 0; c < n.value_width; c++) {
          double sum = 0, size = 0;
          for (int64_t k = 0; k < n.keys; k++) {
            const double term = head.weights[q * n.keys + k] * factors[q * n.keys + k] *
                                in[2].values[((b * n.key_heads + key_head) * n.keys + k) * n.value_width + c];
            sum += term;
            size += std::abs(term);
          }
          y.values.push_back(sum);
          y.magnitudes.push_back(size * (1 + head.largest[q]));
        }
        logsumexp.values.push_back(head.logsumexp[q]);
        logsumexp.magnitudes.push_back(1 + head.largest[q] + std::abs(head.logsumexp[q]));
      }
    }
  }
  return {y, logsumexp};
}

struct Problem {
  Shape query, key, value;
  Options options = {};
  std::optional<Input> mask = {};
  bool is_differentiated = true;
};

Case example(std::string name, const Problem& p) {
  // So small that what is left where a gradient's terms cancel, as they do for a single key, is below its floor, which
  // grows with the values' width.
  const Values values{.low = -1, .high = 1};
  const Options options = p.options;
  const bool has_mask = p.mask.has_value();
  Case item{
      .kernel = "scaled_dot_product_attention",
      .name = std::move(name),
      .inputs = {{p.query, values}, {p.key, values}, {p.value, values}},
      .call =
          [options, has_mask](Tensors in) {
            const auto [y, logsumexp] = scaled_dot_product_attention(in[0], in[1], in[2], has_mask ? in[3] : Tensor(),
                                                                     options.is_causal, options.scale);
            return std::vector{y, logsumexp};
          },
      .reference = [options, has_mask](HostTensors in) { return attended(in, has_mask ? &in[3] : nullptr, options); },
      .tolerance = terms(),
      .fixed_shapes = p.query.rank() > 3 && p.query[1] != p.key[1]};
  if (has_mask) item.inputs.push_back(*p.mask);
  if (!p.is_differentiated) return item;
  item.differentiable = [options, has_mask](Vars in) {
    return ad::scaled_dot_product_attention(in[0], in[1], in[2], has_mask ? in[3] : Var(), options.is_causal,
                                            options.scale)
        .y;
  };
  item.differentiated = {0, 1, 2};
  // What rounding to 16 bits takes from a saved y can be as large as a gradient that is left when terms cancel. The
  // gradients' kernels have cases of their own in these types.
  item.gradient_dtypes = {DType::f32};
  item.gradient_sums_over = 2;
  const bool is_added = has_mask && p.mask->dtype != DType::boolean;
  if (is_added && p.mask->values.pattern == Pattern::uniform) item.differentiated.push_back(3);
  return item;
}

/// With all weights in memory, whatever the sizes.
Case example_by_pairs(std::string name, Problem p) {
  p.is_differentiated = false;
  Case item = example(std::move(name), p);
  item.kernel = "attention_by_pairs";
  item.call = [options = p.options, has_mask = p.mask.has_value()](Tensors in) {
    return forms::Attention::call(ashlar::kernels::attention_by_pairs,
                                  {.inputs = std::array{in[0], in[1], in[2], has_mask ? in[3] : Tensor()},
                                   .scalars = std::array<Scalar, 1>{options.scale},
                                   .options = std::array<OptionValue, 1>{int64_t{options.is_causal}}});
  };
  return item;
}

const Input kState{.shape = {2}, .values = {Pattern::integers, -0x1p40, 0x1p40}, .dtype = DType::i64};

/// With dropout: the state stands behind the value.
Case dropped_example(std::string name, const Problem& p) {
  Case item = example(std::move(name), p);
  const Options options = p.options;
  const bool has_mask = p.mask.has_value();
  item.kernel = "attention_dropout_at";
  item.inputs.insert(item.inputs.begin() + 3, kState);
  item.call = [options, has_mask](Tensors in) {
    const auto [y, logsumexp] = attention_dropout_at(in[0], in[1], in[2], in[3], has_mask ? in[4] : Tensor(),
                                                     options.is_causal, options.dropped, options.scale);
    return std::vector{y, logsumexp};
  };
  item.reference = [options, has_mask](HostTensors in) {
    return attended(in, has_mask ? &in[4] : nullptr, options, &in[3]);
  };
  item.is_drawn = false;  // drawn anew, a state would have another shape
  if (!item.differentiable) return item;
  item.differentiable = [options, has_mask](Vars in) {
    return ad::attention_dropout_at(in[0], in[1], in[2], in[3].value(), has_mask ? in[4] : Var(), options.is_causal,
                                    options.dropped, options.scale)
        .y;
  };
  for (int& index : item.differentiated) index += index > 2;
  return item;
}

/// What attention_{query,key,value}_grad make of dy, query, key, value, logsumexp, delta and maybe a mask.
enum class Wanted { query, key, value };

Expected gradient_of(HostTensors in, const HostTensor* mask, const Options& options, Wanted wanted,
                     const HostTensor* state = nullptr) {
  const HostTensor &dy = in[0], &query = in[1], &key = in[2], &value = in[3], &logsumexp = in[4], &delta = in[5];
  const Sizes n(query, key, value);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(n.width));
  const HostTensor& like = wanted == Wanted::query ? query : wanted == Wanted::key ? key : value;
  Expected result{like.shape, std::vector<double>(like.values.size()), std::vector<double>(like.values.size())};
  const auto row_of = [](const HostTensor& x, int64_t row) {
    return &x.values[static_cast<size_t>(row * x.shape.back())];
  };
  const auto dot = [](const double* a, const double* b, int64_t length, double& size) {
    double sum = 0;
    for (int64_t c = 0; c < length; c++) {
      sum += a[c] * b[c];
      size += std::abs(a[c] * b[c]);
    }
    return sum;
  };
  for (int64_t head = 0; head < n.batch * n.heads; head++) {
    const int64_t b = head / n.heads, h = head % n.heads, key_head = b * n.key_heads + h / (n.heads / n.key_heads);
    const std::vector<double> factors = factors_of(state, options.dropped, n, head);
    for (int64_t q = 0; q < n.queries; q++) {
      const int64_t query_row = head * n.queries + q;
      const double of_row = n.value_width == 0 ? 0 : delta.values[query_row];  // a sum over values' width
      for (int64_t k = 0; k < n.keys; k++) {
        const int64_t key_row = key_head * n.keys + k;
        const double added = mask == nullptr ? 0 : mask_at(*mask, b, h, q, k, query.shape.rank());
        if ((options.is_causal && k > q) || added == -kInfinity) continue;
        double size = 0, slope_size = 0;
        const double score = scale * dot(row_of(query, query_row), row_of(key, key_row), n.width, size) + added;
        const double weight = std::exp(score - logsumexp.values[query_row]);
        const double off = 1 + scale * size + std::abs(added) + std::abs(logsumexp.values[query_row]);
        const double kept = factors[static_cast<size_t>(q * n.keys + k)];
        double factor = kept * weight, factor_size = kept * weight * off;
        if (wanted != Wanted::value) {
          const double slope = dot(row_of(dy, query_row), row_of(value, key_row), n.value_width, slope_size);
          factor = scale * weight * (kept * slope - of_row);
          factor_size = scale * weight * off * (kept * slope_size + std::abs(of_row));
        }
        const double* other = wanted == Wanted::query ? row_of(key, key_row)
                              : wanted == Wanted::key ? row_of(query, query_row)
                                                      : row_of(dy, query_row);
        const int64_t width = like.shape.back(), to = (wanted == Wanted::query ? query_row : key_row) * width;
        for (int64_t c = 0; c < width; c++) {
          result.values[to + c] += factor * other[c];
          result.magnitudes[to + c] += std::abs(factor_size * other[c]);
        }
      }
    }
  }
  return result;
}

/// Of the kernels with dropout, too, which have the state behind delta.
void add_dropped_gradients(const std::string& name, const Problem& p, const std::vector<Input>& inputs) {
  const struct {
    const char* kernel;
    Wanted wanted;
    Tensor (*call)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, const Tensor&, bool, double, double);
  } kernels[] = {{"attention_dropout_query_grad", Wanted::query, attention_dropout_query_grad},
                 {"attention_dropout_key_grad", Wanted::key, attention_dropout_key_grad},
                 {"attention_dropout_value_grad", Wanted::value, attention_dropout_value_grad}};
  for (const auto& kernel : kernels) {
    const Options options = p.options;
    const bool has_mask = p.mask.has_value();
    Case item{
        .kernel = kernel.kernel,
        .name = name,
        .inputs = inputs,
        .call =
            [options, has_mask, call = kernel.call](Tensors in) {
              return std::vector{call(in[0], in[1], in[2], in[3], in[4], in[5], in[6], has_mask ? in[7] : Tensor(),
                                      options.is_causal, options.dropped, options.scale)};
            },
        .reference =
            [options, has_mask, wanted = kernel.wanted](HostTensors in) {
              return std::vector{gradient_of(in, has_mask ? &in[7] : nullptr, options, wanted, &in[6])};
            },
        .tolerance = terms(),
        .fixed_shapes = true,
        .is_drawn = false};
    item.inputs.insert(item.inputs.begin() + 6, kState);
    add_case(item);
  }
}

void add_gradient_examples(const std::string& name, const Problem& p) {
  const struct {
    const char* kernel;
    Wanted wanted;
    Tensor (*call)(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, bool, double);
  } kernels[] = {{"attention_query_grad", Wanted::query, attention_query_grad},
                 {"attention_key_grad", Wanted::key, attention_key_grad},
                 {"attention_value_grad", Wanted::value, attention_value_grad}};
  Shape dy = p.query, rows = p.query;
  dy[dy.rank() - 1] = p.value.back();
  rows.erase(rows.rank() - 1);
  std::vector<Input> inputs{{.shape = dy},
                            {.shape = p.query},
                            {.shape = p.key},
                            {.shape = p.value},
                            {.shape = rows, .values = {.low = 1, .high = 3}, .dtype = DType::f32},
                            {.shape = rows, .dtype = DType::f32}};
  if (p.mask.has_value()) inputs.push_back(*p.mask);
  if (p.options.dropped > 0) return add_dropped_gradients(name, p, inputs);
  for (const auto& kernel : kernels) {
    const Options options = p.options;
    const bool has_mask = p.mask.has_value();
    Case item{.kernel = kernel.kernel,
              .name = name,
              .inputs = inputs,
              .call =
                  [options, has_mask, call = kernel.call](Tensors in) {
                    return std::vector{call(in[0], in[1], in[2], in[3], in[4], in[5], has_mask ? in[6] : Tensor(),
                                            options.is_causal, options.scale)};
                  },
              .reference =
                  [options, has_mask, wanted = kernel.wanted](HostTensors in) {
                    return std::vector{gradient_of(in, has_mask ? &in[6] : nullptr, options, wanted)};
                  },
              .tolerance = terms(),
              .fixed_shapes = p.query.rank() > 3 && p.query[1] != p.key[1]};
    add_case(item);
  }
  const Options options = p.options;
  const bool has_mask = p.mask.has_value();
  // All three at once; by pairs also in pieces of the fewest queries.
  const auto by_kernel = [&options](const KernelInfo& kernel) {
    return [&kernel, options](const std::array<Tensor, 7>& in) {
      return forms::Attention::call(kernel, {.inputs = in,
                                             .scalars = std::array<Scalar, 1>{options.scale},
                                             .options = std::array<OptionValue, 1>{int64_t{options.is_causal}}});
    };
  };
  const struct {
    const char* kernel;
    std::string name;
    std::function<std::vector<Tensor>(const std::array<Tensor, 7>&)> call;
  } all_at_once[] = {{"attention_grads", name, by_kernel(ashlar::kernels::attention_grads)},
                     {"attention_pair_grads", name, by_kernel(ashlar::kernels::attention_pair_grads)},
                     {"attention_pair_grads", name + ", in pieces", [options](const std::array<Tensor, 7>& in) {
                        constexpr int64_t kMostBytes = 1;
                        return recipes::attention_grad_by_pairs(in, options.is_causal, options.scale, kMostBytes);
                      }}};
  for (const auto& [kernel, of, call] : all_at_once) {
    add_case({.kernel = kernel,
              .name = of,
              .inputs = inputs,
              .call =
                  [has_mask, call](Tensors in) {
                    return call({in[0], in[1], in[2], in[3], in[4], in[5], has_mask ? in[6] : Tensor()});
                  },
              .reference =
                  [options, has_mask](HostTensors in) {
                    std::vector<Expected> all;
                    for (const Wanted wanted : {Wanted::query, Wanted::key, Wanted::value}) {
                      all.push_back(gradient_of(in, has_mask ? &in[6] : nullptr, options, wanted));
                    }
                    return all;
                  },
              .tolerance = terms(),
              .fixed_shapes = p.query.rank() > 3 && p.query[1] != p.key[1]});
  }
}

}  // namespace

void add_attention_cases() {
  const auto boolean = [](const Shape& shape) {
    return Input{.shape = shape, .values = {Pattern::integers, 0, 1}, .dtype = DType::boolean};
  };
  const auto added = [](const Shape& shape, Pattern pattern = Pattern::uniform) {
    return Input{.shape = shape, .values = {pattern}, .dtype = DType::f32};
  };
  const struct {
    const char* name;
    Problem problem;
  } problems[] = {
      {"one of each", {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}}},
      {"small", {{2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 8}}},
      {"causal, odd", {{1, 2, 33, 17}, {1, 2, 33, 17}, {1, 2, 33, 17}, {.is_causal = true}}},
      {"causal, more keys", {{1, 1, 40, 8}, {1, 1, 100, 8}, {1, 1, 100, 8}, {.is_causal = true}}},
      {"causal, fewer keys", {{1, 1, 100, 8}, {1, 1, 40, 8}, {1, 1, 40, 8}, {.is_causal = true}}},
      {"shared heads", {{2, 6, 9, 16}, {2, 2, 70, 16}, {2, 2, 70, 16}}},
      {"shared heads, causal", {{1, 4, 35, 12}, {1, 1, 35, 12}, {1, 1, 35, 12}, {.is_causal = true, .scale = 0.3}}},
      {"values wider", {{1, 2, 10, 5}, {1, 2, 20, 5}, {1, 2, 20, 70}}},
      {"values narrower", {{1, 2, 10, 70}, {1, 2, 20, 70}, {1, 2, 20, 3}}},
      {"values of no width", {{1, 2, 10, 5}, {1, 2, 20, 5}, {1, 2, 20, 0}}},
      {"boolean mask", {{2, 2, 20, 8}, {2, 2, 37, 8}, {2, 2, 37, 8}, {}, boolean({2, 2, 20, 37})}},
      {"boolean mask of keys", {{2, 2, 6, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}, {}, boolean({2, 1, 1, 9})}},
      {"boolean mask of queries", {{2, 2, 6, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}, {}, boolean({6, 1})}},
      {"mask", {{2, 2, 20, 8}, {2, 2, 37, 8}, {2, 2, 37, 8}, {}, added({20, 37})}},
      {"mask of heads, causal", {{2, 2, 9, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}, {.is_causal = true}, added({2, 9, 9})}},
      {"rank 3", {{3, 8, 6}, {3, 11, 6}, {3, 11, 6}, {}, added({3, 8, 11})}},
      {"rank 2", {{8, 6}, {11, 6}, {11, 6}}},
  };
  for (const auto& [name, problem] : problems) {
    add_case(example(name, problem));
    add_case(example_by_pairs(name, problem));
    add_gradient_examples(name, problem);
    Problem dropped = problem;
    dropped.options.dropped = 0.3;
    add_case(dropped_example(name, dropped));
    add_gradient_examples(name, dropped);
  }
  for (const double p : {0.0, 1.0}) {
    const Problem all{{2, 2, 6, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}, {.dropped = p}};
    add_case(dropped_example(p == 0 ? "none dropped" : "all dropped", all));
  }
  // Sizes around every tile, in one dtype: the reference takes its time.
  for (const auto& [queries, keys, width] : {std::array<int64_t, 3>{64, 64, 64},
                                             {65, 257, 65},
                                             {130, 300, 32},
                                             {31, 129, 128},
                                             {1, 513, 256},
                                             {97, 1, 40}}) {
    for (const bool is_causal : {false, true}) {
      Problem problem{{1, 2, queries, width}, {1, 1, keys, width}, {1, 1, keys, width}, {.is_causal = is_causal}};
      problem.is_differentiated = false;
      const std::string name = problem.query.str() + " × " + problem.key.str() + (is_causal ? ", causal" : "");
      Case item = example(name, problem);
      item.dtypes = {DType::f32};
      item.is_drawn = false;
      add_case(item);
      const bool has_gradients = queries * keys * width <= 300000;
      if (has_gradients) add_gradient_examples(name, problem);
      problem.options.dropped = 0.1;
      item = dropped_example(name, problem);
      item.dtypes = {DType::f32};
      add_case(item);
      if (has_gradients) add_gradient_examples(name, problem);
    }
  }
  // More batches than one launch has: the later ones' random numbers follow those of the first.
  Case many = dropped_example("many batches", {.query = {65540, 1, 1, 1},
                                               .key = {65540, 1, 2, 1},
                                               .value = {65540, 1, 2, 1},
                                               .options = {.dropped = 0.5},
                                               .is_differentiated = false});
  many.dtypes = {DType::f32};
  add_case(many);
  // More pairs than some devices have in memory at once.
  Case in_pieces = example("in pieces", {.query = {1, 16, 70, 17},
                                         .key = {1, 2, 16384, 17},
                                         .value = {1, 2, 16384, 17},
                                         .options = {.is_causal = true},
                                         .is_differentiated = false});
  in_pieces.dtypes = {DType::f32};
  in_pieces.is_drawn = false;
  add_case(in_pieces);
  // Rows of which nothing is seen.
  Problem none{{1, 1, 40, 8}, {1, 1, 33, 8}, {1, 1, 33, 8}, {}, added({40, 33}, Pattern::masked)};
  none.is_differentiated = false;
  add_case(example("rows that see nothing", none));
  add_case(example_by_pairs("rows that see nothing", none));
  add_gradient_examples("rows that see nothing", none);
  none.options.dropped = 0.5;
  add_case(dropped_example("rows that see nothing", none));
  add_gradient_examples("rows that see nothing", none);
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{0, 4}, {4, 0}, {0, 0}}) {
    Problem empty{{2, 1, queries, 3}, {2, 1, keys, 3}, {2, 1, keys, 3}};
    empty.is_differentiated = false;
    const std::string name = std::to_string(queries) + " queries, " + std::to_string(keys) + " keys";
    add_case(example(name, empty));
    add_case(dropped_example(name, empty));
    add_gradient_examples(name, empty);
  }
  // Heads beside each other in memory, as a projection leaves them.
  Case strided = example("heads innermost", {{2, 3, 50, 24}, {2, 3, 66, 24}, {2, 3, 66, 24}, {.is_causal = true}});
  for (Input& input : strided.inputs) {
    const Shape& shape = input.shape;
    input.placement = Placement{{shape[1] * shape[2] * shape[3], shape[3], shape[1] * shape[3], 1}, 5};
  }
  add_case(strided);
  Case turned = example("turned round", {{1, 2, 9, 7}, {1, 2, 12, 7}, {1, 2, 12, 7}});
  turned.inputs[0].layout = Layout::transposed;
  turned.inputs[1].layout = Layout::flipped;
  turned.inputs[2].layout = Layout::broadcast_first;
  add_case(turned);
}

}  // namespace ashlar::conformance
