// ashlar-plan-choice: how good the choice among a product's plans is, at sizes drawn at random.
//
// Each draw is a product a·b of f32, or 16 bits: m, n and k log-uniform from 1 to 8192, a third of the draws in
// multiples of 64, a third odd; four layouts; a quarter of them batches. Every plan that can serve it is called by
// name, checked against sums in double at some places, and timed: 16 calls in a graph where they are short, on operands
// and results that rotate, the smallest of interleaved rounds. A row says which plan a call gets and how much longer it
// takes than the best one.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ashlar/ops/matmul.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/plans.h"
#include "runtime/support/error.h"
#include "runtime/vendor/vendor.h"
#include "tools/options.h"

namespace {

using namespace ashlar;
using Clock = std::chrono::steady_clock;

constexpr int kCallsOfAGraph = 16, kRounds = 4, kSamples = 24;
constexpr int64_t kMostColumns = 8192;
constexpr double kShortCall = 200, kLeastRound = 400;  // µs
constexpr double kHopeless = 4, kEager = 50;  // so many times the best's first call and microseconds: timed once
constexpr double kWithin = 1.25;
// Made by the form: several products and a sum (runtime/forms/parts_of_sums.h), copies and a product
// (aligned_operands.h).
constexpr const char *kSplit = "split_k", *kAligned = "aligned_operands";
// A call as users make it: of operands it copies those that the model says, of a split product's plans it takes the
// best.
constexpr const char* kAutomatic = "automatic";
// cuBLASLt, where it can.
constexpr const char* kVendor = "vendor";

struct Options {
  std::string device = "cpu", csv;
  DType dtype = DType::f32;
  Activation activation = Activation::none;
  std::vector<std::string> products;
  uint64_t seed = 0;
  int draws = 100, most_rows = 8192, most_batches = 512;
  double seconds = 0, most_flops = 0, most_elements = 0;
};

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

struct Draw {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;

  double flops() const { return 2.0 * static_cast<double>(batch * m) * static_cast<double>(n * k); }
  int64_t largest() const { return batch * std::max({m * k, k * n, m * n}); }
  std::string str() const {
    return std::string(transpose_a ? "t" : "n") + (transpose_b ? "t" : "n") + " " + std::to_string(m) + "x" +
           std::to_string(n) + "x" + std::to_string(k) + (batch > 1 ? " times " + std::to_string(batch) : "");
  }
};

/// The product that str() writes so. Throws ValueError.
Draw parse_draw(const std::string& text) {
  char layouts[3] = {};
  long long m = 0, n = 0, k = 0, batch = 1;
  const int read = std::sscanf(text.c_str(), "%2[nt] %lldx%lldx%lld times %lld", layouts, &m, &n, &k, &batch);
  if (read < 4 || layouts[1] == 0 || std::min({m, n, k, batch}) < 1) {
    throw ValueError("--product", text, "layouts of a and b, then m x n x k",
                     "Write for example \"tn 64x10x25 times 7\"");
  }
  return {batch, m, n, k, layouts[0] == 't', layouts[1] == 't'};
}

/// A draw depends on seed, index and limits alone.
Draw draw_of(const Options& options, int index) {
  std::seed_seq seeds{options.seed & 0xffffffffu, options.seed >> 32, static_cast<uint64_t>(index)};
  std::mt19937_64 random(seeds);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const auto size = [&](double most) { return static_cast<int64_t>(std::exp2(uniform() * std::log2(most + 1))); };
  for (;;) {
    Draw draw;
    for (int64_t* one : {&draw.m, &draw.n, &draw.k}) {
      *one = size(one == &draw.m ? options.most_rows : kMostColumns);
      if (index % 3 == 0) *one = std::max<int64_t>(64, (*one + 32) / 64 * 64);
      if (index % 3 == 1) *one |= 1;
    }
    if (random() % 4 == 0) draw.batch = size(options.most_batches);
    draw.transpose_a = random() % 2 == 0;
    draw.transpose_b = random() % 2 == 0;
    if (draw.flops() <= options.most_flops && static_cast<double>(draw.largest()) <= options.most_elements) return draw;
  }
}

/// Random numbers for operands to be views of: a block of them, again and again. Its length is no multiple of a row.
class Numbers {
 public:
  Numbers(int64_t elements, unsigned seed, DType dtype, Device device)
      : all_(Tensor::empty({elements}, dtype, device)) {
    std::mt19937 random(seed);
    block_.resize(static_cast<size_t>(std::min<int64_t>(elements, 1048573)));
    // Of seven bits, which every type has.
    for (float& x : block_) x = static_cast<float>(static_cast<int64_t>(random() % 129) - 64) / 64.0f;
    const Tensor block = Tensor::from(block_, {static_cast<int64_t>(block_.size())}, device).to(dtype);
    for (int64_t at = 0; at < elements; at += block.size(0)) {
      const int64_t length = std::min(block.size(0), elements - at);
      all_.slice(0, at, at + length).copy_(block.slice(0, 0, length));
    }
  }
  double at(int64_t i) const { return block_[static_cast<size_t>(i) % block_.size()]; }
  /// The call-th operand of this shape.
  Tensor operand(const Shape& shape, int call) const {
    constexpr int64_t kAligned = 64;
    const int64_t step = (shape.numel() + kAligned - 1) / kAligned * kAligned,
                  places = std::max<int64_t>(1, all_.size(0) / step);
    const int64_t first = call % places * step;
    return all_.slice(0, first, first + shape.numel()).reshape(shape);
  }

