// Batched matrix product with a fused bias and activation.
#include "dsl/operator.h"
#include "schedules/contraction_parts.h"
#include "schedules/contraction_plans.h"

namespace ashlar::dsl {

enum class Epilogue { none, bias, bias_relu, bias_gelu };

namespace {

const std::vector<std::pair<std::string, Epilogue>> kEpilogues{{"none", Epilogue::none},
                                                               {"bias", Epilogue::bias},
                                                               {"bias_relu", Epilogue::bias_relu},
                                                               {"bias_gelu", Epilogue::bias_gelu}};

// activation(sum + bias)
Value finished(Epilogue epilogue, Value sum, const std::function<Value()>& bias) {
  if (epilogue != Epilogue::none) sum = sum + bias();
  if (epilogue == Epilogue::bias_relu) sum = relu(sum);
  if (epilogue == Epilogue::bias_gelu) sum = gelu(sum);
  return sum;
}

}  // namespace

// y[b,m,n] = activation(Σ_k a[b,m,k] · b[b,k,n] + bias[n]), summed in f32
template <ElementType T>
class MatMul : public Kernel<MatMul<T>> {
 public:
  In<T, 3> a{"a", strided}, b{"b", strided};  // [batch, m, k], [batch, k, n]; a transpose is a pair of strides
  In<T, 1> bias{"bias"};                      // [n]; read only by the epilogues that add it
  Comptime<Epilogue> epilogue{"epilogue", kEpilogues};
  ContractionTunables<T> tunables;
  Out<T, 3> y{"y", {a.size(0), a.size(1), b.size(2)}};

  MatMul() {
    this->formula("y[…,m,n] = activation(Σ_k a[…,m,k] b[…,k,n] + bias[n])")
        .form(Form::contraction)
        .passes("matmul", "matmul_parts_sum")
        .last_with_rest("matmul_parts_and_rest")
        .vendor("cublaslt_matmul");
    this->gradient(kAllInputs, "matmul_grad(dy, a, b, bias, y, options, needs)");
    this->saved_when("y", "options.activation == Activation::relu");
    this->saved_when("bias", "options.activation == Activation::gelu");
    this->flops("2.0 * static_cast<double>(shapes[0].numel()) * static_cast<double>(shapes[1].back())");
  }

  void algorithm() {
    product.define(contraction_plans(contraction_problem(a, b, y, batch, m, n), tunables, length()));
    product.write(y, batch, m, n, [this](const Value& sum, const Value&, const Value&, const Value& column) {
      return finished(epilogue.value(), sum, [&] { return bias(column); });
    });
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

// y[m,n] = activation(Σ_p parts[p,m,n] + bias[n]): a product whose k was dealt over matrices of a batch; or of one
// part, what a vendor's product leaves to do where its library can't fuse it
template <ElementType T>
class MatMulPartsSum : public Kernel<MatMulPartsSum<T>> {
 public:
  In<T, 3> parts{"parts"};
  In<T, 1> bias{"bias"};  // [n]; read only by the epilogues that add it
  Comptime<Epilogue> epilogue{"epilogue", kEpilogues};
  Out<T, 2> y{"y", {parts.size(1), parts.size(2)}};

  MatMulPartsSum() {
    this->formula("y[m,n] = activation(Σ_p parts[p,m,n] + bias[n])").form(Form::movement).internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    p = parts.reduce(0);
    total(m, n) = sum(p, parts(p, m, n));
    y(m, n) = finished(epilogue.value(), total(m, n), [this] { return bias(n); });
  }
  void schedule(auto target) { sum_of_parts(target, y.func(), {total}, m, n); }

 private:
  Axis p;
  Stage total{"total"};
  Var m{"m"}, n{"n"};
};

// y[m,n] = activation(Σ_p parts[p,m,n] + Σ_k a[m,k] b[k,n] + bias[n]): the same where parts of one length leave a few
// terms of k
template <ElementType T>
class MatMulPartsAndRest : public Kernel<MatMulPartsAndRest<T>> {
 public:
  static constexpr bool on_gpus_alone = true;
  In<T, 3> parts{"parts"};
  In<T, 2> a{"a", strided}, b{"b", strided};  // [m, k], [k, n]
  In<T, 1> bias{"bias"};                      // [n]; read only by the epilogues that add it
  Comptime<Epilogue> epilogue{"epilogue", kEpilogues};
  Out<T, 2> y{"y", {parts.size(1), parts.size(2)}};

  MatMulPartsAndRest() {
    this->formula("y[m,n] = activation(Σ_p parts[p,m,n] + Σ_k a[m,k] b[k,n] + bias[n])")
        .form(Form::movement)
        .internal();
  }
  void algorithm() {
    p = parts.reduce(0);
    k = a.reduce(1);
    total(m, n) = sum(p, parts(p, m, n));
    rest(m, n) = sum(k, a(m, k) * b(k, n));
    y(m, n) = finished(epilogue.value(), total(m, n) + rest(m, n), [this] { return bias(n); });
  }
  void schedule(auto target) { sum_of_parts(target, y.func(), {total, rest}, m, n); }

 private:
  Axis p, k;
  Stage total{"total"}, rest{"rest"};
  Var m{"m"}, n{"n"};
};

bool add_product(const std::string& name, const std::string& formula, std::vector<OperatorTensor> inputs,
                 std::vector<std::string> calls) {
  inputs.push_back({"weight"});
  inputs.push_back({.name = "bias", .is_optional = true});
  return register_operator({.name = name,
                            .formula = name + formula,
                            .dtypes = {DType::f32, DType::f16, DType::bf16},
                            .inputs = std::move(inputs),
                            .outputs = {{"y"}},
                            .calls = std::move(calls),
                            .composed = "operators/composed/products.h"});
}

const bool registered = register_kernel<MatMul, f32, f16, bf16>("matmul") &&
                        register_kernel<MatMulPartsAndRest, f32>("matmul_parts_and_rest") &&
                        register_kernel<MatMulPartsSum, f32, f16, bf16>("matmul_parts_sum") &&
                        add_product("linear", "(input, weight, bias)[…,o] = Σ_i input[…,i] weight[o,i] + bias[o]",
                                    {{"input"}}, {"matmul"}) &&
                        add_product("bilinear",
                                    "(input1, input2, weight, bias)[…,o] = Σ_{i,j} input1[…,i] weight[o,i,j] "
                                    "input2[…,j] + bias[o]",
                                    {{"input1"}, {"input2"}}, {"mul", "matmul"});

}  // namespace ashlar::dsl
