#include "schedules/generic.h"

#include "schedules/generic_output.h"
#include "schedules/lowering/accesses.h"
#include "schedules/lowering/index_arithmetic.h"
#include "schedules/lowering/rewrite.h"
#include "schedules/lowering/tasks.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::Parameter;
using Halide::TailStrategy;
using Halide::VarOrRVar;
using Halide::Internal::const_true;
using Halide::Internal::simplify;

namespace detail {

GenericOutput::GenericOutput(const Func& func) : out(func), index(func.args()) {
  for (int d = 0; d < func.dimensions(); d++) {
    extent.push_back(func.output_buffers()[0].dim(d).extent());
    stride.push_back(func.output_buffers()[0].dim(d).stride());
  }
}

Expr GenericOutput::elements() const { return elements(index); }

Expr GenericOutput::elements(const std::vector<Var>& vars) const {
  Expr all = 1;
  for (size_t d = 0; d < index.size(); d++) {
    for (const Var& v : vars) {
      if (v.name() == index[d].name()) all = all * extent[d];
    }
  }
  return all;
}

Var fused(Halide::Stage stage, const std::vector<Var>& vars, const std::string& name) {
  Var all = vars[0];
  for (size_t d = 1; d < vars.size(); d++) {
    const Var next(name + std::to_string(d));
    stage.fuse(all, vars[d], next);
    all = next;
  }
  return all;
}

std::optional<Func> hold(const Func& out, std::vector<Expr>& values) {
  if (values.size() == 1) return {};
  Func held(plain_name(out.name()) + "_values");
  const std::vector<Var> index = out.args();
  held(index) = Halide::Tuple(values);
  for (size_t i = 0; i < values.size(); i++)
    values[i] = held(std::vector<Expr>(index.begin(), index.end()))[static_cast<int>(i)];
  return held;
}

std::vector<Parameter> strided_inputs(const Func& out) {
  std::vector<Parameter> inputs;
  for (const Parameter& input : inputs_of(out)) {
    if (input.dimensions() > 1 && !input.stride_constraint(0).defined()) inputs.push_back(input);
  }
  return inputs;
}

std::vector<InnermostStrides> known_strides(const Func& out) {
  const std::vector<Parameter> inputs = strided_inputs(out);
  std::vector<InnermostStrides> all;
  for (size_t repeated = 0; repeated <= (inputs.size() == 2 ? 2 : 0); repeated++) {
    InnermostStrides strides{const_true(), {}};
    for (size_t i = 0; i < inputs.size(); i++) {
      strides.hold = strides.hold && stride_of(inputs[i], 0) == (i + 1 == repeated ? 0 : 1);
      if (i + 1 == repeated) strides.repeated = inputs[i].name();
    }
    strides.hold = simplify(strides.hold);
    all.push_back(strides);
  }
  return all;
}

Var task_loop(Halide::Stage stage, const std::vector<Var>& rows, const Expr& count, const Expr& work) {
  Var task("task"), row("row");
  const Expr each = Halide::max(1, elements_per_task(count * work) / work);
  stage.split(fused(stage, rows, "rows"), task, row, each, TailStrategy::GuardWithIf).parallel(task);
  return row;
}

}  // namespace detail

namespace {

using detail::GenericOutput;

// Of each update: the indices that stay Vars, whose elements don't touch each other, and the reduction's in order
// within.
void updates(Func out, const std::set<std::string>& in_memory, bool is_gpu) {
  const GenericOutput o(out);
  for (int u = 0; u < out.num_update_definitions(); u++) {
    const Halide::Internal::Definition& definition = out.function().update(u);
    if (!own_reductions(definition.values(), out.function().args(), in_memory).all.empty()) {
      mistake("an update of " + plain_name(out.name()) +
              " reads a reduction: keep that in memory, as a Scratch, which generic() computes before");
    }
    Halide::Stage stage = out.update(u);
    std::vector<Var> elements;
    for (size_t d = 0; d < o.index.size(); d++) {
      const auto* index = definition.args()[d].as<Halide::Internal::Variable>();
      if (index != nullptr && index->name == o.index[d].name()) elements.push_back(o.index[d]);
    }
    std::vector<VarOrRVar> order;
    for (const Halide::RVar& axis : out.rvars(u)) order.emplace_back(axis);
    if (is_gpu && elements.empty()) {
      stage.gpu_single_thread();
    } else if (is_gpu) {
      Var block("block"), thread("thread");
      stage.split(detail::fused(stage, elements, "elements"), block, thread, detail::kThreadsOfGeneric,
                  TailStrategy::GuardWithIf);
      order.insert(order.end(), {thread, block});
      stage.reorder(order).gpu_blocks(block).gpu_threads(thread);
    } else if (elements.empty()) {
      stage.unscheduled();
    } else {
      Var vector("vector"), lane("lane");
      std::vector<Var> rows = elements;
      if (elements[0].name() == o.index[0].name()) {
        stage.split(rows[0], vector, lane, Descriptor::target.natural_vector_size<float>(), TailStrategy::GuardWithIf)
            .vectorize(lane);
        order.insert(order.begin(), lane);
        rows[0] = vector;
      }
      order.insert(order.end(), rows.begin(), rows.end());
      if (order.size() > 1) stage.reorder(order);
      Expr work = 1;
      for (const Halide::Internal::ReductionVariable& axis : definition.schedule().rvars()) work = work * axis.extent;
      detail::task_loop(stage, rows, o.elements(elements), Halide::max(1, work));
    }
  }
}

// The scans that values read, at their coordinates.
class ReadsScans : public Halide::Internal::IRGraphVisitor {
 public:
  std::map<std::string, std::vector<std::vector<Expr>>> reads;

