// Convolutions whose output channels read one input channel each: sums over a window, too short for a product of
// matrices.
#include "generators/frame.h"

namespace ashlar::dsl {
namespace {

Expr extent_of(const Halide::Func& out, int innermost) { return out.output_buffer().dim(innermost).extent(); }

}  // namespace

// y[a,p,q] = max(low, bias[o] + Σ_ij weight[o,i,j] x[a / multiplier, p stride - padding + i dilation, …]), x 0 outside,
// o = a mod channels
template <ElementType T>
class DepthwiseConvolution : public Kernel<DepthwiseConvolution<T>> {
 public:
  In<T, 3> x{"x", strided};   // [images · channels / multiplier, h, w]
  In<T, 3> weight{"weight"};  // [channels, taps_h, taps_w]
  In<T, 1> bias{"bias"};      // [channels], if has_bias
  WindowScalars window;
  Scalar<int32_t> multiplier{"multiplier"}, has_bias{"has_bias"};
  Scalar<float> low{"low"};
  Out<T, 3> y{"y", {any_size, any_size, any_size}};

  DepthwiseConvolution() {
    this->formula(
            "y[a,p,q] = max(low, bias[o] + Σ_ij weight[o,i,j] x[a / multiplier, p stride - padding + i dilation, "
            "q stride - padding + j dilation]), o = a mod channels")
        .internal();
    this->flops("2.0 * static_cast<double>(shapes[3].numel()) * static_cast<double>(shapes[1][1] * shapes[1][2])");
  }
  void algorithm() {
    const WindowAxis rows = window.rows(Windows::sliding, x.extent(1), extent_of(y.func(), 1));
    const WindowAxis columns = window.columns(Windows::sliding, x.extent(2), width());
    r = Halide::RDom(0, columns.taps, 0, rows.taps, "r");
    const auto plane = [this](const Expr& of) {
      return Halide::unsafe_promise_clamped(of / Halide::max(WindowScalars::of(multiplier), 1), 0, x.extent(0) - 1);
    };
    const Expr channel = a % Halide::max(weight.extent(0), 1), tap = weight(Value(channel), Value(r.y), Value(r.x));
    total(q, p, a) = 0.0f;
    if (on_gpu()) {
      const Expr term =
          x(Value(plane(a)), Value(rows.inside(rows.place(p, r.y))), Value(columns.inside(columns.place(q, r.x))))
              .expr() *
          tap;
      total(q, p, a) += Halide::select(rows.is_inside(p, r.y) && columns.is_inside(q, r.x), term, 0.0f);
    } else {
      define_rows(frame, x, plane(frame.a), rows, columns, 0.0f);
      total(q, p, a) += in_frame(frame, rows, p, r.y, columns, q, r.x, a) * tap;
    }
    const Expr of_channel = Halide::unsafe_promise_clamped(channel, 0, bias.extent(0) - 1);
    const Value added = select(Value(has_bias) != 0, bias(Value(of_channel)), 0.0f);
    y(a, p, q) = max(Value(total(q, p, a)) + added, Value(low));
  }
  void schedule(Cpu target) {
    by_element(target, y.func(), q, p, a, width(), WindowScalars::of(window.taps_h) * WindowScalars::of(window.taps_w),
               {total}, window.usual_steps(Windows::sliding, 1), window.taps_of({3, 5}));
    frame.compute_at({y.func(), strip_of_outputs()});
  }
  void schedule(auto target) {
    by_element(target, y.func(), q, p, a, width(), WindowScalars::of(window.taps_h) * WindowScalars::of(window.taps_w),
               {total});
  }

 private:
  Expr width() const { return extent_of(y.func(), 0); }
  Halide::Func total{"total"};
  Frame frame;
  Halide::RDom r;
  Var a{"a"}, p{"p"}, q{"q"};
};

// dx[a,h,w] = Σ_m Σ_pq weight[o,i,j] dy[a multiplier + m, p, q], h = p stride - padding + i dilation and so for w
template <ElementType T>
class DepthwiseInput : public Kernel<DepthwiseInput<T>> {
 public:
  In<T, 3> dy{"dy", strided};
  In<T, 3> weight{"weight"};
  WindowScalars window;
  Scalar<int32_t> candidates_h{"candidates_h"}, candidates_w{"candidates_w"}, multiplier{"multiplier"};
  Out<T, 3> dx{"dx", {any_size, any_size, any_size}};

