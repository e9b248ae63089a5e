// How often values occur. Written by hand (operators/histogram.cpp) on scatter_add, whose sums are the same every time.
#include "dsl/operator.h"

namespace ashlar::dsl {

const bool registered =
    register_operator({.name = "bincount",
                       .formula = "bincount(x)[i] = |{k : x[k] = i}|, of minlength places or as many as max x + 1",
                       .dtypes = {DType::i64, DType::i32, DType::i16, DType::i8, DType::u8, DType::u16, DType::u32},
                       .inputs = {{"x"}},
                       .options = {{.name = "minlength"}},
                       .outputs = {{"counts", DType::i64}},
                       .calls = {"max", "min", "scatter_add"}}) &&
    register_operator({.name = "histc",
                       .formula =
                           "histc(x)[i] = |{k : x[k] in bin i}| of as many equal bins from min to max (of x, where "
                           "both are equal), the last with its upper end; what lies outside and NaN aren't counted",
                       .dtypes = {DType::f32, DType::f16, DType::bf16},
                       .inputs = {{"x"}},
                       .scalars = {{.name = "min", .default_value = "0.0"}, {.name = "max", .default_value = "0.0"}},
                       .options = {{.name = "bins", .default_value = 100}},
                       .scalars_last = true,
                       .outputs = {{"counts"}},
                       .calls = {"max", "min", "sub", "mul", "div", "floor", "le", "where", "scatter_add"}});

}  // namespace ashlar::dsl
