#include "nn/hybrid/phase_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "nn/data/file.h"
#include "nn/trainer/plot.h"

namespace ashlar::nn {
namespace {

void add_point(Curve& curve, int64_t step, double value) {
  curve.x.push_back(static_cast<double>(step));
  curve.y.push_back(value);
}

int64_t end_of(const PhaseRecord& record) { return record.step + record.steps; }

constexpr std::array<std::pair<Verdict, const char*>, 3> kVerdicts{
    {{Verdict::accepted, "#2ca02c"}, {Verdict::rejected, "#ff7f0e"}, {Verdict::rolled_back, "#000000"}}};

std::vector<Curve> losses_of(const std::vector<PhaseRecord>& records) {
  Curve loss{"end of a phase", {}, {}};
  std::vector<Curve> curves(kVerdicts.size());
  for (size_t i = 0; i < records.size(); i++) {
    const PhaseRecord& record = records[i];
    const bool has_ended = i + 1 < records.size() || record.loss != 0;
    if (has_ended && record.phase != Phase::predict && !is_rolled_back(records, i)) {
      add_point(loss, end_of(record), record.loss);
    }
    for (size_t k = 0; k < curves.size() && i > 0; k++) {
      if (record.verdict == kVerdicts[k].first) add_point(curves[k], records[i - 1].step, records[i - 1].loss);
    }
  }
  for (size_t k = 0; k < curves.size(); k++) {
    curves[k].name = name_of(kVerdicts[k].first);
    curves[k].is_joined = false;
    curves[k].colour = kVerdicts[k].second;
  }
  std::erase_if(curves, [](const Curve& verdict) { return verdict.x.empty(); });
  curves.insert(curves.begin(), std::move(loss));
  return curves;
}

}  // namespace

std::string phase_plot(const std::string& title, const std::vector<PhaseRecord>& records,
                       const std::vector<FitEpoch>& epochs, const std::vector<int64_t>& epoch_ends) {
  Curve means{.name = "mean of an epoch", .x = {}, .y = {}, .colour = "#9467bd"},
      held_out{.name = "validation", .x = {}, .y = {}, .colour = "#17becf"};
  for (size_t i = 0; i < std::min(epochs.size(), epoch_ends.size()); i++) {
    add_point(means, epoch_ends[i], epochs[i].loss);
    if (!std::isnan(epochs[i].validation)) add_point(held_out, epoch_ends[i], epochs[i].validation);
  }
  Panel losses{"loss", losses_of(records)};
  for (Curve* curve : {&means, &held_out}) {
    if (!curve->x.empty()) losses.curves.push_back(std::move(*curve));
  }
  Curve saved{"saved", {}, {}}, spent{"spent", {}, {}};
  const std::vector<HybridStatistics> so_far = HybridStatistics::after_each(records);
  for (size_t i = 0; i < records.size(); i++) {
    if (is_rolled_back(records, i)) continue;
    losses.bands.push_back({std::string(name_of(records[i].phase)), static_cast<double>(records[i].step),
                            static_cast<double>(end_of(records[i]))});
    add_point(saved, end_of(records[i]), so_far[i].seconds_saved);
    add_point(spent, end_of(records[i]), so_far[i].seconds_spent);
  }
  const std::vector<Panel> panels{std::move(losses), {"seconds by jumps", {std::move(saved), std::move(spent)}}};
  return plot_svg(title, panels, "step");
}

void write_phase_plot(const std::filesystem::path& file, const std::string& title,
                      const std::vector<PhaseRecord>& records, const std::vector<FitEpoch>& epochs,
                      const std::vector<int64_t>& epoch_ends) {
  const std::string text = phase_plot(title, records, epochs, epoch_ends);
  write_file_atomically("HybridTrainer", file, {{reinterpret_cast<const uint8_t*>(text.data()), text.size()}});
}

}  // namespace ashlar::nn
