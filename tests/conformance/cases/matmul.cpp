// c[…, m, n] = activation(Σ_k a[…, m, k] · b[…, k, n] + bias[n])
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "runtime/vendor/vendor.h"
#include "tests/conformance/cases/by_plan.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/draw.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

// Each factor is rounded to 10 bits of fraction: a relative error of at most 2^-11, twice.
constexpr double kTf32Bound = 0x1p-10;

struct Fused {
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;  // a third input
  Activation activation = Activation::none;
  bool allow_tf32 = false;
};

Case any_product(const Case& like, Random& random);

// A vendor's library rounds sums of 16 bits before a kernel of ours adds the bias and activates them.
void allow_for_rounded_sums(Expected& y, DType dtype) {
  const bool is_short = dtype == DType::f16 || dtype == DType::bf16;
  if (!is_short || vendor_policy() != VendorPolicy::always) return;
  for (double& magnitude : y.magnitudes) magnitude *= 1 + ulp(1, dtype) / terms().bound;
}

Case example(std::string name, Input a, Input b, Fused fused = {}, Values bias_values = {}) {
  std::vector<Input> inputs{std::move(a), std::move(b)};
  if (fused.bias) {
    const Shape& shape = inputs[1].shape;
    inputs.push_back({.shape = {shape[shape.rank() - (fused.transpose_b ? 2 : 1)]}, .values = bias_values});
  }
  return {.kernel = "matmul",
          .name = std::move(name),
          .inputs = std::move(inputs),
          .call =
              [fused](Tensors x) {
                MatmulOptions options{.transpose_a = fused.transpose_a, .transpose_b = fused.transpose_b};
                options.allow_tf32 = fused.allow_tf32;
                options.activation = fused.activation;
                return std::vector{matmul(x[0], x[1], options, fused.bias ? x[2] : Tensor())};
              },
          .reference =
              [fused](HostTensors x) {
                Expected y = contracted(x[0], x[1], fused.transpose_a, fused.transpose_b, fused.bias ? &x[2] : nullptr,
                                        fused.activation);
                if (fused.bias || fused.activation != Activation::none) allow_for_rounded_sums(y, x[0].dtype);
                return std::vector{std::move(y)};
              },
          .tolerance = fused.allow_tf32 ? terms(kTf32Bound) : terms(),
          .vary = any_product};
}

Case plain(int64_t m, int64_t k, int64_t n) {
  return example(std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n), {.shape = {m, k}},
                 {.shape = {k, n}});
}

Case differentiable_example(std::string name, Shape a, Shape b, Fused fused = {}) {
  Case item = example(std::move(name), {.shape = a}, {.shape = b}, fused);
  item.differentiable = [fused](Vars x) {
    return ad::matmul(x[0], x[1], {.transpose_a = fused.transpose_a, .transpose_b = fused.transpose_b});
  };
  item.differentiated = {0, 1};
  return item;
}

// The fully connected layer: x · weightᵀ + bias, one kernel forward.
Case linear_example(std::string name, Shape x, Shape weight, Activation activation) {
  Case item = example(std::move(name), {.shape = x}, {.shape = weight},
                      {.transpose_b = true, .bias = true, .activation = activation});
  item.differentiable = [activation](Vars v) {
    return ad::matmul(v[0], v[1], {.transpose_b = true, .activation = activation}, v[2]);
  };
  item.differentiated = {0, 1, 2};
  return item;
}

