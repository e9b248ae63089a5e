#include "runtime/vendor/cublaslt.h"

#include "runtime/support/environment.h"
#include "runtime/vendor/library.h"

namespace ashlar::detail::cublaslt {
namespace {

const Api* load_api() noexcept {
  static Api a;
  void* const lib =
      open_library(environment().cublaslt_library, {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  const bool complete = lib != nullptr && load(lib, a.create, "cublasLtCreate") &&
                        load(lib, a.description_create, "cublasLtMatmulDescCreate") &&
                        load(lib, a.description_destroy, "cublasLtMatmulDescDestroy") &&
                        load(lib, a.description_set, "cublasLtMatmulDescSetAttribute") &&
                        load(lib, a.layout_create, "cublasLtMatrixLayoutCreate") &&
                        load(lib, a.layout_destroy, "cublasLtMatrixLayoutDestroy") &&
                        load(lib, a.layout_set, "cublasLtMatrixLayoutSetAttribute") &&
                        load(lib, a.preference_create, "cublasLtMatmulPreferenceCreate") &&
                        load(lib, a.preference_destroy, "cublasLtMatmulPreferenceDestroy") &&
                        load(lib, a.preference_set, "cublasLtMatmulPreferenceSetAttribute") &&
                        load(lib, a.heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                        load(lib, a.algorithm_get, "cublasLtMatmulAlgoConfigGetAttribute") &&
                        load(lib, a.matmul, "cublasLtMatmul");
  log(complete ? "opened cuBLASLt" : "cuBLASLt isn't there");
  return complete ? &a : nullptr;
}

}  // namespace

const Api* api() noexcept {
  static const Api* const loaded = load_api();
  return loaded;
}

}  // namespace ashlar::detail::cublaslt
