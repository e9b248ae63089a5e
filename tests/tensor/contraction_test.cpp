// Form::contraction: transposes, batches, broadcasting, odd strides, against plain loops.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/tables.h"

namespace ashlar {
namespace {

using testing::expect_error;
using testing::OnDevice;
using testing::Operand;
using testing::operand;
using testing::random_integer;
using testing::random_shape;

class Contraction : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Contraction, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {}, const Tensor& bias = {}) {
  return forms::contraction(kernels::matmul, std::array{a, b, bias}, options);
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

/// The batch entry of `x` that `index` (of the broadcast batch) meets, followed by a row and a column.
Shape entry(const Operand& x, const Shape& index, int64_t row, int64_t column) {
  const int batch_rank = x.tensor.rank() - 2;
  Shape result;
  for (int i = 0; i < batch_rank; i++) {
    result.push_back(x.tensor.shape()[i] == 1 ? 0 : index[index.rank() - batch_rank + i]);
  }
  return with_matrix(result, row, column);
}

struct Case {
  Shape batch_a, batch_b;
  int64_t m, k, n;
  bool transpose_a = false, transpose_b = false, has_bias = false, has_relu = false;
};

void check(std::mt19937& random, const Case& c, Device device, bool is_dense = false) {
  const auto make = [&](const Shape& shape) {
    if (!is_dense) return operand(random, shape, device);
    Operand x;
    x.values = testing::eighths(random, shape.numel());
    x.tensor = Tensor::from(x.values, shape, device);
    return x;
  };
  const Operand a = make(c.transpose_a ? with_matrix(c.batch_a, c.k, c.m) : with_matrix(c.batch_a, c.m, c.k));
  const Operand b = make(c.transpose_b ? with_matrix(c.batch_b, c.n, c.k) : with_matrix(c.batch_b, c.k, c.n));
  const Operand bias = make({c.n});
  MatmulOptions options{.transpose_a = c.transpose_a, .transpose_b = c.transpose_b};
  if (c.has_relu) options.activation = Activation::relu;

  const Tensor y = matmul(a.tensor, b.tensor, options, c.has_bias ? bias.tensor : Tensor());
  const Shape batch = broadcast("test", c.batch_a, c.batch_b);
  ASSERT_EQ(y.shape(), with_matrix(batch, c.m, c.n));
  const std::vector<float> got = y.to_vector<float>();
  size_t place = 0;
  testing::for_each_index(y.shape(), [&](const Shape& index) {
    Shape outer = index;
    outer.erase(outer.rank() - 1);
    outer.erase(outer.rank() - 1);
    const int64_t i = index[index.rank() - 2], j = index[index.rank() - 1];
    double sum = 0, magnitude = 1;
    for (int64_t k = 0; k < c.k; k++) {
      const double term = double{a.at(c.transpose_a ? entry(a, outer, k, i) : entry(a, outer, i, k))} *
                          double{b.at(c.transpose_b ? entry(b, outer, j, k) : entry(b, outer, k, j))};
      sum += term;
      magnitude += std::abs(term);
    }
    if (c.has_bias) sum += bias.at({j});
    if (c.has_relu) sum = std::max(sum, 0.0);
    ASSERT_NEAR(got[place++], sum, 1e-5 * magnitude)
        << a.tensor.shape().str() << a.tensor.strides().str() << " * " << b.tensor.shape().str()
        << b.tensor.strides().str() << " at " << index.str();
  });
}

TEST_P(Contraction, RandomStridesTransposesAndBatches) {
  std::mt19937 random(60);
  for (int trial = 0; trial < 60; trial++) {
    const auto coin = [&] { return random_integer(random, 0, 1) == 1; };
    const auto size = [&] { return random_integer(random, 1, 9); };
    const Shape batch = random_shape(random, static_cast<int>(random_integer(random, 0, 3)), 3);
    const auto some_of = [&] {
      Shape own = batch;
      for (int64_t& n : own) n = coin() || coin() ? n : 1;
      while (!own.empty() && coin() && coin()) own.erase(0);
      return own;
    };
    check(random, {some_of(), some_of(), size(), size(), size(), coin(), coin(), coin(), coin()}, device());
    if (HasFatalFailure()) return;
  }
}

TEST_P(Contraction, SizesAroundTiles) {
  std::mt19937 random(61);
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{1, 1, 1}, {64, 32, 64}, {65, 33, 17}, {1, 100, 130}, {130, 100, 1}}) {
    for (bool transpose : {false, true}) {
      check(random, {{}, {}, m, k, n, transpose, transpose, true, true}, device(), true);
      check(random, {{3}, {}, m, k, n, false, transpose}, device(), true);
      check(random, {{2}, {2}, m, k, n, transpose, false}, device(), true);
      if (HasFatalFailure()) return;
    }
  }
}

