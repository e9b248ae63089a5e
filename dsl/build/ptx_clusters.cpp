#include "dsl/build/ptx_clusters.h"

#include <regex>
#include <sstream>

#include "dsl/build/ptx_rewriter.h"

namespace ashlar::dsl {
namespace {

const std::string kExplicit = ".explicitcluster", kShared = ".extern .shared .align 16 .b8 ashlar_shared_memory[];";

size_t head_of(const std::string& text) { return text.find(".address_size"); }

}  // namespace

namespace clusters {

std::string directives(int blocks) { return kExplicit + "\n.reqnctapercluster 1, " + std::to_string(blocks) + ", 1\n"; }

std::string give(const ptx::Marker& marker) {
  return "{\n\t.reg .b32 %ashlar_rank, %ashlar_place;\n\tmov.u32 %ashlar_rank, %cluster_ctarank;\n"
         "\tmov.u32 %ashlar_place, ashlar_shared_memory;\n"
         "\tmad.lo.u32 %ashlar_place, %ashlar_rank, 4, %ashlar_place;\n"
         "\tmapa.shared::cluster.u32 %ashlar_place, %ashlar_place, " +
         marker.arguments[1] + ";\n\tst.shared::cluster.b32 [%ashlar_place+" + std::to_string(marker.numbers[1]) +
         "], " + marker.arguments[0] + ";\n\t}";
}

std::string move_shared_memory(ptx::Lines& lines, size_t begin, size_t end) {
  static const std::regex kAccess(R"((ld|st)\.shared\.[^\[]*\[(%rd\d+)(\+-?\d+)?\].*)");
  for (size_t i = begin; i < end; i++) {
    std::string code = ptx::code_of(lines[i]);
    if (code.find(".shared") == std::string::npos || code.find("%ashlar_place") != std::string::npos) continue;
    std::smatch match;
    if (!std::regex_match(code, match, kAccess)) return code;
    const std::string address = match[2];
    code.replace(static_cast<size_t>(match.position(2)), address.size(), "%ashlar_at");
    lines[i] = "\tadd.s64 \t%ashlar_at, " + address + ", %ashlar_base;\n\t" + code;
  }
  lines[begin] =
      "\t.reg .b64 %ashlar_base, %ashlar_at;\n\tmov.u64 %ashlar_base, ashlar_shared_memory;\n" + lines[begin];
  return "";
}

std::string for_their_gpus(std::string text) {
  if (text.find(kExplicit) == std::string::npos) return text;
  text = ptx::for_architecture(text, kArchitecture);
  return text.insert(text.find('\n', head_of(text)) + 1, kShared + "\n");
}

}  // namespace clusters

std::string without_clusters(const std::string& rewritten, const std::string& original) {
  if (rewritten.find(kExplicit) == std::string::npos) return rewritten;
  std::string result = original.substr(0, head_of(original));
  std::istringstream in(rewritten.substr(head_of(rewritten)));
  bool is_left_out = false;
  for (std::string line; std::getline(in, line);) {
    if (line == kExplicit) result += "{\n\ttrap;\n";
    is_left_out = line == kExplicit || (is_left_out && line != "}");
    if (!is_left_out && line != kShared) result += line + "\n";
  }
  return result;
}

}  // namespace ashlar::dsl
