#include "runtime/launch/plans.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <set>
#include <string>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/device/device_identity.h"
#include "runtime/device/device_state.h"
#include "runtime/launch/bind.h"
#include "runtime/launch/form.h"
#include "runtime/opencl/opencl_device.h"
#include "runtime/support/environment.h"
#include "runtime/support/error.h"
#include "runtime/support/recent.h"

namespace ashlar {
namespace detail {
namespace {

/// The text that stays, so that calls of other threads may go on reading it.
const std::string* kept(const std::string& names) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& all = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names.empty() ? nullptr : &*all.insert(names).first;
}

std::atomic<const std::string*>& forced() {
  static std::atomic<const std::string*> names{kept(environment().plan)};
  return names;
}

std::atomic<PlanChoice>& choice() {
  static std::atomic<PlanChoice> now{environment().plan_model ? PlanChoice::model : PlanChoice::order};
  return now;
}

int field_of(const halide_dimension_t& dimension, PlanFeature::Field field) {
  if (field == PlanFeature::Field::min) return dimension.min;
  return field == PlanFeature::Field::extent ? dimension.extent : dimension.stride;
}

std::atomic<PlanChooser>& chooser() {
  static std::atomic<PlanChooser> now{nullptr};
  return now;
}

/// What a table says of a call; no name: nothing.
struct TunedPlan {
  const char* name = nullptr;
  const char* device_name = nullptr;
};
TunedPlan tuned_plan(const KernelInfo& operation, Device device, std::span<const int64_t> sizes) {
  const CodeTarget code = device.kind == DeviceKind::cpu      ? cpu_code_target()
                          : device.kind == DeviceKind::opencl ? CodeTarget::opencl
                                                              : CodeTarget::cuda;
  const TargetTable* table = operation.targets[static_cast<size_t>(code)];
  if (table == nullptr || table->tuned_plans_count == 0) return {};
  const DeviceIdentity& identity = device_identity(device);
  const TunedPlans* of_device = nullptr;
  for (const TunedPlans& one : std::span(table->tuned_plans, static_cast<size_t>(table->tuned_plans_count))) {
    const bool is_it = one.device == identity.name_hash;
    if (is_it || (of_device == nullptr && one.family == identity.family_hash)) of_device = &one;
    if (is_it) break;
  }
  if (of_device == nullptr) return {};
  const std::span classes(of_device->classes, static_cast<size_t>(of_device->count));
  const uint64_t wanted = half_octaves(sizes);
  const auto found = std::ranges::lower_bound(classes, wanted);
  if (found == classes.end() || *found != wanted) return {};
  return {operation.form->signature.plans[of_device->plans[found - classes.begin()]], of_device->device_name};
}

std::array<double, kPlanDeviceNumbers> ask_device(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return {static_cast<double>(environment().threads), 3, 20, static_cast<double>(cpu_vector_bytes())};
    case DeviceKind::opencl: {
      const OpenClSpeed speed = opencl_speed(device.index);
      return {static_cast<double>(speed.compute_units), speed.gigahertz, speed.gigabytes_per_second};
    }
    case DeviceKind::cuda: {
      const CudaSpeed speed = cuda_speed(device.index);
      return {static_cast<double>(speed.multiprocessors), speed.gigahertz, speed.gigabytes_per_second};
    }
  }
  return {};
}

}  // namespace

PlanChoice plan_choice() { return choice().load(std::memory_order_relaxed); }

const double* plan_device_numbers(Device device) {
  using Numbers = std::array<double, kPlanDeviceNumbers>;
  static std::array<std::array<std::atomic<const Numbers*>, kMostDevices>, kDeviceKinds> known{};
  auto& slot = known.at(static_cast<size_t>(device.kind)).at(static_cast<size_t>(device.index));
  if (const Numbers* numbers = slot.load(std::memory_order_acquire)) return numbers->data();
  auto* asked = new Numbers(ask_device(device));  // lives as long as the process
  const Numbers* first = nullptr;
  if (slot.compare_exchange_strong(first, asked)) return asked->data();
  delete asked;
  return first->data();
}

PlanJudgement judge_plans(const KernelInfo& kernel, const PlanSet& plans, std::span<const Tensor> inputs,
                          std::span<const Tensor> outputs) {
  PlanJudgement judged;
  Binding binding;
  int bound = -1;
  for (int i = 0; i < plans.feature_count; ++i) {
    const PlanFeature& feature = plans.features[i];
    if (feature.argument != bound) {  // features stand in the order of the arguments
      bound = feature.argument;
      size_t input = 0, output = 0;
      for (const Argument& before : kernel.arguments.first(feature.argument)) {
        input += before.role == Argument::Role::input;
        output += before.role == Argument::Role::output;
      }
      const Argument& argument = kernel.arguments[feature.argument];
      if (argument.role == Argument::Role::input)
        binding.input(inputs[input], argument.is_strided);
      else
        binding.output(outputs[output]);
    }
    judged.features[i] = field_of(binding.dimensions[feature.dimension], feature.field);
  }
  plans.judge(judged.features, &judged.applies, &judged.preferred);
  return judged;
}

