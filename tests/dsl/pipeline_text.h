// What small pipelines become, as text to look into.
#pragma once

#include <string>

#include "dsl/build/instances.h"
#include "dsl/kernel.h"

namespace ashlar::dsl {

/// The PTX of a pipeline, or the error's text.
template <class Pipeline>
std::string ptx_or_error(int capability = 80) {
  const Halide::Internal::ScopedValue<Halide::Target> keep(Descriptor::target);  // other tests count on the host's
  try {
    const auto kernel = Pipeline::create(Halide::GeneratorContext(halide_target("cuda", capability)));
    const Halide::Module module = kernel->build_module("f");
    return static_cast<const char*>(module.get_device_code_buffer().data());
  } catch (const Halide::Error& error) {
    return error.what();
  }
}

/// How often `part` stands in `text`.
inline size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) found++;
  return found;
}

}  // namespace ashlar::dsl
