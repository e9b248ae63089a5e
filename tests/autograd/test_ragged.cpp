// Attention within packed sequences: against a plain loop over each sequence, and its gradients against those of
// attention of each sequence alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "ashlar/var_arithmetic.h"
#include "autograd/autograd.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Doubles = std::vector<double>;

class Ragged : public testing::OnDevice {
 protected:
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Ragged, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

/// Packed sequences of these lengths.
struct Packed {
  std::vector<int64_t> queries, keys;
  int64_t heads, key_heads, width, value_width;

  static std::vector<int64_t> offsets(const std::vector<int64_t>& lengths) {
    std::vector<int64_t> sums{0};
    for (const int64_t length : lengths) sums.push_back(sums.back() + length);
    return sums;
  }
  int64_t count_of_queries() const { return offsets(queries).back(); }
  int64_t count_of_keys() const { return offsets(keys).back(); }
  static int64_t longest(const std::vector<int64_t>& lengths) {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
  static Tensor tensor(const std::vector<int64_t>& lengths, Device device, DType dtype = DType::i64) {
    const std::vector<int64_t> sums = offsets(lengths);
    return Tensor::from(sums, {static_cast<int64_t>(sums.size())}, device).to(dtype);
  }
};

/// What the loop over each sequence, head and query gives: y and logsumexp.
std::pair<Doubles, Doubles> looped(const Packed& p, const Doubles& query, const Doubles& key, const Doubles& value,
                                   bool is_causal, double scale) {
  const std::vector<int64_t> of_queries = Packed::offsets(p.queries), of_keys = Packed::offsets(p.keys);
  const int64_t total = p.count_of_queries();
  Doubles y(static_cast<size_t>(total * p.heads * p.value_width)), logarithms(static_cast<size_t>(p.heads * total));
  for (size_t b = 0; b < p.queries.size(); b++) {
    for (int64_t i = 0; i < p.queries[b]; i++) {
      for (int64_t h = 0; h < p.heads; h++) {
        const int64_t row = of_queries[b] + i, key_head = h / (p.heads / p.key_heads);
        // The last query sees the last key.
        const int64_t seen =
            is_causal ? std::clamp(p.keys[b] - p.queries[b] + i + 1, int64_t{0}, p.keys[b]) : p.keys[b];
        Doubles scores;
        double largest = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t k = 0; k < seen; k++) {
          double dot = 0;
          for (int64_t c = 0; c < p.width; c++) {
            dot += query[static_cast<size_t>((row * p.heads + h) * p.width + c)] *
                   key[static_cast<size_t>(((of_keys[b] + k) * p.key_heads + key_head) * p.width + c)];
          }
          scores.push_back(dot * scale);
          largest = std::max(largest, scores.back());
        }
        for (const double score : scores) sum += std::exp(score - largest);
        logarithms[static_cast<size_t>(h * total + row)] =
            seen == 0 ? -std::numeric_limits<double>::infinity() : largest + std::log(sum);
        for (int64_t k = 0; k < seen; k++) {
          for (int64_t c = 0; c < p.value_width; c++) {
            y[static_cast<size_t>((row * p.heads + h) * p.value_width + c)] +=
                std::exp(scores[static_cast<size_t>(k)] - largest) / sum *
                value[static_cast<size_t>(((of_keys[b] + k) * p.key_heads + key_head) * p.value_width + c)];
          }
        }
      }
    }
  }
  return {y, logarithms};
}

void expect_close(const Doubles& got, const Doubles& expected, double allowed, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); i++) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], expected[i]) << what << ", element " << i;
    } else {
      ASSERT_NEAR(got[i], expected[i], allowed) << what << ", element " << i;
    }
  }
}

