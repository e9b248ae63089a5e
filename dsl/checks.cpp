#include "dsl/checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "dsl/mistake.h"

namespace ashlar::dsl {
namespace {

using Halide::Internal::Function;

bool has_gpu_loop(const Halide::Internal::StageSchedule& schedule) {
  for (const Halide::Internal::Dim& dim : schedule.dims()) {
    if (Halide::Internal::is_gpu(dim.for_type)) return true;
  }
  return false;
}

class DropSizeProductChecks : public Halide::Internal::IRMutator {
  using IRMutator::visit;
  Halide::Internal::Stmt visit(const Halide::Internal::AssertStmt* op) override {
    const auto* error = op->message.as<Halide::Internal::Call>();
    if (error == nullptr || error->name != "halide_error_buffer_extents_too_large") return op;
    return Halide::Internal::Evaluate::make(0);
  }
};

// Calls of Funcs with the names of the variables in their coordinates.
class Calls : public Halide::Internal::IRGraphVisitor {
 public:
  struct One {
    std::string callee;
    std::set<std::string> variables;
  };
  std::vector<One> all;

  void collect(const Halide::Expr& expression) {
    walked_.push_back(Halide::Internal::substitute_in_all_lets(expression));
    walked_.back().accept(this);
  }

 private:
  using Halide::Internal::IRGraphVisitor::visit;
  struct Names : Halide::Internal::IRGraphVisitor {
    using Halide::Internal::IRGraphVisitor::visit;
    std::set<std::string> names;
    void visit(const Halide::Internal::Variable* variable) override { names.insert(variable->name); }
  };
  void visit(const Halide::Internal::Call* call) override {
    Halide::Internal::IRGraphVisitor::visit(call);
    if (call->call_type != Halide::Internal::Call::Halide) return;
    Names coordinates;
    for (const Halide::Expr& argument : call->args) argument.accept(&coordinates);
    all.push_back({call->name, coordinates.names});
  }
  std::vector<Halide::Expr> walked_;  // what has been seen is known by its address: nothing may be freed meanwhile
};

// Values of a definition and of all its specialisations.
void collect_calls(const Halide::Internal::Definition& definition, Calls& calls) {
  for (const Halide::Expr& value : definition.values()) calls.collect(value);
  for (const auto& branch : definition.specializations()) {
    if (branch.failure_message.empty()) collect_calls(branch.definition, calls);
  }
}

}  // namespace

void check_scheduled(const std::vector<Halide::Func>& outputs, const Halide::Target& target) {
  for (const Halide::Func& output : outputs) {
    const Function function = output.function();
    const auto& schedule = function.definition().schedule();
    if (!target.has_gpu_feature()) {
      if (!schedule.touched() && !function.has_update_definition()) {
        mistake("schedule(Cpu) leaves output " + output.name() + " unscheduled; vectorize or parallelize it");
      }
      continue;
    }
    if (!has_gpu_loop(schedule)) {
      mistake("the schedule for " + target.to_string() + " leaves output " + output.name() +
              " without a GPU loop, so that it would run on the host; give it gpu_blocks");
    }
    for (size_t i = 0; i < function.updates().size(); i++) {
      if (!has_gpu_loop(function.updates()[i].schedule())) {
        mistake("update " + std::to_string(i) + " of output " + output.name() + " has no GPU loop");
      }
    }
  }
}

void check_reductions_placed(const std::vector<Halide::Func>& outputs) {
  std::vector<Function> functions;
  std::set<std::string> is_output;
  for (const Halide::Func& output : outputs) {
    functions.push_back(output.function());
    is_output.insert(output.name());
  }
  // As lowering does: where a stage is computed can be asked once its schedule is locked, so of a copy.
  const auto [copies, environment] =
      Halide::Internal::deep_copy(functions, Halide::Internal::build_environment(functions));
  for (const auto& [name, function] : environment) Function(function).lock_loop_levels();
  const auto has_place = [&](const Function& function) {
    return is_output.contains(function.name()) || !function.schedule().compute_level().is_inlined();
  };
  std::map<std::string, std::string> repeated;  // a stage without a place, by the index over which it is repeated
  std::vector<std::string> order = Halide::Internal::topological_order(copies, environment);
  std::reverse(order.begin(), order.end());  // callers first
  for (const std::string& name : order) {
    const Function& function = environment.at(name);
    const auto around = repeated.find(name);
    if (around != repeated.end() && function.has_update_definition()) {
      mistake("the reduction " + plain_name(name) +
              " has no place in the schedule and would be worked out again for "
              "every " +
              plain_name(around->second) +
              ": give it to the family (a row_reduction's list of reductions, "
              "in the order in which they need each other), or schedule it with compute_at");
    }
    const auto look_at = [&](const Halide::Internal::Definition& definition, const std::vector<std::string>& loops) {
      Calls calls;
      collect_calls(definition, calls);
      for (const Calls::One& call : calls.all) {
        const auto callee = environment.find(call.callee);
        if (callee == environment.end() || call.callee == name || has_place(callee->second)) continue;
        if (around != repeated.end()) repeated.emplace(call.callee, around->second);
        for (const std::string& loop : loops) {
          if (!call.variables.contains(loop)) repeated.emplace(call.callee, loop);
        }
      }
    };
    if (!function.has_pure_definition()) continue;
    look_at(function.definition(), function.args());
    for (const auto& update : function.updates()) {
      std::vector<std::string> loops = function.args();
      for (const auto& axis : update.schedule().rvars()) loops.push_back(axis.var);
      look_at(update, loops);
    }
  }
}

void check_reductions_listed(const Halide::Func& output, const std::vector<std::string>& listed, const char* family) {
  for (const auto& [name, function] : Halide::Internal::build_environment({output.function()})) {
    if (name == output.name() || !function.has_update_definition()) continue;
    if (std::find(listed.begin(), listed.end(), name) != listed.end()) continue;
    mistake("the reduction " + plain_name(name) + " isn't among those that " + family +
            " is told of, and would be worked out again where it is read: add it to schedule()'s list");
  }
}

void drop_size_product_checks(Halide::Pipeline& pipeline) {
  pipeline.add_custom_lowering_pass(new DropSizeProductChecks);  // the pipeline deletes it
}

}  // namespace ashlar::dsl
