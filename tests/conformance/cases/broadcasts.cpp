#include "tests/conformance/cases/broadcasts.h"

namespace ashlar::conformance {
namespace {

// Rows of whole vectors: short, one tile, some tiles and a rest, many; and rows of no whole vectors.
const Shape kFull[] = {{67, 64}, {3, 4096}, {3, 4104}, {3, 12296}, {67, 33}, {3, 1031}};

std::string name_of(const Shape& full) { return std::to_string(full[0]) + "x" + std::to_string(full[1]); }

}  // namespace

std::vector<Broadcast> broadcasts_of_two() {
  std::vector<Broadcast> all{
      {"row", {{5, 33}, {33}}},      {"left_row", {{33}, {5, 33}}},
      {"column", {{5, 33}, {5, 1}}}, {"left_column", {{5, 1}, {5, 33}}},
      {"outer", {{7, 1}, {1, 9}}},   {"scalar", {{5, 33}, {}}},
      {"left_scalar", {{}, {129}}},  {"middle", {{2, 3, 4}, {2, 1, 4}}},
      {"rank0", {{}, {}}},           {"rank6", {{2, 1, 3, 1, 2, 1}, {1, 2, 1, 3, 1, 5}}},
      {"empty_row", {{0, 4}, {4}}},
  };
  for (const Shape& full : kFull) {
    const Shape row{full[1]}, column{full[0], 1};
    all.push_back({"row_of_" + name_of(full), {full, row}});
    all.push_back({"column_of_" + name_of(full), {full, column}});
    all.push_back({"left_column_of_" + name_of(full), {column, full}});
  }
  return all;
}

std::vector<Broadcast> broadcasts_of_three() {
  std::vector<Broadcast> all{
      {"1027", {{1027}, {1027}, {1027}}},
      {"rows_and_columns", {{5, 33}, {33}, {5, 1}}},
      {"scalars", {{5, 33}, {}, {1}}},
      {"outer", {{1, 9}, {7, 1}, {7, 9}}},
      {"rank6", {{2, 1, 3, 1, 2, 1}, {1, 2, 1, 3, 1, 5}, {2, 1}}},
      {"empty", {{0, 4}, {4}, {0, 1}}},
  };
  for (const Shape& full : kFull) {
    const Shape row{full[1]}, column{full[0], 1};
    all.push_back({"row_and_column_of_" + name_of(full), {full, row, column}});
    for (const auto& [name, other] : {std::pair{"row_of_", row}, {"column_of_", column}, {"scalar_of_", Shape{}}}) {
      for (size_t i = 0; i < 3; ++i) {
        Broadcast one{"operand_" + std::to_string(i) + "_" + name + name_of(full), {full, full, full}};
        one.shapes[i] = other;
        all.push_back(std::move(one));
      }
    }
  }
  return all;
}

}  // namespace ashlar::conformance
