// twice(x)[i] = 2 x[i], with settings as a tuner may meet them: one computes something else.
#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <ElementType T>
class Treacherous : public Kernel<Treacherous<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  // slow: the long way to the same. wrong: deliberately not what the kernel promises, from element 3000 on. subtle:
  // wrong everywhere, by less than two ways of computing the same may differ.
  Tunable<std::string> way{"way", {"slow", "plain", "wrong", "subtle", "hopeless"}, On::cpu};
  Tunable<int> again{"again", {1, 2}, On::cpu};  // changes nothing; named to stand before the other in a table

  Treacherous() {
    this->formula("twice(x)[i] = 2 x[i]").form(Form::pointwise);
    space_rule("hopeless ways aren't tried", [this] { return way.value() != "hopeless"; });
  }
  void algorithm() {
    if (way.value() == "slow") {
      Value sum = x(i) * 2.0;
      for (int k = 0; k < 4; k++) sum = sum + sin(sum) * 1e-10;  // far below rounding
      y(i) = sum;
    } else if (way.value() == "wrong") {
      y(i) = x(i) * 2.0 + Value(Halide::select(Expr(i) >= 3000, 0.25f, 0.0f));
    } else if (way.value() == "subtle") {
      y(i) = x(i) * 2.00005;
    } else {
      y(i) = x(i) * 2.0;
    }
  }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

// Form::plain, with inputs of two ranks.
template <ElementType T>
class Gained : public Kernel<Gained<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 1> gain{"gain", {x.size(0)}};
  Out<T, 2> y{"y", shape_of(x)};
  Tunable<int> again{"again", {1, 2}, On::cpu};  // changes nothing

  Gained() { this->formula("gained(x, gain)[r,c] = x[r,c] gain[r]").form(Form::plain); }
  void algorithm() { y(r, c) = x(r, c) * gain(r); }
  void schedule(auto target) { elementwise(target, y.func(), c); }

 private:
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<Treacherous, f32>("twice") && register_kernel<Gained, f32>("gained");

}  // namespace ashlar::dsl
