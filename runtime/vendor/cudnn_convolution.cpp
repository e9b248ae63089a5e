#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/stream_state.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/vendor/cudnn.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace detail::cudnn {
namespace {

constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 30;
constexpr size_t kMostPlans = 512;

void check(const char* call, Status status) {
  if (status == kSuccess) return;
  throw DriverError(call, "cudnnStatus_t " + std::to_string(status), "0",
                    "Set ASHLAR_VENDOR=never to use Ashlar's own kernels");
}

enum class Kind : uint8_t { forward, input, weight };

/// A convolution of x [n, c, h, w] and weight [o, c / groups, kh, kw] to y [n, o, p, q], one of which is asked for.
struct Problem {
  using Pair = std::array<int64_t, 2>;
  struct Operand {
    std::array<int64_t, 4> size;
    int64_t alignment;  ///< the largest power of two, up to 16 bytes, that divides where it begins
    auto operator<=>(const Operand&) const = default;
  };
  Kind kind;
  Operand x, weight, y;
  Pair stride, padding, dilation;
  auto operator<=>(const Problem&) const = default;
};

char* address_of(const Tensor& x) {
  return reinterpret_cast<char*>(x.storage()->handle()) + x.offset() * size_of(x.dtype());
}

Problem::Operand operand_of(const Tensor& x) {
  const int alignment = std::countr_zero(reinterpret_cast<uint64_t>(address_of(x)) | 16);
  return {{x.size(0), x.size(1), x.size(2), x.size(3)}, int64_t{1} << alignment};
}

Problem problem_of(Kind kind, const Tensor& left, const Tensor& right, const Tensor& result,
                   std::span<const Scalar> scalars) {
  const auto pair = [&](size_t first) { return Problem::Pair{scalars[first].integer, scalars[first + 1].integer}; };
  const Problem::Operand a = operand_of(left), b = operand_of(right), c = operand_of(result);
  const Problem::Pair stride = pair(2), padding = pair(4), dilation = pair(6);
  switch (kind) {
    case Kind::forward:
      return {kind, a, b, c, stride, padding, dilation};
    case Kind::input:
      return {kind, c, b, a, stride, padding, dilation};
    default:
      return {kind, b, c, a, stride, padding, dilation};
  }
}

/// One of cuDNN's descriptors.
class Descriptor {
 public:
  explicit Descriptor(DescriptorKind kind) {
    check("cudnnBackendCreateDescriptor", api()->descriptor_create(kind, &handle_));
  }
  ~Descriptor() {
    if (handle_ != nullptr) api()->descriptor_destroy(handle_);
  }
  Descriptor(Descriptor&& from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  DescriptorHandle get() const { return handle_; }
  template <class T, size_t N>
  void set(Attribute attribute, AttributeType type, const std::array<T, N>& values) {
    check("cudnnBackendSetAttribute", api()->set(handle_, attribute, type, N, values.data()));
  }
  template <class T>
  void set(Attribute attribute, AttributeType type, const T& value) {
    set(attribute, type, std::array{value});
  }
  Status try_finalize() { return api()->finalize(handle_); }
  void finalize() { check("cudnnBackendFinalize", try_finalize()); }

 private:
  DescriptorHandle handle_ = nullptr;
};

enum Identity : int64_t { kX = 1, kWeight = 2, kY = 3 };

Descriptor dense_tensor(const Problem::Operand& operand, Identity identity) {
  const auto& size = operand.size;
  Descriptor tensor(kTensor);
  tensor.set(kTensorType, kDataTypes, kFloat32);
  tensor.set(kTensorDimensions, kIntegers, size);
  tensor.set(kTensorStrides, kIntegers,
             std::array<int64_t, 4>{size[1] * size[2] * size[3], size[2] * size[3], size[3], 1});
  tensor.set(kTensorIdentity, kIntegers, int64_t{identity});
  tensor.set(kTensorAlignment, kIntegers, operand.alignment);
  tensor.finalize();
  return tensor;
}

/// The graph of one operation.
class Graph {
 public:
  Graph(Handle handle, const Problem& problem)
      : x_(dense_tensor(problem.x, kX)),
        weight_(dense_tensor(problem.weight, kWeight)),
        y_(dense_tensor(problem.y, kY)),
        operation_(problem.kind == Kind::forward ? kForward
                   : problem.kind == Kind::input ? kBackwardInput
                                                 : kBackwardWeight) {
    how_.set(kComputeType, kDataTypes, kFloat32);
    how_.set(kMode, kModes, kCrossCorrelation);
    how_.set(kSpatialDimensions, kIntegers, int64_t{2});
    how_.set(kDilations, kIntegers, problem.dilation);
    how_.set(kStrides, kIntegers, problem.stride);
    how_.set(kPaddingBefore, kIntegers, problem.padding);
    how_.set(kPaddingBehind, kIntegers, problem.padding);
    how_.finalize();
    switch (problem.kind) {
      case Kind::forward:
        set_operation(kForwardAlpha, kForwardX, kForwardWeight, kForwardY);
        break;
      case Kind::input:
        set_operation(kInputAlpha, kInputDx, kInputWeight, kInputDy);
        break;
      case Kind::weight:
        set_operation(kWeightAlpha, kWeightX, kWeightDw, kWeightDy);
        break;
    }
    graph_.set(kGraphHandle, kHandles, handle);
    graph_.set(kGraphOperations, kDescriptors, operation_.get());
    graph_.finalize();
  }
  DescriptorHandle get() const { return graph_.get(); }

