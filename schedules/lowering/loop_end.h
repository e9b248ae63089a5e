// Loops over a reduction that end where the data say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dsl/kernel.h"

namespace ashlar::dsl {

namespace detail {

// The lowering pass behind loop_end(): markers are calls of `name`, of what the loop's turns are below.
class EndLoop : public Halide::Internal::IRMutator {
 public:
  EndLoop(std::string name, const std::string& loop) : name_(std::move(name)), loop_("." + loop) {}

 private:
  using IRMutator::visit;
  using Expr = Halide::Expr;
  using Stmt = Halide::Internal::Stmt;

  // The first marker of an expression or statement whose end is known where `loop` begins, with lets written out.
  struct Find : Halide::Internal::IRVisitor {
    using IRVisitor::visit;
    Find(const std::string& marker, std::string loop_name) : name(marker), inner{std::move(loop_name)} {}
    void visit(const Halide::Internal::Call* op) override {
      if (op->name != name) return IRVisitor::visit(op);
      Expr end = op->args[0];
      for (size_t i = lets.size(); i-- > 0;) {
        if (Halide::Internal::expr_uses_var(end, lets[i].first)) {
          end = Halide::Internal::substitute(lets[i].first, lets[i].second, end);
        }
      }
      for (const std::string& variable : inner) {
        if (!variable.empty() && Halide::Internal::expr_uses_var(end, variable)) return;
      }
      if (!found.defined()) found = end;
    }
    template <class Op>
    void let(const Op* op) {
      op->value.accept(this);
      lets.emplace_back(op->name, op->value);
      op->body.accept(this);
      lets.pop_back();
    }
    void visit(const Halide::Internal::Let* op) override { let(op); }
    void visit(const Halide::Internal::LetStmt* op) override { let(op); }
    void visit(const Halide::Internal::For* op) override {
      inner.push_back(op->name);
      IRVisitor::visit(op);
      inner.pop_back();
    }
    const std::string& name;
    std::vector<std::string> inner;  // loops
    std::vector<std::pair<std::string, Expr>> lets;
    Expr found;
  };

  Expr visit(const Halide::Internal::Call* op) override {
    return op->name == name_ ? mutate(op->args[0]) : IRMutator::visit(op);
  }
  template <class Result, class Op>
  Result let(const Op* op) {
    Find before(name_, "");
    op->value.accept(&before);
    const Expr value = mutate(op->value);
    if (before.found.defined()) ends_.push_back(mutate(before.found));
    const Result body = mutate(op->body);
    if (before.found.defined()) ends_.pop_back();
    return Op::make(op->name, value, body);
  }
  Expr visit(const Halide::Internal::Let* op) override { return let<Expr>(op); }
  Stmt visit(const Halide::Internal::LetStmt* op) override { return let<Stmt>(op); }
  Stmt visit(const Halide::Internal::For* op) override {
    if (!op->name.ends_with(loop_)) return IRMutator::visit(op);
    Find within(name_, op->name);
    op->body.accept(&within);
    Expr end = within.found.defined() ? mutate(within.found) : ends_.empty() ? Expr() : ends_.back();
    const Expr min = mutate(op->min), extent = mutate(op->extent);
    const Expr turns = end.defined() ? Halide::max(Halide::min(extent, end - min), 0) : extent;
    return Halide::Internal::For::make(op->name, min, turns, op->for_type, op->partition_policy, op->device_api,
                                       mutate(op->body));
  }

  const std::string name_, loop_;
  std::vector<Expr> ends_;  // in enclosing lets, which loop-invariant code is moved to
};

}  // namespace detail

/// `end`, below which the turns of `loop` are that do anything: of data, or of what else Halide 21 takes no bound from.
/// What says so is in the loop, a condition of its RDom or of a stage that is computed in it, such as
/// loop < loop_end(end, loop), and that's where the loop ends in the code. The end is known before the loop begins.
inline Halide::Expr loop_end(const Halide::Expr& end, const Halide::RVar& loop) {
  const std::string name = "ashlar_end_of_" + loop.name();
  Descriptor::current->lowering_passes.push_back(std::make_shared<detail::EndLoop>(name, loop.name()));
  return Halide::Internal::Call::make(end.type(), name, {end}, Halide::Internal::Call::PureExtern);
}

}  // namespace ashlar::dsl
