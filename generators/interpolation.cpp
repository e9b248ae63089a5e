// Images in other sizes, and the gradient of that: sums of a few neighbours along each axis by itself. On the CPU the
// caller's tables name them (nn/modules/upsample.cpp); a GPU, and a captured step, works them out.
#include "generators/frame.h"

namespace ashlar::dsl {

// y[a,p,q] = Σ_j across[j,q] Σ_i down[p,i] x[a, first_row[p] + i, first_column[q] + j], i < rows[p], j < columns[q]
template <ElementType T>
class ResamplePlanes : public Kernel<ResamplePlanes<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  Dim high{"high"}, wide{"wide"}, terms_down{"terms_down"}, terms_across{"terms_across"};
  In<T, 3> x{"x", strided};
  In<i32, 1> first_row{"first_row", {high}}, rows{"rows", {high}};
  In<T, 2> down{"down", {high, terms_down}};
  In<i32, 1> first_column{"first_column", {wide}}, columns{"columns", {wide}};
  In<T, 2> across{"across", {terms_across, wide}};
  Out<T, 3> y{"y", {x.size(0), high, wide}};

  ResamplePlanes() {
    this->formula("y[a,p,q] = Σ_j across[j,q] Σ_i down[p,i] x[a, first_row[p] + i, first_column[q] + j]").internal();
  }
  void algorithm() {
    // The tables name what is there.
    const auto certain = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(at, 0, size - 1);
    };
    const Expr row = line.h, plane = line.a;
    line.define(
        x.extent(2), 1, 0, 0.0f, x.axis(2).stride() == 1,
        [&](const Expr& column, const Expr& i) -> Expr {
          const Expr from = certain(first_row(row).expr() + i, x.extent(1));
          const Expr term = x(Value(plane), Value(from), Value(column)).expr() * down(Value(row), Value(i)).expr();
          return Halide::select(i < rows(Value(row)).expr(), term, 0.0f);
        },
        down.extent(1));
    const Halide::RDom j(0, across.extent(0), "j");
    const Value own = Halide::min(Halide::likely(q), wide.extent() - 1);  // a vector may go on behind the last one
    const Expr at = certain(first_column(own).expr() + j, x.extent(2));
    total(q, p, a) = 0.0f;
    total(q, p, a) +=
        Halide::select(j < columns(own).expr(), Expr(line.func(at, p, a)) * across(j.x, own).expr(), 0.0f);
    y(a, p, q) = Value(total(q, p, a));
  }
  void schedule(Cpu target) {
    const Expr terms = across.extent(0);
    by_element(target, y.func(), q, p, a, wide.extent(), 4 * terms, {total}, {}, {terms == 1, terms == 2});
    line.compute_at({y.func(), row_of_outputs()});
  }

 private:
  Frame line;
  Halide::Func total{"total"};
  Var a{"a"}, p{"p"}, q{"q"};
};

// y[a,p,c] = the bits of x[a, p / times, c], twice: each of x's elements beside itself, `times` rows of them
template <ElementType T>
class DoublePlanes : public Kernel<DoublePlanes<T>> {
 public:
  static constexpr bool on_cpu_alone = true;
  In<i32, 3> x{"x", strided};
  Scalar<int32_t> times{"times"};
  Out<T, 3> y{"y", {x.size(0), any_size, x.size(2)}};

  DoublePlanes() { this->formula("y[a,p,c] = the bits of x[a, p / times, c], twice").internal(); }
  void algorithm() {
    const Expr row = Halide::unsafe_promise_clamped(p / Halide::max(Value(times).expr(), 1), 0, x.extent(1) - 1);
    const Expr once = Halide::cast<uint64_t>(Halide::reinterpret<uint32_t>(x(Value(a), Value(row), Value(c)).expr()));
    y(a, p, c) = Value(Halide::reinterpret<int64_t>(once | (once << 32)));
  }
  void schedule(Cpu target) { by_element(target, y.func(), c, p, a, x.extent(2), 1, {}, {x.axis(2).stride() == 1}); }

 private:
  Var a{"a"}, p{"p"}, c{"c"};
};

enum class Neighbours : uint8_t { nearest, linear };

/// Where outputs of an axis of `size` elements lie on it.
struct ResizedAxis {
  Neighbours mode;
  Expr size, step, begin, scale, offset;

