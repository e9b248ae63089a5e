#include "schedules/lowering/rewrite.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

#include "dsl/descriptor.h"
#include "runtime/launch/access.h"

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::Parameter;
using namespace Halide::Internal;

namespace {

class Rewriter : public IRGraphMutator {
 public:
  explicit Rewriter(const Rewrite& rewrite) : rewrite_(rewrite) {}

 private:
  using IRGraphMutator::visit;
  Expr visit(const Variable* variable) override {
    const auto found = rewrite_.variables.find(variable->name);
    return found == rewrite_.variables.end() ? Expr(variable) : found->second;
  }
  Expr visit(const Call* call) override {
    if (call->call_type != Call::Halide) return IRGraphMutator::visit(call);
    std::vector<Expr> coordinates;
    for (const Expr& argument : call->args) coordinates.push_back(mutate(argument));
    if (const auto found = rewrite_.calls.find(call->name); found != rewrite_.calls.end()) {
      return found->second(coordinates, call->value_index);
    }
    const Function callee(call->func);
    if (callee.has_update_definition() || callee.has_extern_definition() || !callee.has_pure_definition() ||
        rewrite_.kept.contains(call->name)) {
      return Call::make(callee, coordinates, call->value_index);
    }
    // One plain formula: write it out with its coordinates in place, then rewrite what it calls.
    Rewrite inner{{}, rewrite_.calls, rewrite_.kept};
    for (size_t i = 0; i < coordinates.size(); i++) inner.variables[callee.args()[i]] = coordinates[i];
    return inner(callee.definition().values()[call->value_index]);
  }
  const Rewrite& rewrite_;
};

bool calls_function(const Expr& e, const std::string& name) {
  const auto* call = e.as<Call>();
  return call != nullptr && call->call_type == Call::Halide && call->name == name;
}

class InputCollector : public IRVisitor {
 public:
  std::vector<Parameter> inputs;

 private:
  using IRVisitor::visit;
  void visit(const Call* call) override {
    IRVisitor::visit(call);
    if (call->call_type != Call::Image || !call->param.defined()) return;
    if (names_.insert(call->name).second) inputs.push_back(call->param);
  }
  std::set<std::string> names_;
};

class OperationCounter : public IRGraphVisitor {
 public:
  int count = 0;

 private:
  using IRGraphVisitor::include;
  std::set<const BaseExprNode*> seen_;
  void include(const Expr& e) override {
    const auto* node = static_cast<const BaseExprNode*>(e.get());
    if (!seen_.insert(node).second) return;
    const auto* call = e.as<Call>();
    const bool is_load = call != nullptr && (call->call_type == Call::Halide || call->call_type == Call::Image);
    if (is_load) return;
    if (!is_const(e) && e.as<Variable>() == nullptr) count++;
    IRGraphVisitor::include(e);
  }
};

class PartReplacer : public IRGraphMutator {
 public:
  PartReplacer(const Expr& part, const Expr& replacement) : part_(part), replacement_(replacement) {}
  using IRGraphMutator::mutate;
  Expr mutate(const Expr& e) override {
    if (e.defined() && e.node_type() == part_.node_type() && graph_equal(e, part_)) return replacement_;
    return IRGraphMutator::mutate(e);
  }

 private:
  const Expr &part_, &replacement_;
};

// {r, i} of a key (r << 32) | i as dsl/reduce.h's argmax_key() makes it; undefined for any other expression.
std::pair<Expr, Expr> rank_and_index_of(const Expr& key) {
  const Call* both = Call::as_intrinsic(key, {Call::bitwise_or});
  const Call* high = both == nullptr ? nullptr : Call::as_intrinsic(both->args[0], {Call::shift_left});
  const Cast* rank = high == nullptr || !is_const(high->args[1], 32) ? nullptr : high->args[0].as<Cast>();
  if (rank == nullptr || rank->value.type() != Halide::UInt(32)) return {};
  return {rank->value, both->args[1]};
}

Expr buffer_field(const Parameter& input, const std::string& field, int dimension) {
  return Variable::make(Halide::Int(32), input.name() + "." + field + "." + std::to_string(dimension), input);
}

}  // namespace

Expr Rewrite::operator()(const Expr& expression) const {
  // Halide names the common parts of every definition t0, t1, …: written out, so that no two definitions' names meet.
  Rewriter rewriter(*this);
  return rewriter.mutate(substitute_in_all_lets(expression));
}

