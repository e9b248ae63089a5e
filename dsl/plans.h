// Plans: several ways to compute what a kernel computes, each compiled by itself, of which every call gets one.
#pragma once

#include "dsl/tunable.h"

namespace ashlar::dsl {

/// Numbers of the device that a call is for, in the models of plans.
inline Expr device_multiprocessors() {
  return Halide::Internal::Variable::make(Halide::Float(32), "device.multiprocessors");
}
inline Expr device_gigahertz() { return Halide::Internal::Variable::make(Halide::Float(32), "device.gigahertz"); }
inline Expr device_gigabytes_per_second() {
  return Halide::Internal::Variable::make(Halide::Float(32), "device.gigabytes_per_second");
}
/// Of a CPU: how many bytes of a vector its units take at once.
inline Expr device_vector_bytes() { return Halide::Internal::Variable::make(Halide::Float(32), "device.vector_bytes"); }

/// The plans of a kernel: a member of it, or of its family's tunables. algorithm() declares them, which may depend on
/// the target, the element type and comptime values; chosen() is the one that is being compiled.
///
///   Plans plans;
///   void algorithm() {
///     plans.declare({{.name = "whole_tiles", .applies = columns % 64 == 0}, {.name = "any_size"}});
///     …
///   }
///   void schedule(auto target) {
///     plans.schedule(y.func(), [&](const std::string& plan, Halide::Stage out) { … });
///   }
///
/// At run time the conditions are evaluated before the call (runtime/launch/plans.h); the build writes them down as C++
/// (dsl/build/plan_code.h).
class Plans : public Halide::GeneratorParam<std::string> {
 public:
  Plans() : Halide::GeneratorParam<std::string>("plan", "") { Descriptor::current->has_plans = true; }

  /// In the order in which they are tried. The last one serves every call. To be called once, in algorithm(). One plan
  /// alone is none. Throws a mistake of the kernel.
  void declare(std::vector<PlanDescription> plans) {
    check(plans);
    Descriptor::current->plans = std::move(plans);
    const std::vector<PlanDescription>& all = Descriptor::current->plans;
    index_ = all.size() - 1;
    const std::string& wanted = value();
    if (wanted.empty()) return;
    std::string names;
    for (size_t i = 0; i < all.size(); i++) {
      names += (i == 0 ? "" : ", ") + all[i].name;
      if (all[i].name == wanted) index_ = i;
    }
    if (all[index_].name != wanted) mistake("there's no plan " + wanted + " here; there are " + names);
  }
  /// The plan that is compiled: the last one unless a setting names another.
  const std::string& chosen() const { return Descriptor::current->plans.at(index_).name; }
  size_t chosen_index() const { return index_; }

  /// Schedules `out` by the chosen plan: `loops(name, stage)` on a stage that sees calls alone that the plan applies
  /// to, so that Halide may build on it. Calls that it doesn't apply to are refused by the compiled function.
  void schedule(Halide::Func out, const std::function<void(const std::string&, Halide::Stage)>& loops) const {
    const PlanDescription& plan = Descriptor::current->plans.at(index_);
    if (!plan.applies.defined()) return loops(plan.name, out);
    loops(plan.name, out.specialize(plan.applies));
    out.specialize_fail("the plan " + plan.name + " can't serve this call");
  }

 private:
  static void check(const std::vector<PlanDescription>& plans) {
    if (plans.empty()) mistake("declares no plan");
    if (plans.size() > static_cast<size_t>(kMostPlans)) {
      mistake("has " + std::to_string(plans.size()) + " plans; there may be " + std::to_string(kMostPlans));
    }
    if (plans.back().applies.defined()) mistake("the last plan, " + plans.back().name + ", has to serve every call");
    for (size_t i = 0; i < plans.size(); i++) {
      const std::string& name = plans[i].name;
      const bool is_word = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) &&
                           std::all_of(name.begin(), name.end(),
                                       [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; });
      if (!is_word) mistake("a plan is called \"" + name + "\"; use lower-case letters, digits and underscores");
      for (size_t j = 0; j < i; j++) {
        if (plans[j].name == name) mistake("two plans are called " + name);
      }
      if (plans[i].microseconds.defined() != plans[0].microseconds.defined()) {
        mistake("of the plans " + plans[0].name + " and " + name + " one has a model; give one to all or to none");
      }
    }
  }

  size_t index_ = 0;
};

}  // namespace ashlar::dsl
