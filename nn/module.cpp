#include "nn/module.h"

#include <unordered_map>

#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

Var Module::register_parameter(std::string name, Tensor value) try {
  return parameters_.emplace_back(std::move(name), Var(std::move(value), /*requires_grad=*/true)).second;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::register_parameter");
}

Var Module::register_buffer(std::string name, Tensor value) try {
  return buffers_.emplace_back(std::move(name), Var(std::move(value))).second;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::register_buffer");
}

void Module::register_child(std::string name, std::shared_ptr<Module> child) try {
  if (child == nullptr) {
    throw ValueError("Module::register_child", "a null module as \"" + name + "\"", "a module", "Make it first");
  }
  children_.emplace_back(std::move(name), std::move(child));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::register_child");
}

void Module::collect(const std::string& prefix, NamedVars* parameters, NamedVars* buffers, NamedVars* all) const {
  auto append = [&prefix](const NamedVars& from, NamedVars* to) {
    if (to == nullptr) return;
    for (const auto& [name, var] : from) to->emplace_back(prefix + name, var);
  };
  append(parameters_, parameters);
  append(buffers_, buffers);
  append(parameters_, all);
  append(buffers_, all);
  for (const auto& [name, child] : children_) child->collect(prefix + name + ".", parameters, buffers, all);
}

NamedVars Module::named_parameters() const try {
  NamedVars result;
  collect("", &result, nullptr, nullptr);
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::named_parameters");
}

NamedVars Module::named_buffers() const try {
  NamedVars result;
  collect("", nullptr, &result, nullptr);
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::named_buffers");
}

NamedVars Module::all() const {
  NamedVars result;
  collect("", nullptr, nullptr, &result);
  return result;
}

std::vector<Var> Module::parameters() const try {
  std::vector<Var> result;
  for (auto& [name, var] : named_parameters()) result.push_back(var);
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::parameters");
}

int64_t Module::parameter_count() const try {
  int64_t count = 0;
  for (const Var& parameter : parameters()) count += parameter.value().numel();
  return count;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::parameter_count");
}

NamedTensors Module::state_dict() const try {
  NamedTensors result;
  for (const auto& [name, var] : all()) result.emplace_back(name, var.value());
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::state_dict");
}

void Module::load_state_dict(const NamedTensors& state) const try {
  constexpr const char* kName = "Module::load_state_dict";
  std::unordered_map<std::string, Tensor> given;
  for (const auto& [name, tensor] : state) {
    if (!given.emplace(name, tensor).second) {
      throw ValueError(kName, "\"" + name + "\" twice", "every name once", "Remove one of them");
    }
  }
  const NamedVars targets = all();
  for (const auto& [name, var] : targets) {
    const auto found = given.find(name);
    if (found == given.end()) {
      throw ValueError(kName, "no tensor \"" + name + "\"", "one for every parameter and buffer",
                       "Load weights saved from a module of the same structure");
    }
    if (found->second.shape() != var.shape()) {
      throw ShapeError(kName, "\"" + name + "\" as " + found->second.str(), "shape " + var.shape().str(),
                       "Load weights saved from a module of the same sizes");
    }
    if (found->second.dtype() != var.dtype()) {
      throw DTypeError(kName, "\"" + name + "\" as " + found->second.str(), std::string(name_of(var.dtype())),
                       "Cast the tensor, or the module with to(dtype)");
    }
  }
  if (given.size() != targets.size()) {
    for (const auto& [name, var] : targets) given.erase(name);
    throw ValueError(kName, "an unknown tensor \"" + given.begin()->first + "\"", "only the module's own names",
                     "Load weights saved from a module of the same structure");
  }
  for (const auto& [name, var] : targets) var.value().copy_(given.at(name));
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::load_state_dict");
}

void Module::to(Device device) const try {
  for (const auto& [name, var] : all()) {
    if (var.device() != device) var.set_value(var.value().to(device));
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::to");
}

void Module::to(DType dtype) const try {
  for (const auto& [name, var] : all()) {
    if (is_floating(var.dtype()) && var.dtype() != dtype) var.set_value(var.value().to(dtype));
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Module::to");
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

}  // namespace ashlar::nn
