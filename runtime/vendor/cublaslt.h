// cuBLASLt, opened at run time: no header of it is needed, and its absence is an ordinary state. Declarations follow
// NVIDIA's public interface (cuBLAS manual; versions 12 and 13 agree on all of it).
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/driver.h"

namespace ashlar::detail::cublaslt {

using Status = int;  // cublasStatus_t
using Handle = struct LtHandle*;
using MatmulDescription = struct LtMatmulDescription*;
using Layout = struct LtLayout*;
using Preference = struct LtPreference*;

inline constexpr Status kSuccess = 0;

enum DataType : int { kFloat32 = 0, kFloat16 = 2, kBFloat16 = 14 };
enum ComputeType : int { kCompute32 = 68, kComputeTf32 = 77 };
enum DescriptionAttribute : int { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8 };
enum EpilogueKind : uint32_t { kNoEpilogue = 1, kBiasEpilogue = 4, kReluBiasEpilogue = 6 };
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kMostWorkspace = 1,
  kReductionSchemes = 3,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8
};
inline constexpr uint32_t kReduceNothing = 0;                            // no partial sums
inline constexpr uint32_t kReduceInPlace = 1, kReduceInComputeType = 2;  // partial sums of the latter stay f32
enum AlgorithmAttribute : int { kSplits = 2, kReductionScheme = 3 };

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

struct Api {
  Status (*create)(Handle* handle);
  Status (*description_create)(MatmulDescription* description, int compute_type, int scale_type);
  Status (*description_destroy)(MatmulDescription description);
  Status (*description_set)(MatmulDescription description, int attribute, const void* value, size_t bytes);
  Status (*layout_create)(Layout* layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
  Status (*layout_destroy)(Layout layout);
  Status (*layout_set)(Layout layout, int attribute, const void* value, size_t bytes);
  Status (*preference_create)(Preference* preference);
  Status (*preference_destroy)(Preference preference);
  Status (*preference_set)(Preference preference, int attribute, const void* value, size_t bytes);
  Status (*heuristic)(Handle handle, MatmulDescription description, Layout a, Layout b, Layout c, Layout d,
                      Preference preference, int requested, Heuristic* results, int* returned);
  Status (*algorithm_get)(const Algorithm* algorithm, int attribute, void* value, size_t bytes, size_t* written);
  Status (*matmul)(Handle handle, MatmulDescription description, const void* alpha, const void* a, Layout a_layout,
                   const void* b, Layout b_layout, const void* beta, const void* c, Layout c_layout, void* d,
                   Layout d_layout, const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                   cuda::Queue stream);
};

/// Null when the library isn't there or lacks one of them. Never throws.
const Api* api() noexcept;

}  // namespace ashlar::detail::cublaslt
