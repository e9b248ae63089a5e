#include "dsl/algorithm_checks.h"

#include <algorithm>
#include <map>

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Parameter;

std::vector<Function> functions_of(const std::vector<Halide::Func>& outputs) {
  std::vector<Function> functions;
  for (const Halide::Func& output : outputs) functions.push_back(output.function());
  return functions;
}

// Finds maxima and minima of floats.
class FloatMaxima : public IRGraphVisitor {
 public:
  bool found = false;

 private:
  using IRGraphVisitor::visit;
  void visit(const Max* op) override {
    found = found || op->type.is_float();
    IRGraphVisitor::visit(op);
  }
  void visit(const Min* op) override {
    found = found || op->type.is_float();
    IRGraphVisitor::visit(op);
  }
  void visit(const Call* op) override {
    found = found || op->is_intrinsic({Call::strict_max, Call::strict_min});
    IRGraphVisitor::visit(op);
  }
};

// Finds a call of `function` itself that stands inside another call.
class SelfReadInsideCall : public IRVisitor {
 public:
  explicit SelfReadInsideCall(const std::string& function) : function_(function) {}
  bool found = false;

 private:
  using IRVisitor::visit;
  void visit(const Call* call) override {
    if (call->name == function_) {
      found = found || depth_ > 0;
      return;
    }
    depth_++;
    IRVisitor::visit(call);
    depth_--;
  }
  std::string function_;
  int depth_ = 0;
};

// The input that `function` is Halide's wrapper of; undefined for any other.
Parameter input_behind(const Function& function) {
  if (function.has_update_definition() || !function.has_pure_definition() || function.outputs() != 1) return {};
  const Call* image = function.definition().values()[0].as<Call>();
  return image != nullptr && image->call_type == Call::Image ? image->param : Parameter();
}

// The size along a buffer's dimension in terms of the tensor by whose size its shape rule gives it.
Expr size_along(const Parameter& buffer, int dimension) {
  const Expr rule = buffer.extent_constraint(dimension);
  if (!rule.defined()) {
    return Variable::make(Halide::Int(32), buffer.name() + ".extent." + std::to_string(dimension), buffer);
  }
  const Variable* other = rule.as<Variable>();
  if (other == nullptr || !other->param.defined() || !other->param.is_buffer()) return rule;
  for (int d = 0; d < other->param.dimensions(); d++) {
    if (other->name == other->param.name() + ".extent." + std::to_string(d)) return size_along(other->param, d);
  }
  return rule;
}

// What the kernel calls that axis of one of its arguments, if it has named it.
std::string axis_name(const std::string& tensor, int dimension) {
  for (const ArgumentDescription& argument : Descriptor::current->arguments) {
    if (argument.name != tensor || dimension >= static_cast<int>(argument.sizes.size())) continue;
    const Size& size = argument.sizes[static_cast<size_t>(dimension)];
    return size.dim == nullptr ? "" : size.dim->name;
  }
  return "";
}

// "columns", or "x.size(1)" where that axis has no name
std::string text_of(const Expr& size) {
  const Variable* variable = size.as<Variable>();
  if (variable != nullptr && variable->param.defined() && variable->param.is_buffer()) {
    for (int d = 0; d + 1 < variable->param.dimensions(); d++) {
      if (variable->name != variable->param.name() + ".extent." + std::to_string(d)) continue;
      const int dimension = variable->param.dimensions() - 2 - d;
      const std::string name = axis_name(variable->param.name(), dimension);
      return name.empty() ? variable->param.name() + ".size(" + std::to_string(dimension) + ")" : name;
    }
  }
  std::ostringstream text;
  text << size;
  return text.str();
}

// Walks a function's definitions with the size that each of its indices runs over.
class IndexCheck : public IRGraphVisitor {
 public:
  using Sizes = std::map<std::string, Expr>;  // of variables by name; undefined: not known

  IndexCheck(const std::map<std::string, Parameter>& outputs, std::map<std::string, std::vector<Expr>>& sizes)
      : outputs_(outputs), sizes_of_callees_(sizes) {}