ReductionStage::ReductionStage(const Func& func) : name_(func.name()) {
  const Function function = func.function();
  if (const auto found = Descriptor::current->merges.find(name_); found != Descriptor::current->merges.end()) {
    merging_ = found->second;
  }
  if (!has_merge() && function.outputs() != 1) refuse("it needs one value, or a merge");
  if (function.updates().size() != 1) refuse("it needs one update");
  const Definition& update = function.update(0);
  const std::vector<ReductionVariable>& domain = update.schedule().rvars();
  if (domain.size() != 1) refuse("it needs one reduction axis");
  for (const std::string& name : function.args()) index_.emplace_back(name);
  starts_ = has_merge() ? merging_->start() : function.definition().values();
  variable_ = domain[0].var;
  extent_ = domain[0].extent;
  condition_ = substitute_in_all_lets(update.predicate());

  if (const auto* below = condition_.as<LT>()) {
    // k + a < b  means  k < b - a.
    const Expr k = Variable::make(Halide::Int(32), variable_);
    const Expr rest = simplify(substitute(variable_, 0, below->a));
    if (!expr_uses_var(below->b, variable_) && can_prove(substitute(variable_, k, below->a) == k + rest)) {
      length_ = Halide::min(extent_, below->b - rest);
      condition_ = const_true();
    }
  }

  if (has_merge()) return;
  const Expr combined = substitute_in_all_lets(update.values()[0]);
  Expr a, b;
  if (const auto* add = combined.as<Add>()) {
    operator_ = Operator::add, a = add->a, b = add->b;
  } else if (const auto* max = combined.as<Max>()) {
    operator_ = Operator::max, a = max->a, b = max->b;
  } else if (const auto* min = combined.as<Min>()) {
    operator_ = Operator::min, a = min->a, b = min->b;
  } else {
    std::ostringstream text;
    text << combined;
    refuse("its update must be a sum, a maximum or a minimum, not " + text.str());
  }
  if (!calls_function(a, name_)) std::swap(a, b);
  if (!calls_function(a, name_)) refuse("its update must combine the stage itself with one value");
  value_ = b;
  if (operator_ == Operator::max && is_const_one(condition_))
    std::tie(rank_, index_of_key_) = rank_and_index_of(value_);
}

void ReductionStage::refuse(const std::string& what) const {
  throw Halide::CompileError("stage " + name_ + " is no reduction that this schedule can split: " + what);
}

void ReductionStage::refuse_merge() const {
  if (has_merge()) refuse("it takes sums, maxima and minima, and this one has a merge of its own");
}

Halide::Type ReductionStage::type() const {
  Halide::Type widest = starts_[0].type();
  for (const Expr& start : starts_) {
    if (start.type().bits() > widest.bits()) widest = start.type();
  }
  return widest;
}

const Expr& ReductionStage::start() const {
  refuse_merge();
  return starts_[0];
}

std::vector<Expr> ReductionStage::state(const Expr& k, Rewrite rewrite) const {
  if (!has_merge()) return {value(k, rewrite)};
  rewrite.variables[variable_] = k;
  Values element;
  for (const Value& value : merging_->element) element.emplace_back(rewrite(value.expr()));
  return expressions_of(merging_->merge.step(merging_->merge.init, element));
}

std::vector<Expr> ReductionStage::state_if(const Expr& condition, const std::vector<Expr>& state) const {
  if (is_const_one(condition)) return state;
  std::vector<Expr> chosen;
  for (size_t i = 0; i < state.size(); i++) chosen.push_back(Halide::select(condition, state[i], starts_[i]));
  return chosen;
}

std::vector<Expr> ReductionStage::merge(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
  if (!has_merge()) return {combine(a[0], b[0])};
  return expressions_of(merging_->merge.merge(Values(a.begin(), a.end()), Values(b.begin(), b.end())));
}

std::vector<Expr> ReductionStage::merge(std::vector<std::vector<Expr>> states) const {
  while (states.size() > 1) {
    std::vector<std::vector<Expr>> halved;
    for (size_t i = 0; i + 1 < states.size(); i += 2) halved.push_back(merge(states[i], states[i + 1]));
    if (states.size() % 2 == 1) halved.push_back(states.back());
    states = std::move(halved);
  }
  return states.at(0);
}

