// What all forms have in common: keys, versions, strided views and comptime values reach kernels, which are written
// here by hand in the ABI of compiled ones.
#include <HalideRuntime.h>

#include "runtime/forms/forms.h"
#include "runtime/graph/graph.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/reference.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Role = Argument::Role;

std::vector<int32_t> seen_strides;  // of the last call's input, innermost first

/// y[…] = x[…] + 1 for any rank up to 2, and notes how x lies.
int next(void** arguments) {
  const auto& x = *static_cast<halide_buffer_t*>(arguments[1]);
  const auto& y = *static_cast<halide_buffer_t*>(arguments[2]);
  const int rank = y.dimensions;
  seen_strides.clear();
  for (int d = 0; d < rank; d++) seen_strides.push_back(x.dim[d].stride);
  const auto at = [rank](const halide_buffer_t& b, int i, int j) -> float& {
    const int64_t base = b.dimensions > rank ? -b.dim[rank].min : 0;
    return reinterpret_cast<float*>(b.host)[base + i * b.dim[0].stride + (rank > 1 ? j * b.dim[1].stride : 0)];
  };
  for (int j = 0; j < (rank > 1 ? y.dim[1].extent : 1); j++) {
    for (int i = 0; i < y.dim[0].extent; i++) at(y, i, j) = at(x, i, j) + 1;
  }
  return 0;
}

/// The same, plus what is particular to variant 300.
int next_of_300(void** arguments) {
  next(arguments);
  auto& y = *static_cast<halide_buffer_t*>(arguments[2]);
  reinterpret_cast<float*>(y.host)[0] += 300;
  return 0;
}

constexpr KernelInstance kInstances[] = {{KernelKey{}.packed(), next, "next"},
                                         {KernelKey{{}, 300}.packed(), next_of_300, "next_of_300"}};
constexpr TargetTable kTable{kInstances, 2};

template <int8_t rank, bool is_strided>
constexpr Argument kArguments[] = {{"x", Role::input, 0, DType::f32, rank, -1, is_strided},
                                   {"y", Role::output, 0, DType::f32, rank, -1}};

const char* same_shape(const Shape* in, Shape* out) {
  out[0] = in[0];
  return nullptr;
}

template <class F, int8_t rank, bool is_strided>
constexpr KernelInfo kNext{.version = kTablesVersion,
                           .name = "next",
                           .formula = "a test",
                           .form = &form_of<F>,
                           .arguments = kArguments<rank, is_strided>,
                           .comptimes = {},
                           .element_count = 1,
                           .shape_rule = same_shape,
                           .flops = nullptr,
                           .targets = {&kTable}};

template <class F, int8_t rank, bool is_strided>
void expect_strides(const Tensor& x, const std::vector<int32_t>& strides, std::vector<OptionValue> options = {}) {
  const Tensor y = F::call(kNext<F, rank, is_strided>, {.inputs = std::span(&x, 1), .options = options})[0];
  EXPECT_EQ(seen_strides, strides);
  std::vector<float> expected = x.to_vector<float>();
  for (float& value : expected) value += 1;
  EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(y.to_vector<float>(), expected);
}

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i);
  return Tensor::from<float>(values, shape);
}

TEST(Strided, ViewsReachKernelsThatTakeThem) {
  using namespace forms;
  const Tensor x = counting({4, 6});
  expect_strides<Pointwise, 1, true>(x.select(1, 2), {6});
  expect_strides<Pointwise, 1, true>(x.slice(1, 0, 6, 2), {2});
  expect_strides<Pointwise, 1, true>(x.select(0, 1).select(0, 3).broadcast_to({5, 2}), {0});
  expect_strides<Plain, 2, true>(x.transpose(0, 1), {6, 1});
  const std::vector<OptionValue> first{OptionValue(int64_t{0})};
  expect_strides<Rows, 2, true>(x, {6, 1}, first);
  expect_strides<Rows, 2, true>(x.slice(1, 1, 6, 3), {3, 6}, {OptionValue(int64_t{-1})});
}

