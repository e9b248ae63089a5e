#include "runtime/cpu/cpu_device.h"

#include <cpuid.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "runtime/cpu/cpu_memory.h"
#include "runtime/cpu/thread_pool.h"
#include "runtime/device/stream_state.h"
#include "runtime/support/environment.h"

namespace ashlar::detail {
namespace {

class CpuStream final : public StreamState {
 public:
  explicit CpuStream(DeviceState& owner) : StreamState(owner) {}

  void synchronize() override {}
  void wait(StreamState&) override {}

  void write(uint64_t destination, int64_t offset, const void* source, int64_t bytes) override {
    std::memmove(at(destination, offset), source, static_cast<size_t>(bytes));
  }
  void read(void* destination, uint64_t source, int64_t offset, int64_t bytes) override {
    std::memmove(destination, at(source, offset), static_cast<size_t>(bytes));
  }
  void copy(uint64_t destination, int64_t destination_offset, uint64_t source, int64_t source_offset,
            int64_t bytes) override {
    std::memmove(at(destination, destination_offset), at(source, source_offset), static_cast<size_t>(bytes));
  }
  void copy_rows(uint64_t destination, int64_t destination_offset, int64_t destination_pitch, uint64_t source,
                 int64_t source_offset, int64_t source_pitch, int64_t row_bytes, int64_t rows) override {
    for (int64_t row = 0; row < rows; ++row) {
      copy(destination, destination_offset + row * destination_pitch, source, source_offset + row * source_pitch,
           row_bytes);
    }
  }

 private:
  static char* at(uint64_t base, int64_t offset) { return reinterpret_cast<char*>(base) + offset; }
};

class CpuDevice final : public DeviceState {
 public:
  CpuDevice() : DeviceState(Device::cpu()) {}

  uint64_t allocate(int64_t bytes) noexcept override {
    constexpr size_t kAlignment = 256;
    return reinterpret_cast<uint64_t>(allocate_cpu_memory(static_cast<size_t>(bytes), kAlignment));
  }
  void release(uint64_t handle) noexcept override { std::free(reinterpret_cast<void*>(handle)); }
  std::shared_ptr<StreamState> make_stream() override { return std::make_shared<CpuStream>(*this); }
  int64_t output_alignment() const override { return 1; }
};

// By the processor, its operating system and ASHLAR_CPU.
CodeTarget widest_code() noexcept {
  const std::string& limit = environment().cpu;
  unsigned int a, b, c = 0, d;
  const bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  // The built-ins also ask whether the operating system saves the wide registers.
  if (limit == "baseline" || !has_f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return CodeTarget::cpu;
  }
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl");
  return has_avx512 && limit != "avx2" ? CodeTarget::cpu_avx512 : CodeTarget::cpu_avx2;
}

std::atomic<CodeTarget>& picked_code() noexcept {
  static std::atomic<CodeTarget> code{widest_code()};
  return code;
}

}  // namespace

DeviceState& open_cpu_device() {
  ThreadPool::instance();  // kernels ask for it where nothing may be thrown
  return *new CpuDevice;
}

std::string cpu_description() {
  unsigned int words[12] = {};
  for (unsigned int i = 0; i < 3; ++i) {
    unsigned int* w = words + 4 * i;
    if (!__get_cpuid(0x80000002u + i, &w[0], &w[1], &w[2], &w[3])) return "x86-64 processor";
  }
  const char* text = reinterpret_cast<const char*>(words);
  std::string name(text, strnlen(text, sizeof(words)));
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

std::string cpu_driver() {
  const CodeTarget code = cpu_code_target();
  const char* name = code == CodeTarget::cpu_avx512 ? "AVX-512" : code == CodeTarget::cpu_avx2 ? "AVX2" : "baseline";
  return std::string(name) + " kernels, " + std::to_string(ThreadPool::instance().threads()) + " threads";
}

int cpu_vector_bytes() noexcept {
  static const int bytes = [] {
    constexpr unsigned int kAuthenticAmd = 0x68747541, kZen4 = 0x19;  // CPUID's first letters; its family
    unsigned int a = 0, b = 0, c = 0, d = 0;
    const bool is_amd = __get_cpuid(0, &a, &b, &c, &d) && b == kAuthenticAmd;
    if (!is_amd || !__get_cpuid(1, &a, &b, &c, &d)) return 64;
    const unsigned int family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
    return family <= kZen4 ? 32 : 64;
  }();
  return bytes;
}

CodeTarget cpu_code_target() noexcept { return picked_code().load(std::memory_order_relaxed); }

CodeTarget set_cpu_code_target(CodeTarget widest) noexcept {
  static const CodeTarget most = widest_code();  // asking a virtual machine's processor takes long
  return picked_code().exchange(std::min(widest, most));
}

}  // namespace ashlar::detail
