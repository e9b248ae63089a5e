// What the texts of composed operators have in common (OperatorDescription::composed): templates over T, which is
// Tensor or Var.
//
// A text calls operators by their plain names: functions of Tensors or recording ones, whichever T asks for. So a file
// that calls it with Vars has included ashlar/ad.h and ashlar/var_arithmetic.h first, as the build's own files have.
#pragma once

#include <string>

#include "runtime/support/error.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {
namespace ad {}
namespace recipes {}
}  // namespace ashlar

namespace ashlar::composed {

using namespace ashlar::ad;
using namespace ashlar::recipes;

template <class T>
const Tensor& value_of(const T& x) {
  if constexpr (std::same_as<T, Tensor>) {
    return x;
  } else {
    return x.value();
  }
}

/// As errors show it.
template <class T>
std::string shown(const T& x) {
  return x.defined() ? value_of(x).str() : "none";
}

/// One size for each of as many axes as `otherwise` has: those given, one for all of them, or none: `otherwise`. Throws
/// ValueError naming `operation`.
inline Shape sizes_of(const char* operation, const Shape& given, const Shape& otherwise) {
  const int axes = otherwise.rank();
  if (given.empty()) return otherwise;
  if (given.rank() == axes) return given;
  if (given.rank() == 1) return Shape::filled(axes, given[0]);
  throw ValueError(operation, "sizes " + given.str(), "one number, or " + std::to_string(axes),
                   "Give a number for each axis behind the channels");
}

/// The same where there's no size to take otherwise.
inline Shape needed_sizes(const char* operation, const char* name, const Shape& given, int axes) {
  if (given.empty()) {
    throw ValueError(operation, std::string("no ") + name, "one number, or " + std::to_string(axes),
                     std::string("Give ") + name);
  }
  return sizes_of(operation, given, Shape::filled(axes, 1));
}

/// One size of a window over one axis as that over images of one row.
inline Shape in_row(const char* operation, const Shape& given, int64_t otherwise, int64_t of_rows) {
  return {of_rows, sizes_of(operation, given, {otherwise})[0]};
}

/// x [n, channels, length] or [channels, length] as images of one row. Throws ShapeError.
template <class T>
T as_rows(const char* operation, const T& x) {
  const int rank = x.shape().rank();
  if (rank == 2 || rank == 3) return x.unsqueeze(-2);
  throw ShapeError(operation, shown(x), "[n, channels, length] or [channels, length]", "Reshape it");
}

/// x [n, channels, depth, height, width], or without n: an n of 1 is put in front. Throws ShapeError.
template <class T>
T as_volumes(const char* operation, const T& x, int64_t channels) {
  const int rank = x.shape().rank();
  if ((rank == 4 || rank == 5) && x.size(-4) == channels) return rank == 4 ? x.unsqueeze(0) : x;
  throw ShapeError(operation, shown(x), "[n, " + std::to_string(channels) + ", depth, height, width], or without n",
                   "Give a weight for the channels of x, or reshape it");
}

}  // namespace ashlar::composed
