// Row-major y = a · b is column-major yᵀ = bᵀ · aᵀ: the same memory read as transposed matrices. So cuBLASLt's first
// factor is our b, its second our a, and a bias of [n] lies along its rows, as its epilogue wants.
#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "runtime/device/stream_state.h"
#include "runtime/launch/dispatch.h"
#include "runtime/launch/few_rows.h"
#include "runtime/launch/kernel_start.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/launch/quads.h"
#include "runtime/support/error.h"
#include "runtime/support/rounding.h"
#include "runtime/tensor/storage.h"
#include "runtime/vendor/cublaslt.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace detail::cublaslt {
namespace {

/// What NVIDIA recommends for Hopper; twice as much in 16 bits, whose partial sums stay f32 (kReduceInComputeType).
constexpr uint64_t workspace_for(DType dtype) { return dtype == DType::f32 ? 32 << 20 : 64 << 20; }
constexpr uint64_t kMostWorkspaceOfSplits = 64 << 20;
constexpr int32_t kMostSplitsInPlace = 10;
constexpr size_t kMostPlans = 512;
constexpr uint32_t kAllReductions = ~0u;

void check(const char* call, Status status) {
  if (status == kSuccess) return;
  throw DriverError(call, "cublasStatus_t " + std::to_string(status), "0",
                    "Set ASHLAR_VENDOR=never to use Ashlar's own kernels");
}

/// A batch of matrices as cuBLASLt names them: column-major, perhaps transposed by the operation.
struct Matrix {
  int64_t rows, columns, leading, batch_stride;
  bool transpose;
  auto operator<=>(const Matrix&) const = default;
};

/// x[batch, row, column] with one unit stride, read as the column-major transpose. Nothing where strides overlap or
/// skip.
std::optional<Matrix> transposed(const Tensor& x) {
  const int64_t rows = x.size(1), columns = x.size(2), row_stride = x.strides()[1], column_stride = x.strides()[2];
  const int64_t batch_stride = x.size(0) > 1 ? x.strides()[0] : 0;
  if (batch_stride < 0) return {};
  // A leading dimension of a single line means nothing, but has to be large enough. A single column isn't called
  // transposed: cuBLASLt takes twice as long for it then.
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1)) {
    return Matrix{columns, rows, std::max(row_stride, columns), batch_stride, false};
  }
  if (row_stride == 1 && (column_stride >= rows || columns == 1)) {
    return Matrix{rows, columns, std::max(column_stride, rows), batch_stride, true};
  }
  return {};
}

DataType data_type(DType dtype) { return dtype == DType::f16 ? kFloat16 : dtype == DType::bf16 ? kBFloat16 : kFloat32; }

char* address_of(const Tensor& x) {
  return reinterpret_cast<char*>(x.storage()->handle()) + x.offset() * size_of(x.dtype());
}

/// The largest power of two, up to 256, that divides where every matrix of the batch begins.
uint32_t alignment_of(const Tensor& x, const Matrix& m) {
  const uint64_t stride = static_cast<uint64_t>(m.batch_stride * size_of(x.dtype()));
  return 1u << std::countr_zero(reinterpret_cast<uint64_t>(address_of(x)) | stride | 256);
}

struct Problem {
  DType dtype;
  bool tf32;
  uint32_t epilogue;
  int64_t batches;
  Matrix a, b, y;  // ours
  uint32_t a_alignment, b_alignment, y_alignment, bias_alignment;
  auto operator<=>(const Problem&) const = default;
};

