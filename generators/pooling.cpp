// Maximum and average over windows of an image, sliding ones and adaptive ones, and their gradients: each element adds
// up what the outputs that read it give, so nothing is scattered.
#include "generators/frame.h"

namespace ashlar::dsl {
namespace {

template <class Output>
Expr extent_of(const Output& output, int innermost) {
  return output.func().output_buffers()[0].dim(innermost).extent();
}

}  // namespace

// y[a,p,q] = max x[a,h,w] over the window of (p, q); indices[a,p,q] = h width + w of the first one, or of the last NaN
template <ElementType T>
class MaxPool : public Kernel<MaxPool<T>> {
 public:
  In<T, 3> x{"x", strided};
  WindowScalars window;
  Comptime<Windows> windows{"windows", {{"sliding", Windows::sliding}, {"adaptive", Windows::adaptive}}};
  OutTuple<3, f32, i64> pooled{"pooled", {{{"y"}, {"indices"}}}, {x.size(0), any_size, any_size}};

  MaxPool() { this->formula("y[a,p,q] = max x[a,h,w] over a window, indices[a,p,q] = h width + w of it").internal(); }
  void algorithm() {
    const WindowAxis rows = window.rows(windows.value(), x.extent(1), extent_of(pooled, 1));
    const WindowAxis columns = window.columns(windows.value(), x.extent(2), width());
    r = Halide::RDom(0, columns.taps, 0, rows.taps, "r");
    if (is_framed()) define_rows(frame, x, frame.a, rows, columns, Halide::Float(32).min());
    if (is_framed() || on_gpu()) return by_places(rows, columns);
    const Expr h = rows.place(p, r.y), w = columns.place(q, r.x);
    const Expr read = x(Value(a), Value(rows.inside(h)), Value(columns.inside(w))).expr();
    // The largest key has the largest value, and of equal values the first place: no value is 0 in its upper half and
    // in its lower one. Of NaN, the largest key, the last place counts.
    const Expr order = detail::ordered_key(read), place = Halide::cast<uint32_t>(h * x.extent(2) + w);
    const Expr low = Halide::select(order == Expr(detail::kKeyOfNan), place, Expr(0xffffffffu) - place);
    const Expr key = (Halide::cast<uint64_t>(order) << 32) | Halide::cast<uint64_t>(low);
    best(q, p, a) = Expr(uint64_t{0});
    best(q, p, a) = Halide::max(
        best(q, p, a), Halide::select(rows.is_inside(p, r.y) && columns.is_inside(q, r.x), key, Expr(uint64_t{0})));
    const Expr found = best(q, p, a), top = Halide::cast<uint32_t>(found >> 32), rest = Halide::cast<uint32_t>(found);
    const Expr at = Halide::select(top == Expr(detail::kKeyOfNan), rest, Expr(0xffffffffu) - rest);
    pooled.define({a, p, q}, {Value(detail::from_ordered_key(top)), Value(Halide::cast<int64_t>(at))});
  }
  void schedule(Cpu target) {
    const Expr terms = WindowScalars::of(window.taps_h) * WindowScalars::of(window.taps_w);
    if (!is_framed()) return by_element(target, pooled.func(), q, p, a, width(), terms, {best});
    by_element(target, pooled.func(), q, p, a, width(), terms, {first}, window.usual_steps(windows.value(), 1),
               window.taps_of({2, 3}));
    frame.compute_at({pooled.func(), strip_of_outputs()});
    for (Halide::Func tap : {first_down, first_across}) tap.compute_root().vectorize(o, 8);
  }
  void schedule(auto target) {
    by_element(target, pooled.func(), q, p, a, width(),
               WindowScalars::of(window.taps_h) * WindowScalars::of(window.taps_w), {first}, {},
               window.usual_taps(windows.value()));
  }