// Vectors, matrices and batches that broadcast, either way round, with any epilogue.
Case any_product(const Case& like, Random& random) {
  constexpr int64_t m = 2, k = 3, n = 4;  // symbols, as the batch's axes from 5 on
  Fused fused{.transpose_a = random.chance(0.5), .transpose_b = random.chance(0.5), .bias = random.chance(0.4)};
  fused.activation = random.pick({Activation::none, Activation::none, Activation::relu, Activation::gelu});
  fused.allow_tf32 = !like.differentiable && random.chance(0.05);
  Input a = like.inputs[0], b = like.inputs[1];
  a.shape = b.shape = {};
  const int64_t batch = random.pick<int64_t>({0, 0, 0, 1, 1, 2, 3});
  const int64_t without_a = random.chance(0.6) ? 0 : random.between(0, batch);
  const int64_t without_b = random.chance(0.6) ? 0 : random.between(0, batch);
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t stretched = random.below(5);  // 0: in a, 1: in b
    if (i >= without_a) a.shape.push_back(stretched == 0 ? 1 : 5 + i);
    if (i >= without_b) b.shape.push_back(stretched == 1 ? 1 : 5 + i);
  }
  if (a.shape.empty() && random.chance(0.1)) {
    a.shape = {k};
  } else {
    a.shape.push_back(fused.transpose_a ? k : m);
    a.shape.push_back(fused.transpose_a ? m : k);
  }
  if (b.shape.empty() && random.chance(0.1)) {
    b.shape = {k};
    fused.bias = false;
  } else {
    b.shape.push_back(fused.transpose_b ? n : k);
    b.shape.push_back(fused.transpose_b ? k : n);
  }
  constexpr const char* kActivations[] = {"", " relu", " gelu"};
  const std::string name = std::string(fused.transpose_a ? "t" : "n") + (fused.transpose_b ? "t" : "n") +
                           (fused.bias ? " bias" : "") + kActivations[static_cast<size_t>(fused.activation)] +
                           (fused.allow_tf32 ? " tf32" : "");
  Case item = example(name, a, b, fused, like.inputs.size() > 2 ? like.inputs[2].values : Values{});
  if (fused.allow_tf32) item.dtypes = {DType::f32};
  if (!like.differentiable) return item;
  item.differentiable = [fused](Vars v) {
    const MatmulOptions options{
        .transpose_a = fused.transpose_a, .transpose_b = fused.transpose_b, .activation = fused.activation};
    return fused.bias ? ad::matmul(v[0], v[1], options, v[2]) : ad::matmul(v[0], v[1], options);
  };
  item.differentiated = {0, 1};
  if (fused.bias) item.differentiated.push_back(2);
  // Where gelu' is near 0, what rounding its argument to 16 bits changes is larger than gelu' itself.
  if (fused.activation == Activation::gelu) item.gradient_dtypes = {DType::f32};
  return item;
}

void add_shapes() {
  for (const auto& [m, k, n] :
       {std::tuple{1, 1, 1}, {2, 3, 4},       {1, 129, 65},   {65, 129, 1},  {5, 1, 7},     {16, 16, 16},
        {17, 19, 23},        {31, 32, 33},    {63, 64, 65},   {64, 63, 127}, {96, 16, 129}, {127, 33, 64},
        {128, 128, 128},     {129, 127, 130}, {255, 17, 257}, {1, 1025, 3},  {3, 1025, 1},  {256, 256, 256},
        {33, 1000, 10},      {200, 513, 100}, {7, 2049, 9}}) {
    add_case(plain(m, k, n));
  }
  for (const auto& [m, k, n] : {std::tuple{0, 3, 4}, {3, 0, 4}, {3, 4, 0}}) add_case(plain(m, k, n));
  add_case(example("no_terms_but_a_bias", {.shape = {3, 0}}, {.shape = {0, 5}},
                   {.bias = true, .activation = Activation::relu}));
}

struct Sizes {
  int64_t m, k, n;
};

// In the four layouts.
void add_in_layouts(const std::string& prefix, std::initializer_list<Sizes> all, const Values& of_left = {},
                    const Values& of_right = {}) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const auto& [m, k, n] : all) {
        add_case(example(prefix + (a ? "_t" : "_n") + (b ? "t" : "n") + "_" + std::to_string(m) + "x" +
                             std::to_string(k) + "x" + std::to_string(n),
                         {a ? Shape{k, m} : Shape{m, k}, of_left}, {b ? Shape{n, k} : Shape{k, n}, of_right}, {a, b}));
      }
    }
  }
}