 private:
  std::vector<float> block_;
  Tensor all_;
};

std::string last_plan;  // of the last call
void note_plan(const KernelInfo& kernel, const KernelInstance& instance) {
  if (last_plan == kAligned) return;
  last_plan = &kernel == kernels::matmul.last           ? kSplit
              : std::string_view(kernel.name) == "copy" ? kAligned
                                                        : instance.plan;
}

class Measured {
 public:
  Measured(const Options& options, const std::vector<std::string>& plans)
      : options_(options),
        plans_(plans),
        device_(Device::parse(options.device)),
        left_(static_cast<int64_t>(options.most_elements) + (1 << 22), 1, options.dtype, device_),
        right_(static_cast<int64_t>(options.most_elements) + (1 << 22), 2, options.dtype, device_),
        zeros_(Tensor::zeros({kMostColumns}, options.dtype, device_)) {}

  /// Times of the plans that can serve it, by name, in microseconds, but for hopeless ones. Throws where one is wrong.
  std::map<std::string, double> times(const Draw& draw) {
    std::map<std::string, double> times;
    std::map<std::string, Graph> graphs;
    double best = 0;
    keep_results_of(draw);
    for (const std::string& plan : plans_) {
      force(plan);
      const Tensor y = call(draw, 0);
      if (plan == kVendor ? !last_plan.empty() : last_plan != plan && plan != kAutomatic) continue;
      check(draw, y, plan);
      const double once = once_of(draw, plan);
      times[plan] = once;
      if (best == 0 || once < best) best = once;
    }
    std::erase_if(times,
                  [&](const auto& one) { return one.first != kAutomatic && one.second > kHopeless * best + kEager; });
    for (auto& [plan, time] : times) {
      if (time > kShortCall) continue;
      force(plan);
      std::vector<Tensor> results;
      graphs[plan] = capture(device_, [&] {
        for (int i = 0; i < kCallsOfAGraph; i++) results.push_back(call(draw, i));
      });
      graphs[plan].replay();
      time = round(draw, &graphs[plan], kCallsOfAGraph);
    }
    for (int i = 0; i < kRounds; i++) {
      for (auto& [plan, time] : times) {
        force(plan);
        const auto graph = graphs.find(plan);
        const int calls = static_cast<int>(std::clamp(kLeastRound / time, 1.0, 200.0));
        time = std::min(time, round(draw, graph == graphs.end() ? nullptr : &graph->second, calls));
      }
    }
    force(kAutomatic);
    return times;
  }

  std::string chosen(const Draw& draw, PlanChoice choice) {
    const PlanChoice before = set_plan_choice(choice);
    call(draw, 0);
    set_plan_choice(before);
    Stream::current(device_).synchronize();
    return last_plan;
  }

 private:
  static void force(const std::string& plan) {
    set_vendor_policy(plan == kVendor ? VendorPolicy::always : VendorPolicy::never);
    set_forced_plan(plan == kAutomatic || plan == kVendor ? "" : plan);
  }
  Tensor call(const Draw& draw, int index) const {
    last_plan.clear();
    const Tensor a = left_.operand(
                     draw.transpose_a ? Shape{draw.batch, draw.k, draw.m} : Shape{draw.batch, draw.m, draw.k}, index),
                 b = right_.operand(
                     draw.transpose_b ? Shape{draw.batch, draw.n, draw.k} : Shape{draw.batch, draw.k, draw.n}, index);
    return matmul(a, b,
                  {.transpose_a = draw.transpose_a, .transpose_b = draw.transpose_b, .activation = options_.activation},
                  options_.activation == Activation::none ? Tensor() : zeros_.slice(0, 0, draw.n));
  }

  /// Memory for as many results as caches don't hold, written once, which costs the system's page faults.
  void keep_results_of(const Draw& draw) {
    constexpr int64_t kElements = 1 << 24;
    const Shape shape{draw.batch, draw.m, draw.n};
    kept_.clear();
    kept_.resize(static_cast<size_t>(std::clamp<int64_t>(kElements / shape.numel(), 1, kCallsOfAGraph)));
    for (Tensor& result : kept_) result = Tensor::zeros(shape, options_.dtype, device_);
    Tensor::zeros(shape, options_.dtype, device_);  // of a call, while the result that it takes the place of is there
  }

