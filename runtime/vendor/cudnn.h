// cuDNN's graph interface, opened at run time: no header of it is needed, and its absence is an ordinary state.
// Declarations follow NVIDIA's public interface (cuDNN manual, chapter "Backend API"; versions 8 and 9 agree on all of
// it). Everything is a descriptor with attributes, which is finalised once they are set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/driver.h"

namespace ashlar::detail::cudnn {

using Status = int;  // cudnnStatus_t
using Handle = struct DnnHandle*;
using DescriptorHandle = struct DnnDescriptor*;

inline constexpr Status kSuccess = 0;
inline constexpr int kFloat32 = 0;           // cudnnDataType_t
inline constexpr int kCrossCorrelation = 1;  // cudnnConvolutionMode_t

enum DescriptorKind : int {  // cudnnBackendDescriptorType_t
  kConvolution = 1,
  kEngine = 2,
  kEngineConfiguration = 3,
  kHeuristic = 4,
  kPlan = 5,
  kForward = 10,
  kBackwardWeight = 11,
  kBackwardInput = 12,
  kGraph = 15,
  kPack = 16,
  kTensor = 17
};
enum AttributeType : int {  // cudnnBackendAttributeType_t
  kHandles = 0,
  kDataTypes = 1,
  kIntegers = 3,  // of 64 bits
  kFloats = 4,
  kPointers = 6,
  kModes = 7,
  kHeuristicModes = 8,
  kNotes = 11,
  kDescriptors = 15
};
enum Attribute : int {  // cudnnBackendAttributeName_t
  kComputeType = 100,
  kMode = 101,
  kDilations = 102,
  kStrides = 103,
  kPaddingBehind = 104,
  kPaddingBefore = 105,
  kSpatialDimensions = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kEngineOfConfiguration = 300,
  kPlanHandle = 400,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  // An operation has five in a row; the order of the last three differs from kind to kind.
  kForwardAlpha = 700,
  kForwardWeight = 703,
  kForwardX = 704,
  kForwardY = 705,
  kInputAlpha = 706,
  kInputWeight = 709,
  kInputDx = 710,
  kInputDy = 711,
  kWeightAlpha = 712,
  kWeightDw = 715,
  kWeightX = 716,
  kWeightDy = 717,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorIdentity = 906,
  kPackIdentities = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303
};
inline constexpr int kByModel = 3, kFallback = 2;  // cudnnBackendHeurMode_t: A, and what serves everything
/// cudnnBackendNumericalNote_t of engines that round factors, or add in an order that changes.
enum Note : int { kTensorCores = 0, kRoundsInputs = 1, kRoundsSums = 2, kAnyOrder = 4, kNoteKinds = 10 };

struct Api {
  Status (*create)(Handle* handle);
  Status (*set_stream)(Handle handle, cuda::Queue stream);
  Status (*descriptor_create)(int kind, DescriptorHandle* descriptor);
  Status (*descriptor_destroy)(DescriptorHandle descriptor);
  Status (*finalize)(DescriptorHandle descriptor);
  Status (*set)(DescriptorHandle descriptor, int attribute, int type, int64_t count, const void* values);
  Status (*get)(DescriptorHandle descriptor, int attribute, int type, int64_t room, int64_t* count, void* values);
  Status (*execute)(Handle handle, DescriptorHandle plan, DescriptorHandle pack);
};

/// Null when the library isn't there or lacks one of them. Never throws.
const Api* api() noexcept;

}  // namespace ashlar::detail::cudnn
