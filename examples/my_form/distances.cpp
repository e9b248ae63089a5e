// Squared distances of points, and what is made of them by hand (distance_operators.cpp).
#include "dsl/kernel.h"
#include "every_pair.h"

namespace ashlar::dsl {

// squared_distances(a, b)[i,j] = Σ_k (a[i,k] - b[j,k])²
template <ElementType T>
class SquaredDistances : public Kernel<SquaredDistances<T>> {
 public:
  In<T, 2> a{"a", strided}, b{"b", strided};
  Out<T, 2> y{"y", {a.size(0), b.size(0)}};

  SquaredDistances() {
    this->formula("squared_distances(a, b)[i,j] = Σ_k (a[i,k] - b[j,k])²").form(EveryPair::signature);
    this->gradient("a", "squared_distances_grad(dy, a, b)");
    this->gradient("b", "squared_distances_grad(dy.transpose(0, 1), b, a)");
    this->flops("3.0 * shapes[0].numel() * shapes[1][0]");
  }
  void algorithm() {
    k = a.reduce(1);
    total(i, j) = sum(k, square(a(i, k) - b(j, k)));
    y(i, j) = total(i, j);
  }
  void schedule(Cpu) {
    y.func().parallel(i);
    total.func().compute_at(y.func(), j);
  }
  void schedule(auto) {  // OpenCL, Cuda: a thread for each pair
    y.func().gpu_tile(j, i, jo, io, ji, ii, 16, 8, Halide::TailStrategy::GuardWithIf);
    total.func().compute_at(y.func(), ji);
  }

 private:
  Axis k;
  Stage total{"total"};
  Var i{"i"}, j{"j"}, io{"io"}, jo{"jo"}, ii{"ii"}, ji{"ji"};
};

const bool registered =
    register_kernel<SquaredDistances, f32>("squared_distances") &&
    register_operator({.name = "squared_distances_grad",
                       .formula = "squared_distances_grad(dy, a, b)[i,k] = 2 Σ_j dy[i,j] (a[i,k] - b[j,k])",
                       .dtypes = {DType::f32},
                       .inputs = {{"dy"}, {"a"}, {"b"}},
                       .outputs = {{"da"}},
                       .calls = {"sum", "mul", "matmul", "sub", "affine"}}) &&
    register_operator(
        {.name = "gaussian_kernel",
         .formula = "gaussian_kernel(a, b, gamma)[i,j] = e^(-gamma Σ_k (a[i,k] - b[j,k])²)",
         .dtypes = {DType::f32},
         .inputs = {{"a"}, {"b"}},
         .scalars = {{"gamma"}},
         .outputs = {{"y"}},
         .calls = {"squared_distances", "affine", "exp"},
         .gradients = {{"a", "squared_distances_grad(affine(mul(dy, y), -gamma, 0), a, b)"},
                       {"b", "squared_distances_grad(affine(mul(dy, y), -gamma, 0).transpose(0, 1), b, a)"}}});

}  // namespace ashlar::dsl
