// fuzz_replay [READER FILE|FOLDER ...]: gives files to a reader, as a test that needs no libFuzzer. Without arguments:
// all seeds. It ends as the reader does: with status 0 when it took them all.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace {

using std::filesystem::path;

std::vector<path> files_in(const path& place) {
  if (!std::filesystem::is_directory(place)) return {place};
  std::vector<path> files;
  for (const auto& entry : std::filesystem::directory_iterator(place)) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// How many files; -1 where one isn't read as it must be.
int replay(const ashlar::fuzz::Target& target, const path& place) {
  const std::vector<path> files = files_in(place);
  for (const path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::fprintf(stderr, "%s %s, %zu bytes\n", target.name.data(), file.c_str(), bytes.size());
    if (in.bad() || !in.is_open()) return -1;
    try {
      target.read(bytes);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "  no typed error: %s\n", error.what());
      return -1;
    }
  }
  return static_cast<int>(files.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const ashlar::fuzz::Target* target = ashlar::fuzz::find_target(argv[1]);
    if (target == nullptr || argc == 2) return 2;
    return std::all_of(argv + 2, argv + argc, [&](const char* place) { return replay(*target, place) > 0; }) ? 0 : 1;
  }
  for (const ashlar::fuzz::Target& target : ashlar::fuzz::kTargets) {
    if (replay(target, path(ASHLAR_FUZZ_SEEDS) / target.name) <= 0) return 1;
  }
}