 private:
  bool is_framed() const { return !on_gpu() && windows.value() == Windows::sliding; }
  // A value and its place in two registers: one is taken where it is larger, or NaN, beginning with -Inf at the first
  // place inside. Borders are -Inf, so never taken.
  void by_places(const WindowAxis& rows, const WindowAxis& columns) {
    const auto inside_first = [&](Halide::Func f, const WindowAxis& axis) {
      f(o) = axis.windows == Windows::adaptive
                 ? Expr(0)
                 : small_quotient(Halide::max(axis.padding - o * axis.stride, 0) + axis.dilation - 1, axis.dilation);
    };
    inside_first(first_down, rows);
    inside_first(first_across, columns);
    const Expr lowest = Halide::Float(32).min();
    // From the place of tap (0, 0).
    const auto offset = [&](const Expr& i, const Expr& j) {
      return i * rows.dilation * x.extent(2) + j * columns.dilation;
    };
    // The place first: Halide may store it before it works the value out, which doesn't read it.
    const std::vector<Expr> at{q, p, a};
    define(first, {q, p, a}, {offset(first_down(p), first_across(q)), lowest});
    const Value value = on_gpu() ? in_image(x, rows, p, r.y, columns, q, r.x, a, lowest)
                                 : in_frame(frame, rows, p, r.y, columns, q, r.x, a);
    const Value old = value_at(first, at, 1);
    const Expr is_taken = (old < value).expr() || !(value == value).expr();
    update_at_once(
        first, at,
        {Halide::select(is_taken, offset(r.y, r.x), value_at(first, at, 0)), Halide::select(is_taken, value, old)});
    const Expr place = rows.start(p) * x.extent(2) + columns.start(q) + value_at(first, at, 0);
    pooled.define({a, p, q}, {Value(value_at(first, at, 1)), Value(Halide::cast<int64_t>(place))});
  }

  Expr width() const { return extent_of(pooled, 0); }
  Halide::Func best{"best"}, first{"first"}, first_down{"first_down"}, first_across{"first_across"};
  Frame frame;
  Var o{"o"};
  Halide::RDom r;
  Var a{"a"}, p{"p"}, q{"q"};
};

// dx[a,h,w] = Σ dy[a,p,q] of the windows whose index it is
template <ElementType T>
class MaxPoolGrad : public Kernel<MaxPoolGrad<T>> {
 public:
  In<T, 3> dy{"dy", strided};
  In<i64, 3> indices{"indices", shape_of(dy)};
  WindowScalars window;
  Scalar<int32_t> candidates_h{"candidates_h"}, candidates_w{"candidates_w"};
  Comptime<Windows> windows{"windows", {{"sliding", Windows::sliding}, {"adaptive", Windows::adaptive}}};
  Out<T, 3> dx{"dx", {dy.size(0), any_size, any_size}};

  MaxPoolGrad() { this->formula("dx[a,h,w] = Σ dy[a,p,q] [indices[a,p,q] = h width + w]").internal(); }
  void algorithm() {
    const WindowAxis rows = window.rows(windows.value(), extent_of(dx, 1), dy.extent(1));
    const WindowAxis columns = window.columns(windows.value(), extent_of(dx, 0), dy.extent(2));
    r = Halide::RDom(0, WindowScalars::of(candidates_w), 0, WindowScalars::of(candidates_h), "r");
    const Expr p = rows.reader(h, r.y), q = columns.reader(w, r.x);
    const Expr at_p = rows.inside_outputs(p), at_q = columns.inside_outputs(q);
    const Expr is_there = p >= 0 && p < rows.outputs && q >= 0 && q < columns.outputs;
    const Expr is_it =
        indices(Value(a), Value(at_p), Value(at_q)).expr() == Halide::cast<int64_t>(h * extent_of(dx, 0) + w);
    total(w, h, a) = 0.0f;
    total(w, h, a) += Halide::select(is_there && is_it, dy(Value(a), Value(at_p), Value(at_q)).expr(), 0.0f);
    dx(a, h, w) = Value(total(w, h, a));
  }
  void schedule(auto target) {
    by_element(target, dx.func(), w, h, a, extent_of(dx, 0),
               WindowScalars::of(candidates_h) * WindowScalars::of(candidates_w), {total});
  }

