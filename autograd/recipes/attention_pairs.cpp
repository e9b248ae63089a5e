// Attention's gradients in pieces whose pairs of a query and a key fit into some memory: those by query, key and value
// on a GPU, which keeps weights and slopes, and that of an added mask.
#include <algorithm>
#include <array>

#include "ashlar/ops.h"
#include "autograd/recipes/attention.h"
#include "runtime/forms/attention.h"
#include "runtime/forms/attention_pieces.h"
#include "runtime/forms/memory_order.h"

namespace ashlar::recipes {
namespace {

enum Operand { kDy, kQuery, kKey, kValue, kLogsumexp, kDelta, kMask, kOperands };
using Operands = std::array<Tensor, kOperands>;

bool is_of_keys(int operand) { return operand == kKey || operand == kValue; }

/// [batch, heads, rows, …] in f32, but for a boolean mask
Operands with_all_axes(Operands of) {
  const int rank = of[kQuery].rank();
  for (int i = 0; i < kOperands; i++) {
    if (!of[i].defined()) continue;
    if (of[i].dtype() != DType::boolean) of[i] = of[i].to(DType::f32);
    while (i == kMask && of[i].rank() < rank) of[i] = of[i].unsqueeze(0);
    of[i] = forms::with_heads(of[i], 4 - rank);
  }
  return of;
}

std::vector<forms::AttentionPiece> pieces_of(const Operands& operands, int64_t bytes_of_pair, int64_t most_bytes) {
  const int missing = 4 - operands[kQuery].rank();
  return forms::pieces_of_attention(forms::with_heads(operands[kQuery], missing),
                                    forms::with_heads(operands[kKey], missing), bytes_of_pair, most_bytes);
}

/// Of x's last axis as many keys, but where all share one element.
Tensor first_keys(const Tensor& x, int64_t keys) { return x.size(3) > 1 ? x.slice(3, 0, keys) : x; }

/// A piece of operands with all axes, with the keys that its queries see.
struct Piece {
  Operands operands;
  int64_t keys, is_causal;

  Piece(const forms::AttentionPiece& piece, const Operands& all, int64_t is_causal_of_all)
      : keys(all[kKey].size(2)), is_causal(is_causal_of_all != 0 ? is_causal_of_all + piece.query : 0) {
    if (is_causal != 0) keys = std::min(keys, is_causal + piece.queries - 1);
    for (int i = 0; i < kOperands; i++) {
      if (!all[i].defined()) continue;
      operands[i] = is_of_keys(i) ? piece.of_keys(all[i]).slice(2, 0, keys) : piece.of_queries(all[i]);
    }
    if (operands[kMask].defined()) operands[kMask] = first_keys(operands[kMask], keys);
  }
};

}  // namespace

std::vector<Tensor> attention_grad_by_pairs(const std::array<Tensor, 7>& operands, int64_t is_causal, double scale,
                                            int64_t most_bytes) {
  constexpr int64_t kBytesOfPair = 8;  // a weight and a slope
  const auto gradients_of = [&](const Operands& in, int64_t causal) {
    return forms::Attention::call(
        kernels::attention_pair_grads,
        {.inputs = in, .scalars = std::array<Scalar, 1>{scale}, .options = std::array<OptionValue, 1>{causal}});
  };
  if (operands[kQuery].numel() == 0 || operands[kKey].numel() == 0) return gradients_of(operands, is_causal);
  const std::vector<forms::AttentionPiece> pieces = pieces_of(operands, kBytesOfPair, most_bytes);
  if (pieces.size() == 1) return gradients_of(operands, is_causal);

  const Operands in = with_all_axes(operands);
  const std::vector<Tensor> sums = forms::empty_as(std::array{in[kQuery], in[kKey], in[kValue]});
  for (const forms::AttentionPiece& piece : pieces) {
    const Piece some(piece, in, is_causal);
    const std::vector<Tensor> gradients = gradients_of(some.operands, some.is_causal);
    piece.of_queries(sums[0]).copy_(gradients[0]);
    for (const size_t of_keys : {1, 2}) {
      const Tensor all = piece.of_keys(sums[of_keys]), sum = all.slice(2, 0, some.keys);
      if (piece.query == 0 && some.keys < all.size(2)) Tensor(all).fill_(0.0);
      sum.copy_(piece.query == 0 ? gradients[of_keys] : add(sum, gradients[of_keys]));
    }
  }
  std::vector<Tensor> results;
  for (const int i : {kQuery, kKey, kValue}) {
    results.push_back(sums[static_cast<size_t>(i - kQuery)].reshape(operands[i].shape()).to(operands[kQuery].dtype()));
  }
  return results;
}

Tensor attention_mask_grad(const Tensor& dy, const Tensor& query, const Tensor& key, const Tensor& value,
                           const Tensor& attn_mask, int64_t is_causal, double scale, int64_t most_bytes) {
  constexpr int64_t kBytesOfPair = 24;  // scores, slopes, and what is made of them
  const Operands operands{dy, query, key, value, {}, {}, attn_mask};
  const auto gradient_of = [&](const Operands& in, int64_t causal) {
    return composed_attention_grad(in[kDy], in[kQuery], in[kKey], in[kValue], in[kMask], {}, causal, scale,
                                   Needs(8))[3];
  };
  if (query.numel() == 0 || key.numel() == 0) return gradient_of(operands, is_causal);
  const std::vector<forms::AttentionPiece> pieces = pieces_of(operands, kBytesOfPair, most_bytes);
  if (pieces.size() == 1) return gradient_of(operands, is_causal);

  const Operands in = with_all_axes(operands);
  const Tensor sum = Tensor::zeros(in[kMask].shape(), DType::f32, dy.device());
  for (const forms::AttentionPiece& piece : pieces) {
    const Piece some(piece, in, is_causal);
    const Tensor of_piece = first_keys(piece.of_queries(sum), some.keys);
    Tensor(of_piece).copy_(add(of_piece, gradient_of(some.operands, some.is_causal)));
  }
  return sum.reshape(attn_mask.shape()).to(attn_mask.dtype());
}

}  // namespace ashlar::recipes
