#include "schedules/lowering/own_reductions.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using namespace Halide::Internal;

namespace {

// The variables of an expression: indices of stages, and indices of reductions.
class Indices : public IRGraphVisitor {
 public:
  std::set<std::string> vars, axes;

 private:
  using IRGraphVisitor::visit;
  void visit(const Variable* v) override {
    if (v->reduction_domain.defined()) {
      axes.insert(v->name);
    } else if (!v->param.defined() && !v->image.defined()) {
      vars.insert(v->name);
    }
  }
};

Indices indices_of(const std::vector<Expr>& expressions) {
  Indices indices;
  for (const Expr& e : expressions) e.accept(&indices);
  return indices;
}

bool all_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < a.size(); i++) {
    if (!graph_equal(a[i], b[i])) return false;
  }
  return true;
}

void define(Func func, const std::vector<Var>& index, const std::vector<Expr>& values) {
  if (values.size() == 1)
    func(index) = values[0];
  else
    func(index) = Halide::Tuple(values);
}
void update(Func func, const std::vector<Var>& index, const std::vector<Expr>& values) {
  const std::vector<Expr> at(index.begin(), index.end());
  if (values.size() == 1)
    func(at) = values[0];
  else
    func(at) = Halide::Tuple(values);
}

using Variables = std::map<std::string, Expr>;
using Expand = std::function<Expr(const Expr&, const Variables&)>;

// Gives `copy` the definitions of `original`, every expression brought through `expand` with these variables replaced.
void copy_definitions(const Function& original, Func copy, const std::vector<Var>& index, const Variables& variables,
                      const Expand& expand) {
  const auto all = [&](const std::vector<Expr>& values, const Variables& replaced) {
    std::vector<Expr> expanded;
    for (const Expr& value : values) expanded.push_back(common_subexpression_elimination(expand(value, replaced)));
    return expanded;
  };
  define(copy, index, all(original.definition().values(), variables));
  for (const Definition& step : original.updates()) {
    Variables replaced = variables;
    const std::vector<ReductionVariable>& axes = step.schedule().rvars();
    if (!axes.empty()) {
      Halide::Region region;
      for (const ReductionVariable& axis : axes)
        region.emplace_back(expand(axis.min, variables), expand(axis.extent, variables));
      Halide::RDom domain(region);
      for (size_t i = 0; i < axes.size(); i++) replaced[axes[i].var] = domain[static_cast<int>(i)];
      if (!is_const_one(step.predicate())) domain.where(expand(step.predicate(), replaced));
    }
    update(copy, index, all(step.values(), replaced));
  }
}

// Writes plain stages out, and makes an OwnReduction of each reduction that is read.
class Expander {
 public:
  Expander(const std::vector<std::string>& variables, const std::set<std::string>& in_memory,
           std::vector<OwnReduction>& all)
      : order_(variables), in_memory_(in_memory), all_(all) {}

  Expr operator()(const Expr& e, const Variables& variables, const std::string& self = {}, Func own = {}) {
    Mutator mutator(*this, variables, self, std::move(own));
    return mutator.mutate(substitute_in_all_lets(e));
  }

 private:
  struct WrittenOut {
    std::string name;
    int value;
    std::vector<Expr> coordinates;
    Expr result;
  };

  class Mutator : public IRGraphMutator {
   public:
    Mutator(Expander& owner, const Variables& variables, std::string self, Func own)
        : owner_(owner), variables_(variables), self_(std::move(self)), own_(std::move(own)) {}

   private:
    using IRGraphMutator::visit;
    Expr visit(const Variable* variable) override {
      const auto found = variables_.find(variable->name);
      return found == variables_.end() ? Expr(variable) : found->second;
    }
    Expr visit(const Call* call) override {
      if (call->call_type != Call::Halide) return IRGraphMutator::visit(call);
      std::vector<Expr> at;
      for (const Expr& argument : call->args) at.push_back(mutate(argument));
      if (call->name == self_) {
        const std::vector<Var> index = own_.args();
        return Call::make(own_.function(), {index.begin(), index.end()}, call->value_index);
      }
      const Function callee(call->func);
      if (owner_.in_memory_.contains(call->name) || callee.has_extern_definition() || !callee.has_pure_definition())
        return Call::make(callee, at, call->value_index);
      return callee.has_update_definition() ? owner_.reduction(callee, at, call->value_index)
                                            : owner_.written_out(callee, at, call->value_index);
    }
    Expander& owner_;
    const Variables& variables_;
    const std::string self_;
    const Func own_;
  };

  static Variables at(const Function& function, const std::vector<Expr>& coordinates) {
    Variables variables;
    for (size_t i = 0; i < coordinates.size(); i++) variables[function.args()[i]] = coordinates[i];
    return variables;
  }

  Expr written_out(const Function& stage, const std::vector<Expr>& coordinates, int value) {
    for (const WrittenOut& one : written_out_) {
      if (one.name == stage.name() && one.value == value && all_equal(one.coordinates, coordinates)) return one.result;
    }
    const Expr result = (*this)(stage.definition().values()[static_cast<size_t>(value)], at(stage, coordinates));
    written_out_.push_back({stage.name(), value, coordinates, result});
    return result;
  }

