// Convolutions whose output channels read one input channel each: sums over a window, too short for a product of
// matrices.
#include "generators/frame.h"

namespace ashlar::dsl {
namespace {

Expr extent_of(const Halide::Func& out, int innermost) { return out.output_buffer().dim(innermost).extent(); }

}  // namespace

// y[a,p,q] = max(low, bias[o] + Σ_ij weight[o,i,j] x[a / multiplier, p stride - padding + i dilation, …]), x 0 outside,
// o = a mod channels; on a GPU, where the weights are reversed, weight[o, taps_h - 1 - i, taps_w - 1 - j]
template <ElementType T>
class DepthwiseConvolution : public Kernel<DepthwiseConvolution<T>> {
 public:
  In<T, 3> x{"x", strided};   // [images · channels / multiplier, h, w]
  In<T, 3> weight{"weight"};  // [channels, taps_h, taps_w]
  In<T, 1> bias{"bias"};      // [channels], if has_bias
  WindowScalars window;
  Scalar<int32_t> multiplier{"multiplier"}, has_bias{"has_bias"}, is_reversed{"is_reversed"};
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
    const auto of_tap = [this](const Expr& i, const Expr& taps) {
      return on_gpu() ? Halide::select(WindowScalars::of(is_reversed) == 1, taps - 1 - i, i) : i;
    };
    const Expr channel = a % Halide::max(weight.extent(0), 1);
    const Expr tap = weight(Value(channel), Value(of_tap(r.y, rows.taps)), Value(of_tap(r.x, columns.taps)));
    total(q, p, a) = 0.0f;
    if (on_gpu()) {
      total(q, p, a) += in_image(x, rows, p, r.y, columns, q, r.x, plane(a), 0.0f) * tap;
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
    const Expr down = WindowScalars::of(window.taps_h), across = WindowScalars::of(window.taps_w);
    const auto usual = [&](int taps, int reversed) {
      return down == taps && across == taps && WindowScalars::of(is_reversed) == reversed;
    };
    by_element(target, y.func(), q, p, a, width(), down * across, {total}, {across == 5},
               {usual(3, 0), usual(5, 0), usual(3, 1)});
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
    const Expr of_both = a * Halide::max(of_one, 1) + r.z, channel = of_both % Halide::max(weight.extent(0), 1);
    const Expr plane = Halide::unsafe_promise_clamped(of_both, 0, dy.extent(0) - 1);
    const Expr term = dy(Value(plane), Value(rows.inside_outputs(p)), Value(columns.inside_outputs(q))).expr() *
                      weight(Value(channel), Value(tap(rows, h, p)), Value(tap(columns, w, q))).expr();
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
    const Expr down = WindowScalars::of(candidates_h), across = WindowScalars::of(candidates_w);
    const Expr of_one = WindowScalars::of(multiplier);
    by_element(target, dx.func(), w, h, a, width(), down * across * of_one, {total}, {across == 3, across == 4},
               {of_one == 1 && down == 2 && across == 2});
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

// part[s,o,i,j] = Σ_pq dy[n channels + o, p, q] x[(n channels + o) / multiplier, p stride - padding + i dilation, …],
// over the s-th share of the rows (n, p) of all images
template <ElementType T>
class DepthwiseWeight : public Kernel<DepthwiseWeight<T>> {
 public:
  In<T, 3> dy{"dy", strided};
  In<T, 3> x{"x", strided};
  WindowScalars window;
  Scalar<int32_t> multiplier{"multiplier"}, rows_of_share{"rows_of_share"};
  Out<T, 4> part{"part", {any_size, any_size, any_size, any_size}};

  DepthwiseWeight() {
    this->formula(
            "part[s,o,i,j] = Σ_pq dy[n channels + o, p, q] x[(n channels + o) / multiplier, p stride - padding + i "
            "dilation, q stride - padding + j dilation], (n, p) in the s-th share of the images' rows")
        .internal();
    this->flops("2.0 * static_cast<double>(shapes[0].numel()) * static_cast<double>(shapes[2][2] * shapes[2][3])");
  }
  void algorithm() {
    const WindowAxis rows = window.rows(Windows::sliding, x.extent(1), dy.extent(1));
    const WindowAxis columns = window.columns(Windows::sliding, x.extent(2), dy.extent(2));
    const Expr channels = extent_of(part.func(), 2), high = Halide::max(dy.extent(1), 1);
    const Expr all = dy.extent(0) / Halide::max(channels, 1) * high, length = WindowScalars::of(rows_of_share);
    if (on_gpu()) {
      by_threads_of_terms(rows, columns, channels, all, length);
    } else {
      by_vectors_of_rows(rows, columns, channels, all, length);
    }
  }
  void schedule(Cpu) {
    Var task("task"), member("member");
    const Expr taps = extent_of(part.func(), 0) * extent_of(part.func(), 1);
    const Expr terms = Halide::max(1, dy.extent(2) * WindowScalars::of(rows_of_share) * taps);
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
    total.compute_at(part.func(), j).store_in(Halide::MemoryType::Stack);
    total.update().unroll(total.rvars()[0]);
  }
  // A block has kTaps taps of a row of the window for a channel and a share. Its threads lie along the terms; what they
  // have is added up in two steps.
  void schedule(auto) {
    leave_out_certain_checks();
    index_arithmetic();
    Var within("within"), tiles("tiles"), block("block"), thread("thread");
    part.func()
        .split(j, tile, within, kTaps, Halide::TailStrategy::GuardWithIf)
        .fuse(tile, i, tiles)
        .fuse(o, s, block)
        .reorder(within, block, tiles)
        .gpu_blocks(block, tiles)
        .gpu_threads(within);
    for (Halide::Func stage : {of_thread, of_some}) {
      stage.compute_at(part.func(), block)
          .store_in(Halide::MemoryType::GPUShared)
          .bound(u, 0, kTaps)
          .bound_storage(tile, 1);
    }
    of_thread.bound(lane, 0, kThreads).reorder(u, lane).unroll(u).gpu_threads(lane);
    of_some.bound(lane, 0, kSome).fuse(lane, u, thread).gpu_threads(thread);
    sums.compute_at(of_thread, lane).store_in(Halide::MemoryType::Register).unroll(u);
    sums.update().reorder(u, r.x, r.y).unroll(u).unroll(r.x);
  }

 private:
  void by_threads_of_terms(const WindowAxis& rows, const WindowAxis& columns, const Expr& channels, const Expr& all,
                           const Expr& given_length) {
    const Expr length = Halide::max(given_length, 1), wide = Halide::max(dy.extent(2), 1), terms = length * wide;
    const Expr high = Halide::max(dy.extent(1), 1), of_one = Halide::max(WindowScalars::of(multiplier), 1);
    constexpr int kTurn = kTogether * kThreads;
    r = Halide::RDom(0, kTogether, 0, (terms + kTurn - 1) / kTurn, "r");
    // Term k of the share is column k mod wide of row k / wide, which is a row of some image.
    const Expr k = r.y * kTurn + r.x * kThreads + lane, row = small_quotient(k, wide), q = k - row * wide;
    const Expr first = s * length;
    const Expr of_first = first % high + row, beyond = small_quotient(of_first, high), p = of_first - beyond * high;
    const auto inside = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(at, 0, size - 1);
    };
    const Expr is_term = k < terms && first + row < all;
    const Expr image = Halide::select(is_term, first / high + beyond, 0);
    const Expr plane = inside(image * channels + o, dy.extent(0));
    const Expr of_dy = dy(Value(plane), Value(inside(p, high)), Value(inside(q, wide)));
    const Expr of_x = in_image(x, rows, p, i, columns, q, tile * kTaps + u,
                               inside(image * (channels / of_one) + o / of_one, x.extent(0)), 0.0f, is_term);
    sums(lane, u, tile, i, o, s) = 0.0f;
    sums(lane, u, tile, i, o, s) += Halide::select(is_term, of_dy, 0.0f) * of_x;
    of_thread(lane, u, tile, i, o, s) = sums(lane, u, tile, i, o, s);
    const auto added = [&](const Halide::Func& func, const Expr& first, int count, int step, const Expr& at_u,
                           const Expr& at_tile) {
      Expr sum = func(first, at_u, at_tile, i, o, s);
      for (int n = 1; n < count; n++) sum += func(first + n * step, at_u, at_tile, i, o, s);
      return sum;
    };
    of_some(lane, u, tile, i, o, s) = added(of_thread, lane, kThreads / kSome, kSome, u, tile);
    part(s, o, i, j) = Value(added(of_some, 0, kSome, 1, j % kTaps, j / kTaps));
  }

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
    total(j, i, o, s) = 0.0f;
    total(j, i, o, s) += sums(lanes, j, i, o, s);
    part(s, o, i, j) = Value(total(j, i, o, s));
  }

  static constexpr int kLanes = 8;                            // of the CPU's vectors
  static constexpr int kThreads = 128, kSome = 8, kTaps = 4;  // of a GPU's blocks
  static constexpr int kTogether = 4;                         // terms of a thread that are under way at once
  Halide::Func total{"total"}, sums{"sums"}, of_thread{"of_thread"}, of_some{"of_some"};
  Frame of_dy, of_x;
  Halide::RDom r;
  Var lane{"lane"}, i{"i"}, j{"j"}, tile{"tile"}, u{"u"};
  Var s{"share"}, o{"o"};
};

const bool registered = register_kernel<DepthwiseConvolution, f32>("depthwise_convolution") &&
                        register_kernel<DepthwiseInput, f32>("depthwise_convolution_input") &&
                        register_kernel<DepthwiseWeight, f32>("depthwise_convolution_weight");

}  // namespace ashlar::dsl