 private:
  Halide::Func total{"total"};
  Halide::RDom r;
  Var a{"a"}, h{"h"}, w{"w"};
};

/// An axis of averages, whose windows have no gaps.
inline WindowAxis dense(WindowAxis axis) {
  axis.dilation = 1;
  return axis;
}

/// How many elements the average of output p divides by along an axis: those inside, or with the padding.
inline Expr counted(const WindowAxis& axis, const Expr& p, const Expr& with_padding) {
  if (axis.windows == Windows::adaptive) return axis.end(p) - axis.start(p);
  const Expr end = Halide::min(axis.start(p) + axis.taps, axis.size + axis.padding);
  const Expr inside = Halide::min(end, axis.size) - Halide::max(axis.start(p), 0);
  return Halide::select(with_padding != 0, end - axis.start(p), inside);
}

/// 1 / (elements of the window of (p, q)), or 1 / divisor unless that is 0.
inline Expr share_of(const WindowAxis& rows, const Expr& p, const WindowAxis& columns, const Expr& q,
                     const Expr& with_padding, const Expr& divisor) {
  const Expr count = counted(rows, p, with_padding) * counted(columns, q, with_padding);
  return Halide::cast<float>(Halide::select(divisor != 0, divisor, count));
}

// y[a,p,q] = Σ x[a,h,w] over the window of (p, q) / its count
template <ElementType T>
class AvgPool : public Kernel<AvgPool<T>> {
 public:
  In<T, 3> x{"x", strided};
  WindowScalars window;
  Scalar<int32_t> with_padding{"with_padding"}, divisor{"divisor"};
  Comptime<Windows> windows{"windows", {{"sliding", Windows::sliding}, {"adaptive", Windows::adaptive}}};
  Out<T, 3> y{"y", {x.size(0), any_size, any_size}};

  AvgPool() { this->formula("y[a,p,q] = Σ x[a,h,w] over a window / its count").internal(); }
  void algorithm() {
    const WindowAxis rows = dense(window.rows(windows.value(), x.extent(1), extent_of(y, 1)));
    const WindowAxis columns = dense(window.columns(windows.value(), x.extent(2), extent_of(y, 0)));
    r = Halide::RDom(0, columns.taps, 0, rows.taps, "r");
    total(q, p, a) = 0.0f;
    if (on_gpu()) {
      total(q, p, a) += in_image(x, rows, p, r.y, columns, q, r.x, a, 0.0f);
    } else {
      by_columns(rows, columns);
    }
    const Expr divided_by = share_of(rows, p, columns, q, WindowScalars::of(with_padding), WindowScalars::of(divisor));
    y(a, p, q) = Value(total(q, p, a)) / Value(divided_by);
  }
  void schedule(Cpu target) {
    const bool is_sliding = windows.value() == Windows::sliding;
    const Expr terms = WindowScalars::of(window.taps_h) * (is_sliding ? Expr(1) : x.extent(2));
    const Expr taps = WindowScalars::of(window.taps_w);
    by_element(target, y.func(), q, p, a, extent_of(y, 0), terms, {total}, window.usual_steps(windows.value(), 1),
               is_sliding ? std::vector{taps == 2, taps == 3} : std::vector<Expr>());
    columns_of_row.compute_at({y.func(), row_of_outputs()});
  }
  void schedule(auto target) {
    const Expr down = WindowScalars::of(window.taps_h), across = WindowScalars::of(window.taps_w);
    const bool is_adaptive = windows.value() == Windows::adaptive;  // whose columns may be added up first
    by_element(target, y.func(), q, p, a, extent_of(y, 0), down * across, {total},
               is_adaptive ? std::vector<Expr>{across == 1} : std::vector<Expr>(), window.usual_taps(windows.value()));
  }

