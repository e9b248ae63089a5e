#include "dsl/build/ptx_overlap.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "dsl/build/ptx_text.h"

namespace ashlar::dsl {
namespace {

// Whether nothing outside the thread's registers can be told from when the line runs, nor whether it does.
bool is_of_registers(const std::string& code) {
  static constexpr std::array kElse{"$",   "@",  "{",   "}",    "bra",  "brx", "ret", "exit", "trap", "call", "bar",
                                    "mem", "st", "ld.", "atom", "red.", "cp.", "fence", "mapa"};
  if (code.starts_with("ld.param.")) return true;
  return std::ranges::none_of(kElse, [&](const char* start) { return code.starts_with(start); });
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
