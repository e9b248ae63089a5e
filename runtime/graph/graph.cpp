#include "runtime/graph/graph.h"

#include <exception>
#include <string>

#include "runtime/device/stream.h"
#include "runtime/device/stream_state.h"
#include "runtime/graph/graph_recorder.h"
#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/support/trace.h"

namespace ashlar {
namespace detail {

GraphQueue::GraphQueue(Device device) : stream(device) { stream.state().pool().pin(true); }
GraphQueue::~GraphQueue() { stream.state().pool().pin(false); }

GraphRecorder::Use& GraphRecorder::use_in(Uses& uses, const std::shared_ptr<Storage>& storage, bool written) {
  Use& use = uses[storage.get()];
  if (use.kept == nullptr && use.watched.expired()) {  // new, or another one at the address of one that is gone
    use = {nullptr, storage, false};
  }
  use.written |= written;
  return use;
}

void GraphRecorder::use(const std::shared_ptr<Storage>& storage, bool written) {
  Use& use = use_in(uses_, storage, written);
  if (&storage->home() != &stream_) use.kept = storage;
  if (first_ != nullptr) {
    use_in(first_->beside_uses_, storage, written);
  } else if (const auto other = beside_uses_.find(storage.get()); other != beside_uses_.end()) {
    if (other->second.watched.lock() == storage && (written || other->second.written)) join();
  }
}

void GraphRecorder::beside(const std::function<void()>& work) {
  if (first_ != nullptr) return work();
  if (beside_ == nullptr) {
    beside_queue_ = std::make_shared<GraphQueue>(stream_.device());
    beside_ = std::make_unique<GraphRecorder>(beside_queue_->stream.state(), driver_records_);
    beside_->first_ = this;
  }
  StreamState& queue = beside_queue_->stream.state();
  queue.wait(stream_);
  const StreamScope current(beside_queue_->stream);
  const auto stop = [](StreamState* recorded) { recorded->set_recorder(nullptr); };
  queue.set_recorder(beside_.get());
  const std::unique_ptr<StreamState, decltype(stop)> recording(&queue, stop);
  work();
}

void GraphRecorder::join() {
  if (beside_uses_.empty()) return;
  stream_.wait(beside_queue_->stream.state());
  beside_uses_.clear();
}

std::vector<GraphUse> GraphRecorder::uses() const {
  std::vector<GraphUse> alive = beside_ ? beside_->uses() : std::vector<GraphUse>();
  for (const auto& [address, use] : uses_) {
    if (std::shared_ptr<Storage> storage = use.watched.lock()) alive.push_back({std::move(storage), use.written});
  }
  return alive;
}

void refuse_in_capture(const StreamState& stream, const char* operation) {
  if (stream.recorder() == nullptr) [[likely]]
    return;
  throw GraphError(operation, "a call while work on " + stream.device().str() + " is being captured",
                   "work that can be replayed: kernels, and copies within the device",
                   "Do it before capture() or between replays");
}

struct GraphState {
  explicit GraphState(Device device) : queue(device) {}
  ~GraphState() {
    try {
      if (last_replay) last_replay->synchronize();  // nothing may still run in memory that goes back to the driver
    } catch (const std::exception&) {               // the device is lost, and with it what was running
    }
    driver_graph.reset();
    uses.clear();
  }
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;

  GraphQueue queue;
  std::shared_ptr<GraphQueue> beside;  // null where no work asked for it
  std::unique_ptr<DriverGraph> driver_graph;
  std::vector<GraphRecorder::Step> steps;
  std::vector<GraphUse> uses;
  int64_t launches = 0;
  int64_t bytes_copied = 0;
  std::shared_ptr<StreamState> last_replay;
};

namespace {

/// A stream in capture for a scope; left by an exception, the capture is thrown away.
class CaptureScope {
 public:
  CaptureScope(StreamState& stream, GraphRecorder& recorder) : stream_(stream) {
    stream_.begin_capture();
    stream_.set_recorder(&recorder);
  }
  ~CaptureScope() {
    if (stream_.recorder() == nullptr) return;
    try {
      finish();
    } catch (const std::exception&) {  // an exception is on its way already
    }
  }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  std::unique_ptr<DriverGraph> finish() {
    stream_.set_recorder(nullptr);
    return stream_.end_capture();
  }

 private:
  StreamState& stream_;
};

}  // namespace
}  // namespace detail

bool is_capturing(Device device) { return detail::current_stream(device).recorder() != nullptr; }

Graph capture(Device device, const std::function<void()>& work) {
  using namespace detail;
  bool is_working = false;  // what `work` throws is passed on
  try {
    refuse_in_capture(current_stream(device), "capture");
    auto state = std::make_shared<GraphState>(device);
    StreamState& stream = state->queue.stream.state();
    GraphRecorder recorder(stream, stream.driver_records());
    {
      const StreamScope current(state->queue.stream);
      CaptureScope capturing(stream, recorder);
      is_working = true;
      work();
      is_working = false;
      recorder.join();
      state->driver_graph = capturing.finish();
    }
    state->steps = recorder.take_steps();
    state->uses = recorder.uses();
    state->launches = recorder.launches();
    state->bytes_copied = recorder.bytes_copied();
    state->beside = recorder.beside_queue();
    return Graph(std::move(state));
  } catch (const std::bad_alloc&) {
    if (is_working) throw;
    throw_out_of_host_memory("capture");
  }
}

void beside(Device device, const std::function<void()>& work) {
  detail::GraphRecorder* recorder = detail::current_stream(device).recorder();
  recorder != nullptr && recorder->driver_records() ? recorder->beside(work) : work();
}

Device Graph::device() const {
  if (!defined()) throw GraphError("Graph::device", "an undefined graph", "one made by capture()", "");
  return state_->queue.stream.device();
}

void Graph::replay() const try {
  using namespace detail;
  if (!defined()) return;
  GraphState& graph = *state_;
  StreamState& stream = current_stream(graph.queue.stream.device());
  refuse_in_capture(stream, "Graph::replay");
  const TraceSpan span("replay", "Graph::replay");
  if (graph.last_replay.get() != &stream) {
    if (graph.last_replay) stream.wait(*graph.last_replay);  // temporaries lie where they lay before
    graph.last_replay = stream.shared_from_this();
  }
  for (const GraphUse& use : graph.uses) {
    use.written ? use.storage->prepare_write(stream) : use.storage->prepare_read(stream);
  }
  if (graph.driver_graph) graph.driver_graph->replay(stream);
  for (const GraphRecorder::Step& step : graph.steps) step(stream);
  CounterCells& counters = stream.owner().counters();
  if (graph.launches > 0) count(counters.launches, graph.launches);
  if (graph.bytes_copied > 0) count(counters.bytes_on_device, graph.bytes_copied);
  for (const GraphUse& use : graph.uses) {
    if (use.written) use.storage->bump();
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Graph::replay");
}

}  // namespace ashlar
