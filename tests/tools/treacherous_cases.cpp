// The conformance program of treacherous.cpp, by which the tuner judges its settings.
#include "ashlar/ops/treacherous.h"
#include "tests/conformance/case.h"
#include "tests/conformance/reference.h"
#include "tests/conformance/runner.h"

int main(int argc, char** argv) {
  using namespace ashlar;
  using namespace ashlar::conformance;
  for (const int64_t size : {7, 5000}) {
    add_case({.kernel = "twice",
              .name = std::to_string(size),
              .inputs = {{.shape = {size}}},
              .dtypes = {DType::f32},
              .call = [](Tensors x) { return std::vector{twice(x[0])}; },
              .reference = [](HostTensors x) { return std::vector{pointwise(x[0], [](double v) { return 2 * v; })}; },
              .tolerance = ulps(1)});
  }
  add_case({.kernel = "gained",
            .name = "5x33",
            .inputs = {{.shape = {5, 33}}, {.shape = {5}}},
            .dtypes = {DType::f32},
            .call = [](Tensors x) { return std::vector{gained(x[0], x[1])}; },
            .reference =
                [](HostTensors x) {
                  const HostTensor column{{5, 1}, x[1].values};
                  return std::vector{broadcasted(x[0], column, [](double a, double b) { return a * b; })};
                },
            .tolerance = ulps(1)});
  return run_conformance(argc, argv, kernels::all_of_treacherous());
}