TEST_P(Ragged, AttentionIsThatOfEachSequence) {
  std::vector<Packed> problems{
      {{3, 0, 5, 1}, {4, 2, 0, 1}, 4, 2, 8, 8},  {{7}, {7}, 1, 1, 5, 3},         {{0, 0}, {0, 0}, 2, 1, 4, 4},
      {{1, 1, 1}, {33, 70, 5}, 2, 2, 16, 16},    {{40, 9}, {3, 21}, 3, 3, 4, 6}, {{}, {}, 2, 2, 4, 4},
      {{0, 130, 64}, {5, 65, 200}, 2, 1, 24, 24}};
  for (int i = 0; i < 8; i++) {
    Packed p{{}, {}, 0, integer(1, 2), integer(1, 40), integer(1, 40)};
    p.heads = p.key_heads * integer(1, 3);
    for (int64_t b = integer(1, 6); b > 0; b--) {
      p.queries.push_back(integer(0, 3) == 0 ? 0 : integer(1, 50));
      p.keys.push_back(integer(0, 3) == 0 ? p.queries.back() : integer(0, 3) == 0 ? 0 : integer(1, 50));
    }
    problems.push_back(p);
  }
  for (size_t i = 0; i < problems.size(); i++) {
    const Packed& p = problems[i];
    const Tensor query = numbers({p.count_of_queries(), p.heads, p.width}),
                 key = numbers({p.count_of_keys(), p.key_heads, p.width}),
                 value = numbers({p.count_of_keys(), p.key_heads, p.value_width});
    for (const bool is_causal : {false, true}) {
      for (const bool has_longest : {true, false}) {
        const std::string what = "problem " + std::to_string(i) + (is_causal ? ", causal" : "");
        const double scale = i % 2 == 0 ? 1 / std::sqrt(static_cast<double>(p.width)) : 0.7;
        const DType dtype = has_longest ? DType::i64 : DType::i32;
        const auto [y, logarithms] =
            varlen_attn(query, key, value, Packed::tensor(p.queries, device(), dtype),
                        Packed::tensor(p.keys, device(), dtype), has_longest ? Packed::longest(p.queries) : 0,
                        has_longest ? Packed::longest(p.keys) : 0, is_causal, i % 2 == 0 ? 0 : scale);
        const auto [wanted, wanted_logarithms] =
            looped(p, query.to_doubles(), key.to_doubles(), value.to_doubles(), is_causal, scale);
        EXPECT_EQ(y.shape(), (Shape{p.count_of_queries(), p.heads, p.value_width}));
        EXPECT_EQ(logarithms.shape(), (Shape{p.heads, p.count_of_queries()}));
        expect_close(y.to_doubles(), wanted, 1e-5, what);
        expect_close(logarithms.to_doubles(), wanted_logarithms, 1e-4, what);
      }
    }
  }
}

