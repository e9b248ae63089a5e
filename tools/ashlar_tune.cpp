// ashlar-tune: finds the quickest settings of a kernel's tunables on a device. docs/how-to/tune-a-kernel.md walks
// through it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "runtime/support/error.h"
#include "tools/options.h"
#include "tools/tune/apply.h"
#include "tools/tune/bundle.h"
#include "tools/tune/explain.h"
#include "tools/tune/judge.h"
#include "tools/tune/supervise.h"

namespace {

using namespace ashlar;
using namespace ashlar::tune;
using std::filesystem::path;

struct Settings {
  BundleRequest bundle;
  RunOptions run;
  ApplyOptions apply;
  ExplainRequest explain;
  path results = "results.jsonl";
  path tuned = "schedules/tuned";
  path plot;
};

/// The folder of this program: of a bundle, where `run` is called; of a build, bin.
path own_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

void add_bundle_options(CLI::App& command, Settings& settings) {
  command
      .add_option("--target", settings.bundle.target,
                  "cpu (what this machine runs), cpu_avx2, cpu_avx512, opencl or cuda")
      ->capture_default_str();
  command
      .add_option("--shapes", settings.bundle.shapes,
                  "Sizes to time, separated by commas: 1x512x512x512 (batch, m, n, k), 8192x4096 (rows, columns), "
                  "1x65536x1 (outer, reduced, inner), 1048576 (elements); of the form plain those of the input's axes")
      ->delimiter(',')
      ->required();
  command
      .add_option("--instances", settings.bundle.instances,
                  "Element types and comptime values, as f32_none,f16_none [the first of each kernel]")
      ->delimiter(',');
  command.add_option("--build", settings.bundle.build, "Build folder of the kernels [the one this program stands in]");
  command.add_option("--capability", settings.bundle.cuda_capability, "CUDA capability to compile for")
      ->capture_default_str();
  command.add_option("--architectures", settings.bundle.architectures,
                     "CUDA machine code, as 90 or 80,90 [those of the build]");
  command.add_option("--jobs", settings.bundle.jobs, "Compilers at a time")->capture_default_str();
  command.add_option("--most", settings.bundle.most, "At most so many settings of an instance, spread over its space");
}

void add_run_options(CLI::App& command, Settings& settings) {
  command.add_option("--results", settings.results, "Added to; a second run goes on where the first stopped")
      ->capture_default_str();
  command.add_option("--device", settings.run.device_index, "Index of the OpenCL or CUDA device")
      ->capture_default_str();
  command.add_option("--seconds", settings.run.seconds, "For the whole run [no limit]");
  command.add_option("--timeout", settings.run.seconds_per_candidate, "Seconds until a candidate counts as hung")
      ->check(tools::positive_number())
      ->capture_default_str();
  command.add_option("--memory", settings.run.memory_gb, "GB of the device that tensors may take [no limit]");
  command.add_option("--slow", settings.run.slow, "A candidate so many times slower than the best is timed once only")
      ->check(tools::number_between(1, 1000))
      ->capture_default_str();
  command.add_option("--finalists", settings.run.finalists, "Of each shape, timed side by side with the default")
      ->capture_default_str();
}

void add_apply_options(CLI::App& command, Settings& settings) {
  command.add_option("--tuned", settings.tuned, "Folder of the tables; <target>/<device>.json in it is written")
      ->capture_default_str();
  command
      .add_option("--settings", settings.apply.settings, "At most so many for an instance: each adds code to programs")
      ->capture_default_str();
  command.add_option("--gain", settings.apply.gain, "Part of the default's time that a setting must save")
      ->capture_default_str();
  command.add_option("--plot", settings.plot, "Draw the space as SVG into this file");
}

void bundle(const Settings& settings) {
  const Bundle made = make_bundle(settings.bundle);
  for (const Instance& instance : made.instances) {
    int failed = 0;
    for (const Candidate& candidate : instance.candidates) failed += !candidate.error.empty();
    std::printf("%s %s: %zu settings, of which %d don't compile\n", instance.kernel.c_str(), instance.name.c_str(),
                instance.candidates.size(), failed);
    if (instance.judge.empty()) {
      std::printf(
          "  no conformance program judges them (ashlar_add_kernels(… CONFORMANCE program)): only the CPU's code "
          "does\n");
    }
    for (const auto& [rule, count] : instance.left_out) std::printf("  %d left out: %s\n", count, rule.c_str());
  }
}

/// False when it was cut short.
bool run(const Settings& settings, const path& folder) {
  const Bundle bundle = read_bundle(folder);
  ResultsFile results(settings.results);
  const Summary summary = supervise(bundle, results, settings.run, std::cerr, isatty(STDERR_FILENO) != 0);
  std::printf("%d timed, %d out, %d to do; results in %s\n", summary.timed, summary.out, summary.todo,
              settings.results.c_str());
  if (summary.timed == 0 && !summary.interrupted) {
    throw DataError("ashlar-tune run", "no setting that could be timed", "one that is right and runs",
                    "See the messages in " + settings.results.string());
  }
  return !summary.interrupted;
}

void apply(const Settings& settings) {
  const ResultsFile file(settings.results);
  const Results& results = file.results();
  if (results.where.device.empty()) {
    throw DataError("ashlar-tune apply", settings.results.string() + " without results", "results of ashlar-tune run",
                    "Run the bundle first");
  }
  if (std::ranges::none_of(results.outcomes, [](const Outcome& one) { return one.status == "final"; })) {
    throw DataError("ashlar-tune apply", settings.results.string() + " in which nothing was timed beside its default",
                    "results of a run that came so far", "Let ashlar-tune run finish, or see there why all is out");
  }
  const path table_file = settings.tuned / results.where.target / dsl::table_file_name(results.where.device);
  dsl::TunedTable table;
  if (std::filesystem::exists(table_file)) table = dsl::read_tuned_table(table_file);
  table = tune::apply(results, table, settings.apply);
  dsl::write_tuned_table(table, table_file);
  std::printf("%s\n", table_file.c_str());
  for (const auto& [kernel, instances] : table.kernels) {
    for (const auto& [instance, points] : instances) {
      for (const dsl::TunedPoint& point : points) {
        std::printf("  %s %s %s: %s, %.4g us, %.2f of the default's time\n", kernel.c_str(), instance.c_str(),
                    text_of(point.sizes).c_str(), text_of(point.tunables).c_str(), point.microseconds,
                    point.of_default);
      }
    }
  }
  if (settings.plot.empty()) return;
  std::ofstream out(settings.plot);
  out << plot(results);
  if (!out.flush()) throw DataError("ashlar-tune", settings.plot.string(), "a file that can be written", "");
}

void judge(const Settings& settings) {
  const ResultsFile file(settings.results);
  const std::string& target = file.results().where.target;
  print(tune::judge(file.results(), dsl::read_tuned_tables(settings.tuned / target)), std::cout);
}

/// A bundle that was made from the same is used again; results of other code are put aside. False when cut short.
bool here(Settings& settings) {
  const path folder = settings.bundle.folder;
  settings.results = folder / "results.jsonl";
  const Origin wanted = origin_of(settings.bundle);
  const Origin made = std::filesystem::exists(folder / "bundle.json") ? read_bundle(folder).origin : Origin{};
  if (made.generators != wanted.generators && std::filesystem::exists(settings.results))
    std::filesystem::rename(settings.results, folder / "results.old.jsonl");
  if (made != wanted) bundle(settings);
  if (!run(settings, folder)) return false;
  apply(settings);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Finds the quickest settings of kernels' tunables on a device: bundle where the compiler is, run where the "
      "device is, apply to the table in the sources; judge says what a table is worth. With kernels and no subcommand: "
      "all three, here."};
  app.require_subcommand(0, 1);
  Settings settings;
  settings.bundle.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));

  CLI::App* bundle_command =
      app.add_subcommand("bundle", "Compile the settings of kernels into a self-contained folder");
  bundle_command->add_option("kernels", settings.bundle.kernels, "Names, as matmul softmax")->required();
  bundle_command->add_option("--out", settings.bundle.folder, "The folder")->required();
  add_bundle_options(*bundle_command, settings);
  CLI::App* run_command = app.add_subcommand("run", "Check and time what the bundle around this program holds");
  add_run_options(*run_command, settings);
  CLI::App* apply_command = app.add_subcommand("apply", "Write the table of the results' device");
  apply_command->add_option("results", settings.results, "What run wrote")->required();
  add_apply_options(*apply_command, settings);
  CLI::App* judge_command = app.add_subcommand(
      "judge", "Print what a table makes of operators' calls that it wasn't made from (results of ashlar-tune-plans)");
  judge_command->add_option("results", settings.results, "What ashlar-tune-plans wrote")->required();
  judge_command->add_option("--tuned", settings.tuned, "Folder of the tables")->capture_default_str();
  CLI::App* explain_command =
      app.add_subcommand("explain", "Print a kernel's tunables, loop nest, registers, and place on the roofline");
  add_explain_options(*explain_command, settings.explain);

  CLI::App* all = app.add_subcommand("here", "bundle, run and apply in one, for a device of this machine");
  all->add_option("kernels", settings.bundle.kernels, "Names, as matmul softmax")->required();
  all->add_option(
         "--folder", settings.bundle.folder,
         "For the bundle and its results; kept, so that a second call goes on, as long as it asks for the same")
      ->required();
  add_bundle_options(*all, settings);
  add_run_options(*all, settings);
  add_apply_options(*all, settings);

  // `ashlar-tune matmul …` is `ashlar-tune here matmul …`.
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto is_command = [&](const std::string& word) {
    const auto commands = app.get_subcommands([&](CLI::App* command) { return command->get_name() == word; });
    return word.starts_with("-") || !commands.empty();
  };
  if (!words.empty() && !is_command(words[0])) words.insert(words.begin(), "here");
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  try {
    for (path* build : {&settings.bundle.build, &settings.explain.build}) {
      if (build->empty()) *build = own_folder().parent_path();
    }
    if (*bundle_command) {
      bundle(settings);
    } else if (*run_command) {
      return run(settings, own_folder()) ? 0 : 3;
    } else if (*apply_command) {
      apply(settings);
    } else if (*judge_command) {
      judge(settings);
    } else if (*explain_command) {
      explain(settings.explain, std::cout);
    } else if (*all) {
      return here(settings) ? 0 : 3;
    } else {
      std::cout << app.help();
    }
  } catch (const std::exception& error) {
    std::cerr << "ashlar-tune: " << error.what() << std::endl;
    return 1;
  }
  return 0;
}
