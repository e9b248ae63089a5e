// Taking a kernel's stages apart and putting them together again in another shape: how a family turns one plain
// algorithm into the several that its target wants. The algorithm itself is left as its author wrote it.
#pragma once

#include <Halide.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "dsl/merge.h"

namespace ashlar::dsl {

/// Gives the expression that replaces a call of a Func, from the call's (already rewritten) coordinates and, where the
/// Func has several values, from which of them is read.
class CallRule {
 public:
  CallRule() = default;
  template <class F>
  CallRule(F rule) {
    if constexpr (std::is_invocable_v<F, const std::vector<Halide::Expr>&, int>)
      rule_ = std::move(rule);
    else
      rule_ = [rule = std::move(rule)](const std::vector<Halide::Expr>& at, int) -> Halide::Expr { return rule(at); };
  }
  Halide::Expr operator()(const std::vector<Halide::Expr>& at, int value) const { return rule_(at, value); }

 private:
  std::function<Halide::Expr(const std::vector<Halide::Expr>&, int)> rule_;
};

/// Replaces variables and calls of Funcs by name. Calls of other Funcs that are one plain formula are written out, so
/// that what they call in turn is replaced as well.
struct Rewrite {
  std::map<std::string, Halide::Expr> variables = {};
  std::map<std::string, CallRule> calls = {};
  std::set<std::string> kept = {};  ///< Funcs whose calls stay calls, of rewritten coordinates
  Halide::Expr operator()(const Halide::Expr& expression) const;
};

/// Outputs and scratch of the kernel.
std::set<std::string> names_in_memory();

/// A reduction stage, f(index) = start; f(index) = combine(f(index), value(k)) for k in [0, extent) where `condition`;
/// or one of a state of several values, joined by its author's merge (dsl/merge.h). starts(), states() and merge()
/// serve both; what speaks of one value refuses a stage that has a merge.
class ReductionStage {
 public:
  /// Throws Halide::CompileError when `func` isn't of that shape: one update over one reduction variable, combined by a
  /// merge, or of one value combined by +, max or min.
  explicit ReductionStage(const Halide::Func& func);

  const std::string& name() const { return name_; }
  const std::vector<Halide::Var>& index() const { return index_; }
  /// Of the widest value.
  Halide::Type type() const;
  const Halide::Expr& start() const;
  /// The state of no elements.
  const std::vector<Halide::Expr>& starts() const { return starts_; }
  bool has_merge() const { return merging_.has_value(); }
  /// The state of the element at k alone.
  std::vector<Halide::Expr> state(const Halide::Expr& k, Rewrite rewrite) const;
  /// `state` where the condition holds, else that of no elements.
  std::vector<Halide::Expr> state_if(const Halide::Expr& condition, const std::vector<Halide::Expr>& state) const;
  /// The state of two sets together; of many, merged as a balanced tree.
  std::vector<Halide::Expr> merge(const std::vector<Halide::Expr>& a, const std::vector<Halide::Expr>& b) const;
  std::vector<Halide::Expr> merge(std::vector<std::vector<Halide::Expr>> states) const;
  const Halide::Expr& extent() const { return extent_; }
  /// value(k), with k in place of the reduction variable and `rewrite` applied.
  Halide::Expr value(const Halide::Expr& k, Rewrite rewrite) const;
  /// True when the axis has a condition of the form k + a < b with a and b free of k: the first `length` of k are then
  /// reduced, a number that may differ between indices. Any other condition is checked at every k.
  bool has_length() const { return length_.defined(); }
  /// How many k are reduced at most: the condition's, or all.
  Halide::Expr length(const Rewrite& rewrite) const;
  /// What has to be checked at each k below length(); true where nothing has.
  Halide::Expr condition(const Halide::Expr& k, Rewrite rewrite) const;
  Halide::Expr combine(const Halide::Expr& a, const Halide::Expr& b) const;
  /// A value combined twice counts once: true for maxima and minima.
  bool is_idempotent() const { return !has_merge() && operator_ != Operator::add; }
  /// `parts` combined as a balanced tree.
  Halide::Expr combine(std::vector<Halide::Expr> parts) const;
  /// A maximum over values (rank(k) << 32) | index(k), 32 bits each, where a later k has the smaller index: the ranks
  /// decide, and of equal ones the first. Only where nothing has to be checked at each k.
  bool is_ranked() const { return rank_.defined(); }
  Halide::Expr rank(const Halide::Expr& k, Rewrite rewrite) const;
  /// The value at k, whose rank is known.
  Halide::Expr key(const Halide::Expr& rank, const Halide::Expr& k, Rewrite rewrite) const;

 private:
  enum class Operator { add, max, min };
  std::string name_;
  std::vector<Halide::Var> index_;
  std::vector<Halide::Expr> starts_;
  std::optional<Merging> merging_;
  Halide::Expr value_, condition_, extent_, length_, rank_, index_of_key_;
  std::string variable_;
  Operator operator_ = Operator::add;
  void refuse(const std::string& what) const;
  void refuse_merge() const;
};

/// The values of a Func's plain definition; the reference lets a schedule replace them before it is lowered.
std::vector<Halide::Expr>& values_of(Halide::Func func);

/// How many operations an expression is, common ones counted once; loads, constants and variables are none.
int operations_of(const Halide::Expr& expression);
/// Puts `replacement` in place of every part of `expression` that is the same formula as `part`. Unchanged (same_as)
/// where there is none.
Halide::Expr replace_part(const Halide::Expr& expression, const Halide::Expr& part, const Halide::Expr& replacement);

/// Every input buffer that `func` reads, directly or through other Funcs, each once.
std::vector<Halide::Parameter> inputs_of(const Halide::Func& func);

/// Elements per access of a GPU thread: 16 bytes of the widest type that `func` loads or stores, and no more, since
/// wider ones crash LLVM's PTX back end.
int lanes_of_access(const Halide::Func& func);

/// An input's hidden outermost dimension starts at minus its view's offset: this is that start.
Halide::Expr hidden_min(const Halide::Parameter& input);
/// Whether the view of an input that this Func reads begins at a multiple of `lanes`.
Halide::Expr begins_aligned(const Halide::Func& input, int lanes);
/// True where every line along the innermost dimension begins at a multiple of `lanes`: of an input, of an output, or
/// of dense inputs that `out` reads and of `out` itself, whose lines are whole numbers of such runs as well.
Halide::Expr lines_are_aligned(const Halide::Parameter& input, int lanes);
Halide::Expr lines_are_aligned(const Halide::OutputImageParam& output, int lanes);
Halide::Expr lines_are_aligned(const Halide::Func& out, int lanes);
/// Symbolic extent and stride of an input's dimension, innermost first.
Halide::Expr extent_of(const Halide::Parameter& input, int dimension);
Halide::Expr stride_of(const Halide::Parameter& input, int dimension);

}  // namespace ashlar::dsl
