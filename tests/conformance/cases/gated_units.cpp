// swiglu and geglu: an activation of one tensor times another.
#include <cmath>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

struct Unit {
  const char* kernel;
  Tensor (*call)(const Tensor&, const Tensor&);
  Var (*record)(const Var&, const Var&);
  double (*activation)(double);
};

Case example(const Unit& unit, std::string name, Input gate, Input x) {
  return {.kernel = unit.kernel,
          .name = std::move(name),
          .inputs = {std::move(gate), std::move(x)},
          .call = [&unit](Tensors in) { return std::vector{unit.call(in[0], in[1])}; },
          .reference =
              [&unit](HostTensors in) {
                Expected y = broadcasted(in[0], in[1], [&](double g, double x) { return unit.activation(g) * x; });
                // An activation's error is relative to its argument.
                y.magnitudes = broadcasted(in[0], in[1], [](double g, double x) { return std::abs(g * x); }).values;
                return std::vector{y};
              },
          .tolerance = ulps(10),
          .differentiable = [&unit](Vars in) { return unit.record(in[0], in[1]); },
          .differentiated = {0, 1},
          .vary = any_rank};
}

Case gradient_example(const Unit& unit, int64_t n, Layout layout, std::function<std::vector<Tensor>(Tensors)> call) {
  const auto slope = [&unit](double g) {
    const double h = 1e-5;
    return (unit.activation(g + h) - unit.activation(g - h)) / (2 * h);
  };
  return {.kernel = std::string(unit.kernel) + "_grad",
          .name = std::to_string(n),
          .inputs = {{.shape = {n}, .layout = layout}, {.shape = {n}}, {.shape = {n}}},
          .call = std::move(call),
          .reference =
              [&unit, slope](HostTensors in) {
                const auto of = [&](auto f) {
                  Expected d{in[0].shape, {}, {}};
                  for (size_t i = 0; i < in[0].values.size(); i++) {
                    const double dy = in[0].values[i], g = in[1].values[i], x = in[2].values[i];
                    d.values.push_back(f(dy, g, x));
                    d.magnitudes.push_back(std::abs(dy) * (1 + std::abs(g)) * (1 + std::abs(x)));
                  }
                  return d;
                };
                return std::vector{of([&](double dy, double g, double x) { return dy * x * slope(g); }),
                                   of([&](double dy, double g, double) { return dy * unit.activation(g); })};
              },
          .tolerance = terms(1e-6)};
}

const Unit kUnits[] = {
    {"swiglu", swiglu, ad::swiglu, [](double g) { return g / (1 + std::exp(-g)); }},
    {"geglu", geglu, ad::geglu, [](double g) { return g / 2 * (1 + std::erf(g / std::sqrt(2.0))); }}};

}  // namespace

void add_gated_unit_cases() {
  for (const Unit& unit : kUnits) {
    for (const int64_t n : {0, 1, 33, 1024, 4099}) {
      add_case(example(unit, std::to_string(n), {{n}, {.low = -4, .high = 4}}, {{n}}));
    }
    for (const auto& [name, layout] : {std::pair{"263003", Layout::dense}, {"263003_offset", Layout::offset}}) {
      Case large = example(unit, name, {{263003}, {.low = -4, .high = 4}, layout}, {{263003}});
      large.differentiable = {};
      add_case(std::move(large));
    }
    add_case(example(unit, "transposed", {{9, 33}, {}, Layout::transposed}, {{9, 33}, {}, Layout::offset}));
    Case bench = example(unit, "8192x11008", {.shape = {8192, 11008}}, {.shape = {8192, 11008}});
    bench.benchmark = true;
    add_case(bench);
  }
  for (const auto& [n, layout] : {std::pair{0, Layout::dense},
                                  {1, Layout::dense},
                                  {33, Layout::dense},
                                  {2050, Layout::dense},
                                  {263003, Layout::dense},
                                  {66004, Layout::offset}}) {
    add_gradient_case(gradient_example(kUnits[0], n, layout, [](Tensors in) {
      const auto d = swiglu_grad(in[0], in[1], in[2]);
      return std::vector{d.dgate, d.dx};
    }));
    add_gradient_case(gradient_example(kUnits[1], n, layout, [](Tensors in) {
      const auto d = geglu_grad(in[0], in[1], in[2]);
      return std::vector{d.dgate, d.dx};
    }));
  }
}

}  // namespace ashlar::conformance