/// cuBLASLt's objects and its choice of algorithm for one problem.
class Plan {
 public:
  Plan(Handle handle, const Problem& problem, const char* bias) {
    const Api& lt = *api();
    check("cublasLtMatmulDescCreate",
          lt.description_create(&description_, problem.tf32 ? kComputeTf32 : kCompute32, kFloat32));
    const int32_t transpose_first = problem.b.transpose, transpose_second = problem.a.transpose;
    set(kTransposeA, transpose_first);
    set(kTransposeB, transpose_second);
    set(kEpilogue, problem.epilogue);
    if (problem.epilogue != kNoEpilogue) set(kBiasPointer, bias);
    make_layout(first_, problem.b, problem.dtype, problem.batches);
    make_layout(second_, problem.a, problem.dtype, problem.batches);
    make_layout(result_, problem.y, problem.dtype, problem.batches);
    choose(handle, problem);
  }
  ~Plan() {
    const Api& lt = *api();
    for (Layout layout : {first_, second_, result_}) {
      if (layout) lt.layout_destroy(layout);
    }
    if (description_) lt.description_destroy(description_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  bool found() const { return found_; }

  void run(Handle handle, const Tensor& a, const Tensor& b, const char* bias, const Tensor& y, StreamState& stream) {
    const float one = 1, zero = 0;
    if (bias) set(kBiasPointer, bias);
    // Given back at once: the next user of the block comes later on the same stream.
    const auto bytes = static_cast<int64_t>(choice_.workspace_bytes);
    const Tensor workspace = bytes > 0 ? Tensor::empty({bytes}, DType::u8, y.device()) : Tensor();
    check("cublasLtMatmul",
          cuda::call(api()->matmul, handle, description_, static_cast<const void*>(&one),
                     static_cast<const void*>(address_of(b)), first_, static_cast<const void*>(address_of(a)), second_,
                     static_cast<const void*>(&zero), static_cast<const void*>(address_of(y)), result_,
                     static_cast<void*>(address_of(y)), result_, static_cast<const Algorithm*>(&choice_.algorithm),
                     static_cast<void*>(bytes > 0 ? address_of(workspace) : nullptr), choice_.workspace_bytes,
                     static_cast<cuda::Queue>(stream.native_queue())));
  }

 private:
  template <class T>
  void set(DescriptionAttribute attribute, const T& value) {
    check("cublasLtMatmulDescSetAttribute", api()->description_set(description_, attribute, &value, sizeof(value)));
  }

  static void make_layout(Layout& layout, const Matrix& m, DType dtype, int64_t batches) {
    const Api& lt = *api();
    check("cublasLtMatrixLayoutCreate", lt.layout_create(&layout, data_type(dtype), static_cast<uint64_t>(m.rows),
                                                         static_cast<uint64_t>(m.columns), m.leading));
    if (batches == 1) return;
    const auto count = static_cast<int32_t>(batches);
    check("cublasLtMatrixLayoutSetAttribute", lt.layout_set(layout, kBatchCount, &count, sizeof(count)));
    check("cublasLtMatrixLayoutSetAttribute",
          lt.layout_set(layout, kBatchStride, &m.batch_stride, sizeof(m.batch_stride)));
  }

  /// Where the partial sums of a product find no room, cuBLASLt adds them in place, one after the other: of eleven and
  /// more that takes 1.05 to 1.4 times as long as with the room that they need (H200, cuBLASLt 13.1).
  void choose(Handle handle, const Problem& problem) {
    // Partial sums in the result's type would be rounded to 16 bits.
    const uint32_t schemes = problem.dtype == DType::f32 ? kAllReductions : kReduceInComputeType;
    choose_within(workspace_for(problem.dtype), schemes, handle, problem);
    if (found_ && loses_terms(problem)) choose_within(workspace_for(problem.dtype), kReduceNothing, handle, problem);
    if (!found_ || attribute_of_choice<uint32_t>(kReductionScheme) != kReduceInPlace) return;
    const auto splits = attribute_of_choice<int32_t>(kSplits);
    const uint64_t bytes = sizeof(float) * static_cast<uint64_t>(splits * problem.batches * problem.y.rows) *
                           static_cast<uint64_t>(problem.y.columns);
    if (splits <= kMostSplitsInPlace || bytes > kMostWorkspaceOfSplits) return;
    const Heuristic in_place = choice_;
    choose_within(bytes, schemes, handle, problem);
    if (!found_) choice_ = in_place;
    found_ = true;
  }

  /// Of 16-bit products in several partial sums cuBLASLt 13.1 leaves the last eight terms out where what comes before
  /// them is dealt evenly, in steps of 64: f16 and bf16 of 11528 = 180 · 64 + 8 terms, say, by PyTorch too (H200).
  bool loses_terms(const Problem& problem) const {
    constexpr int64_t kStep = 64, kLost = 8;
    const int64_t terms = problem.a.transpose ? problem.a.columns : problem.a.rows;
    if (problem.dtype == DType::f32 || terms % kStep == 0 || terms % kStep > kLost) return false;
    const auto splits = attribute_of_choice<int32_t>(kSplits);
    return splits > 1 && terms / kStep % splits == 0;
  }

  template <class T>
  T attribute_of_choice(AlgorithmAttribute attribute) const {
    T value{};
    size_t written = 0;
    check("cublasLtMatmulAlgoConfigGetAttribute",
          api()->algorithm_get(&choice_.algorithm, attribute, &value, sizeof(value), &written));
    return value;
  }

  void choose_within(uint64_t workspace, uint32_t schemes, Handle handle, const Problem& problem) {
    const Api& lt = *api();
    Preference preference = nullptr;
    check("cublasLtMatmulPreferenceCreate", lt.preference_create(&preference));
    const std::unique_ptr<LtPreference, Status (*)(Preference)> owner(preference, lt.preference_destroy);
    const auto prefer = [&](PreferenceAttribute attribute, auto value) {
      check("cublasLtMatmulPreferenceSetAttribute", lt.preference_set(preference, attribute, &value, sizeof(value)));
    };
    prefer(kMostWorkspace, workspace);
    if (schemes != kAllReductions) prefer(kReductionSchemes, schemes);
    prefer(kAlignmentA, problem.b_alignment);
    prefer(kAlignmentB, problem.a_alignment);
    prefer(kAlignmentC, problem.y_alignment);
    prefer(kAlignmentD, problem.y_alignment);
    int returned = 0;
    const Status status =
        lt.heuristic(handle, description_, first_, second_, result_, result_, preference, 1, &choice_, &returned);
    found_ = status == kSuccess && returned > 0 && choice_.state == kSuccess;
  }

  MatmulDescription description_ = nullptr;
  Layout first_ = nullptr, second_ = nullptr, result_ = nullptr;
  Heuristic choice_{};
  bool found_ = false;
};

/// One for each device, kept to the end of the process.
Handle handle_of(StreamState& stream) {
  static std::mutex mutex;
  static std::map<int, Handle> handles;
  const std::lock_guard lock(mutex);
  Handle& handle = handles[stream.device().index];
  if (handle == nullptr) check("cublasLtCreate", cuda::call(api()->create, &handle));
  return handle;
}

/// A thread's own: descriptions hold the bias pointer of the call under way.
Plan& plan_for(Handle handle, const Problem& problem, const char* bias, int device) {
  thread_local std::map<std::pair<int, Problem>, std::unique_ptr<Plan>> plans;
  if (plans.size() >= kMostPlans) plans.clear();
  std::unique_ptr<Plan>& plan = plans[{device, problem}];
  if (plan == nullptr) plan = std::make_unique<Plan>(handle, problem, bias);
  return *plan;
}

bool are_aligned_in_16_bits(const Tensor& a, const Tensor& y) {
  return a.size(2) % 8 == 0 && y.size(2) % 8 == 0 && y.size(1) % 8 == 0;
}

/// In 16 bits, rows that don't begin at multiples of 16 bytes get their epilogue in a second kernel: it reads the sum
/// already rounded, and its ReLU turns NaN into 0 (measured on cuBLASLt 13.1).
bool fuses_exactly(const VendorCall& call) {
  const Tensor &a = call.inputs[0], &y = call.outputs[0];
  return y.dtype() == DType::f32 || are_aligned_in_16_bits(a, y);
}

/// What follows the sums: by cuBLASLt, or by a kernel of ours where that has no exact twin of it (its GELU is the tanh
/// approximation). Ours reads sums as they are stored: in 16 bits they are rounded once more than by our own product,
/// as by torch.nn.functional.linear and an activation after it.
struct Epilogue {
  EpilogueKind fused = kNoEpilogue;
  bool is_ours = false;
};
Epilogue epilogue_of(const VendorCall& call) {
  const std::string_view name = call.kernel.comptimes[0].values[call.key.variant];
  if (name == "none") return {};
  if (name == "bias_gelu" || !fuses_exactly(call)) return {.is_ours = true};
  return {.fused = name == "bias_relu" ? kReluBiasEpilogue : kBiasEpilogue};
}

bool run(const VendorCall& call) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &bias = call.inputs[2], &y = call.outputs[0];
  const DType dtype = y.dtype();
  if (api() == nullptr || (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)) return false;
  const std::optional<Matrix> left = transposed(a), right = transposed(b), result = transposed(y);
  if (!left || !right || !result || result->transpose || y.size(0) > INT32_MAX) return false;

  const Epilogue epilogue = epilogue_of(call);
  if (epilogue.is_ours && (call.kernel.last == nullptr || y.numel() > kMostElements || !y.is_contiguous()))
    return false;
  const char* bias_address = epilogue.fused == kNoEpilogue ? nullptr : address_of(bias);
  const uint32_t bias_alignment = bias_address ? alignment_of(bias, Matrix{}) : 0;
  const Problem problem{dtype,
                        call.allow_tf32 && dtype == DType::f32,
                        epilogue.fused,
                        y.size(0),
                        *left,
                        *right,
                        *result,
                        alignment_of(a, *left),
                        alignment_of(b, *right),
                        alignment_of(y, *result),
                        bias_alignment};
  StreamState& stream = current_stream(y.device());
  const cuda::ContextScope scope(static_cast<cuda::Context>(stream.native_context()));
  const Handle handle = handle_of(stream);
  Plan& plan = plan_for(handle, problem, bias_address, stream.device().index);
  if (!plan.found()) return false;
  for (const Tensor* x : {&a, &b, &bias}) x->storage()->prepare_read(stream);
  y.storage()->prepare_write(stream);
  plan.run(handle, a, b, bias_address, y, stream);
  stream.count_launch();
  if (epilogue.is_ours) {
    const int64_t rows = y.size(0) * y.size(1), columns = y.size(2);
    launch(*call.kernel.last, call.key, std::array{y.reshape({1, rows, columns}), bias}, {},
           std::array{y.reshape({rows, columns})});
  }
  return true;
}

double real(int64_t n) { return static_cast<double>(n); }

/// A few rows in 16 bits, by our plans that read the other operand once: along k, or of few columns. Of a row with few
/// results cuBLASLt deals many terms over several blocks. Microseconds in a graph, fitted to 123 such products drawn at
/// random (H200), of which this takes ours at 106, at 2.07 of cuBLASLt's speed in the geometric mean.
bool is_along_of_few_rows(const VendorCall& call) {
  constexpr int64_t kLeastTerms = 64, kManyTerms = 4096, kTermsInARow = 3800;
  constexpr int64_t kBlocks = 264;  // two for each multiprocessor
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  const int64_t rows = y.size(1), columns = y.size(2), terms = a.size(2);
  const bool has_few_columns = columns <= FewRows::kOfFewColumns;
  if (!(has_few_columns || b.strides()[1] == 1) || terms < kLeastTerms) return false;
  if (rows > (has_few_columns ? FewRows::kOfFewColumns : FewRows::kAlong)) return false;
  const int64_t tile = rows == 1   ? 1
                       : rows <= 4 ? 4
                                   : FewRows::kAlong,
                blocks = y.size(0) * over(rows, tile) * over(columns, 2);
  if (rows == 1 && blocks <= kBlocks && terms >= kManyTerms) return false;
  const double ours = 1.1 + 3.6e-4 * real(terms * tile) + 3.1e-4 * real(blocks);
  return ours < 1.3 + 3.3e-3 * real(std::min(terms, kTermsInARow));
}

/// The same across k. In aligned quads by microseconds in a graph, fitted to 278 products of 2 to 16 rows drawn at
/// random in f16 and bf16 (H200), at which the choice is 1.11 times as quick as cuBLASLt alone and 0.975 of the best;
/// else where it keeps the device busy for a moment.
bool is_across_of_few_rows(const VendorCall& call) {
  constexpr int64_t kBlocks = 264, kMostTerms = 256, kTermsInARow = 4000;
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  const int64_t rows = y.size(1), columns = y.size(2), k = b.size(1);
  const int64_t blocks_of_rows = y.size(0) * over(columns, FewRows::kColumnsOfQuads);
  if (b.strides()[2] != 1 || columns == 1) return false;
  if (rows < 2 || rows > FewRows::kQuadsAcross || !is_in_quads(a, 2) || !is_in_quads(b, 2)) {
    return rows <= FewRows::kAcross && k < kMostTerms && blocks_of_rows <= kBlocks;
  }
  const double blocks = real(blocks_of_rows * over(rows, FewRows::kRowsOfQuads)), terms = real(k),
               megabytes = 2e-6 * real(y.size(0) * columns) * terms, in_a_row = real(std::min(k, kTermsInARow));
  const bool is_deep = FewRows::are_quads_deep(blocks, terms);
  const double ours = is_deep ? 1.75 + 1.66e-3 * terms + (2e-5 * terms + 8.8e-3) * blocks
                              : 1.47 + 3.08e-3 * terms + (3e-5 * terms + 2.5e-3) * blocks;
  constexpr int64_t kAligned = 8;
  const bool is_aligned = k % kAligned == 0 && columns % kAligned == 0;
  return ours <
         (is_aligned ? 2.15 + 9.5e-4 * in_a_row + 0.22 * megabytes : 2.7 + 1.19e-3 * in_a_row + 0.66 * megabytes);
}

/// Of 16-bit floats our kernels have no tensor cores yet, and win where a product is little more than a launch, above
/// all where cuBLASLt's epilogue is no exact one, and of few rows. Microseconds in a graph, ours by the plan `split` or
/// by tiles: fitted to 2263 products drawn at random in f16 (H200), of whose aligned ones cuBLASLt was quicker at
/// nearly all.
bool is_ours_quicker_in_16_bits(const VendorCall& call) {
  if (is_along_of_few_rows(call) || is_across_of_few_rows(call)) return true;
  const Tensor &a = call.inputs[0], &y = call.outputs[0];
  const double terms = real(a.size(2)), results = real(y.numel());
  const auto padded = [&](int64_t tile) {
    return real(y.size(0)) * real(round_up(y.size(1), tile)) * real(round_up(y.size(2), tile));
  };
  const double split = 1.9 + 0.0235 * terms + (1.01e-5 + 6.5e-8 * terms) * padded(16),
               tiles = 2.7 + 0.008 * terms + (3.2e-6 + 6.5e-8 * terms) * padded(64);
  const bool is_aligned = are_aligned_in_16_bits(a, y);
  const double product = (is_aligned ? 1.95 : 3) + 0.003 * terms + (is_aligned ? 0 : 1.7e-6 * results);
  return std::min(split, tiles) < product + (epilogue_of(call).is_ours ? 1.6 + 1e-6 * results : 0);
}

/// What cuBLASLt takes in strict f32. Microseconds in a graph: its start, terms that it adds one after the other (of
/// several products all of them), multiply-adds of whole tiles at a little over half of the device's peak, bytes, and
/// an epilogue of ours behind it. Of one row or column bytes are all.
double modelled_f32(const VendorCall& call) {
  constexpr double kStart = 3.8, kTerm = 0.006, kTermOfBatch = 0.019, kOfPeak = 0.55, kLanes = 128;
  constexpr double kStartOfRow = 2.6, kBytesOfRow = 1.3;
  constexpr int64_t kTermsInARow = 768, kTile = 16;
  const Tensor &a = call.inputs[0], &y = call.outputs[0];
  const auto number = [&](PlanDevice which) { return plan_device_number(y.device(), which); };
  const double flops_a_microsecond = 2e3 * kLanes * number(PlanDevice::multiprocessors) * number(PlanDevice::gigahertz),
               bytes_a_microsecond = 1e3 * number(PlanDevice::gigabytes_per_second);
  const int64_t m = y.size(1), n = y.size(2), k = a.size(2);
  const auto batches = real(y.size(0)), terms = real(k);
  const double moving = 4 * batches * (real(m * k) + real(k * n) + real(m * n)) / bytes_a_microsecond;
  double time = kStartOfRow + kBytesOfRow * moving;
  if (std::min(m, n) > 1) {
    const double flops = 2 * batches * real(round_up(m, kTile)) * real(round_up(n, kTile)) * terms;
    time = kStart + kTerm * real(std::min(k, kTermsInARow)) + (y.size(0) > 1 ? kTermOfBatch * terms : 0) +
           flops / (kOfPeak * flops_a_microsecond) + moving;
  }
  if (!epilogue_of(call).is_ours) return time;
  return time + kernel_start(DeviceKind::cuda) + 8 * real(y.numel()) / bytes_a_microsecond;
}

/// In strict f32 ours win where a product is little more than a launch, is one of several with few results of many
/// terms each, or has a short side. Of 3434 products drawn at random (H200), 600 of them with a short side and more
/// than 32 MB to read, this takes ours at seven of ten. Where a side is up to 64 that is 1.3 to 1.8 times as quick as
/// cuBLASLt; at one of eighty it takes more than 1.11 times as long. Of few terms results are most of what is moved,
/// and ours are quicker. With TF32 they aren't.
bool preferred(const VendorCall& call) {
  constexpr double kSurely = 1.3;  // where no side is short, and cuBLASLt is what it was made for
  constexpr int64_t kShortSide = 16, kFewTerms = 16, kTermsWorthAPass = 256, kManyTerms = 1 << 24;
  if (api() == nullptr) return false;
  const DType dtype = call.outputs[0].dtype();
  if (dtype == DType::f16 || dtype == DType::bf16) return !is_ours_quicker_in_16_bits(call);
  if (call.allow_tf32) return true;
  if (call.inputs[0].size(2) <= kFewTerms) return false;
  if (epilogue_of(call).is_ours && call.inputs[0].size(2) < kTermsWorthAPass) return false;
  double ours = call.our_microseconds;
  if (ours < 0) {
    ours = modelled_microseconds(call.kernel, call.key, call.outputs[0].device(), call.inputs, call.outputs);
  }
  const Tensor& y = call.outputs[0];
  if (ours >= 0) {
    const bool has_short_side = std::min(y.size(1), y.size(2)) <= kShortSide;
    return (has_short_side ? ours : kSurely * ours) > modelled_f32(call);
  }
  return y.numel() * call.inputs[0].size(2) >= kManyTerms;  // of a device that no model speaks of
}

}  // namespace
}  // namespace detail::cublaslt

const VendorRoutine vendor::cublaslt_matmul{"cublaslt_matmul", DeviceKind::cuda, detail::cublaslt::preferred,
                                            detail::cublaslt::run};

}  // namespace ashlar
