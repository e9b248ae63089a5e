#include "tests/nn/module_cases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <regex>

#include "ashlar/ad.h"
#include "nn/data/gunzip.h"
#include "nn/modules/activations.h"
#include "nn/modules/bilinear.h"
#include "nn/modules/channel_norm.h"
#include "nn/modules/containers.h"
#include "nn/modules/convolution.h"
#include "nn/modules/dropout.h"
#include "nn/modules/embedding.h"
#include "nn/modules/flatten.h"
#include "nn/modules/images.h"
#include "nn/modules/local_response_norm.h"
#include "nn/modules/losses.h"
#include "nn/modules/module_list.h"
#include "nn/modules/normalization.h"
#include "nn/modules/padding.h"
#include "nn/modules/pooling.h"
#include "nn/modules/residual.h"
#include "nn/modules/rrelu.h"
#include "nn/modules/sequential.h"
#include "nn/modules/similarity.h"
#include "nn/modules/transformer.h"
#include "nn/modules/upsample.h"
#include "nn/safetensors.h"
#include "tests/nn/temporary_folder.h"

namespace ashlar::nn {
namespace {

AttentionMask causal() { return {.is_causal = true}; }

template <class M>
void add_norm(Cases& cases, const std::string& name) {
  const auto make = [] {
    if constexpr (std::constructible_from<M, int64_t, InstanceNormOptions>) {
      return of(M(3, InstanceNormOptions{.affine = true, .track_running_stats = true}));
    } else {
      return of(M(3));
    }
  };
  cases[name] = cases[name + ".eval"] = make;
}

template <class Layer, class Cell, class Options, class CellOptions>
void add_recurrent(Cases& cases, const std::string& name) {
  cases[name] = [] { return of(Layer(3, 4)); };
  cases[name + ".deep"] = [] {
    return of(Layer(3, 4, Options{.num_layers = 2, .batch_first = true, .bidirectional = true}));
  };
  cases[name + ".without_bias"] = [] { return of(Layer(3, 4, Options{.num_layers = 2, .bias = false})); };
  cases[name + "Cell"] = [] { return of(Cell(3, 4)); };
  cases[name + "Cell.without_bias"] = [] { return of(Cell(3, 4, CellOptions{.bias = false})); };
}

void add_linear_and_convolutions(Cases& cases) {
  cases["Linear"] = [] { return of(Linear(5, 3)); };
  cases["Linear.without_bias"] = [] { return of(Linear(5, 3, {.bias = false})); };
  cases["Bilinear"] = [] { return of(Bilinear(3, 4, 2)); };
  cases["Embedding"] = [] { return of(Embedding(7, 3)); };
  cases["Embedding.padding_idx"] = [] { return of(Embedding(7, 3, {.padding_idx = 2})); };
  cases["EmbeddingBag"] =
      cases["EmbeddingBag.weighted"] = [] { return of(EmbeddingBag(7, 3, {.mode = BagMode::sum})); };
  cases["EmbeddingBag.mean"] = [] { return of(EmbeddingBag(7, 3)); };
  cases["EmbeddingBag.max"] = [] { return of(EmbeddingBag(7, 3, {.mode = BagMode::max})); };

  cases["Conv1d"] = [] { return of(Conv1d(4, 6, 3, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2})); };
  cases["Conv1d.circular"] = [] { return of(Conv1d(2, 3, 3, {.padding = 1, .padding_mode = PaddingMode::circular})); };
  cases["Conv2d"] = [] { return of(Conv2d(3, 4, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}})); };
  cases["Conv2d.groups"] = [] {
    return of(Conv2d(4, 6, 3, {.padding = 2, .dilation = 2, .groups = 2, .bias = false}));
  };
  cases["Conv2d.depthwise"] = [] { return of(Conv2d(4, 4, 3, {.padding = 1, .groups = 4})); };
  const auto padded = [](PaddingMode mode) {
    return [mode] { return of(Conv2d(2, 3, 3, {.padding = {1, 2}, .padding_mode = mode})); };
  };
  cases["Conv2d.reflect"] = padded(PaddingMode::reflect);
  cases["Conv2d.replicate"] = padded(PaddingMode::replicate);
  cases["Conv2d.circular"] = padded(PaddingMode::circular);
  cases["Conv3d"] = [] { return of(Conv3d(2, 3, {2, 3, 3}, {.stride = {2, 1, 2}, .padding = {1, 1, 0}})); };
  cases["Conv3d.groups"] = [] { return of(Conv3d(4, 2, 2, {.dilation = 2, .groups = 2, .bias = false})); };
  cases["Conv3d.circular"] = [] {
    return of(Conv3d(2, 2, 3, {.padding = {1, 1, 2}, .padding_mode = PaddingMode::circular}));
  };
  cases["ConvTranspose1d"] = [] {
    return of(ConvTranspose1d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  };
  cases["ConvTranspose2d"] = [] {
    return of(ConvTranspose2d(3, 4, {3, 2}, {.stride = 2, .padding = 1, .output_padding = 1}));
  };
  cases["ConvTranspose2d.groups"] = [] {
    return of(ConvTranspose2d(4, 2, 3, {.groups = 2, .bias = false, .dilation = 2}));
  };
  cases["ConvTranspose3d"] = [] {
    return of(ConvTranspose3d(4, 2, {3, 2, 3}, {.stride = 2, .padding = 1, .output_padding = {1, 0, 1}, .groups = 2}));
  };
}