  void check(const Definition& definition, const Sizes& sizes) {
    sizes_ = &sizes;
    for (const Expr& value : definition.values()) {
      walked_.push_back(substitute_in_all_lets(value));
      walked_.back().accept(this);
    }
  }

 private:
  using IRGraphVisitor::visit;
  void visit(const Call* call) override {
    IRGraphVisitor::visit(call);
    if (call->call_type != Call::Halide) return;
    const Function callee(call->func);
    if (const Parameter input = input_behind(callee); input.defined()) {
      check_read(call, input, input.dimensions() - 1);
    } else if (const auto output = outputs_.find(call->name); output != outputs_.end()) {
      check_read(call, output->second, output->second.dimensions());
    } else {
      pass_on(call);
    }
  }

  Expr size_of(const Expr& index) const {
    const Variable* variable = index.as<Variable>();
    const auto found = variable == nullptr ? sizes_->end() : sizes_->find(variable->name);
    return found == sizes_->end() ? Expr() : found->second;
  }

  // x(i + 1), i running over all of that dimension
  void check_inside(const Expr& index, const Parameter& buffer, int d, int rank) const {
    const Add* sum = index.as<Add>();
    const Sub* difference = index.as<Sub>();
    const Expr base = sum != nullptr          ? sum->a
                      : difference != nullptr ? difference->a
                                              : Expr(),
               step = sum != nullptr          ? sum->b
                      : difference != nullptr ? difference->b
                                              : Expr();
    if (!base.defined() || !is_const(step) || is_const_zero(step)) return;
    const Variable* variable = base.as<Variable>();
    const Expr runs_over = size_of(base);
    // A reduction's axis may have a condition.
    if (!runs_over.defined() || variable->reduction_domain.defined() || !equal(runs_over, size_along(buffer, d)))
      return;
    std::ostringstream text;
    text << index;
    mistake(buffer.name() + " is read at " + text.str() + " along its dimension " + std::to_string(rank - 1 - d) +
            ", outside of it at an end: state a border, bordered(" + buffer.name() + ", Border::clamp)(…)");
  }

  void check_read(const Call* call, const Parameter& buffer, int rank) const {
    for (int d = rank - 1; d >= 0; d--) {
      check_inside(call->args[static_cast<size_t>(d)], buffer, d, rank);
      const Expr runs_over = size_of(call->args[static_cast<size_t>(d)]), has = size_along(buffer, d);
      if (!runs_over.defined() || equal(runs_over, has)) continue;
      bool is_another = false;
      for (int other = 0; other < rank; other++) is_another = is_another || equal(runs_over, size_along(buffer, other));
      if (!is_another && !buffer.extent_constraint(d).defined()) continue;
      const std::string index = call->args[static_cast<size_t>(d)].as<Variable>()->name;
      mistake(buffer.name() + " is read with " + plain_name(index) + " at its dimension " +
              std::to_string(rank - 1 - d) + ", whose size is " + text_of(has) + ", but that index runs over " +
              text_of(runs_over) +
              ": put the indices in the tensor's order, outermost first, or say in a shape rule "
              "that the sizes are equal");
    }
  }

  // What the callee's indices run over, where all its callers agree.
  void pass_on(const Call* call) {
    const auto [at, is_first] = sizes_of_callees_.emplace(call->name, std::vector<Expr>(call->args.size()));
    for (size_t i = 0; i < call->args.size(); i++) {
      const Expr size = size_of(call->args[i]);
      Expr& known = at->second[i];
      if (is_first) {
        known = size;
      } else if (known.defined() && !(size.defined() && equal(known, size))) {
        known = Expr();
      }
    }
  }

  const std::map<std::string, Parameter>& outputs_;
  std::map<std::string, std::vector<Expr>>& sizes_of_callees_;
  const Sizes* sizes_ = nullptr;
  std::vector<Expr> walked_;  // a visitor knows by its address what it has seen: nothing may be freed meanwhile
};

