// A chain of three operators as one kernel, as a user of the library would write it.
#include "schedules/broadcast.h"

namespace ashlar::dsl {

// fused_chain(a, b, c) = gelu(a + b) c, broadcasting
template <ElementType T>
class FusedChain : public Kernel<FusedChain<T>> {
 public:
  In<T, 4> a{"a", strided}, b{"b", strided}, c{"c", strided};
  Out<T, 4> y{"y", {any_size, any_size, any_size, any_size}};
  BroadcastTunables tunables;

  FusedChain() { this->formula("fused_chain(a, b, c) = gelu(a + b) c, broadcasting").form(Form::broadcast); }
  void algorithm() { y(p, q, r, s) = gelu(a(p, q, r, s) + b(p, q, r, s)) * c(p, q, r, s); }
  void schedule(auto target) { broadcast(target, y.func(), {p, q, r, s}, &tunables); }

 private:
  Var p{"p"}, q{"q"}, r{"r"}, s{"s"};
};

const bool registered = register_kernel<FusedChain, f32, f16, bf16>("fused_chain");

}  // namespace ashlar::dsl