 private:
  void set_operation(Attribute alpha, Attribute x, Attribute weight, Attribute y) {
    const auto beta = static_cast<Attribute>(alpha + 1), how = static_cast<Attribute>(alpha + 2);
    operation_.set(alpha, kFloats, 1.0F);
    operation_.set(beta, kFloats, 0.0F);
    operation_.set(how, kDescriptors, how_.get());
    operation_.set(x, kDescriptors, x_.get());
    operation_.set(weight, kDescriptors, weight_.get());
    operation_.set(y, kDescriptors, y_.get());
    operation_.finalize();
  }

  Descriptor x_, weight_, y_, how_{kConvolution}, operation_, graph_{kGraph};
};

/// Whether an engine keeps factors and sums as they are, and adds in the same order every time.
bool is_exact(const Descriptor& configuration) {
  const Descriptor engine(kEngine);
  DescriptorHandle found = engine.get();
  int64_t count = 0;
  check("cudnnBackendGetAttribute",
        api()->get(configuration.get(), kEngineOfConfiguration, kDescriptors, 1, &count, &found));
  std::array<int, kNoteKinds> notes{};
  check("cudnnBackendGetAttribute", api()->get(engine.get(), kEngineNotes, kNotes, kNoteKinds, &count, notes.data()));
  return std::none_of(notes.begin(), notes.begin() + std::min<int64_t>(count, kNoteKinds), [](int note) {
    return note == kTensorCores || note == kRoundsInputs || note == kRoundsSums || note == kAnyOrder;
  });
}

/// An execution plan, and what it needs to run.
struct Plan {
  Descriptor plan;
  int64_t workspace_bytes = 0;
};

/// By the first engine that a heuristic names and that can do it.
std::optional<Plan> plan_by(Handle handle, const Graph& graph, int mode) {
  constexpr size_t kMostConfigurations = 32;
  Descriptor heuristic(kHeuristic);
  heuristic.set(kHeuristicGraph, kDescriptors, graph.get());
  heuristic.set(kHeuristicMode, kHeuristicModes, mode);
  if (heuristic.try_finalize() != kSuccess) return {};
  std::vector<Descriptor> configurations;
  std::array<DescriptorHandle, kMostConfigurations> handles{};
  for (DescriptorHandle& one : handles) one = configurations.emplace_back(kEngineConfiguration).get();
  int64_t count = 0;
  if (api()->get(heuristic.get(), kHeuristicResults, kDescriptors, kMostConfigurations, &count, handles.data()) !=
      kSuccess) {
    return {};
  }
  for (const Descriptor& configuration : std::span(configurations).first(static_cast<size_t>(count))) {
    if (!is_exact(configuration)) continue;
    Plan plan{Descriptor(kPlan)};
    plan.plan.set(kPlanHandle, kHandles, handle);
    plan.plan.set(kPlanConfiguration, kDescriptors, configuration.get());
    if (plan.plan.try_finalize() != kSuccess) continue;
    check("cudnnBackendGetAttribute",
          api()->get(plan.plan.get(), kPlanWorkspace, kIntegers, 1, &count, &plan.workspace_bytes));
    if (plan.workspace_bytes <= kMostWorkspaceBytes) return plan;
  }
  return {};
}

std::optional<Plan> plan_of(Handle handle, const Problem& problem) {
  const Graph graph(handle, problem);
  std::optional<Plan> plan = plan_by(handle, graph, kByModel);
  return plan ? std::move(plan) : plan_by(handle, graph, kFallback);
}

/// A device's handle, which one thread may use at a time, and its plans; kept to the end of the process.
struct Library {
  std::mutex mutex;
  Handle handle = nullptr;
  std::map<Problem, std::optional<Plan>> plans;

