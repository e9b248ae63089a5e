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
/// All benchmarks as JSON: kernel, name, dtypes, flops, bytes, inputs with shape, dtype and range of values.
const char* ashlar_bench_list();

/// Makes the inputs of the index-th benchmark in one dtype, uninitialised.
AshlarRun* ashlar_bench_make(int index, const char* dtype, const char* device);
/// Calls once and keeps the outputs; returns how many there are, or -1.
int ashlar_bench_call(AshlarRun* run);
/// {"inputs": [...], "outputs": [...]} of the last call as JSON: shape, dtype and, on CPU and CUDA, the address.
const char* ashlar_bench_tensors(AshlarRun* run);
/// Copies an input from, or an output to, dense host memory.
int ashlar_bench_write(AshlarRun* run, int input, const void* from);
int ashlar_bench_read(AshlarRun* run, int output, void* to);
/// Waits until all submitted work is done.
int ashlar_bench_synchronize(AshlarRun* run);
/// Seconds for `calls` calls: until all is done, or with `submit_only` until the last has returned. -1 on an error.
double ashlar_bench_time(AshlarRun* run, int64_t calls, int submit_only);
void ashlar_bench_free(AshlarRun* run);
}
