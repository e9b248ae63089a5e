#include "dsl/merge.h"

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;

// Puts a variable in place of every value of `function` that is read.
class OldValues : public IRGraphMutator {
 public:
  // `at`: where the update stores, whose old values are held first.
  OldValues(const Function& function, const std::vector<Expr>& at) : function_(function) {
    for (int i = 0; i < function.outputs(); i++) hold_read(Call::make(function, at, i));
  }
  // `value` below a let for each old value, so that they are seen to be read whatever stands around the reads.
  Expr hold(const Expr& value) {
    Expr held = mutate(value);
    for (auto read = reads_.rbegin(); read != reads_.rend(); ++read) held = Let::make(read->first, read->second, held);
    return held;
  }

 private:
  using IRGraphMutator::visit;
  Expr visit(const Call* call) override {
    if (call->call_type != Call::Halide || call->name != function_.name()) return IRGraphMutator::visit(call);
    for (const auto& [name, read] : reads_) {
      if (equal(read, call)) return Variable::make(call->type, name);
    }
    return Variable::make(call->type, hold_read(call));
  }
  const std::string& hold_read(const Expr& read) {
    return reads_.emplace_back(unique_name(function_.name() + "_old"), read).first;
  }
  Function function_;
  std::vector<std::pair<std::string, Expr>> reads_;
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
  OldValues old(function, update.args());
  for (Expr& value : update.values()) value = old.hold(value);
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
