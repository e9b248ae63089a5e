#include "tests/faults/jobs.h"

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/autograd.h"
#include "nn/loss.h"
#include "nn/modules/linear.h"
#include "nn/optim/adam.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "tests/faults/host_memory.h"

namespace ashlar::testing {
namespace {

/// Values that no sum of which is exact by chance. Made outside of what can fail.
template <int kCount>
std::span<const float> values() {
  static const std::vector<float>& made = []() -> std::vector<float>& {
    const DriverMemory mine;
    auto& all = *new std::vector<float>(kCount);
    for (size_t i = 0; i < all.size(); ++i) all[i] = 0.001f * static_cast<float>(i * 37 % 2003) - 1.0f;
    return all;
  }();
  return made;
}

/// Two streams, a tensor that both use, a store at an offset at which no device stores in place.
std::vector<float> copies(Device device) {
  const Tensor x = Tensor::from(values<3000>(), {3000}, device), y = relu(x);
  const Stream other(device);
  const StreamScope scope(other);
  const Tensor target = Tensor::full({4000}, -1, DType::f32, device);
  target.slice(0, 77, 3077).copy_(y);
  target.slice(0, 1, 50, 2).copy_(y.slice(0, 5, 30).flip(0));
  Stream::current(device).synchronize();
  return target.to_vector<float>();
}

std::vector<float> two_pass_reduction(Device device) {
  const Tensor x = Tensor::from(values<140000>(), {140000}, device);
  return mul(sum(x), argmax(x).to(DType::f32)).to_vector<float>();
}

std::vector<float> softmax_of_columns(Device device) {
  const Tensor x = Tensor::from(values<3000>(), {50, 60}, device);
  return softmax(x, 0).to_vector<float>();
}

/// Both factors stepped, so copied first; with packed tiles on the CPU; a bias of zeros for the activation.
std::vector<float> product_with_scratch(Device device) {
  const Tensor x = Tensor::from(values<40000>(), {200, 200}, device);
  const Tensor a = x.slice(1, 0, 200, 2), b = x.slice(0, 0, 200, 2).slice(1, 0, 192, 2);
  return matmul(a, b, {.activation = Activation::relu}).to_vector<float>();
}

/// A small network on a device.
struct Network {
  explicit Network(Device device) : first(20, 30, random), second(30, 4, random) {
    first.to(device);
    second.to(device);
  }
  Var loss(const Tensor& x, const Tensor& labels) const {
    return nn::cross_entropy(second.forward(first.forward(x, Activation::relu), Activation::none), labels);
  }
  Random random{7};
  nn::Linear first, second;
};

Tensor labels_of(int64_t count, Device device) { return Tensor::full({count}, 2, DType::i64, device); }

std::vector<float> backward_of_a_network(Device device) {
  const Network network(device);
  const Tensor x = Tensor::from(values<1000>(), {50, 20}, device);
  backward(network.loss(x, labels_of(50, device)));
  const std::vector<Var> parameters = network.first.parameters();
  return sum(parameters[0].grad(), {1}).to_vector<float>();
}

std::vector<float> optimiser_steps(Device device) {
  const Network network(device);
  nn::Adam adam(network.first.parameters());
  const Tensor x = Tensor::from(values<1000>(), {50, 20}, device);
  for (int i = 0; i < 2; ++i) {
    adam.zero_grad();
    backward(network.loss(x, labels_of(50, device)));
    adam.step();
  }
  const std::vector<Var> parameters = network.first.parameters();
  return parameters[1].value().to_vector<float>();
}

std::vector<float> capture_and_replay(Device device) {
  const Tensor x = Tensor::from(values<3000>(), {3000}, device), total = Tensor::zeros({}, DType::f32, device);
  struct {
    const Tensor &x, &total;
    Tensor scaled;
  } used{x, total, {}};
  const Graph graph = capture(device, [&used] {
    used.scaled = affine(relu(used.x), 2.0, 1.0);
    used.total.copy_(add(used.total, sum(used.scaled)));
  });
  graph.replay();
  x.fill_(0.25);
  const Stream other(device);
  const StreamScope scope(other);
  graph.replay();
  return add(used.scaled, total).to_vector<float>();
}

constexpr Job kJobs[] = {
    {"copies", copies},
    {"two_pass_reduction", two_pass_reduction},
    {"softmax", softmax_of_columns},
    {"matmul_with_scratch", product_with_scratch},
    {"backward", backward_of_a_network},
    {"optimiser_step", optimiser_steps},
    {"capture_and_replay", capture_and_replay},
};

}  // namespace

std::span<const Job> jobs() { return kJobs; }

}  // namespace ashlar::testing
