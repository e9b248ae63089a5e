// Gradients of softmax's, log_softmax's and cross_entropy's gradients: d<result> stands for dL/d(result) of these.
#pragma once

#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// dx = softmax_grad(dy, y) = y (dy - Σ dy y): its gradient for y, ddx (dy - Σ dy y) - dy Σ ddx y.
template <class T>
T softmax_grad_of_y(const T& ddx, const T& dy, const T& y, int64_t axis);

/// dx = log_softmax_grad(dy, y) = dy - e^y Σ dy: its gradients for dy, ddx - Σ e^y ddx, and for y, -ddx e^y Σ dy.
template <class T>
T log_softmax_grad_of_dy(const T& ddx, const T& y, int64_t axis);
template <class T>
T log_softmax_grad_of_y(const T& ddx, const T& dy, const T& y, int64_t axis);

/// dlogits = cross_entropy_grad(logits, labels, dloss) = dloss (softmax(logits) - [c = label]): its gradients for
/// logits and dloss.
template <class T>
T cross_entropy_grad_of_logits(const T& ddlogits, const T& logits, const T& dloss, int64_t axis);
template <class T>
T cross_entropy_grad_of_dloss(const T& ddlogits, const T& logits, const Tensor& labels, const Shape& loss,
                              int64_t axis);

}  // namespace ashlar::recipes
