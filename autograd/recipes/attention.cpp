#include "autograd/recipes/attention.h"

#include <array>
#include <cmath>
#include <concepts>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/recipes/broadcast.h"
#include "autograd/recipes/values.h"
#include "runtime/forms/attention.h"
#include "runtime/forms/memory_order.h"
#include "runtime/forms/rows.h"

namespace ashlar::recipes {

using namespace ashlar::ad;

namespace {

/// [batch, heads, rows, …] of whatever rank the caller's tensors have, heads by those of key: [batch, heads of key,
/// heads that share one, rows, …].
template <class T>
T grouped(const T& x, int64_t batch, int64_t key_heads, int64_t sharing, int trailing) {
  Shape shape{batch, key_heads, sharing};
  for (int axis = x.rank() - trailing; axis < x.rank(); axis++) shape.push_back(x.shape()[axis]);
  return x.reshape(shape);
}

}  // namespace

template <class T>
std::vector<T> composed_attention_grad(const T& dy, const T& query, const T& key, const T& value, const T& attn_mask,
                                       const Tensor& kept, int64_t is_causal, double scale, Needs needs) {
  const int rank = query.rank();
  const int64_t batch = rank > 2 ? query.shape()[0] : 1, heads = rank > 3 ? query.shape()[1] : 1,
                key_heads = rank > 3 ? key.shape()[1] : 1, sharing = key_heads == 0 ? 1 : heads / key_heads;
  const auto wide = [&](const T& x, int64_t own) { return grouped(x.to(DType::f32), batch, key_heads, own, 2); };
  const T q = wide(query, sharing), k = wide(key, 1), v = wide(value, 1), g = wide(dy, sharing);
  const int64_t queries = q.shape()[3], keys = k.shape()[3];
  const double factor = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(q.shape()[4]));
  const Device device = value_of(query).device();

  // 1 where a query sees a key.
  Tensor seen = Tensor::ones({1, 1}, DType::f32, device);
  if (is_causal != 0) {
    const Tensor rows = Tensor::arange(queries, DType::f32, device).reshape({queries, 1});
    const Tensor last = ashlar::affine(rows, 1, static_cast<double>(is_causal - 1));
    seen = ashlar::le(Tensor::arange(keys, DType::f32, device), last).to(DType::f32);
  }
  Shape mask_shape;
  T scores = affine(matmul(q, k, {.transpose_b = true}), factor, 0);
  if (attn_mask.defined()) {
    Shape full;  // [batch, heads, queries, keys], as far as the mask has axes
    for (int axis = 0; axis < attn_mask.rank(); axis++) full.push_back(attn_mask.shape()[axis]);
    while (full.rank() < rank) full.insert(0, 1);
    if (rank < 4) full.insert(rank == 3 ? 1 : 0, 1);
    if (full.rank() < 4) full.insert(0, 1);
    mask_shape =
        full[1] == 1 ? Shape{full[0], 1, 1, full[2], full[3]} : Shape{full[0], key_heads, sharing, full[2], full[3]};
    if (attn_mask.dtype() == DType::boolean) {
      seen = ashlar::mul(seen, value_of(attn_mask).reshape(mask_shape).to(DType::f32));
    } else {
      scores = add(scores, attn_mask.to(DType::f32).reshape(mask_shape));
    }
  }
  constexpr double kFar = 1e30;  // finite: a row that sees nothing has weights, times 0
  const T weights = mul(softmax(add(scores, T(ashlar::affine(seen, kFar, -kFar)))), T(seen));
  const auto if_kept = [&](const T& x) { return kept.defined() ? mul(x, T(kept.reshape(x.shape()))) : x; };
  const T slopes = if_kept(matmul(g, v, {.transpose_b = true}));
  const T ds = mul(weights, sub(slopes, sum(mul(slopes, weights), {-1}, true)));

  std::vector<T> gradients(4);
  const auto back = [](const T& d, const T& like) { return d.reshape(like.shape()).to(like.dtype()); };
  if (needs(0)) gradients[0] = back(affine(matmul(ds, k), factor, 0), query);
  if (needs(1)) {
    gradients[1] = back(affine(sum(matmul(ds, q, {.transpose_a = true}), {2}, true), factor, 0), key);
  }
  if (needs(2)) gradients[2] = back(sum(matmul(if_kept(weights), g, {.transpose_a = true}), {2}, true), value);
  if (needs(3)) gradients[3] = back(sum_to_shape(ds, mask_shape), attn_mask);
  return gradients;
}

Tensor attention_delta(const Tensor& dy, const Tensor& y) {
  // Rows in the order in which dy has them, which is y's for heads of one row: they are read where they lie.
  const Tensor given = dy.to(DType::f32);
  const Shape axes = forms::axes_in_memory(given, given.rank() - 1);
  const std::array rows{given.permute(axes), y.to(DType::f32).permute(axes)};
  return forms::rows(kernels::row_dots, rows, -1)[0].unsqueeze(-1).permute(forms::inverse_of(axes)).squeeze(-1);
}

template <class T>
std::vector<T> attention_grad(const T& dy, const T& query, const T& key, const T& value, const T& attn_mask, const T& y,
                              const T& logsumexp, int64_t is_causal, double scale, Needs needs) {
  if constexpr (std::same_as<T, Tensor>) {
    std::vector<Tensor> gradients(4);
    const auto delta = [&] { return attention_delta(dy, y); };
    const bool is_on_cpu = query.device().kind == DeviceKind::cpu;
    const auto by = [&](const KernelInfo& kernel, const Tensor& last) {
      return forms::Attention::call(kernel, {.inputs = std::array{dy, query, key, value, logsumexp, last, attn_mask},
                                             .scalars = std::array<Scalar, 1>{scale},
                                             .options = std::array<OptionValue, 1>{is_causal}});
    };
    if (needs(0) + needs(1) + needs(2) > 1 && !is_on_cpu) {
      gradients = attention_grad_by_pairs({dy, query, key, value, logsumexp, delta(), attn_mask}, is_causal, scale,
                                          forms::Attention::kMostBytes);
      gradients.resize(4);
    } else if (needs(0) + needs(1) + needs(2) > 1) {
      gradients = by(kernels::attention_grads, delta());
      gradients.resize(4);
    } else {
      const Tensor shift = needs(0) || needs(1) ? delta() : Tensor{};
      if (needs(0)) gradients[0] = by(kernels::attention_query_grad, shift)[0];
      if (needs(1)) gradients[1] = by(kernels::attention_key_grad, shift)[0];
      if (needs(2)) gradients[2] = by(kernels::attention_value_grad, logsumexp)[0];
    }
    constexpr int64_t kMostBytesOfMask = forms::Attention::kMostBytes / 8;
    if (needs(3)) {
      gradients[3] = attention_mask_grad(dy, query, key, value, attn_mask, is_causal, scale, kMostBytesOfMask);
    }
    return gradients;
  } else {
    return composed_attention_grad(dy, query, key, value, attn_mask, {}, is_causal, scale, needs);
  }
}

template std::vector<Tensor> composed_attention_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                     const Tensor&, const Tensor&, int64_t, double, Needs);
template std::vector<Var> composed_attention_grad(const Var&, const Var&, const Var&, const Var&, const Var&,
                                                  const Tensor&, int64_t, double, Needs);
template std::vector<Tensor> attention_grad(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                            const Tensor&, const Tensor&, int64_t, double, Needs);
template std::vector<Var> attention_grad(const Var&, const Var&, const Var&, const Var&, const Var&, const Var&,
                                         const Var&, int64_t, double, Needs);

}  // namespace ashlar::recipes