TEST(Strided, OthersGetDenseCopies) {
  using namespace forms;
  const Tensor x = counting({4, 6});
  expect_strides<Pointwise, 1, false>(x.select(1, 2), {1});
  expect_strides<Plain, 2, false>(x.transpose(0, 1), {1, 4});
  expect_strides<Rows, 2, false>(x, {1, 4}, {OptionValue(int64_t{0})});
  // What no stride can step through, and what runs backwards, is copied for all.
  expect_strides<Pointwise, 1, true>(x.slice(1, 0, 3), {1});
  expect_strides<Pointwise, 1, true>(x.select(1, 2).flip(0), {1});
}

/// y[o, 0, i] = x[o, 0, i]: a reduction that takes the first.
int first_of(void** arguments) {
  const auto& x = *static_cast<halide_buffer_t*>(arguments[1]);
  const auto& y = *static_cast<halide_buffer_t*>(arguments[2]);
  for (int o = 0; o < y.dim[2].extent; o++) {
    for (int i = 0; i < y.dim[0].extent; i++) {
      reinterpret_cast<float*>(y.host)[o * y.dim[2].stride + i * y.dim[0].stride] =
          reinterpret_cast<float*>(x.host)[-x.dim[3].min + o * x.dim[2].stride + i * x.dim[0].stride];
    }
  }
  return 0;
}
constexpr KernelInstance kFirstInstances[] = {{KernelKey{}.packed(), first_of, "first_of"}};
constexpr TargetTable kFirstTable{kFirstInstances, 1};
constexpr KernelInfo kFirst{.version = kTablesVersion,
                            .name = "first",
                            .formula = "a test",
                            .form = &form_of<forms::Reduction>,
                            .arguments = kArguments<3, true>,
                            .comptimes = {},
                            .element_count = 1,
                            .shape_rule = nullptr,
                            .flops = nullptr,
                            .targets = {&kFirstTable}};

// A kernel with an f32 instance alone.
TEST(Substitutes, SixteenBitsGoThroughF32InEveryFormAndComeBack) {
  using namespace forms;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = counting({4, 6}).to(dtype);
    std::vector<float> expected = counting({4, 6}).to_vector<float>();
    for (float& value : expected) value += 1;
    const std::vector<OptionValue> last{OptionValue(int64_t{-1})};
    for (const Tensor& y : {Pointwise::call(kNext<Pointwise, 1, false>, {.inputs = std::span(&x, 1)})[0],
                            Rows::call(kNext<Rows, 2, false>, {.inputs = std::span(&x, 1), .options = last})[0]}) {
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.to(DType::f32).to_vector<float>(), expected);
    }
    const std::vector<OptionValue> columns{OptionValue(Shape{1}), OptionValue(int64_t{0})};
    const Tensor y = Reduction::call(kFirst, {.inputs = std::span(&x, 1), .options = columns})[0];
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(y.to(DType::f32).to_vector<float>(), (std::vector<float>{0, 6, 12, 18}));
  }
}

TEST(Substitutes, IntegersComputeInFloatsWherePointwise) {
  using namespace forms;
  const Tensor x = counting({3}).to(DType::i32);
  const Tensor y = Pointwise::call(kNext<Pointwise, 1, false>, {.inputs = std::span(&x, 1)})[0];
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  // f64 has more digits than any substitute.
  expect_error<MissingKernel>(
      [&] {
        const Tensor wide = x.to(DType::f64);
        Pointwise::call(kNext<Pointwise, 1, false>, {.inputs = std::span(&wide, 1)});
      },
      {"next", "f64", "f32"});
}

