// Batched matrix product with a fused bias and activation.
#include "schedules/contraction_plans.h"

namespace ashlar::dsl {

enum class Epilogue { none, bias, bias_relu, bias_gelu };

// y[b,m,n] = activation(Σ_k a[b,m,k] · b[b,k,n] + bias[n]), summed in f32
template <ElementType T>
class MatMul : public Kernel<MatMul<T>> {
 public:
  In<T, 3> a{"a", strided}, b{"b", strided};  // [batch, m, k], [batch, k, n]; a transpose is a pair of strides
  In<T, 1> bias{"bias"};                      // [n]; read only by the epilogues that add it
  Comptime<Epilogue> epilogue{"epilogue",
                              {{"none", Epilogue::none},
                               {"bias", Epilogue::bias},
                               {"bias_relu", Epilogue::bias_relu},
                               {"bias_gelu", Epilogue::bias_gelu}}};
  ContractionTunables<T> tunables;
  Out<T, 3> y{"y", {a.size(0), a.size(1), b.size(2)}};

  MatMul() {
    this->formula("y[…,m,n] = activation(Σ_k a[…,m,k] b[…,k,n] + bias[n])")
        .form(Form::contraction)
        .vendor("cublaslt_matmul");
    this->gradient(kAllInputs, "matmul_grad(dy, a, b, bias, y, options, needs)");
    this->saved_when("y", "options.activation == Activation::relu");
    this->saved_when("bias", "options.activation == Activation::gelu");
    this->flops("2.0 * static_cast<double>(shapes[0].numel()) * static_cast<double>(shapes[1].back())");
  }

  void algorithm() {
    product.define(contraction_plans(contraction_problem(a, b, y, batch, m, n), tunables, length()));
    Value sum = product(batch, m, n);
    if (epilogue.value() != Epilogue::none) sum = sum + bias(n);
    if (epilogue.value() == Epilogue::bias_relu) sum = relu(sum);
    if (epilogue.value() == Epilogue::bias_gelu) sum = gelu(sum);
    y(batch, m, n) = sum;
  }
  void schedule(auto) { product.schedule(y.func()); }

 private:
  EpilogueLength length() const {
    if (epilogue.value() == Epilogue::none) return EpilogueLength::none;
    return epilogue.value() == Epilogue::bias_gelu ? EpilogueLength::long_one : EpilogueLength::short_one;
  }
  Contraction product;
  Var batch{"batch"}, m{"m"}, n{"n"};
};

const bool registered = register_kernel<MatMul, f32, f16, bf16>("matmul");

}  // namespace ashlar::dsl
