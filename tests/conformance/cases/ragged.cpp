// Packed sequences with rows of their own and back, and attention within them. What offsets outside do, and random
// lengths, are tested in tests/autograd/test_ragged.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "operators/varlen_attention.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

const std::vector<DType> kMovable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                  DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};

/// Where sequences begin, and where the last one ends.
using Offsets = std::vector<int64_t>;

Tensor tensor_of(const Offsets& offsets, Device device) {
  return Tensor::from(offsets, {static_cast<int64_t>(offsets.size())}, device);
}
int64_t longest(const Offsets& offsets) {
  int64_t most = 0;
  for (size_t i = 1; i < offsets.size(); i++) most = std::max(most, offsets[i] - offsets[i - 1]);
  return most;
}

/// In which row of its sequence's a packed row stands.
int64_t row_of(const Offsets& offsets, size_t sequence, int64_t row, int64_t rows, bool align_right) {
  const int64_t length = offsets[sequence + 1] - offsets[sequence];
  return row - offsets[sequence] + (align_right ? rows - length : 0);
}

Case moved(std::string name, const Offsets& offsets, const Shape& trailing, Layout layout, bool align_right,
           bool is_padded) {
  const int64_t total = offsets.back(), batch = static_cast<int64_t>(offsets.size()) - 1, rows = longest(offsets) + 1;
  Shape packed{total}, padded{batch, rows};
  for (const int64_t size : trailing) {
    packed.push_back(size);
    padded.push_back(size);
  }
  const Values values{Pattern::integers, 0, 100};
  const int64_t columns = trailing.numel();
  const auto call = [=](const auto& x, Device device) {
    const Tensor at = tensor_of(offsets, device);
    using namespace ad;
    if (is_padded) return padded_to_jagged(x, at, total, align_right);
    return jagged_to_padded(x, at, rows, align_right);
  };
  return {.kernel = is_padded ? "padded_to_jagged" : "jagged_to_padded",
          .name = std::move(name),
          .inputs = {{.shape = is_padded ? padded : packed, .values = values, .layout = layout}},
          .dtypes = kMovable,
          .call = [call](Tensors in) { return std::vector<Tensor>{call(in[0], in[0].device())}; },
          .reference =
              [=](HostTensors in) {
                Expected y{is_padded ? packed : padded, {}};
                y.values.resize(static_cast<size_t>(y.shape.numel()));
                for (size_t b = 0; b + 1 < offsets.size(); b++) {
                  for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
                    const int64_t at = static_cast<int64_t>(b) * rows + row_of(offsets, b, t, rows, align_right);
                    for (int64_t c = 0; c < columns; c++) {
                      const int64_t from = (is_padded ? at : t) * columns + c, to = (is_padded ? t : at) * columns + c;
                      y.values[static_cast<size_t>(to)] = in[0].values[static_cast<size_t>(from)];
                    }
                  }
                }
                return std::vector{y};
              },
          .differentiable = [call](Vars in) { return call(in[0], in[0].device()); },
          .gradient_is_rounded_once = true,
          .fixed_shapes = true};
}

struct Problem {
  Offsets queries, keys;
  int64_t heads, key_heads, width;
  bool is_causal;
};

std::vector<Expected> attended(const Problem& p, HostTensors in) {
  const double scale = 1 / std::sqrt(static_cast<double>(p.width));
  const int64_t total = p.queries.back();
  Expected y{{total, p.heads, p.width}, {}, {}}, logsumexp{{p.heads, total}, {}, {}, DType::f32};
  const auto resize = [](Expected& x, double value) {
    x.values.assign(static_cast<size_t>(x.shape.numel()), value);
    x.magnitudes.assign(x.values.size(), 1);
  };
  resize(y, 0);
  resize(logsumexp, 0);  // of rows of no sequence
  const auto element = [&](const HostTensor& x, int64_t row, int64_t head, int64_t c) {
    return x.values[static_cast<size_t>((row * x.shape[1] + head) * p.width + c)];
  };
  for (size_t b = 0; b + 1 < p.queries.size(); b++) {
    const int64_t keys = p.keys[b + 1] - p.keys[b], more = keys - (p.queries[b + 1] - p.queries[b]);
    for (int64_t t = p.queries[b]; t < p.queries[b + 1]; t++) {
      const int64_t seen = p.is_causal ? std::clamp(t - p.queries[b] + more + 1, int64_t{0}, keys) : keys;
      for (int64_t h = 0; h < p.heads; h++) {
        const auto row = static_cast<size_t>(h * total + t);
        logsumexp.values[row] = -std::numeric_limits<double>::infinity();
        if (seen == 0) continue;
        const int64_t key_head = h / (p.heads / p.key_heads);
        std::vector<double> scores;
        double sum = 0, largest = -std::numeric_limits<double>::infinity(), size = 0;
        for (int64_t k = 0; k < seen; k++) {
          double dot = 0, terms = 0;
          for (int64_t c = 0; c < p.width; c++) {
            const double term = scale * element(in[0], t, h, c) * element(in[1], p.keys[b] + k, key_head, c);
            dot += term;
            terms += std::abs(term);
          }
          scores.push_back(dot);
          largest = std::max(largest, dot);
          size = std::max(size, terms);
        }
        for (const double s : scores) sum += std::exp(s - largest);
        logsumexp.values[row] = largest + std::log(sum);
        logsumexp.magnitudes[row] = 1 + size + std::abs(logsumexp.values[row]);
        for (int64_t c = 0; c < p.width; c++) {
          const auto at = static_cast<size_t>((t * p.heads + h) * p.width + c);
          y.magnitudes[at] = 0;
          for (int64_t k = 0; k < seen; k++) {
            const double term =
                std::exp(scores[static_cast<size_t>(k)] - largest) / sum * element(in[2], p.keys[b] + k, key_head, c);
            y.values[at] += term;
            y.magnitudes[at] += std::abs(term) * (1 + size);
          }
        }
      }
    }
  }
  return {y, logsumexp};
}

