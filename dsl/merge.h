// Reductions of several values at once, joined by a function of the author's: how a state begins, takes in an element
// and is merged with another one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dsl/value.h"

namespace ashlar::dsl {

/// The values of one state, or of one element.
using Values = std::vector<Value>;

/// A reduction to a state of one or several values. A schedule splits it over vector lanes, threads, work-groups and
/// passes, so `merge` has to be associative, and elements are taken in any order:
///   merge(init, s) = s = merge(s, init)                      also where Halide can't see it: no 0/0 of two empty
///   states step(merge(a, b), x) = merge(a, step(b, x))              as far as rounding lets them agree
/// The state's types are those of step(init, element).
struct Merge {
  Values init;  ///< of no elements
  std::function<Values(const Values& state, const Values& element)> step;
  std::function<Values(const Values& a, const Values& b)> merge;
};

/// What a stage that is reduced by a Merge takes in: `element` at each index of the axis.
struct Merging {
  Values element;
  Merge merge;
  /// step(init, element): the state of that element alone.
  Values first() const { return merge.step(merge.init, element); }
  /// init in that state's types.
  std::vector<Expr> start() const;
};

/// A scan: at each index of the axis `variable`, the merge of all elements up to it, which stay in order. `merge` has
/// to be associative, and init to change nothing on either side.
struct Scanning {
  Merging merging;
  std::string variable;
  std::vector<Halide::Func> scratch = {};  ///< for the states of blocks, if the kernel has it (schedules/scan.h)
};

/// func(index) = values; a Tuple of them where there are several.
void define(Halide::Func func, const std::vector<Halide::Var>& index, const std::vector<Expr>& values);

/// The update func(at) = values, all values worked out before the first is stored: Halide 21 overlooks reads of `func`
/// inside a call such as exp(func(at)[0]), and would then store one value before the next is worked out. `values` may
/// read `func` at other places, too.
void update_at_once(Halide::Func func, const std::vector<Expr>& at, const std::vector<Expr>& values);

/// func(at), the i-th value of it.
Expr value_at(const Halide::Func& func, const std::vector<Expr>& at, int i);
/// All of them.
std::vector<Expr> values_at(const Halide::Func& func, const std::vector<Expr>& at);

std::vector<Expr> expressions_of(const Values& values);

}  // namespace ashlar::dsl
