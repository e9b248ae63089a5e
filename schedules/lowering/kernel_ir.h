// What the lowering passes share: the names that Halide 21 gives to things inside a GPU kernel, and its let bindings.
#pragma once

#include <Halide.h>

#include <map>
#include <string>

namespace ashlar::dsl::ir {

using Halide::Expr;
using Halide::Internal::Stmt;

/// Allocations of a Func inside a kernel are called func.0, func.1 … ; a Func's own name has no dot.
bool is_allocation_of(const std::string& allocation, const std::string& func);
/// The index of a thread within its block.
bool is_thread_index(const std::string& variable);
/// A barrier of the threads of a block.
bool is_barrier(const Stmt& statement);
Stmt make_barrier();
/// A call that stands for an instruction in the PTX until dsl/build/ptx_rewriter.h puts that instruction there.
Stmt marker(const std::string& name, std::vector<Expr> arguments = {});

/// Applies kernel() to every kernel, that is, to every outermost loop over blocks.
class EachKernel : public Halide::Internal::IRMutator {
 protected:
  using IRMutator::visit;
  virtual Stmt kernel(const Stmt& loop) = 0;
  Stmt visit(const Halide::Internal::For* op) override;
};
/// The kernel with `first` put first into its innermost loop over threads: there stands its code.
Stmt started_with(const Stmt& first, const Stmt& kernel);

/// Let bindings in scope, each written out in terms of loop variables and of what a call gave (a buffer's fields). They
/// are pushed and popped in the order of the program.
class Bindings {
 public:
  void push(const std::string& name, const Expr& value);
  /// What a call gave and vectors are written out, too.
  void push_whole(const std::string& name, const Expr& value) { bind(name, expand(value)); }
  void pop();
  Expr expand(const Expr& expression) const;

 private:
  void bind(const std::string& name, const Expr& expanded);
  std::map<std::string, Expr> values_;
  std::vector<std::pair<std::string, Expr>> hidden_;  // what each binding in force replaced, undefined where nothing
};

/// What is known where a statement stands: let bindings, and which variables are multiples of what by the conditions
/// around it.
class Scope {
 public:
  Bindings bindings;
  /// Learns from every `variable % n == 0` among the conjuncts of a condition; undo with forget().
  void assume(const Expr& condition);
  void forget() { multiples_.pop_back(); }
  /// True when `index` is certainly a multiple of `n`.
  bool is_multiple(const Expr& index, int n) const;

 private:
  std::vector<std::map<std::string, int64_t>> multiples_;
};

/// A mutator that knows what holds where it is.
class ScopedMutator : public Halide::Internal::IRMutator {
 public:
  explicit ScopedMutator(Scope& scope) : scope_(scope) {}

 protected:
  using IRMutator::visit;
  Stmt visit(const Halide::Internal::LetStmt* op) override;
  Stmt visit(const Halide::Internal::IfThenElse* op) override;
  Scope& scope_;
};

/// An index as constant + Σ factor · part, with parts that are no sums themselves, by their text. Halide's simplifier
/// leaves sums whose parts cancel.
struct Linear {
  std::map<std::string, std::pair<Expr, int64_t>> parts;  // no factor is 0
  int64_t constant = 0;
  explicit Linear(const Expr& index) { add(index, 1); }
  /// True when both have the same parts: they differ by a constant.
  bool same_parts(const Linear& other) const;

 private:
  void add(const Expr& e, int64_t factor);
};

/// Throws Halide::CompileError("<directive>(<func>): <what>").
[[noreturn]] void fail(const std::string& directive, const std::string& func, const std::string& what);
/// The text of an expression or statement, cut to a readable length.
template <class T>
std::string text(const T& node) {
  std::ostringstream out;
  out << node;
  const std::string all = out.str();
  return all.size() > 300 ? all.substr(0, 300) + " …" : all;
}

}  // namespace ashlar::dsl::ir
