// libashlar_bench: the benchmarks as plain C functions, so that a script can time them and a rival in turn, in one
// process, on the same inputs. Functions return 0 (or null) and set ashlar_bench_error() when something fails.
#pragma once

#include <cstdint>

extern "C" {

struct AshlarRun;

/// What the last failing call of this thread said.
const char* ashlar_bench_error();
/// The device's description, driver and the library's numbers of threads, as JSON. Opens the device.
const char* ashlar_bench_device(const char* device);
/// Device memory as JSON, in bytes: what tensors have in use now ("live"), the most of it at once since the last
/// ashlar_bench_trim() ("peak_live"), and what the pools have taken from the driver ("held"), which only grows until
/// then.
const char* ashlar_bench_memory(const char* device);
/// Gives back to the driver what no tensor has in use and no graph owns.
int ashlar_bench_trim(const char* device);
/// All benchmarks as JSON: kernel, name, dtypes, flops, bytes, stateful, inputs with shape, dtype and range of values.
const char* ashlar_bench_list();

/// Makes `sets` sets of inputs of the index-th benchmark in one dtype, uninitialised. Calls that are timed take the
/// sets in turn and keep each set's last outputs, so that enough sets leave nothing of a call in a cache for the next.
AshlarRun* ashlar_bench_make(int index, const char* dtype, const char* device, int sets);
/// The same of an operator by its name (named_call.h has the JSON). The inputs are its buffers, of which its views are
/// part; with an operator's name that there isn't, or options that it hasn't, null.
AshlarRun* ashlar_bench_make_call(const char* call, const char* device, int sets);
/// A second run on the first one's inputs, whose calls follow a policy of their own ("automatic", "never" or "always")
/// on who computes what a vendor's library also could.
AshlarRun* ashlar_bench_share(AshlarRun* run, const char* vendor);
/// Calls once with one set and keeps the outputs; returns how many there are, or -1.
int ashlar_bench_call(AshlarRun* run, int set);
/// Captures a call with each set as a graph of its own. Not for benchmarks with state, whose calls differ.
int ashlar_bench_capture(AshlarRun* run);
/// As ashlar_bench_call, by the set's graph.
int ashlar_bench_replay(AshlarRun* run, int set);
/// Captures `calls` calls, which take the sets in turn, as one graph.
int ashlar_bench_capture_chain(AshlarRun* run, int calls);
/// Replays that graph; the last call's outputs are kept. Returns how many there are, or -1.
int ashlar_bench_replay_chain(AshlarRun* run);
/// {"inputs": [...], "outputs": [...]} as JSON: a set's inputs and the outputs of the last call; shape, dtype and, on
/// CPU and CUDA, the address.
const char* ashlar_bench_tensors(AshlarRun* run, int set);
/// Copies an input of the first set from, or an output of the last call to, dense host memory.
int ashlar_bench_write(AshlarRun* run, int input, const void* from);
int ashlar_bench_read(AshlarRun* run, int output, void* to);
/// Copies the first set into the others.
int ashlar_bench_replicate(AshlarRun* run);
/// Waits until all submitted work is done.
int ashlar_bench_synchronize(AshlarRun* run);

enum AshlarBenchTiming { ashlar_bench_calls, ashlar_bench_submitting, ashlar_bench_replays, ashlar_bench_chains };
/// Seconds for `calls` calls or replays, of one graph or of the chain's, until all is done, or for submitting the
/// calls. -1 on an error.
double ashlar_bench_time(AshlarRun* run, int64_t calls, AshlarBenchTiming what);
void ashlar_bench_free(AshlarRun* run);
}
