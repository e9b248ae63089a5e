// ashlar-train: trains networks on real data from the command line. Its subcommands lie in tools/train/.
#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <iostream>

#include "tools/train/program.h"

int main(int argc, char** argv) {
  using namespace ashlar::tools::train;
  CLI::App app{"Trains networks on real data. Each subcommand's --help has its options."};
  app.require_subcommand(1);
  std::function<int()> run;
  for (const Program* program : {&kXor, &kMlp, &kCnn, &kVae, &kDcgan, &kCharGru, &kCharTransformer}) {
    CLI::App* command = app.add_subcommand(program->name, program->description);
    command->callback([&run, chosen = program->add(*command)] { run = chosen; });
  }
  CLI11_PARSE(app, argc, argv);
  try {
    return run();
  } catch (const std::exception& error) {
    std::cerr << "ashlar-train: " << error.what() << std::endl;
    return 1;
  }
}