Case attention(std::string name, const Problem& p, Layout layout = Layout::dense, bool is_differentiated = true) {
  const auto call = [p](const auto& query, const auto& key, const auto& value, Device device) {
    using namespace ad;
    return varlen_attn(query, key, value, tensor_of(p.queries, device), tensor_of(p.keys, device), longest(p.queries),
                       longest(p.keys), p.is_causal);
  };
  const Values values{.low = -1, .high = 1};
  const Shape of_keys{p.keys.back(), p.key_heads, p.width};
  Case item{.kernel = "varlen_attn",
            .name = std::move(name),
            .inputs = {{{p.queries.back(), p.heads, p.width}, values, layout},
                       {of_keys, values, layout},
                       {of_keys, values, layout}},
            .call =
                [call](Tensors in) {
                  const auto [y, logsumexp] = call(in[0], in[1], in[2], in[0].device());
                  return std::vector<Tensor>{y, logsumexp};
                },
            .reference = [p](HostTensors in) { return attended(p, in); },
            .tolerance = terms(),
            .fixed_shapes = true};
  if (is_differentiated) {
    item.differentiable = [call](Vars in) { return call(in[0], in[1], in[2], in[0].device()).y; };
    item.differentiated = {0, 1, 2};
    item.gradient_dtypes = {DType::f32};  // as those of scaled_dot_product_attention
  }
  return item;
}

/// Of {dy, query, key, value, logsumexp, delta}, those by query, key and value.
std::vector<Expected> gradients_of(const Problem& p, HostTensors in) {
  const double scale = 1 / std::sqrt(static_cast<double>(p.width));
  const int64_t total = p.queries.back();
  std::vector<Expected> results;
  for (const size_t like : {1, 2, 3}) {
    results.push_back(
        {in[like].shape, std::vector<double>(in[like].values.size()), std::vector<double>(in[like].values.size())});
  }
  const auto at = [&](const HostTensor& x, int64_t row, int64_t head) {
    return static_cast<size_t>((row * x.shape[1] + head) * p.width);
  };
  const auto dot = [&](const HostTensor& a, size_t i, const HostTensor& b, size_t j, double& size) {
    double sum = 0;
    for (size_t c = 0; c < static_cast<size_t>(p.width); c++) {
      sum += a.values[i + c] * b.values[j + c];
      size += std::abs(a.values[i + c] * b.values[j + c]);
    }
    return sum;
  };
  for (size_t b = 0; b + 1 < p.queries.size(); b++) {
    const int64_t keys = p.keys[b + 1] - p.keys[b], more = keys - (p.queries[b + 1] - p.queries[b]);
    for (int64_t t = p.queries[b]; t < p.queries[b + 1]; t++) {
      const int64_t seen = p.is_causal ? std::clamp(t - p.queries[b] + more + 1, int64_t{0}, keys) : keys;
      for (int64_t h = 0; h < p.heads; h++) {
        const size_t query = at(in[1], t, h);
        const double logarithm = in[4].values[static_cast<size_t>(h * total + t)],
                     delta = in[5].values[static_cast<size_t>(t * p.heads + h)];
        for (int64_t k = p.keys[b]; k < p.keys[b] + seen; k++) {
          const size_t key = at(in[2], k, h / (p.heads / p.key_heads));
          double size = 0, slope_size = 0;
          const double weight = std::exp(scale * dot(in[1], query, in[2], key, size) - logarithm),
                       slope = dot(in[0], query, in[3], key, slope_size), off = 1 + scale * size + std::abs(logarithm);
          const auto add = [&](Expected& to, size_t to_at, const HostTensor& other, size_t other_at, double factor,
                               double factor_size) {
            for (size_t c = 0; c < static_cast<size_t>(p.width); c++) {
              to.values[to_at + c] += factor * other.values[other_at + c];
              to.magnitudes[to_at + c] += std::abs(factor_size * other.values[other_at + c]);
            }
          };
          const double ds = scale * weight * (slope - delta),
                       ds_size = scale * weight * off * (slope_size + std::abs(delta));
          add(results[0], query, in[2], key, ds, ds_size);
          add(results[1], key, in[1], query, ds, ds_size);
          add(results[2], key, in[0], query, weight, weight * off);
        }
      }
    }
  }
  return results;
}