int sums_of_parts = 0;
void count_sums(const KernelInfo& kernel, const KernelInstance&) {
  sums_of_parts += &kernel == kernels::matmul.last || &kernel == kernels::matmul.last_with_rest;
}

// k of 128 on may be dealt over parts, whatever divides it; what is added up doesn't depend on anything but the sizes.
TEST_P(Contraction, ManyTermsInParts) {
  const std::string before = set_forced_plan("split_k");
  const LaunchObserver observer = set_launch_observer(count_sums);
  std::mt19937 random(63);
  int products = 0;
  sums_of_parts = 0;
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{1, 128, 1}, {3, 131, 5}, {5, 1000, 1}, {1, 4099, 40}, {33, 1028, 40}, {70, 640, 65}}) {
    for (const bool transpose : {false, true}) {
      check(random, {{}, {}, m, k, n, transpose, false, true, true}, device(), true);
      check(random, {{}, {}, m, k, n, false, transpose}, device());
      products += 2;
      if (HasFatalFailure()) break;
    }
  }
  EXPECT_EQ(sums_of_parts, products);
  check(random, {{}, {}, 3, 127, 5}, device());
  check(random, {{2}, {2}, 3, 200, 5}, device());
  EXPECT_EQ(sums_of_parts, products) << "too few terms, and a batch";
  const Case layer{{}, {}, 11, 9000, 13, true, false, true, true};
  set_forced_plan("at_once");
  check(random, layer, device());
  EXPECT_EQ(sums_of_parts, products);
  set_forced_plan(before);
  check(random, layer, device());
  // Of itself where it pays; an OpenCL device with a unit or two has no use for parts.
  if (device().kind != DeviceKind::opencl) EXPECT_EQ(sums_of_parts, products + 1);
  set_launch_observer(observer);
}

// Operands in memory of their own: whatever is left of quads and stages doesn't reach the result.
TEST_P(Contraction, CopiesOfOperands) {
  const std::string before = set_forced_plan("aligned_operands");
  std::mt19937 random(64);
  for (const auto& [m, k, n] :
       {std::array<int64_t, 3>{1, 1, 1}, {5, 7, 3}, {64, 64, 64}, {67, 131, 70}, {33, 48, 41}}) {
    for (const bool transpose : {false, true}) {
      check(random, {{}, {}, m, k, n, transpose, false, true, true}, device(), true);
      check(random, {{}, {}, m, k, n, false, transpose}, device());
      check(random, {{3}, {3}, m, k, n, transpose, transpose}, device());
      check(random, {{2, 3}, {1, 3}, m, k, n}, device());
    }
  }
  set_forced_plan(before);
}

TEST_P(Contraction, BroadcastBatches) {
  std::mt19937 random(62);
  check(random, {{2, 1, 3}, {1, 4, 1}, 5, 6, 7}, device(), true);
  check(random, {{}, {4}, 5, 6, 7}, device(), true);
  check(random, {{4}, {1}, 5, 6, 7}, device(), true);
  check(random, {{2, 3}, {}, 5, 6, 7, true}, device(), true);
  check(random, {{1, 1}, {1, 1, 1}, 5, 6, 7}, device(), true);
}

