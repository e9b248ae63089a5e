#include "benchmarks/library.h"

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/benchmark.h"
#include "runtime/device/counters.h"
#include "runtime/device/stream.h"
#include "runtime/graph/graph.h"
#include "runtime/memory/memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"
#include "runtime/vendor/vendor.h"
#include "tools/named_call.h"

using namespace ashlar;
using nlohmann::json;

struct AshlarRun {
  struct Set {
    std::vector<Tensor> inputs;
    std::function<std::vector<Tensor>()> call;
    std::vector<Tensor> outputs;   // of the last timed call, so that the next set's go elsewhere
    std::vector<Tensor> captured;  // what the graph writes
    Graph graph;
  };
  Device device;
  bool stateful = false;
  VendorPolicy vendor = VendorPolicy::automatic;
  std::function<std::function<std::vector<Tensor>()>(const std::vector<Tensor>&)> bind;  // a call to its inputs
  std::vector<Set> sets;
  Graph chain;                               // several calls, which take the sets in turn
  std::vector<std::vector<Tensor>> chained;  // what it writes
  size_t next = 0;                           // the set of the next timed call
  std::vector<Tensor> outputs;               // of the last call to be read
  std::string description;

  Set& at(int set) { return sets.at(static_cast<size_t>(set)); }
};

namespace {

thread_local std::string last_error;
thread_local std::string text;  // what a function returned last

/// Runs `body`; an exception becomes `failed` and the error's text.
template <class Result, class Body>
Result guarded(Result failed, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    last_error = error.what();
    return failed;
  }
}

std::vector<int64_t> sizes(const Shape& shape) { return {shape.begin(), shape.end()}; }

json describe(const bench::Input& input) {
  json result{{"shape", sizes(input.shape)}, {"low", input.values.low}, {"high", input.values.high}};
  if (input.dtype) result["dtype"] = name_of(*input.dtype);
  return result;
}

json describe(const bench::Benchmark& benchmark) {
  json result{{"kernel", benchmark.kernel},
              {"name", benchmark.name},
              {"flops", benchmark.flops},
              {"bytes", benchmark.bytes},
              {"inputs", json::array()},
              {"dtypes", json::array()},
              {"checked_call", benchmark.checked_call},
              {"operations", benchmark.operations},
              {"stateful", benchmark.stateful}};
  for (const bench::Input& input : benchmark.inputs) result["inputs"].push_back(describe(input));
  for (const DType dtype : benchmark.dtypes) result["dtypes"].push_back(name_of(dtype));
  return result;
}

json describe(const Tensor& tensor) {
  const detail::Storage& storage = *tensor.storage();
  json result{{"shape", sizes(tensor.shape())}, {"dtype", name_of(tensor.dtype())}};
  if (storage.device().kind != DeviceKind::opencl && tensor.is_contiguous()) {
    result["address"] = storage.handle() + static_cast<uint64_t>(tensor.offset() * size_of(tensor.dtype()));
  }
  return result;
}

/// While it lives, calls follow the run's policy; the process's own comes back.
class Policy {
 public:
  explicit Policy(const AshlarRun& run) : before_(vendor_policy()), differs_(run.vendor != VendorPolicy::automatic) {
    if (differs_) set_vendor_policy(run.vendor);
  }
  ~Policy() {
    if (differs_) set_vendor_policy(before_);
  }
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

 private:
  VendorPolicy before_;
  bool differs_;
};

VendorPolicy parse_policy(std::string_view name) {
  if (name == "automatic") return VendorPolicy::automatic;
  if (name == "never") return VendorPolicy::never;
  if (name == "always") return VendorPolicy::always;
  throw ValueError("ashlar_bench_share", std::string(name), "automatic, never or always", "Choose one of these");
}

DType parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypes; i++) {
    const auto dtype = static_cast<DType>(i);
    if (name_of(dtype) == name) return dtype;
  }
  throw ValueError("ashlar_bench_make", std::string(name), "the name of a dtype", "Use f32, f16, bf16, …");
}

}  // namespace

const char* ashlar_bench_error() { return last_error.c_str(); }

const char* ashlar_bench_device(const char* name) {
  return guarded<const char*>(nullptr, [&] {
    const Device device = Device::parse(name);
    Stream::current(device).synchronize();
    text = json{{"description", device.description()},
                {"driver", device.driver()},
                {"cpu", Device::cpu().description()},
                {"cpu_driver", Device::cpu().driver()}}
               .dump();
    return text.c_str();
  });
}

