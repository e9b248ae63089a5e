// Modules that are put together from operators: values by loops, gradients by finite differences, on every device; and
// containers of parameters and of modules by names.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "ashlar/ashlar.h"
#include "autograd/backward.h"
#include "nn/modules/activations.h"
#include "nn/modules/containers.h"
#include "nn/modules/dropout.h"
#include "nn/modules/images.h"
#include "nn/modules/linear.h"
#include "nn/modules/local_response_norm.h"
#include "nn/modules/padding.h"
#include "nn/modules/pooling.h"
#include "nn/modules/rrelu.h"
#include "nn/modules/similarity.h"
#include "nn/safetensors.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

using Values = std::vector<double>;
using Function = std::function<Var(const Var&)>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class ComposedModules : public testing::OnDevice {
 protected:
  Tensor random(const Shape& shape, uint64_t seed = 1) const {
    Random random(seed);
    return Tensor::randn(shape, random).to(device());
  }
  /// The gradient of Σ w y, w of any numbers, against differences of it.
  void expect_gradient(const Function& function, const Tensor& x, double tolerance = 1e-2) const {
    const Var input(x.clone(), true);
    const Var y = function(input);
    const Tensor weights = random(y.shape(), 77);
    backward(y, {.seed = weights});
    const auto sum_at = [&](const Values& values) {
      const Tensor here = Tensor::from(values, x.shape()).to(DType::f32).to(device());
      const Values got = function(Var(here)).value().to_doubles(), w = weights.to_doubles();
      double sum = 0;
      for (size_t i = 0; i < got.size(); i++) sum += w[i] * got[i];
      return sum;
    };
    const Values gradient = input.grad().to_doubles(), at = x.to_doubles();
    for (size_t i = 0; i < at.size(); i += 1 + at.size() / 40) {
      Values up = at, down = at;
      constexpr double kStep = 0x1p-7;
      up[i] += kStep, down[i] -= kStep;
      const double wanted = (sum_at(up) - sum_at(down)) / (2 * kStep);
      EXPECT_NEAR(gradient[i], wanted, tolerance * (1 + std::abs(wanted))) << i;
    }
  }
};

void expect_near(const Var& got, const Values& wanted, double tolerance = 1e-5) {
  const Values values = got.value().to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); i++) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_NEAR(values[i], wanted[i], tolerance * (1 + std::abs(wanted[i]))) << i;
    }
  }
}

TEST_P(ComposedModules, Activations) {
  const Tensor x = Tensor::from({-1.5, 0.0, 0.25, 0.5, 3.0, kNan}).to(DType::f32).to(device());
  expect_near(Threshold(0.25, -7)(Var(x)), {-7, -7, -7, 0.5, 3, kNan});
  expect_gradient([](const Var& v) { return Threshold(0.25, -7)(v); },
                  Tensor::from({-1.0, 0.5, 2.0}).to(DType::f32).to(device()));
  const Tensor images = random({2, 3, 4, 5});
  const Values in = images.to_doubles();
  Values wanted(in.size());
  for (size_t n = 0; n < 2; n++) {
    for (size_t place = 0; place < 20; place++) {
      double sum = 0;
      for (size_t c = 0; c < 3; c++) sum += std::exp(in[(n * 3 + c) * 20 + place]);
      for (size_t c = 0; c < 3; c++) wanted[(n * 3 + c) * 20 + place] = std::exp(in[(n * 3 + c) * 20 + place]) / sum;
    }
  }
  expect_near(Softmax2d()(Var(images)), wanted);
  wanted.resize(60);
  expect_near(Softmax2d()(Var(images.select(0, 0))), wanted);
  testing::expect_error<ShapeError>([&] { Softmax2d()(Var(x)); }, {"Softmax2d"});
}

