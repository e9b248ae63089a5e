#include "schedules/elementwise.h"

namespace ashlar::dsl {

// y[i] = bits;  by byte width, so that four instances serve every dtype
template <ElementType T>
class Fill : public Kernel<Fill<T>> {
 public:
  Scalar<int64_t> bits{"bits"};
  Out<T, 1> y{"y", {any_size}};

  Fill() { this->formula("y[i] = bits").form(Form::movement).internal(); }
  void algorithm() { y(i) = bits; }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

const bool registered = register_kernel<Fill, raw<1>, raw<2>, raw<4>, raw<8>>("fill");

}  // namespace ashlar::dsl