  DepthwiseInput() {
    this->formula(
            "dx[a,h,w] = Σ_m Σ_pq weight[o,i,j] dy[a multiplier + m, p, q], h = p stride - padding + i dilation "
            "and so for w, o = (a multiplier + m) mod channels")
        .internal();
  }
  void algorithm() {
    const WindowAxis rows = window.rows(Windows::sliding, extent_of(dx.func(), 1), dy.extent(1));
    const WindowAxis columns = window.columns(Windows::sliding, width(), dy.extent(2));
    const Expr of_one = WindowScalars::of(multiplier);
    r = Halide::RDom(0, WindowScalars::of(candidates_w), 0, WindowScalars::of(candidates_h), 0, of_one, "r");
    if (!on_gpu()) return of_frames(rows, columns);
    const Expr p = rows.reader(h, r.y), q = columns.reader(w, r.x);
    const auto tap = [](const WindowAxis& axis, const Expr& at, const Expr& out) {
      return Halide::unsafe_promise_clamped(Halide::clamp(axis.tap(at, out), 0, axis.taps - 1), 0, axis.taps - 1);
    };
    const Expr plane = Halide::unsafe_promise_clamped(a * of_one + r.z, 0, dy.extent(0) - 1);
    const Expr term =
        dy(Value(plane), Value(rows.inside_outputs(p)), Value(columns.inside_outputs(q))).expr() *
        weight(Value(plane % Halide::max(weight.extent(0), 1)), Value(tap(rows, h, p)), Value(tap(columns, w, q)))
            .expr();
    total(w, h, a) = 0.0f;
    total(w, h, a) += Halide::select(rows.reads(h, p) && columns.reads(w, q), term, 0.0f);
    dx(a, h, w) = Value(total(w, h, a));
  }
  void schedule(Cpu target) {
    const Expr candidates = WindowScalars::of(candidates_h), taps = WindowScalars::of(window.taps_w);
    const auto unrolled = [&](int rows, int columns) {
      return WindowScalars::of(multiplier) == 1 && candidates == rows && taps == columns;
    };
    by_element(target, dx.func(), w, h, a, width(), candidates * taps * WindowScalars::of(multiplier), {total}, {},
               {unrolled(3, 3), unrolled(2, 3), unrolled(5, 5), unrolled(3, 5)});
    frame.compute_at({dx.func(), strip_of_outputs()});
  }
  void schedule(auto target) {
    by_element(target, dx.func(), w, h, a, width(),
               WindowScalars::of(candidates_h) * WindowScalars::of(candidates_w) * WindowScalars::of(multiplier),
               {total});
  }

 private:
  // dy's columns stand `stride` apart in the frame, 0 between them: tap j of element w reads at w + (taps - 1 - j)
  // dilation.
  void of_frames(const WindowAxis& rows, const WindowAxis& columns) {
    const Expr of_one = WindowScalars::of(multiplier), last = (columns.taps - 1) * columns.dilation;
    const auto inside = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(Halide::clamp(at, 0, size - 1), 0, size - 1);
    };
    frame.define(columns.outputs, columns.stride, last - columns.padding, 0.0f, dy.axis(2).stride() == 1,
                 [&](const Expr& q, const Expr&) -> Expr {
                   return dy(Value(inside(frame.a, dy.extent(0))), Value(inside(frame.h, dy.extent(1))), Value(q));
                 });
    r = Halide::RDom(0, columns.taps, 0, WindowScalars::of(candidates_h), 0, of_one, "r");
    const Expr p = rows.reader(h, r.y), plane = a * of_one + r.z;
    const Expr of_channel =
        Halide::unsafe_promise_clamped(plane, 0, dy.extent(0) - 1) % Halide::max(weight.extent(0), 1);
    const Expr tap = weight(Value(of_channel), Value(inside(rows.tap(h, p), rows.taps)), Value(r.x));
    const Expr read = frame.func(w + last - r.x * columns.dilation, p, plane);
    total(w, h, a) = 0.0f;
    total(w, h, a) += Halide::select(rows.reads(h, p), read * tap, 0.0f);
    dx(a, h, w) = Value(total(w, h, a));
  }

