#include "schedules/broadcast.h"

namespace ashlar::dsl {

// y[a,b,c,d] = x[a,b,c,d] between any strides: permutes, gathers and scatters views;  by byte width
template <ElementType T>
class Copy : public Kernel<Copy<T>> {
 public:
  In<T, 4> x{"x", strided};
  Out<T, 4> y{"y", shape_of(x)};
  BroadcastTunables tunables;

  Copy() {
    this->formula("y[a,b,c,d] = x[a,b,c,d]").form(Form::movement).internal();
    // Memory limits it; 128-bit vectors hold a row of a transposed tile of bytes, and 64-bit elements are few.
    if (std::is_same_v<T, raw<1>> || std::is_same_v<T, raw<8>>) this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() { y(a, b, c, d) = x(a, b, c, d); }
  void schedule(auto target) { broadcast(target, y.func(), {a, b, c, d}, &tunables); }

 private:
  Var a{"a"}, b{"b"}, c{"c"}, d{"d"};
};

const bool registered = register_kernel<Copy, raw<1>, raw<2>, raw<4>, raw<8>>("copy");

}  // namespace ashlar::dsl
