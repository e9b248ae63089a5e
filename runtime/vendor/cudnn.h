// cuDNN, opened at run time: no header of it is needed, and its absence is an ordinary state. Declarations follow
// NVIDIA's public interface (cuDNN manual; versions 8 and 9 agree on all of it).
#pragma once

#include <cstddef>

#include "runtime/cuda/driver.h"

namespace ashlar::detail::cudnn {

using Status = int;  // cudnnStatus_t
using Handle = struct DnnHandle*;
using TensorDescription = struct DnnTensor*;
using FilterDescription = struct DnnFilter*;
using ConvolutionDescription = struct DnnConvolution*;

inline constexpr Status kSuccess = 0;
inline constexpr int kFloat32 = 0;           // cudnnDataType_t
inline constexpr int kDense = 0;             // cudnnTensorFormat_t: NCHW
inline constexpr int kCrossCorrelation = 1;  // cudnnConvolutionMode_t
inline constexpr int kDeterministic = 1;     // cudnnDeterminism_t
/// cudnnMathType_t: no tensor cores, so factors stay as they are.
inline constexpr int kDefaultMath = 0, kFusedMultiplyAdd = 3;

/// What a heuristic says of one algorithm; the same layout for all three kinds of convolution.
struct Candidate {
  int algorithm;
  Status status;
  float milliseconds;
  size_t workspace_bytes;
  int determinism;
  int math;
  int reserved[3];
};

struct Api {
  Status (*create)(Handle* handle);
  Status (*set_stream)(Handle handle, cuda::Queue stream);
  Status (*tensor_create)(TensorDescription* description);
  Status (*tensor_set)(TensorDescription description, int format, int type, int n, int c, int h, int w);
  Status (*tensor_destroy)(TensorDescription description);
  Status (*filter_create)(FilterDescription* description);
  Status (*filter_set)(FilterDescription description, int type, int format, int k, int c, int h, int w);
  Status (*filter_destroy)(FilterDescription description);
  Status (*convolution_create)(ConvolutionDescription* description);
  Status (*convolution_set)(ConvolutionDescription description, int padding_h, int padding_w, int stride_h,
                            int stride_w, int dilation_h, int dilation_w, int mode, int compute_type);
  Status (*convolution_set_groups)(ConvolutionDescription description, int groups);
  Status (*convolution_set_math)(ConvolutionDescription description, int math);
  Status (*convolution_destroy)(ConvolutionDescription description);
  Status (*forward_candidates)(Handle handle, TensorDescription x, FilterDescription weight, ConvolutionDescription how,
                               TensorDescription y, int requested, int* returned, Candidate* candidates);
  Status (*input_candidates)(Handle handle, FilterDescription weight, TensorDescription dy, ConvolutionDescription how,
                             TensorDescription dx, int requested, int* returned, Candidate* candidates);
  Status (*weight_candidates)(Handle handle, TensorDescription x, TensorDescription dy, ConvolutionDescription how,
                              FilterDescription dweight, int requested, int* returned, Candidate* candidates);
  Status (*forward)(Handle handle, const void* alpha, TensorDescription x_description, const void* x,
                    FilterDescription weight_description, const void* weight, ConvolutionDescription how, int algorithm,
                    void* workspace, size_t workspace_bytes, const void* beta, TensorDescription y_description,
                    void* y);
  Status (*input)(Handle handle, const void* alpha, FilterDescription weight_description, const void* weight,
                  TensorDescription dy_description, const void* dy, ConvolutionDescription how, int algorithm,
                  void* workspace, size_t workspace_bytes, const void* beta, TensorDescription dx_description,
                  void* dx);
  Status (*weight)(Handle handle, const void* alpha, TensorDescription x_description, const void* x,
                   TensorDescription dy_description, const void* dy, ConvolutionDescription how, int algorithm,
                   void* workspace, size_t workspace_bytes, const void* beta, FilterDescription dweight_description,
                   void* dweight);
};

/// Null when the library isn't there or lacks one of them. Never throws.
const Api* api() noexcept;

}  // namespace ashlar::detail::cudnn
