// Form::plain, and in-place outputs and parameters of Form::pointwise, with kernels written here by hand in the ABI of
// compiled ones (runtime/launch/kernel.h): so the forms are seen apart from the language.
#include <HalideRuntime.h>

#include <atomic>

#include "runtime/forms/forms.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/reference.h"

namespace ashlar {
namespace {

using testing::expect_error;

/// A buffer of floats as a kernel sees it: dimension 0 is the innermost, an input's last one carries the offset.
struct Buffer {
  explicit Buffer(void* argument) : raw(static_cast<halide_buffer_t*>(argument)) {}
  int32_t extent(int dimension) const { return raw->dim[dimension].extent; }
  float& input(int i, int j = 0) const { return at(i, j, -raw->dim[raw->dimensions - 1].min); }
  float& output(int i, int j = 0) const { return at(i, j, 0); }
  float& at(int i, int j, int offset) const {
    const int second = raw->dimensions > 1 ? raw->dim[1].stride : 0;
    return reinterpret_cast<float*>(raw->host)[offset + i * raw->dim[0].stride + j * second];
  }
  halide_buffer_t* raw;
};

// history[c] += Σ_r x[r,c];  y[c,r] = x[r,c] · gain[c] + shift, through a scratch as big as gain
int mix(void** arguments) {
  const Buffer history(arguments[1]), x(arguments[2]), gain(arguments[3]), total(arguments[5]), y(arguments[6]);
  const Buffer scratch(arguments[7]);
  const float shift = *static_cast<float*>(arguments[4]);
  const int columns = x.extent(0), rows = x.extent(1);
  for (int c = 0; c < columns; c++) {
    scratch.output(c) = history.input(c);
    for (int r = 0; r < rows; r++) scratch.output(c) += x.input(c, r);
    for (int r = 0; r < rows; r++) y.output(r, c) = x.input(c, r) * gain.input(c) + shift;
    total.output(c) = scratch.output(c);
  }
  return 0;
}

const char* mix_shapes(const Shape* in, Shape* out) {
  if (in[0][0] != in[1][1]) return "history[0] == x[1]";
  if (in[2][0] != in[1][1]) return "gain[0] == x[1]";
  out[0] = in[0];
  out[1] = Shape{in[1][1], in[1][0]};
  out[2] = in[2];
  return nullptr;
}

// p[i] -= rate · g[i], with a rank-0 tensor as rate
int step(void** arguments) {
  const Buffer p(arguments[1]), g(arguments[2]), rate(arguments[3]), y(arguments[4]);
  for (int i = 0; i < p.extent(0); i++) y.output(i) = p.input(i) - rate.input(0) * g.input(i);
  return 0;
}

using Role = Argument::Role;

constexpr KernelInstance kMixInstances[] = {{KernelKey{}.packed(), mix, "mix"}};
constexpr TargetTable kMixTable{kMixInstances, 1};
constexpr Argument kMixArguments[] = {
    {"history", Role::input, 0, DType::f32, 1, -1},  {"x", Role::input, 0, DType::f32, 2, -1},
    {"gain", Role::input, 0, DType::f32, 1, -1},     {"shift", Role::scalar, -1, DType::f32, 0, -1},
    {"total", Role::output, 0, DType::f32, 1, 0},    {"y", Role::output, 0, DType::f32, 2, -1},
    {"scratch", Role::scratch, 0, DType::f32, 1, -1}};
constexpr KernelInfo kMix{kTablesVersion, "mix",   "a test",    &form_of<forms::Plain>, kMixArguments, {}, 1,
                          mix_shapes,     nullptr, {&kMixTable}};

constexpr KernelInstance kStepInstances[] = {{KernelKey{}.packed(), step, "step"}};
constexpr TargetTable kStepTable{kStepInstances, 1};
constexpr Argument kStepArguments[] = {{"p", Role::input, 0, DType::f32, 1, -1},
                                       {"g", Role::input, 0, DType::f32, 1, -1},
                                       {"rate", Role::input, -1, DType::f32, 0, -1},
                                       {"new_p", Role::output, 0, DType::f32, 1, 0}};
constexpr KernelInfo kStep{kTablesVersion, "step",  "a test",     &form_of<forms::Pointwise>, kStepArguments, {}, 1,
                           nullptr,        nullptr, {&kStepTable}};

std::vector<Tensor> run_mix(const Tensor& history, const Tensor& x, const Tensor& gain, double shift = 0) {
  const Tensor inputs[] = {history, x, gain};
  const Scalar scalars[] = {shift};
  return forms::Plain::call(kMix, {.inputs = inputs, .scalars = scalars});
}

TEST(Plain, RandomStrides) {
  std::mt19937 random(70);
  for (int trial = 0; trial < 50; trial++) {
    const int64_t rows = testing::random_integer(random, 1, 9), columns = testing::random_integer(random, 1, 9);
    const testing::Operand history = testing::operand(random, {columns}, {}),
                           gain = testing::operand(random, {columns}, {});
    const testing::Operand x = testing::operand(random, {rows, columns}, {});
    const std::vector<Tensor> outputs = run_mix(history.tensor, x.tensor, gain.tensor, 0.5);
    ASSERT_EQ(outputs.size(), 2u);
    std::vector<float> totals, y;
    for (int64_t c = 0; c < columns; c++) {
      totals.push_back(history.at({c}));
      for (int64_t r = 0; r < rows; r++) {
        totals.back() += x.at({r, c});
        y.push_back(x.at({r, c}) * gain.at({c}) + 0.5f);
      }
    }
    // The in-place output is the input itself, whatever its strides.
    ASSERT_EQ(outputs[0].storage(), history.tensor.storage());
    ASSERT_EQ(history.tensor.to_vector<float>(), totals);
    ASSERT_EQ(outputs[1].shape(), (Shape{columns, rows}));
    ASSERT_EQ(outputs[1].to_vector<float>(), y);
    ASSERT_EQ(x.tensor.to_vector<float>(), x.values);
  }
}

TEST(Plain, Errors) {
  const Tensor five = Tensor::ones({5}), x = Tensor::ones({3, 5});
  expect_error<ShapeError>([&] { run_mix(five, x, Tensor::ones({3})); },
                           {"mix", "f32[3, 5]", "f32[3]", "gain[0] == x[1]"});
  expect_error<ShapeError>([&] { run_mix(five, five, five); }, {"mix", "x of rank 2", "reshape()"});
  expect_error<DTypeError>([&] { run_mix(five, x.to(DType::f16), five); },
                           {"mix", "f16[3, 5]", "x of f32", "to(DType::f32)"});
  expect_error<MissingKernel>([&] { run_mix(five.to(DType::f16), x.to(DType::f16), five.to(DType::f16)); },
                              {"mix", "f16"});
  expect_error<ValueError>([&] { run_mix(Tensor(), x, five); }, {"mix", "undefined"});
  expect_error<ValueError>([&] { forms::Plain::call(kMix, {.inputs = std::span(&x, 1)}); }, {"mix", "1 tensors", "3"});
  // Writing in place where elements share memory can't be.
  expect_error<ValueError>([&] { run_mix(Tensor::ones({1}).broadcast_to({5}), x, five); }, {"share memory"});
  // Nor what another input reads, even the very view: rows before have been written by then.
  expect_error<ValueError>([&] { run_mix(five, x, five); }, {"mix", "history and gain share memory", "clone()"});
  expect_error<ValueError>([&] { run_mix(x.select(0, 1), x, five); }, {"history and x share memory"});
}

TEST(Plain, Empty) {
  const Tensor none = Tensor::empty({0});
  EXPECT_EQ(run_mix(none, Tensor::empty({4, 0}), none)[1].shape(), (Shape{0, 4}));
}

TEST(PointwiseInPlace, RefusesWhatOverlapsInPart) {
  const Tensor base = Tensor::ones({10}), rate = Tensor::full({}, 0.5);
  const auto step = [&](const Tensor& p, const Tensor& g) {
    const Tensor inputs[] = {p, g, rate};
    forms::Pointwise::call(kStep, {.inputs = inputs});
  };
  expect_error<ValueError>([&] { step(base.slice(0, 0, 6), base.slice(0, 1, 7)); },
                           {"step", "p and g share memory", "g", "clone()"});
  expect_error<ValueError>([&] { step(base.slice(0, 0, 6), base.slice(0, 0, 6).flip(0)); }, {"p and g share memory"});
  const Tensor inputs[] = {base, Tensor::ones({10}), base.select(0, 3)};
  expect_error<ValueError>([&] { forms::Pointwise::call(kStep, {.inputs = inputs}); }, {"p and rate share memory"});
  EXPECT_EQ(base.to_vector<float>(), std::vector<float>(10, 1));
  // The very view is only read where it is written; neighbours and interleaved elements aren't shared.
  step(base, base);
  step(base.slice(0, 0, 5), base.slice(0, 5));
  step(base.slice(0, 0, 10, 2), base.slice(0, 1, 10, 2));
}

TEST(PointwiseInPlace, WritesTheInput) {
  const Tensor base = Tensor::from(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}, {8}), rate = Tensor::full({}, 0.5);
  for (const Tensor& p : {base, base.slice(0, 1, 8, 3), base.reshape({2, 4}).transpose(0, 1)}) {
    const std::vector<float> before = p.to_vector<float>();
    const uint64_t version = base.version();
    const Tensor inputs[] = {p, Tensor::ones(p.shape()), rate};
    const std::vector<Tensor> outputs = forms::Pointwise::call(kStep, {.inputs = inputs});
    EXPECT_EQ(outputs[0].storage(), base.storage());
    EXPECT_EQ(outputs[0].shape(), p.shape());
    EXPECT_GT(base.version(), version);
    const std::vector<float> after = p.to_vector<float>();
    for (size_t i = 0; i < before.size(); i++) EXPECT_EQ(after[i], before[i] - 0.5f);
  }
  const Tensor wrong[] = {base, Tensor::ones({7}), rate}, many[] = {base, base, Tensor::ones({2})};
  expect_error<ShapeError>([&] { forms::Pointwise::call(kStep, {.inputs = wrong}); }, {"step", "f32[7]", "one shape"});
  expect_error<ShapeError>([&] { forms::Pointwise::call(kStep, {.inputs = many}); }, {"step", "f32[2]", "one element"});
}

}  // namespace
}  // namespace ashlar