TEST_P(ComposedModules, RReluDrawsSlopesInTraining) {
  RReLU module(0.2, 0.6, {.device = device()});
  const Tensor x = random({4000});
  const Values in = x.to_doubles();
  const Var input(x, true);
  const Var y = module(input);
  backward(y, {.seed = Tensor::ones({4000}, DType::f32, device())});
  const Values first = y.value().to_doubles(), again = module(Var(x)).value().to_doubles(),
               gradient = input.grad().to_doubles();
  double sum = 0, negative = 0, different = 0;
  for (size_t i = 0; i < in.size(); i++) {
    if (in[i] > 0) {
      EXPECT_EQ(first[i], in[i]);
      EXPECT_EQ(gradient[i], 1);
      continue;
    }
    const double slope = first[i] / in[i];
    EXPECT_GE(slope, 0.2 - 1e-6);
    EXPECT_LE(slope, 0.6 + 1e-6);
    EXPECT_NEAR(gradient[i], slope, 1e-5);
    sum += slope, negative++, different += first[i] != again[i] ? 1 : 0;
  }
  EXPECT_NEAR(sum / negative, 0.4, 0.02);
  EXPECT_GT(different, 0.99 * negative);
  module.eval();
  Values mean = in;
  for (double& v : mean) v = v > 0 ? v : 0.4 * v;
  expect_near(module(Var(x)), mean);
  EXPECT_EQ(module.named_buffers()[0].first, "random");
  testing::expect_error<ValueError>([] { RReLU(0.5, 0.1); }, {"lower = 0.5"});
}

TEST_P(ComposedModules, AlphaDropoutKeepsMeanAndVariance) {
  const double p = 0.3, least = -1.0507009873554805 * 1.6732632423543772;
  const double a = 1 / std::sqrt((1 - p) * (1 + p * least * least)), b = -a * least * p;
  AlphaDropout each(p, {.device = device()});
  const Tensor x = random({20000});
  const Var input(x, true);
  const Var y = each(input);
  backward(y, {.seed = Tensor::ones({20000}, DType::f32, device())});
  const Values in = x.to_doubles(), out = y.value().to_doubles(), gradient = input.grad().to_doubles();
  double dropped = 0, mean = 0, squares = 0;
  for (size_t i = 0; i < in.size(); i++) {
    const bool is_kept = std::abs(out[i] - (a * in[i] + b)) < 1e-5;
    EXPECT_NEAR(out[i], is_kept ? a * in[i] + b : a * least + b, 1e-5);
    EXPECT_NEAR(gradient[i], is_kept ? a : 0, 1e-5);
    dropped += is_kept ? 0 : 1, mean += out[i] / 20000, squares += out[i] * out[i] / 20000;
  }
  EXPECT_NEAR(dropped / 20000, p, 0.02);
  EXPECT_NEAR(mean, 0, 0.04);
  EXPECT_NEAR(squares - mean * mean, 1, 0.05);
  // Of channels: all of one or none.
  FeatureAlphaDropout channels(p, {.device = device()});
  const Values whole = channels(Var(Tensor::ones({50, 8, 3, 2}, DType::f32, device()))).value().to_doubles();
  double gone = 0;
  for (size_t c = 0; c < 400; c++) {
    const bool is_kept = std::abs(whole[c * 6] - (a + b)) < 1e-5;
    for (size_t i = 0; i < 6; i++) EXPECT_NEAR(whole[c * 6 + i], is_kept ? a + b : a * least + b, 1e-5);
    gone += is_kept ? 0 : 1;
  }
  EXPECT_NEAR(gone / 400, p, 0.12);
  expect_near(AlphaDropout(1, {.device = device()})(Var(Tensor::ones({3}, DType::f32, device()))), {0, 0, 0});
  each.eval();
  EXPECT_EQ(each(Var(x)).value().to_doubles(), in);
  // Dropout3d as the others of channels.
  const Values volumes = Dropout3d(0.5, {.device = device()})(Var(Tensor::ones({30, 4, 2, 2, 2}, DType::f32, device())))
                             .value()
                             .to_doubles();
  double kept = 0;
  for (size_t c = 0; c < 120; c++) {
    for (size_t i = 0; i < 8; i++) EXPECT_EQ(volumes[c * 8 + i], volumes[c * 8]);
    EXPECT_TRUE(volumes[c * 8] == 0 || volumes[c * 8] == 2);
    kept += volumes[c * 8] / 2;
  }
  EXPECT_NEAR(kept / 120, 0.5, 0.2);
  testing::expect_error<ShapeError>([&] { channels(Var(Tensor::ones({3}, DType::f32, device()))); }, {"channels"});
}

