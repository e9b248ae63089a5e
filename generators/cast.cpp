#include "schedules/elementwise.h"

namespace ashlar::dsl {

// y[i] = x[i] in another element type: to a float rounds to nearest even, to an integer truncates, to bool is x != 0
template <ElementType From, ElementType To>
class Cast : public Kernel<Cast<From, To>> {
 public:
  In<From, 1> x{"x"};
  Out<To, 1> y{"y", shape_of(x)};
  ElementwiseTunables tunables;

  Cast() {
    this->formula("y[i] = x[i], converted").form(Form::movement);
    // Between the types of networks' values; the others are one instruction a vector, or rare.
    if (!is_value<From>() || !is_value<To>()) this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i, {}, &tunables); }

 private:
  template <ElementType T>
  static constexpr bool is_value() {
    return std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
  }
  Var i{"i"};
};

// Every ordered pair of two different element types.
template <class... T>
std::vector<Instance> all_casts() {
  std::vector<Instance> instances;
  const auto from = [&]<class From>() {
    const auto to = [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) {
        instances.push_back(detail::PairInstance<Cast, Pair<From, To>>::make());
      }
    };
    (to.template operator()<T>(), ...);
  };
  (from.template operator()<T>(), ...);
  return instances;
}

const bool registered = add_kernel({"cast", all_casts<f32, f16, bf16, f64, i32, i64, u8, boolean>()});

}  // namespace ashlar::dsl
