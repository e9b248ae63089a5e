// Kernels that read an element's neighbours, with every border.
#include "schedules/generic.h"

namespace ashlar::dsl {

// y[r,c] = Σ_{|i|,|j| <= 1} (2 - |i|) (2 - |j|) x[r+i,c+j] / 16
template <ElementType T>
class Blur : public Kernel<Blur<T>> {
 public:
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};

  void bind(Border border) {
    border_ = border;
    this->formula("y[r,c] = Σ_{|i|,|j| <= 1} (2 - |i|) (2 - |j|) x[r+i,c+j] / 16");
  }
  void algorithm() {
    const Bordered around = bordered(x, border_, 0.5);
    const auto row = [&](const Value& at) {
      return around(at, Value(c) - 1) + 2.0 * around(at, c) + around(at, Value(c) + 1);
    };
    y(r, c) = (row(Value(r) - 1) + 2.0 * row(r) + row(Value(r) + 1)) * (1.0 / 16);
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Border border_ = Border::constant;
  Var r{"r"}, c{"c"};
};

// y[b,i] = Σ_k w[k] x[b,i + k - n/2], n weights
template <ElementType T>
class Convolve : public Kernel<Convolve<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 1> w{"w"};
  Out<T, 2> y{"y", shape_of(x)};

  void bind(Border border) {
    border_ = border;
    this->formula("y[b,i] = Σ_k w[k] x[b,i+k-n/2]");
  }
  void algorithm() {
    k = w.reduce(0);
    const Bordered around = bordered(x, border_);
    y(b, i) = sum(k, w(k) * around(b, Value(i) + k - Value(w.extent(0) / 2)));
  }
  void schedule(auto target) { generic(target, y); }

 private:
  Border border_ = Border::constant;
  Axis k;
  Var b{"b"}, i{"i"};
};

template <template <class> class K, ElementType... T>
bool register_borders(const std::string& name) {
  const auto with = [&](const char* border_name, Border border) {
    return register_bound_kernel<K, T...>(name + border_name, [border](auto& kernel) { kernel.bind(border); });
  };
  return with("_constant", Border::constant) && with("_clamp", Border::clamp) && with("_reflect", Border::reflect) &&
         with("_wrap", Border::wrap);
}

const bool registered = register_borders<Blur, f32>("test_blur") && register_borders<Convolve, f32>("test_convolve");

}  // namespace ashlar::dsl
