#include "dsl/nonzero.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {

// x as f32, so that a shorter float made of it is the one nearest to x: rounding twice to nearest would go the wrong
// way where the first rounding ends on a tie of the second. Rounded to odd (towards 0, with the last bit set where
// something was lost; Boldo and Melquiond 2008) the value stays on its side of every tie.
Value rounded_to_odd(const Value& x) {
  const Expr value = x.expr(), nearest = Halide::cast<float>(value);
  const Halide::Type wide = value.type().is_float() ? Halide::Float(64) : Halide::Int(64);
  const Expr exact = Halide::cast(wide, value), back = Halide::cast(wide, nearest);
  const Expr is_further = Halide::select(exact < 0, back<exact, back> exact);
  const Expr bits = Halide::reinterpret<int32_t>(nearest);
  const Expr odd = Halide::select(is_further, bits - 1, bits) | 1;
  return Halide::reinterpret<float>(Halide::select(back == exact, bits, odd));
}

// y[i] = x[i] in another element type: to a float rounds to nearest even, to an integer truncates and saturates, to
// bool is x != 0
template <ElementType From, ElementType To>
class Cast : public Kernel<Cast<From, To>> {
 public:
  In<From, 1> x{"x"};
  Out<To, 1> y{"y", shape_of(x)};
  ElementwiseTunables tunables;

  Cast() {
    this->formula("y[i] = x[i], converted; to an integer: towards zero, saturated, NaN as 0")
        .form(Form::movement)
        .internal();
    // Between the types of networks' values; the others are one instruction a vector, or rare.
    if (!is_value<From>() || !is_value<To>()) this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    if constexpr (kRoundsTwice) {
      y(i) = rounded_to_odd(x(i));
    } else if constexpr (std::is_same_v<To, boolean>) {
      y(i) = is_nonzero(x(i));
    } else if constexpr (is_integer(Element<To>::dtype)) {
      y(i) = cast<To>(x(i));
    } else {
      y(i) = x(i);
    }
  }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  // Of more digits than f32 to fewer, which storing makes of f32.
  static constexpr bool kRoundsTwice =
      (std::is_same_v<From, f64> || std::is_same_v<From, i32> || std::is_same_v<From, i64>)&&(std::is_same_v<To, f16> ||
                                                                                              std::is_same_v<To, bf16>);
  template <ElementType T>
  static constexpr bool is_value() {
    return std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
  }
  Var i{"i"};
};

template <class From, class... To>
void add_casts(std::vector<Instance>& instances) {
  (instances.push_back(detail::PairInstance<Cast, Pair<From, To>>::make()), ...);
}

// Those that others aren't made of (runtime/forms/cast_path.h). f32 holds every f16, bf16 and u8, which go through it;
// a bool is a byte of 0 or 1: its bytes are the integers.
std::vector<Instance> casts() {
  std::vector<Instance> instances;
  add_casts<f32, f16, bf16, f64, i32, i64, u8, u32, i8, boolean>(instances);
  add_casts<f64, f32, f16, bf16, i32, i64, u8, u32, i8, u16, i16, boolean>(instances);
  add_casts<i32, f32, f16, bf16, f64, i64, u8, i16, boolean>(instances);
  add_casts<i64, f32, f16, bf16, f64, i32, u8, boolean>(instances);
  add_casts<f16, f32>(instances);
  add_casts<bf16, f32>(instances);
  add_casts<u8, f32, i32, i64, boolean>(instances);
  add_casts<u32, i64, f32>(instances);
  add_casts<i8, i32, f32>(instances);
  add_casts<u16, i32>(instances);
  add_casts<i16, i32>(instances);
  return instances;
}

const bool registered = add_kernel({"cast", casts()});

}  // namespace ashlar::dsl