void add_layouts() {
  // Rows of whole quads on both sides, on one, and on none, for tiles of any size.
  add_in_layouts("transposes", {{33, 65, 47},
                                {128, 64, 128},
                                {1, 40, 70},
                                {70, 40, 1},
                                {1, 200, 301},
                                {3, 200, 301},
                                {132, 65, 131},
                                {131, 65, 132},
                                {12, 65, 47},
                                {13, 65, 48},
                                {12, 65, 48},
                                {13, 65, 47}});
  for (const auto& [name, layout] : {std::pair{"offset", Layout::offset},
                                     {"transposed", Layout::transposed},
                                     {"stepped", Layout::stepped},
                                     {"flipped", Layout::flipped},
                                     {"broadcast_first", Layout::broadcast_first},
                                     {"broadcast_last", Layout::broadcast_last}}) {
    add_case(example(std::string("left_") + name, {.shape = {33, 40}, .layout = layout}, {.shape = {40, 29}}));
    add_case(example(std::string("right_") + name, {.shape = {33, 40}}, {.shape = {40, 29}, .layout = layout}));
  }
}

struct Epilogue {
  const char* name;
  bool bias;
  Activation activation;
};
constexpr Epilogue kEpilogues[] = {{"plain", false, Activation::none},
                                   {"bias", true, Activation::none},
                                   {"bias_relu", true, Activation::relu},
                                   {"bias_gelu", true, Activation::gelu}};

// Sizes that take each of CUDA's plans (schedules/contraction_cuda.h): results of many tiles and of fewer, lengths of k
// that fill their stages and that don't, in the four layouts.
void add_tilings() {
  add_in_layouts("tiling", {{320, 65, 640}, {16, 513, 72}, {100, 130, 40}});
  add_case(example("row_batch", {.shape = {9, 1, 150}}, {.shape = {9, 150, 140}}));
  add_case(example("tiling_batch", {.shape = {7, 200, 24}}, {.shape = {7, 24, 640}}, {.bias = true}));
  // Each epilogue is compiled apart. The plans for many tiles are f32's alone.
  for (const auto& [epilogue, bias, activation] : kEpilogues) {
    for (const auto& [m, k, n] : {std::tuple{1300, 64, 2600},
                                  {1301, 37, 2603},
                                  {640, 64, 1160},
                                  {641, 41, 1163},
                                  {320, 64, 640},
                                  {320, 65, 640},
                                  {40, 36, 2900},
                                  {1, 200, 301},
                                  {3, 200, 301},
                                  {11, 1064, 72}}) {
      for (const auto& [layouts, a, b] :
           {std::tuple{"nn", false, false}, {"nt", false, true}, {"tn", true, false}, {"tt", true, true}}) {
        Case item = example(std::string("tiling_") + epilogue + "_" + layouts + "_" + std::to_string(m) + "x" +
                                std::to_string(k) + "x" + std::to_string(n),
                            {.shape = a ? Shape{k, m} : Shape{m, k}}, {.shape = b ? Shape{n, k} : Shape{k, n}},
                            {.transpose_a = a, .transpose_b = b, .bias = bias, .activation = activation});
        if (m > 600) item.dtypes = {DType::f32};
        add_case(std::move(item));
      }
    }
  }
  // What the form makes of several kernels: sums of parts, of few results and of many that are no vectors, and copies
  // of operands. They are f32's.
  for (const auto& [epilogue, bias, activation] : kEpilogues) {
    for (const auto& [m, k, n] : {std::tuple{301, 261, 303}, {70, 1031, 66}}) {
      for (const char* plan : {"split_k", "aligned_operands"}) {
        Case item = example(std::string("made_") + epilogue + "_" + std::to_string(m) + "x" + std::to_string(n),
                            {.shape = {m, k}}, {.shape = {n, k}},
                            {.transpose_b = true, .bias = bias, .activation = activation});
        item.dtypes = {DType::f32};
        item.fixed_shapes = true;
        add_case(by_plan(std::move(item), plan));
      }
    }
  }
  Case batch = example("made_batch", {.shape = {3, 37, 65}}, {.shape = {3, 65, 41}}, {});
  batch.dtypes = {DType::f32};
  batch.fixed_shapes = true;
  add_case(by_plan(std::move(batch), "aligned_operands"));
  add_case(example("tiling_bias_relu", {.shape = {640, 48}}, {.shape = {48, 1160}},
                   {.bias = true, .activation = Activation::relu}));
  add_case(example("tiling_bias_gelu", {.shape = {641, 41}}, {.shape = {41, 1163}},
                   {.bias = true, .activation = Activation::gelu}));
}

