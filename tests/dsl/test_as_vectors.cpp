// Tiles turned round in registers, on y[r, c] = x[c, r]: what the lowered code holds, and what is refused.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "dsl/build/instances.h"
#include "dsl/kernel.h"
#include "schedules/lowering/as_vectors.h"

namespace ashlar::dsl {
namespace {

constexpr int kRows = 4, kColumns = 8;

class Turned : public Kernel<Turned> {
 public:
  static inline bool is_unrolled = true;
  In<f32, 2> x{"x"};
  Out<f32, 2> y{"y", {x.size(1), x.size(0)}};

  void algorithm() {
    staged(r, c) = x(c, r).expr();
    y(r, c) = Value(staged(r, c));
  }
  void schedule(Cuda) { y.func().gpu_tile(c, r, block, row, thread, lane, 8, 8); }
  void schedule(OpenCL) { y.func().gpu_tile(c, r, block, row, thread, lane, 8, 8); }
  void schedule(Cpu) {
    y.func()
        .tile(c, r, block, row, lane, thread, kColumns, kRows, Halide::TailStrategy::ShiftInwards)
        .vectorize(lane)
        .unroll(thread);
    staged.compute_at(y.func(), block).store_in(Halide::MemoryType::Stack).vectorize(r);
    staged.bound_extent(r, kRows).bound_extent(c, kColumns);
    if (is_unrolled) staged.unroll(c);
    as_vectors(staged);
  }

 private:
  Var r{"r"}, c{"c"}, block{"block"}, row{"row"}, thread{"thread"}, lane{"lane"};
  Halide::Func staged{"staged"};
};

std::string lowered(bool is_unrolled) {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);  // other tests count on the host's
  const Halide::Internal::ScopedValue<bool> set(Turned::is_unrolled, is_unrolled);
  std::ostringstream text;
  text << Turned::create(Halide::GeneratorContext(halide_target("cpu_avx2", 80)))->build_module("turned");
  return text.str();
}

TEST(AsVectors, NothingOfTheStageIsLeftInMemory) {
  const std::string code = lowered(/*is_unrolled=*/true);
  EXPECT_EQ(code.find("allocate staged"), std::string::npos) << code;
  EXPECT_EQ(code.find("staged["), std::string::npos) << code;
  // Vectors of four from each of eight columns, and one element of each in a row's vector.
  int vectors = 0;
  const std::string name = "let staged";
  for (size_t at = code.find(name); at != std::string::npos; at = code.find(name, at + 1)) vectors++;
  EXPECT_EQ(vectors % kColumns, 0);
  EXPECT_GE(vectors, kColumns) << code;
}

TEST(AsVectors, RefusesAStageThatIsALoop) {
  try {
    lowered(/*is_unrolled=*/false);
    FAIL() << "a loop became vectors";
  } catch (const Halide::CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("as_vectors(staged"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("fully unrolled"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ashlar::dsl
