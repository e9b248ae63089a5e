// C++ written from the kernels' descriptors: their constant tables, typed functions and differentiable versions.
#pragma once

#include <filesystem>
#include <string>

namespace ashlar::dsl {

/// NAME.h (typed functions in namespace ashlar) and NAME.cpp (they, and the KernelInfo tables) in `folder`.
void emit_operators(const std::string& name, const std::filesystem::path& folder);

/// NAME.h and NAME.cpp with the differentiable versions (namespace ashlar::ad) of the kernels that have gradients.
void emit_gradients(const std::string& name, const std::filesystem::path& folder);

}  // namespace ashlar::dsl
