// varlen_attn: attention within packed sequences, by tiles of rows that are of one sequence each
// (generators/varlen_attention.cpp). Nobody pads: what a call takes beyond its results are their rows for whole tiles.
#include "operators/varlen_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "ashlar/ops/ragged.h"
#include "ashlar/ops/varlen_attention.h"
#include "operators/ragged.h"
#include "runtime/forms/attention.h"
#include "runtime/forms/attention_pieces.h"
#include "runtime/forms/check.h"
#include "runtime/forms/sequence_tiles.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"

namespace ashlar {
namespace {

constexpr const char* kName = "varlen_attn";

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& cu_seq_q,
                     const Tensor& cu_seq_k) {
  const auto wide = [](const Tensor& x) { return x.defined() && x.dtype() == DType::i32 ? x.to(DType::i64) : x; };
  forms::key_of(kernels::varlen_attn, {.inputs = std::array{query, key, value, wide(cu_seq_q), wide(cu_seq_k)}});
  const std::string came = "query: " + query.str() + ", key: " + key.str() + ", value: " + value.str();
  if (query.rank() != 3 || key.rank() != 3 || value.rank() != 3) {
    throw ShapeError(kName, came, "[rows of all sequences, heads, width] each", "Use reshape() or unsqueeze()");
  }
  if (key.size(0) != value.size(0) || key.size(1) != value.size(1) || query.size(2) != key.size(2)) {
    throw ShapeError(kName, came, "a value for each key and head of keys, and keys of the queries' width",
                     "Transpose what has another order of axes");
  }
  if (query.size(2) == 0) throw ShapeError(kName, came, "a width of 1 or more", "Take the mean of value");
  if (key.size(1) == 0 ? query.size(1) != 0 : query.size(1) % key.size(1) != 0) {
    throw ShapeError(kName, came, "heads of query a multiple of those of key", "Repeat the heads of key and value");
  }
  if (cu_seq_q.shape() != cu_seq_k.shape()) {
    throw ShapeError(kName, "cu_seq_q: " + cu_seq_q.str() + ", cu_seq_k: " + cu_seq_k.str(), "as many sequences",
                     "Give a sequence of no keys for queries that see none");
  }
}

void check_longest(const char* name, int64_t size) {
  if (size >= 0) return;
  throw ValueError(kName, std::string(name) + " = " + std::to_string(size), "0 or more", "It is a number of rows");
}

int64_t longest(int64_t given, int64_t total) { return given != 0 ? std::min(given, total) : total; }

/// Rows of a tile (schedules/attention.h, schedules/attention_cpu.h).
int64_t tile_rows(Device device, bool is_gradient) {
  if (device.kind == DeviceKind::cpu) return 32;
  return device.kind == DeviceKind::opencl && is_gradient ? 32 : 64;
}

Scalar steps_of(const Tensor& offsets) {
  return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(offsets.numel() - 1)));
}

/// The sequences of a call, and tables of their tiles.
struct Sequences {
  Tensor offsets_q, offsets_k;
  int64_t queries, keys;  // of all sequences
  int64_t longest_keys;   // at most
  bool is_causal;

  Sequences(const Tensor& query, const Tensor& key, const Tensor& cu_seq_q, const Tensor& cu_seq_k, int64_t max_q,
            int64_t max_k, bool causal)
      : queries(query.size(0)), keys(key.size(0)), longest_keys(longest(max_k, keys)), is_causal(causal) {
    check_longest("max_q", max_q);
    check_longest("max_k", max_k);
    offsets_q = checked_offsets(kName, "cu_seq_q", query, cu_seq_q, queries, longest(max_q, queries));
    offsets_k = checked_offsets(kName, "cu_seq_k", key, cu_seq_k, keys, longest_keys);
  }
  int64_t count() const { return offsets_q.numel() - 1; }

  Tensor tiles(int64_t rows, bool are_keys) const {
    const Tensor &own = are_keys ? offsets_k : offsets_q, &other = are_keys ? offsets_q : offsets_k;
    const int64_t total = are_keys ? keys : queries, others = are_keys ? queries : keys;
    const Tensor table = Tensor::empty(
        {forms::SequenceTiles::count(total, count(), rows), forms::SequenceTiles::kNumbers}, DType::i32, own.device());
    const std::array<Scalar, 6> scalars{rows, steps_of(own), total, others, int64_t{is_causal}, int64_t{are_keys}};
    launch(kernels::sequence_tiles, {.elements = {DType::i32}}, std::array{own, other}, scalars, std::span(&table, 1));
    return table;
  }

