// The losses of rows of operators/row_losses.h, recorded: a kernel each way. Gradients of their gradients are those of
// a composition of operators.
#pragma once

#include "autograd/var.h"
#include "operators/row_losses.h"

namespace ashlar::recipes {

CountedRows<Var> cross_entropy_rows(const Var& logits, const Tensor& labels, const ClassOptions& options);
Var cross_entropy_of_shares(const Var& logits, const Var& target, const ClassOptions& options);
CountedRows<Var> nll_rows(const Var& x, const Tensor& labels, const ClassOptions& options);
Var cosine_embedding_rows(const Var& a, const Var& b, const Tensor& signs, double margin);
Var triplet_margin_rows(const Var& anchor, const Var& positive, const Var& negative, double margin, double eps,
                        bool swap);

}  // namespace ashlar::recipes