void add_norms(Cases& cases) {
  cases["LayerNorm"] = [] { return of(LayerNorm({3, 5})); };
  cases["LayerNorm.plain"] = [] { return of(LayerNorm(6, {.eps = 1e-3, .elementwise_affine = false})); };
  cases["RMSNorm"] = [] { return of(RMSNorm(6)); };
  cases["RMSNorm.eps"] = [] { return of(RMSNorm({2, 3}, {.eps = 0.1})); };
  cases["GroupNorm"] = [] { return of(GroupNorm(2, 6)); };
  add_norm<BatchNorm1d>(cases, "BatchNorm1d");
  add_norm<BatchNorm2d>(cases, "BatchNorm2d");
  add_norm<BatchNorm3d>(cases, "BatchNorm3d");
  add_norm<InstanceNorm1d>(cases, "InstanceNorm1d");
  add_norm<InstanceNorm2d>(cases, "InstanceNorm2d");
  add_norm<InstanceNorm3d>(cases, "InstanceNorm3d");
  cases["BatchNorm1d.rows"] = [] { return of(BatchNorm1d(5, {.momentum = std::nullopt})); };
  cases["BatchNorm2d.untracked"] = [] { return of(BatchNorm2d(3, {.track_running_stats = false})); };
  cases["InstanceNorm2d.plain"] = [] { return of(InstanceNorm2d(3)); };
  cases["InstanceNorm"] = [] { return of(InstanceNorm(3, {.affine = true})); };
  cases["LocalResponseNorm"] = [] { return of(LocalResponseNorm(3, 0.3, 0.6, 1.5)); };
  cases["LocalResponseNorm.even"] = [] { return of(LocalResponseNorm(2, 0.5)); };
  cases["LocalResponseNorm.defaults"] = [] { return of(LocalResponseNorm(5)); };
}

