#include "generators/row_dots.h"

namespace ashlar::dsl {

const bool registered = register_kernel<RowDots, i8>("dot_i8");

}  // namespace ashlar::dsl
