#include "dsl/merge.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

// Puts a variable in place of every value of `function` that is read.
class OldValues : public IRGraphMutator {
 public:
  explicit OldValues(const Function& function) : function_(function) {
    for (int i = 0; i < function.outputs(); i++) names_.push_back(unique_name(function.name() + "_old"));
  }
  // `value` below a let for each old value, so that they are seen to be read whatever stands around the reads.
  Expr hold(const Expr& value, const std::vector<Expr>& at) {
    Expr held = mutate(value);
    for (int i = function_.outputs() - 1; i >= 0; i--) {
      held = Let::make(names_[static_cast<size_t>(i)], Call::make(function_, at, i), held);
    }
    return held;
  }

 private:
  using IRGraphMutator::visit;
  Expr visit(const Call* call) override {
    if (call->call_type != Call::Halide || call->name != function_.name()) return IRGraphMutator::visit(call);
    return Variable::make(call->type, names_[static_cast<size_t>(call->value_index)]);
  }
  Function function_;
  std::vector<std::string> names_;
};

// Many merges share what they read: written out, a tree of them would grow without bound.
Halide::Tuple shared_parts_once(const std::vector<Expr>& values) {
  std::vector<Expr> short_values;
  for (const Expr& value : values) short_values.push_back(common_subexpression_elimination(value));
  return Halide::Tuple(short_values);
}

}  // namespace

std::vector<Expr> expressions_of(const Values& values) { return {values.begin(), values.end()}; }

std::vector<Expr> Merging::start() const {
  std::vector<Expr> start;
  const Values typed = first();
  if (typed.size() != merge.init.size()) {
    mistake("a reduction's step gives " + std::to_string(typed.size()) + " values for a state of " +
            std::to_string(merge.init.size()) + "; give as many as init has");
  }
  for (size_t i = 0; i < typed.size(); i++) start.push_back(merge.init[i].as(typed[i].type()));
  return start;
}

void define(Halide::Func func, const std::vector<Halide::Var>& index, const std::vector<Expr>& values) {
  if (values.size() == 1)
    func(index) = values[0];
  else
    func(index) = shared_parts_once(values);
}

void update_at_once(Halide::Func func, const std::vector<Expr>& at, const std::vector<Expr>& values) {
  if (values.size() == 1) {
    func(at) = values[0];
    return;
  }
  func(at) = shared_parts_once(values);
  Function function = func.function();
  Definition& update = function.update(static_cast<int>(function.updates().size()) - 1);
  OldValues old(function);
  for (Expr& value : update.values()) value = old.hold(value, update.args());
}

Expr value_at(const Halide::Func& func, const std::vector<Expr>& at, int i) {
  return func.outputs() == 1 ? Expr(func(at)) : Expr(func(at)[i]);
}

std::vector<Expr> values_at(const Halide::Func& func, const std::vector<Expr>& at) {
  std::vector<Expr> values;
  for (int i = 0; i < static_cast<int>(func.outputs()); i++) values.push_back(value_at(func, at, i));
  return values;
}

}  // namespace ashlar::dsl