void add_sequences(Cases& cases) {
  using Attention = MultiheadAttention;
  cases["MultiheadAttention"] = [] { return of(Attention(4, 2)); };
  cases["MultiheadAttention.itself"] = [] { return of(Attention(4, 2, {.bias = false, .batch_first = true})); };
  cases["MultiheadAttention.widths"] = [] { return of(Attention(4, 2, {.batch_first = true, .kdim = 5, .vdim = 6})); };
  cases["MultiheadAttention.causal"] = [] {
    return of(Attention(4, 2, {.batch_first = true}),
              [](const Attention& m, const Vars& x) { return m(x[0], causal()); });
  };
  // PyTorch returns the weights, too, as their mean over heads.
  cases["MultiheadAttention.masks"] = [] {
    Candidate candidate = of(Attention(4, 2, {.batch_first = true}));
    const auto& m = static_cast<const Attention&>(*candidate.module);
    candidate.call = [&m, keep = candidate.module](const Vars& x) {
      const AttentionMask mask{.attn_mask = x[2], .key_mask = x[3]};
      return Vars{m(x[0], x[1], x[1], mask), ad::mean(m.weights(x[0], x[1], mask), {1})};
    };
    return candidate;
  };
  cases["MultiheadAttention.keys"] = [] {
    return of(Attention(4, 2), [](const Attention& m, const Vars& x) { return m.forward(x[0], {.key_mask = x[1]}); });
  };
  add_recurrent<RNN, RNNCell, RecurrentOptions, RecurrentCellOptions>(cases, "RNN");
  add_recurrent<GRU, GRUCell, RecurrentOptions, RecurrentCellOptions>(cases, "GRU");
  add_recurrent<LSTM, LSTMCell, RecurrentOptions, RecurrentCellOptions>(cases, "LSTM");
  cases["RNN.relu"] = [] { return of(RNN(3, 4, {.bidirectional = true, .nonlinearity = RecurrentActivation::relu})); };
  cases["RNNCell.relu"] = [] { return of(RNNCell(3, 4, {.nonlinearity = RecurrentActivation::relu})); };

  using Options = TransformerLayerOptions;
  constexpr Options post{.dim_feedforward = 6, .dropout = 0},
      pre{.dim_feedforward = 6, .dropout = 0, .norm_first = true};
  constexpr Options modern{.dim_feedforward = 6, .dropout = 0, .gelu = true, .batch_first = true, .norm_first = true};
  cases["TransformerEncoderLayer"] = [=] { return of(TransformerEncoderLayer(4, 2, post)); };
  cases["TransformerEncoderLayer.norm_first"] = [=] {
    return of(TransformerEncoderLayer(4, 2, modern), [](const auto& m, const Vars& x) { return m(x[0], causal()); });
  };
  cases["TransformerDecoderLayer"] = [=] {
    return of(TransformerDecoderLayer(4, 2, post),
              [](const auto& m, const Vars& x) { return m(x[0], x[1], causal()); });
  };
  cases["TransformerDecoderLayer.norm_first"] = [=] { return of(TransformerDecoderLayer(4, 2, modern)); };
  cases["TransformerEncoder"] = [=] { return of(TransformerEncoder(2, 4, 2, post)); };
  cases["TransformerEncoder.norm"] = [=] { return of(TransformerEncoder(2, 4, 2, pre, true)); };
  cases["TransformerDecoder"] = [=] { return of(TransformerDecoder(2, 4, 2, post, true)); };
  cases["Transformer"] = [] {
    const TransformerOptions options{.num_encoder_layers = 1,
                                     .num_decoder_layers = 2,
                                     .layer = {.dim_feedforward = 6, .dropout = 0, .batch_first = true}};
    return of(Transformer(4, 2, options),
              [](const auto& m, const Vars& x) { return m(x[0], x[1], AttentionMask{}, causal()); });
  };
}

template <class... Modules>
void add_plain(Cases& cases) {
  ((cases[class_name(typeid(Modules))] = [] { return of(Modules()); }), ...);
}

void add_activations(Cases& cases) {
  add_plain<ReLU, GELU, GELUTanh, SiLU, Mish, Tanh, Sigmoid, ReLU6, SELU, Hardswish, Hardsigmoid, LogSigmoid, Softsign,
            Tanhshrink, Identity, LeakyReLU, ELU, CELU, Hardshrink, Softshrink, Softplus, Hardtanh, PReLU, GLU,
            LogSoftmax, Softmin, Softmax2d, RReLU>(cases);
  cases["LeakyReLU.slope"] = [] { return of(LeakyReLU(0.3)); };
  cases["ELU.alpha"] = [] { return of(ELU(0.7)); };
  cases["CELU.alpha"] = [] { return of(CELU(0.7)); };
  cases["Softplus.beta"] = [] { return of(Softplus(2, 1)); };
  cases["Hardtanh.range"] = [] { return of(Hardtanh(-0.5, 0.25)); };
  cases["PReLU.channels"] = [] { return of(PReLU(4)); };
  cases["GLU.axis"] = [] { return of(GLU(1)); };
  cases["Softmax"] = [] { return of(Softmax(1)); };
  cases["Softmax2d.unbatched"] = [] { return of(Softmax2d()); };
  cases["Threshold"] = [] { return of(Threshold(0.25, -7)); };
  cases["RReLU.range"] = [] { return of(RReLU(0.2, 0.7)); };
}

