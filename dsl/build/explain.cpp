#include "dsl/build/explain.h"

#include "dsl/build/space.h"

namespace ashlar::dsl {

std::pair<const KernelEntry*, Build> find_build(const std::string& kernel, const std::string& instance) {
  for (const KernelEntry& entry : kernels()) {
    if (entry.name != kernel) continue;
    for (const Build& build : summarize(entry).builds) {
      if (build.name() == instance) return {&entry, build};
    }
  }
  throw Halide::CompileError("there's no instance " + instance + " of a kernel " + kernel + " here");
}

void explain(std::ostream& out, const std::string& kernel, const std::string& instance, const std::string& code_target,
             int cuda_capability, const Setting& setting) {
  const auto [entry, build] = find_build(kernel, instance);
  const auto object = create(build, halide_target(code_target, cuda_capability), setting);
  Halide::Pipeline pipeline = object->generator().build_pipeline();
  const Descriptor& descriptor = object->descriptor();
  out << entry->name << " " << build.name() << " on " << code_target << ": " << descriptor.formula << "\n\ntunables\n";
  for (const ParameterDescription& parameter : descriptor.parameters) {
    if (parameter.is_comptime || !means_something(parameter.on, code_target)) continue;
    out << "  " << parameter.name << " = " << parameter.current() << "  of";
    for (const std::string& value : parameter.values) out << " " << value;
    out << "\n";
  }
  for (const SpaceRule& rule : descriptor.space_rules) out << "  rule: " << rule.text << "\n";
  if (descriptor.plans.size() > 1) out << "\nplans, in the order in which they are tried (plan=NAME explains one)\n";
  const std::string shown =
      plan_of(setting).empty() ? descriptor.plans.empty() ? "" : descriptor.plans.back().name : plan_of(setting);
  for (const PlanDescription& plan : descriptor.plans) {
    if (descriptor.plans.size() < 2) break;
    out << (plan.name == shown ? "* " : "  ") << plan.name;
    if (plan.applies.defined()) out << "\n      where " << plan.applies;
    if (plan.preferred.defined()) out << "\n      preferred where " << plan.preferred;
    out << "\n";
  }
  out << "\nloop nest" << std::endl;
  pipeline.print_loop_nest();  // to stderr
}

}  // namespace ashlar::dsl
