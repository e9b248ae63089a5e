#include "tests/conformance/cover.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "runtime/support/error.h"

namespace ashlar::conformance {
namespace {

// What any test costs under a sanitizer, however small it is.
constexpr double kSecondsOfAnyTest = 0.02;

double cost(const Reach& reach) { return reach.seconds + kSecondsOfAnyTest; }

double seconds_of(const std::vector<Reach>& reaches) {
  return std::accumulate(reaches.begin(), reaches.end(), 0.0,
                         [](double sum, const Reach& reach) { return sum + reach.seconds; });
}

void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines) {
  std::ofstream out(file);
  for (const std::string& line : lines) out << line << '\n';
  if (!out.flush())
    throw DataError("conformance --cover", file.string(), "a file that can be written", "Check the path");
}

}  // namespace

Cover cheapest_cover(const std::vector<Reach>& reaches, const std::vector<DeviceFunction>& functions, int times) {
  std::map<DeviceFunction, int> available, wanted;
  for (const Reach& reach : reaches) {
    for (const DeviceFunction& function : reach.functions) ++available[function];
  }
  Cover cover;
  for (const DeviceFunction& function : functions) {
    wanted[function] = std::min(times, available[function]);
    if (wanted[function] == 0) cover.missed.push_back(function);
  }

  // Greedy: the test that reaches most for its time, until all is reached.
  std::map<DeviceFunction, int> reached;
  std::vector<const Reach*> left, chosen;
  for (const Reach& reach : reaches) left.push_back(&reach);
  const auto worth = [&](const Reach* reach) {
    const auto useful = std::ranges::count_if(reach->functions, [&](const DeviceFunction& function) {
      const auto want = wanted.find(function);
      return want != wanted.end() && reached[function] < want->second;
    });
    return static_cast<double>(useful) / cost(*reach);
  };
  // What a test is worth only falls, so that yesterday's figures say which ones to look at.
  std::multimap<double, const Reach*> queue;
  for (const Reach* reach : left) queue.emplace(worth(reach), reach);
  while (!queue.empty() && queue.rbegin()->first > 0) {
    const auto best = std::prev(queue.end());
    const Reach* reach = best->second;
    queue.erase(best);
    const double now = worth(reach);
    if (!queue.empty() && now < queue.rbegin()->first) {
      if (now > 0) queue.emplace(now, reach);
      continue;
    }
    chosen.push_back(reach);
    for (const DeviceFunction& function : reach->functions) ++reached[function];
  }

  // A later choice may have made an earlier one needless.
  std::ranges::sort(chosen, [](const Reach* a, const Reach* b) { return a->seconds > b->seconds; });
  for (const Reach* reach : chosen) {
    const bool needless = std::ranges::all_of(reach->functions, [&](const DeviceFunction& function) {
      const auto want = wanted.find(function);
      return want == wanted.end() || reached[function] > want->second;
    });
    if (!needless) {
      cover.tests.push_back(*reach);
      continue;
    }
    for (const DeviceFunction& function : reach->functions) --reached[function];
  }
  return cover;
}

std::string write_cover(const std::string& folder, const std::vector<Reach>& reaches,
                        const std::vector<DeviceFunction>& functions, int times) {
  const Cover cover = cheapest_cover(reaches, functions, times);
  std::filesystem::create_directories(folder);
  std::vector<std::string> tests, missed;
  for (const Reach& reach : cover.tests) {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.4f\t", reach.seconds);
    tests.push_back(seconds + reach.test);
  }
  for (const DeviceFunction& function : cover.missed) missed.push_back(function.str());
  write_lines(std::filesystem::path(folder) / "tests.txt", tests);
  write_lines(std::filesystem::path(folder) / "missed.txt", missed);
  char summary[160];
  std::snprintf(summary, sizeof summary,
                "%zu of %zu GPU functions reached; %zu of %zu tests (%.1f of %.1f s) reach them %d times",
                functions.size() - missed.size(), functions.size(), tests.size(), reaches.size(),
                seconds_of(cover.tests), seconds_of(reaches), times);
  return summary;
}

}  // namespace ashlar::conformance
