#include "schedules/lowering/group_shape.h"

namespace ashlar::dsl {

using Halide::Expr;

Expr GroupShape::read_row(const Var& row, const Expr& rows) const {
  return is_line ? Halide::min(row, rows - 1) : Expr(row);
}

Var GroupShape::over_threads(Halide::Stage stage, const Var& x, const Var& y) const {
  if (!is_line) {
    stage.gpu_threads(x, y);
    return x;
  }
  const Var thread("thread_of_line");
  stage.fuse(x, y, thread).gpu_threads(thread);
  return thread;
}

void GroupShape::bound_rows(Halide::Func func, const Var& row, int rows) const {
  func.bound_storage(row, rows);
  if (is_line) func.bound_extent(row, rows);
}

}  // namespace ashlar::dsl
