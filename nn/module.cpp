#include "nn/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"

namespace ashlar::nn {

/// Members are told to visitors of this file alone, which change nothing where they come from a const module.
struct MemberAccess {
  static void visit(const Module& module, Members& members) { const_cast<Module&>(module).members(members); }
  static std::shared_ptr<Module> copy(const Module& module) { return module.copy(); }
  static void set_training(Module& module, bool on) { module.training_ = on; }
};

namespace {

enum class Kind : uint8_t { parameter, weight_buffer, checkpoint_buffer };

/// Calls functions for all members of a tree, with their full names.
class Walk : public Members {
 public:
  std::function<void(const std::string& name, const Var& var, Kind kind)> on_var;
  std::function<void(const std::string& name, Module& module)> on_module;

  void run(const Module& module) { MemberAccess::visit(module, *this); }

  void parameter(std::string_view name, Var& parameter) override { var(name, parameter, Kind::parameter); }
  void buffer(std::string_view name, Var& buffer, Saved saved) override {
    var(name, buffer, saved == Saved::with_weights ? Kind::weight_buffer : Kind::checkpoint_buffer);
  }
  void child(std::string_view name, Module& module) override {
    const size_t length = prefix_.size();
    prefix_.append(name);
    if (on_module) on_module(prefix_, module);
    prefix_ += '.';
    MemberAccess::visit(module, *this);
    prefix_.resize(length);
  }

 protected:
  std::shared_ptr<Module> shared_child(std::string_view name, std::shared_ptr<Module> module) override {
    child(name, *module);
    return module;
  }

 private:
  void var(std::string_view name, const Var& var, Kind kind) {
    if (on_var && var.defined()) on_var(prefix_ + std::string(name), var, kind);
  }
  std::string prefix_;
};

/// Puts copies in place of what a module has; what it has twice is copied once.
class Unshare : public Members {
 public:
  void parameter(std::string_view /*name*/, Var& parameter) override { replace(parameter); }
  void buffer(std::string_view /*name*/, Var& buffer, Saved /*saved*/) override { replace(buffer); }
  void child(std::string_view /*name*/, Module& module) override { MemberAccess::visit(module, *this); }

 protected:
  std::shared_ptr<Module> shared_child(std::string_view /*name*/, std::shared_ptr<Module> module) override {
    std::shared_ptr<Module>& twin = modules_[module.get()];
    if (twin == nullptr) {
      twin = MemberAccess::copy(*module);
      MemberAccess::visit(*twin, *this);
    }
    return twin;
  }

 private:
  void replace(Var& var) {
    if (!var.defined()) return;
    Var& twin = vars_[var.state().get()];
    if (!twin.defined()) twin = Var(var.value().clone(), var.requires_grad());
    var = twin;
  }
  std::unordered_map<const void*, Var> vars_;
  std::unordered_map<const Module*, std::shared_ptr<Module>> modules_;
};

struct NamedVar {
  std::string name;
  Var var;
  Kind kind;
};

std::vector<NamedVar> vars_of(const Module& module) {
  std::vector<NamedVar> result;
  Walk walk;
  walk.on_var = [&](const std::string& name, const Var& var, Kind kind) { result.push_back({name, var, kind}); };
  walk.run(module);
  return result;
}

NamedVars unique_vars(const Module& module, bool parameters) {
  NamedVars result;
  std::unordered_set<const void*> seen;
  for (NamedVar& item : vars_of(module)) {
    if ((item.kind == Kind::parameter) != parameters || !seen.insert(item.var.state().get()).second) continue;
    result.emplace_back(std::move(item.name), std::move(item.var));
  }
  return result;
}

NamedVars state_of(const Module& module, Saved what) {
  NamedVars result;
  for (NamedVar& item : vars_of(module)) {
    if (item.kind == Kind::checkpoint_buffer && what == Saved::with_weights) continue;
    result.emplace_back(std::move(item.name), std::move(item.var));
  }
  return result;
}

/// "\"a\", \"b\" and 7 more"
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); i++) text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  return names.size() > kMost ? text + " and " + std::to_string(names.size() - kMost) + " more" : text;
}

