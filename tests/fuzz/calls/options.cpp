#include "tests/fuzz/calls/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace ashlar::fuzz {

Options Options::parse(int count, char** arguments, const char* what) {
  Options options;
  std::random_device random;
  options.seed = random();
  std::vector<std::string> names = {"cpu", "opencl"};
  CLI::App app{what};
  app.add_option("--seconds", options.seconds, "How long")->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Repeats the calls of another run");
  app.add_option("--devices", names, "On which devices, by name")->delimiter(',');
  try {
    app.parse(count, arguments);
    for (const std::string& name : names) {
      const Device device = Device::parse(name);
      if (device.is_available()) {
        options.devices.push_back(device);
      } else {
        std::printf("no %s here\n", name.c_str());
      }
    }
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(2);
  }
  if (options.devices.empty()) {
    std::fprintf(stderr, "none of the devices is here\n");
    std::exit(2);
  }
  std::printf("--seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  return options;
}

}  // namespace ashlar::fuzz
