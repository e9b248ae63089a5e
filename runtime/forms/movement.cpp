#include "runtime/forms/movement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/device/stream_state.h"
#include "runtime/forms/carrier.h"
#include "runtime/forms/cast_path.h"
#include "runtime/forms/check.h"
#include "runtime/forms/collapse.h"
#include "runtime/forms/overlap.h"
#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/transfer.h"

namespace ashlar::forms {

namespace {

template <class Integer>
int64_t integer_bits(double value, DType dtype) {
  // The bounds are powers of two, so exact in double; the upper one is the first value that doesn't fit.
  const double low = static_cast<double>(std::numeric_limits<Integer>::min());
  const double high = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  if (!(std::trunc(value) >= low && std::trunc(value) < high)) {
    throw ValueError("fill", std::to_string(value) + " for a tensor of " + std::string(name_of(dtype)),
                     "a value that the dtype can hold", "Choose another value or convert with to(DType::f32)");
  }
  return static_cast<int64_t>(static_cast<Integer>(value));
}

/// The bit pattern of `value` as an element of `dtype`.
int64_t bits_of(double value, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return std::bit_cast<int32_t>(static_cast<float>(value));
    case DType::f16:
      return Half(static_cast<float>(value)).bits;
    case DType::bf16:
      return BFloat16(static_cast<float>(value)).bits;
    case DType::f64:
      return std::bit_cast<int64_t>(value);
    case DType::i32:
      return integer_bits<int32_t>(value, dtype);
    case DType::i64:
      return integer_bits<int64_t>(value, dtype);
    case DType::u8:
      return integer_bits<uint8_t>(value, dtype);
    case DType::u32:
      return integer_bits<uint32_t>(value, dtype);
    case DType::i8:
      return integer_bits<int8_t>(value, dtype);
    case DType::u16:
      return integer_bits<uint16_t>(value, dtype);
    case DType::i16:
      return integer_bits<int16_t>(value, dtype);
    case DType::boolean:
      return value != 0;
  }
  return 0;
}

void check_injective(const char* operation, const Tensor& destination) {
  if (!is_injective(destination.shape(), destination.strides())) {
    throw ValueError(operation, destination.str() + " with strides " + destination.strides().str(),
                     "a destination whose elements don't share memory", "Write to a clone() of the view");
  }
}

/// Loops over `destination` (operand 0) and `source` in the order of the destination's memory. Where the destination
/// runs backwards both are turned round.
struct CopyPlan {
  Loops loops;
  Tensor destination, source;  ///< with the offsets that belong to `loops`
};

CopyPlan plan_copy(const Tensor& source, const Tensor& destination) {
  Shape to = destination.strides(), from = source.strides();
  int64_t to_offset = destination.offset(), from_offset = source.offset();
  for (int i = 0; i < to.rank(); i++) {
    if (to[i] >= 0) continue;
    const int64_t last = destination.shape()[i] - 1;
    to_offset += last * to[i];
    from_offset += last * from[i];
    to[i] = -to[i];
    from[i] = -from[i];
  }
  Loops loops{destination.shape(), {to, from}};
  sort_by_first(loops);
  const auto at = [](const Tensor& x, int64_t offset) {
    return Tensor(x.storage(), x.shape(), x.strides(), offset, x.dtype());
  };
  return {collapse(loops.sizes, loops.strides), at(destination, to_offset), at(source, from_offset)};
}

// Where the innermost dimension of the destination isn't the source's, the source's goes next to it: GPU kernels move
// tiles of the last two dimensions.
void pair_innermost(Loops& loops) {
  const int last = loops.sizes.rank() - 1;
  if (last < 2 || loops.strides[0][last] != 1 || loops.strides[1][last] == 1) return;
  for (int i = 0; i < last - 1; i++) {
    if (loops.strides[1][i] != 1) continue;
    const auto move = [&](Shape& values) {
      std::rotate(values.begin() + i, values.begin() + i + 1, values.begin() + last);
    };
    move(loops.sizes);
    for (Shape& strides : loops.strides) move(strides);
    return;
  }
}

bool is_one_run(const Shape& strides) { return strides.empty() || (strides.rank() == 1 && strides[0] == 1); }

// By the kernel of these two dtypes.
Tensor cast_in_one_step(const Tensor& source, DType dtype) {
  const Tensor result = Tensor::empty(source.shape(), dtype, source.device());
  const Tensor dense = dense_as(source, {source.numel()}), flat = result.reshape({result.numel()});
  const KernelKey key{.elements = {source.dtype(), dtype}};
  for_each_piece({flat.shape(), {flat.strides(), dense.strides()}}, 1,
                 [&](const Loops& piece, const std::vector<int64_t>& offsets) {
                   const std::array<Tensor, 1> outputs{piece_of(flat, piece, 0, offsets[0], 1)};
                   const std::array<Tensor, 1> inputs{piece_of(dense, piece, 1, offsets[1], 1)};
                   launch(kernels::cast, key, inputs, {}, outputs);
                 });
  return result;
}

}  // namespace

