#include "tools/tune/operator_plans.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>
#include <span>

#include "dsl/build/tuned_table.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/form.h"
#include "runtime/launch/plans.h"
#include "runtime/support/error.h"
#include "tools/named_call.h"

namespace ashlar::tune {
namespace {

using Clock = std::chrono::steady_clock;
using Call = std::function<std::vector<Tensor>()>;

constexpr double kShort = 200, kLeastRound = 2000;  // µs
constexpr int kMostSets = 8;
constexpr int64_t kBytesOfCaches = 128 << 20;

/// A choice that a call makes, and those of its plans that apply.
struct Choice {
  const KernelInfo* operation;
  std::vector<int64_t> sizes;
  std::vector<std::string> plans = {};

  bool is(const KernelInfo& other, std::span<const int64_t> of) const {
    return operation == &other && std::ranges::equal(sizes, of);
  }
};

// What the chooser sees and does; one call is measured at a time.
std::vector<Choice>* seen = nullptr;
const Choice* changed = nullptr;
std::string changed_to;  ///< none: what the operator chooses without a table

std::optional<size_t> choose(const KernelInfo& operation, std::span<const Plan> plans, std::span<const int64_t> sizes) {
  if (seen != nullptr) {
    Choice choice{&operation, {sizes.begin(), sizes.end()}};
    for (const Plan& plan : plans) {
      if (plan.applies) choice.plans.emplace_back(plan.name);
    }
    const bool is_new = std::ranges::none_of(*seen, [&](const Choice& one) { return one.is(operation, sizes); });
    if (is_new) seen->push_back(std::move(choice));
  }
  if (changed == nullptr || !changed->is(operation, sizes)) return {};
  if (changed_to.empty()) return kWithoutTables;
  for (size_t i = 0; i < plans.size(); i++) {
    if (plans[i].applies && plans[i].name == changed_to) return i;
  }
  return {};
}

/// While it lives, choices are seen; `to` is made of `choice`, if there is one.
class Chooser {
 public:
  explicit Chooser(std::vector<Choice>* see, const Choice* choice = nullptr, const std::string& to = {}) {
    seen = see;
    changed = choice;
    changed_to = to;
    set_plan_chooser(choose);
  }
  ~Chooser() {
    set_plan_chooser(nullptr);
    seen = nullptr;
    changed = nullptr;
  }
  Chooser(const Chooser&) = delete;
  Chooser& operator=(const Chooser&) = delete;
};

/// Numbers from -most to most; zeros of whole numbers.
void fill(const Tensor& buffer, double most, uint64_t seed) {
  if (!is_floating(buffer.dtype())) {
    Tensor(buffer).fill_(0);
    return;
  }
  std::mt19937_64 random(seed);
  const int64_t block = std::min<int64_t>(buffer.numel(), 1000003);
  std::vector<float> values(static_cast<size_t>(block));
  for (float& x : values) x = static_cast<float>(most * (static_cast<double>(random() >> 11) * 0x1p-52 - 1));
  const Tensor numbers = Tensor::from(values, {block}).to(buffer.dtype()).to(buffer.device());
  for (int64_t at = 0; at < buffer.numel(); at += block) {
    const int64_t count = std::min(block, buffer.numel() - at);
    buffer.slice(0, at, at + count).copy_(numbers.slice(0, 0, count));
  }
}

/// The same call on inputs of its own each time, so that no cache has them all.
class Sets {
 public:
  Sets(const nlohmann::json& call, Device device) : device_(device) {
    int64_t bytes = 0;
    for (int set = 0; set < kMostSets && (set == 0 || bytes < kBytesOfCaches); set++) {
      const std::vector<Tensor> buffers = tools::buffers_of(call, device);
      for (size_t i = 0; i < buffers.size(); i++) {
        // As wide as layers' weights are at the start: products stay near 1, and a recurrent network isn't chaotic.
        const auto shape = call.at("inputs").at(i).at("shape").get<std::vector<int64_t>>();
        fill(buffers[i], shape.empty() ? 1 : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, shape.back()))),
             i + 1);
        bytes += buffers[i].bytes();
      }
      calls_.push_back(tools::bound_call(call, buffers));
    }
  }
  std::vector<Tensor> first() const { return calls_[0](); }
  Device device() const { return device_; }
  /// Each set once.
  void all() const {
    for (const Call& call : calls_) call();
  }
  double count() const { return static_cast<double>(calls_.size()); }

 private:
  Device device_;
  std::vector<Call> calls_;
};

