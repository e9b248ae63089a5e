#include "schedules/broadcast.h"

namespace ashlar::dsl {

// Between any strides, by byte width: permutes, gathers and scatters views.
template <class Self, ElementType T, int rank>
class CopyOfAxes : public Kernel<Self> {
 public:
  In<T, rank> x{"x", strided};
  Out<T, rank> y{"y", shape_of(x)};
  BroadcastTunables tunables;

  explicit CopyOfAxes(const std::string& formula) {
    this->formula(formula).form(Form::movement).internal();
    // Memory limits it; 128-bit vectors hold a row of a transposed tile of bytes, and 64-bit elements are few.
    if (std::is_same_v<T, raw<1>> || std::is_same_v<T, raw<8>>) this->widest_on_cpu(CodeTarget::cpu);
  }
};

// y[a,b,c,d] = x[a,b,c,d]
template <ElementType T>
class Copy : public CopyOfAxes<Copy<T>, T, 4> {
 public:
  Copy() : CopyOfAxes<Copy<T>, T, 4>("y[a,b,c,d] = x[a,b,c,d]") {}
  void algorithm() { this->y(a, b, c, d) = this->x(a, b, c, d); }
  void schedule(auto target) { broadcast(target, this->y.func(), {a, b, c, d}, &this->tunables); }

 private:
  Var a{"a"}, b{"b"}, c{"c"}, d{"d"};
};

// y[a,b,c,d,e] = x[a,b,c,d,e]; on the CPU, where a call costs little, several copies of four axes do as well
template <ElementType T>
class CopyOfFive : public CopyOfAxes<CopyOfFive<T>, T, 5> {
 public:
  static constexpr bool on_gpus_alone = true;
  CopyOfFive() : CopyOfAxes<CopyOfFive<T>, T, 5>("y[a,b,c,d,e] = x[a,b,c,d,e]") {}
  void algorithm() { this->y(a, b, c, d, e) = this->x(a, b, c, d, e); }
  void schedule(auto target) { broadcast(target, this->y.func(), {a, b, c, d, e}, &this->tunables); }

 private:
  Var a{"a"}, b{"b"}, c{"c"}, d{"d"}, e{"e"};
};

// y[offset_k + i] = x_k[i], k < count: tensors that shall lie in one piece of memory;  by byte width
template <ElementType T>
class CopyParts : public Kernel<CopyParts<T>> {
 public:
  In<T, 1> x0{"x0"}, x1{"x1"}, x2{"x2"}, x3{"x3"}, x4{"x4"}, x5{"x5"}, x6{"x6"}, x7{"x7"};
  Scalar<int32_t> offset0{"offset0"}, offset1{"offset1"}, offset2{"offset2"}, offset3{"offset3"}, offset4{"offset4"},
      offset5{"offset5"}, offset6{"offset6"}, offset7{"offset7"}, count{"count"};
  Out<T, 1> y{"y", {any_size}};

  CopyParts() {
    this->formula("y[offset_k + i] = x_k[i], k < count").form(Form::movement).internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const auto inside = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(at, 0, size - 1);
    };
    const std::array parts{&x0, &x1, &x2, &x3, &x4, &x5, &x6, &x7};
    const std::array offsets{Value(offset0), Value(offset1), Value(offset2), Value(offset3),
                             Value(offset4), Value(offset5), Value(offset6), Value(offset7)};
    Expr longest = 0;
    for (const In<T, 1>* x : parts) longest = Halide::max(longest, x->extent(0));
    element = Halide::RDom(0, longest, 0, Value(count).expr(), "element");
    const Expr i = element.x, part = element.y;
    Expr value, size, offset;
    for (size_t k = parts.size(); k-- > 0;) {
      const Expr of_part = (*parts[k])(Value(inside(i, parts[k]->extent(0)))).expr();
      if (!value.defined()) {
        value = of_part, size = parts[k]->extent(0), offset = offsets[k].expr();
        continue;
      }
      const Expr is_this = part == static_cast<int>(k);
      // By branches where Halide has them as values: then only the part's own element is loaded.
      value = Descriptor::target.has_feature(Halide::Target::OpenCL)
                  ? Halide::select(is_this, of_part, value)
                  : Halide::Internal::Call::make(value.type(), Halide::Internal::Call::if_then_else,
                                                 {is_this, of_part, value}, Halide::Internal::Call::PureIntrinsic);
      size = Halide::select(is_this, parts[k]->extent(0), size);
      offset = Halide::select(is_this, offsets[k].expr(), offset);
    }
    element.where(i < size);
    Halide::Func out = y.func();
    out(whole) = Halide::undef(value.type());
    out(inside(offset + i, y.dim(0).extent())) = value;
  }
  void schedule(Cpu) {
    Halide::Stage(y.func()).unscheduled();  // nothing is stored there
    y.func().update().allow_race_conditions().parallel(element.y);
  }
  void schedule(auto) {
    constexpr int kThreads = 256;
    Var thread("thread");
    Halide::RVar block("block"), member("member");
    y.func().gpu_tile(whole, thread, 32, Halide::TailStrategy::GuardWithIf);
    y.func()
        .update()
        .allow_race_conditions()  // there are none: parts don't overlap
        .split(element.x, block, member, kThreads, Halide::TailStrategy::GuardWithIf)
        .gpu_blocks(block, element.y)
        .gpu_threads(member);
  }

 private:
  Halide::RDom element;
  Var whole{"whole"};
};

const bool registered = register_kernel<Copy, raw<1>, raw<2>, raw<4>, raw<8>>("copy") &&
                        register_kernel<CopyOfFive, raw<2>, raw<4>>("copy_of_five") &&
                        register_kernel<CopyParts, raw<2>, raw<4>>("copy_parts");

}  // namespace ashlar::dsl
