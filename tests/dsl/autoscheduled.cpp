// A kernel whose schedule for the CPU is an autoscheduler's: to read it, not to call it.
// docs/how-to/schedule-a-kernel.md runs this file's generator.
#include "schedules/autoschedule.h"
#include "schedules/generic.h"

namespace ashlar::dsl {

// y[r,c] = Σ_k x[r,k] w[k,c]
template <ElementType T>
class Product : public Kernel<Product<T>> {
 public:
  In<T, 2> x{"x"}, w{"w"};
  Out<T, 2> y{"y", {x.size(0), w.size(1)}};

  Product() { this->formula("y[r,c] = Σ_k x[r,k] w[k,c]"); }
  void algorithm() {
    k = x.reduce(1);
    total(r, c) = sum(k, x(r, k) * w(k, c));
    y(r, c) = total(r, c);
  }
  void schedule(Cpu) {
    autoschedule({.name = "Adams2019", .sizes = {{"x", {512, 512}}, {"w", {512, 512}}, {"y", {512, 512}}}}, {y.func()});
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Axis k;
  Stage total{"total"};
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<Product, f32>("autoscheduled");

}  // namespace ashlar::dsl
