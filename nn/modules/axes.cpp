#include "nn/modules/axes.h"

#include <string>

#include "runtime/support/error.h"

namespace ashlar::nn {

Shape for_each_axis(std::string_view operation, const Shape& given, int axes) {
  if (given.rank() == axes) return given;
  if (given.rank() == 1) return Shape::filled(axes, given[0]);
  throw ValueError(operation, "sizes " + given.str(), "one number, or " + std::to_string(axes),
                   "Give a number for each axis behind the channels");
}

}  // namespace ashlar::nn
