#include "runtime/opencl/split_program.h"

#include <memory>
#include <new>
#include <vector>

namespace ashlar::detail::opencl {
namespace {

// Building anything takes drivers 0.1 s (PoCL) or less: shorter programs are built whole.
constexpr size_t kShortest = 96 << 10;

constexpr std::string_view kKernel = "__kernel void ", kDefine = "#define ";

// Where a kernel's part begins: with the definitions of its arguments' address spaces in the lines before it.
size_t begin_of_part(std::string_view source, size_t kernel) {
  while (kernel > 0) {
    const size_t newline = kernel >= 2 ? source.rfind('\n', kernel - 2) : std::string_view::npos;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if (source.substr(line, kDefine.size()) != kDefine) break;
    kernel = line;
  }
  return kernel;
}

}  // namespace

std::map<std::string, std::string, std::less<>> kernels_of(std::string_view source) {
  std::vector<size_t> kernels;
  for (size_t at = source.find(kKernel); at != std::string_view::npos; at = source.find(kKernel, at + 1)) {
    if (at == 0 || source[at - 1] == '\n') kernels.push_back(at);
  }
  std::map<std::string, std::string, std::less<>> parts;
  if (kernels.empty()) return parts;
  const std::string_view head = source.substr(0, begin_of_part(source, kernels[0]));
  for (size_t i = 0; i < kernels.size(); i++) {
    const size_t begin = begin_of_part(source, kernels[i]);
    const size_t end = i + 1 < kernels.size() ? begin_of_part(source, kernels[i + 1]) : source.size();
    const size_t name = kernels[i] + kKernel.size(), open = source.find('(', name);
    parts.emplace(source.substr(name, open - name), std::string(head).append(source.substr(begin, end - begin)));
  }
  return parts;
}

bool SplitProgram::suits(std::string_view source) noexcept { return source.size() >= kShortest; }

SplitProgram* SplitProgram::make(cl_context context, std::string_view source) noexcept {
  try {
    auto split = std::make_unique<SplitProgram>();
    split->context_ = context;
    for (auto& [name, part] : kernels_of(source)) split->parts_[name].source = part;
    made_.fetch_add(1, std::memory_order_release);
    return split.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

SplitProgram* SplitProgram::of(cl_program handle) noexcept {
  const auto address = reinterpret_cast<uintptr_t>(handle);
  if (address % 2 == 0) return nullptr;
  made_.load(std::memory_order_acquire);
  return reinterpret_cast<SplitProgram*>(address - 1);
}

bool SplitProgram::set_options(cl_device_id device, const char* options) noexcept {
  const std::lock_guard lock(mutex_);
  device_ = device;
  try {
    options_ = options;
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace ashlar::detail::opencl
