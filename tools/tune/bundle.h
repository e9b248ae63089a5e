// A bundle: one folder with everything that it takes to tune on a machine that has the device and nothing of ours.
//
//   ashlar-tune, lib/     this program and the shared libraries it needs
//   bundle.json           what follows
//   <stem>.so             the kernels of one file as the library has them: tables, defaults, code for the CPU
//   <symbol>.so           one instance with one setting of its tunables
//   <program>             the conformance program with the kernels' cases, where there is one
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ashlar::tune {

using Tunables = std::map<std::string, std::string>;

/// "tile_rows=128 tile_depth=16", or "default"
std::string text_of(const Tunables& tunables);
/// "1x512x512x512"
std::string text_of(const std::vector<int64_t>& sizes);

struct Candidate {
  Tunables tunables;  ///< empty: the default
  std::string symbol;
  std::string error;      ///< why it didn't compile; empty: it did
  int spilled_bytes = 0;  ///< by the assembler's report
};

struct Instance {
  std::string kernel;
  std::string name;  ///< "f32_none"
  uint32_t key = 0;
  std::string library;                      ///< of the kernel's file
  std::vector<std::vector<int64_t>> sizes;  ///< to be timed
  std::vector<Candidate> candidates;        ///< the default first
  std::map<std::string, int> left_out;      ///< rule → settings that it ruled out
  std::string judge = {};                   ///< the conformance program with its cases; empty: there's none
};

/// What a bundle was made from, as text.
struct Origin {
  std::string request;     ///< kernels, instances, sizes …
  std::string generators;  ///< which programs compiled it, and of when they are
  bool operator==(const Origin&) const = default;
};

struct Bundle {
  std::string target;  ///< a code target: "cpu_avx2", "cuda"
  std::vector<Instance> instances;
  std::filesystem::path folder;
  Origin origin = {};
};

/// Throws DataError on a folder that isn't one.
Bundle read_bundle(const std::filesystem::path& folder);

struct BundleRequest {
  std::vector<std::string> kernels;
  std::vector<std::string> instances;  ///< only these; empty: the first of each kernel
  std::string target = "cpu";          ///< a code target, or cpu for what this machine's CPU runs
  std::vector<std::string> shapes;     ///< "1x512x512x512", …
  std::filesystem::path build;         ///< where the kernels were built
  std::filesystem::path folder;
  int cuda_capability = 80;
  std::string architectures;  ///< of the machine code, as 90 or 80,90; empty: those of the build
  int jobs = 1;
  int most = 0;  ///< at most so many settings of an instance, spread over its space; 0: all
};

/// What make_bundle() would make one from now. Throws DataError.
Origin origin_of(const BundleRequest& request);

/// Compiles the spaces of the kernels' tunables into `folder`. Throws DataError, ValueError.
Bundle make_bundle(const BundleRequest& request);

}  // namespace ashlar::tune