  /// x [1, heads, rows of tiles, width] as [packed rows, heads, width]
  Tensor packed(const Tensor& x, int64_t rows, bool are_keys) const {
    const Tensor& offsets = are_keys ? offsets_k : offsets_q;
    const Tensor y = Tensor::empty({are_keys ? keys : queries, x.size(1), x.size(3)}, x.dtype(), x.device());
    const Tensor in = x.reshape({x.size(1), x.size(2), x.size(3)}).permute({1, 0, 2});
    launch(kernels::rows_of_tiles, {}, std::array{offsets, in}, std::array<Scalar, 2>{rows, steps_of(offsets)},
           std::span(&y, 1));
    return y;
  }
};

/// [rows, heads, width] as [1, heads, rows, width] of f32, where it lies if it can be.
Tensor heads_first(const Tensor& x) { return forms::with_dense_rows(x.to(DType::f32).permute({1, 0, 2}).unsqueeze(0)); }

double factor_of(const Tensor& query, double scale) {
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(query.size(2)));
}

}  // namespace

RaggedLayout::RaggedLayout(const Tensor& query, const Tensor& key, const Tensor& cu_seq_q, const Tensor& cu_seq_k,
                           int64_t max_q, int64_t max_k, bool is_causal) {
  const Sequences of(query, key, cu_seq_q, cu_seq_k, max_q, max_k, is_causal);
  offsets_q = of.offsets_q;
  offsets_k = of.offsets_k;
  queries = longest(max_q, of.queries);
  keys = longest(max_k, of.keys);
  if (is_causal) {
    keys = std::max(keys, queries);
    diagonal = 1 + keys - queries;
  }
  mask = jagged_to_padded(Tensor::ones({key.size(0)}, DType::boolean, key.device()), offsets_k, keys, true)
             .reshape({offsets_k.numel() - 1, 1, 1, keys});
}

VarlenAttnResult varlen_attn(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& cu_seq_q,
                             const Tensor& cu_seq_k, int64_t max_q, int64_t max_k, bool is_causal, double scale) try {
  check_attention(query, key, value, cu_seq_q, cu_seq_k);
  const Sequences of(query, key, cu_seq_q, cu_seq_k, max_q, max_k, is_causal);
  const Device device = query.device();
  const int64_t heads = query.size(1), width = value.size(2);
  if (query.numel() == 0 || of.count() == 0) {
    return {Tensor::zeros({of.queries, heads, width}, query.dtype(), device),
            Tensor::zeros({heads, of.queries}, DType::f32, device)};
  }
  // Kernels want something to point at.
  const auto or_zeros = [](const Tensor& x) {
    const Shape least{std::max<int64_t>(x.size(0), 1), x.size(1), std::max<int64_t>(x.size(2), 1)};
    return heads_first(x.numel() == 0 ? Tensor::zeros(least, x.dtype(), x.device()) : x);
  };
  const std::array inputs{heads_first(query), or_zeros(key), or_zeros(value),
                          of.tiles(tile_rows(device, false), false)};
  const int64_t rows = tile_rows(device, false), all_rows = inputs[3].size(0) * rows;
  const std::array outputs{Tensor::empty({1, heads, all_rows, inputs[2].size(3)}, DType::f32, device),
                           Tensor::empty({1, heads, all_rows}, DType::f32, device)};
  launch(kernels::varlen_attention, {}, inputs, std::array<Scalar, 1>{factor_of(query, scale)}, outputs);
  const Tensor logarithms = of.packed(outputs[1].unsqueeze(3), rows, false);
  return {of.packed(outputs[0], rows, false).slice(2, 0, width).to(query.dtype()),
          logarithms.reshape({of.queries, heads}).permute({1, 0})};
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(kName);
}

