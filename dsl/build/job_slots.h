// A bound on how many processes compile at once, over all generators that a build runs: ninja counts each as one job,
// whatever it starts.
#pragma once

#include <filesystem>

namespace ashlar::dsl {

/// One of as many places as this machine has processors. The folder holds a file for each, locked while it is taken, so
/// that a process that dies gives its place back.
class JobSlot {
 public:
  /// Waits until one is free. An empty path is no bound.
  explicit JobSlot(const std::filesystem::path& folder);
  ~JobSlot();
  JobSlot(const JobSlot&) = delete;
  JobSlot& operator=(const JobSlot&) = delete;

 private:
  int file_ = -1;
};

/// How many processors this process may use.
int processors();

}  // namespace ashlar::dsl
