#include "runtime/cpu/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "runtime/support/environment.h"

namespace ashlar::detail {
namespace {

// Waking a sleeper costs tens of microseconds, about as much as a small loop: workers and callers look around this
// many times (up to a tenth of a millisecond, longer than what lies between two kernels of a program) before they
// sleep.
constexpr int kPolls = 5000;

thread_local bool inside_a_piece = false;

int run_inline(void* context, ThreadPool::Task task, int first, int size, uint8_t* closure) noexcept {
  for (int i = 0; i < size; ++i) {
    if (const int error = task(context, first + i, closure)) return error;
  }
  return 0;
}

}  // namespace

struct ThreadPool::Loop {
  void* context;
  Task task;
  int first;
  int size;
  uint8_t* closure;
  std::atomic<int> next{0};
  std::atomic<int> error{0};
  std::atomic<int> guests{0};  // workers inside; changed under the pool's mutex

  bool has_pieces() const { return next.load(std::memory_order_relaxed) < size; }

  void take_pieces() noexcept {
    inside_a_piece = true;
    while (has_pieces()) {
      const int i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= size) break;
      if (const int result = task(context, first + i, closure)) {
        int none = 0;
        error.compare_exchange_strong(none, result);
        next.store(size, std::memory_order_relaxed);
      }
    }
    inside_a_piece = false;
  }
};

ThreadPool& ThreadPool::instance() {
  // Never destroyed: kernels may still run while statics are being destroyed.
  static ThreadPool& pool = *new ThreadPool(environment().threads);
  return pool;
}

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) {}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start_workers() {
  try {
    workers_.reserve(static_cast<size_t>(threads_) - 1);
    loops_.reserve(64);
    while (static_cast<int>(workers_.size()) < threads_ - 1) workers_.emplace_back([this] { work(); });
    started_ = true;
  } catch (const std::system_error&) {  // no more threads to be had: those there are do the work
    started_ = true;
  } catch (const std::bad_alloc&) {  // perhaps there's memory for them at the next loop
  }
}

int ThreadPool::run(void* context, Task task, int first, int size, uint8_t* closure) noexcept {
  if (size <= 1 || threads_ == 1 || inside_a_piece) return run_inline(context, task, first, size, closure);
  Loop loop{.context = context, .task = task, .first = first, .size = size, .closure = closure};
  {
    std::lock_guard lock(mutex_);
    if (!started_) start_workers();
    if (loops_.size() == loops_.capacity()) return run_inline(context, task, first, size, closure);
    loops_.push_back(&loop);
    open_loops_.store(static_cast<int>(loops_.size()), std::memory_order_release);
  }
  if (size > static_cast<int>(workers_.size())) {
    wake_.notify_all();
  } else {
    for (int i = 1; i < size; ++i) wake_.notify_one();
  }
  loop.take_pieces();
  finish(loop);
  return loop.error.load(std::memory_order_relaxed);
}

void ThreadPool::finish(Loop& loop) {
  {
    std::lock_guard lock(mutex_);
    std::erase(loops_, &loop);
    open_loops_.store(static_cast<int>(loops_.size()), std::memory_order_release);
  }
  for (int i = 0; i < kPolls && loop.guests.load(std::memory_order_acquire) > 0; ++i) __builtin_ia32_pause();
  std::unique_lock lock(mutex_);  // also what makes the loop outlive its last guest's notification
  left_.wait(lock, [&loop] { return loop.guests.load(std::memory_order_relaxed) == 0; });
}

ThreadPool::Loop* ThreadPool::join_a_loop() {
  for (Loop* loop : loops_) {
    if (!loop->has_pieces()) continue;
    loop->guests.fetch_add(1, std::memory_order_relaxed);
    return loop;
  }
  return nullptr;
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (Loop* loop = join_a_loop()) {
      lock.unlock();
      loop->take_pieces();
      lock.lock();
      loop->guests.fetch_sub(1, std::memory_order_release);
      left_.notify_all();
      continue;
    }
    if (stopping_) return;
    lock.unlock();
    bool found = false;
    for (int i = 0; i < kPolls && !found; ++i) {
      __builtin_ia32_pause();
      found = open_loops_.load(std::memory_order_acquire) > 0;
    }
    lock.lock();
    const auto has_work = [this] {
      return stopping_ || std::ranges::any_of(loops_, [](const Loop* loop) { return loop->has_pieces(); });
    };
    wake_.wait(lock, has_work);
  }
}

}  // namespace ashlar::detail
