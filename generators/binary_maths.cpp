// Element-wise mathematics of two tensors with broadcasting, mostly a line each: f32 instances alone, through which
// calls of 16-bit floats go with the same bits, and i64's where integers have such an operation.
#include "generators/binary_operator.h"

namespace ashlar::dsl {

// a - trunc(a / b) b, with the sign of a; of integers 0 where b is 0
Value truncated_rest(const Value& a, const Value& b) {
  if (a.type().is_float()) return fmod(a, b);
  const Value rest = a % b;
  return select(rest != 0 && (a < 0) != (b < 0), rest - b, rest);
}

// y = a^b; of integers modulo 2^64, by squaring: for each bit of b from the highest on, power becomes power² a^bit. Of
// a negative b the whole part of the power: ±1 of ±1, else 0.
template <ElementType T>
class Power : public Kernel<Power<T>> {
 public:
  In<T, 4> a{"a", strided}, b{"b", strided};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  Power() {
    if (kIsWhole) this->widest_on_cpu(CodeTarget::cpu);
    this->formula("pow(a, b) = a^b, broadcasting; of integers modulo 2^64, of a negative b its whole part");
    this->form(Form::broadcast);
    this->gradient("a", "pow_base_grad(dy, a, b)").gradient("b", "pow_exponent_grad(dy, a, b)");
  }
  void algorithm() {
    if constexpr (!kIsWhole) {
      y(p, q, r, s) = pow(a(p, q, r, s), b(p, q, r, s));
    } else {
      const Expr base = a(p, q, r, s), exponent = b(p, q, r, s), one = Halide::Internal::make_one(Halide::UInt(64));
      const Expr all = Halide::cast<uint64_t>(Halide::max(exponent, Halide::Internal::make_one(exponent.type())));
      bits(s, r, q, p) = 64 - Halide::cast<int32_t>(Halide::count_leading_zeros(all));
      Halide::RDom turn(0, 63, "turn");
      turn.where(turn < bits(s, r, q, p));
      const Expr bit = Halide::cast<uint64_t>(exponent) >> Halide::cast<uint64_t>(bits(s, r, q, p) - 1 - turn) & one;
      power(s, r, q, p) = one;
      const Expr before = power(s, r, q, p);
      power(s, r, q, p) = before * before * Halide::select(bit == one, Halide::cast<uint64_t>(base), one);

      const Expr of_minus_one = Halide::select(exponent % 2 == 0, Halide::cast<int64_t>(1), Halide::cast<int64_t>(-1));
      const Expr whole_part =
          Halide::select(base == 1, Halide::cast<int64_t>(1), base == -1, of_minus_one, Halide::cast<int64_t>(0));
      y(p, q, r, s) =
          Value(Halide::select(exponent < 0, whole_part, Halide::reinterpret<int64_t>(Expr(power(s, r, q, p)))));
    }
  }
  void schedule(Cpu target) {
    if (!kIsWhole) return broadcast(target, y.func(), {p, q, r, s}, &tunables);
    Var task("task"), each("each"), lines("lines");
    y.func().split(s, task, each, 1024, Halide::TailStrategy::GuardWithIf).fuse(r, q, lines);
    y.func().parallel(task).parallel(lines).parallel(p);
    for (Halide::Func stage : {bits, power}) stage.compute_at(y.func(), each).store_in(Halide::MemoryType::Stack);
    power.update().unscheduled();
  }
  void schedule(auto target) {
    if (!kIsWhole) return broadcast(target, y.func(), {p, q, r, s}, &tunables);
    Var line("line"), thread("thread");
    y.func().fuse(s, r, line).fuse(line, q, line).fuse(line, p, line);
    y.func().gpu_tile(line, thread, 256, Halide::TailStrategy::GuardWithIf);
    for (Halide::Func stage : {bits, power}) stage.compute_at(y.func(), thread);
  }

 private:
  static constexpr bool kIsWhole = std::is_same_v<T, i64>;
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
  Halide::Func bits{"bits"}, power{"power"};
};

const bool maths =
    register_kernel<Power, f32, i64>("pow") &&
    add_binary<f32, i64>("fmod", "a - trunc(a / b) b", [](auto a, auto b) { return truncated_rest(a, b); },
                         {{"a", "dy"}, {"b", "fmod_divisor_grad(dy, a, b)"}}) &&
    add_binary<f32, i64>("remainder", "a - floor(a / b) b", [](auto a, auto b) { return a % b; },
                         {{"a", "dy"}, {"b", "remainder_divisor_grad(dy, a, b)"}}) &&
    add_binary<f32>("atan2", "the angle of (b, a) to the first axis", [](auto a, auto b) { return atan2(a, b); },
                    {{"a", "atan2_grad(dy, b, a, b, a.shape())"}, {"b", "neg(atan2_grad(dy, a, a, b, b.shape()))"}}) &&
    add_binary<f32>("hypot", "√(a² + b²)", [](auto a, auto b) { return hypot(a, b); },
                    {{"a", "hypot_grad(dy, a, y)"}, {"b", "hypot_grad(dy, b, y)"}});

const bool bits =
    add_binary<i64>("bitwise_and", "a & b", [](auto a, auto b) { return a & b; }, {}) &&
    add_binary<i64>("bitwise_or", "a | b", [](auto a, auto b) { return a | b; }, {}) &&
    add_binary<i64>("bitwise_xor", "a ^ b", [](auto a, auto b) { return a ^ b; }, {}) &&
    add_binary<i64>("bitwise_left_shift", "a 2^b modulo 2^64", [](auto a, auto b) { return a << b; }, {}) &&
    add_binary<i64>("bitwise_right_shift", "floor(a / 2^b)", [](auto a, auto b) { return a >> b; }, {});

}  // namespace ashlar::dsl
