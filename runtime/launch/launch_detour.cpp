#include "runtime/launch/launch_detour.h"

#include <algorithm>
#include <vector>

#include "runtime/device/counter_cells.h"
#include "runtime/launch/bind.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"

namespace ashlar::detail {
namespace {

bool needs_detour(const Tensor& y, std::span<const Tensor> inputs) {
  if (y.offset() == 0 || y.numel() == 0) [[likely]]
    return false;
  if (!output_is_aligned(y)) return true;
  return y.storage()->device().kind == DeviceKind::opencl &&
         std::ranges::any_of(inputs, [&y](const Tensor& x) { return x.storage() == y.storage(); });
}

/// Dense `source` → strided `destination` of the same shape and device, innermost stride 1.
void store_dense(const Tensor& source, const Tensor& destination) {
  const int64_t width = size_of(source.dtype());
  const Shape& shape = destination.shape();
  const int64_t from = source.offset() * width;
  if (destination.is_contiguous()) {
    copy_bytes(*destination.storage(), destination.offset() * width, *source.storage(), from, source.bytes());
    return;
  }
  // The innermost dimension is a row, the next one its rows; the rest is counted through.
  const int rank = shape.rank();
  const int64_t row_bytes = shape[rank - 1] * width;
  const int64_t rows = rank > 1 ? shape[rank - 2] : 1;
  const int64_t pitch = rows > 1 ? destination.strides()[rank - 2] * width : row_bytes;
  const int64_t slabs = source.numel() / (shape[rank - 1] * rows);
  for (int64_t slab = 0; slab < slabs; ++slab) {
    int64_t offset = destination.offset();
    int64_t rest = slab;
    for (int axis = rank - 3; axis >= 0; --axis) {
      offset += rest % shape[axis] * destination.strides()[axis];
      rest /= shape[axis];
    }
    copy_rows(*destination.storage(), offset * width, pitch, *source.storage(), from + slab * rows * row_bytes,
              row_bytes, row_bytes, rows);
  }
}

/// The same view on the CPU, over a copy of the stretch of memory that it spans.
Tensor view_on_cpu(const Tensor& x) {
  if (x.numel() == 0) return Tensor::empty(x.shape(), x.dtype());
  int64_t below = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    below += std::max<int64_t>(0, -(x.shape()[axis] - 1) * x.strides()[axis]);
  }
  const int64_t width = size_of(x.dtype());
  const int64_t bytes = span_of(x) * width;
  std::shared_ptr<Storage> storage = Storage::create(bytes, Device::cpu());
  copy_bytes(*storage, 0, *x.storage(), (x.offset() - below) * width, bytes);
  return Tensor(std::move(storage), x.shape(), x.strides(), below, x.dtype());
}

}  // namespace

OutputDetour::OutputDetour(const CallArguments& arguments) : original_(arguments.outputs) {
  for (const Tensor& y : original_) needed_ |= needs_detour(y, arguments.inputs);
  if (!needed_) [[likely]]
    return;
  for (const Tensor& y : original_) {
    redirected_.push_back(needs_detour(y, arguments.inputs) ? Tensor::empty(y.shape(), y.dtype(), y.device()) : y);
  }
}

void OutputDetour::store() const {
  for (size_t i = 0; i < original_.size(); ++i) {
    if (redirected_[i].storage() != original_[i].storage()) store_dense(redirected_[i], original_[i]);
  }
}

void run_on_cpu_instead(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments) {
  const Device device = arguments.outputs[0].device();
  std::vector<Tensor> inputs, outputs;
  for (const Tensor& x : arguments.inputs) inputs.push_back(view_on_cpu(x));
  for (const Tensor& y : arguments.outputs) outputs.push_back(Tensor::empty(y.shape(), y.dtype()));
  launch(kernel, key, inputs, arguments.scalars, outputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& y = arguments.outputs[i];
    if (y.numel() == 0) continue;
    const Tensor result = Tensor::empty(y.shape(), y.dtype(), device);
    copy_bytes(*result.storage(), 0, *outputs[i].storage(), 0, outputs[i].bytes());
    store_dense(result, y);
  }
  count(counter_cells(device.kind).cpu_fallbacks);
}

}  // namespace ashlar::detail
