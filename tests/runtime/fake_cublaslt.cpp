#include "tests/runtime/fake_cublaslt.h"

#include <algorithm>
#include <cstring>

#include "runtime/vendor/cublaslt.h"

using namespace ashlar::detail::cublaslt;

// Opaque to the library under test.
namespace ashlar::detail::cublaslt {
struct LtHandle {};
struct LtMatmulDescription {
  int compute = 0, transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = kNoEpilogue;
  const float* bias = nullptr;
};
struct LtLayout {
  int type = 0;
  int64_t rows = 0, columns = 0, leading = 0, batch_stride = 0;
  int32_t batches = 1;
};
struct LtPreference {
  uint64_t workspace = 0;
  uint32_t schemes = 7;
};
}  // namespace ashlar::detail::cublaslt

namespace {

constexpr Status kInvalidValue = 7;
FakeCublasLtLog state{};

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
template <class T>
Status copy_into(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return kInvalidValue;
  return std::memcpy(&field, value, bytes), kSuccess;
}

/// Element (row, column) of the operand after its operation, column-major.
float at(const float* matrix, const LtLayout& layout, bool transpose, int64_t row, int64_t column) {
  return transpose ? matrix[column + row * layout.leading] : matrix[row + column * layout.leading];
}

bool well_formed(const LtLayout& x) {
  const bool is_known = x.type == kFloat32 || x.type == kFloat16 || x.type == kBFloat16;
  return is_known && x.leading >= x.rows && x.rows > 0 && x.columns > 0;
}

}  // namespace

extern "C" {

FakeCublasLtLog* fake_cublaslt_log() { return &state; }

Status cublasLtCreate(Handle* handle) {
  static LtHandle only;
  return *handle = &only, kSuccess;
}
Status cublasLtMatmulDescCreate(MatmulDescription* description, int compute, int scale_type) {
  if (scale_type != kFloat32) return kInvalidValue;
  make(description);
  return (*description)->compute = compute, kSuccess;
}
Status cublasLtMatmulDescDestroy(MatmulDescription description) { return destroy(description); }
Status cublasLtMatmulDescSetAttribute(MatmulDescription d, int attribute, const void* value, size_t bytes) {
  switch (attribute) {
    case kTransposeA:
      return copy_into(d->transpose_a, value, bytes);
    case kTransposeB:
      return copy_into(d->transpose_b, value, bytes);
    case kEpilogue:
      return copy_into(d->epilogue, value, bytes);
    case kBiasPointer:
      return copy_into(d->bias, value, bytes);
    default:
      return kInvalidValue;
  }
}
Status cublasLtMatrixLayoutCreate(Layout* layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  make(layout);
  **layout = {type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return kSuccess;
}
Status cublasLtMatrixLayoutDestroy(Layout layout) { return destroy(layout); }
Status cublasLtMatrixLayoutSetAttribute(Layout layout, int attribute, const void* value, size_t bytes) {
  if (attribute == kBatchCount) return copy_into(layout->batches, value, bytes);
  return attribute == kBatchStride ? copy_into(layout->batch_stride, value, bytes) : kInvalidValue;
}
Status cublasLtMatmulPreferenceCreate(Preference* preference) { return make(preference); }
Status cublasLtMatmulPreferenceDestroy(Preference preference) { return destroy(preference); }
Status cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute, const void* value, size_t bytes) {
  uint32_t alignment = 0;
  switch (attribute) {
    case kMostWorkspace:
      return copy_into(preference->workspace, value, bytes);
    case kReductionSchemes:
      return copy_into(preference->schemes, value, bytes);
    default:
      return copy_into(alignment, value, bytes) == kSuccess && alignment >= 4 && alignment <= 256 ? kSuccess
                                                                                                  : kInvalidValue;
  }
}
Status cublasLtMatmulAlgoGetHeuristic(Handle, MatmulDescription, Layout a, Layout b, Layout c, Layout d,
                                      Preference preference, int requested, Heuristic* results, int* returned) {
  ++state.plans;
  *returned = 0;
  // Partial sums in 16 bits would be rounded.
  const bool is_whole = preference->schemes == kReduceNothing;
  const bool keeps_sums = d->type == kFloat32 || is_whole || preference->schemes == kReduceInComputeType;
  const bool possible = requested > 0 && well_formed(*a) && well_formed(*b) && c == d && well_formed(*d) &&
                        preference->workspace >= kFakeWorkspaceBytes && keeps_sums;
  if (!possible || state.refuses) return kSuccess;
  const int32_t splits = is_whole ? 1 : state.splits;
  const uint64_t room = sizeof(float) * static_cast<uint64_t>(std::max(splits, 1) * d->rows * d->columns);
  const bool is_in_place = splits > 1 && preference->workspace < room;
  *results = {.algorithm = {{static_cast<uint64_t>(splits), is_in_place ? kReduceInPlace : kReduceInComputeType}},
              .workspace_bytes = splits > 1 && !is_in_place ? room : kFakeWorkspaceBytes,
              .state = kSuccess,
              .waves = 1,
              .reserved = {}};
  return *returned = 1, kSuccess;
}

Status cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value, size_t bytes,
                                            size_t* written) {
  if (bytes != sizeof(uint32_t) || (attribute != kSplits && attribute != kReductionScheme)) return kInvalidValue;
  const auto stored = static_cast<uint32_t>(algorithm->data[attribute == kSplits ? 0 : 1]);
  std::memcpy(value, &stored, bytes);
  return *written = bytes, kSuccess;
}

/// D = activation(op(A) op(B) + bias along the rows of D)
Status cublasLtMatmul(Handle, MatmulDescription description, const void* alpha, const void* a, Layout a_layout,
                      const void* b, Layout b_layout, const void* beta, const void*, Layout, void* d, Layout d_layout,
                      const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                      ashlar::detail::cuda::Queue stream) {
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 || stream == nullptr ||
      workspace_bytes < kFakeWorkspaceBytes) {
    return kInvalidValue;
  }
  std::memset(workspace, 0xff, workspace_bytes);
  state.sums_in_place += algorithm->data[1] == kReduceInPlace;
  state.products_in_parts += algorithm->data[0] > 1;
  ++state.products;
  if (d_layout->type != kFloat32) return kSuccess;
  const int64_t inner = description->transpose_a ? a_layout->rows : a_layout->columns;
  for (int64_t batch = 0; batch < d_layout->batches; ++batch) {
    const float* left = static_cast<const float*>(a) + batch * a_layout->batch_stride;
    const float* right = static_cast<const float*>(b) + batch * b_layout->batch_stride;
    float* result = static_cast<float*>(d) + batch * d_layout->batch_stride;
    for (int64_t column = 0; column < d_layout->columns; ++column) {
      for (int64_t row = 0; row < d_layout->rows; ++row) {
        double sum = description->epilogue == kNoEpilogue ? 0 : description->bias[row];
        for (int64_t k = 0; k < inner; ++k) {
          sum += double{at(left, *a_layout, description->transpose_a != 0, row, k)} *
                 at(right, *b_layout, description->transpose_b != 0, k, column);
        }
        const auto value = static_cast<float>(sum);
        result[row + column * d_layout->leading] =
            description->epilogue == kReluBiasEpilogue ? std::max(value, 0.0f) : value;
      }
    }
  }
  state.tf32_products += description->compute == kComputeTf32;
  return kSuccess;
}

}  // extern "C"