// A layer of few rows, whose weights lie along k: plans of their own on CUDA, by rows and columns.
void add_layers() {
  for (const auto& [m, k, n] : {std::tuple{1, 256, 1},
                                {1, 1024, 70},
                                {1, 1028, 129},
                                {1, 1026, 40},
                                {2, 300, 33},
                                {8, 260, 37},
                                {8, 4096, 40},
                                {9, 64, 128},
                                {16, 516, 72},
                                {17, 64, 130},
                                {33, 68, 65},
                                {64, 512, 100},
                                {9, 40, 2880},
                                {32, 100, 2881},
                                {31, 64, 2900},
                                {33, 36, 2884},
                                {64, 132, 2881},
                                {65, 64, 96}}) {
    const std::string size = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
    add_case(example("layer_" + size, {.shape = {m, k}}, {.shape = {n, k}},
                     {.transpose_b = true, .bias = true, .activation = Activation::relu}));
    // Each epilogue is compiled apart.
    add_case(example("layer_bias_" + size, {.shape = {m, k}}, {.shape = {n, k}}, {.transpose_b = true, .bias = true}));
  }
  for (const auto& [m, k, n] : {std::tuple{1, 516, 40}, {7, 516, 40}, {20, 516, 40}, {30, 64, 2900}, {60, 64, 2900}}) {
    const std::string size = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
    add_case(example("layer_plain_" + size, {.shape = {m, k}}, {.shape = {n, k}}, {.transpose_b = true}));
    add_case(example("layer_gelu_" + size, {.shape = {m, k}}, {.shape = {n, k}},
                     {.transpose_b = true, .bias = true, .activation = Activation::gelu}));
  }
  add_case(example("layer_batch", {.shape = {3, 5, 260}}, {.shape = {3, 40, 260}}, {.transpose_b = true}));
  add_case(example("layer_offset", {.shape = {4, 320}, .layout = Layout::offset},
                   {.shape = {40, 320}, .layout = Layout::offset}, {.transpose_b = true}));
  const Values special{Pattern::special};
  add_case(example("layer_special_row", {{1, 260}, special}, {{30, 260}, special}, {.transpose_b = true}));
  add_case(example("layer_special", {{6, 260}, special}, {{30, 260}, special}, {.transpose_b = true}));
  add_case(example("layer_special_tile", {{20, 100}, special}, {{30, 100}, special}, {.transpose_b = true}));
}

// Few columns beside an operand that is read once, along k or across it: plans of their own on CUDA.
void add_few_columns() {
  for (const auto& [epilogue, bias, activation] : kEpilogues) {
    for (const auto& [m, k, n] : {std::tuple{131, 70, 3}, {260, 530, 7}}) {
      for (const bool a : {false, true}) {
        for (const bool b : {false, true}) {
          add_case(example(std::string("few_columns_") + epilogue + (a ? "_t" : "_n") + (b ? "t_" : "n_") +
                               std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n),
                           {a ? Shape{k, m} : Shape{m, k}}, {b ? Shape{n, k} : Shape{k, n}},
                           {.transpose_a = a, .transpose_b = b, .bias = bias, .activation = activation}));
        }
      }
    }
  }
}