  /// nearest: floor((p + offset) scale), rounded as PyTorch rounds it; linear: the element before p's place.
  Expr before(const Expr& p) const {
    if (mode == Neighbours::linear) return Halide::cast<int32_t>(place(p) >> 32);
    const Expr at = Halide::cast<int32_t>(Halide::floor((Halide::cast<float>(p) + offset) * scale));
    return inside(Halide::min(at, size - 1), size);
  }
  Expr behind(const Expr& p) const { return inside(Halide::min(before(p) + 1, size - 1), size); }
  /// Of the element behind.
  Expr weight(const Expr& p) const {
    return Halide::cast<float>(Halide::cast<uint32_t>(place(p) & Expr(uint64_t{0xffffffff}))) * 0x1p-32f;
  }
  /// What element h gives to output first + i; 0 or less: nothing.
  Expr share(const Expr& h, const Expr& first, const Expr& i) const {
    if (mode == Neighbours::nearest) return Halide::select(before(first + i) == h, 1.0f, 0.0f);
    // 1 - distance, the distance to the first output exactly and from there on in steps of few digits; places beyond
    // the ends are at the ends
    const Expr to_first = Halide::cast<float>(line(first) - (Halide::cast<int64_t>(h) << 32)) * 0x1p-32f;
    const Expr distance = to_first + Halide::cast<float>(i) * scale;
    const Expr is_beyond = (h == 0 && distance < 0.0f) || (h == size - 1 && distance > 0.0f);
    return 1.0f - Halide::select(is_beyond, 0.0f, Halide::abs(distance));
  }

  static Expr inside(const Expr& at, const Expr& size) { return Halide::unsafe_promise_clamped(at, 0, size - 1); }

 private:
  // In units of 2^-32: a float would lose digits of the weight as places grow.
  Expr line(const Expr& p) const { return Halide::cast<int64_t>(p) * step + begin; }
  Expr place(const Expr& p) const {
    const Expr last = Halide::cast<int64_t>(size - 1) << 32;
    return Halide::cast<uint64_t>(Halide::clamp(line(p), Halide::cast<int64_t>(0), last));
  }
};

/// The scalars of both kernels below.
struct ResizeScalars {
  Scalar<int64_t> step_h{"step_h"}, step_w{"step_w"}, begin_h{"begin_h"}, begin_w{"begin_w"};
  Scalar<float> scale_h{"scale_h"}, scale_w{"scale_w"}, offset_h{"offset_h"}, offset_w{"offset_w"};

  ResizedAxis rows(Neighbours mode, const Expr& size) const {
    return {mode, size, of(step_h), of(begin_h), of(scale_h), of(offset_h)};
  }
  ResizedAxis columns(Neighbours mode, const Expr& size) const {
    return {mode, size, of(step_w), of(begin_w), of(scale_w), of(offset_w)};
  }
  static Expr of(const auto& scalar) { return Value(scalar).expr(); }
};

// y[a,p,q] = x[a, nearest to p, nearest to q], or between the two before and behind each of them
template <ElementType T>
class ResizePlanes : public Kernel<ResizePlanes<T>> {
 public:
  In<T, 3> x{"x", strided};
  ResizeScalars places;
  Comptime<Neighbours> mode{"mode", {{"nearest", Neighbours::nearest}, {"linear", Neighbours::linear}}};
  Out<T, 3> y{"y", {x.size(0), any_size, any_size}};

  ResizePlanes() {
    this->formula("y[a,p,q] = x[a, nearest to p, nearest to q], or between the two before and behind").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const ResizedAxis rows = places.rows(mode.value(), x.extent(1)),
                      columns = places.columns(mode.value(), x.extent(2));
    const auto at = [&](const Expr& h, const Expr& w) -> Expr { return x(Value(a), Value(h), Value(w)); };
    const Expr h = ResizedAxis::inside(rows.before(p), rows.size);
    const Expr w = ResizedAxis::inside(columns.before(q), columns.size);
    const Expr across = columns.weight(q), down = rows.weight(p);
    const auto of_row = [&](const Expr& row) {
      return (1.0f - across) * at(row, w) + across * at(row, columns.behind(q));
    };
    found(q, p, a) =
        mode.value() == Neighbours::nearest ? at(h, w) : (1.0f - down) * of_row(h) + down * of_row(rows.behind(p));
    y(a, p, q) = Value(found(q, p, a));
  }
  void schedule(auto target) {
    by_element(target, y.func(), q, p, a, y.func().output_buffer().dim(0).extent(), 4, {found});
  }

 private:
  Halide::Func found{"found"};
  Var a{"a"}, p{"p"}, q{"q"};
};

