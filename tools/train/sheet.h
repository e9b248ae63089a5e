// Sheets of images that a network drew.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "runtime/tensor/tensor.h"

namespace ashlar::tools::train {

constexpr int64_t kSheetColumns = 10;
constexpr int64_t kSheetImages = 100;

/// --sheet
void add_sheet(CLI::App& command, std::string& file);
/// Throws WriteError where the file can't be written.
void check_sheet(const std::string& file);
/// images [n, height, width] in [0, 1], as a PNG; says where it is.
void write_sheet(const std::string& file, const Tensor& images);

}  // namespace ashlar::tools::train
