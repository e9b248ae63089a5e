#include "generators/row_dots.h"

namespace ashlar::dsl {

const bool registered = register_kernel<RowDots, f32>("row_dots");

}  // namespace ashlar::dsl