TEST_P(ComposedModules, AdaptivePoolsOfVolumes) {
  const Shape in_size{5, 7, 4}, out_size{3, 2, 4};
  const Tensor x = random({2, 3, 5, 7, 4});
  const Values in = x.to_doubles();
  Values averages, maxima;
  for (size_t plane = 0; plane < 6; plane++) {
    for (int64_t o = 0; o < out_size.numel(); o++) {
      const int64_t at[] = {o / 8, o / 4 % 2, o % 4};
      int64_t first[3], end[3];
      for (int axis = 0; axis < 3; axis++) {
        first[axis] = at[axis] * in_size[axis] / out_size[axis];
        end[axis] = ((at[axis] + 1) * in_size[axis] + out_size[axis] - 1) / out_size[axis];
      }
      double sum = 0, most = -1e30, count = 0;
      for (int64_t d = first[0]; d < end[0]; d++) {
        for (int64_t h = first[1]; h < end[1]; h++) {
          for (int64_t w = first[2]; w < end[2]; w++) {
            const double value = in[plane * 140 + static_cast<size_t>((d * 7 + h) * 4 + w)];
            sum += value, count++, most = std::max(most, value);
          }
        }
      }
      averages.push_back(sum / count);
      maxima.push_back(most);
    }
  }
  const AdaptiveAvgPool3d average(out_size);
  const AdaptiveMaxPool3d most(out_size);
  EXPECT_EQ(average(Var(x)).shape(), (Shape{2, 3, 3, 2, 4}));
  expect_near(average(Var(x)), averages);
  expect_near(most(Var(x)), maxima);
  EXPECT_EQ(most(Var(x.select(0, 0))).shape(), (Shape{3, 3, 2, 4}));
  expect_gradient([&](const Var& v) { return average(v); }, x);
  expect_gradient([&](const Var& v) { return most(v); },
                  affine(Tensor::arange(840, DType::f32, device()), 0.1, -3.0).reshape({2, 3, 5, 7, 4}));
}

TEST_P(ComposedModules, LpPools) {
  const Tensor x = random({2, 3, 7, 6});
  const Values in = x.to_doubles();
  for (const double p : {2.0, 4.0}) {
    Values wanted;
    for (size_t plane = 0; plane < 6; plane++) {
      for (size_t i = 0; i + 3 <= 7; i += 2) {
        for (size_t j = 0; j + 2 <= 6; j++) {
          double sum = 0;
          for (size_t a = 0; a < 3; a++) {
            for (size_t b = 0; b < 2; b++) sum += std::pow(in[plane * 42 + (i + a) * 6 + j + b], p);
          }
          wanted.push_back(std::pow(sum, 1 / p));
        }
      }
    }
    const LPPool2d pool(p, {3, 2}, {2, 1});
    EXPECT_EQ(pool(Var(x)).shape(), (Shape{2, 3, 3, 5}));
    expect_near(pool(Var(x)), wanted);
    expect_gradient([&](const Var& v) { return pool(v); }, x);
  }
  // Windows of one row; of zeros, whose gradient is 0.
  expect_near(LPPool1d(2, 2)(Var(Tensor::from({3.0, 4.0, 0.0, 0.0, 5.0, 12.0}, {1, 6}).to(DType::f32).to(device()))),
              {5, 0, 13});
  const Var zeros(Tensor::zeros({1, 4}, DType::f32, device()), true);
  backward(ad::sum(LPPool1d(2, 2)(zeros)));
  EXPECT_EQ(zeros.grad().to_doubles(), Values(4, 0.0));
  expect_near(LPPool3d(2, 2)(Var(Tensor::ones({1, 1, 2, 2, 2}, DType::f32, device()))), {std::sqrt(8.0)});
  testing::expect_error<ValueError>([] { LPPool2d(0, 2); }, {"norm_type"});
}