 private:
  // A column of the windows of a row of outputs is added up first.
  void by_columns(const WindowAxis& rows, const WindowAxis& columns) {
    const bool is_sliding = windows.value() == Windows::sliding;
    const Expr row = columns_of_row.h, plane = columns_of_row.a;
    columns_of_row.define(
        columns.size, 1, is_sliding ? columns.padding : Expr(0), 0.0f, x.axis(2).stride() == 1,
        [&](const Expr& column, const Expr& i) -> Expr {
          const Expr read = x(Value(plane), Value(rows.certain(rows.place(row, i))), Value(column)).expr();
          return Halide::select(rows.is_inside(row, i), read, 0.0f);
        },
        rows.taps);
    const Halide::RDom across(0, columns.taps, "across");
    const Expr at = is_sliding ? q * columns.stride + across : columns.certain(columns.place(q, across));
    const Expr sum = columns_of_row.func(at, p, a);
    total(q, p, a) += is_sliding ? sum : Halide::select(columns.is_inside(q, across), sum, 0.0f);
  }

  Halide::Func total{"total"};
  Frame columns_of_row;
  Halide::RDom r;
  Var a{"a"}, p{"p"}, q{"q"};
};

// dx[a,h,w] = Σ dy[a,p,q] / count of the windows with (h, w)
template <ElementType T>
class AvgPoolGrad : public Kernel<AvgPoolGrad<T>> {
 public:
  In<T, 3> dy{"dy", strided};
  WindowScalars window;
  Scalar<int32_t> with_padding{"with_padding"}, divisor{"divisor"};
  Scalar<int32_t> candidates_h{"candidates_h"}, candidates_w{"candidates_w"};
  Comptime<Windows> windows{"windows", {{"sliding", Windows::sliding}, {"adaptive", Windows::adaptive}}};
  Out<T, 3> dx{"dx", {dy.size(0), any_size, any_size}};

  AvgPoolGrad() { this->formula("dx[a,h,w] = Σ dy[a,p,q] / count of the windows with (h, w)").internal(); }
  void algorithm() {
    const WindowAxis rows = dense(window.rows(windows.value(), extent_of(dx, 1), dy.extent(1)));
    const WindowAxis columns = dense(window.columns(windows.value(), extent_of(dx, 0), dy.extent(2)));
    r = Halide::RDom(0, WindowScalars::of(candidates_w), 0, WindowScalars::of(candidates_h), "r");
    const Expr padded = WindowScalars::of(with_padding), given = WindowScalars::of(divisor);
    const auto share = [&](const Expr& plane, const Expr& p, const Expr& q) -> Expr {
      const Expr read = dy(Value(plane), Value(rows.inside_outputs(p)), Value(columns.inside_outputs(q))).expr();
      if (!on_gpu()) return read / share_of(rows, p, columns, q, padded, given);
      // Each axis by itself, so that the elements of a thread divide once for all of a column.
      const auto of_axis = [&](const WindowAxis& axis, const Expr& at, const Expr& instead) {
        return 1.0f / Halide::cast<float>(Halide::select(given != 0, instead, counted(axis, at, padded)));
      };
      return read * of_axis(rows, p, given) * of_axis(columns, q, 1);
    };
    total(w, h, a) = 0.0f;
    if (is_framed()) {
      // What the windows along a column give to a row of elements first, `stride` apart; then those along the row.
      columns_of_row.define(
          columns.outputs, columns.stride, columns.taps - 1 - columns.padding, 0.0f, dy.axis(2).stride() == 1,
          [&](const Expr& q, const Expr& c) -> Expr {
            const Expr p = rows.reader(columns_of_row.h, c);
            return Halide::select(rows.reads(columns_of_row.h, p), share(columns_of_row.a, p, q), 0.0f);
          },
          WindowScalars::of(candidates_h));
      const Halide::RDom across(0, columns.taps, "across");
      total(w, h, a) += columns_of_row.func(w + across, h, a);
    } else if (!on_gpu()) {
      of_adaptive(rows, columns, share);
    } else {
      const Expr p = rows.reader(h, r.y), q = columns.reader(w, r.x);
      total(w, h, a) += Halide::select(rows.reads(h, p) && columns.reads(w, q), share(a, p, q), 0.0f);
    }
    dx(a, h, w) = Value(total(w, h, a));
  }
  void schedule(Cpu target) {
    const Expr terms = WindowScalars::of(candidates_h) * WindowScalars::of(candidates_w);
    if (!is_framed()) {
      by_element(target, dx.func(), w, h, a, extent_of(dx, 0), 4, {total});
      shares.compute_at({dx.func(), strip_of_outputs()});
      for (Halide::Func table : {first_row, first_column, rows_of, columns_of}) table.compute_root().vectorize(o, 8);
      return;
    }
    const Expr taps = WindowScalars::of(window.taps_w);
    by_element(target, dx.func(), w, h, a, extent_of(dx, 0), terms, {total}, {}, {taps == 2, taps == 3});
    columns_of_row.compute_at({dx.func(), row_of_outputs()});
  }
  void schedule(auto target) {
    const Expr down = WindowScalars::of(candidates_h), across = WindowScalars::of(candidates_w);
    std::vector<Expr> usual{down == 1 && across == 1 && dy.extent(1) == 1 && dy.extent(2) == 1};
    if (windows.value() == Windows::sliding) usual = {down == 2 && across == 2, down == 3 && across == 3};
    by_element(target, dx.func(), w, h, a, extent_of(dx, 0), down * across, {total}, {}, usual);
  }