void add_windows(Cases& cases) {
  cases["MaxPool1d"] = [] { return of(MaxPool1d(3, 2, 1)); };
  cases["MaxPool2d"] = [] { return of(MaxPool2d({3, 2}, 2, {1, 0}, 1, true)); };
  cases["MaxPool2d.dilated"] = [] { return of(MaxPool2d(2, 1, 0, 2)); };
  cases["MaxPool3d"] = [] { return of(MaxPool3d({2, 3, 2}, {2, 1, 2}, {1, 1, 0})); };
  cases["AvgPool1d"] = [] { return of(AvgPool1d(3, 2, 1)); };
  cases["AvgPool2d"] = [] { return of(AvgPool2d({3, 2}, 2, {1, 0}, false, false)); };
  cases["AvgPool2d.divisor"] = [] { return of(AvgPool2d(2, {}, 0, true, true, 3)); };
  cases["AvgPool3d"] = [] { return of(AvgPool3d({2, 3, 2}, {2, 1, 2}, {1, 1, 0}, false, false)); };
  cases["AdaptiveAvgPool1d"] = [] { return of(AdaptiveAvgPool1d(3)); };
  cases["AdaptiveAvgPool2d"] = [] { return of(AdaptiveAvgPool2d({3, 2})); };
  cases["AdaptiveMaxPool1d"] = [] { return of(AdaptiveMaxPool1d(3)); };
  cases["AdaptiveMaxPool2d"] = [] { return of(AdaptiveMaxPool2d({3, 2})); };
  cases["AdaptiveAvgPool3d"] = [] { return of(AdaptiveAvgPool3d({3, 2, 4})); };
  cases["AdaptiveAvgPool3d.unbatched"] = [] { return of(AdaptiveAvgPool3d(2)); };
  cases["AdaptiveMaxPool3d"] = [] { return of(AdaptiveMaxPool3d({3, 2, 4})); };
  cases["AdaptiveMaxPool3d.unbatched"] = [] { return of(AdaptiveMaxPool3d(2)); };
  cases["LPPool1d"] = [] { return of(LPPool1d(2, 3, 2)); };
  cases["LPPool1d.ceil"] = [] { return of(LPPool1d(4, 3, 2, true)); };
  cases["LPPool1d.odd"] = [] { return of(LPPool1d(3, 2)); };
  cases["LPPool2d"] = [] { return of(LPPool2d(2, {3, 2}, 2)); };
  cases["LPPool2d.ceil"] = [] { return of(LPPool2d(1.5, {2, 3}, {3, 2}, true)); };
  cases["LPPool3d"] = [] { return of(LPPool3d(2, {2, 3, 2}, {2, 1, 2})); };
  cases["LPPool3d.ceil"] = [] { return of(LPPool3d(4, 2, {}, true)); };
  cases["ZeroPad1d"] = [] { return of(ZeroPad1d(Shape{1, 2})); };
  cases["ZeroPad2d"] = [] { return of(ZeroPad2d({1, 2, 0, 3})); };
  cases["ZeroPad3d"] = [] { return of(ZeroPad3d({1, 2, 0, 3, 1, 0})); };
  cases["ConstantPad1d"] = [] { return of(ConstantPad1d({1, 2}, 2)); };
  cases["ConstantPad2d"] = [] { return of(ConstantPad2d({1, 2, 0, 3}, 2)); };
  cases["ConstantPad3d"] = [] { return of(ConstantPad3d({1, 2, 0, 3, 1, 0}, 2)); };
  cases["ReflectionPad1d"] = [] { return of(ReflectionPad1d(2)); };
  cases["ReflectionPad2d"] = [] { return of(ReflectionPad2d(2)); };
  cases["ReflectionPad3d"] = [] { return of(ReflectionPad3d(2)); };
  cases["ReplicationPad1d"] = [] { return of(ReplicationPad1d({1, 2})); };
  cases["ReplicationPad2d"] = [] { return of(ReplicationPad2d({1, 2, 0, 3})); };
  cases["ReplicationPad3d"] = [] { return of(ReplicationPad3d({1, 2, 0, 3, 1, 0})); };
  cases["CircularPad1d"] = [] { return of(CircularPad1d({1, 2})); };
  cases["CircularPad2d"] = [] { return of(CircularPad2d({1, 2, 1, 0})); };
  cases["CircularPad3d"] = [] { return of(CircularPad3d({1, 2, 1, 0, 0, 1})); };
  cases["PixelShuffle"] = [] { return of(PixelShuffle(2)); };
  cases["PixelUnshuffle"] = [] { return of(PixelUnshuffle(2)); };
  cases["ChannelShuffle"] = [] { return of(ChannelShuffle(3)); };
  cases["ChannelShuffle.sequences"] = [] { return of(ChannelShuffle(2)); };
  cases["Unfold"] = [] { return of(Unfold({2, 3}, 2, 1, {2, 1})); };
  cases["Fold"] = [] { return of(Fold({4, 5}, {2, 3}, 1, 1)); };
  cases["Flatten"] = [] { return of(Flatten()); };
  cases["Unflatten"] = [] { return of(Unflatten(1, {2, 3})); };
  const auto upsample = [](const InterpolateOptions& options) { return [=] { return of(Upsample(options)); }; };
  const auto linear = Interpolation::linear;
  cases["Upsample"] = upsample({.scale_factor = {2}});
  cases["Upsample.size"] = upsample({.size = {5, 7}});
  cases["Upsample.less"] = upsample({.scale_factor = {0.6}});
  cases["Upsample.linear"] = upsample({.scale_factor = {2.5}, .mode = linear});
  cases["Upsample.bilinear"] = upsample({.scale_factor = {2, 2}, .mode = linear});
  cases["Upsample.corners"] = upsample({.size = {5, 7}, .mode = linear, .align_corners = true});
  cases["Upsample.trilinear"] = upsample({.size = {4, 3, 5}, .mode = linear});
}