TEST_P(ComposedModules, ChannelsAreShuffledAndPadded) {
  const Tensor x = random({2, 6, 3, 2});
  const Values in = x.to_doubles();
  Values wanted(in.size());
  for (size_t n = 0; n < 2; n++) {
    for (size_t c = 0; c < 6; c++) {  // channel c is the (c / 3) -th of group c mod 3
      for (size_t i = 0; i < 6; i++) wanted[(n * 6 + c) * 6 + i] = in[(n * 6 + c % 3 * 2 + c / 3) * 6 + i];
    }
  }
  expect_near(ChannelShuffle(3)(Var(x)), wanted, 0);
  expect_gradient([](const Var& v) { return ChannelShuffle(3)(v); }, x);
  testing::expect_error<ShapeError>([&] { ChannelShuffle(4)(Var(x)); }, {"4 groups"});
  expect_near(ZeroPad1d(Shape{1, 2})(Var(Tensor::ones({1, 2}, DType::f32, device()))), {0, 1, 1, 0, 0});
  EXPECT_EQ(ZeroPad3d(1)(Var(x)).shape(), (Shape{2, 8, 5, 4}));
}

TEST_P(ComposedModules, NormsOfNeighbouringChannels) {
  for (const int64_t size : {1, 2, 5, 4}) {
    const Tensor x = random({2, 7, 3, 2});
    const Values in = x.to_doubles();
    Values wanted;
    for (int64_t n = 0; n < 2; n++) {
      for (int64_t c = 0; c < 7; c++) {
        for (int64_t i = 0; i < 6; i++) {
          double sum = 0;
          for (int64_t other = c - size / 2; other < c - size / 2 + size; other++) {
            if (other >= 0 && other < 7) sum += std::pow(in[static_cast<size_t>((n * 7 + other) * 6 + i)], 2);
          }
          const double value = in[static_cast<size_t>((n * 7 + c) * 6 + i)];
          wanted.push_back(value / std::pow(1.5 + 0.2 * sum / static_cast<double>(size), 0.6));
        }
      }
    }
    const LocalResponseNorm norm(size, 0.2, 0.6, 1.5);
    expect_near(norm(Var(x)), wanted);
    expect_gradient([&](const Var& v) { return norm(v); }, x);
  }
  EXPECT_EQ(LocalResponseNorm(3)(Var(Tensor::zeros({0, 4, 2}, DType::f32, device()))).shape(), (Shape{0, 4, 2}));
  EXPECT_EQ(LocalResponseNorm(3)(Var(random({2, 4, 5}))).shape(), (Shape{2, 4, 5}));
  testing::expect_error<ShapeError>([&] { LocalResponseNorm(3)(Var(random({2, 4}))); }, {"local_response_norm"});
  testing::expect_error<ValueError>([] { LocalResponseNorm(0); }, {"size = 0"});
}

TEST_P(ComposedModules, SimilarityAndDistance) {
  const Tensor a = random({3, 5}, 1), b = random({3, 5}, 2);
  const Values x = a.to_doubles(), y = b.to_doubles();
  Values cosines, distances, sums;
  for (size_t i = 0; i < 3; i++) {
    double dot = 0, xx = 0, yy = 0, squares = 0, sizes = 0;
    for (size_t j = 0; j < 5; j++) {
      const double p = x[i * 5 + j], q = y[i * 5 + j], off = p - q + 1e-6;
      dot += p * q, xx += p * p, yy += q * q, squares += off * off, sizes += std::abs(off);
    }
    cosines.push_back(dot / std::sqrt(xx * yy));
    distances.push_back(std::sqrt(squares));
    sums.push_back(sizes);
  }
  expect_near(CosineSimilarity()(Var(a), Var(b)), cosines);
  expect_near(PairwiseDistance()(Var(a), Var(b)), distances);
  expect_near(PairwiseDistance(1)(Var(a), Var(b)), sums);
  EXPECT_EQ(PairwiseDistance(2, 1e-6, /*keepdim=*/true)(Var(a), Var(b)).shape(), (Shape{3, 1}));
  expect_gradient([&](const Var& v) { return CosineSimilarity()(v, Var(b)); }, a);
  expect_gradient([&](const Var& v) { return PairwiseDistance()(Var(b), v); }, a);
}

INSTANTIATE_TEST_SUITE_P(Devices, ComposedModules, ::testing::ValuesIn(testing::usable_devices()),
                         testing::device_name);