 private:
  bool is_framed() const { return !on_gpu() && windows.value() == Windows::sliding; }
  // Each window's share once for a strip of rows, and where the windows of an element begin once for a call.
  void of_adaptive(const WindowAxis& rows, const WindowAxis& columns,
                   const std::function<Expr(Expr, Expr, Expr)>& share) {
    first_row(o) = rows.reader(o, 0);
    first_column(o) = columns.reader(o, 0);
    rows_of(o) = rows.readers(o);
    columns_of(o) = columns.readers(o);
    shares.define(columns.outputs, 1, 0, 0.0f, dy.axis(2).stride() == 1,
                  [&](const Expr& q, const Expr&) -> Expr { return share(shares.a, shares.h, q); });
    Halide::RDom reader(0, WindowScalars::of(candidates_w), 0, WindowScalars::of(candidates_h), "reader");
    reader.where(reader.y < rows_of(h));
    const auto at = [](const WindowAxis& axis, const Expr& p) {
      return Halide::unsafe_promise_clamped(Halide::clamp(p, 0, axis.outputs - 1), 0, axis.outputs - 1);
    };
    const Expr one = shares.func(at(columns, first_column(w) + reader.x), at(rows, first_row(h) + reader.y), a);
    total(w, h, a) += Halide::select(reader.x < columns_of(w), one, 0.0f);
  }

