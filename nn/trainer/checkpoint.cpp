#include "nn/trainer/checkpoint.h"

#include "nn/safetensors.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

void Checkpoint::add(const std::string& part, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) tensors_.emplace_back(part + "." + name, tensor);
}

NamedTensors Checkpoint::part(const std::string& part) const {
  NamedTensors result;
  const std::string prefix = part + ".";
  for (const auto& [name, tensor] : tensors_) {
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), tensor);
  }
  if (!result.empty()) return result;
  throw ValueError("Checkpoint", "no part \"" + part + "\"", "a checkpoint that has it",
                   "Go on with the file that this training wrote");
}

void Checkpoint::write(const std::filesystem::path& file) const { write_safetensors(file, tensors_); }

Checkpoint Checkpoint::read(const std::filesystem::path& file) {
  Checkpoint result;
  result.tensors_ = read_safetensors(file).tensors;
  return result;
}

}  // namespace ashlar::nn