/// A network of a user's own, with all three.
class Mixed : public ModuleOf<Mixed> {
 public:
  explicit Mixed(Random& random) {
    scales_.add(Var(Tensor::full({2}, 2.0)));
    scales_.add(Var(Tensor::full({2}, 3.0), true));
    shifts_.add("left", Var(Tensor::full({2}, 0.5), true));
    shifts_.add("right", Var(Tensor::full({2}, -1.0), true));
    heads_.emplace<Linear>("long", 2, 3, random);
    heads_.emplace<Linear>("short", 2, 1, random);
  }
  Var forward(const Var& x, const std::string& head) const {
    Var y = x;
    for (const Var& scale : scales_) y = y * scale;
    return static_cast<const Linear&>(heads_[head])(y + shifts_["left"] + shifts_["right"]);
  }
  const ParameterList& scales() const { return scales_; }
  const ParameterDict& shifts() const { return shifts_; }
  const ModuleDict<Module>& heads() const { return heads_; }

 protected:
  void members(Members& members) override {
    members.child("scales", scales_);
    members.child("shifts", shifts_);
    members.child("heads", heads_);
  }

 private:
  ParameterList scales_;
  ParameterDict shifts_;
  ModuleDict<Module> heads_;
};

TEST(Containers, NameWhatTheyHoldAsPyTorchDoes) {
  Random random(3);
  const Mixed mixed(random);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : mixed.named_parameters()) {
    names.push_back(name);
    EXPECT_TRUE(parameter.requires_grad()) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"scales.0", "scales.1", "shifts.left", "shifts.right", "heads.long.weight",
                                             "heads.long.bias", "heads.short.weight", "heads.short.bias"}));
  EXPECT_EQ(mixed.heads().names(), (std::vector<std::string>{"long", "short"}));
  EXPECT_TRUE(mixed.shifts().contains("left"));
  EXPECT_FALSE(mixed.heads().contains("left"));
  const Var x(Tensor::from({1.0, -2.0}, {1, 2}).to(DType::f32));
  const Linear& head = static_cast<const Linear&>(mixed.heads()["short"]);
  const Values weight = head.weight().value().to_doubles(), bias = head.bias().value().to_doubles();
  expect_near(mixed(x, "short"), {5.5 * weight[0] - 12.5 * weight[1] + bias[0]});

  // Through a file into another; a clone has tensors of its own.
  const testing::TemporaryFolder folder;
  write_safetensors(folder / "weights.safetensors", mixed.state_dict());
  Random other(4);
  const Mixed loaded(other);
  loaded.load_state_dict(read_safetensors(folder / "weights.safetensors").tensors);
  EXPECT_EQ(loaded(x, "long").value().to_doubles(), mixed(x, "long").value().to_doubles());
  const Mixed twin = mixed.clone();
  twin.scales()[0].value().fill_(0);
  EXPECT_EQ(mixed.scales()[0].value().to_doubles(), Values(2, 2.0));
}

TEST(Containers, RefuseWhatCantBe) {
  Random random(3);
  const Mixed mixed(random);
  testing::expect_error<IndexError>([&] { mixed.scales()[2]; }, {"parameter 2"});
  testing::expect_error<IndexError>([&] { mixed.shifts()["up"]; }, {"\"up\"", "left, right"});
  testing::expect_error<IndexError>([&] { mixed.heads()["up"]; }, {"\"up\"", "long, short"});
  ModuleDict<Linear> heads;
  heads.emplace("a", 1, 1, random);
  testing::expect_error<ValueError>([&] { heads.emplace("a", 1, 1, random); }, {"\"a\""});
  testing::expect_error<ValueError>([&] { heads.emplace("a.b", 1, 1, random); }, {"\"a.b\""});
  testing::expect_error<ValueError>([&] { heads.add("b", nullptr); }, {"null"});
  testing::expect_error<ValueError>([] { ParameterDict().add("a", Var()); }, {"undefined"});
  testing::expect_error<ValueError>([] { ParameterList().add(Var()); }, {"undefined"});
}

}  // namespace
}  // namespace ashlar::nn
