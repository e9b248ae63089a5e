// ashlar-hybrid: does foretelling weights pay, or which samples need a step? Trains networks with and without, at equal
// cost, from the command line.
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
  options.results.file = "hybrid.jsonl";
  std::string device = "cpu";
  bool quick = false;
  CLI::App* compare = app.add_subcommand("compare",
                                         "Tunes plain Adam, then trains with each forecast of weights, with samples "
                                         "drawn by forecast, and with both; docs/hybrid.md says what is compared");
  compare->add_option("--task", options.tasks, "regression, fashion, fashion-cnn, mnist-cnn, char-transformer")
      ->delimiter(',')
      ->capture_default_str();
  compare->add_option("--data", options.data.fashion, "Folder in MNIST's format, for fashion and fashion-cnn")
      ->capture_default_str();
  compare->add_option("--mnist", options.data.mnist, "Folder in MNIST's format, for mnist-cnn");
  compare->add_option("--text", options.data.text, "Text in UTF-8, for char-transformer");
  compare->add_option("--label-noise", options.data.label_noise, "Part of the training labels that is made wrong")
      ->check(tools::number_between(0, 1))
      ->capture_default_str();
  compare->add_option("--kinds", options.kinds, "What is trained, of plain, lookahead, jumps, samples, both")
      ->delimiter(',')
      ->check(CLI::IsMember({"plain", "lookahead", "jumps", "samples", "both"}))
      ->capture_default_str();
  compare->add_option("--device", device, "cpu, opencl, cuda, or with an index as in cuda:1")->capture_default_str();
  compare->add_option("--seeds", options.seeds, "Of the comparison")->check(CLI::Range(1, 1000))->capture_default_str();
  compare->add_option("--tuning-seeds", options.tuning_seeds, "Of each choice")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  compare->add_option("--budgets", options.budgets, "Lengths of training, the smallest first")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  compare
      ->add_option("--shortest", options.shortest,
                   "Steps of the smallest of them, each further one twice as long [the task's own]")
      ->check(CLI::Range(20, 1'000'000'000));
  compare->add_option("--rates", options.rates, "Learning rates to choose from [0.0005 to 0.016 in factors of 2]")
      ->delimiter(',')
      ->check(tools::positive_number());
  compare->add_flag("--quick", quick, "Fewer rates and windows to choose from");
  compare->add_option("--results", options.results.file, "Takes a line for each run; those in it aren't made again")
      ->capture_default_str();
  CLI::Option* jobs =
      compare->add_option("--jobs", options.results.jobs, "Runs at a time, which blurs how long each takes")
          ->check(CLI::Range(1, 64))
          ->capture_default_str();
  compare
      ->add_flag("--alone", options.results.alone,
                 "Makes those test runs again, one at a time, that weren't alone on the device: for their time")
      ->excludes(jobs);
  compare->add_option("--limit", options.results.limit, "Seconds after which no run begins")
      ->check(tools::positive_number());
  CLI11_PARSE(app, argc, argv);
  try {
    options.results.device = Device::parse(device);
    options.wide = !quick;
    return tools::compare(options) ? 0 : 4;
  } catch (const std::exception& error) {
    std::cerr << "ashlar-hybrid: " << error.what() << std::endl;
    return 1;
  }
}
