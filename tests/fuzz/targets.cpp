#include "tests/fuzz/targets.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace ashlar::fuzz {
namespace {

/// In memory where the system has such a place.
struct Folder {
  Folder() {
    const bool has_memory = ::access("/dev/shm", W_OK) == 0;
    std::string name = (has_memory ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) /
                       "ashlar-fuzz-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "a temporary folder");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

const Target* find_target(std::string_view name) {
  const auto* found = std::ranges::find(kTargets, name, &Target::name);
  if (found != std::end(kTargets)) return found;
  std::fprintf(stderr, "no reader '%.*s'; there are:", static_cast<int>(name.size()), name.data());
  for (const Target& target : kTargets) std::fprintf(stderr, " %s", target.name.data());
  std::fputc('\n', stderr);
  return nullptr;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

std::filesystem::path file_with(Bytes bytes, const char* name) {
  static const Folder folder;
  const std::filesystem::path file = folder.path / name;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  out.close();
  require(out.good(), "an input file that could be written");
  return file;
}

}  // namespace ashlar::fuzz
