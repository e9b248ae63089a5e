// One instance of a kernel with one setting, compiled: an object, and beside it what tests and tools want to know of
// it.
#pragma once

#include <filesystem>
#include <string>

#include "dsl/build/code_cache.h"
#include "dsl/build/device_code.h"
#include "dsl/build/instances.h"

namespace ashlar::dsl {

/// What everything that a generator compiles is compiled for and with.
struct Compiling {
  std::string code_target;
  int cuda_capability;
  DeviceTools tools;
  CodeCache cache;
};

/// What a compiled instance consists of, beside `folder`/`symbol`.o: .functions names its GPU functions; .cost is what
/// compiling it took, as cost_of() reads it; .ptx and .ptxas are device_code.h's.
struct Cost {
  double seconds;  ///< of one processor, tools included
  uint64_t bytes;  ///< of the object
};
Cost cost_of(const std::filesystem::path& folder, const std::string& symbol);

/// The key by which an instance is kept in the cache, and whether it came from there.
struct InstanceCode {
  std::string key;
  bool was_kept;
};

/// Compiles into `folder`, or takes from the cache what was compiled of the same lowered kernel by the same tools. To
/// be called in a process of its own (compile.h says why).
InstanceCode compile_instance(const Build& build, const Setting& setting, const Compiling& with,
                              const std::string& symbol, const std::filesystem::path& folder);
/// Takes one by its key. False where the cache doesn't have it.
bool fetch_instance(const std::string& key, const Compiling& with, const std::filesystem::path& folder);

}  // namespace ashlar::dsl