double microseconds(Device device, const std::function<void()>& work) {
  const Stream stream = Stream::current(device);
  stream.synchronize();
  const Clock::time_point start = Clock::now();
  work();
  stream.synchronize();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// Where `came` is not `expected`, by a part of the largest element: plans add up in other orders, and transformed
/// convolutions round more than plain ones; a wrong result is further off. "" where it is.
std::string disagreement(const std::vector<Tensor>& came, const std::vector<Tensor>& expected) {
  constexpr double kAllowed = 2e-3;
  for (size_t i = 0; i < came.size(); i++) {
    const std::vector<double> a = came[i].to(DType::f64).to_vector<double>(),
                              b = expected[i].to(DType::f64).to_vector<double>();
    double largest = 0, off = 0;
    for (size_t j = 0; j < a.size(); j++) {
      largest = std::max(largest, std::abs(b[j]));
      off = std::isfinite(a[j] - b[j]) ? std::max(off, std::abs(a[j] - b[j])) : HUGE_VAL;
    }
    if (off > kAllowed * largest) {
      return "output " + std::to_string(i) + " is off by " + std::to_string(off) + " where " + std::to_string(largest) +
             " is the largest element";
    }
  }
  return "";
}

/// One way to make the call, ready to be timed.
class Contender {
 public:
  Contender(const Sets& sets, const Choice& choice, std::string plan)
      : sets_(sets), choice_(choice), plan_(std::move(plan)) {}

  const std::string& plan() const { return plan_; }
  /// "" where the results are `expected`.
  std::string check(const std::vector<Tensor>& expected) const {
    const Chooser chooser(nullptr, &choice_, plan_);
    return disagreement(sets_.first(), expected);
  }
  void prepare() {
    const Chooser chooser(nullptr, &choice_, plan_);
    sets_.all();
    once_ = microseconds(sets_.device(), [&] { sets_.all(); });
    const bool has_graphs = sets_.device().kind != DeviceKind::cpu;
    if (!has_graphs || once_ / sets_.count() > kShort) return;
    try {
      graph_ = capture(sets_.device(), [&] { sets_.all(); });
    } catch (const GraphError&) {
      return;  // it needs the host
    }
    graph_->replay();
    once_ = microseconds(sets_.device(), [&] { graph_->replay(); });
  }
  /// Microseconds of one call. Short ones have a turn before that isn't timed: caches hold what ran last.
  double round() const {
    const Chooser chooser(nullptr, &choice_, plan_);
    if (once_ < kLeastRound) turn();
    const int times = static_cast<int>(std::clamp(kLeastRound / once_, 1.0, 1000.0));
    const double took = microseconds(sets_.device(), [&] {
      for (int i = 0; i < times; i++) turn();
    });
    return took / times / sets_.count();
  }

 private:
  void turn() const {
    if (graph_)
      graph_->replay();
    else
      sets_.all();
  }

  const Sets& sets_;
  const Choice& choice_;
  std::string plan_;  ///< "": the operator's own choice, without tables
  double once_ = 0;
  std::optional<Graph> graph_;
};

Outcome outcome_of(const Choice& choice, const std::string& plan, const std::string& status) {
  Outcome outcome;
  outcome.kernel = choice.operation->name;
  outcome.instance = dsl::kAnyInstance;
  if (!plan.empty()) outcome.tunables["plan"] = plan;
  outcome.sizes = choice.sizes;
  outcome.status = status;
  return outcome;
}

bool is_measured(const Results& results, const Choice& choice) {
  return std::ranges::any_of(results.outcomes, [&](const Outcome& one) {
    return one.kernel == choice.operation->name && one.instance == dsl::kAnyInstance && one.sizes == choice.sizes &&
           one.tunables.empty();
  });
}

void measure(const Choice& choice, const Sets& sets, const PlanOptions& options, ResultsFile& results,
             std::ostream& log) {
  std::vector<Tensor> expected;
  {
    const Chooser chooser(nullptr, &choice, "");
    expected = sets.first();
  }
  std::vector<Contender> contenders;
  contenders.emplace_back(sets, choice, "");
  std::vector<Outcome> outcomes;
  for (const std::string& plan : choice.plans) {
    Contender one(sets, choice, plan);
    std::string why;
    try {
      why = one.check(expected);
    } catch (const Error& error) {
      why = error.what();
    }
    if (why.empty()) {
      contenders.push_back(std::move(one));
      continue;
    }
    outcomes.push_back(outcome_of(choice, plan, "failed"));
    outcomes.back().message = why;
  }
  for (Contender& one : contenders) one.prepare();
  std::vector<std::vector<double>> times(contenders.size());
  for (int round = 0; round < options.rounds; round++) {
    for (size_t i = 0; i < contenders.size(); i++) times[i].push_back(contenders[i].round());
  }
  for (size_t i = contenders.size(); i-- > 0;) {  // the default last: with it the choice is measured
    std::vector<double> ratios;
    for (size_t round = 0; round < times[i].size(); round++) ratios.push_back(times[i][round] / times[0][round]);
    Outcome& one = outcomes.emplace_back(outcome_of(choice, contenders[i].plan(), "final"));
    one.microseconds = median(times[i]);
    one.of_default = median(ratios);
  }
  log << choice.operation->name;
  for (size_t i = 0; i < choice.sizes.size(); i++)
    log << (i ? ", " : " ") << choice.operation->form->signature.plan_sizes[i] << " " << choice.sizes[i];
  for (const Outcome& one : outcomes) {
    results.add(one);
    log << "; " << (one.tunables.empty() ? "its own" : one.tunables.at("plan")) << " ";
    if (one.status == "final")
      log << one.microseconds << " us";
    else
      log << one.message;
  }
  log << std::endl;
}

}  // namespace

void measure_plans(const nlohmann::json& call, Device device, const PlanOptions& options, ResultsFile& results,
                   std::ostream& log) {
  const Sets sets(call, device);
  std::vector<Choice> choices;
  {
    const Chooser chooser(&choices);
    sets.first();
  }
  for (const Choice& choice : choices) {
    const bool is_of_product = std::string_view(choice.operation->form->signature.name) == "contraction";
    const bool is_wanted =
        options.operators.empty() ? !is_of_product : std::ranges::count(options.operators, choice.operation->name) > 0;
    if (!is_wanted || choice.plans.size() < 2 || is_measured(results.results(), choice)) continue;
    measure(choice, sets, options, results, log);
  }
}

}  // namespace ashlar::tune
