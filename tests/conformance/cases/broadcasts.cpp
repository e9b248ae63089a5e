#include "tests/conformance/cases/broadcasts.h"

#include <algorithm>
#include <iterator>

#include "tests/conformance/draw.h"

namespace ashlar::conformance {
namespace {

// Of 65536 elements and more, since fewer go to a thread each. Rows of whole vectors: short, one tile, some tiles and a
// rest, many; and rows of no whole vectors.
const Shape kFull[] = {{1027, 64}, {17, 4096}, {17, 4104}, {7, 12296}, {2003, 33}, {67, 1031}};

// The same of three dimensions that don't become fewer: matrices of many elements and of few.
const Shape kMatrices[] = {{37, 15, 131}, {3001, 3, 9}};

std::string matrices_of(const Shape& full) { return "matrices_of_" + std::to_string(full[2]); }
Shape middle_of(const Shape& full) { return {full[0], 1, full[2]}; }

std::string name_of(const Shape& full) { return std::to_string(full[0]) + "x" + std::to_string(full[1]); }

}  // namespace

std::vector<Shape> large_matrices() { return {std::begin(kMatrices), std::end(kMatrices)}; }

std::vector<Broadcast> broadcasts_of_two() {
  std::vector<Broadcast> all{
      {"row", {{5, 33}, {33}}},      {"left_row", {{33}, {5, 33}}},
      {"column", {{5, 33}, {5, 1}}}, {"left_column", {{5, 1}, {5, 33}}},
      {"outer", {{7, 1}, {1, 9}}},   {"scalar", {{5, 33}, {}}},
      {"left_scalar", {{}, {129}}},  {"middle", {{2, 3, 4}, {2, 1, 4}}},
      {"rank0", {{}, {}}},           {"rank6", {{2, 1, 3, 1, 2, 1}, {1, 2, 1, 3, 1, 5}}},
      {"empty_row", {{0, 4}, {4}}},
  };
  std::ranges::move(large_broadcasts_of_two(), std::back_inserter(all));
  return all;
}

std::vector<Broadcast> large_broadcasts_of_two() {
  std::vector<Broadcast> all{{"scalar_of_66003", {{66003}, {}}}, {"left_scalar_of_66003", {{}, {66003}}}};
  for (const Shape& full : kFull) {
    const Shape row{full[1]}, column{full[0], 1};
    all.push_back({"row_of_" + name_of(full), {full, row}});
    all.push_back({"column_of_" + name_of(full), {full, column}});
    all.push_back({"left_column_of_" + name_of(full), {column, full}});
  }
  for (const Shape& full : kMatrices) all.push_back({matrices_of(full), {full, middle_of(full)}});
  return all;
}

std::vector<Broadcast> broadcasts_of_one_among(size_t operands) {
  std::vector<Broadcast> all;
  for (const Shape& full : kFull) {
    const Shape row{full[1]}, column{full[0], 1};
    for (const auto& [name, other] : {std::pair{"row_of_", row}, {"column_of_", column}, {"scalar_of_", Shape{}}}) {
      for (size_t i = 0; i < operands; ++i) {
        Broadcast one{"operand_" + std::to_string(i) + "_" + name + name_of(full), std::vector<Shape>(operands, full)};
        one.shapes[i] = other;
        all.push_back(std::move(one));
      }
    }
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
    all.push_back({"row_and_column_of_" + name_of(full), {full, {full[1]}, {full[0], 1}}});
  }
  for (const Shape& full : kMatrices) all.push_back({matrices_of(full), {full, middle_of(full), {full[2]}}});
  std::ranges::move(broadcasts_of_one_among(3), std::back_inserter(all));
  return all;
}

Case with_other_broadcasting(const Case& like, Random& random) {
  Case item = like;
  const Shape full = symbols(static_cast<int>(random.pick<int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8})), random);
  const bool same_shapes = random.chance(0.3);
  for (Input& input : item.inputs) {
    const double stretched = same_shapes ? 0 : random.pick({0.0, 0.0, 0.3, 0.6});
    const int missing = same_shapes || random.chance(0.6) ? 0 : static_cast<int>(random.below(full.rank() + 1));
    input.shape = {};
    for (int i = missing; i < full.rank(); ++i) input.shape.push_back(random.chance(stretched) ? 1 : full[i]);
  }
  return item;
}

}  // namespace ashlar::conformance
