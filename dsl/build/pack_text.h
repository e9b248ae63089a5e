// Text for runtime/support/packed_text.h.
#pragma once

#include <string>

namespace ashlar::dsl {

/// Packs text in which much is repeated: OpenCL C to a fifth.
std::string pack_text(const std::string& text);

}  // namespace ashlar::dsl
