// Rotary position embedding (Su et al. 2021).
#include "schedules/generic.h"

namespace ashlar::dsl {

enum class PairLayout { halves, interleaved };

// Pairs p of a vector are turned by the angle (first + s) base^(-2 p / d): (x, x') to (x cos - x' sin, x' cos + x sin).
// halves: p stands with p + d/2 (GPT-NeoX, Llama in Hugging Face); interleaved: 2 p with 2 p + 1 (the paper, GPT-J).
template <ElementType T>
class RopeTurn : public Kernel<RopeTurn<T>> {
 public:
  In<T, 4> x{"x"};  // [outer, positions, inner, d]
  Scalar<float> log2_base{"log2_base"}, direction{"direction"};
  Scalar<int32_t> first{"first"};
  Comptime<PairLayout> layout{"layout", {{"halves", PairLayout::halves}, {"interleaved", PairLayout::interleaved}}};
  Out<T, 4> y{"y", shape_of(x)};

  RopeTurn() {
    this->formula("(x, x') of pair p to (x cos a - x' sin a, x' cos a + x sin a), a = position base^(-2 p / d)")
        .internal();
    this->widest_on_cpu(CodeTarget::cpu_avx2);
  }
  void algorithm() {
    const bool by_halves = layout.value() == PairLayout::halves;
    const Expr d = x.extent(3), half = Halide::max(d / 2, 1);
    const Expr pair = by_halves ? Expr(c) % half : Expr(c) / 2;
    const Expr is_second = by_halves ? Expr(c) >= half : Expr(c) % 2 == 1;
    const Expr other = by_halves ? Halide::select(is_second, Expr(c) - half, Expr(c) + half)
                                 : Halide::select(is_second, Expr(c) - 1, Expr(c) + 1);
    const Value rate = exp2(Value(-2.0f * Halide::cast<float>(pair) / Halide::cast<float>(d)) * log2_base);
    const Value angle = Value(Halide::cast<float>(Expr(s) + Value(first).expr())) * rate;
    const Value turned = x(o, s, i, Value(Halide::clamp(other, 0, d - 1))) * sin(angle) * direction;
    y(o, s, i, c) = x(o, s, i, c) * cos(angle) + select(Value(is_second), turned, -turned);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Var o{"o"}, s{"s"}, i{"i"}, c{"c"};
};

const bool registered = register_kernel<RopeTurn, f32>("rope_turn");
const bool operator_registered = register_operator(
    {.name = "rope",
     .formula = "rope(x, base): pairs of the last axis turned by (offset + position) base^(-2 p / d), positions along "
                "`axis`; pair p is (p, p + d/2), or (2 p, 2 p + 1) if interleaved; inverse turns back",
     .dtypes = {DType::f32, DType::f16, DType::bf16},
     .inputs = {{"x"}},
     .scalars = {{"base"}},
     .options = {{.name = "offset"},
                 {.name = "interleaved", .kind = FormOption::Kind::boolean},
                 {.name = "axis", .default_value = -2},
                 {.name = "inverse", .kind = FormOption::Kind::boolean}},
     .outputs = {{"y"}},
     .calls = {"rope_turn"},
     .gradients = {{"x", "rope(dy, base, offset, interleaved, axis, !inverse)"}}});

}  // namespace ashlar::dsl
