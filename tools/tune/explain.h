// What a kernel became on a target, for people.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace ashlar::tune {

struct ExplainRequest {
  std::string kernel, instance, target = "cpu", shape;
  std::vector<std::string> tunables;  ///< NAME=VALUE
  std::filesystem::path build;
  int cuda_capability = 80;
  double gigabytes = 0, gigaflops = 0;  ///< the device's peaks per second; 0: measured here, or known of the device
};

void add_explain_options(CLI::App& command, ExplainRequest& request);

/// Prints tunables with their values, Halide's loop nest, what the assembler says of registers, spills and shared
/// memory, and for a shape its place on the roofline: bytes and operations of one call, what limits it, the least time.
/// On a machine that has the device also the time that it takes. Throws DataError, ValueError.
void explain(const ExplainRequest& request, std::ostream& out);

}  // namespace ashlar::tune
