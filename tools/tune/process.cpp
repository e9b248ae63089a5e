#include "tools/tune/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/support/error.h"

namespace ashlar::tune {

Finished run(const Command& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw DataError("ashlar-tune", "no more file descriptors", "a pipe", "");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    throw DataError("ashlar-tune", command[0] + ", which can't be started", "a program", "Build it first");
  }
  Finished finished{0, {}};
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    finished.output.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  finished.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

void in_parallel(int count, int jobs, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  std::exception_ptr error;
  std::mutex mutex;
  const auto loop = [&] {
    for (int i; (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
    }
  };
  std::vector<std::thread> threads;
  for (int j = 0; j < jobs; j++) threads.emplace_back(loop);
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace ashlar::tune
