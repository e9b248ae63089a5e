#include "runtime/launch/known_calls.h"

#include "runtime/launch/dispatch.h"
#include "runtime/support/recent.h"
#include "runtime/tensor/storage.h"

namespace ashlar::detail {
namespace {

using KnownCalls = Recent<const KernelInstance*, CallNumbers::kMost>;
thread_local KnownCalls known_calls;

}  // namespace

void CallNumbers::add(int64_t number) { numbers_[count_++] = number; }

void CallNumbers::add(const Tensor& x) {
  const int rank = x.rank();
  if (!x.defined() || count_ + 2 + 2 * static_cast<size_t>(rank) > kMost) {
    is_whole_ = false;
    return;
  }
  const Device device = x.storage()->device();
  int64_t* to = &numbers_[count_];
  *to++ = static_cast<int64_t>(x.dtype()) | rank << 8 | static_cast<int64_t>(device.kind) << 16 |
          static_cast<int64_t>(device.index) << 24;
  *to++ = x.offset();
  const Shape &shape = x.shape(), &strides = x.strides();
  for (int axis = 0; axis < rank; ++axis) {
    *to++ = shape[axis];
    *to++ = strides[axis];
  }
  count_ = static_cast<size_t>(to - numbers_.data());
}

CallNumbers::CallNumbers(const KernelInfo& kernel, KernelKey key, const CallArguments& arguments) {
  const int64_t choices = state_of_choices();
  if (choices < 0) return;
  add(static_cast<int64_t>(reinterpret_cast<intptr_t>(&kernel)));
  add(static_cast<int64_t>(key.packed()) << 32 | choices);
  add(static_cast<int64_t>(arguments.inputs.size() << 16 | arguments.scalars.size() << 8 | arguments.outputs.size()));
  for (const Tensor& x : arguments.inputs) add(x);
  for (const Tensor& y : arguments.outputs) add(y);
  if (!is_whole_) count_ = 0;
}

const KernelInstance* known_instance(const CallNumbers& call) {
  const KernelInstance* const* found = call.span().empty() ? nullptr : known_calls.find(call.span());
  return found == nullptr ? nullptr : *found;
}

void keep_instance(const CallNumbers& call, const KernelInstance* instance) {
  if (!call.span().empty()) known_calls.keep(call.span(), instance);
}

void forget_known_calls() { known_calls = {}; }

}  // namespace ashlar::detail
