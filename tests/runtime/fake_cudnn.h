// A stand-in for libcudnn.so beside fake_cuda: it convolves on the host, by the definition.
#pragma once

#include <cstdint>

struct FakeCudnnLog {
  int64_t convolutions, choices, live_objects;
  bool refuses;  ///< it knows no algorithm
};
extern "C" FakeCudnnLog* fake_cudnn_log();
inline constexpr int kFakeAlgorithm = 5;  ///< the only one of its candidates that may be taken
