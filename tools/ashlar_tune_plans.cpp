// ashlar-tune-plans: which of their own plans operators run quickest at calls of one's own: a convolution's, which may
// be cuDNN's, unfolded or gathered; attention's; a recurrent network's. docs/how-to/tune-a-kernel.md walks through it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cpu/cpu_device.h"
#include "runtime/device/device_identity.h"
#include "runtime/support/error.h"
#include "tools/tune/operator_plans.h"

namespace {

using namespace ashlar;

struct Settings {
  std::string calls, device = "cpu", results = "results.jsonl";
  tune::PlanOptions plans;
};

std::string code_target_of(Device device) {
  return device.kind == DeviceKind::cpu ? name_of(detail::cpu_code_target()) : std::string(name_of(device.kind));
}

int run(const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const Device device = Device::parse(settings.device);
  tune::ResultsFile results(settings.results);
  const detail::DeviceIdentity& identity = detail::device_identity(device);
  results.set_where({code_target_of(device), identity.name, identity.family, device.driver()});
  std::ifstream calls(settings.calls);
  if (!calls) {
    throw DataError("ashlar-tune-plans", settings.calls, "a file of calls, a line of JSON each", "Check the path");
  }
  const Clock::time_point start = Clock::now();
  int number = 0, failed = 0;
  for (std::string line; std::getline(calls, line);) {
    number++;
    if (std::chrono::duration<double>(Clock::now() - start).count() > settings.plans.seconds) break;
    try {
      tune::measure_plans(nlohmann::json::parse(line), device, settings.plans, results, std::cout);
    } catch (const nlohmann::json::exception& error) {
      throw DataError("ashlar-tune-plans", settings.calls + ", line " + std::to_string(number) + ": " + error.what(),
                      "a call as tools/named_call.h describes it", "Compare it with the lines of the how-to");
    } catch (const Error& error) {
      std::cerr << "line " << number << ": " << error.what() << "\n";
      failed++;
    }
  }
  std::printf("%zu lines in %s; ashlar-tune apply makes a table of them\n", results.results().outcomes.size(),
              settings.results.c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{
      "Makes calls of operators with each of the plans among which the operators choose, checks and times them. What "
      "was "
      "measured before is passed over: stop it when you like, and go on with the same command."};
  app.add_option("calls", settings.calls, "A file: a line of JSON for each call")->required();
  app.add_option("--device", settings.device, "cpu, opencl[:i] or cuda[:i]")->capture_default_str();
  app.add_option("--results", settings.results, "Added to")->capture_default_str();
  app.add_option("--operators", settings.plans.operators, "Whose choices [all but those of products]")->delimiter(',');
  app.add_option("--seconds", settings.plans.seconds, "Begins no call after so many [no limit]");
  app.add_option("--rounds", settings.plans.rounds, "In which each plan is timed once")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