TEST_P(Ragged, GradientsAreThoseOfEachSequence) {
  for (const Packed& p : {Packed{{3, 0, 5, 1, 2}, {4, 2, 7, 1, 0}, 4, 2, 8, 8}, Packed{{40, 9}, {13, 21}, 2, 2, 4, 6},
                          Packed{{1, 70}, {33, 65}, 2, 1, 20, 20}}) {
    const Var query(numbers({p.count_of_queries(), p.heads, p.width}), true),
        key(numbers({p.count_of_keys(), p.key_heads, p.width}), true),
        value(numbers({p.count_of_keys(), p.key_heads, p.value_width}), true);
    const Tensor dy = numbers({p.count_of_queries(), p.heads, p.value_width});
    for (const bool is_causal : {false, true}) {
      const auto run = [&](const std::vector<Var>& inputs, const GradOptions& options) {
        const Var y =
            ad::varlen_attn(query, key, value, Packed::tensor(p.queries, device()), Packed::tensor(p.keys, device()),
                            Packed::longest(p.queries), Packed::longest(p.keys), is_causal)
                .y;
        std::vector<Doubles> gradients;
        for (const Var& gradient : grad({y}, inputs, {Var(dy)}, options)) {
          gradients.push_back(gradient.value().to_doubles());
        }
        return gradients;
      };
      const std::vector<Doubles> got = run({query, key, value}, {});
      // Of each sequence alone, with the mask of its own diagonal.
      Var sum(Tensor::zeros({}, DType::f32, device()));
      const std::vector<int64_t> of_queries = Packed::offsets(p.queries), of_keys = Packed::offsets(p.keys);
      for (size_t b = 0; b < p.queries.size(); b++) {
        if (p.queries[b] == 0 || p.keys[b] == 0) continue;
        const auto part = [&](const Var& x, const std::vector<int64_t>& offsets) {
          return x.slice(0, offsets[b], offsets[b + 1]).permute({1, 0, 2}).unsqueeze(0);
        };
        Var mask;
        if (is_causal) {
          std::vector<float> hidden;
          for (int64_t i = 0; i < p.queries[b]; i++) {
            for (int64_t k = 0; k < p.keys[b]; k++) {
              hidden.push_back(k <= i + p.keys[b] - p.queries[b] ? 0 : -std::numeric_limits<float>::infinity());
            }
          }
          mask = Var(Tensor::from(hidden, {p.queries[b], p.keys[b]}, device()));
        }
        const Var y =
            ad::scaled_dot_product_attention(part(query, of_queries), part(key, of_keys), part(value, of_keys), mask).y;
        const Tensor of_y = dy.slice(0, of_queries[b], of_queries[b + 1]).permute({1, 0, 2}).unsqueeze(0);
        sum = sum + ad::sum(ad::mul(y, Var(of_y)));
      }
      const std::vector<Var> wanted = grad({sum}, {query, key, value});
      const char* names[] = {"dquery", "dkey", "dvalue"};
      const std::vector<Doubles> again = run({query, key, value}, {.create_graph = true});
      const std::vector<Var> inputs{query, key, value};
      for (size_t i = 0; i < 3; i++) {
        const Doubles expected = wanted[i].value().to_doubles();
        expect_close(got[i], expected, 2e-5, names[i]);
        expect_close(again[i], expected, 2e-5, std::string(names[i]) + " composed");
        expect_close(run({inputs[i]}, {})[0], expected, 2e-5, std::string(names[i]) + " alone");
      }
    }
  }
}

TEST_P(Ragged, NothingOfAnotherSequenceIsSeen) {
  // A NaN in one sequence's key and value stays there, in the gradients too.
  const Tensor query = numbers({6, 1, 4});
  std::vector<float> spoiled(6 * 4, 0.5F);
  for (size_t i = 8; i < 16; i++) spoiled[i] = std::numeric_limits<float>::quiet_NaN();
  const Var q(query, true), k(Tensor::from(spoiled, {6, 1, 4}, device()), true);
  const Tensor offsets = Packed::tensor({2, 2, 2}, device());
  for (const bool is_causal : {false, true}) {
    const Var y = ad::varlen_attn(q, k, k, offsets, offsets, 2, 2, is_causal).y;
    const std::vector<Var> slopes = grad({ad::sum(y)}, {q, k});
    for (const Doubles& all :
         {y.value().to_doubles(), slopes[0].value().to_doubles(), slopes[1].value().to_doubles()}) {
      for (size_t i = 0; i < all.size(); i++) EXPECT_EQ(std::isnan(all[i]), i >= 8 && i < 16) << "element " << i;
    }
  }
}

TEST_P(Ragged, StridedHeadsAnd16Bits) {
  // Views of one projection [rows, 3, heads, width], in bf16.
  const Tensor all = numbers({9, 3, 2, 8}).to(DType::bf16);
  const auto view = [&](int64_t i) { return all.select(1, i); };
  const Tensor offsets = Packed::tensor({4, 0, 5}, device());
  const Tensor y = varlen_attn(view(0), view(1), view(2), offsets, offsets, 5, 5, true).y;
  EXPECT_EQ(y.dtype(), DType::bf16);
  const Packed p{{4, 0, 5}, {4, 0, 5}, 2, 2, 8, 8};
  expect_close(
      y.to_doubles(),
      looped(p, view(0).to_doubles(), view(1).to_doubles(), view(2).to_doubles(), true, 1 / std::sqrt(8.0)).first, 2e-2,
      "bf16");
}