void add_containers(Cases& cases) {
  add_plain<Dropout, Dropout1d, Dropout2d, Dropout3d, AlphaDropout, FeatureAlphaDropout>(cases);
  cases["Sequential"] = [] { return of(Sequential(Linear(5, 4), ReLU(), Linear(4, 3), GELU())); };
  cases["Sequential.images"] = [] {
    return of(Sequential(Conv2d(1, 2, 3), BatchNorm2d(2), ReLU(), MaxPool2d(2), Flatten(), Linear(8, 3)));
  };
  cases["Residual"] = [] { return of(Residual(Sequential(Linear(4, 4), Tanh()))); };
  cases["ModuleList"] = [] {
    ModuleList<Linear> list;
    list.emplace(3, 4);
    list.emplace(4, 3);
    return of(std::move(list), [](const ModuleList<Linear>& m, const Vars& x) { return m[1](m[0](x[0])); });
  };
  cases["ModuleDict"] = [] {
    ModuleDict<Linear> dict;
    dict.emplace("up", 3, 4);
    dict.emplace("down", 4, 3);
    return of(std::move(dict), [](const ModuleDict<Linear>& m, const Vars& x) { return m["down"](m["up"](x[0])); });
  };
  cases["ParameterList"] = [] {
    ParameterList list;
    list.add(Var(Tensor::zeros({3, 4})));
    list.add(Var(Tensor::zeros({4})));
    return of(std::move(list), [](const ParameterList& m, const Vars& x) { return ad::matmul(x[0], m[0]) + m[1]; });
  };
  cases["ParameterDict"] = [] {
    ParameterDict dict;
    dict.add("scale", Var(Tensor::zeros({3})));
    dict.add("bias", Var(Tensor::zeros({2, 1})));
    return of(std::move(dict), [](const ParameterDict& m, const Vars& x) { return x[0] * m["scale"] + m["bias"]; });
  };
}

