// A product with an epilogue of its own, as an author outside the library writes one.
#include "schedules/contraction_plans.h"

namespace ashlar::dsl {

// y[b,m,n] = residual[b,m,n] + scale · silu(Σ_k x[b,m,k] w[b,k,n])
template <ElementType T>
class GatedProduct : public Kernel<GatedProduct<T>> {
 public:
  In<T, 3> x{"x"}, w{"w"};
  In<T, 3> residual{"residual", {x.size(0), x.size(1), w.size(2)}};
  Scalar<float> scale{"scale"};
  ContractionTunables<T> tunables;
  Out<T, 3> y{"y", {x.size(0), x.size(1), w.size(2)}};

  GatedProduct() { this->formula("y[b,m,n] = residual[b,m,n] + scale silu(Σ_k x[b,m,k] w[b,k,n])"); }
  void algorithm() {
    product.define(contraction_plans(contraction_problem(x, w, y, b, m, n), tunables, EpilogueLength::long_one));
    product.write(y, b, m, n, [this](const Value& sum, const Value& batch, const Value& row, const Value& column) {
      return residual(batch, row, column) + scale * silu(sum);
    });
  }
  void schedule(auto) { product.schedule(y.func()); }

 private:
  Contraction product;
  Var b{"b"}, m{"m"}, n{"n"};
};

const bool registered = register_kernel<GatedProduct, f32, f16>("test_gated_product");

}  // namespace ashlar::dsl
