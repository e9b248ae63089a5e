// The reductions below one Func that lives in memory, as Funcs of their own: two outputs that read one stage, or one
// that reads it at two places, then schedule it each in its way.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

/// A reduction stage at the coordinates at which a reader reads it: a Func of those of the reader's variables that
/// occur in them.
struct OwnReduction {
  std::string stage;                      ///< the original's name
  std::vector<Halide::Expr> coordinates;  ///< at which it is read
  Halide::Func func;                      ///< of `index`; reads earlier ones at their own index
  std::vector<Var> index;                 ///< innermost first, in the reader's order
};

struct OwnReductions {
  std::vector<Halide::Expr> values;  ///< the reader's, with plain stages written out and calls of the Funcs below
  std::vector<OwnReduction> all;     ///< in the order in which they need each other
};

/// Of the `values` of a reader with these variables. `in_memory` are Funcs that are read where they lie. Throws
/// Halide::CompileError where a stage is written at computed places, or a reduction is read inside another one's loop.
OwnReductions own_reductions(const std::vector<Halide::Expr>& values, const std::vector<std::string>& variables,
                             const std::set<std::string>& in_memory);

/// A copy of a reduction for one loop nest, with calls of the Funcs in `results` redirected.
Halide::Func copy_of(const OwnReduction& reduction, const std::string& suffix,
                     const std::map<std::string, Halide::Func>& results);

/// `values` with calls redirected likewise.
std::vector<Halide::Expr> redirected(const std::vector<Halide::Expr>& values,
                                     const std::map<std::string, Halide::Func>& results);

/// True where an index of the reduction itself runs along some tensor's innermost dimension.
bool is_along_innermost(const OwnReduction& reduction);

}  // namespace ashlar::dsl