TEST_P(Ragged, GoesIntoAGraph) {
  const Tensor query = numbers({5, 2, 8}), key = numbers({6, 2, 8});
  const Tensor offsets_q = Packed::tensor({2, 3}, device()), offsets_k = Packed::tensor({4, 2}, device());
  Tensor y;
  const Graph graph = capture(device(), [&] { y = varlen_attn(query, key, key, offsets_q, offsets_k, 4, 5, true).y; });
  graph.replay();
  const auto expected = [&](const std::vector<int64_t>& queries, const std::vector<int64_t>& keys) {
    const Packed p{queries, keys, 2, 2, 8, 8};
    return looped(p, query.to_doubles(), key.to_doubles(), key.to_doubles(), true, 1 / std::sqrt(8.0)).first;
  };
  expect_close(y.to_doubles(), expected({2, 3}, {4, 2}), 1e-5, "first");
  // Other lengths, read on the device.
  offsets_q.copy_(Packed::tensor({4, 1}, device()));
  offsets_k.copy_(Packed::tensor({1, 5}, device()));
  graph.replay();
  expect_close(y.to_doubles(), expected({4, 1}, {1, 5}), 1e-5, "replayed");
}

TEST_P(Ragged, PaddedAndBack) {
  const Tensor x = Tensor::arange(10, DType::f32).reshape({5, 2}).to(device());
  const Tensor offsets = Packed::tensor({2, 0, 1}, device());  // two rows are of no sequence
  EXPECT_EQ(jagged_to_padded(x, offsets, 2).to_doubles(), (Doubles{0, 1, 2, 3, 0, 0, 0, 0, 4, 5, 0, 0}));
  const Tensor padded = jagged_to_padded(x, offsets, 2, true);
  EXPECT_EQ(padded.to_doubles(), (Doubles{0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5}));
  EXPECT_EQ(padded_to_jagged(padded, offsets, 5, true).to_doubles(), (Doubles{0, 1, 2, 3, 4, 5, 0, 0, 0, 0}));
}

TEST_P(Ragged, WrongCallsSayWhatIsNeeded) {
  const Tensor x = numbers({5, 2, 4}), y = numbers({5, 3, 4}), offsets = Packed::tensor({2, 3}, device());
  expect_error<ShapeError>([&] { varlen_attn(x.reshape({5, 8}), x, x, offsets, offsets); }, {"varlen_attn", "heads"});
  expect_error<ShapeError>([&] { varlen_attn(x, y, y, offsets, offsets); }, {"varlen_attn", "multiple"});
  expect_error<ShapeError>([&] { varlen_attn(x, x, y, offsets, offsets); }, {"varlen_attn", "a value for each key"});
  expect_error<ShapeError>([&] { varlen_attn(x, x, x, offsets, Packed::tensor({5}, device())); },
                           {"as many sequences"});
  expect_error<DTypeError>([&] { varlen_attn(x, x, x, offsets.to(DType::f32), offsets); }, {"varlen_attn"});
  expect_error<ValueError>([&] { varlen_attn(x, x, x, offsets, offsets, -1); }, {"max_q = -1"});
  if (device().kind == DeviceKind::cpu) {
    expect_error<ValueError>([&] { varlen_attn(x, x, x, offsets, offsets, 2, 3); },
                             {"sequence 1 of 3 rows", "cu_seq_q"});
    expect_error<IndexError>(
        [&] {
          varlen_attn(x, x, x, Packed::tensor({2, 4}, device()), offsets);
        },
        {"cu_seq_q[2] = 6", "at most"});
  }
}

}  // namespace
}  // namespace ashlar
