#include "dsl/build/instances.h"

#include <algorithm>

#include "dsl/build/gradient_rules.h"

namespace ashlar::dsl {
namespace {

// The index of the element type that argument `position` has in every instance, or -1 when its dtype is fixed. An
// output in a kernel's second element type is that element even where all instances happen to have the same one.
int shared_element(const std::vector<Descriptor>& instances, size_t position) {
  const ArgumentDescription& argument = instances[0].arguments[position];
  if (argument.role == Argument::Role::scalar) return -1;
  const auto all = [&](auto holds) { return std::all_of(instances.begin(), instances.end(), holds); };
  const auto dtype = [&](const Descriptor& d) { return d.arguments[position].dtype; };
  const auto element = [&](size_t e) { return all([&](const Descriptor& d) { return dtype(d) == d.elements[e]; }); };
  const size_t count = instances[0].elements.size();
  if (argument.role == Argument::Role::output) {
    for (size_t e = 1; e < count; e++) {
      if (element(e)) return static_cast<int>(e);
    }
  }
  if (instances.size() > 1 && all([&](const Descriptor& d) { return dtype(d) == argument.dtype; })) return -1;
  for (size_t e = 0; e < count; e++) {
    if (element(e)) return static_cast<int>(e);
  }
  return -1;
}

void check_arguments(const Descriptor& descriptor) {
  bool seen_output = false, seen_scratch = false;
  std::string with_default;
  for (const ArgumentDescription& argument : descriptor.arguments) {
    const bool is_input = argument.role == Argument::Role::input || argument.role == Argument::Role::scalar;
    if ((is_input && (seen_output || seen_scratch)) || (argument.role == Argument::Role::output && seen_scratch)) {
      mistake(argument.name + " is declared too late; inputs and scalars come first, then outputs, then scratch");
    }
    const bool has_default = argument.is_optional || !argument.default_value.empty();
    if (is_input && argument.given_of < 0 && !has_default && !with_default.empty()) {
      mistake(argument.name + " is declared behind " + with_default +
              ", which callers may leave out: declare what they must give first");
    }
    if (has_default) with_default = argument.name;
    // A form of the kernel's own says for itself what it does.
    const FormSignature* const general[] = {&Form::plain,     &Form::pointwise,   &Form::broadcast,
                                            &Form::reduction, &Form::contraction, &Form::movement};
    const bool is_by_hand = !descriptor.calls.empty();
    const bool is_general = std::ranges::find(general, descriptor.form) != std::end(general);
    if (argument.is_optional && !is_by_hand && is_general) {
      mistake(argument.name + " may be absent, which Form::rows alone can handle; declare it without absent_is()");
    }
    seen_output = seen_output || argument.role == Argument::Role::output;
    seen_scratch = seen_scratch || argument.role == Argument::Role::scratch;
  }
  if (!seen_output) mistake("has no output: declare one, Out<T, 1> y{\"y\", shape_of(x)}");
  if (descriptor.formula.empty()) {
    mistake(
        "has no formula: say in the constructor what it computes, this->formula(\"y[i] = …\"); headers, errors and "
        "the reference page quote it");
  }
  check_gradient_rules(descriptor);
  const auto is_output = [](const ArgumentDescription& a) { return a.role == Argument::Role::output; };
  if (!descriptor.composed.empty() &&
      (!descriptor.gradients.empty() || std::ranges::count_if(descriptor.arguments, is_output) != 1)) {
    mistake(
        "is composed of operators, so it has one output and its parts' gradients: state one output, and no gradient");
  }
}

}  // namespace

KernelSummary summarize(const KernelEntry& entry) {
  const NamedKernel named(entry.name);
  KernelSummary summary{&entry, {}, {}, {}};
  if (entry.is_by_hand()) {
    summary.descriptor = *entry.by_hand.descriptor;
    check_arguments(summary.descriptor);
    if (entry.instances.empty()) mistake("has no element types: give register_operator() its dtypes");
    summary.arguments = summary.descriptor.arguments;
    return summary;
  }
  std::vector<Descriptor> descriptors;
  for (const Instance& instance : entry.instances) {
    const auto kernel = instance.create(Halide::GeneratorContext(Halide::Target("x86-64-linux")));
    descriptors.push_back(kernel->descriptor());
    check_arguments(descriptors.back());

    std::string elements;
    Build build{&instance, {}, {}, {}};
    for (size_t e = 0; e < instance.elements.size(); e++) {
      elements += "_" + std::string(name_of(instance.elements[e]));
      build.key.elements.at(e) = instance.elements[e];
    }
    std::vector<ParameterDescription> comptimes;
    int variants = 1;
    for (const ParameterDescription& parameter : descriptors.back().parameters) {
      if (!parameter.is_comptime) continue;
      comptimes.push_back(parameter);
      variants *= static_cast<int>(parameter.values.size());
      if (variants > kMostVariants) {
        mistake("its comptime parameters have more than " + std::to_string(kMostVariants) +
                " combinations; make kernels of their own of what is never combined");
      }
    }
    for (int variant = 0; variant < variants; variant++) {
      build.key.variant = static_cast<uint16_t>(variant);
      build.comptimes.clear();
      build.suffix = elements;
      int rest = variant;
      for (const ParameterDescription& parameter : comptimes) {
        const int count = static_cast<int>(parameter.values.size());
        build.comptimes.emplace_back(parameter.name, parameter.values[rest % count]);
        build.suffix += "_" + parameter.values[rest % count];
        rest /= count;
      }
      summary.builds.push_back(build);
    }
  }
  summary.descriptor = descriptors[0];
  summary.descriptor.constraints.clear();
  summary.descriptor.space_rules.clear();
  summary.arguments = descriptors[0].arguments;
  for (size_t i = 0; i < summary.arguments.size(); i++) summary.arguments[i].element = shared_element(descriptors, i);
  std::sort(summary.builds.begin(), summary.builds.end(),
            [](const Build& a, const Build& b) { return a.key.packed() < b.key.packed(); });
  return summary;
}

bool is_on(const Descriptor& descriptor, const std::string& code_target) {
  return is_gpu(code_target) ? !descriptor.on_cpu_alone : !descriptor.on_gpus_alone;
}

KernelSummary summarize(const KernelEntry& entry, const std::string& code_target) {
  KernelSummary summary = summarize(entry);
  if (!is_on(summary.descriptor, code_target)) summary.builds.clear();
  for (const CodeTarget target : {CodeTarget::cpu_avx2, CodeTarget::cpu_avx512}) {
    if (code_target != name_of(target)) continue;
    std::erase_if(summary.builds, [target](const Build& build) {
      const auto kernel = build.instance->create(Halide::GeneratorContext(Halide::Target("x86-64-linux")));
      return target > kernel->descriptor().widest_on_cpu ||
             (target == CodeTarget::cpu_avx512 &&
              std::ranges::any_of(build.instance->elements, [](DType dtype) { return dtype != DType::f32; }));
    });
  }
  return summary;
}

Halide::Target halide_target(const std::string& code_target, int cuda_capability) {
  const std::string common = "-no_runtime-user_context";
  const std::string on_cpu = common + "-no_bounds_query";  // buffers come with their sizes
  if (code_target == "cpu") return Halide::Target("x86-64-linux" + on_cpu);
  const std::string avx2 = "x86-64-linux-sse41-avx-f16c-fma-avx2";
  if (code_target == "cpu_avx2") return Halide::Target(avx2 + on_cpu);
  if (code_target == "cpu_avx512") return Halide::Target(avx2 + "-avx512-avx512_skylake" + on_cpu);
  if (code_target == "opencl") return Halide::Target("x86-64-linux-opencl-cl_doubles" + common);
  if (code_target == "cuda") {
    return Halide::Target("x86-64-linux-cuda-cuda_capability_" + std::to_string(cuda_capability) + common);
  }
  std::string names;
  for (const char* name : kCodeTargetNames) names += (names.empty() ? "" : ", ") + std::string(name);
  throw Halide::CompileError("unknown target " + code_target + "; there are " + names);
}

std::string symbol_of(const KernelEntry& entry, const Build& build, const std::string& code_target,
                      const Setting& setting) {
  const std::string symbol = "ashlar_" + entry.name + build.suffix + "_" + code_target;
  if (setting.empty()) return symbol;
  const std::string plan = plan_of(setting);
  const std::string of_plan = plan.empty() ? symbol : symbol + "_" + plan;
  if (setting.size() == 1 && !plan.empty()) return of_plan;
  // By content, so that an object doesn't depend on what else a table holds.
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(identity_hash(text_of(setting))));
  return of_plan + "_" + hash;
}

std::vector<PlanDescription> plans_of(const Build& build, const std::string& code_target, int cuda_capability) {
  const auto kernel = create(build, halide_target(code_target, cuda_capability));
  if (!kernel->descriptor().has_plans) return {};
  kernel->generator().build_pipeline();
  std::vector<PlanDescription> plans = kernel->descriptor().plans;
  if (plans.size() == 1) plans.clear();
  return plans;
}

std::string text_of(const Setting& setting) {
  std::string text;
  for (const auto& [name, value] : setting) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

std::unique_ptr<DescribedKernel> create(const Build& build, const Halide::Target& target, const Setting& setting) {
  auto kernel = build.instance->create(Halide::GeneratorContext(target));
  for (const auto& [name, value] : build.comptimes) kernel->generator().set_generatorparam_value(name, value);
  for (const auto& [name, value] : setting) kernel->generator().set_generatorparam_value(name, value);
  return kernel;
}

std::string table_of(const KernelEntry& entry, const std::string& code_target) {
  return "ashlar_" + entry.name + "_" + code_target;
}

}  // namespace ashlar::dsl