  double once_of(const Draw& draw, const std::string& plan) {
    force(plan);
    return round(draw, nullptr, 1);
  }

  /// Microseconds of a call, of at least so many. Each call's operands and results lie elsewhere than those of the one
  /// before, of an earlier round, too.
  double round(const Draw& draw, const Graph* graph, int calls) {
    const Stream stream = Stream::current(device_);
    const int in_one = graph == nullptr ? 1 : kCallsOfAGraph, times = (calls + in_one - 1) / in_one;
    stream.synchronize();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < times; i++) {
      if (graph != nullptr) {
        graph->replay();
      } else {
        kept_[static_cast<size_t>(next_) % kept_.size()] = call(draw, next_);
        next_++;
      }
    }
    stream.synchronize();
    return microseconds_since(start) / (times * in_one);
  }

  double activated(double x) const {
    if (options_.activation == Activation::relu) return std::max(x, 0.0);
    return options_.activation == Activation::gelu ? x / 2 * (1 + std::erf(x / std::numbers::sqrt2)) : x;
  }

  void check(const Draw& d, const Tensor& y, const std::string& plan) const {
    std::mt19937_64 random(static_cast<uint64_t>(d.m * 8192 + d.n));
    for (int i = 0; i < kSamples; i++) {
      const auto place = [&](int64_t extent, int corner) {
        return i >= 4 ? static_cast<int64_t>(random() % static_cast<uint64_t>(extent)) : (i & corner) ? extent - 1 : 0;
      };
      const int64_t row = place(d.m, 1), column = place(d.n, 2), batch = place(d.batch, 3);
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < d.k; k++) {
        const double term = left_.at(batch * d.m * d.k + (d.transpose_a ? k * d.m + row : row * d.k + k)) *
                            right_.at(batch * d.k * d.n + (d.transpose_b ? column * d.k + k : k * d.n + column));
        sum += term;
        magnitude += std::abs(term);
      }
      sum = activated(sum);
      const double came = y[batch][row][column].item();
      const double rounding = options_.dtype == DType::f32 ? 0 : options_.dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
      if (!(std::abs(came - sum) <= 1e-5 * magnitude + rounding * std::abs(sum))) {
        throw KernelError("matmul " + d.str(),
                          "plan " + plan + ": " + std::to_string(came) + " at [" + std::to_string(batch) + ", " +
                              std::to_string(row) + ", " + std::to_string(column) + "]",
                          std::to_string(sum), "Report it");
      }
    }
  }

  const Options& options_;
  const std::vector<std::string>& plans_;
  Device device_;
  Numbers left_, right_;
  Tensor zeros_;  ///< of a layer's bias
  int next_ = 0;
  std::vector<Tensor> kept_;  ///< the last results
};

/// Those of products of this type that this device may call.
std::vector<std::string> plan_names(Device device, DType dtype) {
  std::vector<std::string> names;
  for (const TargetTable* table : kernels::matmul.targets) {
    if (table == nullptr) continue;
    for (int i = 0; i < table->count; i++) {
      const KernelInstance& one = table->instances[i];
      const bool is_of_device =
          std::string_view(one.symbol).find("_" + std::string(name_of(device.kind))) != std::string_view::npos;
      const KernelKey key = KernelKey::unpacked(one.key);
      if (!is_of_device || key.elements[0] != dtype || *one.tunables) continue;
      if (std::ranges::find(names, one.plan) == names.end()) names.emplace_back(one.plan);
    }
  }
  if (kernels::matmul.last != nullptr) names.emplace_back(kSplit);
  names.emplace_back(kAligned);
  if (device.kind == DeviceKind::cuda) names.emplace_back(kVendor);
  names.emplace_back(kAutomatic);
  return names;
}

/// How many times the best plan's time the chosen ones' are.
struct Choices {
  const char* by;
  std::vector<double> ratios;
  std::map<std::string, int> missed;  ///< "chosen instead of best", of those beyond kWithin

  void add(const std::string& chosen, const std::string& best, double ratio) {
    ratios.push_back(ratio);
    if (ratio > kWithin) missed[chosen + " instead of " + best]++;
  }
  void print() {
    if (ratios.empty()) return;
    std::ranges::sort(ratios);
    double logs = 0;
    int within = 0;
    for (const double ratio : ratios) {
      logs += std::log(ratio);
      within += ratio <= kWithin;
    }
    const auto count = static_cast<double>(ratios.size());
    std::printf(
        "%s: within 25 %% of the best plan on %.1f %% of %zu draws; best over chosen: geometric mean %.3f, tenth "
        "percentile %.3f, worst %.3f\n",
        by, 100 * within / count, ratios.size(), std::exp(-logs / count),
        1 / ratios[static_cast<size_t>(0.9 * (count - 1))], 1 / ratios.back());
    for (const auto& [what, times] : missed) std::printf("  %s: %d\n", what.c_str(), times);
  }
};

