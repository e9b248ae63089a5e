// Tensors to a device beside the work that it does.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/stream.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {

/// Copies tensors of the host to a device on a stream that has nothing else to do, through page-locked memory of its
/// own where the driver has such (CUDA): the device's other streams work on meanwhile. One thread at a time.
class Upload {
 public:
  /// `stream` may serve several. Throws nothing: memory is taken at the first copy, and kept.
  explicit Upload(Stream stream) : stream_(std::move(stream)) {}
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// The elements of `source`, dense on the stream's device, there when it returns; `source` itself when it's there
  /// already. Any stream may use them. Throws OutOfMemory, DriverError, GraphError.
  Tensor operator()(const Tensor& source);

 private:
  void reserve(int64_t bytes);
  void release() noexcept;

  Stream stream_;
  void* pinned_ = nullptr;
  std::vector<uint8_t> ordinary_;  ///< where there's no page-locked memory
  int64_t capacity_ = 0;
};

}  // namespace ashlar
