#include "dsl/build/opencl_source.h"

#include <map>
#include <sstream>
#include <stdexcept>

namespace ashlar::dsl {
namespace {

// Definitions by the function's name; @ is the name for a number of elements, $ that number, nothing for one.
const std::map<std::string, std::string> kFunctions = {
    {"ashlar_bf16_from_f32",  // as Element<bf16>::store
     "ushort$ @(float$ f) { uint$ u = as_uint$(f); uint$ rounded = (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;\n"
     "return convert_ushort$(select(rounded, (u >> 16u) | 0x40u, (u & 0x7fffffffu) > 0x7f800000u)); }\n"},
    {"ashlar_f32_from_f16", "float$ @(ushort$ h) { return vload_half$(0, (const half*)&h); }\n"},
    {"ashlar_f16_from_f32", "ushort$ @(float$ f) { ushort$ h; vstore_half$_rte(f, 0, (half*)&h); return h; }\n"},
};

// The same in one instruction for every two elements, where runtime/opencl says that the compiler knows it.
std::string bf16_by_ptx(const std::string& name, int width) {
  const std::string lanes = width == 1 ? "" : std::to_string(width);
  std::string text = "ushort" + lanes + " " + name + "(float" + lanes + " f) { ";
  if (width == 1) return text + "ushort h; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(f)); return h; }\n";
  constexpr const char* kDigits = "0123456789abcdef";
  std::string words;
  for (int pair = 0; pair < width / 2; pair++) {
    const std::string word = std::string("w") + kDigits[pair];
    text += "uint " + word + "; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(" + word + ") : \"f\"(f.s" +
            kDigits[2 * pair + 1] + "), \"f\"(f.s" + kDigits[2 * pair] + ")); ";
    words += (pair == 0 ? "" : ", ") + word;
  }
  const std::string pairs = width == 2 ? "" : std::to_string(width / 2);
  return text + "return as_ushort" + lanes + "((uint" + pairs + ")(" + words + ")); }\n";
}

std::string replaced(std::string text, char what, const std::string& by) {
  for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, 1, by);
  return text;
}

// "float8 _5 = function(_4);" calls it with eight elements.
std::string width_of(const std::string& assignment) {
  const size_t end = assignment.find(' '), digits = assignment.find_last_not_of("0123456789", end - 1) + 1;
  return assignment.substr(digits, end - digits);
}

}  // namespace

std::string rewrite_opencl(const std::string& source) {
  std::map<std::string, std::string> definitions;
  std::string program;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t"), comment = line.find("//");
    if (begin == std::string::npos || begin == comment) continue;
    line = line.substr(begin, comment == std::string::npos ? comment : comment - begin);
    line.erase(line.find_last_not_of(" \t") + 1);
    if (line == "barrier(0);") line = "barrier(CLK_LOCAL_MEM_FENCE);";
    const size_t call = line.find("= ashlar_");
    if (call != std::string::npos) {
      const size_t name = call + 2, open = line.find('(', name);
      const std::string function = line.substr(name, open - name), width = width_of(line);
      const auto known = kFunctions.find(function);
      if (known == kFunctions.end()) throw std::runtime_error("no definition of " + function + " for OpenCL");
      const std::string own = width.empty() ? function : function + "_" + width;
      std::string& definition = definitions[own];
      definition = replaced(replaced(known->second, '$', width), '@', own);
      if (function == "ashlar_bf16_from_f32") {
        definition = "#ifdef ASHLAR_PTX_BF16\n" + bf16_by_ptx(own, width.empty() ? 1 : std::stoi(width)) + "#else\n" +
                     definition + "#endif\n";
      }
      line.replace(name, function.size(), own);
    }
    program += line + '\n';
  }
  std::string result;
  for (const auto& [name, definition] : definitions) result += definition;
  return result + program;
}

}  // namespace ashlar::dsl