TEST_P(Contraction, VectorsAsInNumPy) {
  const Tensor v = Tensor::from(std::vector<float>{1, 2, 3}, {3}, device());
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, device());
  EXPECT_EQ(matmul(v, v).shape(), Shape{});
  EXPECT_EQ(matmul(v, v).item(), 14);
  EXPECT_EQ(matmul(x, v).shape(), Shape{2});
  EXPECT_EQ(matmul(x, v).to_vector<float>(), (std::vector<float>{14, 32}));
  EXPECT_EQ(matmul(v, x, {.transpose_b = true}).to_vector<float>(), (std::vector<float>{14, 32}));
  EXPECT_EQ(matmul(v, x.unsqueeze(0).broadcast_to({4, 2, 3}), {.transpose_b = true}).shape(), (Shape{4, 2}));
  EXPECT_EQ(matmul(x.unsqueeze(0).broadcast_to({4, 2, 3}), v).shape(), (Shape{4, 2}));
  EXPECT_EQ(matmul(v.flip(0), v.broadcast_to({2, 3}).transpose(0, 1)).to_vector<float>(), (std::vector<float>{10, 10}));
}

TEST_P(Contraction, NothingToSum) {
  const Tensor a = Tensor::empty({2, 3, 0}, DType::f32, device()), b = Tensor::empty({0, 4}, DType::f32, device());
  EXPECT_EQ(matmul(a, b).to_vector<float>(), std::vector<float>(24, 0));
  EXPECT_EQ(matmul(a, b, {.activation = Activation::relu}).to_vector<float>(), std::vector<float>(24, 0));
  const Tensor bias = Tensor::from(std::vector<float>{-1, 0, 1, 2}, {4}, device());
  const std::vector<float> y = matmul(a, b, {.activation = Activation::relu}, bias).to_vector<float>();
  for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(y[i], std::max(0.0f, static_cast<float>(i % 4) - 1));
  const Tensor none = Tensor::empty({0}, DType::f32, device());
  EXPECT_EQ(matmul(none, none).item(), 0);
}

TEST_P(Contraction, EmptyResults) {
  const Tensor x = Tensor::empty({0, 3}, DType::f32, device()), y = Tensor::ones({3, 4}, DType::f32, device());
  EXPECT_EQ(matmul(x, y).shape(), (Shape{0, 4}));
  EXPECT_EQ(matmul(y, Tensor::empty({4, 0}, DType::f32, device())).shape(), (Shape{3, 0}));
  EXPECT_EQ(matmul(Tensor::empty({0, 2, 3}, DType::f32, device()), y).shape(), (Shape{0, 2, 4}));
}