namespace {

// As the kernel cuts sizes (generators/attention_pairs.h).
constexpr int64_t kRowsOfPairs = 64, kKeysOfPairs = 128;

int64_t keys_of_pairs(const Sequences& of) { return detail::round_up(of.longest_keys, kKeysOfPairs); }
int64_t rows_of_pairs(const Sequences& of) {
  return kRowsOfPairs * forms::SequenceTiles::count(of.queries, of.count(), kRowsOfPairs);
}

/// Of how many heads at a time the weights of all pairs of a query and a key, and their slopes, may lie in memory: 0
/// where that's none, or where another way is quicker.
int64_t heads_by_pairs(const Sequences& of, const Tensor& query, const Tensor& key, const std::array<bool, 3>& needed) {
  // One head has to fit. OpenCL's devices may have no buffers of half of four times as much.
  constexpr int64_t kBytesOfPair = 8;
  const int64_t most_bytes = forms::Attention::kMostBytes * (query.device().kind == DeviceKind::cuda ? 4 : 1);
  if (needed[0] + needed[1] + needed[2] == 1 || query.size(1) != key.size(1)) return 0;
  return std::min(query.size(1), most_bytes / (kBytesOfPair * keys_of_pairs(of) * rows_of_pairs(of)));
}

/// All three gradients, by weights and slopes that are worked out once. `inputs`: of the kernels of one gradient each.
std::vector<Tensor> by_pairs(const Sequences& of, const std::array<Tensor, 7>& inputs, std::span<const Scalar> scalars,
                             int64_t heads_at_once) {
  const Device device = inputs[0].device();
  const int64_t heads = inputs[0].size(1);
  const Tensor tiles = of.tiles(kRowsOfPairs, false), key_tiles = of.tiles(kKeysOfPairs, true),
               columns = Tensor::empty({keys_of_pairs(of)}, DType::i32, device);
  const auto empty = [&](int64_t rows, int64_t width) {
    return Tensor::empty({1, heads, rows, width}, DType::f32, device);
  };
  const int64_t queries = rows_of_pairs(of), keys = key_tiles.size(0) * kKeysOfPairs;
  const std::array all{empty(queries, inputs[1].size(3)), empty(keys, inputs[2].size(3)),
                       empty(keys, inputs[3].size(3))};
  for (int64_t head = 0; head < heads; head += heads_at_once) {
    const int64_t end = std::min(head + heads_at_once, heads);
    const auto some = [&](const Tensor& x) { return x.slice(1, head, end); };
    std::vector<Tensor> operands{inputs.begin(), inputs.end() - 1}, outputs{all.begin(), all.end()};
    for (std::vector<Tensor>* of_heads : {&operands, &outputs})
      std::ranges::transform(*of_heads, of_heads->begin(), some);
    operands.insert(operands.end(), {tiles, key_tiles, columns});
    launch(kernels::varlen_pair_grads, {}, operands, scalars, outputs);
  }
  return {of.packed(all[0], kRowsOfPairs, false), of.packed(all[1], kKeysOfPairs, true),
          of.packed(all[2], kKeysOfPairs, true)};
}

}  // namespace

std::vector<Tensor> varlen_attn_gradients(const Tensor& dy, const Tensor& query, const Tensor& key, const Tensor& value,
                                          const Tensor& cu_seq_q, const Tensor& cu_seq_k, const Tensor& logsumexp,
                                          const Tensor& delta, int64_t max_q, int64_t max_k, bool is_causal,
                                          double scale, const std::array<bool, 3>& needed) {
  const Sequences of(query, key, cu_seq_q, cu_seq_k, max_q, max_k, is_causal);
  const Device device = query.device();
  const std::array like{query, key, value};
  std::vector<Tensor> gradients(3);
  if (query.numel() == 0 || value.numel() == 0 || of.count() == 0) {
    for (size_t i = 0; i < 3; i++) {
      if (needed[i]) gradients[i] = Tensor::zeros(like[i].shape(), like[i].dtype(), device);
    }
    return gradients;
  }
  const int64_t rows = tile_rows(device, true);
  const std::array<Scalar, 1> scalars{factor_of(query, scale)};
  std::array inputs{heads_first(dy),
                    heads_first(query),
                    heads_first(key),
                    heads_first(value),
                    logsumexp.contiguous().unsqueeze(0),
                    delta.permute({1, 0}).contiguous().unsqueeze(0),
                    Tensor()};
  const auto empty = [&](size_t i, int64_t count) {
    return Tensor::empty({1, like[i].size(1), count, like[i].size(2)}, DType::f32, device);
  };
  if (device.kind == DeviceKind::cpu) {
    inputs[6] = of.tiles(rows, false);
    const std::array outputs{empty(0, inputs[6].size(0) * rows), empty(1, of.keys), empty(2, of.keys)};
    launch(kernels::varlen_attention_grads, {}, inputs, scalars, outputs);
    if (needed[0]) gradients[0] = of.packed(outputs[0], rows, false);
    for (const size_t i : {1, 2}) {
      if (needed[i]) gradients[i] = outputs[i].reshape({like[i].size(1), of.keys, like[i].size(2)}).permute({1, 0, 2});
    }
  } else if (const int64_t heads = heads_by_pairs(of, query, key, needed); heads > 0) {
    gradients = by_pairs(of, inputs, scalars, heads);
  } else {
    const std::array by{&kernels::varlen_query_grad, &kernels::varlen_key_grad, &kernels::varlen_value_grad};
    for (size_t i = 0; i < 3; i++) {
      if (!needed[i]) continue;
      if (i < 2 || !needed[1]) inputs[6] = of.tiles(rows, i > 0);
      const Tensor dx = empty(i, inputs[6].size(0) * rows);
      launch(*by[i], {}, inputs, scalars, std::span(&dx, 1));
      gradients[i] = of.packed(dx, rows, i > 0);
    }
  }
  for (size_t i = 0; i < 3; i++) {
    if (needed[i]) gradients[i] = gradients[i].to(like[i].dtype()).contiguous();
  }
  return gradients;
}

}  // namespace ashlar
