#include "dsl/build/lowered_digest.h"

#include <bit>
#include <stdexcept>
#include <unordered_map>

namespace ashlar::dsl {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

/// IRGraphVisitor's own visits go through all children of a node, by include().
class AddLowered : public IRGraphVisitor {
 public:
  explicit AddLowered(Digest& digest) : digest_(digest) {}
  void include(const Expr& e) override {
    if (seen(e.get())) return;
    add(e.type());
    visit_node(e.get());
  }
  void include(const Stmt& s) override {
    if (seen(s.get())) return;
    visit_node(s.get());
  }

 private:
  // What isn't the number of a node begins with one of these.
  static constexpr uint64_t kNew = ~uint64_t{0}, kUndefined = kNew - 1, kEnd = kNew - 2;

  /// A node that has been there before is its number.
  bool seen(const IRNode* node) {
    if (node == nullptr) {
      digest_.add(kUndefined);
      return true;
    }
    const auto [place, is_new] = numbers_.emplace(node, numbers_.size());
    digest_.add(is_new ? kNew : place->second);
    return !is_new;
  }

  void visit_node(const IRNode* node) {
    digest_.add(static_cast<uint64_t>(node->node_type));
    add_fields(node);
    node->accept(this);
    digest_.add(kEnd);
  }

  void add(const Type& type) {
    digest_.add(static_cast<uint64_t>(type.code()) << 32 | static_cast<uint64_t>(type.bits()) << 16 | type.lanes());
  }
  void add(const ModulusRemainder& alignment) {
    digest_.add(static_cast<uint64_t>(alignment.modulus));
    digest_.add(static_cast<uint64_t>(alignment.remainder));
  }
  void add(const Halide::Parameter& parameter) {
    digest_.add(parameter.defined());
    if (!parameter.defined()) return;
    digest_.add(parameter.name());
    if (parameter.is_buffer()) digest_.add(static_cast<uint64_t>(parameter.host_alignment()));
  }
  void add(const Halide::Buffer<>& image) {
    if (image.defined()) throw std::logic_error("a constant buffer, " + image.name() + ", in a lowered kernel");
  }

  template <class Node>
  static const Node& as(const IRNode* node) {
    return *static_cast<const Node*>(node);
  }

  /// What a node has beside its children.
  void add_fields(const IRNode* node) {
    switch (node->node_type) {
      case IRNodeType::IntImm:
        return digest_.add(static_cast<uint64_t>(as<IntImm>(node).value));
      case IRNodeType::UIntImm:
        return digest_.add(as<UIntImm>(node).value);
      case IRNodeType::FloatImm:
        return digest_.add(std::bit_cast<uint64_t>(as<FloatImm>(node).value));
      case IRNodeType::StringImm:
        return digest_.add(as<StringImm>(node).value);
      case IRNodeType::Variable: {
        const auto& variable = as<Variable>(node);
        digest_.add(variable.name);
        add(variable.param);
        return add(variable.image);
      }
      case IRNodeType::Load: {
        const auto& load = as<Load>(node);
        digest_.add(load.name);
        add(load.image);
        add(load.param);
        return add(load.alignment);
      }
      case IRNodeType::Store: {
        const auto& store = as<Store>(node);
        digest_.add(store.name);
        add(store.param);
        return add(store.alignment);
      }
      case IRNodeType::Ramp:
        return digest_.add(static_cast<uint64_t>(as<Ramp>(node).lanes));
      case IRNodeType::Broadcast:
        return digest_.add(static_cast<uint64_t>(as<Broadcast>(node).lanes));
      case IRNodeType::Call: {
        const auto& call = as<Call>(node);
        digest_.add(call.name);
        digest_.add(static_cast<uint64_t>(call.call_type));
        digest_.add(static_cast<uint64_t>(call.value_index));
        add(call.image);
        return add(call.param);
      }
      case IRNodeType::Let:
        return digest_.add(as<Let>(node).name);
      case IRNodeType::LetStmt:
        return digest_.add(as<LetStmt>(node).name);
      case IRNodeType::Shuffle:
        for (const int index : as<Shuffle>(node).indices) digest_.add(static_cast<uint64_t>(index));
        return;
      case IRNodeType::VectorReduce:
        return digest_.add(static_cast<uint64_t>(as<VectorReduce>(node).op));
      case IRNodeType::ProducerConsumer:
        digest_.add(as<ProducerConsumer>(node).name);
        return digest_.add(as<ProducerConsumer>(node).is_producer);
      case IRNodeType::For: {
        const auto& loop = as<For>(node);
        digest_.add(loop.name);
        digest_.add(static_cast<uint64_t>(loop.for_type));
        digest_.add(static_cast<uint64_t>(loop.device_api));
        return digest_.add(static_cast<uint64_t>(loop.partition_policy));
      }
      case IRNodeType::Allocate: {
        const auto& allocation = as<Allocate>(node);
        digest_.add(allocation.name);
        add(allocation.type);
        digest_.add(static_cast<uint64_t>(allocation.memory_type));
        digest_.add(allocation.free_function);
        return digest_.add(static_cast<uint64_t>(allocation.padding));
      }
      case IRNodeType::Free:
        return digest_.add(as<Free>(node).name);
      case IRNodeType::Atomic:
        digest_.add(as<Atomic>(node).producer_name);
        return digest_.add(as<Atomic>(node).mutex_name);
      case IRNodeType::Provide:
      case IRNodeType::Realize:
      case IRNodeType::Prefetch:
      case IRNodeType::HoistedStorage:
        throw std::logic_error("a node in a lowered kernel that lowering removes");
      default:  // children alone
        return;
    }
  }

  Digest& digest_;
  std::unordered_map<const IRNode*, uint64_t> numbers_;
};

}  // namespace

void add_lowered(Digest& digest, const Stmt& statement) { AddLowered(digest).include(statement); }

void add_estimates(Digest& digest, const Halide::Parameter& argument) {
  const Halide::ArgumentEstimates estimates = argument.get_argument_estimates();
  // Nothing for what isn't said, and the place in front of what is.
  AddLowered add(digest);
  uint64_t place = 0;
  const auto add_next = [&](const Expr& e) {
    place++;
    if (!e.defined()) return;
    digest.add(place);
    add.include(e);
  };
  for (const Expr& e : {estimates.scalar_def, estimates.scalar_min, estimates.scalar_max, estimates.scalar_estimate})
    add_next(e);
  for (const Halide::Range& range : estimates.buffer_estimates) {
    add_next(range.min);
    add_next(range.extent);
  }
}

}  // namespace ashlar::dsl
