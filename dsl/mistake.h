// How a mistake in a kernel's definition is told to its author.
#pragma once

#include <string>

namespace ashlar::dsl {

/// Throws Halide::CompileError "kernel NAME: WHAT", NAME being the kernel under construction on this thread. `what`
/// says what is wrong and what to write instead.
[[noreturn]] void mistake(const std::string& what);

/// Says which kernel is under construction on this thread, as long as it lives.
class NamedKernel {
 public:
  explicit NamedKernel(std::string name);
  ~NamedKernel();
  NamedKernel(const NamedKernel&) = delete;
  NamedKernel& operator=(const NamedKernel&) = delete;
  /// Empty outside any.
  static const std::string& current();

 private:
  std::string outer_;
};

/// For an error of Halide's own, which doesn't know the kernel: throws it again as mistake() does.
[[noreturn]] void tell_with_kernel(const std::string& error);

/// "total" of "total$1": a name as its author wrote it.
std::string plain_name(const std::string& halide_name);

/// True for what can be a name in C++: letters, digits and underscores, no digit first.
bool is_identifier(const std::string& text);

}  // namespace ashlar::dsl
