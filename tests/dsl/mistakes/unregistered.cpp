// A kernel that nothing registers.
#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <ElementType T>
class Forgotten : public Kernel<Forgotten<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  Forgotten() { this->formula("y[i] = x[i]").form(Form::pointwise); }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

}  // namespace ashlar::dsl
