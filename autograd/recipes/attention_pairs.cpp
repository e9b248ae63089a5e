// Attention's gradients on a GPU, in pieces whose weights and slopes fit into some memory.
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

}  // namespace

std::vector<Tensor> attention_grad_by_pairs(const std::array<Tensor, 7>& operands, int64_t is_causal, double scale,
                                            int64_t most_bytes) {
  constexpr int64_t kBytesOfPair = 8;  // a weight and a slope
  // Of one kernel, whose first query has so many before it.
  const auto gradients_of = [&](const Operands& in, int64_t before) {
    return forms::Attention::call(
        kernels::attention_pair_grads,
        {.inputs = in,
         .scalars = std::array<Scalar, 1>{scale},
         .options = std::array<OptionValue, 1>{is_causal != 0 ? is_causal + before : int64_t{0}}});
  };
  if (operands[kQuery].numel() == 0 || operands[kKey].numel() == 0) return gradients_of(operands, 0);
  const int rank = operands[kQuery].rank(), missing = 4 - rank;
  const std::vector<forms::AttentionPiece> pieces =
      forms::pieces_of_attention(forms::with_heads(operands[kQuery], missing),
                                 forms::with_heads(operands[kKey], missing), kBytesOfPair, most_bytes);
  if (pieces.size() == 1) return gradients_of(operands, 0);

  Operands in = operands;
  for (int i = 0; i < kOperands; i++) {
    if (!in[i].defined()) continue;
    if (i != kMask) in[i] = in[i].to(DType::f32);
    while (i == kMask && in[i].rank() < rank) in[i] = in[i].unsqueeze(0);
    in[i] = forms::with_heads(in[i], missing);
  }
  const std::vector<Tensor> sums = forms::empty_as(std::array{in[kQuery], in[kKey], in[kValue]});
  const int64_t keys = in[kKey].size(2);
  for (const forms::AttentionPiece& piece : pieces) {
    // Keys that no query of a piece sees are left out.
    const int64_t seen = is_causal != 0 ? std::min(keys, piece.query + piece.queries + is_causal - 1) : keys;
    Operands some;
    for (int i = 0; i < kOperands; i++) {
      if (!in[i].defined()) continue;
      some[i] = is_of_keys(i) ? piece.of_keys(in[i]).slice(2, 0, seen) : piece.of_queries(in[i]);
    }
    if (some[kMask].defined() && some[kMask].size(3) > 1) some[kMask] = some[kMask].slice(3, 0, seen);
    const std::vector<Tensor> gradients = gradients_of(some, piece.query);
    piece.of_queries(sums[0]).copy_(gradients[0]);
    for (const size_t of_keys : {1, 2}) {
      const Tensor all = piece.of_keys(sums[of_keys]), sum = all.slice(2, 0, seen);
      if (piece.query == 0 && seen < keys) Tensor(all).fill_(0.0);
      sum.copy_(piece.query == 0 ? gradients[of_keys] : add(sum, gradients[of_keys]));
    }
  }
  std::vector<Tensor> results;
  for (const int i : {kQuery, kKey, kValue}) {
    results.push_back(sums[static_cast<size_t>(i - kQuery)].reshape(operands[i].shape()).to(operands[kQuery].dtype()));
  }
  return results;
}

}  // namespace ashlar::recipes
