#include "dsl/checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "dsl/mistake.h"

namespace ashlar::dsl {
namespace {

using Halide::Internal::Function;

bool has_gpu_loop(const Halide::Internal::Definition& definition) {
  bool is_last = true;  // what stands behind a specialize_fail() is never run
  for (const Halide::Internal::Specialization& branch : definition.specializations()) {
    if (!branch.failure_message.empty())
      is_last = false;
    else if (!has_gpu_loop(branch.definition))
      return false;
  }
  if (!is_last) return true;
  for (const Halide::Internal::Dim& dim : definition.schedule().dims()) {
    if (Halide::Internal::is_gpu(dim.for_type)) return true;
  }
  return false;
}

// A stage that is computed where the kernel begins: by a kernel of its own on a GPU.
void check_gpu_pass(const Function& function, bool is_output, const std::string& target) {
  const std::string name = plain_name(function.name());
  if (!is_output) {
    mistake("stage " + name + " is computed by itself, and a kernel for " + target +
            " can't allocate memory for it: make it a Scratch, or compute it inside a kernel that reads it, with "
            "compute_at");
  }
  if (!has_gpu_loop(function.definition())) {
    mistake("the schedule for " + target + " leaves output " + name +
            " without a GPU loop (in some specialize() perhaps), so that it would run on the host; give it gpu_blocks");
  }
  for (size_t i = 0; i < function.updates().size(); i++) {
    if (!has_gpu_loop(function.updates()[i])) {
      mistake("update " + std::to_string(i) + " of output " + name + " has no GPU loop for " + target +
              "; schedule it as well: " + name + ".func().update(" + std::to_string(i) + ")");
    }
  }
}

// Definitions that nobody has scheduled: of what is computed by itself none may be, of other stages not some of them.
void check_cpu_stage(const Function& function, bool is_by_itself) {
  const std::string name = plain_name(function.name());
  bool any = function.definition().schedule().touched();
  for (const auto& update : function.updates()) any = any || update.schedule().touched();
  if (!any && !is_by_itself) return;
  if (!function.definition().schedule().touched() && function.dimensions() > 0 && is_by_itself) {
    mistake("schedule(Cpu) leaves output " + name + " unscheduled; vectorize or parallelize it");
  }
  for (size_t i = 0; i < function.updates().size(); i++) {
    const auto& schedule = function.updates()[i].schedule();
    if (schedule.touched() || (function.dimensions() == 0 && schedule.rvars().empty())) continue;
    mistake("schedule(Cpu) leaves update " + std::to_string(i) + " of " + name +
            " unscheduled: what is said of a Func is said of its first definition alone; schedule " + name +
            ".func().update(" + std::to_string(i) + "), or say unscheduled() of it");
  }
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

// All stages below the outputs, and their names, callers first. As lowering does: where a stage is computed can be
// asked once its schedule is locked, so of a copy.
std::pair<std::map<std::string, Function>, std::vector<std::string>> locked(const std::vector<Halide::Func>& outputs) {
  std::vector<Function> functions;
  for (const Halide::Func& output : outputs) functions.push_back(output.function());
  const auto [copies, environment] =
      Halide::Internal::deep_copy(functions, Halide::Internal::build_environment(functions));
  for (const auto& [name, function] : environment) Function(function).lock_loop_levels();
  std::vector<std::string> order = Halide::Internal::topological_order(copies, environment);
  std::reverse(order.begin(), order.end());
  return {environment, order};
}

}  // namespace

void check_scheduled(const std::vector<Halide::Func>& outputs, const Halide::Target& target) {
  const auto [environment, order] = locked(outputs);
  std::set<std::string> is_output;
  for (const Halide::Func& output : outputs) is_output.insert(output.name());
  for (const std::string& name : order) {
    const Function& function = environment.at(name);
    const bool output = is_output.contains(name);
    if (!function.has_pure_definition() || (!output && function.schedule().compute_level().is_inlined())) continue;
    const bool is_by_itself = output || function.schedule().compute_level().is_root();
    if (!target.has_gpu_feature())
      check_cpu_stage(function, is_by_itself);
    else if (is_by_itself)
      check_gpu_pass(function, output, target.to_string());
  }
}

void check_reductions_placed(const std::vector<Halide::Func>& outputs) {
  const auto [environment, order] = locked(outputs);
  std::set<std::string> is_output;
  for (const Halide::Func& output : outputs) is_output.insert(output.name());
  const auto has_place = [&](const Function& function) {
    return is_output.contains(function.name()) || !function.schedule().compute_level().is_inlined();
  };
  std::map<std::string, std::string> repeated;  // a stage without a place, by the index over which it is repeated
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
