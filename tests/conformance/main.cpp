// The conformance run of the library's own kernels, and of the tests' that use schedule families as others may.
#include <vector>

#include "ashlar/ops/fused_product.h"
#include "ashlar/ops/row_family.h"
#include "runtime/all.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/runner.h"

int main(int argc, char** argv) {
  using namespace ashlar;
  conformance::add_all_cases();
  conformance::add_family_cases();
  conformance::add_fused_product_cases();
  std::vector<const KernelInfo*> kernels;
  for (const KernelInfo* kernel : all_kernels()) kernels.push_back(kernel);
  for (const KernelInfo* kernel : kernels::all_of_row_family()) kernels.push_back(kernel);
  for (const KernelInfo* kernel : kernels::all_of_fused_product()) kernels.push_back(kernel);
  return conformance::run_conformance(argc, argv, kernels);
}