Expr ReductionStage::value(const Expr& k, Rewrite rewrite) const {
  refuse_merge();
  rewrite.variables[variable_] = k;
  return rewrite(value_);
}

Expr ReductionStage::rank(const Expr& k, Rewrite rewrite) const {
  rewrite.variables[variable_] = k;
  return rewrite(rank_);
}

Expr ReductionStage::key(const Expr& rank, const Expr& k, Rewrite rewrite) const {
  rewrite.variables[variable_] = k;
  return (Halide::cast<uint64_t>(rank) << 32) | rewrite(index_of_key_);
}

Expr ReductionStage::length(const Rewrite& rewrite) const { return length_.defined() ? rewrite(length_) : extent_; }

Expr ReductionStage::condition(const Expr& k, Rewrite rewrite) const {
  rewrite.variables[variable_] = k;
  return rewrite(condition_);
}

Expr ReductionStage::combine(const Expr& a, const Expr& b) const {
  refuse_merge();
  switch (operator_) {
    case Operator::add:
      return a + b;
    case Operator::max:
      return Halide::max(a, b);
    default:
      return Halide::min(a, b);
  }
}

Expr ReductionStage::combine(std::vector<Expr> parts) const {
  while (parts.size() > 1) {
    std::vector<Expr> halved;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) halved.push_back(combine(parts[i], parts[i + 1]));
    if (parts.size() % 2 == 1) halved.push_back(parts.back());
    parts = std::move(halved);
  }
  return parts.at(0);
}

std::vector<Expr>& values_of(Func func) { return func.function().definition().values(); }

int operations_of(const Expr& expression) {
  OperationCounter counter;
  expression.accept(&counter);
  return counter.count;
}

Expr replace_part(const Expr& expression, const Expr& part, const Expr& replacement) {
  return PartReplacer(part, replacement).mutate(expression);
}

std::vector<Parameter> inputs_of(const Func& func) {
  InputCollector collector;
  for (const auto& [name, function] : build_environment({func.function()})) function.accept(&collector);
  std::sort(collector.inputs.begin(), collector.inputs.end(),
            [](const Parameter& a, const Parameter& b) { return a.name() < b.name(); });
  return collector.inputs;
}

int lanes_of_access(const Func& func) {
  int widest = 1;
  for (const Halide::Type& type : func.types()) widest = std::max(widest, type.bytes());
  for (const Parameter& input : inputs_of(func)) widest = std::max(widest, input.type().bytes());
  return widest > 4 ? 1 : elements_of_access(widest);
}

Expr begins_aligned(const Func& input, int lanes) {
  return hidden_min(values_of(input)[0].as<Call>()->param) % lanes == 0;
}

Expr lines_are_aligned(const Parameter& input, int lanes) {
  Expr aligned = hidden_min(input) % lanes == 0;
  for (int d = 1; d + 1 < input.dimensions(); d++) aligned = aligned && stride_of(input, d) % lanes == 0;
  return aligned;
}

Expr lines_are_aligned(const Halide::OutputImageParam& output, int lanes) {
  Expr aligned = Halide::Internal::const_true();
  for (int d = 1; d < output.dimensions(); d++) aligned = aligned && output.dim(d).stride() % lanes == 0;
  return aligned;
}

Expr lines_are_aligned(const Func& out, int lanes) {
  const Halide::OutputImageParam output = Func(out).output_buffers()[0];
  Expr aligned = output.dim(0).extent() % lanes == 0 && lines_are_aligned(output, lanes);
  for (const Parameter& input : inputs_of(out)) aligned = aligned && lines_are_aligned(input, lanes);
  return Halide::Internal::simplify(aligned);
}

Expr hidden_min(const Parameter& input) { return buffer_field(input, "min", input.dimensions() - 1); }
Expr extent_of(const Parameter& input, int dimension) { return buffer_field(input, "extent", dimension); }
Expr stride_of(const Parameter& input, int dimension) { return buffer_field(input, "stride", dimension); }

std::set<std::string> names_in_memory() {
  std::set<std::string> names;
  for (const DefinedTensor& tensor : Descriptor::current->definitions) names.insert(tensor.func().name());
  return names;
}

}  // namespace ashlar::dsl