  Expr reduction(const Function& stage, const std::vector<Expr>& coordinates, int value) {
    const std::string name = plain_name(stage.name());
    const std::string in_scratch = ": keep it in memory, as Scratch<f32, " + std::to_string(stage.dimensions()) + "> " +
                                   name + "{\"" + name + "\", {…}}, which generic() computes before what reads it";
    for (const OwnReduction& one : all_) {
      if (one.stage == stage.name() && all_equal(one.coordinates, coordinates)) return call(one, value);
    }
    const Indices indices = indices_of(coordinates);
    if (!indices.axes.empty()) {
      mistake("the reduction " + name + " is read inside another reduction's loop" + in_scratch);
    }
    for (const Definition& step : stage.updates()) {
      for (size_t d = 0; d < step.args().size(); d++) {
        const Variable* index = step.args()[d].as<Variable>();
        if (index == nullptr || index->name != stage.args()[d]) {
          mistake("stage " + name + " is updated at other places than its own index" + in_scratch);
        }
      }
    }
    OwnReduction own{stage.name(), coordinates, Func(name + "_of"), {}};
    for (const std::string& variable : order_) {
      if (indices.vars.contains(variable)) own.index.emplace_back(variable);
    }
    // Reductions that it reads come before it in the list.
    copy_definitions(stage, own.func, own.index, at(stage, coordinates), [&](const Expr& e, const Variables& replaced) {
      return (*this)(e, replaced, stage.name(), own.func);
    });
    all_.push_back(own);
    return call(own, value);
  }

  static Expr call(const OwnReduction& own, int value) {
    return Call::make(Func(own.func).function(), {own.index.begin(), own.index.end()}, value);
  }

  const std::vector<std::string> order_;
  const std::set<std::string>& in_memory_;
  std::vector<OwnReduction>& all_;
  std::vector<WrittenOut> written_out_;
};

class Redirect : public IRGraphMutator {
 public:
  Redirect(const std::map<std::string, Func>& results, const Variables& variables)
      : results_(results), variables_(variables) {}

 private:
  using IRGraphMutator::visit;
  Expr visit(const Variable* variable) override {
    const auto found = variables_.find(variable->name);
    return found == variables_.end() ? Expr(variable) : found->second;
  }
  Expr visit(const Call* call) override {
    const auto found = call->call_type == Call::Halide ? results_.find(call->name) : results_.end();
    if (found == results_.end()) return IRGraphMutator::visit(call);
    std::vector<Expr> at;
    for (const Expr& argument : call->args) at.push_back(mutate(argument));
    return Call::make(Func(found->second).function(), at, call->value_index);
  }
  const std::map<std::string, Func>& results_;
  const Variables& variables_;
};

// Looks for loads whose innermost coordinate has one of `axes`.
class AlongInnermost : public IRGraphVisitor {
 public:
  explicit AlongInnermost(std::set<std::string> axes) : axes_(std::move(axes)) {}
  bool found = false;

 private:
  using IRGraphVisitor::visit;
  void visit(const Call* call) override {
    IRGraphVisitor::visit(call);
    const bool is_load = call->call_type == Call::Image || call->call_type == Call::Halide;
    if (!is_load || call->args.empty()) return;
    for (const std::string& axis : indices_of({call->args[0]}).axes) found = found || axes_.contains(axis);
  }
  const std::set<std::string> axes_;
};

}  // namespace

OwnReductions own_reductions(const std::vector<Expr>& values, const std::vector<std::string>& variables,
                             const std::set<std::string>& in_memory) {
  OwnReductions own;
  Expander expand(variables, in_memory, own.all);
  for (const Expr& value : values) own.values.push_back(expand(value, {}));
  return own;
}

Func copy_of(const OwnReduction& reduction, const std::string& suffix, const std::map<std::string, Func>& results) {
  Func copy(plain_name(reduction.stage) + suffix);
  const Function original = reduction.func.function();
  std::map<std::string, Func> redirected = results;
  redirected[original.name()] = copy;
  copy_definitions(original, copy, reduction.index, {}, [&](const Expr& e, const Variables& replaced) {
    return Redirect(redirected, replaced).mutate(substitute_in_all_lets(e));
  });
  return copy;
}

std::vector<Expr> redirected(const std::vector<Expr>& values, const std::map<std::string, Func>& results) {
  std::vector<Expr> all;
  const Variables none;
  for (const Expr& value : values) all.push_back(Redirect(results, none).mutate(value));
  return all;
}

bool is_along_innermost(const OwnReduction& reduction) {
  bool found = false;
  for (const Definition& step : reduction.func.function().updates()) {
    std::set<std::string> axes;
    for (const ReductionVariable& axis : step.schedule().rvars()) axes.insert(axis.var);
    AlongInnermost along(axes);
    std::vector<Expr> walked;
    for (const Expr& value : step.values()) {
      walked.push_back(substitute_in_all_lets(value));
      walked.back().accept(&along);
    }
    found = found || along.found;
  }
  return found;
}

}  // namespace ashlar::dsl
