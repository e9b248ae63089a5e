// Shapes that between them reach every branch of a broadcasting kernel's schedules.
#pragma once

#include <string>
#include <vector>

#include "tests/conformance/case.h"

namespace ashlar::conformance {

/// Shapes of the operands, which are broadcast together.
struct Broadcast {
  std::string name;
  std::vector<Shape> shapes;
};

/// Two operands: dense, rows, columns, scalars, more axes than a kernel has, and the large ones.
std::vector<Broadcast> broadcasts_of_two();
/// Two operands of so many elements that a thread has several: rows that are whole vectors and of no element type,
/// short and long enough for several vectors of a thread.
std::vector<Broadcast> large_broadcasts_of_two();
/// Of so many elements, of three dimensions that don't become fewer: matrices of many elements and of few.
std::vector<Shape> large_matrices();
/// Any number of operands, each in turn as a row, a column and a scalar among the others' full shapes.
std::vector<Broadcast> broadcasts_of_one_among(size_t operands);
/// Three operands: as above, with each of them in turn as the one that is broadcast.
std::vector<Broadcast> broadcasts_of_three();

/// A Case::vary: operands of any ranks; each axis is all operands', or stretched in some, or missing in front of some.
Case with_other_broadcasting(const Case& like, Random& random);

}  // namespace ashlar::conformance