const char* ashlar_bench_memory(const char* name) {
  return guarded<const char*>(nullptr, [&] {
    const Device device = Device::parse(name);
    const Counters now = counters(device.kind);
    text = json{{"live", now.live_bytes}, {"peak_live", peak_live_bytes(device.kind)}, {"held", now.pool_bytes}}.dump();
    return text.c_str();
  });
}

int ashlar_bench_trim(const char* name) {
  return guarded(-1, [&] {
    const Device device = Device::parse(name);
    Stream::current(device).synchronize();
    trim_memory(device);
    reset_peak_live_bytes(device.kind);
    return 0;
  });
}

const char* ashlar_bench_list() {
  return guarded<const char*>(nullptr, [] {
    json all = json::array();
    for (const bench::Benchmark& benchmark : bench::all_benchmarks()) all.push_back(describe(benchmark));
    text = all.dump();
    return text.c_str();
  });
}

AshlarRun* ashlar_bench_make(int index, const char* dtype_name, const char* device_name, int sets) {
  return guarded<AshlarRun*>(nullptr, [&] {
    const bench::Benchmark& benchmark = bench::all_benchmarks().at(static_cast<size_t>(index));
    const DType dtype = parse_dtype(dtype_name);
    if (sets < 1 || (benchmark.stateful && sets > 1)) {
      throw ValueError("ashlar_bench_make", std::to_string(sets) + " sets of inputs",
                       benchmark.stateful ? "1: the benchmark keeps state" : "at least 1", "Ask for one set");
    }
    auto run = std::make_unique<AshlarRun>();
    run->device = Device::parse(device_name);
    run->stateful = benchmark.stateful;
    run->vendor = benchmark.vendor;
    run->sets.resize(static_cast<size_t>(sets));
    for (AshlarRun::Set& set : run->sets) {
      for (const bench::Input& input : benchmark.inputs) {
        if (input.layout != conformance::Layout::dense) {
          throw ValueError("ashlar_bench_make", benchmark.kernel + "/" + benchmark.name, "dense inputs",
                           "Take a view in the benchmark's function");
        }
        set.inputs.push_back(Tensor::empty(input.shape, input.dtype.value_or(dtype), run->device));
      }
    }
    run->bind = [call = benchmark.make()](const std::vector<Tensor>& inputs) {
      return [&call, &inputs] { return call(inputs); };
    };
    for (AshlarRun::Set& set : run->sets) set.call = run->bind(set.inputs);
    return run.release();
  });
}

AshlarRun* ashlar_bench_make_call(const char* call, const char* device_name, int sets) {
  return guarded<AshlarRun*>(nullptr, [&] {
    if (sets < 1) {
      throw ValueError("ashlar_bench_make_call", std::to_string(sets) + " sets of inputs", "at least 1", "Ask for one");
    }
    auto run = std::make_unique<AshlarRun>();
    run->device = Device::parse(device_name);
    run->sets.resize(static_cast<size_t>(sets));
    run->bind = [description = json::parse(call)](const std::vector<Tensor>& buffers) {
      return tools::bound_call(description, buffers);
    };
    for (AshlarRun::Set& set : run->sets) {
      set.inputs = tools::buffers_of(json::parse(call), run->device);
      set.call = run->bind(set.inputs);
    }
    return run.release();
  });
}

AshlarRun* ashlar_bench_share(AshlarRun* run, const char* vendor) {
  return guarded<AshlarRun*>(nullptr, [&] {
    auto other = std::make_unique<AshlarRun>();
    other->device = run->device;
    other->stateful = run->stateful;
    other->vendor = parse_policy(vendor);
    other->bind = run->bind;
    other->sets.resize(run->sets.size());
    for (size_t i = 0; i < run->sets.size(); ++i) {
      other->sets[i].inputs = run->sets[i].inputs;
      other->sets[i].call = other->bind(other->sets[i].inputs);
    }
    return other.release();
  });
}

int ashlar_bench_call(AshlarRun* run, int set) {
  return guarded(-1, [&] {
    const Policy policy(*run);
    run->outputs = run->at(set).call();
    Stream::current(run->device).synchronize();
    return static_cast<int>(run->outputs.size());
  });
}

