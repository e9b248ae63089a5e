// What the parts of generic() have in common: an output as loops over its elements, and how its two kinds are
// scheduled.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schedules/lowering/own_reductions.h"

namespace ashlar::dsl::detail {

inline constexpr int kThreadsOfGeneric = 256;

/// A Func that lives in memory.
struct GenericOutput {
  explicit GenericOutput(const Halide::Func& func);
  Halide::Expr elements() const;
  /// The elements along some of its indices.
  Halide::Expr elements(const std::vector<Var>& vars) const;

  Halide::Func out;
  std::vector<Var> index;                    ///< innermost first
  std::vector<Halide::Expr> extent, stride;  ///< likewise
};

/// All of `vars` as one loop.
Var fused(Halide::Stage stage, const std::vector<Var>& vars, const std::string& name);

/// Several values may overwrite what others are made of, element by element: all are there before the first is stored.
std::optional<Halide::Func> hold(const Halide::Func& out, std::vector<Halide::Expr>& values);

/// Inputs whose innermost stride isn't known to be 1.
std::vector<Halide::Parameter> strided_inputs(const Halide::Func& out);

/// Innermost strides that get a branch of their own: all 1, and of two such inputs each in turn 0.
struct InnermostStrides {
  Halide::Expr hold;
  std::string repeated;  ///< the input whose stride is 0, or none
};
std::vector<InnermostStrides> known_strides(const Halide::Func& out);

/// `rows` as tasks; the loop over those of one. There are `count` of them, each of that much `work`.
Var task_loop(Halide::Stage stage, const std::vector<Var>& rows, const Halide::Expr& count, const Halide::Expr& work);

/// Elements that need no reduction. `values`: what they are, without calls of stages that aren't in memory.
void generic_elements_cpu(const GenericOutput& o);
void generic_elements_gpu(const GenericOutput& o, const std::vector<Halide::Expr>& values);

/// Elements that read reductions.
void generic_reductions(const Halide::Func& out, OwnReductions reductions, bool is_gpu);

}  // namespace ashlar::dsl::detail