std::vector<Tensor> Movement::call(const KernelInfo& kernel, const FormCall& call) {
  if (call.inputs.empty()) {
    throw ValueError(kernel.name, "no tensors", "a tensor to work on", "The runtime calls this kernel itself");
  }
  const KernelKey key = key_of(kernel, call);
  std::vector<Tensor> outputs;
  for (const Argument& argument : kernel.arguments) {
    if (argument.role != Argument::Role::output) continue;
    outputs.push_back(Tensor::empty(call.inputs[0].shape(), dtype_in(argument, key), call.inputs[0].device()));
  }
  launch(kernel, key, call.inputs, call.scalars, outputs);
  return outputs;
}

std::vector<FormSample> Movement::samples(const KernelInfo& kernel, KernelKey key, std::span<const int64_t> shape) {
  if (kernel.count(Argument::Role::input) == 0) return {};
  return FormDefaults::samples(kernel, key, shape);
}

void fill(const Tensor& destination, double value) {
  const int64_t bits = bits_of(value, destination.dtype());
  if (destination.numel() == 0) return;
  check_injective("fill", destination);
  const CopyPlan plan = plan_copy(destination, destination);
  const KernelKey key{.elements = {carrier(destination.dtype())}};
  const std::array<Scalar, 1> scalars{Scalar(bits)};
  if (is_one_run(plan.loops.strides[0])) {
    const Tensor run = as_carrier(plan.destination);
    for_each_piece(plan.loops, 1, [&](const Loops& piece, const std::vector<int64_t>& offsets) {
      const std::array<Tensor, 1> outputs{piece_of(run, piece, 0, offsets[0], 1)};
      launch(kernels::fill, key, {}, scalars, outputs);
    });
    return;
  }
  // The fill kernel knows only runs: spread one filled element.
  const Tensor element = Tensor::empty({1}, destination.dtype(), destination.device());
  const std::array<Tensor, 1> outputs{as_carrier(element)};
  launch(kernels::fill, key, {}, scalars, outputs);
  copy(element.broadcast_to(destination.rank() == 0 ? Shape{1} : destination.shape()), destination);
}

void copy(const Tensor& source, const Tensor& destination) {
  if (destination.numel() == 0) return;
  check_injective("copy", destination);
  CopyPlan plan = plan_copy(source, destination);
  const int64_t width = size_of(destination.dtype());
  if (is_one_run(plan.loops.strides[0]) && is_one_run(plan.loops.strides[1])) {
    detail::copy_bytes(*destination.storage(), plan.destination.offset() * width, *source.storage(),
                       plan.source.offset() * width, destination.bytes());
    destination.bump_version();
    return;
  }
  if (destination.device().kind != DeviceKind::cpu) pair_innermost(plan.loops);
  const Tensor to = as_carrier(plan.destination), from = as_carrier(plan.source);
  const KernelKey key{.elements = {to.dtype()}};
  // Kernels write with innermost stride 1. Without such a dimension, one of size 1 takes its place.
  const Shape& strides = plan.loops.strides[0];
  const bool needs_unit = strides.empty() || strides.back() != 1;
  const bool are_many = strides.rank() + needs_unit > kernels::copy.arguments[0].rank;
  const bool has_five = are_many && has_instance(kernels::copy_of_five, key, destination.device().kind);
  const KernelInfo& kernel = has_five ? kernels::copy_of_five : kernels::copy;
  const int most = kernel.arguments[0].rank, rank = needs_unit ? most - 1 : most;
  sort_for_few_pieces(plan.loops, rank);
  for_each_piece(plan.loops, rank, [&](Loops piece, const std::vector<int64_t>& offsets) {
    if (needs_unit) {
      piece.sizes.push_back(1);
      for (Shape& steps : piece.strides) steps.push_back(1);
    }
    const std::array<Tensor, 1> outputs{piece_of(to, piece, 0, offsets[0], most)};
    const std::array<Tensor, 1> inputs{piece_of(from, piece, 1, offsets[1], most)};
    launch(kernel, key, inputs, {}, outputs);
  });
}