  Halide::Func total{"total"}, first_row{"first_row"}, first_column{"first_column"}, rows_of{"rows_of"},
      columns_of{"columns_of"};
  Frame columns_of_row, shares;
  Var o{"o"};
  Halide::RDom r;
  Var a{"a"}, h{"h"}, w{"w"};
};

const std::vector<DType> kPooled{DType::f32, DType::f16, DType::bf16};
using Kind = FormOption::Kind;

const std::vector<OperatorOption> kMaxOptions{{"kernel_size", Kind::integers},
                                              {"stride", Kind::integers},
                                              {"padding", Kind::integers},
                                              {"dilation", Kind::integers},
                                              {"ceil_mode", Kind::boolean}};
const std::vector<OperatorOption> kAvgOptions{{"kernel_size", Kind::integers},
                                              {"stride", Kind::integers},
                                              {"padding", Kind::integers},
                                              {"ceil_mode", Kind::boolean},
                                              {"count_include_pad", Kind::boolean, 1},
                                              {"divisor_override", Kind::integer, 0}};

std::vector<OperatorOption> with_input_size(std::vector<OperatorOption> options) {
  options.insert(options.begin(), {"input_size", Kind::integers});
  return options;
}

/// One that is composed of these: pools over one and three axes, maxima without their places.
bool add_composed_pool(const std::string& name, const std::string& formula, std::vector<OperatorOption> options,
                       std::vector<std::string> calls, std::vector<OperatorScalar> scalars = {}) {
  return register_operator({.name = name,
                            .formula = name + formula,
                            .dtypes = kPooled,
                            .inputs = {{"x"}},
                            .scalars = std::move(scalars),
                            .options = std::move(options),
                            .outputs = {{"y"}},
                            .calls = std::move(calls),
                            .composed = "operators/composed/pooling.h"});
}

bool add_composed_pools() {
  const std::vector<std::string> maxima{"max_pool_planes"}, averages{"avg_pool_planes"};
  const std::vector<std::string> adaptive_averages{"avg_pool_planes", "mean"};
  const std::vector<std::string> powers{"avg_pool_planes", "pow", "mul", "affine", "where", "eq", "fill"};
  const std::vector<OperatorOption> adaptive{{"output_size", Kind::integers}};
  const std::vector<OperatorOption> power{
      {"kernel_size", Kind::integers}, {"stride", Kind::integers}, {"ceil_mode", Kind::boolean}};
  const std::vector<OperatorScalar> norm{{"norm_type", DType::f64}};
  const std::string row = "(x)[n,c,q] = ", volume = "(x)[n,c,o,p,q] = ",
                    parts = " over floor(q L / Q) ≤ l < ceil((q + 1) L / Q)", likewise = ", the other axes likewise";
  bool all =
      add_composed_pool("max_pool2d",
                        "(x)[n,c,p,q] = max x[n,c,h,w] over h = p stride - padding + i dilation, w likewise",
                        kMaxOptions, maxima) &&
      add_composed_pool("adaptive_max_pool2d",
                        "(x)[n,c,p,q] = max x[n,c,h,w] over floor(p H / P) ≤ h < ceil((p + 1) H / P), w likewise",
                        adaptive, maxima);
  for (const bool is_row : {true, false}) {
    const std::string axes = is_row ? "1d" : "3d", y = is_row ? row : volume, more = is_row ? "" : likewise;
    const std::string x = is_row ? "x[n,c,l]" : "x[n,c,…,l]", sliding = " over l = q stride - padding + j dilation";
    all =
        all && add_composed_pool("max_pool" + axes, y + "max " + x + sliding + more, kMaxOptions, maxima) &&
        add_composed_pool("avg_pool" + axes, y + "mean " + x + " over q stride - padding ≤ l < … + kernel_size" + more,
                          kAvgOptions, averages) &&
        add_composed_pool("adaptive_max_pool" + axes, y + "max " + x + parts + more, adaptive, maxima) &&
        add_composed_pool("adaptive_avg_pool" + axes, y + "mean " + x + parts + more, adaptive, adaptive_averages);
  }
  for (const std::string axes : {"1d", "2d", "3d"}) {
    all = all && add_composed_pool("lp_pool" + axes,
                                   "(x) = (Σ x^p)^(1/p) of each window, p = norm_type; where the sum is 0 the gradient "
                                   "is, too",
                                   power, powers, norm);
  }
  return all;
}

const bool registered =
    register_kernel<MaxPool, f32>("max_pool_planes") && register_kernel<MaxPoolGrad, f32>("max_pool_planes_grad") &&
    register_kernel<AvgPool, f32>("avg_pool_planes") && register_kernel<AvgPoolGrad, f32>("avg_pool_planes_grad") &&
    register_operator(
        {.name = "max_pool2d_with_indices",
         .formula = "max_pool2d_with_indices(x).y[n,c,p,q] = max x[n,c,h,w] over h = p stride - padding + i dilation, "
                    "w likewise; indices = h width + w of the first such",
         .dtypes = kPooled,
         .inputs = {{"x"}},
         .options = kMaxOptions,
         .outputs = {{"y"}, {"indices", DType::i64}},
         .calls = {"max_pool_planes"},
         .gradients = {{"x",
                        "max_pool2d_grad(dy, indices, image_size(x.shape()), kernel_size, stride, padding, "
                        "dilation, ceil_mode)"}}}) &&
    register_operator(
        {.name = "max_pool2d_grad",
         .formula = "max_pool2d_grad(dy, indices)[n,c,h,w] = Σ dy[n,c,p,q] [indices[n,c,p,q] = h width + w]",
         .dtypes = kPooled,
         .inputs = {{"dy"}, {"indices", DType::i64}},
         .options = with_input_size(kMaxOptions),
         .outputs = {{"dx"}},
         .calls = {"max_pool_planes_grad", "scatter_add_lines"},
         .gradients = {{"dy", "at_pooled_places(ddx, indices)"}}}) &&
    register_operator(
        {.name = "adaptive_max_pool2d_with_indices",
         .formula =
             "adaptive_max_pool2d_with_indices(x).y[n,c,p,q] = max x[n,c,h,w] over floor(p H / P) ≤ h < ceil((p + 1) "
             "H / P), w likewise; indices = h width + w of the first such",
         .dtypes = kPooled,
         .inputs = {{"x"}},
         .options = {{"output_size", Kind::integers}},
         .outputs = {{"y"}, {"indices", DType::i64}},
         .calls = {"max_pool_planes"},
         .gradients = {{"x", "adaptive_max_pool2d_grad(dy, indices, image_size(x.shape()))"}}}) &&
    register_operator(
        {.name = "adaptive_max_pool2d_grad",
         .formula = "adaptive_max_pool2d_grad(dy, indices)[n,c,h,w] = Σ dy[n,c,p,q] [indices[n,c,p,q] = h width + w]",
         .dtypes = kPooled,
         .inputs = {{"dy"}, {"indices", DType::i64}},
         .options = {{"input_size", Kind::integers}},
         .outputs = {{"dx"}},
         .calls = {"max_pool_planes_grad", "scatter_add_lines"},
         .gradients = {{"dy", "at_pooled_places(ddx, indices)"}}}) &&
    register_operator(
        {.name = "avg_pool2d",
         .formula = "avg_pool2d(x)[n,c,p,q] = mean x[n,c,h,w] over p stride - padding ≤ h < … + kernel_size, "
                    "w likewise",
         .dtypes = kPooled,
         .inputs = {{"x"}},
         .options = kAvgOptions,
         .outputs = {{"y"}},
         .calls = {"avg_pool_planes"},
         .gradients = {{"x",
                        "avg_pool2d_grad(dy, image_size(x.shape()), kernel_size, stride, padding, ceil_mode, "
                        "count_include_pad, divisor_override)"}}}) &&
    register_operator({.name = "avg_pool2d_grad",
                       .formula = "avg_pool2d_grad(dy)[n,c,h,w] = Σ dy[n,c,p,q] / count of the windows with (h, w)",
                       .dtypes = kPooled,
                       .inputs = {{"dy"}},
                       .options = with_input_size(kAvgOptions),
                       .outputs = {{"dx"}},
                       .calls = {"avg_pool_planes_grad"},
                       .gradients = {{"dy",
                                      "avg_pool2d(ddx, kernel_size, stride, padding, ceil_mode, count_include_pad, "
                                      "divisor_override)"}}}) &&
    register_operator(
        {.name = "adaptive_avg_pool2d",
         .formula =
             "adaptive_avg_pool2d(x)[n,c,p,q] = mean x[n,c,h,w] over floor(p H / P) ≤ h < ceil((p + 1) H / P), w "
             "likewise",
         .dtypes = kPooled,
         .inputs = {{"x"}},
         .options = {{"output_size", Kind::integers}},
         .outputs = {{"y"}},
         .calls = {"avg_pool_planes", "mean"},
         .gradients = {{"x", "adaptive_avg_pool2d_grad(dy, image_size(x.shape()))"}}}) &&
    register_operator(
        {.name = "adaptive_avg_pool2d_grad",
         .formula = "adaptive_avg_pool2d_grad(dy)[n,c,h,w] = Σ dy[n,c,p,q] / count of the windows with (h, w)",
         .dtypes = kPooled,
         .inputs = {{"dy"}},
         .options = {{"input_size", Kind::integers}},
         .outputs = {{"dx"}},
         .calls = {"avg_pool_planes_grad", "affine", "copy"},
         .gradients = {{"dy", "adaptive_avg_pool2d(ddx, image_size(dy.shape()))"}}}) &&
    add_composed_pools();

}  // namespace ashlar::dsl
