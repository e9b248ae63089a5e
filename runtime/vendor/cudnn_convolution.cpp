#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/device/stream_state.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/vendor/cudnn.h"
#include "runtime/vendor/vendor.h"

namespace ashlar {
namespace detail::cudnn {
namespace {

constexpr size_t kMostWorkspaceBytes = size_t{256} << 20, kMostPlans = 512;

void check(const char* call, Status status) {
  if (status == kSuccess) return;
  throw DriverError(call, "cudnnStatus_t " + std::to_string(status), "0",
                    "Set ASHLAR_VENDOR=never to use Ashlar's own kernels");
}

enum class Kind : uint8_t { forward, input, weight };

/// A convolution of x [n, c, h, w] and weight [o, c / groups, kh, kw] to y [n, o, p, q], one of which is asked for.
struct Problem {
  Kind kind;
  std::array<int, 4> x, weight, y;
  std::array<int, 2> stride, padding, dilation;
  int groups;
  auto operator<=>(const Problem&) const = default;
};

char* address_of(const Tensor& x) {
  return reinterpret_cast<char*>(x.storage()->handle()) + x.offset() * size_of(x.dtype());
}

std::array<int, 4> sizes_of(const Tensor& x) {
  std::array<int, 4> sizes{};
  for (int axis = 0; axis < 4; axis++) sizes[static_cast<size_t>(axis)] = static_cast<int>(x.size(axis));
  return sizes;
}

Problem problem_of(Kind kind, const VendorCall& call) {
  const auto pair = [&](size_t first) {
    return std::array{static_cast<int>(call.scalars[first].integer), static_cast<int>(call.scalars[first + 1].integer)};
  };
  const auto left = sizes_of(call.inputs[0]), right = sizes_of(call.inputs[1]), result = sizes_of(call.outputs[0]);
  Problem problem{kind, left, right, result, pair(2), pair(4), pair(6), static_cast<int>(call.scalars[8].integer)};
  if (kind == Kind::input) std::swap(problem.x, problem.y);
  if (kind == Kind::weight) problem = {kind, right, result, left, pair(2), pair(4), pair(6), problem.groups};
  return problem;
}

/// cuDNN's objects and its choice of algorithm for one problem.
class Plan {
 public:
  Plan(Handle handle, const Problem& problem) : kind_(problem.kind) {
    const Api& dnn = *api();
    const auto make = [](const char* name, auto create, auto destroy, auto& owner) {
      typename std::remove_reference_t<decltype(owner)>::pointer made = nullptr;
      check(name, create(&made));
      owner = {made, destroy};
    };
    const auto make_tensor = [&](auto& owner, const std::array<int, 4>& size) {
      make("cudnnCreateTensorDescriptor", dnn.tensor_create, dnn.tensor_destroy, owner);
      check("cudnnSetTensor4dDescriptor",
            dnn.tensor_set(owner.get(), kDense, kFloat32, size[0], size[1], size[2], size[3]));
    };
    make_tensor(x_, problem.x);
    make_tensor(y_, problem.y);
    const auto& [o, c, kh, kw] = problem.weight;
    make("cudnnCreateFilterDescriptor", dnn.filter_create, dnn.filter_destroy, weight_);
    check("cudnnSetFilter4dDescriptor", dnn.filter_set(weight_.get(), kFloat32, kDense, o, c, kh, kw));
    make("cudnnCreateConvolutionDescriptor", dnn.convolution_create, dnn.convolution_destroy, how_);
    check("cudnnSetConvolution2dDescriptor",
          dnn.convolution_set(how_.get(), problem.padding[0], problem.padding[1], problem.stride[0], problem.stride[1],
                              problem.dilation[0], problem.dilation[1], kCrossCorrelation, kFloat32));
    check("cudnnSetConvolutionGroupCount", dnn.convolution_set_groups(how_.get(), problem.groups));
    check("cudnnSetConvolutionMathType", dnn.convolution_set_math(how_.get(), kFusedMultiplyAdd));
    choose(handle);
  }

  bool found() const { return found_; }

