// Training by any step function: interrupted and resumed to the same bits, divergence, accumulation, early stopping.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/anomaly_mode.h"
#include "nn/modules/activations.h"
#include "nn/modules/dropout.h"
#include "nn/modules/linear.h"
#include "nn/modules/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/sgd.h"
#include "nn/safetensors.h"
#include "nn/trainer/fit.h"
#include "tests/nn/killed.h"
#include "tests/nn/temporary_folder.h"
#include "tests/tensor/devices.h"

namespace ashlar::nn {
namespace {

TensorDataset points(int64_t count) {
  Random random(3);
  const Tensor x = Tensor::randn({count, 4}, random);
  return TensorDataset({x, Tensor::randn({count, 2}, random)});
}

struct Interrupt {};

/// A metric of one's own: the mean of |output - target|.
class MeanAbsoluteError : public Metric {
 public:
  MeanAbsoluteError() : Metric({Tensor::zeros({}), Tensor::zeros({})}) {}
  std::string name() const override { return "mae"; }
  void add(const Tensor& outputs, const Tensor& targets) override {
    add_to(0, sum(abs(sub(outputs, targets))));
    add_to(1, Tensor::full({}, outputs.numel()));
  }
  double read() const override { return sums()[0].item() / sums()[1].item(); }
};

/// All that has a state: dropout, moments, a schedule, shuffling by two workers, a metric, averaged weights, the scale
/// of losses in f16.
std::vector<FitEpoch> train(const FitOptions& options, NamedTensors* weights, int stop = -1) {
  Random random(7);
  const Sequential model(Linear(4, 32, random), ReLU(), Dropout(0.25, {.random = &random}), Linear(32, 2, random));
  Sequential trained = model;
  Adam optimizer(trained.parameters(), {.learning_rate = 0.01});
  optimizer.set_clipping({.norm = 1});
  Scheduler scheduler(optimizer, warm_up_stable_decay(90, 10, 60));
  const TensorDataset data = points(240);
  DataLoader loader(data, {.batch = 8, .shuffle = true, .seed = 5, .workers = 2});
  const Metrics metrics{std::make_shared<MeanAbsoluteError>()};
  WeightAverage average(optimizer, 0.9);
  DataLoader validation(data, {.batch = 50});
  const auto loss = [&](const std::vector<Tensor>& batch) {
    if (trained.training() && --stop == 0) throw Interrupt();
    const Var outputs = trained(batch[0]).to(DType::f32);
    metrics.add(outputs, batch[1]);
    const Var error = ad::sub(outputs, batch[1]);
    return ad::mean(ad::mul(error, error));
  };
  const auto epochs = fit({.model = trained,
                           .optimizer = optimizer,
                           .data = loader,
                           .loss = loss,
                           .scheduler = &scheduler,
                           .validation = &validation,
                           .metrics = &metrics,
                           .average = &average},
                          options);
  if (weights != nullptr) {
    *weights = trained.state_dict(Saved::with_checkpoints);
    for (const auto& [name, tensor] : optimizer.state_dict()) weights->emplace_back("optimizer." + name, tensor);
    for (const auto& [name, tensor] : average.state_dict()) weights->emplace_back("average." + name, tensor);
  }
  return epochs;
}

FitOptions options_in(const std::filesystem::path& folder) {
  FitOptions options;
  options.epochs = 3;
  options.checkpoint = folder / "checkpoint.safetensors";
  options.checkpoint_every = 4;
  options.metrics = folder / "metrics.csv";
  options.amp = DType::f16;
  return options;
}

/// The training that the test below kills; it writes "done" when it comes to its end.
TEST(Fit, InAProcessOfItsOwn) {
  const char* folder = std::getenv(testing::kChildFolder);
  if (folder == nullptr) GTEST_SKIP() << "run by Fit.KilledAndResumedGivesTheSameBits";
  NamedTensors weights;
  train(options_in(folder), &weights);
  write_safetensors(std::filesystem::path(folder) / "done", weights);
}

TEST(Fit, KilledAndResumedGivesTheSameBits) {
  testing::expect_same_bits_when_killed("Fit.InAProcessOfItsOwn", {"done", "metrics.csv"});
}

/// The same in one process, replayed, interrupted by an exception after each possible number of batches.
TEST(Fit, ResumesFromEveryCheckpoint) {
  NamedTensors wanted;
  const auto unbroken = train({.epochs = 2, .amp = DType::f16}, &wanted);
  for (const int stop : {1, 3, 4, 17, 29, 30, 31, 45, 60}) {
    const testing::TemporaryFolder folder;
    FitOptions options = options_in(folder.path());
    options.epochs = 2;
    EXPECT_THROW(train(options, nullptr, stop), Interrupt);
    options.replay = true;
    NamedTensors weights;
    const auto resumed = train(options, &weights);
    ASSERT_EQ(weights.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); i++) {
      EXPECT_EQ(weights[i].second.to_doubles(), wanted[i].second.to_doubles()) << wanted[i].first << " after " << stop;
    }
    EXPECT_EQ(resumed.back().loss, unbroken.back().loss);
    EXPECT_EQ(resumed.back().validation, unbroken.back().validation);
    EXPECT_EQ(resumed.back().metrics, unbroken.back().metrics);
  }
}

TEST(Fit, DivergenceKeepsTheLastGoodCheckpoint) {
  const testing::TemporaryFolder folder;
  Random random(1);
  Sequential model(Linear(4, 2, random));
  SGD optimizer(model.parameters(), {.learning_rate = 0.01});
  const TensorDataset data = points(64);
  DataLoader loader(data, {.batch = 4});
  int batches = 0;
  const auto loss = [&](const std::vector<Tensor>& batch) {
    const double scale = ++batches == 10 ? std::numeric_limits<double>::infinity() : 1;
    return ad::affine(ad::mean(model(batch[0])), scale, 0.0);
  };
  FitOptions options;
  options.checkpoint = folder / "checkpoint";
  options.checkpoint_every = 4;
  EXPECT_THROW(fit({model, optimizer, loader, loss}, options), DivergenceError);
  for (const auto& [name, tensor] : read_safetensors(options.checkpoint).tensors) {
    if (name == "training.position") {
      EXPECT_EQ(tensor.to_vector<int64_t>()[0], 8);
    }
    if (name.starts_with("model.")) {
      for (const double value : tensor.to_doubles()) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

/// Five batches, the last of zeros alone, for a layer without bias: what it makes of them is 0.
class FitAnomalies : public ::testing::Test {
 protected:
  using Loss = std::function<Var(const Var& outputs)>;
  FitAnomalies() { inputs_.slice(0, 32).fill_(0); }
  /// Trains, and leaves in `calls_` how often the loss was called.
  void train(const Loss& of, const FitOptions& options) {
    const TensorDataset data({inputs_});
    DataLoader loader(data, {.batch = 8});
    calls_ = 0;
    const auto loss = [&](const std::vector<Tensor>& batch) {
      calls_++;
      return of(model_(batch[0]).to(DType::f32));
    };
    fit({model_, optimizer_, loader, loss}, options);
  }
  /// The operation that is named.
  std::string named(const Loss& of, const FitOptions& options) {
    try {
      train(of, options);
    } catch (const AnomalyError& error) {
      EXPECT_FALSE(anomaly_mode()) << "the mode is over";
      return error.operation();
    }
    ADD_FAILURE() << "no anomaly";
    return {};
  }
  bool is_finite() const {
    bool finite = true;
    for (const double weight : model_.parameters()[0].value().to_doubles()) finite = finite && std::isfinite(weight);
    return finite;
  }
  static Var mean_of_squares(const Var& y) { return ad::mean(ad::mul(y, y)); }
  static Var logarithm(const Var& y) { return ad::log(mean_of_squares(y)); }
  static Var root(const Var& y) { return ad::sqrt(mean_of_squares(y)); }

  Random random_{1};
  Tensor inputs_ = Tensor::ones({40, 4});
  Linear model_{4, 2, {.bias = false, .random = &random_}};
  SGD optimizer_{model_.parameters(), {.learning_rate = 0.01}};
  int calls_ = 0;
};

TEST_F(FitAnomalies, ForwardIsNamedAndNothingReplayed) {
  for (const std::optional<DType> amp :
       {std::optional<DType>(), std::optional(DType::bf16), std::optional(DType::f16)}) {
    EXPECT_EQ(named(logarithm, {.replay = true, .amp = amp, .detect_anomaly = true}), "log");
    EXPECT_EQ(calls_, 5);
    EXPECT_TRUE(is_finite());
  }
  testing::expect_error<DivergenceError>([&] { train(logarithm, {.replay = true}); }, {"FitOptions::detect_anomaly"});
}

TEST_F(FitAnomalies, BackwardIsNamedBeforeTheWeightsAreLost) {
  EXPECT_EQ(named(root, {.detect_anomaly = true}), "backward of sqrt");
  EXPECT_EQ(calls_, 5);
  EXPECT_TRUE(is_finite());
  train(root, {});  // its loss is finite as yet
  EXPECT_FALSE(is_finite());
}

TEST_F(FitAnomalies, GradientsThatF16sScaleMakesOverflowAreNone) {
  inputs_.fill_(1);
  optimizer_.set_learning_rate(1e-5);
  train([](const Var& y) { return ad::affine(mean_of_squares(y), 1000, 0); },
        {.epochs = 8, .amp = DType::f16, .detect_anomaly = true});
  EXPECT_EQ(calls_, 40);
  EXPECT_GT(optimizer_.steps(), 0);
  EXPECT_LT(optimizer_.steps(), 40) << "some were left out";
}

TEST(Fit, WithoutAnomaliesLookingForThemChangesNoBit) {
  for (const std::optional<DType> amp : {std::optional<DType>(), std::optional(DType::f16)}) {
    NamedTensors plain, looked_at;
    const auto epochs = train({.epochs = 2, .amp = amp}, &plain);
    const auto same = train({.epochs = 2, .replay = true, .amp = amp, .detect_anomaly = true}, &looked_at);
    ASSERT_EQ(looked_at.size(), plain.size());
    for (size_t i = 0; i < plain.size(); i++) {
      EXPECT_EQ(looked_at[i].second.to_doubles(), plain[i].second.to_doubles()) << plain[i].first;
    }
    EXPECT_EQ(same.back().loss, epochs.back().loss);
  }
}

TEST(Fit, AccumulatesMeansOfBatches) {
  const auto run = [](int64_t batch, int64_t accumulate) {
    Random random(1);
    Sequential model(Linear(4, 2, random));
    SGD optimizer(model.parameters(), {.learning_rate = 0.1});
    const TensorDataset data = points(60);
    DataLoader loader(data, {.batch = batch});
    const auto loss = [&](const std::vector<Tensor>& part) {
      const Var error = ad::sub(model(part[0]), part[1]);
      return ad::mean(ad::mul(error, error));
    };
    fit({model, optimizer, loader, loss}, {.epochs = 2, .accumulate = accumulate});
    EXPECT_EQ(optimizer.steps(), 10);
    return model.parameters()[0].value().to_doubles();
  };
  const auto whole = run(12, 1), parts = run(3, 4);
  for (size_t i = 0; i < whole.size(); i++) EXPECT_NEAR(parts[i], whole[i], 1e-6);
}

/// Validation sees the averaged weights, the trained ones go on; a plateau lowers the rate. Both are resumed.
TEST(Fit, AveragesAndPlateausAreResumed) {
  struct Seen {
    std::vector<double> weights, validated;
    double rate = 0;
  };
  const auto run = [](int epochs, const std::filesystem::path& checkpoint) {
    Random random(1);
    Sequential model(Linear(4, 2, random));
    SGD optimizer(model.parameters(), {.learning_rate = 0.1});
    const TensorDataset data = points(40);
    DataLoader loader(data, {.batch = 8});
    WeightAverage average(optimizer);
    ReduceLROnPlateau plateau(optimizer, {.factor = 0.5, .patience = 1});
    const auto loss = [&](const std::vector<Tensor>& part) {
      const Var error = ad::sub(model(part[0]), part[1]);
      return ad::mean(ad::mul(error, error));
    };
    Seen seen;
    const auto validate = [&] {
      seen.validated = model.parameters()[0].value().to_doubles();
      return 1.0;
    };
    fit({.model = model,
         .optimizer = optimizer,
         .data = loader,
         .loss = loss,
         .validate = validate,
         .average = &average,
         .average_from = 2,
         .plateau = &plateau},
        {.epochs = epochs, .checkpoint = checkpoint, .replay = true});
    seen.weights = model.parameters()[0].value().to_doubles();
    seen.rate = optimizer.learning_rate();
    return seen;
  };
  const Seen two = run(2, {}), five = run(5, {});
  EXPECT_EQ(two.validated, two.weights);  // no average yet
  EXPECT_NE(five.validated, five.weights);
  EXPECT_EQ(five.rate, 0.025);  // the best, two without progress, two more
  const testing::TemporaryFolder folder;
  for (const int epochs : {1, 3, 4}) run(epochs, folder / "checkpoint");
  const Seen resumed = run(5, folder / "checkpoint");
  EXPECT_EQ(resumed.weights, five.weights);
  EXPECT_EQ(resumed.validated, five.validated);
  EXPECT_EQ(resumed.rate, five.rate);
}

TEST(Fit, StopsEarly) {
  Random random(1);
  Sequential model(Linear(4, 2, random));
  SGD optimizer(model.parameters(), {.learning_rate = 0});
  const TensorDataset data = points(8);
  DataLoader loader(data, {.batch = 8});
  const std::vector<double> values{5, 3, 4, 4, 2, 2, 2, 2, 1};
  size_t calls = 0;
  const auto loss = [&](const std::vector<Tensor>& batch) { return ad::mean(model(batch[0])); };
  const auto epochs =
      fit({model, optimizer, loader, loss, nullptr, [&] { return values[calls++]; }}, {.epochs = 9, .patience = 3});
  EXPECT_EQ(epochs.size(), 8U);
  EXPECT_THROW(fit({model, optimizer, loader, loss}, {.epochs = 0}), ValueError);
  EXPECT_THROW(fit({model, optimizer, loader, {}}, {.epochs = 1}), ValueError);
}

}  // namespace
}  // namespace ashlar::nn
