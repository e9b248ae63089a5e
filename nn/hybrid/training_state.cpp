#include "nn/hybrid/training_state.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/support/error.h"

namespace ashlar::nn {

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

namespace {

constexpr double kTiny = 1e-30, kLargest = 8;

/// The last `count` of them, or all there are.
std::span<const double> last(std::span<const double> values, size_t count) {
  return values.last(std::min(count, values.size()));
}
/// The `count` before the last `count`; the oldest one where there are none.
std::span<const double> previous(std::span<const double> values, size_t count) {
  if (values.size() <= count) return values.first(1);
  return last(values.first(values.size() - count), count);
}

/// What is asked of a window, found once.
struct Window {
  explicit Window(std::span<const double> of) : values(of), mean(mean_of(of)) {
    const auto n = static_cast<double>(of.size());
    double squares = 0, lagged = 0, cubes = 0, along = 0, places = 0, moves = 0;
    int64_t turns = 0;
    for (size_t i = 0; i < of.size(); i++) {
      const double off = of[i] - mean, place = static_cast<double>(i) - (n - 1) / 2;
      squares += off * off;
      cubes += off * off * off;
      along += place * off;
      places += place * place;
      if (i > 0) {
        lagged += off * (of[i - 1] - mean);
        moves += std::abs(of[i] - of[i - 1]);
      }
      if (i > 1 && (of[i] - of[i - 1]) * (of[i - 1] - of[i - 2]) < 0) turns++;
    }
    deviation = std::sqrt(squares / n);
    least = *std::ranges::min_element(of);
    most = *std::ranges::max_element(of);
    trend = places > 0 ? along / places * n : 0;
    correlation = squares > 0 ? lagged / squares : 0;
    skew = squares > 0 ? cubes / n / (deviation * deviation * deviation) : 0;
    roughness = deviation > 0 && n > 1 ? moves / (n - 1) / deviation : 0;
    turning = n > 2 ? static_cast<double>(turns) / (n - 2) : 0;
  }
  std::span<const double> values;
  double mean, deviation = 0, least = 0, most = 0;
  double trend = 0;        // rise of the least-squares line over the window
  double correlation = 0;  // with the step before
  double skew = 0, roughness = 0, turning = 0;
};

/// All windows of a series.
struct Series {
  explicit Series(std::span<const double> all)
      : now(all.back()),
        w16(last(all, 16)),
        w64(last(all, 64)),
        w256(last(all, kStateWindow)),
        before16(mean_of(previous(all, 16))),
        before64(mean_of(previous(all, 64))) {}
  double now;
  Window w16, w64, w256;
  double before16, before64;  // means
};

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> result;
  for (const double value : values) result.push_back(std::log(value + kTiny));
  return result;
}

/// What the formulas below speak of.
struct Parts {
  explicit Parts(const TrainingMeasures& of)
      : measures(of),
        loss(of.losses),
        log_gradients(logarithms(last(of.gradients, 128))),
        gradient(log_gradients),
        log_rates(logarithms(last(of.rates, kStateWindow))),
        unit(std::max({loss.w256.deviation, 1e-6 * std::abs(loss.w256.mean), kTiny})) {}

  double in_units(double value) const { return (value - loss.w256.mean) / unit; }
  double change(double now, double before) const { return (now - before) / unit; }
  static double ratio(double now, double before) { return (now - before) / (std::abs(now) + std::abs(before) + kTiny); }
  /// Mean of four losses, which end 4 · `ago` steps before the last.
  double four(size_t ago) const {
    const std::span<const double> all = measures.losses;
    if (all.size() < 4 * (ago + 1)) return in_units(all.front());
    return in_units(mean_of(all.subspan(all.size() - 4 * (ago + 1), 4)));
  }
  double rate() const { return log_rates.back(); }
  double rate_change(size_t steps) const {
    return rate() - log_rates[log_rates.size() - 1 - std::min(steps, log_rates.size() - 1)];
  }
  /// ln of a moment's norm over the gradients': the first is one of gradients, the second of their squares.
  double moment(size_t which) const {
    if (measures.now.moments[which] <= 0) return 0;
    return std::log(measures.now.moments[which]) / (which == 0 ? 1 : 2) - gradient.w64.mean;
  }
  double moment_change(size_t which) const {
    return grown(measures.now.moments[which], measures.before.moments[which]);
  }
  static double grown(double now, double before) { return now > 0 && before > 0 ? std::log(now / before) : 0; }
  double is(Phase phase) const { return measures.phase == phase ? 1 : 0; }

