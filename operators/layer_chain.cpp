// Small layers one after the other: in one launch on a GPU, else each as a product (generators/layer_chain.cpp).
#include "ashlar/ops/layer_chain.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ashlar/ops/matmul.h"
#include "operators/composed/layer_chain.h"
#include "runtime/forms/check.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar {
namespace {

struct Layer {
  Tensor weight, bias;
};

Tensor layer_by_layer(Tensor x, std::span<const Layer> layers, ChainActivation f, bool activate_last) {
  for (const Layer& layer : layers) {
    const bool is_activated = activate_last || &layer != &layers.back();
    MatmulOptions options{.transpose_b = true};
    const bool is_fused = f == ChainActivation::relu || f == ChainActivation::gelu;
    if (is_activated && is_fused) options.activation = f == ChainActivation::relu ? Activation::relu : Activation::gelu;
    x = matmul(x, layer.weight, options, layer.bias);
    if (is_activated && !is_fused) x = composed::activated(f, x);
  }
  return x;
}

Tensor in_one_launch(const Tensor& x, std::span<const Layer> layers, ChainActivation f, bool activate_last) {
  const Tensor rows = x.contiguous();
  const Tensor y = Tensor::empty({rows.size(0), layers.back().weight.size(0)}, DType::f32, x.device());
  std::vector<Tensor> inputs{rows};
  for (const Layer& layer : layers) inputs.insert(inputs.end(), {layer.weight, layer.bias.contiguous()});
  const std::array<Scalar, 2> scalars{static_cast<int64_t>(f), int64_t{activate_last}};
  const KernelInfo& kernel = layers.size() == 2 ? kernels::two_layers : kernels::three_layers;
  launch(kernel, KernelKey{.elements = {DType::f32}}, inputs, scalars, std::span(&y, 1));
  return y;
}

/// Where starting a kernel takes long. Of 90 chains drawn at random on an H200 it is right for OpenCL at 0.96 of the
/// better way's speed (a layer at a time: 0.83; in one 1.1 to 2.4 times as quick at 38). On CUDA products are quicker
/// at nearly all: a few blocks wait for each of their loads.
bool is_quicker_in_one(DeviceKind kind, int64_t rows, int64_t weights_of_block) {
  constexpr int64_t kMostRows = 512, kMostWeights = 10'000;
  return kind == DeviceKind::opencl && rows <= kMostRows && weights_of_block <= kMostWeights;
}

/// Throws ShapeError unless each layer takes what the one before gives.
void check_layers(const Tensor& x, std::span<const Layer> layers) {
  int64_t units = x.rank() == 0 ? -1 : x.size(x.rank() - 1);
  for (size_t i = 0; i < layers.size(); i++) {
    const auto& [weight, bias] = layers[i];
    const std::string number = std::to_string(i + 1);
    if (weight.rank() != 2 || weight.size(1) != units) {
      throw ShapeError("layer_chain",
                       "weight" + number + ": " + weight.str() + " behind " + std::to_string(units) + " units",
                       "weight" + number + " of shape [outputs, " + std::to_string(std::max<int64_t>(units, 1)) + "]",
                       "Give weights as torch.nn.Linear has them, and x of rank 1 or more");
    }
    units = weight.size(0);
    if (bias.shape() != Shape{units}) {
      throw ShapeError("layer_chain", "bias" + number + ": " + bias.str(),
                       "bias" + number + " of shape [" + std::to_string(units) + "]", "Give zeros where there is none");
    }
  }
}

}  // namespace

Tensor layer_chain(const Tensor& x, const Tensor& weight1, const Tensor& bias1, const Tensor& weight2,
                   const Tensor& bias2, const Tensor& weight3, const Tensor& bias3, LayerChainActivation activation,
                   bool activate_last) try {
  std::vector<Tensor> inputs{x, weight1, bias1, weight2, bias2};
  std::vector<Layer> layers{{weight1, bias1}, {weight2, bias2}};
  if (weight3.defined() || bias3.defined()) {
    inputs.insert(inputs.end(), {weight3, bias3});
    layers.push_back({weight3, bias3});
  }
  forms::key_of(kernels::layer_chain, inputs, 0, 2);
  check_layers(x, layers);
  // All in f32, so that nothing between two layers is rounded to 16 bits.
  for (Layer& layer : layers) layer = {layer.weight.to(DType::f32), layer.bias.to(DType::f32)};
  const auto f = static_cast<ChainActivation>(activation);
  const int64_t columns = x.size(x.rank() - 1), rows = columns == 0 ? 0 : x.numel() / columns;
  int64_t units = 0, of_block = 0;  // the widest layer between; weights that each block reads
  bool is_empty = rows == 0;
  for (const Layer& layer : layers) {
    const bool is_last = &layer == &layers.back();
    const int64_t outputs = layer.weight.size(0);
    if (!is_last) units = std::max(units, outputs);
    of_block += layer.weight.size(1) * (is_last ? std::min<int64_t>(outputs, kChainColumns) : outputs);
    is_empty = is_empty || layer.weight.numel() == 0;
  }
  const DeviceKind kind = x.device().kind;
  const std::array plans{Plan{.name = "in_one",
                              .applies = kind != DeviceKind::cpu && !is_empty && units <= kMostChainUnits,
                              .preferred = is_quicker_in_one(kind, rows, of_block)},
                         Plan{.name = "each_layer"}};
  const std::array sizes{rows, columns, units, layers.back().weight.size(0)};
  if (choose_plan(kernels::layer_chain, x.device(), plans, sizes) == 1)
    return layer_by_layer(x.to(DType::f32), layers, f, activate_last).to(x.dtype());
  Shape shape = x.shape();
  shape[x.rank() - 1] = sizes[3];
  return in_one_launch(x.to(DType::f32).reshape({rows, columns}), layers, f, activate_last)
      .reshape(shape)
      .to(x.dtype());
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("layer_chain");
}

}  // namespace ashlar