template <class Work>
auto within_memory(const char* operation, Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    detail::throw_out_of_host_memory(operation);
  }
}

}  // namespace

std::string class_name(const std::type_info& type) {
  return within_memory("class_name", [&] {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                           &std::free);
    std::string text = name != nullptr ? name.get() : type.name();
    // Of ashlar::nn::Residual<ashlar::nn::Linear>, namespaces go everywhere.
    for (size_t end = text.find("::"); end != std::string::npos; end = text.find("::")) {
      const size_t before = text.find_last_of("<, (", end);
      const size_t begin = before == std::string::npos ? 0 : before + 1;
      text.erase(begin, end + 2 - begin);
    }
    return text;
  });
}

NamedVars Module::named_parameters() const {
  return within_memory("Module::named_parameters", [&] { return unique_vars(*this, true); });
}

NamedVars Module::named_buffers() const {
  return within_memory("Module::named_buffers", [&] { return unique_vars(*this, false); });
}

NamedModules Module::named_modules() const {
  return within_memory("Module::named_modules", [&] {
    NamedModules result{{"", this}};
    Walk walk;
    walk.on_module = [&](const std::string& name, const Module& module) { result.emplace_back(name, &module); };
    walk.run(*this);
    return result;
  });
}

std::vector<Var> Module::parameters() const {
  return within_memory("Module::parameters", [&] {
    std::vector<Var> result;
    for (auto& [name, var] : unique_vars(*this, true)) result.push_back(std::move(var));
    return result;
  });
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Var& parameter : parameters()) count += parameter.numel();
  return count;
}

NamedTensors Module::state_dict(Saved what) const {
  return within_memory("Module::state_dict", [&] {
    NamedTensors result;
    for (const auto& [name, var] : state_of(*this, what)) result.emplace_back(name, var.value());
    return result;
  });
}

void Module::load_state_dict(const NamedTensors& state, Saved what) const {
  constexpr const char* kName = "Module::load_state_dict";
  within_memory(kName, [&] {
    std::unordered_map<std::string, Tensor> given;
    for (const auto& [name, tensor] : state) {
      if (!given.emplace(name, tensor).second) {
        throw ValueError(kName, "\"" + name + "\" twice", "every name once", "Remove one of them");
      }
    }
    const NamedVars targets = state_of(*this, what);
    std::vector<std::string> missing, unexpected;
    std::unordered_set<std::string> wanted;
    for (const auto& [name, var] : targets) {
      wanted.insert(name);
      if (!given.contains(name)) missing.push_back(name);
    }
    for (const auto& [name, tensor] : state) {
      if (!wanted.contains(name)) unexpected.push_back(name);
    }
    if (!missing.empty() || !unexpected.empty()) {
      const std::string first = missing.empty() ? "" : "no tensor " + listed(missing);
      const std::string second = unexpected.empty() ? "" : "unexpected " + listed(unexpected);
      throw ValueError(kName, first + (first.empty() || second.empty() ? "" : "; ") + second,
                       "a tensor for every name of the module and no other",
                       "Load weights saved from a module of the same structure");
    }
    for (const auto& [name, var] : targets) {
      const Tensor& tensor = given.at(name);
      if (tensor.shape() != var.shape()) {
        throw ShapeError(kName, "\"" + name + "\" as " + tensor.str(), "shape " + var.shape().str(),
                         "Load weights saved from a module of the same sizes");
      }
      if (tensor.dtype() != var.dtype()) {
        throw DTypeError(kName, "\"" + name + "\" as " + tensor.str(), std::string(name_of(var.dtype())),
                         "Cast the tensor, or the module with to(dtype)");
      }
    }
    for (const auto& [name, var] : targets) var.value().copy_(given.at(name));
  });
}