// Sides shorter than any tile's, many terms, and what whole turns leave of them: threads in one line on CUDA.
void add_short_sides() {
  for (const auto& [batch, m, k, n] :
       {std::tuple{9, 3, 1030, 5}, {40, 37, 3, 6}, {3, 1, 2051, 9}, {2, 260, 67, 2}, {300, 2, 9, 1}}) {
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        Case item = example(std::string("short_") + (a ? "t" : "n") + (b ? "t" : "n") + "_" + std::to_string(batch) +
                                "x" + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n),
                            {.shape = a ? Shape{batch, k, m} : Shape{batch, m, k}},
                            {.shape = b ? Shape{batch, n, k} : Shape{batch, k, n}}, {a, b});
        item.dtypes = {DType::f32};
        add_case(std::move(item));
      }
    }
  }
}

void add_batches() {
  add_case(example("batch", {.shape = {3, 17, 9}}, {.shape = {3, 9, 21}}));
  add_case(example("batch_transposed", {.shape = {3, 9, 17}}, {.shape = {3, 21, 9}}, {true, true}));
  add_case(example("batch_of_left", {.shape = {3, 17, 9}}, {.shape = {9, 21}}));
  add_case(example("batch_of_right", {.shape = {17, 9}}, {.shape = {3, 9, 21}}));
  add_case(example("batch_broadcast", {.shape = {2, 1, 5, 9}}, {.shape = {3, 9, 7}}));
  add_case(example("batch_rank5", {.shape = {2, 1, 2, 5, 9}}, {.shape = {1, 3, 1, 9, 7}}, {.bias = true}));
  add_case(example("batch_of_none", {.shape = {0, 17, 9}}, {.shape = {9, 21}}));
  add_case(example("batch_of_40", {.shape = {40, 8, 6}}, {.shape = {40, 6, 5}}));
  add_case(example("batch_of_70000", {.shape = {70000, 2, 3}}, {.shape = {70000, 3, 2}}));
  add_case(example("vector_matrix", {.shape = {9}}, {.shape = {9, 21}}));
  add_case(example("matrix_vector", {.shape = {17, 9}}, {.shape = {9}}));
  add_case(example("vector_vector", {.shape = {129}}, {.shape = {129}}));
}

