#include "tools/hybrid/compare.h"

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tools/hybrid/sampling_cost.h"

namespace ashlar::tools {
namespace {

using nn::Forecaster;
using nn::JumpLength;

constexpr int64_t kResiduals = 16;      // of past jumps, in the runs that have some
constexpr uint64_t kTuningSeed = 1000;  // tuning seeds are from here, the comparison's from 1

class Comparison {
 public:
  Comparison(const CompareOptions& options, const std::string& name, Results& results)
      : options_(options), name_(name), results_(results), task_(make_task(name, options.data)) {
    budgets_ = task_->budgets();
    for (size_t i = 0; options.shortest > 0 && i < budgets_.size(); i++) budgets_[i] = options.shortest << i;
    budgets_.resize(std::min(budgets_.size(), static_cast<size_t>(options.budgets)));
    middle_ = budgets_[budgets_.size() / 2];
  }

  /// False when the time was over before all runs were made.
  bool run() {
    if (wants("samples")) results_.note(name_ + " sampling", [&] { return cost_of_sampling(); });
    // Plain training: rate and betas on seeds and a split of their own, for each schedule.
    const auto plain = choose({plain_candidates("wsd"), plain_candidates("cosine")});
    if (!plain) return false;
    const Run wsd = plain->at(0), cosine = plain->at(1);
    // Each forecaster of weights with its own window and horizon, and the rule by which samples are forecast, chosen
    // likewise. What a pair does together follows from its parts.
    const bool both = wants("both");
    std::vector<std::vector<Run>> groups;
    if (wants("jumps") || both) groups = jump_candidates(wsd);
    const size_t jump_kinds = groups.size();
    if (wants("samples") || both) groups.push_back(sampler_candidates(wsd));
    const auto hybrids = choose(groups);
    if (!hybrids) return false;

    std::vector<Run> runs, jumping;
    for (size_t i = 0; i < jump_kinds && wants("jumps"); i++) add(jumping, hybrids->at(i), {middle_, budgets_.back()});
    if (both) {
      for (const size_t direction : {0, 1}) {
        Run run = hybrids->at(direction);
        run.sampler = hybrids->back().sampler;
        add(jumping, run, {middle_, budgets_.back()});
      }
    }
    if (wants("plain")) {
      add(runs, wsd, budgets_);
      add(runs, cosine, budgets_);
    }
    if (wants("samples")) {
      Run unlimited = hybrids->back();  // the price of the limit where labels are right, its worth where they aren't
      unlimited.sampler += " unlimited";
      add(runs, hybrids->back(), budgets_);
      add(runs, unlimited, budgets_);
    }
    if (wants("lookahead")) {
      Run lookahead = wsd;
      lookahead.lookahead = 5;
      add(runs, lookahead, {middle_});
    }
    runs.insert(runs.end(), jumping.begin(), jumping.end());
    if (!results_.make(*task_, runs)) return false;
    if (options_.results.alone) return true;  // the time of partners isn't asked for
    // What a run with jumps computed is what its plain partner may compute.
    std::vector<Run> partners;
    for (const Run& run : jumping) {
      Run partner = wsd;
      partner.split = Split::test;
      partner.seed = run.seed;
      partner.steps = results_.of(run).computed;
      if (partner.steps > 0) partners.push_back(partner);
    }
    return results_.make(*task_, partners);
  }

 private:
  bool wants(const std::string& kind) const { return std::ranges::find(options_.kinds, kind) != options_.kinds.end(); }

  nlohmann::json cost_of_sampling() const {
    const SamplingCost cost = sampling_cost(*task_, options_.results.device);
    return {{"sampling", name_},       {"samples", task_->training()[0].size(0)},
            {"batch", task_->batch()}, {"shuffled_us", cost.shuffled},
            {"draw_us", cost.draw},    {"update_us", cost.update}};
  }

