// Dim: an axis that a kernel's arguments have in common.
#pragma once

#include "dsl/reduce.h"

namespace ashlar::dsl {

/// A named axis. A kernel declares its axes before the arguments that have them:
///
///   Dim rows{"rows"}, columns{"columns"};
///   In<T, 2> x{"x", {rows, columns}};
///   In<T, 1> gain{"gain", {columns}};
///   Out<T, 1> mean{"mean", {rows}};
///
/// The first input with an axis says how long it is; every other tensor with it must agree, in a caller's shapes as in
/// algorithm()'s indices.
class Dim {
 public:
  explicit Dim(const std::string& name) : named_(std::make_shared<NamedDim>()) { named_->name = name; }

  operator Size() const { return {named_->size.text, named_->size.expr, named_}; }
  /// How many elements lie along it, for algorithm().
  Expr extent() const { return known().expr(); }
  /// A reduction index over all of it: k = columns.reduce(), in algorithm().
  Axis reduce() const { return Axis(extent(), named_->name + "_k"); }

 private:
  const Size& known() const {
    if (named_->size.is_free()) {
      mistake("the axis " + named_->name + " is used, but no input has it: name it in one, In<T, 2> x{\"x\", {rows, " +
              named_->name + "}}");
    }
    return named_->size;
  }
  std::shared_ptr<NamedDim> named_;
};

}  // namespace ashlar::dsl