int choose_among(const PlanSet& plans, const PlanJudgement& judged, Device device, double& microseconds) {
  microseconds = -1;
  if (plans.cost == nullptr || plan_choice() == PlanChoice::order)
    return std::countr_zero(judged.applies & judged.preferred);
  struct Quickest {
    int plan;
    double microseconds;
  };
  const auto by_model = [&] {
    double costs[kMostPlans];
    plans.cost(judged.features, plan_device_numbers(device), costs);
    int quickest = -1;
    for (uint64_t rest = judged.applies; rest != 0; rest &= rest - 1) {
      const int plan = std::countr_zero(rest);
      if (quickest < 0 || costs[plan] < costs[quickest]) quickest = plan;
    }
    return Quickest{quickest, costs[quickest]};
  };
  constexpr size_t kOthers = 3;
  thread_local Recent<Quickest, kMostPlanFeatures + kOthers> known;
  std::array<int64_t, kMostPlanFeatures + kOthers> key;
  key[0] = static_cast<int64_t>(reinterpret_cast<intptr_t>(&plans));
  key[1] = static_cast<int64_t>(device.kind);
  key[2] = device.index;
  const auto count = static_cast<size_t>(plans.feature_count);
  std::copy_n(judged.features, count, key.begin() + kOthers);
  const Quickest quickest = known.get(std::span(key).first(count + kOthers), by_model);
  microseconds = quickest.microseconds;
  return quickest.plan;
}

int forced_rank(const char* plan) {
  const std::string* names = forced().load(std::memory_order_acquire);
  if (names == nullptr) return -1;
  int rank = 0;
  for (size_t at = 0; at <= names->size(); ++rank) {
    const size_t end = std::min(names->find(',', at), names->size());
    if (std::string_view(*names).substr(at, end - at) == plan) return rank;
    at = end + 1;
  }
  return -1;
}

bool any_plan_forced() { return forced().load(std::memory_order_acquire) != nullptr; }

}  // namespace detail

std::string set_forced_plan(const std::string& names) {
  const std::string* before = detail::forced().exchange(detail::kept(names));
  return before == nullptr ? "" : *before;
}

PlanChoice set_plan_choice(PlanChoice choice) { return detail::choice().exchange(choice); }

void set_plan_chooser(PlanChooser chosen_by) { detail::chooser().store(chosen_by, std::memory_order_release); }

size_t choose_plan(const KernelInfo& operation, Device device, std::span<const Plan> plans,
                   std::span<const int64_t> sizes) {
  using namespace detail;
  bool asks_tables = environment().tables;
  if (const PlanChooser choose = chooser().load(std::memory_order_acquire)) [[unlikely]] {
    const std::optional<size_t> wanted = choose(operation, plans, sizes);
    if (wanted && *wanted != kWithoutTables) return *wanted;
    asks_tables = asks_tables && !wanted;
  }
  const bool by_model = plan_choice() == PlanChoice::model;
  const Plan* chosen = nullptr;
  int best_rank = -1;
  for (const Plan& plan : plans) {
    const int rank = plan.applies ? forced_rank(plan.name) : -1;
    if (rank >= 0 && (best_rank < 0 || rank < best_rank)) {
      chosen = &plan;
      best_rank = rank;
    }
  }
  std::string why = "forced";
  asks_tables = asks_tables && chosen == nullptr;
  if (const TunedPlan tuned = asks_tables ? tuned_plan(operation, device, sizes) : TunedPlan{}; tuned.name) {
    for (const Plan& plan : plans) {
      if (!plan.applies || std::string_view(plan.name) != tuned.name) continue;
      chosen = &plan;
      if (environment().log_dispatch) why = "table of " + std::string(tuned.device_name);
    }
  }
  if (chosen == nullptr && by_model) {
    why = "by the model";
    for (const Plan& plan : plans) {
      if (plan.applies && plan.microseconds >= 0 && (chosen == nullptr || plan.microseconds < chosen->microseconds))
        chosen = &plan;
    }
  }
  if (chosen == nullptr) {
    why = "in the order of its plans";
    for (const Plan& plan : plans) {
      const bool is_last = &plan == &plans.back();
      if (chosen == nullptr && plan.applies && (plan.preferred || is_last)) chosen = &plan;
    }
  }
  if (chosen == nullptr) {
    throw KernelError(operation.name, "a call that none of its plans applies to", "a last plan for every call",
                      "Report it: the operator's plans are incomplete");
  }
  if (environment().log_dispatch) {
    std::string line = "dispatch: " + std::string(operation.name) + " on " + device.str();
    const auto& names = operation.form->signature.plan_sizes;
    for (size_t i = 0; i < sizes.size(); ++i) line += ", " + std::string(names[i]) + " " + std::to_string(sizes[i]);
    log_once(line + ", plan " + chosen->name + " (" + why + ")");
  }
  return static_cast<size_t>(chosen - plans.data());
}

}  // namespace ashlar