int ashlar_bench_capture(AshlarRun* run) {
  return guarded(-1, [&] {
    if (run->stateful) {
      throw ValueError("ashlar_bench_capture", "a benchmark with state", "one whose calls are all the same",
                       "Time its calls; those that repeat work capture it themselves");
    }
    const Policy policy(*run);
    for (AshlarRun::Set& set : run->sets) {
      set.graph = capture(run->device, [&] { set.captured = set.call(); });
    }
    return 0;
  });
}

int ashlar_bench_capture_chain(AshlarRun* run, int calls) {
  return guarded(-1, [&] {
    const Policy policy(*run);
    for (AshlarRun::Set& set : run->sets) set.call();  // what is done once isn't in the graph
    run->chained.clear();
    run->chain = capture(run->device, [&] {
      for (int i = 0; i < calls; ++i)
        run->chained.push_back(run->sets[static_cast<size_t>(i) % run->sets.size()].call());
    });
    return 0;
  });
}

int ashlar_bench_replay_chain(AshlarRun* run) {
  return guarded(-1, [&] {
    run->chain.replay();
    Stream::current(run->device).synchronize();
    run->outputs = run->chained.back();
    return static_cast<int>(run->outputs.size());
  });
}

int ashlar_bench_replay(AshlarRun* run, int set) {
  return guarded(-1, [&] {
    run->at(set).graph.replay();
    Stream::current(run->device).synchronize();
    run->outputs = run->at(set).captured;
    return static_cast<int>(run->outputs.size());
  });
}

const char* ashlar_bench_tensors(AshlarRun* run, int set) {
  return guarded<const char*>(nullptr, [&] {
    json result{{"inputs", json::array()}, {"outputs", json::array()}};
    for (const Tensor& input : run->at(set).inputs) result["inputs"].push_back(describe(input));
    for (const Tensor& output : run->outputs) result["outputs"].push_back(describe(output));
    run->description = result.dump();
    return run->description.c_str();
  });
}

int ashlar_bench_write(AshlarRun* run, int input, const void* from) {
  return guarded(-1, [&] {
    const Tensor& to = run->at(0).inputs.at(static_cast<size_t>(input));
    detail::copy_from_host(*to.storage(), to.offset() * size_of(to.dtype()), from, to.bytes());
    return 0;
  });
}

int ashlar_bench_read(AshlarRun* run, int output, void* to) {
  return guarded(-1, [&] {
    const Tensor from = run->outputs.at(static_cast<size_t>(output)).contiguous();
    detail::copy_to_host(to, *from.storage(), from.offset() * size_of(from.dtype()), from.bytes());
    return 0;
  });
}

int ashlar_bench_replicate(AshlarRun* run) {
  return guarded(-1, [&] {
    const std::vector<Tensor>& from = run->sets.front().inputs;
    for (size_t set = 1; set < run->sets.size(); ++set) {
      for (size_t i = 0; i < from.size(); ++i) run->sets[set].inputs[i].copy_(from[i]);
    }
    Stream::current(run->device).synchronize();
    return 0;
  });
}

int ashlar_bench_synchronize(AshlarRun* run) {
  return guarded(-1, [&] {
    Stream::current(run->device).synchronize();
    return 0;
  });
}

double ashlar_bench_time(AshlarRun* run, int64_t calls, AshlarBenchTiming what) {
  using Clock = std::chrono::steady_clock;
  return guarded(-1.0, [&] {
    const Stream stream = Stream::current(run->device);
    const Policy policy(*run);
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) {
      AshlarRun::Set& set = run->sets[run->next];
      run->next = run->next + 1 == run->sets.size() ? 0 : run->next + 1;
      switch (what) {
        case ashlar_bench_replays:
          set.graph.replay();
          break;
        case ashlar_bench_chains:
          run->chain.replay();
          break;
        case ashlar_bench_calls:
        case ashlar_bench_submitting:
          set.outputs = set.call();
          break;
      }
    }
    Clock::time_point end = Clock::now();
    stream.synchronize();
    if (what != ashlar_bench_submitting) end = Clock::now();
    return std::chrono::duration<double>(end - start).count();
  });
}

void ashlar_bench_free(AshlarRun* run) {
  const Device device = run->device;
  delete run;
  trim_memory(device);  // a rival on the same device needs it too
}
