// Operators that move elements and compute nothing: views and copies, put together in operators/movement.cpp, and what
// a copy can't do. Elements are seen by their width alone.
#include "schedules/broadcast.h"

namespace ashlar::dsl {

// y[i] = mask[i] ? value : x[i], the value by its bits
template <ElementType T>
class MaskedFillElements : public Kernel<MaskedFillElements<T>> {
 public:
  In<T, 4> x{"x", strided};
  In<boolean, 4> mask{"mask", strided};
  Scalar<int64_t> bits{"bits"};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  MaskedFillElements() {
    this->formula("masked_fill_elements(x, mask, bits) = mask ? bits : x, broadcasting").form(Form::broadcast);
    this->internal().widest_on_cpu(std::is_same_v<T, raw<4>> ? CodeTarget::cpu_avx2 : CodeTarget::cpu);
  }
  void algorithm() {
    const Value kept = x(p, q, r, s);
    const Value filled = Halide::cast(kept.type(), Value(bits).expr());
    y(p, q, r, s) = select(mask(p, q, r, s) != 0, filled, kept);
  }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

// y[b,d,r,c] = x[b,d,r,c] where low ≤ c - r ≤ high, else 0
template <ElementType T>
class Band : public Kernel<Band<T>> {
 public:
  In<T, 4> x{"x", strided};
  Scalar<int32_t> low{"low"}, high{"high"};
  Out<T, 4> y{"y", shape_of(x)};
  BroadcastTunables tunables;

  Band() {
    this->formula("y[b,d,r,c] = x[b,d,r,c] where low <= c - r <= high, else 0").form(Form::movement).internal();
    this->widest_on_cpu(std::is_same_v<T, raw<4>> ? CodeTarget::cpu_avx2 : CodeTarget::cpu);
  }
  void algorithm() {
    const Value here = x(b, d, r, c), across = Value(c) - Value(r);
    y(b, d, r, c) = select(across >= low && across <= high, here, Value(Halide::Internal::make_zero(here.type())));
  }
  void schedule(auto target) { broadcast(target, y.func(), {b, d, r, c}, &tunables); }

 private:
  Var b{"b"}, d{"d"}, r{"r"}, c{"c"};
};

const std::vector<DType> kMovable{DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64,
                                  DType::i16, DType::i8,  DType::u8,   DType::u16, DType::u32, DType::boolean};
const std::string kRecipes = "autograd/recipes/movement.h";
using Kind = FormOption::Kind;

bool add_view(const std::string& name, const std::string& formula, std::vector<OperatorOption> options,
              const std::string& gradient) {
  return register_operator({.name = name,
                            .formula = formula,
                            .dtypes = kMovable,
                            .inputs = {{"x"}},
                            .options = std::move(options),
                            .outputs = {{"y"}},
                            .calls = {"copy"},
                            .gradients = {{"x", gradient, kRecipes}}});
}

/// cat() of a list, for those who call by name with a fixed number of inputs.
bool add_concat() {
  std::vector<OperatorTensor> inputs{{"x0"}};
  for (int i = 1; i < 8; i++) {
    inputs.push_back({.name = "x" + std::to_string(i), .is_optional = true, .is_of_any_dtype = true});
  }
  return register_operator({.name = "concat",
                            .formula =
                                "concat(x0, x1, …, axis) = the tensors one after the other along an axis, in the "
                                "dtype where they meet: cat() of eight at most",
                            .dtypes = kMovable,
                            .inputs = std::move(inputs),
                            .options = {{.name = "axis"}},
                            .outputs = {{"y"}},
                            .calls = {"copy", "cast"},
                            .composed = "operators/composed/joining.h"});
}

bool add_triangle(const std::string& name, const std::string& kept) {
  return register_operator(
      {.name = name,
       .formula = name + "(x, diagonal)[r,c] = x[r,c] where " + kept + ", else 0, of the last two axes",
       .dtypes = kMovable,
       .inputs = {{"x"}},
       .options = {{.name = "diagonal"}},
       .outputs = {{"y"}},
       .calls = {"band"},
       .gradients = {{"x", name + "(dy, diagonal)", {}}}});
}

const bool registered =
    register_kernel<MaskedFillElements, raw<1>, raw<2>, raw<4>, raw<8>>("masked_fill_elements") &&
    register_kernel<Band, raw<1>, raw<2>, raw<4>, raw<8>>("band") &&
    add_view("repeat",
             "repeat(x, repeats) = x, repeats[i] times one after the other along axis i; axes are added in front where "
             "repeats has more",
             {{"repeats", Kind::integers}}, "repeat_grad(dy, x.shape(), repeats)") &&
    add_view("tile", "tile(x, repeats) = repeat(x, repeats), repeats of 1 in front where it has fewer than x",
             {{"repeats", Kind::integers}}, "repeat_grad(dy, x.shape(), repeats)") &&
    add_view("flip", "flip(x, axes) = x backwards along each of the axes", {{"axes", Kind::integers}},
             "flip(dy, axes)") &&
    add_view("roll", "roll(x, shifts, axes)[k + shift mod n] = x[k] along each axis; without axes of x as one row",
             {{"shifts", Kind::integers}, {"axes", Kind::integers}}, "roll(dy, opposite(shifts), axes)") &&
    add_triangle("tril", "c - r <= diagonal") && add_triangle("triu", "c - r >= diagonal") &&
    register_operator({.name = "masked_fill",
                       .formula = "masked_fill(x, mask, value) = value where the mask holds, else x, broadcasting",
                       .dtypes = kMovable,
                       .inputs = {{"x"}, {"mask", DType::boolean}},
                       .scalars = {{"value", DType::f64}},
                       .outputs = {{"y"}},
                       .calls = {"masked_fill_elements"},
                       .gradients = {{"x", "sum_to_shape(masked_fill(dy, mask, 0.0), x.shape())", {}}}}) &&
    register_operator({.name = "one_hot",
                       .formula = "one_hot(index, num_classes)[j,c] = 1 where c = index[j], else 0; -1 classes, on the "
                                  "CPU: the largest index + 1",
                       .dtypes = {DType::i64},
                       .inputs = {{"index", DType::i64}},
                       .options = {{.name = "num_classes", .default_value = -1}},
                       .outputs = {{"y"}},
                       .calls = {"scatter_lines", "segment_last"}}) &&
    add_concat();

}  // namespace ashlar::dsl
