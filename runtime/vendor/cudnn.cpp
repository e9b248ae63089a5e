#include "runtime/vendor/cudnn.h"

#include "runtime/support/environment.h"
#include "runtime/vendor/library.h"

namespace ashlar::detail::cudnn {
namespace {

const Api* load_api() noexcept {
  static Api a;
  void* const lib = open_library(environment().cudnn_library, {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"});
  const bool complete =
      lib != nullptr && load(lib, a.create, "cudnnCreate") && load(lib, a.set_stream, "cudnnSetStream") &&
      load(lib, a.tensor_create, "cudnnCreateTensorDescriptor") &&
      load(lib, a.tensor_set, "cudnnSetTensor4dDescriptor") &&
      load(lib, a.tensor_destroy, "cudnnDestroyTensorDescriptor") &&
      load(lib, a.filter_create, "cudnnCreateFilterDescriptor") &&
      load(lib, a.filter_set, "cudnnSetFilter4dDescriptor") &&
      load(lib, a.filter_destroy, "cudnnDestroyFilterDescriptor") &&
      load(lib, a.convolution_create, "cudnnCreateConvolutionDescriptor") &&
      load(lib, a.convolution_set, "cudnnSetConvolution2dDescriptor") &&
      load(lib, a.convolution_set_groups, "cudnnSetConvolutionGroupCount") &&
      load(lib, a.convolution_set_math, "cudnnSetConvolutionMathType") &&
      load(lib, a.convolution_destroy, "cudnnDestroyConvolutionDescriptor") &&
      load(lib, a.forward_candidates, "cudnnGetConvolutionForwardAlgorithm_v7") &&
      load(lib, a.input_candidates, "cudnnGetConvolutionBackwardDataAlgorithm_v7") &&
      load(lib, a.weight_candidates, "cudnnGetConvolutionBackwardFilterAlgorithm_v7") &&
      load(lib, a.forward, "cudnnConvolutionForward") && load(lib, a.input, "cudnnConvolutionBackwardData") &&
      load(lib, a.weight, "cudnnConvolutionBackwardFilter");
  log(complete ? "opened cuDNN" : "cuDNN isn't there");
  return complete ? &a : nullptr;
}

}  // namespace

const Api* api() noexcept {
  static const Api* const loaded = load_api();
  return loaded;
}

}  // namespace ashlar::detail::cudnn
