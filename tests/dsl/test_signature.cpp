// What the functions of kernels and of operators written by hand take.
#include <gtest/gtest.h>

#include "dsl/build/instances.h"
#include "dsl/build/signature.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {
namespace {

enum class Mode { plain, doubled };

// Of any form: an input, a scalar, a choice.
template <ElementType T>
class Chosen : public Kernel<Chosen<T>> {
 public:
  In<T, 1> x{"x", strided};
  Scalar<float> eps{"eps"};
  Scalar<int32_t> chunk{"chunk"};
  Out<T, 1> y{"y", shape_of(x)};
  Comptime<Mode> mode{"mode", {{"plain", Mode::plain}, {"doubled", Mode::doubled}}};
  Comptime<Mode> epilogue{"epilogue", {{"none", Mode::plain}, {"twice", Mode::doubled}}};
  Chosen() { this->formula("y = x"); }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

std::string parameters_in(const FormSignature& form) {
  const KernelEntry entry{"chosen", {detail::make_instance<Chosen<f32>>({DType::f32})}};
  KernelSummary kernel = summarize(entry);
  kernel.descriptor.form = &form;
  return declare(parameters_of(kernel), true);
}

TEST(Signature, HasOptionsScalarsAndComptimeValuesInEveryForm) {
  const std::string all =
      "const Tensor& x, double eps, int64_t chunk, ChosenMode mode = ChosenMode::plain, "
      "ChosenEpilogue epilogue = ChosenEpilogue::none";
  EXPECT_EQ(parameters_in(Form::plain), all);
  EXPECT_EQ(parameters_in(Form::pointwise), all);
  EXPECT_EQ(parameters_in(Form::broadcast), all);
  EXPECT_EQ(parameters_in(Form::rows), all + ", int64_t axis = -1");
}

TEST(Signature, LeavesOutWhatTheFormKnowsItself) {
  EXPECT_EQ(parameters_in(Form::reduction),
            "const Tensor& x, ChosenMode mode = ChosenMode::plain, ChosenEpilogue epilogue = ChosenEpilogue::none, "
            "const Axes& axes = {}, bool keepdim = false, double eps");
  EXPECT_EQ(parameters_in(Form::contraction),
            "const Tensor& x, double eps, int64_t chunk, ChosenMode mode = ChosenMode::plain, const MatmulOptions& "
            "options = {}");
}

TEST(Signature, KnowsWhichInputsTakeAnyStride) {
  const KernelEntry entry{"chosen", {detail::make_instance<Chosen<f32>>({DType::f32})}};
  EXPECT_TRUE(summarize(entry).arguments.at(0).is_strided);
}

TEST(Operator, IsDescribedWithoutInstances) {
  const auto is_by_hand = [](const KernelEntry& entry) { return entry.name == "by_hand"; };
  ASSERT_TRUE(register_operator(
      {.name = "by_hand",
       .formula = "by_hand(x, places)",
       .dtypes = {DType::f16, DType::f32},
       .inputs = {{"x"}, {"places", DType::i64}},
       .scalars = {{"rate"}, {"count", DType::i64}},
       .options = {{"keepdim", FormOption::Kind::boolean, 1}, {"mode", FormOption::Kind::choice, 1, {"fast", "exact"}}},
       .outputs = {{"y"}, {"indices", DType::i64}},
       .calls = {"sum"}}));
  const auto found = std::find_if(kernels().begin(), kernels().end(), is_by_hand);
  ASSERT_NE(found, kernels().end());
  const KernelSummary kernel = summarize(*found);
  EXPECT_TRUE(kernel.builds.empty());
  EXPECT_EQ(declare(parameters_of(kernel), true),
            "const Tensor& x, const Tensor& places, double rate, int64_t count, bool keepdim = true, ByHandMode mode "
            "= ByHandMode::exact");
  EXPECT_EQ(result_type(kernel), "ByHandResult");
  EXPECT_EQ(kernel.arguments.at(0).element, 0);
  EXPECT_EQ(kernel.arguments.at(1).element, -1);
  kernels().erase(found);
}

OperatorDescription composed_of_others() {
  return {.name = "composed",
          .formula = "composed(x, target)",
          .dtypes = {DType::f32},
          .inputs = {{"x"},
                     {.name = "target", .is_of_any_dtype = true},
                     {.name = "weight", .is_optional = true, .is_of_any_dtype = true}},
          .scalars = {{"smoothing", DType::f64, "0.0"}},
          .options = {{"mode", FormOption::Kind::choice, 0, {"none", "mean"}}},
          .scalars_last = true,
          .optional_last = true,
          .outputs = {{"y"}},
          .calls = {"sum"},
          .composed = "operators/composed/rows.h",
          .recorded_parts = "autograd/recipes/parts.h"};
}

TEST(Operator, MayHaveOptionalInputsBehindItsOptions) {
  ASSERT_TRUE(register_operator(composed_of_others()));
  const KernelSummary kernel = summarize(kernels().back());
  EXPECT_EQ(declare(parameters_of(kernel), true),
            "const Tensor& x, const Tensor& target, ComposedMode mode = ComposedMode::none, const Tensor& weight = {}, "
            "double smoothing = 0.0");
  EXPECT_EQ(kernel.arguments.at(0).element, 0);
  EXPECT_EQ(kernel.arguments.at(1).element, kAnyElement);
  EXPECT_EQ(kernel.descriptor.form->needed_inputs, 2);
  const std::string body = composed_body(kernel, parameters_of(kernel));
  EXPECT_NE(body.find("return composed::composed(x, target, mode, weight, smoothing);"), std::string::npos) << body;
  EXPECT_EQ(composed_includes({kernel}, ComposedOf::vars),
            "#include \"ashlar/var_arithmetic.h\"\n#include \"autograd/recipes/parts.h\"\n"
            "#include \"runtime/memory/host_memory.h\"\n#include \"operators/composed/rows.h\"\n");
  kernels().pop_back();
}

TEST(Operator, ThatIsComposedHasOneOutputAndItsPartsGradients) {
  OperatorDescription description = composed_of_others();
  description.gradients = {{"x", "dy", {}}};
  ASSERT_TRUE(register_operator(description));
  EXPECT_THROW(summarize(kernels().back()), Halide::CompileError);
  kernels().pop_back();
  description = composed_of_others();
  description.outputs.push_back({"z"});
  ASSERT_TRUE(register_operator(description));
  EXPECT_THROW(summarize(kernels().back()), Halide::CompileError);
  kernels().pop_back();
}

TEST(Operator, HasElementTypesAndAFormula) {
  ASSERT_TRUE(register_operator(
      {.name = "of_nothing", .formula = "f", .dtypes = {}, .inputs = {{"x"}}, .outputs = {{"y"}}, .calls = {}}));
  EXPECT_THROW(summarize(kernels().back()), Halide::CompileError);
  kernels().pop_back();
}

// 2^15 combinations.
template <ElementType T>
class Endless : public Kernel<Endless<T>> {
 public:
  In<T, 1> x{"x"};
  Out<T, 1> y{"y", shape_of(x)};
  std::vector<std::unique_ptr<Comptime<Mode>>> modes;
  Endless() {
    this->formula("y = x");
    for (int i = 0; i < 15; i++) {
      modes.push_back(std::make_unique<Comptime<Mode>>(
          "mode" + std::to_string(i),
          std::vector<std::pair<std::string, Mode>>{{"plain", Mode::plain}, {"doubled", Mode::doubled}}));
    }
  }
  void algorithm() { y(i) = x(i); }
  void schedule(auto target) { elementwise(target, y.func(), i); }
  Var i{"i"};
};

TEST(Variants, AreCounted) {
  const KernelEntry entry{"endless", {detail::make_instance<Endless<f32>>({DType::f32})}};
  try {
    summarize(entry);
    FAIL() << "a variant that KernelKey can't hold";
  } catch (const Halide::CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("16384 combinations"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ashlar::dsl
