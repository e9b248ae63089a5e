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

/// Two operands: dense, rows, columns, scalars, and more axes than a kernel has; rows that are whole vectors (aligned)
/// and of no element type (odd), short and long enough for several vectors of a thread.
std::vector<Broadcast> broadcasts_of_two();
/// Three operands: as above, with each of them in turn as the one that is broadcast.
std::vector<Broadcast> broadcasts_of_three();

}  // namespace ashlar::conformance
