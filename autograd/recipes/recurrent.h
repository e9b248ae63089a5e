// Gradients of recurrent sequences: of Tensors by a kernel for each step, of Vars by composing the sequence.
#pragma once

#include <vector>

#include "autograd/node.h"
#include "autograd/var.h"
#include "runtime/tensor/tensor.h"

namespace ashlar::recipes {

/// rnn_sequence's {dx, dh, dweight_hh, dbias_hh}
template <class T>
std::vector<T> rnn_grad(const T& dy, const T& x, const T& h, const T& weight_hh, const T& bias_hh, const T& y,
                        const Tensor& lengths, bool reverse, bool use_relu, Needs needs);

/// gru_sequence's {dx, dh, dweight_hh, dbias_hh}
template <class T>
std::vector<T> gru_grad(const T& dy, const T& x, const T& h, const T& weight_hh, const T& bias_hh, const T& y,
                        const Tensor& lengths, bool reverse, bool reset_after, Needs needs);

/// lstm_sequence's {dx, dh, dc, dweight_hh, dbias_hh}
template <class T>
std::vector<T> lstm_grad(const T& dy, const T& dcells, const T& x, const T& h, const T& c, const T& weight_hh,
                         const T& bias_hh, const T& y, const T& cells, const Tensor& lengths, bool reverse,
                         Needs needs);

}  // namespace ashlar::recipes
