// A stand-in for libcudnn.so beside fake_cuda: it convolves on the host, by the definition.
#pragma once

#include <cstdint>

struct FakeCudnnLog {
  int64_t convolutions;
  int64_t choices;           // heuristics asked
  int64_t live_descriptors;  // not destroyed
  bool refuses;              // set by a test: no heuristic knows an engine
};

extern "C" FakeCudnnLog* fake_cudnn_log();