  void run(Handle handle, const char* left, const char* right, char* result, Device device) const {
    const Api& dnn = *api();
    const float one = 1, zero = 0;
    const void *alpha = &one, *beta = &zero, *a = left, *b = right;
    // Given back at once: the next user of the block comes later on the same stream.
    const size_t bytes = choice_.workspace_bytes;
    const Tensor workspace = bytes > 0 ? Tensor::empty({static_cast<int64_t>(bytes)}, DType::u8, device) : Tensor();
    void *scratch = bytes > 0 ? address_of(workspace) : nullptr, *out = result;
    switch (kind_) {
      case Kind::forward:
        check("cudnnConvolutionForward",
              cuda::call(dnn.forward, handle, alpha, x_.get(), a, weight_.get(), b, how_.get(), choice_.algorithm,
                         scratch, bytes, beta, y_.get(), out));
        break;
      case Kind::input:
        check("cudnnConvolutionBackwardData",
              cuda::call(dnn.input, handle, alpha, weight_.get(), b, y_.get(), a, how_.get(), choice_.algorithm,
                         scratch, bytes, beta, x_.get(), out));
        break;
      case Kind::weight:
        check("cudnnConvolutionBackwardFilter",
              cuda::call(dnn.weight, handle, alpha, x_.get(), b, y_.get(), a, how_.get(), choice_.algorithm, scratch,
                         bytes, beta, weight_.get(), out));
        break;
    }
  }

 private:
  template <class T>
  using Owner = std::unique_ptr<std::remove_pointer_t<T>, Status (*)(T)>;
  template <class T>
  static Owner<T> none() {
    return {nullptr, nullptr};
  }

  /// The first that cuDNN expects to be quick of those that add in the same order every time, by f32 factors.
  void choose(Handle handle) {
    const Api& dnn = *api();
    std::array<Candidate, 8> candidates{};
    const int most = static_cast<int>(candidates.size());
    int count = 0;
    const Status status = kind_ == Kind::forward ? dnn.forward_candidates(handle, x_.get(), weight_.get(), how_.get(),
                                                                          y_.get(), most, &count, candidates.data())
                          : kind_ == Kind::input
                              ? dnn.input_candidates(handle, weight_.get(), y_.get(), how_.get(), x_.get(), most,
                                                     &count, candidates.data())
                              : dnn.weight_candidates(handle, x_.get(), y_.get(), how_.get(), weight_.get(), most,
                                                      &count, candidates.data());
    const auto is_ours = [](const Candidate& one) {
      return one.status == kSuccess && one.determinism == kDeterministic &&
             (one.math == kFusedMultiplyAdd || one.math == kDefaultMath) && one.workspace_bytes <= kMostWorkspaceBytes;
    };
    const auto end = candidates.begin() + (status == kSuccess ? count : 0);
    const auto best = std::find_if(candidates.begin(), end, is_ours);
    found_ = best != end;
    if (found_) choice_ = *best;
  }

  Kind kind_;
  Owner<TensorDescription> x_ = none<TensorDescription>(), y_ = none<TensorDescription>();
  Owner<FilterDescription> weight_ = none<FilterDescription>();
  Owner<ConvolutionDescription> how_ = none<ConvolutionDescription>();
  Candidate choice_{};
  bool found_ = false;
};

/// A device's handle, which one thread may use at a time, and its plans; kept to the end of the process.
struct Library {
  std::mutex mutex;
  Handle handle = nullptr;
  std::map<Problem, Plan> plans;

  static Library& of(int device) {
    static std::mutex mutex;
    static auto* const all = new std::map<int, Library>;  // cuDNN may be gone before static objects are
    const std::lock_guard lock(mutex);
    return (*all)[device];
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
  if (library.plans.size() >= kMostPlans) library.plans.clear();
  const Problem problem = problem_of(kind, call);
  const auto found = library.plans.find(problem);
  const Plan& plan = found != library.plans.end()
                         ? found->second
                         : library.plans.try_emplace(problem, library.handle, problem).first->second;
  if (!plan.found()) return false;
  for (const Tensor* x : {&left, &right}) x->storage()->prepare_read(stream);
  result.storage()->prepare_write(stream);
  check("cudnnSetStream", api()->set_stream(library.handle, static_cast<cuda::Queue>(stream.native_queue())));
  plan.run(library.handle, address_of(left), address_of(right), address_of(result), result.device());
  stream.count_launch();
  return true;
}

bool preferred(const VendorCall& call) { return api() != nullptr && call.scalars[8].integer == 1; }

}  // namespace
}  // namespace detail::cudnn

const VendorRoutine vendor::cudnn_convolution{"cudnn_convolution", DeviceKind::cuda, detail::cudnn::preferred,
                                              detail::cudnn::run<detail::cudnn::Kind::forward>};
const VendorRoutine vendor::cudnn_convolution_input{"cudnn_convolution_input", DeviceKind::cuda,
                                                    detail::cudnn::preferred,
                                                    detail::cudnn::run<detail::cudnn::Kind::input>};
const VendorRoutine vendor::cudnn_convolution_weight{"cudnn_convolution_weight", DeviceKind::cuda,
                                                     detail::cudnn::preferred,
                                                     detail::cudnn::run<detail::cudnn::Kind::weight>};

}  // namespace ashlar