void add_losses_and_distances(Cases& cases) {
  add_plain<MSELoss, L1Loss, SmoothL1Loss, HuberLoss, BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, NLLLoss,
            TripletMarginLoss, CosineSimilarity, PairwiseDistance>(cases);
  cases["MSELoss.sum"] = [] { return of(MSELoss(Reduction::sum)); };
  cases["SmoothL1Loss.beta"] = [] { return of(SmoothL1Loss(Reduction::none, 0.5)); };
  cases["HuberLoss.delta"] = [] { return of(HuberLoss(Reduction::mean, 0.5)); };
  cases["KLDivLoss"] = [] { return of(KLDivLoss({.batchmean = true})); };
  cases["CrossEntropyLoss.smoothing"] = [] {
    return of(CrossEntropyLoss({.ignore_index = 2, .label_smoothing = 0.1}));
  };
  cases["CrossEntropyLoss.soft"] = [] { return of(CrossEntropyLoss({.reduction = Reduction::sum})); };
  cases["CosineEmbeddingLoss"] = [] { return of(CosineEmbeddingLoss(0.2)); };
  cases["HingeEmbeddingLoss"] = [] { return of(HingeEmbeddingLoss(0.8)); };
  cases["MarginRankingLoss"] = [] { return of(MarginRankingLoss(0.2)); };
  cases["CosineSimilarity.axis"] = [] { return of(CosineSimilarity(-1)); };
  cases["CosineSimilarity.broadcast"] = [] { return of(CosineSimilarity()); };
  cases["CosineSimilarity.zeros"] = [] { return of(CosineSimilarity(1, 0.25)); };
  cases["PairwiseDistance.keepdim"] = [] { return of(PairwiseDistance(1, 1e-6, true)); };
  cases["PairwiseDistance.cubes"] = [] { return of(PairwiseDistance(3, 0.1)); };
  cases["PairwiseDistance.largest"] = [] { return of(PairwiseDistance(INFINITY)); };
}

/// The repository: where it was built, or where a program that was carried to another machine is run.
std::filesystem::path repository() {
  return std::filesystem::exists(ASHLAR_SOURCE_DIR) ? ASHLAR_SOURCE_DIR : std::filesystem::current_path();
}

}  // namespace

const Cases& all_cases() {
  static const Cases all = [] {
    Cases cases;
    add_linear_and_convolutions(cases);
    add_norms(cases);
    add_sequences(cases);
    add_activations(cases);
    add_windows(cases);
    add_containers(cases);
    add_losses_and_distances(cases);
    return cases;
  }();
  return all;
}

const std::map<std::string, Kinds>& torch_cases() {
  static const std::map<std::string, Kinds> all = [] {
    std::map<std::string, Kinds> cases;
    const std::filesystem::path file = repository() / "tests/nn/torch/modules.safetensors.gz";
    const std::vector<uint8_t> packed = testing::read_bytes(file);
    std::vector<uint8_t> bytes;
    GunzipStream(packed, file.string()).read(SIZE_MAX, bytes);
    for (auto& [name, tensor] : parse_safetensors(bytes, file.string()).tensors) {
      const size_t first = name.find('/'), second = name.find('/', first + 1);
      cases[name.substr(0, first)][name.substr(first + 1, second - first - 1)].emplace_back(name.substr(second + 1),
                                                                                            std::move(tensor));
    }
    return cases;
  }();
  return all;
}

const NamedTensors& kind_of(const Kinds& kinds, const std::string& kind) {
  static const NamedTensors none;
  const auto at = kinds.find(kind);
  return at == kinds.end() ? none : at->second;
}

Vars inputs_of(const Kinds& kinds, Device device) {
  Vars inputs;
  for (const auto& [name, tensor] : kind_of(kinds, "input")) {
    EXPECT_EQ(name, std::to_string(inputs.size()));
    inputs.emplace_back(tensor.to(device), is_floating(tensor.dtype()));
  }
  return inputs;
}

bool is_evaluated(const std::string& name) {
  return name.ends_with(".eval") || name.ends_with(".untracked") || name.starts_with("RReLU") ||
         name.find("Dropout") != std::string::npos;
}

Candidate loaded(const std::string& name, Device device) {
  const Candidate candidate = all_cases().at(name)();
  candidate.module->load_state_dict(kind_of(torch_cases().at(name), "state"));
  candidate.module->to(device);
  if (is_evaluated(name)) candidate.module->eval();
  return candidate;
}

std::set<std::string> module_classes() {
  std::set<std::string> classes;
  const std::regex declaration(R"(\nclass (\w+)\s*:\s*public (\w+)<([^>]*)>)");
  for (const auto& entry : std::filesystem::directory_iterator(repository() / "nn/modules")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
      if (!(*it)[3].str().starts_with("Derived")) classes.insert((*it)[1]);  // else what others derive from
    }
  }
  return classes;
}

}  // namespace ashlar::nn
