// Kernels of integers: an 8-bit dot product and random numbers.
#include "ashlar/ops.h"
#include "runtime/random/philox.h"
#include "runtime/tensor/random.h"
#include "tests/conformance/cases/cases.h"
#include "tests/conformance/reference.h"

namespace ashlar::conformance {
namespace {

Case dot_case(std::string name, Shape shape, Layout layout = Layout::dense) {
  const Values any{Pattern::integers, -128, 127};
  return {.kernel = "dot_i8",
          .name = std::move(name),
          .inputs = {{shape, any, layout}, {shape, any}},
          .dtypes = {DType::i8},
          .call = [](Tensors x) { return std::vector{dot_i8(x[0], x[1])}; },
          .reference =
              [](HostTensors x) {
                const int64_t columns = x[0].shape[1];
                Expected y{{x[0].shape[0]}, std::vector<double>(static_cast<size_t>(x[0].shape[0])), {}, DType::i32};
                for (size_t i = 0; i < x[0].values.size(); ++i) {
                  y.values[i / static_cast<size_t>(columns)] += x[0].values[i] * x[1].values[i];
                }
                return std::vector{y};
              }};
}

// The state holds a seed and a counter that doubles hold exactly.
Case uniform_case(std::string kernel, int64_t count) {
  return {.kernel = std::move(kernel),
          .name = std::to_string(count),
          .inputs = {{.shape = {2}, .values = {Pattern::integers, -0x1p40, 0x1p40}, .dtype = DType::i64}},
          .dtypes = {DType::f32},
          .call =
              [count](Tensors x) {
                return std::vector{philox_uniform(x[0], {count}), x[0]};
              },
          .reference =
              [count](HostTensors x) {
                const auto seed = static_cast<uint64_t>(static_cast<int64_t>(x[0].values[0]));
                const auto first = static_cast<int64_t>(x[0].values[1]);
                Expected y{{count}, {}, {}, DType::f32};
                for (int64_t i = 0; i < count; ++i) {
                  const auto block = static_cast<uint64_t>(first + i / 4);
                  const auto words = ashlar::Random::philox(
                      {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}, seed);
                  y.values.push_back(words[static_cast<size_t>(i % 4)] >> 8);
                  y.values.back() /= 0x1p24;
                }
                const auto next = static_cast<double>(first + (count + 3) / 4);
                return std::vector{y, Expected{{2}, {x[0].values[0], next}, {}, DType::i64}};
              },
          .in_place = true,
          .fixed_shapes = true,
          .is_drawn = false};
}

}  // namespace

void add_integer_cases() {
  for (const int64_t columns : {1, 3, 16, 31, 64, 1000, 4096, 20000}) {
    add_case(dot_case("5x" + std::to_string(columns), {5, columns}));
  }
  add_case(dot_case("1000x33", {1000, 33}));
  add_case(dot_case("0x7", {0, 7}));
  add_case(dot_case("9x65_transposed", {9, 65}, Layout::transposed));
  add_case(dot_case("9x64_offset", {9, 64}, Layout::offset));
  for (const int64_t count : {0, 1, 3, 4, 5, 33, 511, 513, 2048, 100001})
    add_case(uniform_case("philox_uniform", count));
  add_case(uniform_case("philox_advance", 77));
}

}  // namespace ashlar::conformance