// dx[a,h,w] = Σ_p,q (what (h, w) gives to y[a,p,q]) dy[a,p,q], over `terms` outputs from the first that may read h
template <ElementType T>
class ResizePlanesGrad : public Kernel<ResizePlanesGrad<T>> {
 public:
  In<T, 3> dy{"dy", strided};
  ResizeScalars places;
  // The first output that reads h, or the one before it: floor(h inverse + shift).
  Scalar<float> inverse_h{"inverse_h"}, inverse_w{"inverse_w"}, shift_h{"shift_h"}, shift_w{"shift_w"};
  Scalar<int32_t> terms_h{"terms_h"}, terms_w{"terms_w"};
  Comptime<Neighbours> mode{"mode", {{"nearest", Neighbours::nearest}, {"linear", Neighbours::linear}}};
  Out<T, 3> dx{"dx", {dy.size(0), any_size, any_size}};

  ResizePlanesGrad() {
    this->formula("dx[a,h,w] = Σ_p,q (what (h, w) gives to y[a,p,q]) dy[a,p,q]").internal();
    this->widest_on_cpu(CodeTarget::cpu);
  }
  void algorithm() {
    const auto size = [this](int innermost) { return dx.func().output_buffer().dim(innermost).extent(); };
    const ResizedAxis rows = places.rows(mode.value(), size(1)), columns = places.columns(mode.value(), size(0));
    const auto of = [](const auto& scalar) { return ResizeScalars::of(scalar); };
    const auto first = [](const Expr& h, const Expr& inverse, const Expr& shift) {
      return Halide::max(Halide::cast<int32_t>(Halide::floor(Halide::cast<float>(h) * inverse + shift)), 0);
    };
    r = Halide::RDom(0, of(terms_w), 0, of(terms_h), "r");
    const Expr first_p = first(h, of(inverse_h), of(shift_h)), p = first_p + r.y;
    const Expr first_q = first(w, of(inverse_w), of(shift_w)), q = first_q + r.x;
    const Expr outputs_h = dy.extent(1), outputs_w = dy.extent(2);
    const auto inside = [](const Expr& at, const Expr& size) {
      return Halide::unsafe_promise_clamped(Halide::min(at, size - 1), 0, size - 1);
    };
    const Expr down = Halide::select(p < outputs_h, rows.share(h, first_p, r.y), 0.0f);
    const Expr across = Halide::select(q < outputs_w, columns.share(w, first_q, r.x), 0.0f);
    const Expr read = dy(Value(a), Value(inside(p, outputs_h)), Value(inside(q, outputs_w)));
    total(w, h, a) = 0.0f;
    total(w, h, a) += Halide::select(down > 0.0f && across > 0.0f, down * across * read, 0.0f);
    dx(a, h, w) = Value(total(w, h, a));
  }
  void schedule(auto target) {
    const Expr down = ResizeScalars::of(terms_h), across = ResizeScalars::of(terms_w);
    // Sizes that shrink, and twice the size; one term is an axis that stays as it is.
    std::vector<Expr> usual;
    for (const int n : {2, 3}) {
      const int terms = mode.value() == Neighbours::nearest ? n : n + 1;
      usual.push_back(down == terms && across == terms);
    }
    by_element(target, dx.func(), w, h, a, dx.func().output_buffer().dim(0).extent(), down * across, {total},
               on_gpu() ? std::vector<Expr>{across == 1} : std::vector<Expr>(), on_gpu() ? usual : std::vector<Expr>());
  }

 private:
  Halide::Func total{"total"};
  Halide::RDom r;
  Var a{"a"}, h{"h"}, w{"w"};
};

const bool registered =
    register_kernel<ResamplePlanes, f32>("resample_planes") && register_kernel<DoublePlanes, i64>("double_planes") &&
    register_kernel<ResizePlanes, f32>("resize_planes") &&
    register_kernel<ResizePlanesGrad, f32>("resize_planes_grad") &&
    register_operator(
        {.name = "interpolate",
         .formula =
             "interpolate(x) = x [n, c, sizes…] in other sizes, of size or by scale_factor, one for all axes: "
             "nearest, y[q] = x[floor(q scale)], or linear along each axis between the elements around "
             "(q + 1/2) scale - 1/2, with align_corners q (L - 1) / (Q - 1); bilinear, trilinear: of two axes, of "
             "three",
         .dtypes = {DType::f32, DType::f16, DType::bf16},
         .inputs = {{"x"}},
         .scalars = {{"scale_factor", DType::f64, "0.0"}},
         .options = {{"size", FormOption::Kind::integers},
                     {"mode", FormOption::Kind::choice, 0, {"nearest", "linear", "bilinear", "trilinear"}},
                     {"align_corners", FormOption::Kind::boolean}},
         .scalars_last = true,
         .outputs = {{"y"}},
         .calls = {"resample_planes", "double_planes", "resize_planes", "resize_planes_grad", "index_select", "lerp"},
         .composed = "operators/composed/interpolation.h",
         .recorded_parts = "autograd/recipes/interpolation.h"});

}  // namespace ashlar::dsl
