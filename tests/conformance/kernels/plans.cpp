// A kernel with plans, as an author outside the library writes one.
#include "dsl/kernel.h"

namespace ashlar::dsl {

// y[r,c] = x[r,c] + x[r,columns-1-c]
template <ElementType T>
class Mirrored : public Kernel<Mirrored<T>> {
 public:
  In<T, 2> x{"x", strided};
  Plans plans;
  Tunable<int> tile_rows{"tile_rows", {4, 2, 8}, On::gpu};
  Out<T, 2> y{"y", shape_of(x)};

  Mirrored() { this->formula("y[r,c] = x[r,c] + x[r,columns-1-c]").form(Form::plain); }
  void algorithm() {
    const Expr rows = x.extent(0), columns = x.extent(1), elements = Halide::cast<float>(rows) * columns;
    // A step of every processor takes a nanosecond, whatever is done in it; a call of threads, a microsecond.
    const Expr nanosecond = 0.001f, microsecond = 1.0f;
    const auto model = [&](float at_once) {
      return microsecond + Halide::ceil(elements / (Expr(at_once) * device_multiprocessors())) * nanosecond;
    };
    plans.declare({{.name = "tiles",
                    .applies = columns % kTile == 0 && x.axis(1).stride() == 1,
                    .preferred = rows * columns >= kLeastTiled,
                    .microseconds = model(kTile),
                    .tunables = {"tile_rows"}},
                   {.name = "few", .applies = columns < kTile, .microseconds = elements * nanosecond},
                   {.name = "any", .microseconds = model(1)}});
    y(r, c) = x(r, c) + x(r, Value(columns - 1 - c));
  }
  void schedule(Cpu) {
    plans.schedule(y.func(), [&](const std::string& plan, Halide::Stage out) {
      if (plan == "tiles") out.vectorize(c, kTile / 4).parallel(r);
      if (plan == "few") out.reorder(r, c);
      if (plan == "any") out.vectorize(c, kTile / 4, Halide::TailStrategy::GuardWithIf);
    });
  }
  void schedule(auto) {
    plans.schedule(y.func(), [&](const std::string& plan, Halide::Stage out) {
      using Halide::TailStrategy;
      Var c_in{"c_in"}, r_in{"r_in"};
      if (plan == "tiles")
        out.gpu_tile(c, r, c_in, r_in, kTile, tile_rows.value(), TailStrategy::GuardWithIf);
      else if (plan == "few")
        out.gpu_tile(r, r_in, kTile, TailStrategy::GuardWithIf);
      else
        out.gpu_tile(c, r, c_in, r_in, kTile, 1, TailStrategy::GuardWithIf);
    });
  }

 private:
  static constexpr int kTile = 32, kLeastTiled = 4096;
  Var r{"r"}, c{"c"};
};

const bool registered = register_kernel<Mirrored, f32, f16>("test_mirrored");

}  // namespace ashlar::dsl