void Module::to(Device device) const {
  within_memory("Module::to", [&] {
    for (const NamedVar& item : vars_of(*this)) {
      if (item.var.device() != device) item.var.set_value(item.var.value().to(device));
    }
  });
}

void Module::to(DType dtype) const {
  within_memory("Module::to", [&] {
    for (const NamedVar& item : vars_of(*this)) {
      const DType from = item.var.dtype();
      if (is_floating(from) && from != dtype) item.var.set_value(item.var.value().to(dtype));
    }
  });
}

void Module::requires_grad(bool on) const {
  for (const Var& parameter : parameters()) parameter.set_requires_grad(on);
}

void Module::zero_grad() const {
  for (const Var& parameter : parameters()) parameter.clear_grad();
}

void Module::train(bool on) {
  within_memory("Module::train", [&] {
    training_ = on;
    Walk walk;
    walk.on_module = [on](const std::string&, Module& module) { MemberAccess::set_training(module, on); };
    walk.run(*this);
  });
}

std::shared_ptr<Module> Module::clone() const {
  return within_memory("Module::clone", [&] {
    std::shared_ptr<Module> twin = copy();
    twin->unshare();
    return twin;
  });
}

void Module::unshare() {
  within_memory("Module::clone", [&] {
    Unshare unshare;
    members(unshare);
  });
}

std::string Module::summary() const {
  return within_memory("Module::summary", [&] {
    struct Row {
      std::string name, what, shapes;
      int64_t count = 0;
    };
    std::vector<Row> rows;
    std::unordered_map<std::string, size_t> row_of;
    for (const auto& [name, module] : named_modules()) {
      const auto depth = static_cast<size_t>(std::ranges::count(name, '.')) + (name.empty() ? 0 : 1);
      const std::string details = module->details();
      row_of[name] = rows.size();
      rows.push_back({std::string(2 * depth, ' ') + (name.empty() ? "(all)" : name),
                      module->kind() + (details.empty() ? "" : "(" + details + ")"), "", 0});
    }
    std::unordered_set<const void*> seen;
    int64_t parameters = 0, buffers = 0, bytes = 0;
    for (const NamedVar& item : vars_of(*this)) {
      const size_t dot = item.name.rfind('.');
      Row& row = rows[row_of.at(dot == std::string::npos ? "" : item.name.substr(0, dot))];
      const bool is_new = seen.insert(item.var.state().get()).second;
      row.shapes += (row.shapes.empty() ? "" : ", ") + item.name.substr(dot == std::string::npos ? 0 : dot + 1) + " " +
                    item.var.shape().str() + (is_new ? "" : " (shared)");
      if (!is_new) continue;
      (item.kind == Kind::parameter ? parameters : buffers) += item.var.numel();
      bytes += item.var.value().bytes();
      if (item.kind == Kind::parameter) row.count += item.var.numel();
    }
    size_t names = 0, whats = 0, shapes = 0;
    for (const Row& row : rows) {
      names = std::max(names, row.name.size());
      whats = std::max(whats, row.what.size());
      shapes = std::max(shapes, row.shapes.size());
    }
    std::string text;
    for (const Row& row : rows) {
      std::string line = row.name + std::string(names - row.name.size() + 2, ' ') + row.what;
      if (!row.shapes.empty()) {
        line += std::string(whats - row.what.size() + 2, ' ') + row.shapes;
        line += std::string(shapes - row.shapes.size() + 2, ' ') + std::to_string(row.count);
      }
      text += line + "\n";
    }
    text += std::to_string(parameters) + " parameters";
    if (buffers > 0) text += ", " + std::to_string(buffers) + " elements of buffers";
    return text + ", " + std::to_string(bytes) + " bytes\n";
  });
}

std::ostream& operator<<(std::ostream& out, const Module& module) { return out << module.summary(); }

}  // namespace ashlar::nn
