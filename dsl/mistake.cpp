#include "dsl/mistake.h"

#include <Halide.h>

#include <algorithm>
#include <cctype>

namespace ashlar::dsl {
namespace {
thread_local std::string kernel_name;
}

NamedKernel::NamedKernel(std::string name) : outer_(std::move(name)) { std::swap(outer_, kernel_name); }
NamedKernel::~NamedKernel() { std::swap(outer_, kernel_name); }
const std::string& NamedKernel::current() { return kernel_name; }

void mistake(const std::string& what) {
  throw Halide::CompileError(kernel_name.empty() ? what : "kernel " + kernel_name + ": " + what);
}

void tell_with_kernel(const std::string& error) {
  if (kernel_name.empty() || error.starts_with("kernel " + kernel_name + ": ")) throw Halide::CompileError(error);
  std::string text = error.starts_with("Error: ") ? error.substr(7) : error;
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  mistake(text);
}

std::string plain_name(const std::string& halide_name) { return halide_name.substr(0, halide_name.find('$')); }

bool is_identifier(const std::string& text) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 && std::ranges::all_of(text, is_word);
}

}  // namespace ashlar::dsl
