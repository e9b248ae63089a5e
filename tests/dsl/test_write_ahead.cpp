// A result's lines asked for while a row's values are worked out, on y[r, c] = 2 x[r, c]: what the lowered code holds.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "dsl/build/instances.h"
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

// How many lines the code asks for, whole vectors and the last of a row together.
template <ElementType T>
int lines_asked_for() {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);  // other tests count on the host's
  std::ostringstream text;
  text << TwiceRows<T>::create(Halide::GeneratorContext(halide_target("cpu_avx2", 80)))->build_module("twice");
  const std::string code = text.str(), asks = "prefetch(y";
  int count = 0;
  for (size_t at = code.find(asks); at != std::string::npos; at = code.find(asks, at + 1)) count++;
  return count;
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
  EXPECT_NE(text.str().find("prefetch(y"), std::string::npos);
  module.compile({{Halide::OutputFileType::object, object}});
  EXPECT_GT(std::filesystem::file_size(object), 0U);
  std::filesystem::remove(object);
}

TEST(WriteAhead, NeedsAnInputOfThatShape) {
  TwiceRows<f32>::with_inputs = false;
  EXPECT_EQ(lines_asked_for<f32>(), 0);
  TwiceRows<f32>::with_inputs = true;
}

}  // namespace
}  // namespace ashlar::dsl
