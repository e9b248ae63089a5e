#include "runtime/tensor/upload.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/device/stream_state.h"
#include "runtime/memory/host_memory.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"

namespace ashlar {

Upload::~Upload() { release(); }

void Upload::release() noexcept {
  if (pinned_ != nullptr) stream_.state().owner().release_host(std::exchange(pinned_, nullptr));
  capacity_ = 0;
}

void Upload::reserve(int64_t bytes) {
  if (bytes <= capacity_) return;
  release();
  pinned_ = stream_.state().owner().allocate_host(bytes);
  if (pinned_ == nullptr) ordinary_.resize(static_cast<size_t>(bytes));
  capacity_ = bytes;
}

Tensor Upload::operator()(const Tensor& source) try {
  if (source.device() == stream_.device()) return source;
  const Tensor dense = source.contiguous();
  const StreamScope scope(stream_);
  const Tensor result = Tensor::empty(dense.shape(), dense.dtype(), stream_.device());
  if (dense.numel() == 0) return result;
  reserve(dense.bytes());
  void* const staging = pinned_ != nullptr ? pinned_ : ordinary_.data();
  std::memcpy(staging, dense.data(), static_cast<size_t>(dense.bytes()));
  detail::copy_from_host(*result.storage(), 0, staging, dense.bytes());
  stream_.synchronize();  // from page-locked memory the copy goes on after its call has returned
  return result;
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory("Upload");
}

}  // namespace ashlar