  Expr width() const { return extent_of(dx.func(), 0); }
  Halide::Func total{"total"};
  Frame frame;
  Halide::RDom r;
  Var a{"a"}, h{"h"}, w{"w"};
};

// part[s,o,t] = Σ_pq dy[n channels + o, p, q] x[(n channels + o) / multiplier, p stride - padding + i dilation, …], tap
// t = (i, j), over the s-th share of the rows (n, p) of all images
template <ElementType T>
class DepthwiseWeight : public Kernel<DepthwiseWeight<T>> {
 public:
  In<T, 3> dy{"dy", strided};
  In<T, 3> x{"x", strided};
  WindowScalars window;
  Scalar<int32_t> multiplier{"multiplier"}, rows_of_share{"rows_of_share"};
  Out<T, 3> part{"part", {any_size, any_size, any_size}};

  DepthwiseWeight() {
    this->formula(
            "part[s,o,t] = Σ_pq dy[n channels + o, p, q] x[(n channels + o) / multiplier, p stride - padding + i "
            "dilation, q stride - padding + j dilation], (n, p) in the s-th share of the images' rows")
        .internal();
    this->flops("2.0 * static_cast<double>(shapes[0].numel()) * static_cast<double>(shapes[2][2])");
  }
  void algorithm() {
    const WindowAxis rows = window.rows(Windows::sliding, x.extent(1), dy.extent(1));
    const WindowAxis columns = window.columns(Windows::sliding, x.extent(2), dy.extent(2));
    const Expr channels = extent_of(part.func(), 1), high = Halide::max(dy.extent(1), 1);
    const Expr all = dy.extent(0) / Halide::max(channels, 1) * high, length = WindowScalars::of(rows_of_share);
    if (!on_gpu()) return by_vectors_of_rows(rows, columns, channels, all, length);
    r = Halide::RDom(0, dy.extent(2), 0, length, "r");
    const Expr row = s * length + r.y, there = Halide::min(row, all - 1);
    const Expr p = there % high;
    const Expr plane = Halide::unsafe_promise_clamped(there / high * channels + o, 0, dy.extent(0) - 1);
    const Expr from =
        Halide::unsafe_promise_clamped(plane / Halide::max(WindowScalars::of(multiplier), 1), 0, x.extent(0) - 1);
    const Expr i = t / Halide::max(columns.taps, 1), j = t % Halide::max(columns.taps, 1);
    const Expr term =
        dy(Value(plane), Value(rows.inside_outputs(p)), Value(r.x)).expr() *
        x(Value(from), Value(rows.inside(rows.place(p, i))), Value(columns.inside(columns.place(r.x, j)))).expr();
    total(t, o, s) = 0.0f;
    total(t, o, s) += Halide::select(row < all && rows.is_inside(p, i) && columns.is_inside(r.x, j), term, 0.0f);
    part(s, o, t) = Value(total(t, o, s));
  }
  void schedule(Cpu) {
    Var task("task"), member("member");
    const Expr terms = Halide::max(1, dy.extent(2) * WindowScalars::of(rows_of_share) * extent_of(part.func(), 0));
    constexpr int kTermsOfTask = 1 << 15;
    part.func()
        .fuse(o, s, task)
        .split(task, task, member, Halide::max(1, kTermsOfTask / terms), Halide::TailStrategy::GuardWithIf);
    part.func().parallel(task);
    sums.compute_at(part.func(), member).store_in(Halide::MemoryType::Stack).bound(lane, 0, kLanes).vectorize(lane);
    sums.bound(j, 0, WindowScalars::of(window.taps_w)).bound(i, 0, WindowScalars::of(window.taps_h));
    const auto nest = [&](Halide::Stage stage) { return stage.reorder(lane, j, i, r.x, r.y).vectorize(lane); };
    for (const Expr& condition : window.taps_of({3, 5})) nest(sums.update().specialize(condition)).unroll(j).unroll(i);
    nest(sums.update());
    for (Frame* frame : {&of_dy, &of_x}) frame->compute_at({sums, r.y});
    total.compute_at(part.func(), t).store_in(Halide::MemoryType::Stack);
    total.update().unroll(total.rvars()[0]);
  }
  void schedule(auto target) {
    by_element(target, part.func(), t, o, s, extent_of(part.func(), 0), dy.extent(2) * WindowScalars::of(rows_of_share),
               {total});
  }

