// A gated activation, as in the feed-forward layers of many transformers (Shazeer, "GLU variants", 2020).
#include "schedules/elementwise.h"

namespace ashlar::dsl {

// gated_silu(x, gate)[i] = x[i] · silu(gate[i])
template <ElementType T>
class GatedSilu : public Kernel<GatedSilu<T>> {
 public:
  In<T, 1> x{"x"};
  In<T, 1> gate{"gate", shape_of(x)};
  Out<T, 1> y{"y", shape_of(x)};

  GatedSilu() {
    this->formula("gated_silu(x, gate)[i] = x[i] silu(gate[i])").form(Form::pointwise);
    this->gradient("x", "gated_silu(dy, gate)").gradient("gate", "silu_grad(mul(dy, x), gate)");
  }
  void algorithm() { y(i) = x(i) * silu(gate(i)); }
  void schedule(auto target) { elementwise(target, y.func(), i); }

 private:
  Var i{"i"};
};

const bool registered = register_kernel<GatedSilu, f32, f16, bf16>("gated_silu");

}  // namespace ashlar::dsl