TEST_P(Contraction, Errors) {
  const auto ones = [this](const Shape& shape, DType dtype = DType::f32) {
    return Tensor::ones(shape, dtype, device());
  };
  expect_error<ShapeError>(
      [&] {
        matmul(ones({2, 3}), ones({2, 3}));
      },
      {"matmul", "f32[2, 3]", "equal k", "transpose_b"});
  expect_error<ShapeError>([&] { matmul(ones({2, 3}), ones({})); }, {"matmul", "rank 1 or more", "mul()"});
  expect_error<ShapeError>([&] { matmul(ones({2, 2, 3}), ones({3, 3, 2})); }, {"matmul", "[2] and [3]"});
  expect_error<ShapeError>(
      [&] {
        matmul(ones({2, 3}), ones({3, 4}), {}, ones({3}));
      },
      {"matmul", "bias", "f32[3]", "shape [4]"});
  expect_error<DTypeError>(
      [&] {
        matmul(ones({2, 3}), ones({3, 4}, DType::bf16));
      },
      {"matmul", "bf16[3, 4]", "of f32", "to(DType::f32)"});
  expect_error<DTypeError>(
      [&] {
        matmul(ones({2, 3}), ones({3, 4}), {}, ones({4}, DType::f16));
      },
      {"matmul", "f16[4]"});
  expect_error<ValueError>([&] { matmul(Tensor(), ones({3, 4})); }, {"matmul", "undefined"});
  if (device() != Device::cpu()) {
    expect_error<DeviceError>([&] { matmul(ones({2, 3}), Tensor::ones({3, 4})); }, {"matmul", "on cpu", "to(Device)"});
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostOfAChoice = 30;
#else
constexpr double kMostOfAChoice = 0.9;  // µs; 0.2 to 0.3 on a core of its own, 0.62 on the slowest machine met so far
#endif

// What the build wrote down of CUDA's plans (schedules/contraction_model.h), asked without a GPU: an H200's numbers.
TEST(ContractionPlans, AModelChoosesAmongCudasInLittleTime) {
  const TargetTable* table = kernels::matmul.targets[static_cast<size_t>(CodeTarget::cuda)];
  if (table == nullptr || table->plan_count == 0) GTEST_SKIP() << "no CUDA kernels are linked";
  const auto* plans = std::find_if(table->plans, table->plans + table->plan_count,
                                   [](const PlanSet& set) { return set.key == KernelKey{}.packed(); });
  ASSERT_NE(plans, table->plans + table->plan_count);
  ASSERT_NE(plans->cost, nullptr);
  constexpr double kDevice[kPlanDeviceNumbers] = {132, 1.98, 4800};
  double best = 1e9;
  const auto chosen = [&](int64_t m, int64_t n, int64_t k, bool transpose_b) -> std::string {
    const Tensor all = Tensor::empty({std::max({m * k, k * n, m * n})});
    const Tensor a = all.as_strided({1, m, k}, {m * k, k, 1}, 0), y = all.as_strided({1, m, n}, {m * n, n, 1}, 0),
                 b = transpose_b ? all.as_strided({1, k, n}, {k * n, 1, k}, 0)
                                 : all.as_strided({1, k, n}, {k * n, n, 1}, 0);
    const std::vector<Tensor> inputs{a, b, all.slice(0, 0, 1)}, outputs{y};
    double costs[kMostPlans];
    uint64_t applies = 0;
    for (int round = 0; round < 20; round++) {
      constexpr int kCalls = 500;
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; i++) {
        const detail::PlanJudgement judged = detail::judge_plans(kernels::matmul, *plans, inputs, outputs);
        plans->cost(judged.features, kDevice, costs);
        applies = judged.applies;
      }
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
      best = std::min(best, took.count() / kCalls);
    }
    int quickest = -1;
    for (int plan = 0; plan < plans->count; plan++) {
      if ((applies >> plan & 1) != 0 && (quickest < 0 || costs[plan] < costs[quickest])) quickest = plan;
    }
    for (int i = 0; i < table->count; i++) {
      if (table->instances[i].key == with_setting(plans->key, plans->settings[quickest]))
        return table->instances[i].plan;
    }
    return "none";
  };
  // The best of all on an H200 or an H100.
  EXPECT_EQ(chosen(4096, 4096, 4096, false), "large_nn");
  EXPECT_EQ(chosen(9, 1567, 168, true), "layer_small");
  EXPECT_EQ(chosen(5867, 7, 6036, false), "tall_along_4");
  EXPECT_EQ(chosen(128, 64, 64, false), "smallest");
  EXPECT_EQ(chosen(64, 64, 64, false), "dealt");
  EXPECT_EQ(chosen(68, 15, 1, false), "threads");
  EXPECT_EQ(chosen(1300, 1301, 37, false), "odd_medium");
  EXPECT_EQ(chosen(1, 45, 4842, true), "along_1_deep");
  std::printf("a choice among %d plans takes %.3f us\n", plans->count, best);
  EXPECT_LE(best, kMostOfAChoice);
}

}  // namespace
}  // namespace ashlar
