#include "runtime/cpu/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <span>
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

// A thread works through a range of its own before it helps others: what it wrote or read in the loop before, of the
// same shape, is still in its cache. (With pieces taken in turn mul of 39615 numbers took two threads 6.7 µs, one 5.2.)
struct ThreadPool::Loop {
  static constexpr int kMostRanges = 64;
  struct alignas(64) Range {
    mutable int next;  // by std::atomic_ref: a loop writes no more ranges than it has
    int end;
    std::atomic_ref<int> shared_next() const { return std::atomic_ref(next); }
    bool has_pieces() const { return shared_next().load(std::memory_order_relaxed) < end; }
  };

  Loop(void* of_context, Task of_task, int of_first, int size, uint8_t* of_closure, int threads)
      : context(of_context), task(of_task), first(of_first), closure(of_closure) {
    count = std::min({threads, size, kMostRanges});
    for (int64_t i = 0; i < count; i++) {
      const auto before = [&](int64_t ranges) { return static_cast<int>((size * ranges + count - 1) / count); };
      ranges[i].next = before(i);
      ranges[i].end = before(i + 1);
    }
  }

  bool has_pieces() const {
    return std::any_of(ranges, ranges + count, [](const Range& range) { return range.has_pieces(); });
  }

  /// From the range of the thread of that number on.
  void take_pieces(int thread) noexcept {
    inside_a_piece = true;
    for (int i = 0; i < count; i++) {
      Range& range = ranges[(thread + i) % count];
      while (range.has_pieces()) {
        const int piece = range.shared_next().fetch_add(1, std::memory_order_relaxed);
        if (piece >= range.end) break;
        if (const int result = task(context, first + piece, closure)) {
          int none = 0;
          error.compare_exchange_strong(none, result);
          for (const Range& each : std::span(ranges, static_cast<size_t>(count))) {
            each.shared_next().store(each.end, std::memory_order_relaxed);
          }
        }
      }
    }
    inside_a_piece = false;
  }

  void* context;
  Task task;
  int first;
  uint8_t* closure;
  int count;
  Range ranges[kMostRanges];
  std::atomic<int> error{0};
  std::atomic<int> guests{0};  // workers inside, who come under the pool's mutex and leave without it
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
  for (Worker& worker : workers_) worker.thread.join();
}

void ThreadPool::start_workers() {
  try {
    workers_.reserve(static_cast<size_t>(threads_) - 1);
    loops_.reserve(64);
    while (static_cast<int>(workers_.size()) < threads_ - 1) {
      workers_.emplace_back();
      try {
        workers_.back().thread = std::thread([this, thread = static_cast<int>(workers_.size())] { work(thread); });
      } catch (...) {
        workers_.pop_back();
        throw;
      }
    }
    started_ = true;
  } catch (const std::system_error&) {  // no more threads to be had: those there are do the work
    started_ = true;
  } catch (const std::bad_alloc&) {  // perhaps there's memory for them at the next loop
  }
}

int ThreadPool::run(void* context, Task task, int first, int size, uint8_t* closure) noexcept {
  if (size <= 1 || threads_ == 1 || inside_a_piece) return run_inline(context, task, first, size, closure);
  Loop loop(context, task, first, size, closure, threads_);
  {
    std::lock_guard lock(mutex_);
    if (!started_) start_workers();
    if (loops_.size() == loops_.capacity()) return run_inline(context, task, first, size, closure);
    loops_.push_back(&loop);
    move_sleepers_off_this_processor(size - 1);
  }
  // Behind the mutex, so that a worker who looks out for it doesn't wait for it.
  opened_.fetch_add(1, std::memory_order_release);
  if (size > static_cast<int>(workers_.size())) {
    wake_.notify_all();
  } else {
    for (int i = 1; i < size; ++i) wake_.notify_one();
  }
  loop.take_pieces(0);
  finish(loop);
  return loop.error.load(std::memory_order_relaxed);
}

// Linux may wake a thread on the processor of whoever wakes it and leave it there behind that thread's work, though
// others idle (2 virtual processors, 6.18: half of all loops after 60 ms without one took two threads as long as one).
// Until it runs, a sleeper therefore has all of its processors but this one. Where that fails, it runs where it may.
void ThreadPool::move_sleepers_off_this_processor(int most) {
  const int here = sched_getcpu();
  if (here < 0 || here >= CPU_SETSIZE) return;
  for (Worker& worker : workers_) {
    if (most <= 0) return;
    if (!worker.is_asleep || worker.is_moved) continue;
    most--;
    const pthread_t thread = worker.thread.native_handle();
    if (pthread_getaffinity_np(thread, sizeof worker.processors, &worker.processors) != 0) return;
    cpu_set_t others = worker.processors;
    CPU_CLR(here, &others);
    worker.is_moved = CPU_COUNT(&others) > 0 && pthread_setaffinity_np(thread, sizeof others, &others) == 0;
  }
}

void ThreadPool::finish(Loop& loop) {
  {
    std::lock_guard lock(mutex_);
    std::erase(loops_, &loop);  // nobody joins it any more
  }
  for (int i = 0; i < kPolls; ++i) {
    if (loop.guests.load(std::memory_order_acquire) == 0) return;
    __builtin_ia32_pause();
  }
  std::unique_lock lock(mutex_);
  sleeping_callers_++;
  left_.wait(lock, [&loop] { return loop.guests == 0; });
  sleeping_callers_--;
}

// The loop is its caller's, who may be gone with it once the last guest has left.
void ThreadPool::leave(Loop& loop) {
  if (--loop.guests > 0 || sleeping_callers_ == 0) return;
  { std::lock_guard lock(mutex_); }  // a caller who has seen this guest inside waits by now
  left_.notify_all();
}

ThreadPool::Loop* ThreadPool::join_a_loop() {
  for (Loop* loop : loops_) {
    if (!loop->has_pieces()) continue;
    loop->guests.fetch_add(1, std::memory_order_relaxed);
    return loop;
  }
  return nullptr;
}

void ThreadPool::work(int thread) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const int64_t seen = opened_.load(std::memory_order_relaxed);
    if (Loop* loop = join_a_loop()) {
      const bool are_others = loops_.size() > 1;
      lock.unlock();
      loop->take_pieces(thread);
      leave(*loop);
      if (are_others) {
        lock.lock();
        continue;
      }
    } else {
      lock.unlock();
    }
    bool found = false;
    for (int i = 0; i < kPolls && !found; ++i) {
      __builtin_ia32_pause();
      found = opened_.load(std::memory_order_acquire) != seen;
    }
    lock.lock();
    if (!found) sleep(lock, workers_[static_cast<size_t>(thread) - 1]);
  }
}

void ThreadPool::sleep(std::unique_lock<std::mutex>& lock, Worker& self) {
  const auto has_work = [this] {
    return stopping_ || std::ranges::any_of(loops_, [](const Loop* loop) { return loop->has_pieces(); });
  };
  self.is_asleep = true;
  wake_.wait(lock, has_work);
  self.is_asleep = false;
  if (self.is_moved) pthread_setaffinity_np(pthread_self(), sizeof self.processors, &self.processors);
  self.is_moved = false;
}

}  // namespace ashlar::detail
