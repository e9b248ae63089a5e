#include "tests/runtime/fake_cudnn.h"

#include <array>
#include <cstring>
#include <vector>

#include "runtime/vendor/cudnn.h"

using namespace ashlar::detail::cudnn;

// Opaque to the library under test.
namespace ashlar::detail::cudnn {
struct DnnHandle {
  cuda::Queue stream = nullptr;
};
struct DnnTensor {
  std::array<int, 4> size{};
};
struct DnnFilter {
  std::array<int, 4> size{};
};
struct DnnConvolution {
  std::array<int, 2> padding{}, stride{}, dilation{};
  int groups = 1, math = kDefaultMath;
};
}  // namespace ashlar::detail::cudnn

namespace {

constexpr Status kBadParameter = 2000;
constexpr size_t kWorkspaceBytes = 96;
FakeCudnnLog state{};

template <class T>
Status make(T** object) {
  ++state.live_objects;
  return *object = new T, kSuccess;
}
template <class T>
Status destroy(T* object) {
  --state.live_objects;
  return delete object, kSuccess;
}

size_t at(const std::array<int, 4>& size, int a, int b, int c, int d) {
  return ((static_cast<size_t>(a) * static_cast<size_t>(size[1]) + static_cast<size_t>(b)) *
              static_cast<size_t>(size[2]) +
          static_cast<size_t>(c)) *
             static_cast<size_t>(size[3]) +
         static_cast<size_t>(d);
}
size_t count(const std::array<int, 4>& size) { return at(size, size[0], 0, 0, 0); }

bool well_formed(const DnnTensor& x, const DnnFilter& weight, const DnnConvolution& how, const DnnTensor& y) {
  bool fits = how.math == kFusedMultiplyAdd && x.size[1] == weight.size[1] * how.groups &&
              y.size[1] == weight.size[0] && y.size[0] == x.size[0] && weight.size[0] % how.groups == 0;
  for (size_t axis = 0; axis < 2; axis++) {
    const int reach = how.dilation[axis] * (weight.size[2 + axis] - 1) + 1;
    fits = fits && y.size[2 + axis] == (x.size[2 + axis] + 2 * how.padding[axis] - reach) / how.stride[axis] + 1;
  }
  return fits;
}

/// f(element of x, of weight, of y) for each product.
template <class Function>
void for_each_term(const DnnTensor& x, const DnnFilter& weight, const DnnConvolution& how, const DnnTensor& y,
                   Function f) {
  const int of_group = weight.size[0] / how.groups;
  for (int n = 0; n < y.size[0]; n++)
    for (int o = 0; o < y.size[1]; o++)
      for (int p = 0; p < y.size[2]; p++)
        for (int q = 0; q < y.size[3]; q++)
          for (int c = 0; c < weight.size[1]; c++)
            for (int i = 0; i < weight.size[2]; i++)
              for (int j = 0; j < weight.size[3]; j++) {
                const int h = p * how.stride[0] - how.padding[0] + i * how.dilation[0];
                const int w = q * how.stride[1] - how.padding[1] + j * how.dilation[1];
                if (h < 0 || h >= x.size[2] || w < 0 || w >= x.size[3]) continue;
                f(at(x.size, n, o / of_group * weight.size[1] + c, h, w), at(weight.size, o, c, i, j),
                  at(y.size, n, o, p, q));
              }
}

/// Those that must not be taken come first: sums in any order, tensor cores, too much memory, not there.
Status choose(bool is_possible, int requested, int* returned, Candidate* candidates) {
  constexpr int kTensorCores = 1, kNotSupported = 3000;
  ++state.choices;
  *returned = 0;
  if (!is_possible || requested < 5 || state.refuses) return kSuccess;
  candidates[0] = {0, kSuccess, 1, 0, 0, kFusedMultiplyAdd, {}};
  candidates[1] = {1, kSuccess, 1, 0, kDeterministic, kTensorCores, {}};
  candidates[2] = {2, kSuccess, 1, size_t{1} << 40, kDeterministic, kFusedMultiplyAdd, {}};
  candidates[3] = {3, kNotSupported, -1, 0, kDeterministic, kFusedMultiplyAdd, {}};
  candidates[4] = {kFakeAlgorithm, kSuccess, 2, kWorkspaceBytes, kDeterministic, kFusedMultiplyAdd, {}};
  return *returned = 5, kSuccess;
}

/// result = Σ left · right, where `term` says which element takes part in which.
template <class Terms>
Status compute(Handle handle, const void* alpha, const void* beta, int algorithm, void* workspace,
               size_t workspace_bytes, void* result, size_t elements, Terms terms) {
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 || handle->stream == nullptr ||
      algorithm != kFakeAlgorithm || workspace_bytes < kWorkspaceBytes) {
    return kBadParameter;
  }
  std::memset(workspace, 0xff, workspace_bytes);
  std::vector<double> sums(elements);
  terms(sums);
  for (size_t k = 0; k < elements; k++) static_cast<float*>(result)[k] = static_cast<float>(sums[k]);
  ++state.convolutions;
  return kSuccess;
}

double element(const void* values, size_t k) { return static_cast<const float*>(values)[k]; }

}  // namespace

