// Two kernels of one name.
#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <ElementType T>
class Same : public Kernel<Same<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  Same() { this->formula("y[i] = x[i]").form(Form::pointwise); }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

const bool registered = register_kernel<Same, f32>("same") && register_kernel<Same, f16>("same");

}  // namespace ashlar::dsl
