#include "tests/runtime/fake_cudnn.h"

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "runtime/vendor/cudnn.h"

using namespace ashlar::detail::cudnn;

// Opaque to the library under test. What is set is kept as it came; `engine` is of engines and configurations.
namespace ashlar::detail::cudnn {
struct Array {
  std::vector<int64_t> size;
  int64_t identity;
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return ((a * size[1] + b) * size[2] + c) * size[3] + d;
  }
};

struct Convolution {
  Array x, weight, y;
  std::vector<int64_t> stride, padding, dilation;
  int kind;

  bool is_well_formed() const {
    const int64_t groups = weight.size[1] > 0 ? x.size[1] / weight.size[1] : 0;
    bool fits = groups > 0 && x.size[1] == weight.size[1] * groups && weight.size[0] % groups == 0 &&
                y.size[1] == weight.size[0] && y.size[0] == x.size[0];
    for (size_t axis = 0; axis < 2 && fits; axis++) {
      const int64_t reach = dilation[axis] * (weight.size[2 + axis] - 1) + 1;
      fits = y.size[2 + axis] == (x.size[2 + axis] + 2 * padding[axis] - reach) / stride[axis] + 1;
    }
    return fits;
  }
  /// f(place in x, in weight, in y) for each product.
  template <class Function>
  void for_each_term(Function f) const {
    const int64_t of_group = weight.size[0] / (x.size[1] / weight.size[1]);
    for (int64_t n = 0; n < y.size[0]; n++)
      for (int64_t o = 0; o < y.size[1]; o++)
        for (int64_t p = 0; p < y.size[2]; p++)
          for (int64_t q = 0; q < y.size[3]; q++)
            for (int64_t c = 0; c < weight.size[1]; c++)
              for (int64_t i = 0; i < weight.size[2]; i++)
                for (int64_t j = 0; j < weight.size[3]; j++) {
                  const int64_t h = p * stride[0] - padding[0] + i * dilation[0];
                  const int64_t w = q * stride[1] - padding[1] + j * dilation[1];
                  if (h < 0 || h >= x.size[2] || w < 0 || w >= x.size[3]) continue;
                  f(x.at(n, o / of_group * weight.size[1] + c, h, w), weight.at(o, c, i, j), y.at(n, o, p, q));
                }
  }
};

struct DnnHandle {
  cuda::Queue stream = nullptr;
};
struct DnnDescriptor {
  int kind;
  bool is_final = false;
  std::map<int, std::vector<unsigned char>> attributes = {};
  int engine = -1;
  std::shared_ptr<const Convolution> job = nullptr;  ///< a plan's
};
}  // namespace ashlar::detail::cudnn

