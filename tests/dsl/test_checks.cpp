// Mistakes that Halide 21 lets pass in silence must stop a kernel's build, with a message that names them.
#include <gtest/gtest.h>

#include "dsl/build/instances.h"
#include "schedules/elementwise.h"

namespace ashlar::dsl {
namespace {

// Builds `K` for a target; returns the error's text, or "" when it compiled.
template <class K>
std::string error_of(const std::string& code_target, const std::map<std::string, std::string>& parameters = {}) {
  try {
    const auto kernel = K::create(Halide::GeneratorContext(halide_target(code_target, 80)));
    for (const auto& [name, value] : parameters) kernel->generator().set_generatorparam_value(name, value);
    kernel->generator().build_module("f");
  } catch (const Halide::Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Good : public Kernel<Good> {
 public:
  In<f32, 1> x{"x"};
  Out<f32, 1> y{"y", shape_of(x)};
  Tunable<int> tile{"tile", {64, 128}};
  Var i{"i"};
  void algorithm() { y(i) = x(i) * 2.0; }
  void schedule(auto target) { elementwise(target, y.func(), i); }
};

class Unscheduled : public Kernel<Unscheduled> {
 public:
  In<f32, 1> x{"x"};
  Out<f32, 1> y{"y", shape_of(x)};
  Var i{"i"};
  void algorithm() { y(i) = x(i) * 2.0; }
  void schedule(auto) {}
};

// Halide 21 gets these numbers wrong: both elements read the pair, and only inside sqrt.
class WrongTupleUpdate : public Kernel<WrongTupleUpdate> {
 public:
  In<f32, 2> x{"x"};
  Out<f32, 1> y{"y", {x.size(1)}};
  Var i{"i"};
  Halide::Func pair{"pair"};
  void algorithm() {
    const Axis k = x.reduce(0);
    pair(i) = Halide::Tuple(0.0f, 0.0f);
    const Expr a = pair(i)[0], b = pair(i)[1];
    pair(i) = Halide::Tuple(Halide::sqrt(a + b + x(k, i).expr()), Halide::sqrt(a / 2 + b));
    y(i) = Value(Expr(pair(i)[0])) + Value(Expr(pair(i)[1]));
  }
  void schedule(auto target) { elementwise(target, y.func(), i); }
};

// The same form with the reads outside calls, which Halide gets right.
class RightTupleUpdate : public Kernel<RightTupleUpdate> {
 public:
  In<f32, 2> x{"x"};
  Out<f32, 1> y{"y", {x.size(1)}};
  Var i{"i"};
  Halide::Func pair{"pair"};
  void algorithm() {
    const Axis k = x.reduce(0);
    pair(i) = Halide::Tuple(0.0f, 1.0f);
    const Expr a = pair(i)[0], b = pair(i)[1];
    pair(i) = Halide::Tuple(b, a + b + x(k, i).expr());
    y(i) = Value(Expr(pair(i)[0])) + Value(Expr(pair(i)[1]));
  }
  void schedule(auto target) { elementwise(target, y.func(), i); }
};

// y[i] = (x[i] + x[n-1-i]) / 2 through memory: the scratch is read at another index than it was written at.
class Mirrored : public Kernel<Mirrored> {
 public:
  In<f32, 1> x{"x"};
  Out<f32, 1> y{"y", shape_of(x)};
  Scratch<f32, 1> half{"half", shape_of(x)};
  Var i{"i"};
  void algorithm() {
    half(i) = x(i) * 0.5;
    y(i) = Value(half(i)) + half(x.extent(0) - 1 - i);
  }
  void schedule(auto target) {
    elementwise(target, half.func(), i);
    elementwise(target, y.func(), i);
  }
};

TEST(Checks, AScratchIsWrittenAndReadOnEveryTarget) {
  for (const std::string target : kCodeTargetNames) EXPECT_EQ(error_of<Mirrored>(target), "") << target;
  const auto kernel = Mirrored::create(Halide::GeneratorContext(Halide::get_host_target()));
  EXPECT_EQ(kernel->descriptor().arguments.back().role, Argument::Role::scratch);
  // The same mathematics, run: inputs have the hidden offset dimension, outputs and scratch don't.
  Halide::Callable mirrored = kernel->generator().compile_to_callable();
  Halide::Buffer<float> in(5, 1), out(5), scratch(5);
  in.raw_buffer()->dim[1].stride = 1;
  for (int k = 0; k < 5; k++) in(k, 0) = static_cast<float>(k * k);
  ASSERT_EQ(mirrored(in, out, scratch), 0);
  for (int k = 0; k < 5; k++) EXPECT_EQ(out(k), (in(k, 0) + in(4 - k, 0)) / 2) << k;
}

TEST(Checks, AGoodKernelBuildsForEveryTarget) {
  for (const std::string target : kCodeTargetNames) EXPECT_EQ(error_of<Good>(target), "") << target;
}

TEST(Checks, AnUnscheduledKernelIsAnErrorOnEveryTarget) {
  for (const std::string target : kCodeTargetNames) {
    const std::string error = error_of<Unscheduled>(target);
    EXPECT_TRUE(contains(error, target.substr(0, 3) == "cpu" ? "unscheduled" : "GPU loop")) << target << ": " << error;
  }
}

TEST(Checks, ATupleUpdateInTheWrongOrderIsAnError) {
  EXPECT_TRUE(contains(error_of<WrongTupleUpdate>("cpu"), "reads itself inside a call"));
  EXPECT_EQ(error_of<RightTupleUpdate>("cpu"), "");
}

TEST(Checks, AValueOutsideATunablesListIsAnError) {
  EXPECT_EQ(error_of<Good>("cpu", {{"tile", "128"}}), "");
  EXPECT_TRUE(contains(error_of<Good>("cpu", {{"tile", "96"}}), "tile = 96 is not among its values (64, 128)"));
}

// Stages, scratch and outputs are assigned from one another as they stand.
class Chain : public Kernel<Chain> {
 public:
  In<f32, 2> x{"x"};
  Out<f32, 2> y{"y", shape_of(x)};
  Scratch<f32, 2> kept{"kept", shape_of(x)};
  Scratch<f16, 2> narrow{"narrow", shape_of(x)};
  Var r{"r"}, c{"c"};
  Stage doubled{"doubled"}, again{"again"};
  void algorithm() {
    doubled(r, c) = x(r, c) * 2.0;
    again(r, c) = doubled(r, c);
    kept(r, c) = again(r, c);
    narrow(r, c) = kept(r, c);
    y(r, c) = kept(r, c);
  }
  void schedule(auto target) {
    for (const Halide::Func& stage : {kept.func(), narrow.func(), y.func()}) elementwise(target, stage, c);
  }
};

TEST(Checks, StagesScratchAndOutputsAreAssignedFromOneAnother) { EXPECT_EQ(error_of<Chain>("cpu"), ""); }

// Indices that look swapped and aren't: the rules say so.
class Transposed : public Kernel<Transposed> {
 public:
  In<f32, 2> x{"x"};
  In<f32, 2> other{"other", {x.size(1), x.size(0)}};
  In<f32, 1> diagonal{"diagonal", {x.size(1)}};
  Out<f32, 2> y{"y", {x.size(1), x.size(0)}};
  Var r{"r"}, c{"c"};
  Stage turned{"turned"}, twice{"twice"};
  void algorithm() {
    turned(c, r) = x(c, r) * diagonal(r);
    // Called with either index: which one it runs over isn't known.
    twice(r) = x(Halide::clamp(Expr(r), 0, x.extent(0) - 1), 0) * 2.0;
    y(r, c) = turned(c, r) + other(r, c) + twice(r) + twice(c);
  }
  void schedule(auto target) { elementwise(target, y.func(), c); }
};

TEST(Checks, ATransposeIsNoSwapOfIndices) { EXPECT_EQ(error_of<Transposed>("cpu"), ""); }

// One reduction for each result isn't repeated, wherever it is worked out.
class ColumnTotals : public Kernel<ColumnTotals> {
 public:
  In<f32, 2> x{"x"};
  Out<f32, 1> y{"y", {x.size(1)}};
  Var i{"i"};
  Stage total{"total"};
  void algorithm() {
    const Axis k = x.reduce(0);
    total(i) = sum(k, x(k, i));
    y(i) = total(i) * 0.5;
  }
  void schedule(auto target) { elementwise(target, y.func(), i); }
};

TEST(Checks, AReductionForEachResultNeedsNoPlace) { EXPECT_EQ(error_of<ColumnTotals>("cpu"), ""); }

TEST(Checks, AnInputDeclaredAfterAnOutputIsAnError) {
  class Late : public Kernel<Late> {
   public:
    In<f32, 1> x{"x"};
    Out<f32, 1> y{"y", shape_of(x)};
    Scalar<float> factor{"factor"};
    Var i{"i"};
    void algorithm() { y(i) = x(i) * factor; }
    void schedule(Cpu target) { elementwise(target, y.func(), i); }
    void schedule(OpenCL target) { elementwise(target, y.func(), i); }
    void schedule(Cuda target) { elementwise(target, y.func(), i); }
  };
  const KernelEntry entry{"late", {detail::make_instance<Late>({DType::f32})}};
  try {
    summarize(entry);
    FAIL() << "accepted";
  } catch (const Halide::Error& error) {
    EXPECT_TRUE(contains(error.what(), "factor is declared too late")) << error.what();
  }
}

}  // namespace
}  // namespace ashlar::dsl