extern "C" {

FakeCudnnLog* fake_cudnn_log() { return &state; }

Status cudnnCreate(Handle* handle) {
  static DnnHandle only;
  return *handle = &only, kSuccess;
}
Status cudnnSetStream(Handle handle, ashlar::detail::cuda::Queue stream) { return handle->stream = stream, kSuccess; }

Status cudnnCreateTensorDescriptor(TensorDescription* x) { return make(x); }
Status cudnnSetTensor4dDescriptor(TensorDescription x, int format, int type, int n, int c, int h, int w) {
  x->size = {n, c, h, w};
  return format == kDense && type == kFloat32 ? kSuccess : kBadParameter;
}
Status cudnnDestroyTensorDescriptor(TensorDescription x) { return destroy(x); }

Status cudnnCreateFilterDescriptor(FilterDescription* weight) { return make(weight); }
Status cudnnSetFilter4dDescriptor(FilterDescription weight, int type, int format, int k, int c, int h, int w) {
  weight->size = {k, c, h, w};
  return format == kDense && type == kFloat32 ? kSuccess : kBadParameter;
}
Status cudnnDestroyFilterDescriptor(FilterDescription weight) { return destroy(weight); }

Status cudnnCreateConvolutionDescriptor(ConvolutionDescription* how) { return make(how); }
Status cudnnSetConvolution2dDescriptor(ConvolutionDescription how, int padding_h, int padding_w, int stride_h,
                                       int stride_w, int dilation_h, int dilation_w, int mode, int type) {
  how->padding = {padding_h, padding_w};
  how->stride = {stride_h, stride_w};
  how->dilation = {dilation_h, dilation_w};
  return mode == kCrossCorrelation && type == kFloat32 ? kSuccess : kBadParameter;
}
Status cudnnSetConvolutionGroupCount(ConvolutionDescription how, int groups) { return how->groups = groups, kSuccess; }
Status cudnnSetConvolutionMathType(ConvolutionDescription how, int math) { return how->math = math, kSuccess; }
Status cudnnDestroyConvolutionDescriptor(ConvolutionDescription how) { return destroy(how); }

Status cudnnGetConvolutionForwardAlgorithm_v7(Handle, TensorDescription x, FilterDescription weight,
                                              ConvolutionDescription how, TensorDescription y, int requested,
                                              int* returned, Candidate* candidates) {
  return choose(well_formed(*x, *weight, *how, *y), requested, returned, candidates);
}
Status cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle, FilterDescription weight, TensorDescription dy,
                                                   ConvolutionDescription how, TensorDescription dx, int requested,
                                                   int* returned, Candidate* candidates) {
  return choose(well_formed(*dx, *weight, *how, *dy), requested, returned, candidates);
}
Status cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle, TensorDescription x, TensorDescription dy,
                                                     ConvolutionDescription how, FilterDescription dweight,
                                                     int requested, int* returned, Candidate* candidates) {
  return choose(well_formed(*x, *dweight, *how, *dy), requested, returned, candidates);
}

Status cudnnConvolutionForward(Handle handle, const void* alpha, TensorDescription of_x, const void* x,
                               FilterDescription of_weight, const void* weight, ConvolutionDescription how,
                               int algorithm, void* workspace, size_t workspace_bytes, const void* beta,
                               TensorDescription of_y, void* y) {
  return compute(handle, alpha, beta, algorithm, workspace, workspace_bytes, y, count(of_y->size), [&](auto& sums) {
    for_each_term(*of_x, *of_weight, *how, *of_y, [&](size_t in_x, size_t in_weight, size_t in_y) {
      sums[in_y] += element(x, in_x) * element(weight, in_weight);
    });
  });
}
Status cudnnConvolutionBackwardData(Handle handle, const void* alpha, FilterDescription of_weight, const void* weight,
                                    TensorDescription of_dy, const void* dy, ConvolutionDescription how, int algorithm,
                                    void* workspace, size_t workspace_bytes, const void* beta, TensorDescription of_dx,
                                    void* dx) {
  return compute(handle, alpha, beta, algorithm, workspace, workspace_bytes, dx, count(of_dx->size), [&](auto& sums) {
    for_each_term(*of_dx, *of_weight, *how, *of_dy, [&](size_t in_x, size_t in_weight, size_t in_y) {
      sums[in_x] += element(dy, in_y) * element(weight, in_weight);
    });
  });
}
Status cudnnConvolutionBackwardFilter(Handle handle, const void* alpha, TensorDescription of_x, const void* x,
                                      TensorDescription of_dy, const void* dy, ConvolutionDescription how,
                                      int algorithm, void* workspace, size_t workspace_bytes, const void* beta,
                                      FilterDescription of_dweight, void* dweight) {
  return compute(handle, alpha, beta, algorithm, workspace, workspace_bytes, dweight, count(of_dweight->size),
                 [&](auto& sums) {
                   for_each_term(*of_x, *of_dweight, *how, *of_dy, [&](size_t in_x, size_t in_weight, size_t in_y) {
                     sums[in_weight] += element(dy, in_y) * element(x, in_x);
                   });
                 });
}

}  // extern "C"
