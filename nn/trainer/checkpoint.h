// Everything that a training needs to go on, in one file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "nn/module.h"

namespace ashlar::nn {

/// Tensors in parts ("model", "optimizer", …), as safetensors under "<part>.<name>".
class Checkpoint {
 public:
  /// Tensors share storage until write().
  void add(const std::string& part, const NamedTensors& tensors);
  /// A part's tensors, without its name. Throws ValueError where there is no such part.
  NamedTensors part(const std::string& part) const;

  /// The file has all of it or is what it was: written beside, flushed to disk, renamed. Throws as write_safetensors().
  void write(const std::filesystem::path& file) const;
  /// Throws as read_safetensors().
  static Checkpoint read(const std::filesystem::path& file);

 private:
  NamedTensors tensors_;
};

}  // namespace ashlar::nn
