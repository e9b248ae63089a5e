// PTX as lines of text, for what rewrites it.
#pragma once

#include <string>
#include <vector>

namespace ashlar::dsl::ptx {

using Lines = std::vector<std::string>;

bool starts_with(const std::string& text, const std::string& start);
/// A line without its comment and the blanks around it.
std::string code_of(const std::string& line);
/// The registers of an instruction, in order. In PTX the first one is written, unless it is a store.
std::vector<std::string> registers_of(const std::string& code);

/// The architecture that PTX was written for, as its head says: ".target sm_80" gives "80".
std::string architecture_of(const std::string& text);
/// The same text for that architecture, unless it was written for it or a later one.
std::string for_architecture(const std::string& text, int architecture);

/// The call of an ashlar_marker_… function.
struct Marker {
  std::string kind;
  std::vector<int> numbers;
  std::vector<std::string> arguments;  ///< registers or constants
  std::string result;                  ///< a register; only conversions are read
  size_t first, last;                  ///< its lines, the braces included
};

}  // namespace ashlar::dsl::ptx
