#include "dsl/registry.h"

namespace ashlar::dsl {
namespace {

std::vector<std::string>& mistakes() {
  static std::vector<std::string> all;
  return all;
}

}  // namespace

std::vector<KernelEntry>& kernels() {
  static std::vector<KernelEntry> all;
  return all;
}

bool add_kernel(KernelEntry entry) {
  if (!is_identifier(entry.name)) {
    mistakes().push_back("kernel \"" + entry.name +
                         "\": its name becomes a C++ function's: use letters, digits and underscores alone");
  }
  for (const KernelEntry& other : kernels()) {
    if (other.name != entry.name) continue;
    mistakes().push_back("two kernels are called " + entry.name + ": give one of them another name in register_kernel");
  }
  // Whatever an instance's members and definition complain of names the kernel.
  for (Instance& instance : entry.instances) {
    if (entry.is_by_hand()) break;
    instance.create = [name = entry.name, create = instance.create](const Halide::GeneratorContext& context) {
      const NamedKernel named(name);
      try {
        return create(context);
      } catch (const Halide::CompileError& error) {
        tell_with_kernel(error.what());
      }
    };
  }
  kernels().push_back(std::move(entry));
  return true;
}

void check_kernels() {
  if (kernels().empty()) {
    throw Halide::CompileError(
        "this file registers no kernel: end it with `const bool registered = "
        "register_kernel<Class, f32, f16, bf16>(\"name\");`");
  }
  if (!mistakes().empty()) throw Halide::CompileError(mistakes().front());
}

}  // namespace ashlar::dsl
