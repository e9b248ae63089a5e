// Drawing by logits: no kernels of its own.
#include "dsl/operator.h"

namespace ashlar::dsl {

const bool registered = register_operator(
    {.name = "sample_top_k",
     .formula = "sample_top_k(logits, state) = a class of each row, drawn by softmax(logits / temperature) of the k "
                "largest, and of these only of the first whose probabilities reach top_p",
     .dtypes = {DType::f32, DType::f16, DType::bf16},
     .inputs = {{"logits"}, {"state", DType::i64}},
     .scalars = {{"k", DType::i64}, {"temperature", DType::f64, "1.0"}, {"top_p", DType::f64, "1.0"}},
     .outputs = {{"classes", DType::i64}},
     .calls = {"topk", "softmax", "cumsum", "gather", "le", "where", "amin", "minimum", "mul", "sum", "cast",
               "philox_uniform", "philox_advance"}});

}  // namespace ashlar::dsl
