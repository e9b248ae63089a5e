// Losses: from predictions and targets to one number.
#pragma once

#include "ashlar/ad.h"
#include "autograd/var.h"

namespace ashlar::nn {

/// Mean over rows of -log softmax(logits)[label]: logits [rows, classes], labels i64 [rows]. Rank 0, f32. A label
/// outside of [0, classes) makes the loss NaN.
inline Var cross_entropy(const Var& logits, const Tensor& labels) {
  return ad::mean(ad::cross_entropy(logits, labels));
}

}  // namespace ashlar::nn