void add_epilogues() {
  for (const auto& [m, k, n] : {std::tuple{17, 19, 23}, {1, 40, 129}, {128, 64, 64}, {65, 33, 130}}) {
    const std::string size = std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n);
    add_case(example("bias_" + size, {.shape = {m, k}}, {.shape = {k, n}}, {.bias = true}));
    add_case(example("bias_relu_" + size, {.shape = {m, k}}, {.shape = {k, n}},
                     {.bias = true, .activation = Activation::relu}));
    add_case(example("relu_" + size, {.shape = {m, k}}, {.shape = {k, n}}, {.activation = Activation::relu}));
    add_case(example("bias_gelu_" + size, {.shape = {m, k}}, {.shape = {k, n}},
                     {.bias = true, .activation = Activation::gelu}));
    add_case(example("gelu_" + size, {.shape = {m, k}}, {.shape = {k, n}}, {.activation = Activation::gelu}));
  }
  // Sums of one sign, so that the far tail of GELU isn't hidden behind the rounding of large terms.
  for (const bool along_k : {false, true}) {
    const Values factors{.low = 0.5, .high = 1}, negative{.low = -3, .high = -0.5};
    add_case(example(along_k ? "gelu_tail_nt" : "gelu_tail", {{40, 4}, factors},
                     {along_k ? Shape{65, 4} : Shape{4, 65}, negative},
                     {.transpose_b = along_k, .bias = true, .activation = Activation::gelu}, {.low = -1, .high = 0}));
    add_case(example(along_k ? "gelu_tail_of_many_terms_nt" : "gelu_tail_of_many_terms", {{6, 260}, factors},
                     {along_k ? Shape{40, 260} : Shape{260, 40}, {.low = -0.05, .high = 0}},
                     {.transpose_b = along_k, .bias = true, .activation = Activation::gelu}, {.low = -1, .high = 0}));
  }
  const Values special{Pattern::special};
  add_case(example("special", {{19, 3}, special}, {{3, 70}, special}));
  add_case(example("special_left", {{70, 33}, {Pattern::special}}, {.shape = {33, 40}}));
  add_case(example("special_bias_relu", {{19, 3}, special}, {{3, 70}, special},
                   {.bias = true, .activation = Activation::relu}, special));
  add_case(example("special_bias_relu_24x16x64", {{24, 16}, special}, {{16, 64}, special},
                   {.bias = true, .activation = Activation::relu}, special));
  // Infinities alone: what fills a plan's vectors up must not meet them as a factor of 0, which would make NaN.
  add_in_layouts("infinities", {{1, 10, 3}, {3, 21, 40}, {40, 13, 2}, {17, 65, 33}, {70, 130, 90}}, {Pattern::masked},
                 {.low = 0.5, .high = 1});
  add_case(example("tiny", {{19, 40}, {Pattern::tiny}}, {.shape = {40, 33}}));
  for (const auto& [m, k, n] : {std::tuple{64, 128, 96}, {17, 19, 23}}) {
    Case loose =
        example("tf32_" + std::to_string(m) + "x" + std::to_string(k) + "x" + std::to_string(n), {.shape = {m, k}},
                {.shape = {k, n}}, {.bias = true, .activation = Activation::relu, .allow_tf32 = true});
    loose.dtypes = {DType::f32};
    add_case(loose);
  }
  add_case(example("integers", {{65, 40}, {Pattern::integers, -3, 3}}, {{40, 33}, {Pattern::integers, -3, 3}}));
}

void add_gradients() {
  add_case(differentiable_example("gradient", {5, 4}, {4, 6}));
  add_case(differentiable_example("gradient_tn", {4, 5}, {4, 6}, {true, false}));
  add_case(differentiable_example("gradient_nt", {5, 4}, {6, 4}, {false, true}));
  add_case(differentiable_example("gradient_tt", {4, 5}, {6, 4}, {true, true}));
  add_case(differentiable_example("gradient_batch", {2, 1, 5, 4}, {3, 4, 6}));
  add_case(differentiable_example("gradient_33x65x40", {33, 65}, {65, 40}));
  // A batch that is summed is rounded once, however its matrices cancel.
  Case summed = differentiable_example("gradient_summed_over_batch", {40, 2, 3}, {2, 1, 3, 5});
  summed.gradient_is_rounded_once = true;
  add_case(summed);
  Case same = example("same_operand", {.shape = {33, 33}}, {});
  same.inputs.pop_back();
  same.vary = {};
  same.call = [](Tensors x) { return std::vector{matmul(x[0], x[0], {.transpose_b = true})}; };
  same.reference = [](HostTensors x) {
    return std::vector{contracted(x[0], x[0], false, true, nullptr, Activation::none)};
  };
  add_case(same);
  add_case(linear_example("gradient_linear", {5, 4}, {6, 4}, Activation::none));
  add_case(linear_example("gradient_linear_relu", {5, 4}, {6, 4}, Activation::relu));
  add_case(linear_example("gradient_linear_batch", {2, 3, 4}, {6, 4}, Activation::relu));
  add_case(linear_example("gradient_linear_gelu", {5, 4}, {6, 4}, Activation::gelu));
}

