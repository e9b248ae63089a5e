// Attention's gradients on a GPU, in pieces whose weights and slopes fit into some memory.
#include <algorithm>
#include <array>

#include "ashlar/ops.h"
#include "autograd/recipes/attention.h"
#include "runtime/forms/attention.h"

namespace ashlar::recipes {
namespace {

enum Operand { kDy, kQuery, kKey, kValue, kLogsumexp, kDelta, kMask, kOperands };
using Operands = std::array<Tensor, kOperands>;
using Gradients = std::array<Tensor, 3>;  // of query, key, value

bool is_of_keys(int operand) { return operand == kKey || operand == kValue; }

/// What `axis` has from `first` on, of a mask that has it.
Tensor some(const Tensor& x, int axis, int64_t first, int64_t count) {
  const bool is_broadcast = x.defined() && x.size(axis) == 1;
  return !x.defined() || (is_broadcast && first + count > 1) ? x : x.slice(axis, first, first + count);
}

struct Call {
  bool is_causal;
  double scale;
  int64_t most_bytes;

  /// Of one kernel, whose first query has so many before it.
  std::vector<Tensor> whole(const Operands& in, int64_t before) const {
    return forms::Attention::call(kernels::attention_pair_grads,
                                  {.inputs = in,
                                   .scalars = std::array<Scalar, 1>{scale},
                                   .options = std::array<OptionValue, 1>{is_causal ? 1 + before : int64_t{0}}});
  }

  void store(const Operands& in, const Gradients& to) const {
    const std::vector<Tensor> all = whole(in, 0);
    for (size_t i = 0; i < to.size(); i++) to[i].copy_(all[i]);
  }

  /// Of one head of keys: keys that a piece of the queries doesn't see are left out.
  void by_queries(const Operands& in, const Gradients& to, int64_t most_queries) const {
    constexpr int64_t kTile = 64;
    const int64_t queries = in[kQuery].size(2), keys = in[kKey].size(2);
    const int64_t step = std::max(most_queries / kTile, int64_t{1}) * kTile;
    for (const size_t of_keys : {1, 2}) to[of_keys].fill_(0.0);
    for (int64_t first = 0; first < queries; first += step) {
      const int64_t count = std::min(step, queries - first), seen = is_causal ? std::min(keys, first + count) : keys;
      Operands piece = in;
      for (int i = 0; i < kOperands; i++) {
        piece[i] = is_of_keys(i) ? in[i].slice(2, 0, seen) : some(in[i], 2, first, count);
      }
      piece[kMask] = some(piece[kMask], 3, 0, seen);
      const std::vector<Tensor> all = whole(piece, first);
      to[0].slice(2, first, first + count).copy_(all[0]);
      for (const size_t of_keys : {1, 2}) {
        const Tensor sum = to[of_keys].slice(2, 0, seen);
        sum.copy_(add(sum, all[of_keys]));
      }
    }
  }

  void by_heads(const Operands& in, const Gradients& to, int64_t bytes_of_head) const {
    const int64_t heads = in[kKey].size(1), sharing = in[kQuery].size(1) / heads;
    const int64_t step = std::max(most_bytes / bytes_of_head, int64_t{1});
    for (int64_t first = 0; first < heads; first += step) {
      const int64_t count = std::min(step, heads - first);
      Operands piece;
      for (int i = 0; i < kOperands; i++) {
        const int64_t each = is_of_keys(i) ? 1 : sharing;
        piece[i] = some(in[i], 1, first * each, count * each);
      }
      const Gradients some_of{some(to[0], 1, first * sharing, count * sharing), some(to[1], 1, first, count),
                              some(to[2], 1, first, count)};
      if (count * bytes_of_head <= most_bytes) {
        store(piece, some_of);
      } else {
        by_queries(piece, some_of, most_bytes / (bytes_of_head / in[kQuery].size(2) + 1));
      }
    }
  }
};

}  // namespace

std::vector<Tensor> attention_grad_by_pairs(const std::array<Tensor, 7>& operands, bool is_causal, double scale,
                                            int64_t most_bytes) {
  const Call call{is_causal, scale, most_bytes};
  Operands in = operands;
  const int rank = in[kQuery].rank(), missing = 4 - rank;
  constexpr int64_t kBytesOfPair = 8, kPadding = 128;
  const auto with_heads = [missing](Tensor x) {
    if (missing > 0) x = x.unsqueeze(missing == 1 && x.rank() > 1 ? 1 : 0);
    return missing > 1 ? x.unsqueeze(0) : x;
  };
  const int64_t batches = rank > 2 ? in[kQuery].size(0) : 1, heads = rank > 3 ? in[kQuery].size(1) : 1,
                key_heads = rank > 3 ? in[kKey].size(1) : 1;
  const int64_t of_head = kBytesOfPair * (in[kQuery].size(-2) + kPadding) * (in[kKey].size(-2) + kPadding);
  const bool is_empty = in[kQuery].numel() == 0 || in[kKey].numel() == 0;
  if (is_empty || batches * heads * of_head <= most_bytes) return call.whole(in, 0);

  const DType dtype = in[kQuery].dtype();
  for (int i = 0; i < kOperands; i++) {
    if (!in[i].defined()) continue;
    if (i != kMask) in[i] = in[i].to(DType::f32);
    while (i == kMask && in[i].rank() < rank) in[i] = in[i].unsqueeze(0);
    in[i] = with_heads(in[i]);
  }
  Gradients all;
  for (const int i : {kQuery, kKey, kValue}) {
    all[static_cast<size_t>(i - kQuery)] = Tensor::empty(in[i].shape(), DType::f32, in[i].device());
  }
  const int64_t step = std::max(most_bytes / (heads * of_head), int64_t{1});
  for (int64_t first = 0; first < batches; first += step) {
    const int64_t count = std::min(step, batches - first);
    Operands piece;
    Gradients some_of;
    for (int i = 0; i < kOperands; i++) piece[i] = some(in[i], 0, first, count);
    for (size_t i = 0; i < all.size(); i++) some_of[i] = some(all[i], 0, first, count);
    if (count * heads * of_head <= most_bytes)
      call.store(piece, some_of);
    else
      call.by_heads(piece, some_of, heads / key_heads * of_head);
  }
  std::vector<Tensor> results;
  for (const int i : {kQuery, kKey, kValue}) {
    results.push_back(all[static_cast<size_t>(i - kQuery)].reshape(operands[i].shape()).to(dtype));
  }
  return results;
}

}  // namespace ashlar::recipes
