// The kernel against its definition in double, on every device of this machine; and its gradients against finite
// differences of that definition.
#include <cmath>

#include "ashlar/ad/my_kernel.h"
#include "tests/conformance/case.h"
#include "tests/conformance/reference.h"
#include "tests/conformance/runner.h"

int main(int argc, char** argv) {
  using namespace ashlar;
  using namespace ashlar::conformance;
  for (const int64_t size : {0, 1, 31, 1024, 1027}) {
    add_case({.kernel = "gated_silu",
              .name = std::to_string(size),
              .inputs = {{.shape = {size}}, {.shape = {size}}},
              .call = [](Tensors in) { return std::vector{gated_silu(in[0], in[1])}; },
              .reference =
                  [](HostTensors in) {
                    const auto f = [](double x, double gate) { return x * gate / (1 + std::exp(-gate)); };
                    return std::vector{broadcasted(in[0], in[1], f)};
                  },
              .tolerance = ulps(8),
              .differentiable = [](Vars in) { return ad::gated_silu(in[0], in[1]); },
              .differentiated = {0, 1}});
  }
  return run_conformance(argc, argv, kernels::all_of_my_kernel());
}
