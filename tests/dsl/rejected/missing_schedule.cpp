#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <ElementType T>
class Bad : public Kernel<Bad<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  void algorithm() { y(i) = x(i); }
  void schedule(Cpu target) { elementwise(target, y.func(), i); }
  void schedule(Cuda target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

const bool registered = register_kernel<Bad, f32>("bad");

}  // namespace ashlar::dsl