// A dtype that a program leaves out (ASHLAR_DTYPES) has a row in the table, and no function.
TEST(Substitutes, ADtypeThatTheProgramLeavesOutIsNamed) {
  static constexpr KernelInstance instances[] = {{KernelKey{}.packed(), next, "next"},
                                                 {KernelKey{{DType::f64, DType::f32}}.packed(), nullptr, "next_f64"}};
  static constexpr TargetTable table{instances, 2};
  KernelInfo kernel = kNext<forms::Pointwise, 1, false>;
  kernel.targets = {&table};
  const Tensor x = counting({3}).to(DType::f64);
  expect_error<MissingKernel>([&] { forms::Pointwise::call(kernel, {.inputs = std::span(&x, 1)}); },
                              {"next", "f64", "(cpu: f32)", "ASHLAR_DTYPES"});
}

TEST(Variants, ReachBeyond256) {
  const Tensor x = counting({3});
  const Tensor y =
      forms::Pointwise::call(kNext<forms::Pointwise, 1, false>, {.inputs = std::span(&x, 1), .variant = 300})[0];
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{301, 2, 3}));
  // 300 mod 256 is another instance, which there isn't.
  expect_error<MissingKernel>(
      [&] { forms::Pointwise::call(kNext<forms::Pointwise, 1, false>, {.inputs = std::span(&x, 1), .variant = 44}); },
      {"next"});
}

TEST(Keys, UnpackToWhatWasPacked) {
  for (const DType a : {DType::f32, DType::boolean}) {
    for (const DType b : {DType::f32, DType::boolean}) {
      for (const int variant : {0, 1, 255, 256, kMostVariants - 1}) {
        const KernelKey key{{a, b}, static_cast<uint16_t>(variant)};
        for (const int setting : {0, 1, kMostSettings - 1}) {
          const KernelInstance instance{with_setting(key.packed(), setting), next, "next"};
          EXPECT_EQ(instance.setting(), setting);
          const KernelKey back = KernelKey::unpacked(instance.key);
          EXPECT_EQ(back.elements, key.elements);
          EXPECT_EQ(back.variant, key.variant);
        }
      }
    }
  }
}

TEST(Version, OfOtherTablesIsRefused) {
  KernelInfo other = kNext<forms::Pointwise, 1, false>;
  other.version = kTablesVersion + 1;
  other.name = nullptr;  // nothing else of it may be read
  other.arguments = {};
  const Tensor x = counting({3});
  const std::string came = "version " + std::to_string(other.version),
                    needed = "version " + std::to_string(kTablesVersion);
  const std::initializer_list<const char*> words = {came.c_str(), needed.c_str(), "Build"};
  expect_error<KernelError>([&] { forms::Pointwise::call(other, {.inputs = std::span(&x, 1)}); }, words);
  expect_error<KernelError>([&] { launch(other, {}, std::span(&x, 1), {}, std::span(&x, 1)); }, words);
}

int count_up(void** arguments) {
  const auto& y = *static_cast<halide_buffer_t*>(arguments[1]);
  for (int i = 0; i < y.dim[0].extent; i++) reinterpret_cast<float*>(y.host)[i] = static_cast<float>(i);
  return 0;
}

TEST(Plain, NeedsNoInputs) {
  static constexpr KernelInstance instances[] = {{KernelKey{}.packed(), count_up, "count_up"}};
  static constexpr TargetTable table{instances, 1};
  static constexpr Argument arguments[] = {{"y", Role::output, 0, DType::f32, 1, -1}};
  const KernelInfo kernel{.version = kTablesVersion,
                          .name = "count_up",
                          .formula = "a test",
                          .form = &form_of<forms::Plain>,
                          .arguments = arguments,
                          .comptimes = {},
                          .element_count = 1,
                          .shape_rule = [](const Shape*, Shape* out) -> const char* {
                            out[0] = Shape{5};
                            return nullptr;
                          },
                          .flops = nullptr,
                          .targets = {&table}};
  EXPECT_EQ(forms::Plain::call(kernel, {})[0].to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4}));
}

TEST(Capturing, IsKnown) {
  EXPECT_FALSE(is_capturing(Device::cpu()));
  bool inside = false;
  capture(Device::cpu(), [&] { inside = is_capturing(Device::cpu()); });
  EXPECT_TRUE(inside);
}

}  // namespace
}  // namespace ashlar
