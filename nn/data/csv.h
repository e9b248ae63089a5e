// Tables of numbers in text (CSV as RFC 4180 has it, with any separator).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace ashlar::nn {

struct CsvOptions {
  char separator = ',';
  bool has_header = true;    ///< the first line names the columns
  DType dtype = DType::f32;  ///< f32 or f64
  /// What stands for a field that is empty or one of `missing_words`. Without it such a field is an error.
  std::optional<double> missing = {};
  std::vector<std::string> missing_words = {"NA", "N/A", "null", "?"};
  /// Columns, by name or without a header by number, whose fields are words (or numbers taken as words): each becomes
  /// its place among the column's distinct words in ascending order of bytes.
  std::vector<std::string> categorical = {};
};

struct CsvTable {
  std::vector<std::string> columns;  ///< their names; without a header "0", "1", …
  Tensor values;                     ///< [rows, columns] on the CPU
  /// The words of each categorical column in the order of options.categorical.
  std::vector<std::vector<std::string>> categories;

  /// The values [rows] of a column. Throws ValueError on a name that none or two have.
  Tensor column(const std::string& name) const;
};

/// Lines end with \n or \r\n; a field in double quotes may hold separators, line ends and, doubled, quotes. Spaces
/// around numbers and a byte order mark are skipped. Numbers are what std::from_chars takes: 1, -2.5, 1e-3, inf, nan.
/// Throws DataError, naming line and column, on rows of different lengths, fields that are no numbers, numbers beyond
/// the dtype, quotes that don't close, and when the file can't be read or is longer than read_limit() of
/// nn/data/file.h; ValueError on options that make no sense; OutOfMemory.
CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options = {});
/// The same from memory; `name` stands in messages.
CsvTable parse_csv(std::span<const uint8_t> bytes, const std::string& name, const CsvOptions& options = {});

}  // namespace ashlar::nn