 private:
  // Vectors along a row of dy times the same of x for each tap, a lane's products added up by themselves. A frame's
  // plane is row · channels + o of all images' rows; of x it has a row for each i.
  void by_vectors_of_rows(const WindowAxis& rows, const WindowAxis& columns, const Expr& channels, const Expr& all,
                          const Expr& length) {
    const Expr high = Halide::max(dy.extent(1), 1), row_of_dy = of_dy.a / Halide::max(channels, 1);
    const auto plane = [&](const Expr& at) {
      const Expr row = at / Halide::max(channels, 1), of = at % Halide::max(channels, 1);
      return Halide::unsafe_promise_clamped(row / high * channels + of, 0, dy.extent(0) - 1);
    };
    of_dy.define(dy.extent(2), 1, 0, 0.0f, dy.axis(2).stride() == 1, [&](const Expr& q, const Expr&) -> Expr {
      return dy(Value(plane(of_dy.a)), Value(Halide::unsafe_promise_clamped(row_of_dy % high, 0, high - 1)), Value(q));
    });
    const Expr h = of_x.a / Halide::max(channels, 1) % high * rows.stride - rows.padding + of_x.h * rows.dilation;
    of_x.define(columns.size, 1, columns.padding, 0.0f, x.axis(2).stride() == 1,
                [&](const Expr& c, const Expr&) -> Expr {
                  const Expr from = Halide::unsafe_promise_clamped(
                      plane(of_x.a) / Halide::max(WindowScalars::of(multiplier), 1), 0, x.extent(0) - 1);
                  const Expr read = x(Value(from), Value(rows.certain(h)), Value(c));
                  return Halide::select(h >= 0 && h < rows.size, read, 0.0f);
                });
    r = Halide::RDom(0, (dy.extent(2) + kLanes - 1) / kLanes, 0, length, "r");
    r.where(s * length + r.y < all);
    const Expr at = (s * length + r.y) * channels + o, q = r.x * kLanes + lane;
    const Expr product = of_dy.func(q, 0, at) * of_x.func(q * columns.stride + j * columns.dilation, i, at);
    sums(lane, j, i, o, s) = 0.0f;
    sums(lane, j, i, o, s) += Halide::select(Halide::likely(q < dy.extent(2)), product, 0.0f);
    const Halide::RDom lanes(0, kLanes, "lanes");
    const Expr wide = Halide::max(columns.taps, 1);
    total(t, o, s) = 0.0f;
    total(t, o, s) += sums(lanes, t % wide, t / wide, o, s);
    part(s, o, t) = Value(total(t, o, s));
  }

  static constexpr int kLanes = 8;
  Halide::Func total{"total"}, sums{"sums"};
  Frame of_dy, of_x;
  Halide::RDom r;
  Var lane{"lane"}, i{"i"}, j{"j"};
  Var s{"share"}, o{"o"}, t{"t"};
};

const bool registered = register_kernel<DepthwiseConvolution, f32>("depthwise_convolution") &&
                        register_kernel<DepthwiseInput, f32>("depthwise_convolution_input") &&
                        register_kernel<DepthwiseWeight, f32>("depthwise_convolution_weight");

}  // namespace ashlar::dsl