 private:
  using IRGraphVisitor::visit;
  void visit(const Halide::Internal::Call* call) override {
    IRGraphVisitor::visit(call);
    if (Descriptor::current->scans.contains(call->name)) reads[call->name].push_back(call->args);
  }
};

// The scan that an output of rows and columns reads at its own indices, for the family of scans. Anything else about
// scans is a mistake.
std::optional<ScanStages> scan_below(const Func& out, const OwnReductions& reductions,
                                     const std::set<std::string>& in_memory) {
  ReadsScans scans;
  for (const Expr& value : reductions.values) value.accept(&scans);
  for (const auto& reduction : reductions.all) {
    for (const Halide::Internal::Definition& step : reduction.func.function().updates()) {
      for (const Expr& value : step.values()) value.accept(&scans);
    }
  }
  if (scans.reads.empty()) return {};
  const std::string name = plain_name(scans.reads.begin()->first), output = plain_name(out.name());
  const std::string alone = ": keep one of them in memory, as a Scratch, which generic() computes by itself";
  if (scans.reads.size() > 1) mistake(output + " reads several scans" + alone);
  if (!reductions.all.empty()) mistake(output + " reads the scan " + name + " and a reduction" + alone);
  const std::vector<Var> index = out.args();
  for (const std::vector<Expr>& at : scans.reads.begin()->second) {
    bool is_own = index.size() == 2 && at.size() == 2;
    for (size_t d = 0; is_own && d < 2; d++) {
      const auto* variable = at[d].as<Halide::Internal::Variable>();
      is_own = variable != nullptr && variable->name == index[d].name();
    }
    if (is_own) continue;
    mistake(output + " reads the scan " + name +
            " at other indices than its own rows and columns: keep that in memory, "
            "as Scratch<f32, 2> of its own, and read it there");
  }
  const Scanning& scanning = Descriptor::current->scans.at(scans.reads.begin()->first);
  const Func running = Halide::Func(
      Halide::Internal::Function(Halide::Internal::build_environment({out.function()}).at(scans.reads.begin()->first)));
  if (running.args()[0].name() != plain_name(scanning.variable) + "_at") {
    mistake("the scan " + name + " isn't along the innermost index: generic() scans rows, so write " + name +
            "(r, k) = scan(k, …), or use register_scan (schedules/scan.h), whose callers choose the axis");
  }
  if (scanning.scratch.empty()) {
    mistake("the scan " + name +
            " has no memory for the states of its blocks: declare ScanScratch states{x.size(0), "
            "x.size(1)}; behind the outputs and write " +
            name + "(r, k) = states.scan(k, …)");
  }
  if (!own_reductions(expressions_of(scanning.merging.element), running.function().args(), in_memory).all.empty()) {
    mistake("the elements of the scan " + name +
            " read a reduction: keep that in memory, as a Scratch, which generic() "
            "computes before");
  }
  return ScanStages{running, out, scanning.scratch[0], scanning.scratch[1], index[1], index[0]};
}

template <class Target>
void generic_passes(Target target, const std::vector<Func>& outputs) {
  constexpr bool is_gpu = !std::is_same_v<Target, Cpu>;
  if (is_gpu) vector_accesses();
  const std::set<std::string> in_memory = names_in_memory();
  std::set<std::string> wanted, read_as_they_are = in_memory;
  for (const auto& [name, scanning] : Descriptor::current->scans) read_as_they_are.insert(name);
  bool has_scan = false;  // whose schedule asks for index_arithmetic() itself
  for (const Func& output : outputs) wanted.insert(output.name());
  for (const auto& tensor : Descriptor::current->definitions) {
    const Func out = tensor.func();
    bool is_below = false;
    for (const Func& output : outputs) {
      is_below = is_below || Halide::Internal::build_environment({output.function()}).contains(out.name());
    }
    // A Scratch that has a schedule keeps it.
    if (!is_below || (!wanted.contains(out.name()) && out.function().definition().schedule().touched())) continue;
    OwnReductions reductions = own_reductions(values_of(out), out.function().args(), read_as_they_are);
    if (const std::optional<ScanStages> stages = scan_below(out, reductions, in_memory)) {
      scan(target, *stages);
      has_scan = true;
    } else if (!reductions.all.empty()) {
      detail::generic_reductions(out, std::move(reductions), is_gpu);
    } else {
      is_gpu ? detail::generic_elements_gpu(GenericOutput(out), reductions.values)
             : detail::generic_elements_cpu(GenericOutput(out));
    }
    updates(out, in_memory, is_gpu);
  }
  if (is_gpu && !has_scan) index_arithmetic();
}

}  // namespace

void generic(Cpu, const std::vector<Func>& outputs) { generic_passes(Cpu{}, outputs); }
void generic(OpenCL, const std::vector<Func>& outputs) { generic_passes(OpenCL{}, outputs); }
void generic(Cuda, const std::vector<Func>& outputs) { generic_passes(Cuda{}, outputs); }

}  // namespace ashlar::dsl