// Few results and many terms: products of parts of k, and their sum (runtime/forms/parts_of_sums.h), which has each
// epilogue and may leave a part that is shorter.
void add_parts() {
  for (const auto& [epilogue, bias, activation] : kEpilogues) {
    for (const auto& [m, k, n] : {std::tuple{20, 8203, 24}, {9, 8448, 33}, {130, 2049, 140}}) {
      const bool left = n == 33, right = bias;
      Case item = example(std::string("parts_") + epilogue + "_" + std::to_string(m) + "x" + std::to_string(k) + "x" +
                              std::to_string(n),
                          {.shape = left ? Shape{k, m} : Shape{m, k}}, {.shape = right ? Shape{n, k} : Shape{k, n}},
                          {.transpose_a = left, .transpose_b = right, .bias = bias, .activation = activation});
      item.dtypes = {DType::f32};
      add_case(std::move(item));
    }
  }
  add_case(example("parts_of_a_view", {.shape = {12, 8300}, .layout = Layout::stepped},
                   {.shape = {8300, 17}, .layout = Layout::offset}));
}

void add_benchmarks() {
  for (const int64_t n : {512, 1024, 2048, 4096}) {
    Case bench = plain(n, n, n);
    bench.benchmark = true;
    bench.reference = [](HostTensors x) { return std::vector{contracted_sample(x[0], x[1], 4096)}; };
    bench.flops = 2.0 * static_cast<double>(n * n * n);
    add_case(bench);
  }
  Case layer = example("linear_256x784x512", {.shape = {256, 784}}, {.shape = {512, 784}},
                       {.transpose_b = true, .bias = true, .activation = Activation::relu});
  layer.benchmark = true;
  layer.flops = 2.0 * 256 * 784 * 512;
  add_case(layer);
}

double finished(std::string_view epilogue, double sum, double bias) {
  if (epilogue == "bias_relu") return std::max(sum + bias, 0.0);
  if (epilogue == "bias_gelu") return 0.5 * (sum + bias) * (1 + std::erf((sum + bias) / std::numbers::sqrt2));
  return epilogue == "none" ? sum : sum + bias;
}
uint16_t variant_of(const KernelInfo& kernel, std::string_view epilogue) {
  const auto& names = kernel.comptimes[0].values;
  return static_cast<uint16_t>(std::ranges::find(names, epilogue) - names.begin());
}

// y[m,n] = activation(Σ_p parts[p,m,n] + bias[n]), as it follows a vendor's product also in place of one part.
Case finish_case(int64_t rows, int64_t columns, const char* epilogue, bool in_place, int64_t parts = 1) {
  const uint16_t variant = variant_of(kernels::matmul_parts_sum, epilogue);
  return {.kernel = "matmul_parts_sum",
          .name = std::to_string(rows) + "x" + std::to_string(columns) + "_" + epilogue +
                  (in_place ? "_in_place" : "") + (parts > 1 ? "_of_" + std::to_string(parts) : ""),
          .inputs = {{.shape = {parts, rows, columns}, .values = {.low = -5, .high = 5}}, {.shape = {columns}}},
          .call =
              [=](Tensors x) {
                const DType dtype = x[0].dtype();
                const Shape shape{x[0].size(1), x[0].size(2)};
                const Tensor y = in_place ? x[0].reshape(shape) : Tensor::empty(shape, dtype, x[0].device());
                launch(kernels::matmul_parts_sum, {.elements = {dtype}, .variant = variant}, std::array{x[0], x[1]}, {},
                       std::array{y});
                return std::vector{in_place ? x[0] : y};
              },
          .reference =
              [=](HostTensors x) {
                const Shape shape{x[0].shape[1], x[0].shape[2]};
                Expected y{in_place ? x[0].shape : shape, {}, {}, x[0].dtype};
                const auto results = static_cast<size_t>(shape.numel());
                for (size_t i = 0; i < results; ++i) {
                  const double bias = x[1].values[i % x[1].values.size()];
                  double sum = 0, size = std::abs(bias);
                  for (size_t at = i; at < x[0].values.size(); at += results) {
                    sum += x[0].values[at];
                    size += std::abs(x[0].values[at]);
                  }
                  y.values.push_back(finished(epilogue, sum, bias));
                  y.magnitudes.push_back(size);
                }
                return std::vector{std::move(y)};
              },
          .tolerance = ulps(8),  // as GELU's own
          .in_place = in_place,
          .fixed_shapes = true,
          .is_drawn = false};
}

