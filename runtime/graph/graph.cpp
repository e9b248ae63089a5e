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

void GraphRecorder::use(const std::shared_ptr<Storage>& storage, bool written) {
  Use& use = uses_[storage.get()];
  if (use.kept == nullptr && use.watched.expired()) {  // new, or another one at the address of one that is gone
    use = {nullptr, storage, false};
    if (&storage->home() != &stream_) use.kept = storage;
  }
  use.written |= written;
}

std::vector<GraphUse> GraphRecorder::uses() const {
  std::vector<GraphUse> alive;
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
  explicit GraphState(Device device) : stream(device) { stream.state().pool().pin(true); }
  ~GraphState() {
    try {
      if (last_replay) last_replay->synchronize();  // nothing may still run in memory that goes back to the driver
    } catch (const std::exception&) {               // the device is lost, and with it what was running
    }
    driver_graph.reset();
    uses.clear();
    stream.state().pool().pin(false);
  }
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;

  Stream stream;  // captures, and owns the memory of what is made meanwhile; nothing ever runs on it
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
    StreamState& stream = state->stream.state();
    GraphRecorder recorder(stream, stream.driver_records());
    {
      const StreamScope current(state->stream);
      CaptureScope capturing(stream, recorder);
      is_working = true;
      work();
      is_working = false;
      state->driver_graph = capturing.finish();
    }
    state->steps = recorder.take_steps();
    state->uses = recorder.uses();
    state->launches = recorder.launches();
    state->bytes_copied = recorder.bytes_copied();
    return Graph(std::move(state));
  } catch (const std::bad_alloc&) {
    if (is_working) throw;
    throw_out_of_host_memory("capture");
  }
}

Device Graph::device() const {
  if (!defined()) throw GraphError("Graph::device", "an undefined graph", "one made by capture()", "");
  return state_->stream.device();
}

void Graph::replay() const try {
  using namespace detail;
  if (!defined()) return;
  GraphState& graph = *state_;
  StreamState& stream = current_stream(graph.stream.device());
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