namespace {

constexpr Status kBadParameter = 2000, kNotSupported = 3000;
constexpr int64_t kWorkspaceBytes = 96;
FakeCudnnLog state{};

/// Engines by their notes and what they need. Those that must not be taken come first.
struct Engine {
  std::vector<int> notes;
  int64_t workspace_bytes;
  bool works;
};
const std::vector<Engine> kEngines{{{kTensorCores}, 0, true},     {{5, kAnyOrder}, 0, true},
                                   {{kRoundsInputs}, 0, true},    {{}, kWorkspaceBytes, false},
                                   {{5}, int64_t{1} << 40, true}, {{5}, kWorkspaceBytes, true}};
constexpr int kRight = 5;

size_t bytes_of(int type) {
  return type == kDataTypes || type == kFloats || type == kModes || type == kHeuristicModes || type == kNotes ? 4 : 8;
}

template <class T>
std::vector<T> values(const DnnDescriptor& descriptor, int attribute) {
  const auto found = descriptor.attributes.find(attribute);
  if (found == descriptor.attributes.end()) return {};
  std::vector<T> all(found->second.size() / sizeof(T));
  std::memcpy(all.data(), found->second.data(), found->second.size());
  return all;
}
template <class T>
T value(const DnnDescriptor& descriptor, int attribute) {
  const std::vector<T> all = values<T>(descriptor, attribute);
  return all.size() == 1 ? all[0] : T{};
}
const DnnDescriptor& descriptor_in(const DnnDescriptor& descriptor, int attribute) {
  return *value<DescriptorHandle>(descriptor, attribute);
}

Array array_of(const DnnDescriptor& tensor) {
  const Array array{values<int64_t>(tensor, kTensorDimensions), value<int64_t>(tensor, kTensorIdentity)};
  const std::vector<int64_t> strides{array.size[1] * array.size[2] * array.size[3], array.size[2] * array.size[3],
                                     array.size[3], 1};
  const bool is_well_formed = tensor.is_final && values<int64_t>(tensor, kTensorStrides) == strides &&
                              value<int>(tensor, kTensorType) == kFloat32 &&
                              value<int64_t>(tensor, kTensorAlignment) >= 4;
  return is_well_formed ? array : Array{{0, 0, 0, 0}, 0};
}

/// What the graph's one operation is.
Convolution convolution_of(const DnnDescriptor& graph) {
  const DnnDescriptor& operation = descriptor_in(graph, kGraphOperations);
  const int kind = operation.kind;
  const int alpha = kind == kForward ? kForwardAlpha : kind == kBackwardInput ? kInputAlpha : kWeightAlpha;
  const int x = kind == kForward ? kForwardX : kind == kBackwardInput ? kInputDx : kWeightX;
  const int weight = kind == kForward ? kForwardWeight : kind == kBackwardInput ? kInputWeight : kWeightDw;
  const int y = kind == kForward ? kForwardY : kind == kBackwardInput ? kInputDy : kWeightDy;
  const DnnDescriptor& how = descriptor_in(operation, alpha + 2);
  const bool is_well_formed =
      graph.is_final && operation.is_final && how.is_final && value<float>(operation, alpha) == 1 &&
      value<float>(operation, alpha + 1) == 0 && value<int>(how, kComputeType) == kFloat32 &&
      value<int>(how, kMode) == kCrossCorrelation && value<int64_t>(how, kSpatialDimensions) == 2 &&
      values<int64_t>(how, kPaddingBefore) == values<int64_t>(how, kPaddingBehind);
  return {array_of(descriptor_in(operation, x)),
          array_of(descriptor_in(operation, weight)),
          array_of(descriptor_in(operation, y)),
          values<int64_t>(how, kStrides),
          values<int64_t>(how, kPaddingBefore),
          values<int64_t>(how, kDilations),
          is_well_formed ? kind : -1};
}

/// The plan's graph stands in the heuristic that its configuration came from.
std::map<const DnnDescriptor*, const DnnDescriptor*> graph_of_configuration;

Status compute(const Convolution& job, const DnnDescriptor& pack) {
  const std::vector<int64_t> identities = values<int64_t>(pack, kPackIdentities);
  const std::vector<void*> pointers = values<void*>(pack, kPackPointers);
  auto* const workspace = value<void*>(pack, kPackWorkspace);
  if (!pack.is_final || !job.is_well_formed() || job.kind < 0 || workspace == nullptr) return kBadParameter;
  const auto memory = [&](const Array& array) {
    float* found = nullptr;
    for (size_t i = 0; i < identities.size(); i++) {
      if (identities[i] == array.identity) found = static_cast<float*>(pointers[i]);
    }
    return found;
  };
  float *x = memory(job.x), *weight = memory(job.weight), *y = memory(job.y);
  const Array& result = job.kind == kForward ? job.y : job.kind == kBackwardInput ? job.x : job.weight;
  std::memset(workspace, 0xff, kWorkspaceBytes);
  std::vector<double> sums(static_cast<size_t>(result.at(result.size[0], 0, 0, 0)));
  job.for_each_term([&](int64_t in_x, int64_t in_weight, int64_t in_y) {
    if (job.kind == kForward) sums[static_cast<size_t>(in_y)] += double{x[in_x]} * weight[in_weight];
    if (job.kind == kBackwardInput) sums[static_cast<size_t>(in_x)] += double{y[in_y]} * weight[in_weight];
    if (job.kind == kBackwardWeight) sums[static_cast<size_t>(in_weight)] += double{y[in_y]} * x[in_x];
  });
  for (size_t k = 0; k < sums.size(); k++) memory(result)[k] = static_cast<float>(sums[k]);
  ++state.convolutions;
  return kSuccess;
}

}  // namespace

