// A kernel whose name can't be a function's.
#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <ElementType T>
class Dashed : public Kernel<Dashed<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  Dashed() { this->formula("y[i] = x[i]").form(Form::pointwise); }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

const bool registered = register_kernel<Dashed, f32>("two-words");

}  // namespace ashlar::dsl
