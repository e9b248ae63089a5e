#include "runtime/vendor/cudnn.h"

#include "runtime/support/environment.h"
#include "runtime/vendor/library.h"

namespace ashlar::detail::cudnn {
namespace {

const Api* load_api() noexcept {
  static Api a;
  void* const lib = open_library(environment().cudnn_library, {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"});
  const bool complete = lib != nullptr && load(lib, a.create, "cudnnCreate") &&
                        load(lib, a.set_stream, "cudnnSetStream") &&
                        load(lib, a.descriptor_create, "cudnnBackendCreateDescriptor") &&
                        load(lib, a.descriptor_destroy, "cudnnBackendDestroyDescriptor") &&
                        load(lib, a.finalize, "cudnnBackendFinalize") && load(lib, a.set, "cudnnBackendSetAttribute") &&
                        load(lib, a.get, "cudnnBackendGetAttribute") && load(lib, a.execute, "cudnnBackendExecute");
  log(complete ? "opened cuDNN" : "cuDNN isn't there");
  return complete ? &a : nullptr;
}

}  // namespace

const Api* api() noexcept {
  static const Api* const loaded = load_api();
  return loaded;
}

}  // namespace ashlar::detail::cudnn