namespace {

constexpr size_t kMostParts = 8;  // of kernels::copy_parts

/// One launch for up to kMostParts sources, whose destinations lie in one storage from `first` elements on.
void copy_parts(std::span<const Tensor> sources, std::span<const Tensor> destinations, int64_t first, int64_t end) {
  std::vector<Tensor> inputs;
  std::vector<Scalar> scalars;
  for (size_t k = 0; k < kMostParts; k++) {  // what is missing is never read
    const size_t at = std::min(k, sources.size() - 1);
    inputs.push_back(as_carrier(sources[at]).reshape({sources[at].numel()}));
    scalars.emplace_back(static_cast<int32_t>(destinations[at].offset() - first));
  }
  scalars.emplace_back(static_cast<int32_t>(sources.size()));
  const Tensor& one = destinations[0];
  const std::array outputs{Tensor(one.storage(), {end - first}, {1}, first, carrier(one.dtype()))};
  launch(kernels::copy_parts, {.elements = {outputs[0].dtype()}}, inputs, scalars, outputs);
}

/// Whether copy_parts() suits the pair: of large tensors the driver's copy is quicker.
bool is_small_part(const Tensor& source, const Tensor& destination) {
  constexpr int64_t kMostElements = 1 << 14;
  const int64_t width = size_of(destination.dtype()), begin = destination.offset() * width;
  return destination.device().kind == DeviceKind::cuda && (width == 2 || width == 4) && source.numel() > 0 &&
         source.numel() <= kMostElements && source.is_contiguous() && destination.is_contiguous() &&
         source.storage() != destination.storage() &&
         // An output that begins at an odd address would be written by way of a copy of all that lies there.
         begin % destination.storage()->home().owner().output_alignment() == 0;
}

/// Destinations of one piece of memory, waiting for a launch.
struct Parts {
  std::vector<Tensor> sources, destinations;
  int64_t first = std::numeric_limits<int64_t>::max(), end = 0;

  /// False where the group has no place for it.
  bool take(const Tensor& source, const Tensor& destination) {
    const int64_t low = std::min(first, destination.offset());
    const int64_t high = std::max(end, destination.offset() + destination.numel());
    if (sources.size() == kMostParts || high - low > kMaxElements) return false;
    if (!sources.empty() &&
        (destination.storage() != destinations[0].storage() || destination.dtype() != destinations[0].dtype())) {
      return false;
    }
    sources.push_back(source);
    destinations.push_back(destination);
    first = low, end = high;
    return true;
  }
  void copy_all() {
    if (sources.size() == 1) copy(sources[0], destinations[0]);
    if (sources.size() > 1) copy_parts(sources, destinations, first, end);
    *this = {};
  }
};

}  // namespace

void copy_each(std::span<const Tensor> sources, std::span<const Tensor> destinations) {
  Parts parts;
  for (size_t i = 0; i < sources.size(); i++) {
    if (!is_small_part(sources[i], destinations[i])) {
      copy(sources[i], destinations[i]);
    } else if (!parts.take(sources[i], destinations[i])) {
      parts.copy_all();
      parts.take(sources[i], destinations[i]);
    }
  }
  parts.copy_all();
}

Tensor cast(const Tensor& source, DType dtype) {
  if (source.numel() == 0) return Tensor::empty(source.shape(), dtype, source.device());
  Tensor at = source;
  for (const DType next : cast_path(source.dtype(), dtype, source.device().kind)) {
    at = keeps_bits(at.dtype(), next) ? Tensor(at.storage(), at.shape(), at.strides(), at.offset(), next)
                                      : cast_in_one_step(at, next);
  }
  return at.storage() == source.storage() ? at.clone() : at;
}

}  // namespace ashlar::forms
