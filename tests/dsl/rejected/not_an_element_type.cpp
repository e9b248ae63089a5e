#include "schedules/elementwise.h"

namespace ashlar::dsl {

template <ElementType T>
class Bad : public Kernel<Bad<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

const bool registered = register_kernel<Bad, long double>("bad");

}  // namespace ashlar::dsl
