#include "dsl/build/ptx_overlap.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "dsl/build/ptx_text.h"

namespace ashlar::dsl {
namespace {

// Whether a line says what registers there are, or works with them and parameters alone. Any other may touch memory, or
// part threads.
bool is_of_registers(const std::string& code) {
  static constexpr std::array kInstructions{"abs.",      "add.",  "and.", "bfe.",  "cvt.",  "cvta.", "div.", "fma.",
                                            "ld.param.", "lop3.", "mad.", "max.",  "min.",  "mov.",  "mul.", "mul24.",
                                            "neg.",      "not.",  "or.",  "popc.", "prmt.", "rcp.",  "rem.", "selp.",
                                            "setp.",     "shf.",  "shl.", "shr.",  "sub.",  "xor."};
  return code.empty() || code.starts_with(".reg ") || code.starts_with(".local ") ||
         std::ranges::any_of(kInstructions, [&](const char* start) { return code.starts_with(start); });
}

}  // namespace

std::string overlapping(const std::string& ptx) {
  std::istringstream in(ptx::for_architecture(ptx, kOverlapArchitecture));
  std::string result;
  enum { outside, head, begins } at = outside;
  for (std::string line; std::getline(in, line);) {
    const std::string code = ptx::code_of(line);
    if (code.find(".entry ") != std::string::npos) at = head;
    if (at == begins && !is_of_registers(code)) {
      result += "\tgriddepcontrol.wait;\n";
      at = outside;
    }
    result += line + "\n";
    if (at == head && code == "{") {
      result += "\tgriddepcontrol.launch_dependents;\n";
      at = begins;
    }
  }
  return result;
}

}  // namespace ashlar::dsl
