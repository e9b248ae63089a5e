// Numbers as 8-bit integers with a scale for each row: symmetric, by the row's largest magnitude (Dettmers et al. 2022,
// section 2.1).
#include "dsl/operator.h"
#include "schedules/generic.h"
#include "schedules/row_reduction.h"

namespace ashlar::dsl {

// values[r,c] = round(127 x[r,c] / max_k |x[r,k]|), scale[r] = max_k |x[r,k]| / 127
template <ElementType T>
struct QuantizeRows : Kernel<QuantizeRows<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> x{"x", {rows, columns}};
  RowTunables tunables;
  Out<i8, 2> values{"values", {rows, columns}};
  Out<f32, 1> scale{"scale", {rows}};
  Stage largest{"largest"};
  Var r{"r"}, c{"c"};

  QuantizeRows() {
    this->formula("values[r,c] = round(127 x[r,c] / max_k |x[r,k]|), scale[r] = max_k |x[r,k]| / 127");
    this->form(Form::rows).of_none(OfNone::zero);
  }
  void algorithm() {
    const Axis k = columns.reduce();
    largest(r) = max(k, abs(x(r, k)));
    scale(r) = largest(r) / 127.0F;
    // As a part of the largest first: 127 / largest may be no number. A row of zeros is 0 / 0, whose integer is 0, as
    // are all of a row that isn't finite: its scale tells.
    values(r, c) = cast<i8>(round(as_written(x(r, c) / largest(r) * 127.0F)));
  }
  void schedule(auto target) { row_reduction(target, {{largest}, values, r, c, tunables, {scale}}); }
};

// x[r,c] = values[r,c] scale[r]
template <ElementType T>
struct DequantizeRows : Kernel<DequantizeRows<T>> {
  Dim rows{"rows"}, columns{"columns"};
  In<T, 2> values{"values", {rows, columns}};
  In<f32, 1> scale{"scale", {rows}};
  Out<f32, 2> x{"x", {rows, columns}};
  Var r{"r"}, c{"c"};

  DequantizeRows() { this->formula("x[r,c] = values[r,c] scale[r]").form(Form::rows); }
  void algorithm() { x(r, c) = to_float(values(r, c)) * scale(r); }
  void schedule(auto target) { generic(target, x); }
};

const bool registered =
    register_kernel<QuantizeRows, f32, f16, bf16>("quantize_rows") &&
    register_kernel<DequantizeRows, i8>("dequantize_rows") &&
    register_operator({.name = "quantize_int8",
                       .formula = "values[i] = round(x[i] / scale), scale = max |x| / 127 of each block of the last "
                                  "axis; block_size 0: the whole of it",
                       .dtypes = {DType::f32, DType::f16, DType::bf16},
                       .inputs = {{"x"}},
                       .options = {{"block_size", FormOption::Kind::integer, 0}},
                       .outputs = {{"values", DType::i8}, {"scale", DType::f32}},
                       .calls = {"quantize_rows"}}) &&
    register_operator({.name = "dequantize_int8",
                       .formula = "x[i] = values[i] scale, that of its block of the last axis, in f32",
                       .dtypes = {DType::i8},
                       .inputs = {{"values"}, {"scale", DType::f32}},
                       .outputs = {{"x", DType::f32}},
                       .calls = {"dequantize_rows"}});

}  // namespace ashlar::dsl