extern "C" {

FakeCudnnLog* fake_cudnn_log() { return &state; }

Status cudnnCreate(Handle* handle) {
  static DnnHandle only;
  return *handle = &only, kSuccess;
}
Status cudnnSetStream(Handle handle, ashlar::detail::cuda::Queue stream) { return handle->stream = stream, kSuccess; }

Status cudnnBackendCreateDescriptor(int kind, DescriptorHandle* descriptor) {
  ++state.live_descriptors;
  return *descriptor = new DnnDescriptor{kind}, kSuccess;
}
Status cudnnBackendDestroyDescriptor(DescriptorHandle descriptor) {
  --state.live_descriptors;
  graph_of_configuration.erase(descriptor);
  return delete descriptor, kSuccess;
}
Status cudnnBackendSetAttribute(DescriptorHandle descriptor, int attribute, int type, int64_t count,
                                const void* elements) {
  if (descriptor->is_final) return kBadParameter;
  const auto* bytes = static_cast<const unsigned char*>(elements);
  descriptor->attributes[attribute].assign(bytes, bytes + static_cast<size_t>(count) * bytes_of(type));
  return kSuccess;
}
Status cudnnBackendFinalize(DescriptorHandle descriptor) {
  if (descriptor->kind == kPlan) {
    const DnnDescriptor& configuration = descriptor_in(*descriptor, kPlanConfiguration);
    if (value<Handle>(*descriptor, kPlanHandle) == nullptr) return kBadParameter;
    descriptor->engine = configuration.engine;
    if (!kEngines[static_cast<size_t>(configuration.engine)].works) return kNotSupported;
    // As the library's, a plan needs neither configuration nor graph any more.
    descriptor->job = std::make_shared<Convolution>(convolution_of(*graph_of_configuration.at(&configuration)));
  }
  return descriptor->is_final = true, kSuccess;
}
Status cudnnBackendGetAttribute(DescriptorHandle descriptor, int attribute, int type, int64_t room, int64_t* count,
                                void* elements) {
  *count = 0;
  if (attribute == kHeuristicResults && type == kDescriptors && descriptor->is_final) {
    ++state.choices;
    auto* results = static_cast<DescriptorHandle*>(elements);
    for (size_t i = 0; i < kEngines.size() && !state.refuses && *count < room; i++, ++*count) {
      results[i]->engine = static_cast<int>(i);
      graph_of_configuration[results[i]] = &descriptor_in(*descriptor, kHeuristicGraph);
    }
    return kSuccess;
  }
  if (attribute == kEngineOfConfiguration && type == kDescriptors && room == 1) {
    (*static_cast<DescriptorHandle*>(elements))->engine = descriptor->engine;
    return *count = 1, kSuccess;
  }
  if (attribute == kEngineNotes && type == kNotes) {
    for (const int note : kEngines[static_cast<size_t>(descriptor->engine)].notes) {
      static_cast<int*>(elements)[(*count)++] = note;
    }
    return kSuccess;
  }
  if (attribute == kPlanWorkspace && type == kIntegers && descriptor->is_final) {
    *static_cast<int64_t*>(elements) = kEngines[static_cast<size_t>(descriptor->engine)].workspace_bytes;
    return *count = 1, kSuccess;
  }
  return kBadParameter;
}
Status cudnnBackendExecute(Handle handle, DescriptorHandle plan, DescriptorHandle pack) {
  if (handle->stream == nullptr || !plan->is_final || plan->engine != kRight) return kBadParameter;
  return compute(*plan->job, *pack);
}

}  // extern "C"
