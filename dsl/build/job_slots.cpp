#include "dsl/build/job_slots.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

namespace ashlar::dsl {

JobSlot::JobSlot(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  for (int slot = 0;; slot = (slot + 1) % processors()) {
    const std::string file = folder / std::to_string(slot);
    file_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file_ < 0) throw std::runtime_error("can't write " + file);
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    close(file_);
    if (slot + 1 == processors()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

JobSlot::~JobSlot() {
  if (file_ >= 0) close(file_);
}

int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace ashlar::dsl
