// Lines asked for before they are written or read: what the lowered code holds. A result's while a row's values are
// worked out, on y[r, c] = 2 x[r, c]; those of a tile of sums; those that a schedule asks for.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "dsl/build/instances.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/write_ahead.h"

namespace ashlar::dsl {
namespace {

/// Rows of `out` written from `values`, with their lines asked for ahead.
void rows_of(Halide::Func values, Halide::Func out, const Var& r, const Var& c) {
  out.vectorize(c, 32, Halide::TailStrategy::GuardWithIf);
  values.compute_at(out, r).vectorize(c, 32, Halide::TailStrategy::GuardWithIf);
  write_ahead(values, out);
}

template <ElementType T>
class TwiceRows : public Kernel<TwiceRows<T>> {
 public:
  static inline bool with_inputs = true;
  In<T, 2> x{"x"};
  Out<T, 2> y{"y", shape_of(x)};

  void algorithm() {
    values(c, r) = with_inputs ? (x(r, c) * 2.0).expr() : Halide::cast<float>(Expr(c) + Expr(r));
    y(r, c) = Value(values(c, r));
  }
  void schedule(auto) { rows_of(values, y.func(), r, c); }

 private:
  Var r{"r"}, c{"c"};
  Halide::Func values{"values"};
};

// y[r, c] = (x[r, c] + z[r, c])²: both are read at an index that is worked out once.
template <ElementType T>
class SummedRows : public Kernel<SummedRows<T>> {
 public:
  In<T, 2> x{"x"};
  In<T, 2> z{"z", shape_of(x)};
  Out<T, 2> y{"y", shape_of(x)};

  void algorithm() {
    const Value sum = x(r, c) + z(r, c);
    values(c, r) = (sum * sum).expr();
    y(r, c) = Value(values(c, r));
  }
  void schedule(auto) { rows_of(values, y.func(), r, c); }

 private:
  Var r{"r"}, c{"c"};
  Halide::Func values{"values"};
};

// y[r, c] = Σ_k x[r, k] z[k, c], in tiles of 4 rows and two vectors.
template <ElementType T>
class TiledSums : public Kernel<TiledSums<T>> {
 public:
  static inline bool with_prefetch = false;
  In<T, 2> x{"x"};
  In<T, 2> z{"z", {x.size(1), any_size}};
  Out<T, 2> y{"y", {x.size(0), z.size(1)}};

  void algorithm() {
    k = Halide::RDom(0, x.extent(1));
    sums(c, r) = 0.0f;
    sums(c, r) += x(r, Value(Expr(k))).expr() * z(Value(Expr(k)), c).expr();
    y(r, c) = Value(sums(c, r));
  }
  void schedule(auto) {
    Var column("column"), row("row");
    Halide::Func out = y.func();
    out.split(c, column, c, 16, Halide::TailStrategy::GuardWithIf)
        .split(r, row, r, 4, Halide::TailStrategy::GuardWithIf);
    out.reorder(c, r, column, row).vectorize(c, 8).unroll(c).unroll(r).never_partition_all();
    sums.compute_at(out, column).store_in(Halide::MemoryType::Stack).bound_extent(c, 16).bound_extent(r, 4);
    sums.update().reorder(c, r, k);
    if (with_prefetch)
      sums.update().prefetch(inputs_of(y.func())[1], k, k, 1, Halide::PrefetchBoundStrategy::NonFaulting);
    else
      write_tile_ahead(sums, out);
  }

 private:
  Var r{"r"}, c{"c"};
  Halide::RDom k;
  Halide::Func sums{"sums"};
};

int count_of(const std::string& what, const std::string& text) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) count++;
  return count;
}
const std::string kAsked = "llvm.prefetch.p0(", kAskedOfY = kAsked + "reinterpret<(void *)>(reinterpret<int64>(y";

template <class K>
std::string code_of() {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);  // other tests count on the host's
  std::ostringstream text;
  text << K::create(Halide::GeneratorContext(halide_target("cpu_avx2", 80)))->build_module("asked");
  return text.str();
}

// How many lines the code asks for, whole vectors and the last of a row together.
template <ElementType T>
int lines_asked_for() {
  return count_of(kAskedOfY, code_of<TwiceRows<T>>());
}

TEST(WriteAhead, AsksForEveryLineOfAVector) {
  EXPECT_EQ(lines_asked_for<f32>() % 2, 0);
  EXPECT_GT(lines_asked_for<f32>(), 0);
  EXPECT_EQ(lines_asked_for<bf16>() * 2, lines_asked_for<f32>()) << "32 elements of 2 bytes are one line";
}

// An address that names what stands further in would be no code: "Symbol not found".
TEST(WriteAhead, WorksOutTheIndexByItself) {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);
  const auto kernel = SummedRows<f32>::create(Halide::GeneratorContext(halide_target("cpu_avx2", 80)));
  const std::string object = ::testing::TempDir() + "summed_rows.o";
  Halide::Module module = kernel->build_module("summed");
  std::ostringstream text;
  text << module;
  EXPECT_NE(text.str().find(kAskedOfY), std::string::npos);
  module.compile({{Halide::OutputFileType::object, object}});
  EXPECT_GT(std::filesystem::file_size(object), 0U);
  std::filesystem::remove(object);
}

TEST(WriteAhead, AsksForATilesVectors) {
  constexpr int kVectors = 4 * 2;
  EXPECT_EQ(count_of(kAskedOfY, code_of<TiledSums<f32>>()), kVectors);
}

// Halide's own go past all caches but the first.
TEST(WriteAhead, SchedulesPrefetchesIntoAllCaches) {
  TiledSums<f32>::with_prefetch = true;
  const std::string code = code_of<TiledSums<f32>>();
  TiledSums<f32>::with_prefetch = false;
  EXPECT_GT(count_of(kAsked, code), 0);
  EXPECT_EQ(count_of(" prefetch(", code), 0);
}

TEST(WriteAhead, NeedsAnInputOfThatShape) {
  TwiceRows<f32>::with_inputs = false;
  EXPECT_EQ(lines_asked_for<f32>(), 0);
  TwiceRows<f32>::with_inputs = true;
}

}  // namespace
}  // namespace ashlar::dsl
