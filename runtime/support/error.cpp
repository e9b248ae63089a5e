#include "runtime/support/error.h"

namespace ashlar {
namespace {

std::string compose(std::string_view operation, std::string_view came, std::string_view needed,
                    std::string_view remedy) {
  std::string text;
  text.reserve(operation.size() + came.size() + needed.size() + remedy.size() + 24);
  text.append(operation).append(": got ").append(came).append("; needed ").append(needed).append(".");
  if (!remedy.empty()) text.append(" ").append(remedy);
  if (text.back() != '.') text.push_back('.');
  return text;
}

}  // namespace

Error::Error(std::string_view operation, std::string_view came, std::string_view needed, std::string_view remedy)
    : std::runtime_error(compose(operation, came, needed, remedy)), operation_(operation) {}

}  // namespace ashlar