int run(Options& options) {
  const Device device = Device::parse(options.device);
  const bool is_cpu = device.kind == DeviceKind::cpu;
  if (options.seed == 0) options.seed = std::random_device{}();
  if (options.most_flops == 0) options.most_flops = is_cpu ? 0x1p31 : 0x1p38;
  if (options.most_elements == 0) options.most_elements = is_cpu ? 0x1p23 : 0x1p26;
  std::vector<Draw> named;
  for (const std::string& product : options.products) {
    named.push_back(parse_draw(product));
    options.most_elements = std::max(options.most_elements, static_cast<double>(named.back().largest()));
  }
  const std::vector<std::string> plans = plan_names(device, options.dtype);
  set_vendor_policy(VendorPolicy::never);
  set_launch_observer(note_plan);
  std::printf("%s, seed %llu, %zu plans\n", device.description().c_str(), static_cast<unsigned long long>(options.seed),
              plans.size());
  std::ofstream csv;
  if (!options.csv.empty()) {
    csv.open(options.csv);
    csv << "device,seed,draw,batch,m,n,k,transpose_a,transpose_b,plan,microseconds,by_order,by_model\n";
  }
  Measured measured(options, plans);
  Choices order{"by order", {}, {}}, model{"by the model", {}, {}};
  const Clock::time_point start = Clock::now();
  const int count = named.empty() ? options.draws : static_cast<int>(named.size());
  for (int i = 0; i < count; i++) {
    if (options.seconds > 0 && microseconds_since(start) > 1e6 * options.seconds) break;
    const Draw draw = named.empty() ? draw_of(options, i) : named[static_cast<size_t>(i)];
    const std::map<std::string, double> times = measured.times(draw);
    const std::string by_order = measured.chosen(draw, PlanChoice::order),
                      by_model = measured.chosen(draw, PlanChoice::model);
    const auto best = std::ranges::min_element(times, {}, [](const auto& one) {
      return one.first == kVendor ? std::numeric_limits<double>::infinity() : one.second;
    });
    const auto ratio = [&](const std::string& plan) {
      return times.contains(plan) ? times.at(plan) / best->second : kHopeless;
    };
    const double of_order = ratio(by_order), of_model = ratio(kAutomatic);
    order.add(by_order, best->first, of_order);
    model.add(by_model, best->first, of_model);
    std::printf("%-28s best %-18s %9.2f us; by order %-18s %5.2f; by the model %-18s %5.2f\n", draw.str().c_str(),
                best->first.c_str(), best->second, by_order.c_str(), of_order, by_model.c_str(), of_model);
    std::fflush(stdout);
    for (const auto& [plan, time] : times) {
      csv << options.device << ',' << options.seed << ',' << i << ',' << draw.batch << ',' << draw.m << ',' << draw.n
          << ',' << draw.k << ',' << draw.transpose_a << ',' << draw.transpose_b << ',' << plan << ',' << time << ','
          << (plan == by_order) << ',' << (plan == by_model) << '\n';
    }
    csv.flush();
  }
  order.print();
  model.print();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Times every plan of products drawn at random, and says how good the choice among them is."};
  app.add_option("--device", options.device, "cpu, opencl[:i] or cuda[:i]")->capture_default_str();
  app.add_option("--seed", options.seed, "Of the draws [a new one]")->check(tools::whole_number());
  app.add_option("--draws", options.draws, "How many")->capture_default_str();
  app.add_option("--product", options.products, "Instead of drawn ones: \"tn 64x10x25 times 7\", any number of them");
  app.add_option("--rows", options.most_rows, "The largest m")->capture_default_str();
  app.add_option("--batches", options.most_batches, "At most, of a quarter of the draws")->capture_default_str();
  app.add_option("--seconds", options.seconds, "Begins no draw after so many");
  app.add_option("--flops", options.most_flops, "At most, of a draw [2^38; on the CPU 2^31]");
  app.add_option("--elements", options.most_elements, "At most, of an operand or the result [2^26; on the CPU 2^23]");
  const std::map<std::string, DType> dtypes{{"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}};
  app.add_option("--dtype", options.dtype, "f32, f16 or bf16")->transform(CLI::CheckedTransformer(dtypes));
  const std::map<std::string, Activation> activations{
      {"none", Activation::none}, {"relu", Activation::relu}, {"gelu", Activation::gelu}};
  app.add_option("--activation", options.activation, "none, relu or gelu of each product")
      ->transform(CLI::CheckedTransformer(activations));
  app.add_option("--csv", options.csv, "Writes a row for each draw and plan");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
