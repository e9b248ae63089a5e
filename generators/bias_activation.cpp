// What a vendor's product leaves to do where its library can't fuse it: one pass over sums that are still f32.
#include "schedules/generic.h"

namespace ashlar::dsl {

enum class Activated { none, relu, gelu };

// y[b,m,n] = activation(sums[b,m,n] + bias[n])
template <ElementType T>
class BiasActivation : public Kernel<BiasActivation<T>> {
 public:
  In<f32, 3> sums{"sums"};
  In<T, 1> bias{"bias", {sums.size(2)}};
  Comptime<Activated> activation{"activation",
                                 {{"none", Activated::none}, {"relu", Activated::relu}, {"gelu", Activated::gelu}}};
  Out<T, 3> y{"y", shape_of(sums)};

  BiasActivation() {
    this->formula("y[b,m,n] = activation(sums[b,m,n] + bias[n])").internal().widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    Value sum = sums(b, m, n) + bias(n);
    if (activation.value() == Activated::relu) sum = relu(sum);
    if (activation.value() == Activated::gelu) sum = gelu(sum);
    y(b, m, n) = sum;
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Var b{"b"}, m{"m"}, n{"n"};
};

const bool registered = register_kernel<BiasActivation, f32, f16, bf16>("bias_activation");

}  // namespace ashlar::dsl