  const TrainingMeasures& measures;
  Series loss;
  std::vector<double> log_gradients;
  Series gradient;
  std::vector<double> log_rates;
  double unit;
};

struct Row {
  StateFeature feature;
  double (*value)(const Parts& p);
};

// The one table of features. u is the deviation of the last 256 losses, m their mean; g are ln of gradient norms.
constexpr std::array<Row, kStateFeatures> kTable{{
    {{"loss.size", "asinh m"}, [](const Parts& p) { return std::asinh(p.loss.w256.mean); }},
    {{"loss.spread", "ln(u / |m|) / 2"},
     [](const Parts& p) { return 0.5 * std::log(p.unit / (std::abs(p.loss.w256.mean) + kTiny) + kTiny); }},
    {{"loss.current", "(last loss - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.now); }},
    {{"loss.mean16", "(mean of 16 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w16.mean); }},
    {{"loss.mean64", "(mean of 64 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w64.mean); }},
    {{"loss.deviation16", "ln(deviation of 16 / u)"},
     [](const Parts& p) { return std::log(p.loss.w16.deviation / p.unit + 1e-3); }},
    {{"loss.deviation64", "ln(deviation of 64 / u)"},
     [](const Parts& p) { return std::log(p.loss.w64.deviation / p.unit + 1e-3); }},
    {{"loss.least16", "(least of 16 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w16.least); }},
    {{"loss.least64", "(least of 64 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w64.least); }},
    {{"loss.least256", "(least of 256 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w256.least); }},
    {{"loss.most16", "(most of 16 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w16.most); }},
    {{"loss.most64", "(most of 64 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w64.most); }},
    {{"loss.most256", "(most of 256 - m) / u"}, [](const Parts& p) { return p.in_units(p.loss.w256.most); }},
    {{"loss.trend16", "rise of the line through 16 / u"}, [](const Parts& p) { return p.loss.w16.trend / p.unit; }},
    {{"loss.trend64", "rise of the line through 64 / u"}, [](const Parts& p) { return p.loss.w64.trend / p.unit; }},
    {{"loss.trend256", "rise of the line through 256 / u"}, [](const Parts& p) { return p.loss.w256.trend / p.unit; }},
    {{"loss.change16", "(mean of 16 - mean of the 16 before) / u"},
     [](const Parts& p) { return p.change(p.loss.w16.mean, p.loss.before16); }},
    {{"loss.ratio16", "the same two means: difference / sum of sizes"},
     [](const Parts& p) { return Parts::ratio(p.loss.w16.mean, p.loss.before16); }},
    {{"loss.change64", "(mean of 64 - mean of the 64 before) / u"},
     [](const Parts& p) { return p.change(p.loss.w64.mean, p.loss.before64); }},
    {{"loss.ratio64", "the same two means: difference / sum of sizes"},
     [](const Parts& p) { return Parts::ratio(p.loss.w64.mean, p.loss.before64); }},
    {{"loss.roughness64", "mean size of 63 changes / deviation of 64"},
     [](const Parts& p) { return p.loss.w64.roughness; }},
    {{"loss.turns64", "part of 62 changes with the other sign than that before"},
     [](const Parts& p) { return p.loss.w64.turning; }},
    {{"loss.correlation64", "of 64 losses with the one before"}, [](const Parts& p) { return p.loss.w64.correlation; }},
    {{"loss.skew64", "third standardised moment of 64"}, [](const Parts& p) { return p.loss.w64.skew; }},
    {{"loss.above64", "part of 64 above m"},
     [](const Parts& p) {
       const auto above = std::ranges::count_if(p.loss.w64.values, [&](double x) { return x > p.loss.w256.mean; });
       return static_cast<double>(above) / static_cast<double>(p.loss.w64.values.size());
     }},
    {{"loss.since_least", "steps since the least of 256, over the window's"},
     [](const Parts& p) {
       const std::span<const double> all = p.loss.w256.values;
       return static_cast<double>(all.end() - 1 - std::ranges::min_element(all)) / static_cast<double>(all.size());
     }},
    {{"loss.fours0", "(mean of the last 4 - m) / u"}, [](const Parts& p) { return p.four(0); }},
    {{"loss.fours1", "of the 4 before these"}, [](const Parts& p) { return p.four(1); }},
    {{"loss.fours2", "and so on"}, [](const Parts& p) { return p.four(2); }},
    {{"loss.fours3", "and so on"}, [](const Parts& p) { return p.four(3); }},
    {{"loss.fours4", "and so on"}, [](const Parts& p) { return p.four(4); }},
    {{"loss.fours5", "and so on"}, [](const Parts& p) { return p.four(5); }},
    {{"loss.fours6", "and so on"}, [](const Parts& p) { return p.four(6); }},
    {{"loss.fours7", "and so on"}, [](const Parts& p) { return p.four(7); }},
    {{"gradient.size", "mean of 64 g / 4"}, [](const Parts& p) { return p.gradient.w64.mean / 4; }},
    {{"gradient.current", "last g - mean of 64"}, [](const Parts& p) { return p.gradient.now - p.gradient.w64.mean; }},
    {{"gradient.mean16", "mean of 16 g - mean of 64"},
     [](const Parts& p) { return p.gradient.w16.mean - p.gradient.w64.mean; }},
    {{"gradient.deviation16", "deviation of 16 g"}, [](const Parts& p) { return p.gradient.w16.deviation; }},
    {{"gradient.deviation64", "deviation of 64 g"}, [](const Parts& p) { return p.gradient.w64.deviation; }},
    {{"gradient.least16", "least of 16 g - mean of 64"},
     [](const Parts& p) { return p.gradient.w16.least - p.gradient.w64.mean; }},
    {{"gradient.least64", "least of 64 g - mean of 64"},
     [](const Parts& p) { return p.gradient.w64.least - p.gradient.w64.mean; }},
    {{"gradient.most16", "most of 16 g - mean of 64"},
     [](const Parts& p) { return p.gradient.w16.most - p.gradient.w64.mean; }},
    {{"gradient.most64", "most of 64 g - mean of 64"},
     [](const Parts& p) { return p.gradient.w64.most - p.gradient.w64.mean; }},
    {{"gradient.trend16", "rise of the line through 16 g"}, [](const Parts& p) { return p.gradient.w16.trend; }},
    {{"gradient.trend64", "rise of the line through 64 g"}, [](const Parts& p) { return p.gradient.w64.trend; }},
    {{"gradient.change16", "mean of 16 g - mean of the 16 before: ln of their ratio"},
     [](const Parts& p) { return p.gradient.w16.mean - p.gradient.before16; }},
    {{"gradient.correlation64", "of 64 g with the one before"},
     [](const Parts& p) { return p.gradient.w64.correlation; }},
    {{"gradient.turns64", "part of 62 changes of g with the other sign than that before"},
     [](const Parts& p) { return p.gradient.w64.turning; }},
    {{"rate.size", "ln(learning rate) / 4"}, [](const Parts& p) { return p.rate() / 4; }},
    {{"rate.change16", "ln of the rate over that 16 steps before"}, [](const Parts& p) { return p.rate_change(16); }},
    {{"rate.change64", "ln of the rate over that 64 steps before"}, [](const Parts& p) { return p.rate_change(64); }},
    {{"rate.of_most", "ln of the rate over the most of 256"},
     [](const Parts& p) { return p.rate() - *std::ranges::max_element(p.log_rates); }},
    {{"moment1.size", "ln of the first moment's norm - mean of 64 g; 0 without"},
     [](const Parts& p) { return p.moment(0); }},
    {{"moment1.change", "ln of that norm over the one before"}, [](const Parts& p) { return p.moment_change(0); }},
    {{"moment2.size", "ln of the second moment's norm / 2 - mean of 64 g; 0 without"},
     [](const Parts& p) { return p.moment(1); }},
    {{"moment2.change", "ln of that norm over the one before"}, [](const Parts& p) { return p.moment_change(1); }},
    {{"weights.size", "ln of the weights' root mean square"},
     [](const Parts& p) { return std::log(p.measures.now.weights + kTiny); }},
    {{"weights.change", "10 ln of that over the one before"},
     [](const Parts& p) { return 10 * Parts::grown(p.measures.now.weights, p.measures.before.weights); }},
    {{"update.size", "ln(learning rate) + mean of 16 g - ln of the weights' root mean square, over 4"},
     [](const Parts& p) { return 0.25 * (p.rate() + p.gradient.w16.mean - std::log(p.measures.now.weights + kTiny)); }},
    {{"phase.warm_up", "1 in warm-up, else 0"}, [](const Parts& p) { return p.is(Phase::warm_up); }},
    {{"phase.full", "1 in full, else 0"}, [](const Parts& p) { return p.is(Phase::full); }},
    {{"phase.correct", "1 in corrections, else 0"}, [](const Parts& p) { return p.is(Phase::correct); }},
    {{"phase.steps", "ln(1 + steps in the phase) / 4"},
     [](const Parts& p) { return 0.25 * std::log1p(static_cast<double>(p.measures.steps_in_phase)); }},
    {{"progress", "part of the training that is over"}, [](const Parts& p) { return p.measures.progress; }},
}};
static_assert(kTable.back().value != nullptr, "the table has a row for every feature");

}  // namespace

const std::array<StateFeature, kStateFeatures>& state_features() {
  static const auto all = [] {
    std::array<StateFeature, kStateFeatures> features;
    std::ranges::transform(kTable, features.begin(), [](const Row& row) { return row.feature; });
    return features;
  }();
  return all;
}

std::string state_features_table() {
  std::string text = "| feature | computed from |\n|---|---|\n";
  for (const StateFeature& feature : state_features()) {
    text.append("| `").append(feature.name).append("` | ");
    for (const char c : feature.formula) text.append(c == '|' ? "\\|" : std::string(1, c));
    text.append(" |\n");
  }
  return text;
}

TrainingState training_state(const TrainingMeasures& measures) {
  const size_t steps = measures.losses.size();
  if (steps == 0 || measures.gradients.size() != steps || measures.rates.size() != steps) {
    throw ValueError("training_state",
                     std::to_string(steps) + " losses, " + std::to_string(measures.gradients.size()) +
                         " gradient norms, " + std::to_string(measures.rates.size()) + " learning rates",
                     "one of each for every step, of one step at least", "Record all three after a step");
  }
  const Parts parts(measures);
  TrainingState state;
  std::ranges::transform(kTable, state.begin(), [&](const Row& row) {
    const double value = row.value(parts);
    return static_cast<float>(std::isnan(value) ? 0 : std::clamp(value, -kLargest, kLargest));
  });
  return state;
}

}  // namespace ashlar::nn