// Whatever an outermost maximum of several is of.
void look_below_maxima(const Expr& value, FloatMaxima& maxima) {
  const Max* max = value.as<Max>();
  if (max == nullptr) return value.accept(&maxima);
  look_below_maxima(max->a, maxima);
  look_below_maxima(max->b, maxima);
}

}  // namespace

void check_defined(const Descriptor& descriptor) {
  for (const DefinedTensor& definition : descriptor.definitions) {
    if (!definition.is_defined()) {
      mistake(definition.name + " is never given a value: algorithm() has to define it, " + definition.name +
              "(…) = …");
    }
  }
}

void check_maxima(const std::vector<Halide::Func>& outputs, const std::set<std::string>& may_drop_nan) {
  for (const auto& [name, function] : build_environment(functions_of(outputs))) {
    FloatMaxima maxima;
    std::vector<Expr> walked;
    const auto look_at = [&](const Halide::Internal::Definition& definition) {
      for (const Expr& with_lets : definition.values()) {
        const Expr& value = walked.emplace_back(substitute_in_all_lets(with_lets));
        may_drop_nan.contains(name) ? look_below_maxima(value, maxima) : value.accept(&maxima);
      }
    };
    if (function.has_pure_definition()) look_at(function.definition());
    for (const auto& update : function.updates()) look_at(update);
    if (maxima.found) {
      mistake(plain_name(name) +
              " takes Halide's max, min or clamp of floats, which drop NaN on some target: write max(a, b), "
              "min(a, b), clamp(x, low, high) or relu(x) of the language, without Halide:: in front; along an axis "
              "max(k, value), or max_of_numbers(k, value) where NaN may be dropped");
    }
  }
}

void check_tuple_updates(const std::vector<Halide::Func>& outputs) {
  for (const auto& [name, function] : build_environment(functions_of(outputs))) {
    if (function.outputs() < 2) continue;
    for (const auto& update : function.updates()) {
      for (const Expr& value : update.values()) {
        SelfReadInsideCall visitor(name);
        value.accept(&visitor);
        if (visitor.found) {
          mistake("the Tuple update of stage " + plain_name(name) +
                  " reads itself inside a call, which Halide 21 evaluates in the wrong order; put the previous values "
                  "into a stage of their own first");
        }
      }
    }
  }
}

void check_indices(const std::vector<Halide::Func>& outputs) {
  const std::vector<Function> functions = functions_of(outputs);
  const std::map<std::string, Function> environment = build_environment(functions);
  std::map<std::string, Parameter> buffers;
  std::map<std::string, std::vector<Expr>> sizes;
  for (const Function& output : functions) {
    const Parameter& buffer = output.output_buffers()[0];
    buffers[output.name()] = buffer;
    for (int d = 0; d < output.dimensions(); d++) {
      // Where the caller chooses the size, nothing is known of the index.
      sizes[output.name()].push_back(buffer.extent_constraint(d).defined() ? size_along(buffer, d) : Expr());
    }
  }
  std::vector<std::string> order = topological_order(functions, environment);
  std::reverse(order.begin(), order.end());  // callers first
  for (const std::string& name : order) {
    const Function& function = environment.at(name);
    if (input_behind(function).defined() || !function.has_pure_definition()) continue;
    IndexCheck::Sizes known;
    if (const auto found = sizes.find(name); found != sizes.end()) {
      for (size_t i = 0; i < found->second.size(); i++) known[function.args()[i]] = found->second[i];
    }
    IndexCheck check(buffers, sizes);
    check.check(function.definition(), known);
    for (const auto& update : function.updates()) {
      IndexCheck::Sizes with_axes = known;
      for (const ReductionVariable& axis : update.schedule().rvars()) {
        const Variable* size = axis.extent.as<Variable>();
        if (size == nullptr || !size->param.defined() || !size->param.is_buffer()) continue;
        for (int d = 0; d < size->param.dimensions(); d++) {
          if (size->name != size->param.name() + ".extent." + std::to_string(d)) continue;
          with_axes[axis.var] = size_along(size->param, d);
        }
      }
      IndexCheck(buffers, sizes).check(update, with_axes);
    }
  }
}

}  // namespace ashlar::dsl
