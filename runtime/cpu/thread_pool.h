// ThreadPool: runs the parallel loops of CPU kernels.
#pragma once

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace ashlar::detail {

/// A loop of `size` independent pieces, cut by the kernel's shape and never by the number of threads, so that the same
/// call gives the same bits on any number of them. Every caller works on its own loop, so loops of several callers
/// can't starve each other, and a loop inside a loop runs inline.
class ThreadPool {
 public:
  /// One piece; nonzero is an error code.
  using Task = int (*)(void* context, int index, uint8_t* closure);

  /// The process's pool, with ASHLAR_THREADS threads (the caller is one of them). Never destroyed.
  static ThreadPool& instance();

  /// `threads` >= 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// task(context, i, closure) for each i in [first, first + size). After an error no further piece is started, and
  /// the first error seen is returned, else 0. Everything that the pieces wrote is visible at return.
  int run(void* context, Task task, int first, int size, uint8_t* closure) noexcept;

 private:
  struct Loop;
  struct Worker {
    std::thread thread;
    bool is_asleep = false, is_moved = false;
    cpu_set_t processors{};  // its own, where it's moved
  };

  void start_workers();
  void work(int thread);  // the caller of a loop is number 0
  void move_sleepers_off_this_processor(int most);
  void finish(Loop& loop);
  Loop* join_a_loop();
  void leave(Loop& loop);
  void sleep(std::unique_lock<std::mutex>& lock, Worker& self);

  const int threads_;
  std::mutex mutex_;                      // guards what follows, except atomics
  std::condition_variable wake_;          // a loop was opened, or the pool stops
  std::condition_variable left_;          // a loop's last guest left it
  std::vector<Loop*> loops_;              // those that still have pieces to hand out
  std::atomic<int64_t> opened_{0};        // loops, for workers that poll before they sleep
  std::atomic<int> sleeping_callers_{0};  // until their guests leave
  std::vector<Worker> workers_;           // started by the first parallel loop
  bool started_ = false;
  bool stopping_ = false;
};

}  // namespace ashlar::detail
