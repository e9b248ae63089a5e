// Tensors of numbers that follow a rule, and of random ones.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>

#include "runtime/memory/host_memory.h"
#include "runtime/support/error.h"
#include "runtime/tensor/random.h"
#include "runtime/tensor/tensor.h"

namespace ashlar {
namespace {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

/// A dense tensor of make(0), make(1), …: doubles for a floating dtype, else int64_t.
template <class Make>
Tensor filled(const char* operation, const Shape& shape, DType dtype, Device device, Make make) try {
  Tensor::empty(shape, dtype, device);  // its errors about the shape, before the host allocates
  const auto of = [&]<class T>(T) {
    std::vector<T> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<T>(make(static_cast<int64_t>(i)));
    return Tensor::from(values, shape, device).to(dtype);
  };
  using Made = decltype(make(int64_t{}));
  if constexpr (std::is_same_v<Made, int64_t>) {
    return of(int64_t{});
  } else {
    return dtype == DType::f64 ? of(double{}) : of(float{});
  }
} catch (const std::bad_alloc&) {
  detail::throw_out_of_host_memory(operation);
} catch (const std::length_error&) {
  detail::throw_out_of_host_memory(operation);
}

void require_floating(const char* operation, DType dtype) {
  if (is_floating(dtype)) return;
  throw DTypeError(operation, std::string(name_of(dtype)), "a floating-point dtype",
                   "Convert the result with to(), or draw integers with Tensor::randint()");
}

struct Shared {
  std::mutex mutex;
  Random random;
};
Shared& shared() {
  static Shared shared;
  return shared;
}

template <class Draw>
Tensor draw_shared(Draw draw) {
  const std::lock_guard lock(shared().mutex);
  return draw(shared().random);
}

double unit(Random& random, DType dtype) {
  return dtype == DType::f64 ? static_cast<double>(random.wide_bits() >> 11) * 0x1p-53 : random.uniform();
}

/// A double without a fraction and inside of i64.
int64_t integer_of(double value) {
  constexpr double kLimit = 0x1p63;
  if (!(value >= -kLimit && value < kLimit)) {
    throw ValueError("Tensor::arange", std::to_string(value), "numbers that i64 holds",
                     "Pass DType::f32 or DType::f64");
  }
  return static_cast<int64_t>(value);
}

}  // namespace

void manual_seed(uint64_t seed) {
  const std::lock_guard lock(shared().mutex);
  shared().random = Random(seed);
}

Tensor Tensor::empty_like(const Tensor& x, std::optional<DType> dtype) {
  return empty(x.shape(), dtype.value_or(x.dtype()), x.device());
}

Tensor Tensor::full_like(const Tensor& x, Number value, std::optional<DType> dtype) {
  return full(x.shape(), value, dtype.value_or(x.dtype()), x.device());
}

Tensor Tensor::zeros_like(const Tensor& x, std::optional<DType> dtype) { return full_like(x, 0, dtype); }
Tensor Tensor::ones_like(const Tensor& x, std::optional<DType> dtype) { return full_like(x, 1, dtype); }

Tensor Tensor::arange(Number stop, std::optional<DType> dtype, Device device) {
  return arange(stop.is_floating() ? Number(0.0) : Number(0), stop, 1, dtype, device);
}

Tensor Tensor::arange(Number start, Number stop, Number step, std::optional<DType> dtype, Device device) {
  const char* operation = "Tensor::arange";
  const double from = start.real(), to = stop.real(), by = step.real();
  if (!std::isfinite(from) || !std::isfinite(to) || !std::isfinite(by) || by == 0 || (to - from) * by < 0) {
    throw ValueError(operation, std::to_string(from) + " to " + std::to_string(to) + " by " + std::to_string(by),
                     "finite numbers, and a step from start towards stop", "Give a step of the other sign, not 0");
  }
  const bool is_integer = !start.is_floating() && !stop.is_floating() && !step.is_floating();
  const DType result = dtype.value_or(is_integer ? DType::i64 : DType::f32);
  if (is_integer) {
    const int64_t first = start.integer(), stride = step.integer();
    // In 128 bits: the distance of two int64_t may not fit into one.
    const Wide distance = static_cast<Wide>(stop.integer()) - first;
    const auto count = static_cast<int64_t>((distance + stride - (stride > 0 ? 1 : -1)) / stride);
    const auto at = [&](int64_t i) { return static_cast<int64_t>(first + static_cast<Wide>(i) * stride); };
    return is_floating(result) ? filled(operation, count, result, device, [&](int64_t i) { return double(at(i)); })
                               : filled(operation, count, result, device, at);
  }
  const double count = std::ceil((to - from) / by);
  if (count >= 0x1p62) detail::throw_out_of_host_memory(operation);
  const auto at = [&](int64_t i) { return from + static_cast<double>(i) * by; };
  const auto size = static_cast<int64_t>(count);
  return is_floating(result) ? filled(operation, size, result, device, at)
                             : filled(operation, size, result, device, [&](int64_t i) { return integer_of(at(i)); });
}

Tensor Tensor::linspace(double start, double stop, int64_t steps, DType dtype, Device device) {
  require_floating("Tensor::linspace", dtype);
  const double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0;
  // From the nearer end, so that both ends are exact.
  return filled("Tensor::linspace", steps, dtype, device, [&](int64_t i) {
    return 2 * i < steps ? start + step * static_cast<double>(i) : stop - step * static_cast<double>(steps - 1 - i);
  });
}

Tensor Tensor::eye(int64_t rows, std::optional<int64_t> columns, DType dtype, Device device) {
  const Tensor result = zeros({rows, columns.value_or(rows)}, dtype, device);
  const int64_t length = std::min(result.size(0), result.size(1));
  if (length > 0) result.as_strided({length}, {result.size(1) + 1}, 0).fill_(1);
  return result;
}

Tensor Tensor::rand(const Shape& shape, DType dtype, Device device) {
  return draw_shared([&](Random& random) { return rand(shape, random, dtype, device); });
}

Tensor Tensor::rand(const Shape& shape, Random& random, DType dtype, Device device) {
  require_floating("Tensor::rand", dtype);
  if (size_of(dtype) != 2) {
    return filled("Tensor::rand", shape, dtype, device, [&](int64_t) { return unit(random, dtype); });
  }
  // As many bits as the dtype has, else numbers next to 1 would be rounded to it.
  const int bits = dtype == DType::f16 ? 11 : 8;
  return filled("Tensor::rand", shape, dtype, device,
                [&](int64_t) { return std::ldexp(static_cast<double>(random.bits() >> (32 - bits)), -bits); });
}

Tensor Tensor::randn(const Shape& shape, DType dtype, Device device) {
  return draw_shared([&](Random& random) { return randn(shape, random, dtype, device); });
}

Tensor Tensor::randn(const Shape& shape, Random& random, DType dtype, Device device) {
  require_floating("Tensor::randn", dtype);
  double radius = 0, angle = 0;
  return filled("Tensor::randn", shape, dtype, device, [&](int64_t i) {
    if (i % 2 == 1) return radius * std::sin(angle);
    radius = std::sqrt(-2 * std::log(1 - unit(random, dtype)));  // of (0, 1]
    angle = 2 * std::numbers::pi * unit(random, dtype);
    return radius * std::cos(angle);
  });
}

Tensor Tensor::randint(int64_t low, int64_t high, const Shape& shape, DType dtype, Device device) {
  return draw_shared([&](Random& random) { return randint(low, high, shape, random, dtype, device); });
}

Tensor Tensor::randint(int64_t low, int64_t high, const Shape& shape, Random& random, DType dtype, Device device) {
  if (low >= high) {
    throw ValueError("Tensor::randint", "from " + std::to_string(low) + " to " + std::to_string(high), "low below high",
                     "high itself is never drawn: pass one more than the largest");
  }
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const auto draw = [&](int64_t) {
    // The upper half of 64 random bits times the range.
    const auto product = static_cast<UnsignedWide>(random.wide_bits()) * range;
    return static_cast<int64_t>(static_cast<uint64_t>(low) + static_cast<uint64_t>(product >> 64));
  };
  if (!is_floating(dtype)) return filled("Tensor::randint", shape, dtype, device, draw);
  return filled("Tensor::randint", shape, dtype, device, [&](int64_t i) { return double(draw(i)); });
}

}  // namespace ashlar
