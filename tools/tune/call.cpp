#include "tools/tune/call.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "runtime/launch/launch.h"
#include "runtime/support/error.h"
#include "tools/tune/bundle.h"

namespace ashlar::tune {
namespace {

DType dtype_of_argument(const Argument& argument, uint32_t key) {
  return argument.element < 0 ? argument.dtype
                              : KernelKey::unpacked(key).elements[static_cast<size_t>(argument.element)];
}

/// xorshift64* (Marsaglia 2003; Vigna 2016).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  uint32_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<uint32_t>(state_ * 0x2545f4914f6cdd1du >> 32);
  }

 private:
  uint64_t state_;
};

Tensor random_tensor(const Shape& shape, DType dtype, int64_t below, uint64_t seed) {
  Random random(seed);
  const auto count = static_cast<size_t>(shape.numel());
  if (is_floating(dtype)) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random.next())) * 0x1p-31f;
    return Tensor::from<float>(values, shape).to(dtype);
  }
  std::vector<int32_t> values(count);
  for (int32_t& value : values) value = static_cast<int32_t>(random.next() % static_cast<uint64_t>(below));
  return Tensor::from<int32_t>(values, shape).to(dtype);
}

/// Digits of comptime values that the form itself chooses are 0 in a call.
uint16_t public_variant(const KernelInfo& kernel, uint16_t variant) {
  size_t rest = variant, stride = 1, result = 0;
  for (const ComptimeInfo& comptime : kernel.comptimes) {
    if (!kernel.form->signature.owns(comptime.name)) result += stride * (rest % comptime.values.size());
    rest /= comptime.values.size();
    stride *= comptime.values.size();
  }
  return static_cast<uint16_t>(result);
}

size_t public_scalars(const KernelInfo& kernel) {
  return static_cast<size_t>(std::ranges::count_if(
      kernel.arguments, [&](const Argument& argument) { return is_callers_scalar(kernel.form->signature, argument); }));
}

/// How far two results of one dtype may lie apart, of the larger of the element and the root mean square.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 1e-4;
    case DType::f16:
      return 4e-3;
    case DType::bf16:
      return 3e-2;
    case DType::f64:
      return 1e-9;
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::u32:
    case DType::i8:
    case DType::u16:
    case DType::i16:
    case DType::boolean:
      break;
  }
  return 0;
}

template <class T>
std::string difference_of(const std::vector<T>& came, const std::vector<T>& expected, double tolerance) {
  double squares = 0;
  size_t finite = 0;
  for (const T value : expected) {
    const auto v = static_cast<double>(value);
    if (!std::isfinite(v)) continue;
    squares += v * v;
    finite++;
  }
  const double typical = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  for (size_t i = 0; i < came.size(); i++) {
    const auto a = static_cast<double>(came[i]), b = static_cast<double>(expected[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::abs(a - b) <= tolerance * std::max(std::abs(b), typical)) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a) + " and should be " + std::to_string(b);
  }
  return "";
}

}  // namespace

std::string size_names(const KernelInfo& kernel) {
  std::string names;
  for (const std::string& name : kernel.form->shape_names(kernel)) names += (names.empty() ? "" : " x ") + name;
  return names;
}

void check_shape(const KernelInfo& kernel, const std::vector<int64_t>& sizes) {
  const size_t count = kernel.form->shape_names(kernel).size();
  if (sizes.size() != count) {
    throw ValueError("ashlar-tune", "the shape " + text_of(sizes) + " for " + kernel.name,
                     std::to_string(count) + (count == 1 ? " size: " : " sizes: ") + size_names(kernel),
                     "Give --shapes of that form");
  }
  if (kernel.form->samples(kernel, {}, sizes).empty()) {
    throw ValueError("ashlar-tune", "the shape " + text_of(sizes) + " for " + kernel.name,
                     "a kernel that its form can call, and sizes of which the shapes of its inputs can be taken as its "
                     "definition wants them",
                     "Give other --shapes, or tune another kernel");
  }
}

Inputs make_inputs(const KernelInfo& kernel, uint32_t key, const std::vector<int64_t>& sizes) {
  check_shape(kernel, sizes);
  Inputs made;
  for (const FormSample& sample : kernel.form->samples(kernel, KernelKey::unpacked(key), sizes)) {
    Sample& one = made.emplace_back(Sample{{}, sample.options});
    for (const Argument& argument : kernel.arguments) {
      const size_t i = one.inputs.size();
      if (argument.role != Argument::Role::input || i == sample.inputs.size()) continue;
      one.inputs.push_back(random_tensor(sample.inputs[i], dtype_of_argument(argument, key), sizes.back(), i + 1));
    }
  }
  return made;
}

std::vector<int64_t> sizes_for_table(const KernelInfo& kernel, const Inputs& inputs,
                                     const std::vector<Tensor>& outputs) {
  const CanonicalSizes sizes = kernel.form->sizes(inputs[0].inputs, outputs);
  return {sizes.begin(), sizes.begin() + kernel.form->signature.size_count()};
}

Inputs copy_to(const Inputs& inputs, Device device) {
  Inputs copies;
  for (const Sample& sample : inputs) {
    Sample& copy = copies.emplace_back(Sample{{}, sample.options});
    for (const Tensor& x : sample.inputs) copy.inputs.push_back(device == x.device() ? x.clone() : x.to(device));
  }
  return copies;
}

std::vector<Tensor> call(const KernelInfo& kernel, uint32_t key, const Inputs& inputs) {
  const KernelKey typed = KernelKey::unpacked(key);
  const std::vector<Scalar> scalars(public_scalars(kernel), Scalar(1));
  std::vector<Tensor> outputs;
  for (const Sample& sample : inputs) {
    const FormCall call{.inputs = sample.inputs,
                        .scalars = scalars,
                        .options = sample.options,
                        .variant = public_variant(kernel, typed.variant),
                        .elements = typed.elements};
    for (Tensor& y : kernel.form->call(kernel, call)) outputs.push_back(std::move(y));
  }
  return outputs;
}

std::string difference(const std::vector<Tensor>& came, const std::vector<Tensor>& expected) {
  for (size_t i = 0; i < came.size(); i++) {
    const double tolerance = tolerance_of(came[i].dtype());
    const bool is_wide = came[i].dtype() == DType::f64 || !is_floating(came[i].dtype());
    const std::string found = is_wide ? difference_of(came[i].to(DType::f64).to_vector<double>(),
                                                      expected[i].to(DType::f64).to_vector<double>(), tolerance)
                                      : difference_of(came[i].to(DType::f32).to_vector<float>(),
                                                      expected[i].to(DType::f32).to_vector<float>(), tolerance);
    if (!found.empty()) return "output " + std::to_string(i) + ": " + found;
  }
  return "";
}

std::vector<std::vector<int64_t>> check_sizes(const KernelInfo& kernel) {
  std::vector<std::vector<int64_t>> shapes = kernel.form->check_shapes(kernel);
  std::erase_if(shapes, [&](const auto& shape) { return kernel.form->samples(kernel, {}, shape).empty(); });
  return shapes;
}

double bytes_of(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  double bytes = 0;
  for (const Tensor& x : inputs) bytes += static_cast<double>(x.bytes());
  for (const Tensor& y : outputs) bytes += static_cast<double>(y.bytes());
  return bytes;
}

}  // namespace ashlar::tune
