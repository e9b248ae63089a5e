#include "dsl/build/ptx_text.h"

#include <cctype>
#include <regex>
#include <stdexcept>

namespace ashlar::dsl::ptx {

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

std::string code_of(const std::string& line) {
  const std::string code = line.substr(0, line.find("//"));
  const size_t first = code.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : code.substr(first, code.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> registers_of(const std::string& code) {
  std::vector<std::string> found;
  for (size_t at = code.find('%'); at != std::string::npos; at = code.find('%', at + 1)) {
    size_t end = at + 1;
    while (end < code.size() && std::isalnum(static_cast<unsigned char>(code[end])) != 0) end++;
    found.push_back(code.substr(at, end - at));
  }
  return found;
}

std::string architecture_of(const std::string& text) {
  const std::string word = ".target sm_";
  const size_t at = text.find(word);
  if (at == std::string::npos) throw std::runtime_error("PTX without a .target");
  const size_t begin = at + word.size();
  return text.substr(begin, text.find_first_not_of("0123456789", begin) - begin);
}

std::string for_architecture(const std::string& text, int architecture) {
  if (std::stoi(architecture_of(text)) >= architecture) return text;
  static const std::regex kVersion(R"(\.version \S+)"), kTarget(R"(\.target sm_\d+)");
  const std::string changed = std::regex_replace(text, kVersion, ".version 8.0");
  return std::regex_replace(changed, kTarget, ".target sm_" + std::to_string(architecture));
}

}  // namespace ashlar::dsl::ptx