  static Library& of(int device) {
    static std::mutex mutex;
    static auto* const all = new std::map<int, Library>;  // cuDNN may be gone before static objects are
    const std::lock_guard lock(mutex);
    return (*all)[device];
  }
  const std::optional<Plan>& plan_for(const Problem& problem) {
    const auto found = plans.find(problem);
    if (found != plans.end()) return found->second;
    if (plans.size() >= kMostPlans) plans.clear();
    return plans.try_emplace(problem, plan_of(handle, problem)).first->second;
  }
};

template <Kind kind>
bool run(const VendorCall& call) {
  const Tensor& result = call.outputs[0];
  const int64_t most = std::max({call.inputs[0].numel(), call.inputs[1].numel(), result.numel()});
  if (api() == nullptr || result.dtype() != DType::f32 || most > INT32_MAX) return false;
  const Tensor left = call.inputs[0].contiguous(), right = call.inputs[1].contiguous();
  StreamState& stream = current_stream(result.device());
  const cuda::ContextScope scope(static_cast<cuda::Context>(stream.native_context()));
  Library& library = Library::of(stream.device().index);
  const std::lock_guard lock(library.mutex);
  if (library.handle == nullptr && cuda::call(api()->create, &library.handle) != kSuccess) {
    library.handle = nullptr;
    log_once("cuDNN can't be used on " + stream.device().str() + ": no handle");
    return false;
  }
  const std::optional<Plan>& plan = library.plan_for(problem_of(kind, left, right, result, call.scalars));
  if (!plan) return false;
  // Given back at once: the next user of the block comes later on the same stream.
  const Tensor workspace =
      plan->workspace_bytes > 0 ? Tensor::empty({plan->workspace_bytes}, DType::u8, result.device()) : Tensor();
  for (const Tensor* x : {&left, &right}) x->storage()->prepare_read(stream);
  result.storage()->prepare_write(stream);
  const void *first = address_of(left), *second = address_of(right), *third = address_of(result);
  const std::array<const void*, 3> pointers = kind == Kind::forward ? std::array{first, second, third}
                                              : kind == Kind::input ? std::array{third, second, first}
                                                                    : std::array{second, third, first};
  Descriptor pack(kPack);
  pack.set(kPackIdentities, kIntegers, std::array<int64_t, 3>{kX, kWeight, kY});
  pack.set(kPackPointers, kPointers, pointers);
  pack.set(kPackWorkspace, kPointers, static_cast<const void*>(workspace.defined() ? address_of(workspace) : nullptr));
  pack.finalize();
  check("cudnnSetStream", api()->set_stream(library.handle, static_cast<cuda::Queue>(stream.native_queue())));
  check("cudnnBackendExecute", cuda::call(api()->execute, library.handle, plan->plan.get(), pack.get()));
  stream.count_launch();
  return true;
}

/// By 2309 that were drawn at random and timed both ways on an H200: the geometric mean of what is chosen is 1.03 of
/// the quicker one's time. Groups are ours, depthwise ones by kernels of their own; so are gradients for which cuDNN
/// has nothing deterministic that is quick.
template <Kind kind>
bool preferred(const VendorCall& call) {
  if (call.scalars[8].integer != 1 || api() == nullptr) return false;
  const Problem problem = problem_of(kind, call.inputs[0], call.inputs[1], call.outputs[0], call.scalars);
  const auto& [images, of_y, height, width] = problem.y.size;
  const auto& x = problem.x.size;
  const int64_t of_x = x[1], taps = problem.weight.size[2] * problem.weight.size[3];
  const int64_t places = images * height * width, results = places * of_y;
  const int64_t work = results * of_x * taps;  // multiplications
  const bool has_steps = problem.stride[0] > 1 || problem.stride[1] > 1, is_one_tap = taps == 1;
  const auto million = [](int64_t n) { return n * 1'000'000; };
  switch (kind) {
    case Kind::forward:
      if (is_one_tap) return std::min(of_x, of_y) >= 28 || (places < 12'000 && results < million(1));
      return of_x * taps > 48 || work < million(500);  // ours is quick at much work of few terms to a result
    case Kind::input:
      if (has_steps) return false;
      if (is_one_tap) return std::max(results, images * of_x * x[2] * x[3]) < million(8);
      if (of_y < 20) return places < 25'000;
      return work >= million(34'000) || (of_x >= 2 * of_y && work < million(1'000));
    default:
      if (is_one_tap) return false;
      if (!has_steps) return std::min(of_x, of_y) >= 31 || places < 512;
      return of_x * of_y >= 42'000 || (places < 1'400 && results < 190'000);
  }
}

}  // namespace
}  // namespace detail::cudnn

const VendorRoutine vendor::cudnn_convolution{"cudnn_convolution", DeviceKind::cuda,
                                              detail::cudnn::preferred<detail::cudnn::Kind::forward>,
                                              detail::cudnn::run<detail::cudnn::Kind::forward>};
const VendorRoutine vendor::cudnn_convolution_input{"cudnn_convolution_input", DeviceKind::cuda,
                                                    detail::cudnn::preferred<detail::cudnn::Kind::input>,
                                                    detail::cudnn::run<detail::cudnn::Kind::input>};
const VendorRoutine vendor::cudnn_convolution_weight{"cudnn_convolution_weight", DeviceKind::cuda,
                                                     detail::cudnn::preferred<detail::cudnn::Kind::weight>,
                                                     detail::cudnn::run<detail::cudnn::Kind::weight>};

}  // namespace ashlar