/// All of them, and each alone.
void add_attention_gradients(const std::string& name, const Problem& p) {
  const Shape of_queries{p.queries.back(), p.heads, p.width}, of_keys{p.keys.back(), p.key_heads, p.width};
  const struct {
    const char* kernel;
    std::array<bool, 3> needed;
  } calls[] = {{"varlen_attention_grads", {true, true, true}},
               {"varlen_query_grad", {true, false, false}},
               {"varlen_key_grad", {false, true, false}},
               {"varlen_value_grad", {false, false, true}},
               {"varlen_pair_grads", {true, true, true}}};
  for (const auto& [kernel, needed] : calls) {
    if (std::string_view(kernel) == "varlen_pair_grads" && p.heads != p.key_heads) continue;
    add_case({.kernel = kernel,
              .name = name,
              .inputs = {{of_queries},
                         {of_queries},
                         {of_keys},
                         {of_keys},
                         {.shape = {p.heads, p.queries.back()}, .values = {.low = 1, .high = 3}, .dtype = DType::f32},
                         {.shape = {p.queries.back(), p.heads}, .dtype = DType::f32}},
              .dtypes = {DType::f32},
              .call =
                  [p, needed = needed](Tensors in) {
                    const Device device = in[0].device();
                    std::vector<Tensor> results;
                    for (const Tensor& x : varlen_attn_gradients(
                             in[0], in[1], in[2], in[3], tensor_of(p.queries, device), tensor_of(p.keys, device), in[4],
                             in[5], longest(p.queries), longest(p.keys), p.is_causal, 0, needed)) {
                      if (x.defined()) results.push_back(x);
                    }
                    return results;
                  },
              .reference =
                  [p, needed = needed](HostTensors in) {
                    const std::vector<Expected> all = gradients_of(p, in);
                    std::vector<Expected> results;
                    for (size_t i = 0; i < 3; i++) {
                      if (needed[i]) results.push_back(all[i]);
                    }
                    return results;
                  },
              .tolerance = terms(),
              .fixed_shapes = true});
  }
}

}  // namespace

void add_ragged_cases() {
  const Offsets some{0, 3, 3, 8, 9}, more{2, 5, 40, 41, 41, 60};  // rows before the first and behind none
  for (const bool is_padded : {false, true}) {
    for (const bool align_right : {false, true}) {
      const std::string side = align_right ? "right" : "left";
      add_case(moved("rows_" + side, some, {4}, Layout::dense, align_right, is_padded));
      add_case(moved("numbers_" + side, some, {}, Layout::dense, align_right, is_padded));
      add_case(moved("heads_" + side, more, {3, 33}, Layout::transposed, align_right, is_padded));
      add_case(moved("stepped_" + side, more, {2, 16}, Layout::stepped, align_right, is_padded));
      add_case(moved("empty_" + side, {0, 0, 0}, {4}, Layout::dense, align_right, is_padded));
      add_case(moved("more_axes_" + side, some, {2, 3, 5}, Layout::offset, align_right, is_padded));
    }
  }
  for (const bool is_causal : {false, true}) {
    const std::string mask = is_causal ? "_causal" : "";
    const std::pair<const char*, Problem> problems[] = {{"few", {{0, 3, 3, 8, 9}, {0, 4, 6, 6, 9}, 2, 1, 4, is_causal}},
                                                        {"one", {{0, 5}, {0, 5}, 1, 1, 1, is_causal}},
                                                        {"wide", {{0, 2, 40}, {0, 37, 50}, 4, 2, 33, is_causal}},
                                                        {"none", {{0, 0, 0}, {0, 0, 0}, 2, 2, 8, is_causal}}};
    for (const auto& [name, problem] : problems) {
      add_case(attention(name + mask, problem));
      add_attention_gradients(name + mask, problem);
    }
    add_case(attention("transposed" + mask, {{0, 9, 11}, {0, 2, 13}, 2, 2, 8, is_causal}, Layout::transposed));
    // Sizes around tiles, rows of none in front and behind.
    for (const int64_t width : {64, 70}) {
      const std::string name = "tiles_of_" + std::to_string(width) + mask;
      const Problem problem{{3, 67, 132, 133, 190, 191}, {0, 64, 200, 333, 335, 400}, 2, 1, width, is_causal};
      add_case(attention(name, problem, Layout::dense, false));
      add_attention_gradients(name, problem);
      Problem unshared = problem;
      unshared.key_heads = unshared.heads;
      add_attention_gradients(name + "_unshared", unshared);
    }
  }
}

}  // namespace ashlar::conformance
