// A kernel's description of itself: arguments, shape rules, instances, symbols.
#include <gtest/gtest.h>

#include "dsl/build/instances.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {
namespace {

enum class Mode { plain, doubled };

template <ElementType From, ElementType To>
class Example : public Kernel<Example<From, To>> {
 public:
  In<From, 2> x{"x"};
  In<From, 1> gain{"gain", {x.size(1)}};
  Scalar<float> eps{"eps"};
  Out<To, 1> y{"y", {x.size(0) * x.size(1)}};
  Comptime<Mode> mode{"mode", {{"plain", Mode::plain}, {"doubled", Mode::doubled}}};
  Tunable<int> tile{"tile", {16, 32}};
  Example() { this->formula("y = x"); }
  void algorithm() { y(i) = x(i, 0) * eps; }
  void schedule(auto target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

KernelSummary example() {
  static const KernelEntry entry{
      "example",
      {detail::PairInstance<Example, Pair<f32, f32>>::make(), detail::PairInstance<Example, Pair<bf16, f32>>::make(),
       detail::PairInstance<Example, Pair<f16, f64>>::make()}};
  return summarize(entry);
}

TEST(Descriptor, ArgumentsStandInTheOrderOfTheirDeclaration) {
  const KernelSummary kernel = example();
  ASSERT_EQ(kernel.arguments.size(), 4u);
  EXPECT_EQ(kernel.arguments[0].name, "x");
  EXPECT_EQ(kernel.arguments[1].name, "gain");
  EXPECT_EQ(kernel.arguments[2].role, Argument::Role::scalar);
  EXPECT_EQ(kernel.arguments[3].role, Argument::Role::output);
}

TEST(Descriptor, ElementsAreFoundOverAllInstances) {
  const KernelSummary kernel = example();
  EXPECT_EQ(kernel.arguments[0].element, 0);
  EXPECT_EQ(kernel.arguments[2].element, -1) << "a scalar's type is its own";
  EXPECT_EQ(kernel.arguments[3].element, 1) << "f32 in one instance by chance, but the second element in all";
}

TEST(Descriptor, ShapeRulesAreText) {
  const KernelSummary kernel = example();
  EXPECT_EQ(kernel.arguments[1].sizes.at(0).text, "in[0][1]");
  EXPECT_EQ(kernel.arguments[3].sizes.at(0).text, "(in[0][0] * in[0][1])");
}

TEST(Descriptor, EveryComptimeValueOfEveryInstanceIsBuiltAndNoTunable) {
  const KernelSummary kernel = example();
  ASSERT_EQ(kernel.builds.size(), 6u);
  std::set<std::string> symbols;
  for (size_t i = 0; i < kernel.builds.size(); i++) {
    symbols.insert(symbol_of(*kernel.entry, kernel.builds[i], "cuda"));
    if (i == 0) continue;
    EXPECT_LT(kernel.builds[i - 1].key.packed(), kernel.builds[i].key.packed()) << "not sorted";
  }
  EXPECT_EQ(symbols.size(), 6u);
  EXPECT_TRUE(symbols.count("ashlar_example_bf16_f32_doubled_cuda"));
}

TEST(Descriptor, CudaCapabilityIsInTheTarget) {
  EXPECT_EQ(halide_target("cuda", 61).get_cuda_capability_lower_bound(), 61);
  EXPECT_THROW(halide_target("vulkan", 80), Halide::CompileError);
}

}  // namespace
}  // namespace ashlar::dsl
