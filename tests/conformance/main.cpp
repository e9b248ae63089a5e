// The conformance run of the library's own kernels.
#include "runtime/all.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/runner.h"

int main(int argc, char** argv) {
  ashlar::conformance::add_all_cases();
  return ashlar::conformance::run_conformance(argc, argv, ashlar::all_kernels());
}
