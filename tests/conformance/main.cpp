// The conformance run of the library's own kernels, and of the tests' that use schedule families as others may.
#include <vector>

#include "ashlar/ops/fused_product.h"
#include "ashlar/ops/generic.h"
#include "ashlar/ops/merged_reduction.h"
#include "ashlar/ops/neighbours.h"
#include "ashlar/ops/plans.h"
#include "ashlar/ops/row_family.h"
#include "ashlar/ops/schedules.h"
#include "runtime/all.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/runner.h"

int main(int argc, char** argv) {
  using namespace ashlar;
  conformance::add_all_cases();
  conformance::add_family_cases();
  conformance::add_fused_product_cases();
  conformance::add_generic_cases();
  conformance::add_merged_reduction_cases();
  conformance::add_neighbour_cases();
  conformance::add_plan_cases();
  std::vector<const KernelInfo*> kernels;
  for (const KernelInfo* kernel : all_kernels()) kernels.push_back(kernel);
  for (const auto& of_file : {kernels::all_of_fused_product(), kernels::all_of_generic(),
                              kernels::all_of_merged_reduction(), kernels::all_of_neighbours(), kernels::all_of_plans(),
                              kernels::all_of_row_family(), kernels::all_of_schedules()}) {
    kernels.insert(kernels.end(), of_file.begin(), of_file.end());
  }
  conformance::add_internal_cases(kernels);
  return conformance::run_conformance(argc, argv, kernels);
}
