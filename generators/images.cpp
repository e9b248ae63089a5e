// Operators that move the elements of images by copies of views alone (operators/images.cpp).
#include "dsl/operator.h"

namespace ashlar::dsl {

const std::vector<DType> kMovedAbout{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                     DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const std::vector<DType> kSpread{DType::f32, DType::f16, DType::bf16, DType::f64};
const std::vector<std::string> kPaddings{"constant", "reflect", "replicate", "circular"};
using Kind = FormOption::Kind;

const bool registered =
    register_operator(
        {.name = "pad",
         .formula = "pad(x, padding): padding[0] elements before and padding[1] behind the last axis, padding[2] "
                    "and [3] around the one before it, and so on; a negative number crops (constant)",
         .dtypes = kMovedAbout,
         .inputs = {{"x"}},
         .scalars = {{"value", DType::f64, "0"}},
         .options = {{"padding", Kind::integers}, {"mode", Kind::choice, 0, kPaddings}},
         .scalars_last = true,
         .outputs = {{"y"}},
         .calls = {"copy", "fill"},
         .gradients = {{"x", "pad_grad(dy, padding, static_cast<PadGradMode>(mode))"}}}) &&
    register_operator({.name = "pad_grad",
                       .formula = "pad_grad(dy, padding)[i] = Σ dy[j] of all j at which pad(x, padding) has x[i]",
                       .dtypes = kSpread,
                       .inputs = {{"dy"}},
                       .options = {{"padding", Kind::integers}, {"mode", Kind::choice, 0, kPaddings}},
                       .outputs = {{"dx"}},
                       .calls = {"copy", "fill", "cast", "add", "sum"},
                       .gradients = {{"dy", "pad(ddx, padding, static_cast<PadMode>(mode))"}}}) &&
    register_operator({.name = "pixel_shuffle",
                       .formula = "pixel_shuffle(x, r)[n, c, h r + i, w r + j] = x[n, (c r + i) r + j, h, w]",
                       .dtypes = kMovedAbout,
                       .inputs = {{"x"}},
                       .scalars = {{"upscale_factor", DType::i64}},
                       .outputs = {{"y"}},
                       .calls = {"copy"},
                       .gradients = {{"x", "pixel_unshuffle(dy, upscale_factor)"}}}) &&
    register_operator({.name = "pixel_unshuffle",
                       .formula = "pixel_unshuffle(x, r)[n, (c r + i) r + j, h, w] = x[n, c, h r + i, w r + j]",
                       .dtypes = kMovedAbout,
                       .inputs = {{"x"}},
                       .scalars = {{"downscale_factor", DType::i64}},
                       .outputs = {{"y"}},
                       .calls = {"copy"},
                       .gradients = {{"x", "pixel_shuffle(dy, downscale_factor)"}}}) &&
    register_operator({.name = "channel_shuffle",
                       .formula = "channel_shuffle(x, groups) = x [n, c, …] with its channels (i, j) of groups · c / "
                                  "groups in the order (j, i)",
                       .dtypes = kMovedAbout,
                       .inputs = {{"x"}},
                       .scalars = {{"groups", DType::i64}},
                       .outputs = {{"y"}},
                       .calls = {"copy"},
                       .composed = "operators/composed/rows.h"});

}  // namespace ashlar::dsl
