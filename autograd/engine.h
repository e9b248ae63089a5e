// The walk over a recorded graph that backward() and grad() share. T is Tensor, or Var where the gradients are recorded
// in their turn.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ashlar/ad.h"
#include "ashlar/ops.h"
#include "autograd/node.h"

namespace ashlar::detail {

inline Tensor sum_of(const Tensor& a, const Tensor& b) { return ashlar::add(a, b); }
inline Var sum_of(const Var& a, const Var& b) { return ad::add(a, b); }

/// The operations that some outputs depend on, each before those that made its inputs. The order follows the graph's
/// structure only, so that sums of gradients are added in the same order every time.
class Order {
 public:
  /// `roots` may hold leaves. What the operations that made `ends` were computed from is left out.
  explicit Order(std::span<const Var> roots, std::span<const Var> ends = {});

  /// Reset one by one by the walk, which frees them.
  std::vector<std::shared_ptr<Node>> nodes;
  /// A number for each output of these operations.
  uint32_t slot(const Node* node, int output = 0) const { return slots_.at(node) + static_cast<uint32_t>(output); }
  bool has(const Node* node) const { return slots_.contains(node); }
  uint32_t slot_count() const { return slot_count_; }

 private:
  std::unordered_map<const Node*, uint32_t> slots_;
  uint32_t slot_count_ = 0;
};

/// Gradients on their way: few of a graph's outputs have one at a time.
template <class T>
class Gradients {
 public:
  explicit Gradients(uint32_t slots) : place_(slots, kNone) {}

  void add(uint32_t slot, T gradient) {
    uint32_t& place = place_[slot];
    if (place != kNone) {
      held_[place] = sum_of(held_[place], gradient);
      return;
    }
    if (free_.empty()) {
      place = static_cast<uint32_t>(held_.size());
      held_.push_back(std::move(gradient));
    } else {
      place = free_.back();
      free_.pop_back();
      held_[place] = std::move(gradient);
    }
  }
  /// Undefined where there's none.
  T take(uint32_t slot) {
    const uint32_t place = std::exchange(place_[slot], kNone);
    if (place == kNone) return T();
    free_.push_back(place);
    return std::exchange(held_[place], T());
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> place_;
  std::vector<T> held_;
  std::vector<uint32_t> free_;
};

/// Takes the gradients that `gradients` holds back through the graph. `sink` says what is wanted, and gets it:
///   bool runs(const Node&)                         whether that operation's gradients are computed at all,
///   bool wants(const Node::Edge&)                  and which of them
///   void arrives(const Node*, span<T> dys)         the complete gradients of an operation's outputs, before it runs
///   void leaf(VarState&, T)                        a gradient of a leaf; several of one leaf add up
template <class T, class Sink>
void walk(Order& order, Gradients<T>& gradients, Sink& sink, bool retain_graph) {
  std::vector<T> dys;
  for (std::shared_ptr<Node>& node : order.nodes) {
    dys.clear();
    bool any = false;
    const uint32_t first = order.slot(node.get());
    for (int i = 0; i < node->output_count(); i++) {
      any = dys.emplace_back(gradients.take(first + static_cast<uint32_t>(i))).defined() || any;
    }
    sink.arrives(node.get(), std::span<T>(dys));
    const bool runs = sink.runs(*node);
    if (any && runs) {  // else every consumer answered "none"
      const std::vector<Node::Edge>& edges = node->edges();
      uint64_t mask = 0;
      for (size_t i = 0; i < edges.size(); i++) mask |= uint64_t{sink.wants(edges[i])} << i;
      std::vector<T> inputs = Node::apply(node, std::span<T>(dys), Needs(mask));
      dys.clear();  // what a leaf keeps need not be copied where nobody else has it
      for (size_t i = 0; i < edges.size(); i++) {
        if ((mask >> i & 1) == 0 || !inputs[i].defined()) continue;
        T gradient = std::exchange(inputs[i], T());
        if (edges[i].node != nullptr) {
          gradients.add(order.slot(edges[i].node.get(), edges[i].output), std::move(gradient));
        } else {
          sink.leaf(*edges[i].leaf, std::move(gradient));
        }
      }
    }
    if (!retain_graph && runs) node->free();
    node.reset();
  }
}

/// The gradient that a walk from `output` begins with: `given`, checked to have its shape, dtype and device; where it's
/// undefined 1, for outputs of one element. Throws AutogradError, ShapeError, DTypeError, DeviceError.
Tensor checked_seed(const char* call, const char* what, const Tensor& output, const Tensor& given);

}  // namespace ashlar::detail
