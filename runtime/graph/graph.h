// Graph: work captured once and replayed at the price of one call.
#pragma once

#include <functional>
#include <memory>

#include "runtime/device/device.h"

namespace ashlar {

namespace detail {
struct GraphState;
}

/// A handle; copies share one graph. A graph keeps alive the tensors that it uses and owns the memory of those made
/// while it was captured, so replays allocate nothing. Replays of one graph must not overlap in time on the host.
class Graph {
 public:
  /// Runs nothing when replayed.
  Graph() = default;

  bool defined() const { return state_ != nullptr; }
  Device device() const;  ///< throws GraphError when undefined

  /// Runs the captured work again on the calling thread's current stream of the device, after and before what other
  /// streams do with the same tensors. The tensors used are read and written where they lay: whatever changes between
  /// replays (a batch, a learning rate) is written into them with copy_() or fill_(). Versions of the written ones
  /// grow, and counters() grow as if the work had been called. Throws DriverError, GraphError inside another capture.
  void replay() const;

 private:
  friend Graph capture(Device device, const std::function<void()>& work);
  explicit Graph(std::shared_ptr<detail::GraphState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::GraphState> state_;
};

/// Whether the calling thread's work on `device` is being captured at the moment.
bool is_capturing(Device device);

/// Calls `work` once and writes down what it does on `device` from the calling thread, without running it: as a CUDA
/// graph on CUDA, as a list of launches elsewhere. Tensors that it makes hold their results after a replay.
///
/// What a replay couldn't repeat is a GraphError: reading elements on the host, copies from or to it, waiting for the
/// device, and a second capture inside the first. Whatever `work` throws is passed on, and nothing is left behind.
/// Throws DeviceError, DriverError.
Graph capture(Device device, const std::function<void()>& work);

/// Calls `work`; in a capture on CUDA its kernels run beside what is captured later, for as long as that neither uses
/// what they write nor writes what they use: then, and at the end of the graph, it waits for them. For short kernels
/// whose results nothing needs soon, such as the choice of the next batch while this one's gradients are computed.
/// Elsewhere it is `work()`, and the results are the same. Throws what `work` throws, and DriverError.
void beside(Device device, const std::function<void()>& work);

}  // namespace ashlar
