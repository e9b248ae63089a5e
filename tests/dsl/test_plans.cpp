// Plans of a kernel: what is compiled of them, what tables and tuners may say of them, and their conditions as C++.
#include <gtest/gtest.h>

#include <sstream>

#include "dsl/build/explain.h"
#include "dsl/build/plan_code.h"
#include "dsl/build/settings.h"
#include "dsl/build/space.h"
#include "dsl/kernel.h"
#include "runtime/support/error.h"

namespace ashlar::dsl {
namespace {

enum class Wrong { nothing, last_has_condition, same_name, bad_name, half_a_model, reads_elements, no_such_argument };

template <ElementType T>
class Sized : public Kernel<Sized<T>> {
 public:
  In<T, 2> x{"x", strided};
  Plans plans;
  Tunable<int> deep{"deep", {1, 2, 4}};
  Tunable<int> other{"other", {1, 2}};
  Out<T, 2> y{"y", shape_of(x)};
  Wrong wrong = Wrong::nothing;
  Sized() {
    this->formula("y = x").form(Form::pointwise);
    space_rule("deep isn't 4 at whole", [this] { return deep.value() != 4 || plans.value() != "whole"; });
  }
  void algorithm() {
    const Expr columns = x.extent(1);
    std::vector<PlanDescription> all{
        {.name = "whole",
         .applies = columns % 8 == 0 && x.dim(2).min() % 4 == 0 && y.dim(1).stride() >= columns,
         .preferred = x.extent(0) / 3 > 5,
         .tunables = {"deep"}},
        {.name = "odd"},
        {.name = "any"}};
    if (wrong == Wrong::last_has_condition) all.back().applies = columns > 1;
    if (wrong == Wrong::same_name) all[1].name = "any";
    if (wrong == Wrong::bad_name) all[1].name = "Odd one";
    if (wrong == Wrong::half_a_model) all[1].microseconds = Halide::cast<float>(columns);
    if (wrong == Wrong::reads_elements) all[0].preferred = Expr(Halide::cast<int>(x(0, 0).expr())) > 0;
    if (wrong == Wrong::no_such_argument)
      all[0].preferred = Halide::Internal::Variable::make(Halide::Int(32), "z.extent.0") > 0;
    plans.declare(all);
    y(r, c) = x(r, c);
  }
  void schedule(auto) {
    plans.schedule(y.func(), [this](const std::string&, Halide::Stage out) {
      out.vectorize(c, 4, Halide::TailStrategy::GuardWithIf);
    });
  }
  Var r{"r"}, c{"c"};
};

const KernelSummary& sized(Wrong wrong = Wrong::nothing) {
  static std::map<Wrong, std::pair<KernelEntry, KernelSummary>> all;
  auto& [entry, summary] = all[wrong];
  if (entry.name.empty()) {
    entry = {"sized", {detail::make_instance<Sized<f32>>({DType::f32}, [wrong](auto& k) { k.wrong = wrong; })}};
    summary = summarize(entry);
  }
  return summary;
}
std::vector<PlanDescription> plans(Wrong wrong = Wrong::nothing) { return plans_of(sized(wrong).builds[0], "cpu", 80); }

TEST(Plans, AreCompiledByThemselvesTheLastOneFirst) {
  const BuildSettings result = settings_of(sized(), sized().builds[0], {}, plans());
  ASSERT_EQ(result.settings.size(), 3u);
  EXPECT_EQ(text_of(result.settings[0]), "plan=any") << "setting 0 serves every call";
  EXPECT_EQ(text_of(result.settings[1]), "plan=whole");
  EXPECT_EQ(text_of(result.settings[2]), "plan=odd");
  EXPECT_EQ(symbol_of(*sized().entry, sized().builds[0], "cpu", result.settings[1]), "ashlar_sized_f32_cpu_whole");
}

TEST(Plans, TablesNameThemWithTheirTunables) {
  TunedTable table{"A", "f", {}};
  table.file = "device.json";
  auto& points = table.kernels["sized"]["f32"];
  points = {{{64}, {{"plan", "whole"}, {"deep", "2"}}, 1, 1}, {{256}, {}, 1, 1}, {{1024}, {{"plan", "any"}}, 1, 1}};
  const BuildSettings result = settings_of(sized(), sized().builds[0], {table}, plans());
  ASSERT_EQ(result.settings.size(), 4u);
  EXPECT_EQ(text_of(result.settings[3]), "plan=whole deep=2");
  const std::vector<uint16_t>& cells = result.grids.at(0).settings;
  EXPECT_EQ(cells.front(), 3);
  EXPECT_NE(std::ranges::find(cells, kUntuned), cells.end()) << "as the author orders them";
  EXPECT_EQ(cells.back(), 0) << "the last plan, which has setting 0";

  const auto refusal = [&](std::map<std::string, std::string> tunables) -> std::string {
    points = {{{64}, std::move(tunables), 1, 1}};
    try {
      settings_of(sized(), sized().builds[0], {table}, plans());
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(refusal({{"plan", "none"}}).find("one of its plans whole, odd, any"), std::string::npos);
  EXPECT_NE(refusal({{"deep", "2"}}).find("tunables without a plan"), std::string::npos);
  EXPECT_NE(refusal({{"plan", "whole"}, {"deeper", "2"}}).find("a tunable of the kernel"), std::string::npos);
}

TEST(Plans, ASpaceHasEachWithTheTunablesThatItReads) {
  const Space space = space_of(sized(), sized().builds[0], "cpu", 80);
  std::vector<std::string> settings;
  for (const Setting& setting : space.settings) settings.push_back(text_of(setting));
  EXPECT_EQ(settings, (std::vector<std::string>{"", "plan=whole", "plan=whole deep=2", "plan=odd", "plan=any"}));
  EXPECT_EQ(space.left_out.at("deep isn't 4 at whole"), 1);
}

TEST(Plans, ConditionsBecomeCppOverTheFieldsOfBuffers) {
  const PlanCode code = plan_code(sized(), plans());
  EXPECT_EQ(code.features, 4) << code.text;
  EXPECT_FALSE(code.has_model);
  // x's extents and offset (argument 0), y's stride (argument 1)
  EXPECT_NE(code.text.find("{{0, 0, 1}, {0, 1, 1}, {0, 2, 0}, {1, 1, 2}, }"), std::string::npos) << code.text;
  EXPECT_NE(code.text.find("plan_mod(f_x_extent_0, 8ll) == 0ll"), std::string::npos) << code.text;
  EXPECT_NE(code.text.find("plan_div(f_x_extent_1, 3ll)"), std::string::npos) << code.text;
  EXPECT_EQ(code.name, plan_code(sized(), plans()).name);
}

TEST(Plans, MistakesAreRefused) {
  const auto refusal = [](Wrong wrong) -> std::string {
    try {
      plan_code(sized(wrong), plans(wrong));
    } catch (const Halide::Error& error) {
      return error.what();
    }
    return "no error";
  };
  const auto has = [&](Wrong wrong, const std::string& text) {
    EXPECT_NE(refusal(wrong).find(text), std::string::npos) << refusal(wrong);
  };
  EXPECT_EQ(refusal(Wrong::nothing), "no error");
  has(Wrong::last_has_condition, "has to serve every call");
  has(Wrong::same_name, "two plans are called any");
  has(Wrong::bad_name, "\"Odd one\"");
  has(Wrong::half_a_model, "one has a model");
  has(Wrong::reads_elements, "the plan whole asks for");
  has(Wrong::no_such_argument, "z.extent.0");
}

TEST(Plans, AnUnknownPlanIsRefused) {
  try {
    create(sized().builds[0], halide_target("cpu", 80), {{"plan", "none"}})->generator().build_pipeline();
    FAIL() << "no error";
  } catch (const Halide::Error& error) {
    EXPECT_NE(std::string(error.what()).find("no plan none here; there are whole, odd, any"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ashlar::dsl