  std::vector<Run> plain_candidates(const std::string& schedule) const {
    const std::vector usual{1e-3, 2e-3, 4e-3}, all{5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2};
    const std::vector<double>& rates = !options_.rates.empty() ? options_.rates : options_.wide ? all : usual;
    std::vector<Run> runs;
    for (const double rate : rates) {
      for (const double beta2 : {0.999, 0.99}) {
        runs.push_back({.task = name_,
                        .schedule = schedule,
                        .learning_rate = rate,
                        .beta2 = beta2,
                        .steps = middle_,
                        .label_noise = options_.data.label_noise});
      }
    }
    return runs;
  }

  /// A group for each kind of jump, `direction` and this one dense the first two.
  std::vector<std::vector<Run>> jump_candidates(const Run& plain) const {
    std::vector<std::pair<int64_t, int64_t>> settings{{40, 10}};
    if (options_.wide) settings.insert(settings.end(), {{40, 20}, {16, 4}});
    struct Kind {
      Forecaster forecaster;
      bool dense = false;
      JumpLength length = JumpLength::fixed;
      int64_t residuals = 0;
    };
    std::vector<std::vector<Run>> groups;
    for (const Kind& kind : {Kind{Forecaster::direction},
                             {Forecaster::direction, true},
                             {Forecaster::direction, true, JumpLength::forecast},
                             {Forecaster::direction, true, JumpLength::forecast, kResiduals},
                             {Forecaster::line},
                             {Forecaster::modes},
                             {Forecaster::nowcast},
                             {Forecaster::last_move}}) {
      groups.emplace_back();
      for (const auto& [window, horizon] : settings) {
        Run run = plain;
        run.forecaster = kind.forecaster;
        run.window = window;
        run.horizon = horizon;
        run.dense = kind.dense;
        run.length = kind.length;
        run.residuals = kind.residuals;
        groups.back().push_back(run);
      }
    }
    return groups;
  }

  static std::vector<Run> sampler_candidates(const Run& plain) {
    const char* const rules[] = {"last", "age", "average", "ensemble"};
    std::vector<Run> runs(std::size(rules), plain);
    for (size_t i = 0; i < runs.size(); i++) runs[i].sampler = rules[i];
    return runs;
  }

  /// Of each group the run with the least mean loss of its averaged weights over the tuning seeds, on the validation
  /// split; with each further seed the better half goes on. Nothing when the time was over.
  std::optional<std::vector<Run>> choose(std::vector<std::vector<Run>> groups) {
    for (int i = 0; i < options_.tuning_seeds; i++) {
      std::vector<Run> all;
      for (std::vector<Run>& group : groups) {
        if (i > 0 && group.size() > 1) group.resize((group.size() + 1) / 2);
        for (Run& run : group) {
          run.split = Split::validation;
          run.seed = kTuningSeed + static_cast<uint64_t>(i);
          all.push_back(run);
        }
      }
      if (!results_.make(*task_, all)) return std::nullopt;
      for (std::vector<Run>& group : groups) {
        std::ranges::stable_sort(group, {}, [&](Run run) {
          double sum = 0;
          for (int seed = 0; seed <= i; seed++) {
            run.seed = kTuningSeed + static_cast<uint64_t>(seed);
            sum += results_.of(run).averaged.loss;
          }
          return sum;
        });
      }
    }
    std::vector<Run> best;
    for (const std::vector<Run>& group : groups) best.push_back(group.front());
    return best;
  }

  /// `run` on the test split with each seed and number of steps.
  void add(std::vector<Run>& runs, Run run, const std::vector<int64_t>& all_steps) const {
    run.split = Split::test;
    for (const int64_t steps : all_steps) {
      for (int seed = 1; seed <= options_.seeds; seed++) {
        run.steps = steps;
        run.seed = static_cast<uint64_t>(seed);
        runs.push_back(run);
      }
    }
  }

  const CompareOptions& options_;
  std::string name_;
  Results& results_;
  std::unique_ptr<Task> task_;
  std::vector<int64_t> budgets_;
  int64_t middle_;
};

}  // namespace

bool compare(const CompareOptions& options) {
  Results results(options.results);
  bool complete = true;
  for (const std::string& task : options.tasks) complete &= Comparison(options, task, results).run();
  std::cout << (complete ? "all runs are there" : "out of time: call again to go on") << std::endl;
  return complete;
}

}  // namespace ashlar::tools
