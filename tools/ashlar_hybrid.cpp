// ashlar-hybrid: does foretelling weights pay? Trains networks with and without, at equal cost, from the command line.
#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "tools/hybrid/compare.h"
#include "tools/options.h"

int main(int argc, char** argv) {
  using namespace ashlar;
  CLI::App app{"Hybrid training beside plain training."};
  app.require_subcommand(1);
  tools::CompareOptions options;
  options.data = "/usr/share/datasets/fashion-mnist";
  options.results = "hybrid.jsonl";
  std::string device = "cpu";
  bool quick = false;
  CLI::App* compare = app.add_subcommand(
      "compare", "Tunes plain Adam, then trains with each forecaster; docs/hybrid.md says what is compared");
  compare->add_option("--task", options.tasks, "regression, fashion")->delimiter(',')->capture_default_str();
  compare->add_option("--data", options.data, "Folder in MNIST's format, for fashion")->capture_default_str();
  compare->add_option("--device", device, "cpu, opencl, cuda, or with an index as in cuda:1")->capture_default_str();
  compare->add_option("--seeds", options.seeds, "Of the comparison")->check(CLI::Range(1, 1000))->capture_default_str();
  compare->add_option("--tuning-seeds", options.tuning_seeds, "Of each choice")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  compare->add_option("--budgets", options.budgets, "Lengths of training, the smallest first")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  compare->add_flag("--quick", quick, "Fewer rates and windows to choose from");
  compare->add_option("--results", options.results, "Takes a line for each run; those in it aren't made again")
      ->capture_default_str();
  compare->add_option("--limit", options.limit, "Seconds after which no run begins")->check(tools::positive_number());
  CLI11_PARSE(app, argc, argv);
  try {
    options.device = Device::parse(device);
    options.wide = !quick;
    return tools::compare(options) ? 0 : 4;
  } catch (const std::exception& error) {
    std::cerr << "ashlar-hybrid: " << error.what() << std::endl;
    return 1;
  }
}
