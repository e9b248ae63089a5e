#include "tests/nn/killed.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>

#include "tests/nn/temporary_folder.h"

namespace ashlar::testing {
namespace {

/// For at most that long. Whether it came to its end.
bool run_child(const std::string& test, const std::filesystem::path& folder,
               std::optional<std::chrono::microseconds> limit) {
  setenv(kChildFolder, folder.c_str(), 1);
  std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::string filter = "--gtest_filter=" + test, brief = "--gtest_brief=1";
  char* arguments[] = {program.data(), filter.data(), brief.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  unsetenv(kChildFolder);
  if (limit) {
    std::this_thread::sleep_for(*limit);
    kill(child, SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

void expect_same_bits_when_killed(const std::string& test, const std::vector<std::string>& files) {
  const TemporaryFolder unbroken;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(run_child(test, unbroken.path(), {}));
  auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int killed = 0;
  const char* rounds = std::getenv(kKillRounds);
  for (int round = 0; round < (rounds != nullptr ? std::stoi(rounds) : 4); round++) {
    const TemporaryFolder broken;
    for (int attempt = 0; attempt < 2; attempt++) {
      std::uniform_int_distribution<int64_t> moments(whole.count() / 8, whole.count() * 7 / 8);
      const std::chrono::microseconds limit(moments(random));
      killed += run_child(test, broken.path(), limit) ? 0 : 1;
      if (killed == 0) whole = limit;  // it takes no longer than that; the first one, on a busy machine, may have
    }
    ASSERT_TRUE(run_child(test, broken.path(), {}));
    for (const std::string& file : files) {
      EXPECT_EQ(read_bytes(broken / file), read_bytes(unbroken / file)) << file;
    }
  }
  EXPECT_GT(killed, 0);
}

}  // namespace ashlar::testing
