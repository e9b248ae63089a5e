#include "nn/hybrid/statistics.h"

#include <array>
#include <cstdio>
#include <limits>
#include <sstream>

#include "nn/data/file.h"
#include "runtime/support/error.h"

namespace ashlar::nn {
namespace {

constexpr std::array<std::string_view, 4> kPhases{"warm-up", "full", "predict", "correct"};
constexpr std::array<std::string_view, 4> kVerdicts{"", "accepted", "rejected", "rolled back"};
constexpr std::array<std::string_view, 6> kAlarms{
    "", "not finite", "loss", "gradient large", "gradient small", "oscillation"};
constexpr int64_t kColumns = 10;

/// Sums over records, taken in one after the other.
class Sums {
 public:
  void add(const std::vector<PhaseRecord>& records, size_t i) {
    const PhaseRecord& record = records[i];
    const std::array<PhaseTotal*, 4> totals{&all_.warm_up, &all_.full, &all_.predict, &all_.correct};
    PhaseTotal& total = *totals.at(static_cast<size_t>(record.phase));
    total.visits++;
    total.steps += record.steps;
    total.seconds += record.seconds;
    if (record.phase != Phase::predict) {
      ordinary_ += record.seconds - record.forecast_seconds;
      // Of one that was rolled back all seconds count.
      if (record.verdict != Verdict::rolled_back) all_.seconds_spent += record.forecast_seconds;
    } else {
      all_.seconds_spent += record.seconds;
      if (!is_rolled_back(records, i)) ahead_ += record.steps;
    }
    all_.held_back += record.held_back;
    all_.forecast_seconds += record.forecast_seconds;
    all_.accepted += record.verdict == Verdict::accepted ? 1 : 0;
    all_.rejected += record.verdict == Verdict::rejected ? 1 : 0;
    if (record.verdict != Verdict::rolled_back) return;
    all_.rolled_back++;
    all_.alarms += record.alarm != Alarm::none ? 1 : 0;
    all_.seconds_spent += record.seconds;
  }

  HybridStatistics read() const {
    HybridStatistics all = all_;
    if (all.ordinary_steps() > 0) {
      all.seconds_saved = ordinary_ / static_cast<double>(all.ordinary_steps()) * static_cast<double>(ahead_);
    }
    return all;
  }

 private:
  HybridStatistics all_;
  int64_t ahead_ = 0;    // steps of jumps that weren't taken back
  double ordinary_ = 0;  // seconds of computed steps alone
};

}  // namespace

bool is_rolled_back(const std::vector<PhaseRecord>& records, size_t i) {
  const bool is_jump = records[i].phase == Phase::predict && i + 1 < records.size();
  return (is_jump ? records[i + 1] : records[i]).verdict == Verdict::rolled_back;
}

std::string_view name_of(Phase phase) { return kPhases.at(static_cast<size_t>(phase)); }
std::string_view name_of(Verdict verdict) { return kVerdicts.at(static_cast<size_t>(verdict)); }
std::string_view name_of(Alarm alarm) { return kAlarms.at(static_cast<size_t>(alarm)); }

std::vector<HybridStatistics> HybridStatistics::after_each(const std::vector<PhaseRecord>& records) {
  std::vector<HybridStatistics> result;
  Sums sums;
  for (size_t i = 0; i < records.size(); i++) {
    sums.add(records, i);
    result.push_back(sums.read());
  }
  return result;
}

HybridStatistics HybridStatistics::of(const std::vector<PhaseRecord>& records) {
  Sums sums;
  for (size_t i = 0; i < records.size(); i++) sums.add(records, i);
  return sums.read();
}

std::string HybridStatistics::str() const {
  char text[400];
  std::snprintf(text, sizeof text,
                "%lld steps computed (warm-up %lld, full %lld, corrections %lld), %lld predicted in %lld jumps\n"
                "jumps: %lld accepted, %lld rejected, %lld rolled back; %.2f s saved, %.2f s spent on them",
                static_cast<long long>(ordinary_steps()), static_cast<long long>(warm_up.steps),
                static_cast<long long>(full.steps), static_cast<long long>(correct.steps),
                static_cast<long long>(predict.steps), static_cast<long long>(predict.visits),
                static_cast<long long>(accepted), static_cast<long long>(rejected), static_cast<long long>(rolled_back),
                seconds_saved, seconds_spent);
  std::string all = text;
  if (alarms > 0) all += "\n" + std::to_string(alarms) + " of those rolled back by an alarm";
  if (forecast_seconds > 0) {
    std::snprintf(text, sizeof text, "\nforecasts of the loss: %lld jumps held back, %.2f s of those spent",
                  static_cast<long long>(held_back), forecast_seconds);
    all += text;
  }
  return all;
}

void write_phases(const std::filesystem::path& file, const std::vector<PhaseRecord>& records) {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << "step,phase,steps,seconds,loss,verdict,forecast_seconds,confidence,held_back,alarm\n";
  for (const PhaseRecord& record : records) {
    text << record.step << ',' << name_of(record.phase) << ',' << record.steps << ',' << record.seconds << ','
         << record.loss << ',' << name_of(record.verdict) << ',' << record.forecast_seconds << ',' << record.confidence
         << ',' << record.held_back << ',' << name_of(record.alarm) << '\n';
  }
  const std::string bytes = text.str();
  write_file_atomically("HybridTrainer", file, {{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
}

Tensor to_tensor(const std::vector<PhaseRecord>& records) {
  std::vector<double> table;
  for (const PhaseRecord& record : records) {
    table.insert(table.end(), {static_cast<double>(record.step), static_cast<double>(record.phase),
                               static_cast<double>(record.steps), record.seconds, record.loss,
                               static_cast<double>(record.verdict), record.forecast_seconds, record.confidence,
                               static_cast<double>(record.held_back), static_cast<double>(record.alarm)});
  }
  return Tensor::from(table, {static_cast<int64_t>(records.size()), kColumns});
}

std::vector<PhaseRecord> records_from(const Tensor& table) {
  const auto refuse = [&] {
    throw ValueError("HybridTrainer", "a table of phases " + table.str(), "one that a hybrid training wrote",
                     "Remove the checkpoint to begin anew");
  };
  if (table.rank() != 2 || table.size(1) != kColumns || table.dtype() != DType::f64) refuse();
  const std::vector<double> values = table.to_vector<double>();
  std::vector<PhaseRecord> records;
  for (size_t i = 0; i < values.size(); i += kColumns) {
    if (!(values[i + 1] >= 0 && values[i + 1] < 4 && values[i + 5] >= 0 && values[i + 5] < 4 && values[i + 9] >= 0 &&
          values[i + 9] < static_cast<double>(kAlarms.size()))) {
      refuse();
    }
    records.push_back({static_cast<int64_t>(values[i]), static_cast<Phase>(static_cast<int>(values[i + 1])),
                       static_cast<int64_t>(values[i + 2]), values[i + 3], values[i + 4],
                       static_cast<Verdict>(static_cast<int>(values[i + 5])), values[i + 6], values[i + 7],
                       static_cast<int64_t>(values[i + 8]), static_cast<Alarm>(static_cast<int>(values[i + 9]))});
  }
  return records;
}

}  // namespace ashlar::nn
