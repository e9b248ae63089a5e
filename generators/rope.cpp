// Rotary position embedding (Su et al. 2021).
#include "schedules/generic.h"

namespace ashlar::dsl {

enum class PairLayout { halves, interleaved };

// Pairs p of a vector are turned by the angle (first + offset + s) base^(-2 p / d): (x, x') to (x cos - x' sin,
// x' cos + x sin). Offsets are one for all or one for as many outer rows each, on the device: replays of a graph read
// new ones. halves: p stands with p + d/2 (GPT-NeoX, Llama in Hugging Face); interleaved: 2 p with 2 p + 1 (the paper,
// GPT-J).
template <ElementType T>
class RopeTurn : public Kernel<RopeTurn<T>> {
 public:
  In<T, 4> x{"x"};  // [outer, positions, inner, d]
  In<i64, 1> offsets{"offsets"};
  Scalar<float> log2_base{"log2_base"}, direction{"direction"};
  Scalar<int32_t> first{"first"}, has_offsets{"has_offsets"};
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
    const Expr sequences = offsets.extent(0), rows = Halide::max(x.extent(0) / Halide::max(sequences, 1), 1);
    const Expr sequence = Halide::unsafe_promise_clamped(Expr(o) / rows, 0, sequences - 1);
    const Expr own = Halide::cast<int32_t>(offsets(Value(sequence)).expr());
    const Expr begin = Value(first).expr() + Halide::select(Value(has_offsets).expr() != 0, own, 0);
    const Value angle = Value(Halide::cast<float>(begin + s)) * rate;
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
     .formula =
         "rope(x, base): pairs of the last axis turned by (offset + offsets + position) base^(-2 p / d), positions "
         "along `axis`; pair p is (p, p + d/2), or (2 p, 2 p + 1) if interleaved; inverse turns back; offsets: [], [1] "
         "or one for each index of axis 0, read on the device at each replay of a graph",
     .dtypes = {DType::f32, DType::f16, DType::bf16},
     .inputs = {{"x"}, {.name = "offsets", .dtype = DType::i64, .is_optional = true}},
     .scalars = {{.name = "base", .default_value = "10000.0"}},
     .options = {{.name = "offset"},
                 {.name = "interleaved", .kind = FormOption::Kind::boolean},
                 {.name = "axis", .default_value = -2},
                 {.name = "inverse", .kind = FormOption::Kind::boolean}},
     .optional_last = true,
     .outputs = {{"y"}},
     .calls = {"rope_turn"},
     .gradients = {{"x", "rope(dy, base, offset, interleaved, axis, !inverse, offsets)"}}});

}  // namespace ashlar::dsl
