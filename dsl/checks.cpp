#include "dsl/checks.h"

namespace ashlar::dsl {
namespace {

using Halide::Internal::Function;

// Finds a call of `function` itself that stands inside another call.
class SelfReadInsideCall : public Halide::Internal::IRVisitor {
 public:
  explicit SelfReadInsideCall(const std::string& function) : function_(function) {}
  bool found = false;

 private:
  using Halide::Internal::IRVisitor::visit;
  void visit(const Halide::Internal::Call* call) override {
    if (call->name == function_) {
      found = found || depth_ > 0;
      return;
    }
    depth_++;
    Halide::Internal::IRVisitor::visit(call);
    depth_--;
  }
  std::string function_;
  int depth_ = 0;
};

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

void fail(const std::string& kernel, const std::string& what) {
  throw Halide::CompileError("kernel " + kernel + ": " + what);
}

}  // namespace

void check_scheduled(const std::string& kernel, const std::vector<Halide::Func>& outputs,
                     const Halide::Target& target) {
  for (const Halide::Func& output : outputs) {
    const Function function = output.function();
    const auto& schedule = function.definition().schedule();
    if (!target.has_gpu_feature()) {
      if (!schedule.touched() && !function.has_update_definition()) {
        fail(kernel, "schedule(Cpu) leaves output " + output.name() + " unscheduled; vectorize or parallelize it");
      }
      continue;
    }
    if (!has_gpu_loop(schedule)) {
      fail(kernel, "the schedule for " + target.to_string() + " leaves output " + output.name() +
                       " without a GPU loop, so that it would run on the host; give it gpu_blocks");
    }
    for (size_t i = 0; i < function.updates().size(); i++) {
      if (!has_gpu_loop(function.updates()[i].schedule())) {
        fail(kernel, "update " + std::to_string(i) + " of output " + output.name() + " has no GPU loop");
      }
    }
  }
}

void check_tuple_updates(const std::string& kernel, const std::vector<Halide::Func>& outputs) {
  std::vector<Function> functions;
  for (const Halide::Func& output : outputs) functions.push_back(output.function());
  for (const auto& [name, function] : Halide::Internal::build_environment(functions)) {
    if (function.outputs() < 2) continue;
    for (const auto& update : function.updates()) {
      for (const Halide::Expr& value : update.values()) {
        SelfReadInsideCall visitor(name);
        value.accept(&visitor);
        if (visitor.found) {
          fail(kernel, "the Tuple update of stage " + name +
                           " reads itself inside a call, which Halide 21 evaluates in the wrong order; "
                           "put the previous values into a stage of their own first");
        }
      }
    }
  }
}

void drop_size_product_checks(Halide::Pipeline& pipeline) {
  pipeline.add_custom_lowering_pass(new DropSizeProductChecks);  // the pipeline deletes it
}

}  // namespace ashlar::dsl
