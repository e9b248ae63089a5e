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
  out << "\nloop nest" << std::endl;
  pipeline.print_loop_nest();  // to stderr
}

}  // namespace ashlar::dsl
