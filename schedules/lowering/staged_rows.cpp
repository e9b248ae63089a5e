#include "schedules/lowering/staged_rows.h"

#include <set>

namespace ashlar::dsl {

using Halide::Expr;
using Halide::Func;
using Halide::Parameter;
using namespace Halide::Internal;

namespace {

// The Funcs through which a definition reads inputs of rank 2 (and the hidden dimension).
class FindRowInputs : public IRVisitor {
 public:
  std::map<std::string, Function> inputs;

 private:
  using IRVisitor::visit;
  void visit(const Call* call) override {
    IRVisitor::visit(call);
    if (call->call_type != Call::Halide) return;
    const Function callee(call->func);
    if (callee.has_update_definition() || !callee.has_pure_definition() || callee.outputs() != 1) return;
    const auto* image = callee.definition().values()[0].as<Call>();
    if (image == nullptr || image->call_type != Call::Image || !image->param.defined()) return;
    if (image->param.dimensions() == 3) inputs.emplace(call->name, callee);
  }
};

// The inputs of rank 1 that an expression reads at `column`.
class FindColumnInputs : public IRVisitor {
 public:
  explicit FindColumnInputs(std::string column) : column_(std::move(column)) {}
  std::set<std::string> names;

 private:
  using IRVisitor::visit;
  void visit(const Call* call) override {
    IRVisitor::visit(call);
    if (call->call_type != Call::Image || !call->param.defined() || call->param.dimensions() != 2) return;
    const auto* index = call->args[0].as<Variable>();
    if (index != nullptr && index->name == column_) names.insert(call->name);
  }
  std::string column_;
};

}  // namespace

std::vector<Func> column_inputs(const RowStages& stages, bool of_reductions) {
  std::set<std::string> names;
  const auto add = [&](const Expr& value, const std::string& column) {
    FindColumnInputs find(column);
    Rewrite{}(value).accept(&find);
    names.insert(find.names.begin(), find.names.end());
  };
  for (const Stage& stage : stages.reductions) {
    const Definition& update = stage.func().function().updates().at(0);
    for (const Expr& value : update.values()) add(value, update.schedule().rvars().at(0).var);
  }
  if (stages.out_has_columns() && !of_reductions) {
    for (const Expr& value : values_of(stages.out)) add(value, stages.column.name());
  }
  // By the Funcs through which they are read.
  std::vector<Function> readers{Func(stages.out).function()};
  for (const Stage& stage : stages.reductions) readers.push_back(stage.func().function());
  std::vector<Func> result;
  for (const auto& [name, function] : build_environment(readers)) {
    if (function.has_update_definition() || !function.has_pure_definition() || function.outputs() != 1) continue;
    const auto* image = function.definition().values()[0].as<Call>();
    if (image != nullptr && image->call_type == Call::Image && names.contains(image->name)) {
      result.emplace_back(function);
    }
  }
  return result;
}

namespace {

// By name, the rank-2 inputs that the reductions and the output read, and how many of them do.
std::map<std::string, std::pair<Function, int>> readers_of_inputs(const RowStages& stages) {
  std::map<std::string, std::pair<Function, int>> readers;
  const auto add_reader = [&](const Func& func) {
    FindRowInputs find;
    func.function().accept(&find);
    for (const auto& [name, function] : find.inputs) readers.try_emplace(name, function, 0).first->second.second++;
  };
  for (const Stage& stage : stages.reductions) add_reader(stage.func());
  if (stages.out_has_columns()) add_reader(stages.out);
  return readers;
}

}  // namespace

std::vector<Func> inputs_to_stage(const RowStages& stages) {
  std::vector<Func> result;
  for (const auto& [name, reader] : readers_of_inputs(stages)) {
    if (reader.second > 1) result.emplace_back(reader.first);
  }
  return result;
}

std::vector<Func> inputs_of_output_alone(const RowStages& stages) {
  if (!stages.out_has_columns()) return {};
  FindRowInputs find;
  Func(stages.out).function().accept(&find);
  std::vector<Func> result;
  for (const auto& [name, reader] : readers_of_inputs(stages)) {
    if (reader.second == 1 && find.inputs.contains(name)) result.emplace_back(reader.first);
  }
  return result;
}

Expr rows_are_aligned(const RowStages& stages, int vector) {
  Expr aligned = const_true();
  for (const Parameter& input : inputs_of(stages.out)) {
    if (input.dimensions() != 3) continue;
    aligned = aligned && extent_of(input, 0) % vector == 0 && lines_are_aligned(input, vector);
  }
  for (const Func& input : column_inputs(stages)) {
    aligned = aligned && hidden_min(values_of(input)[0].as<Call>()->param) % vector == 0;
  }
  std::vector<Func> outputs = stages.beside;
  outputs.push_back(stages.out);
  for (const Func& output : outputs) {
    const Halide::OutputImageParam out = Func(output).output_buffers()[0];
    if (output.dimensions() != 2) continue;
    aligned = aligned && out.dim(0).extent() % vector == 0 && lines_are_aligned(out, vector);
  }
  return simplify(aligned);
}

Expr rows_are_runs(const RowStages& stages, int vector) {
  Expr runs = const_true();
  for (const Parameter& input : inputs_of(stages.out)) {
    if (input.dimensions() != 3) continue;
    runs = runs && stride_of(input, 1) == extent_of(input, 0) && hidden_min(input) % vector == 0;
  }
  for (const Func& input : column_inputs(stages)) {
    runs = runs && hidden_min(values_of(input)[0].as<Call>()->param) % vector == 0;
  }
  std::vector<Func> outputs = stages.beside;
  outputs.push_back(stages.out);
  for (const Func& output : outputs) {
    if (output.dimensions() != 2) continue;
    const Halide::OutputImageParam out = Func(output).output_buffers()[0];
    runs = runs && out.dim(1).stride() == out.dim(0).extent();
  }
  return simplify(runs);
}

Expr value_where(const ReductionStage& stage, const Expr& column, const Expr& is_there, const Rewrite& rewrite) {
  Expr value = stage.value(column, rewrite);
  const auto only_where = [&](const Expr& condition) {
    if (!is_const_one(condition)) value = Halide::select(condition, value, stage.start());
  };
  only_where(is_there);
  if (stage.has_length()) only_where(column < stage.length(rewrite));
  only_where(stage.condition(column, rewrite));
  return value;
}

Func stage_rows(const Func& input, const RowLayout& layout, const Expr& columns, const Var& element, const Var& thread,
                const Expr& thread_in_row, const Var& step, const std::vector<Var>& rest, const Expr& row, int first,
                const std::string& name) {
  const Expr vector = Halide::min((step + first) * layout.threads + thread_in_row, columns / layout.vector - 1);
  std::vector<Var> index{element, thread, step};
  index.insert(index.end(), rest.begin(), rest.end());
  Func staged(name.empty() ? input.name() + "_staged" + (first > 0 ? std::to_string(first) : "") : name);
  const Expr column = vector * layout.vector + element;
  staged(index) = input.dimensions() == 2 ? input(column, 0) : input(column, row, 0);
  return staged;
}

StagedShare make_staged_share(
    const ReductionStage& stage, const std::string& name, const std::vector<Var>& index, const RowLayout& layout,
    const Expr& thread_in_row, const std::vector<Steps>& parts,
    const std::function<Rewrite(size_t part, const Halide::RDom& each, const Expr& column)>& reading) {
  StagedShare share{Func(stage.name() + name), {}};
  const std::vector<Expr> at(index.begin(), index.end());
  share.func(index) = stage.start();
  for (size_t part = 0; part < parts.size(); part++) {
    const Halide::RDom each(0, layout.vector, 0, parts[part].count);
    const Expr vector = (each.y + parts[part].first) * layout.threads + thread_in_row;
    const Expr vectors = stage.extent() / layout.vector;
    // Beyond the last vector that one again, as in stage_rows(): other tensors are read at this column, too.
    const Expr column = Halide::min(vector, vectors - 1) * layout.vector + each.x;
    const Rewrite rewrite = reading(part, each, column);
    const Expr is_there = stage.is_idempotent() ? const_true() : vector < vectors;
    share.func(at) = stage.combine(share.func(at), value_where(stage, column, is_there, rewrite));
    share.each.push_back(each);
  }
  return share;
}

}  // namespace ashlar::dsl