// The same, and Σ_k a[m,k] b[k,n]
Case rest_case(const Shape& shape, const char* epilogue, int64_t parts, int64_t rest, Layout of_a, Layout of_b) {
  const int64_t rows = shape[0], columns = shape[1];
  const uint16_t variant = variant_of(kernels::matmul_parts_and_rest, epilogue);
  return {.kernel = "matmul_parts_and_rest",
          .name = shape.str() + "_" + epilogue + "_of_" + std::to_string(parts) + " and " + std::to_string(rest) +
                  (of_a == Layout::dense ? "" : " a transposed") + (of_b == Layout::dense ? "" : " b transposed"),
          .inputs = {{.shape = {parts, rows, columns}},
                     {{rows, rest}, {}, of_a},
                     {{rest, columns}, {}, of_b},
                     {.shape = {columns}}},
          .dtypes = {DType::f32},
          .call =
              [=](Tensors x) {
                const Tensor y = Tensor::empty(shape, DType::f32, x[0].device());
                launch(kernels::matmul_parts_and_rest, {.elements = {DType::f32}, .variant = variant}, x, {},
                       std::array{y});
                return std::vector{y};
              },
          .reference =
              [=](HostTensors x) {
                Expected y{shape, {}, {}, DType::f32};
                for (int64_t i = 0; i < rows * columns; ++i) {
                  const int64_t m = i / columns, n = i % columns;
                  const double bias = x[3].values[n];
                  double sum = 0, size = std::abs(bias);
                  const auto add = [&](double term) {
                    sum += term;
                    size += std::abs(term);
                  };
                  for (int64_t p = 0; p < parts; ++p) add(x[0].values[p * rows * columns + i]);
                  for (int64_t k = 0; k < rest; ++k) add(x[1].values[m * rest + k] * x[2].values[k * columns + n]);
                  y.values.push_back(finished(epilogue, sum, bias));
                  y.magnitudes.push_back(size);
                }
                return std::vector{std::move(y)};
              },
          .tolerance = ulps(8),
          .fixed_shapes = true,
          .is_drawn = false};
}

}  // namespace

void add_matmul_cases() {
  for (const char* epilogue : {"none", "bias", "bias_relu", "bias_gelu"}) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {10, 33}, {64, 256}, {3, 8}, {300, 1031}, {3, 4104}}) {
      for (const bool in_place : {false, true}) add_case(finish_case(rows, columns, epilogue, in_place));
    }
    for (const auto& [rows, columns] : {std::pair{10, 33}, {5, 264}}) {
      add_case(finish_case(rows, columns, epilogue, false, 70));
    }
    add_case(finish_case(300, 1031, epilogue, false, 3));
    // Few results, many of no whole vectors, many of them.
    for (const Shape& shape : {Shape{10, 33}, {300, 1031}, {300, 1032}}) {
      for (const int64_t rest : {1, 7, 32}) {
        add_case(rest_case(shape, epilogue, 3, rest, Layout::dense, Layout::dense));
        add_case(rest_case(shape, epilogue, 3, rest, Layout::transposed, Layout::transposed));
      }
    }
  }
  add_shapes();
  add_layouts();
  add_tilings();
  add_layers();
  add_few_columns();
  add_short_sides();
  add_batches();
  add_epilogues();
  add_gradients();
  add_parts();
  add_benchmarks();
}

}  // namespace ashlar::conformance
