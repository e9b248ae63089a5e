// Copies and fills between any layouts, on every device, for every width of element.
#include <cmath>
#include <limits>

#include "runtime/device/counters.h"
#include "runtime/support/error.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar {
namespace {

using testing::expect_error;
using testing::Model;
using testing::OnDevice;
using testing::random_integer;
using testing::random_shape;
using testing::random_view;
using testing::RandomView;
using testing::scattered;
using testing::scattered_like;

/// Distinct values as far as T has them.
template <class T>
T element(int64_t i) {
  return static_cast<T>(i % 251 + 1);
}
template <>
Half element<Half>(int64_t i) {
  Half half;
  half.bits = static_cast<uint16_t>(i + 1);
  return half;
}

template <class T>
std::vector<T> elements(int64_t count) {
  std::vector<T> values;
  for (int64_t i = 0; i < count; i++) values.push_back(element<T>(i));
  return values;
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

/// Elements at `positions` of the values of a dense base.
template <class T>
std::vector<T> picked(const std::vector<int64_t>& positions) {
  std::vector<T> values;
  for (int64_t position : positions) values.push_back(element<T>(position));
  return values;
}

class Movement : public OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Movement, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

template <class T>
void check_contiguous(Device device, unsigned seed) {
  std::mt19937 random(seed);
  for (int trial = 0; trial < 60; trial++) {
    const RandomView expected = random_view(random, {.steps = 5});
    const Tensor view = expected.apply(Tensor::from(elements<T>(expected.base.numel()), expected.base, device));
    const Tensor dense = view.contiguous();
    ASSERT_TRUE(dense.is_contiguous());
    ASSERT_EQ(dense.shape(), expected.model.shape);
    ASSERT_EQ(bytes_of(dense.to_vector<T>()), bytes_of(picked<T>(expected.model.position)))
        << "trial " << trial << ": " << view.str() << " strides " << view.strides().str() << " offset "
        << view.offset();
  }
}

TEST_P(Movement, ContiguousCopiesOneByte) { check_contiguous<uint8_t>(device(), 1); }
TEST_P(Movement, ContiguousCopiesTwoBytes) { check_contiguous<Half>(device(), 2); }
TEST_P(Movement, ContiguousCopiesFourBytes) { check_contiguous<float>(device(), 3); }
TEST_P(Movement, ContiguousCopiesEightBytes) { check_contiguous<int64_t>(device(), 4); }

/// The whole storage behind a view, as a dense vector.
template <class T>
std::vector<T> whole_storage(const Tensor& view, int64_t numel) {
  return Tensor(view.storage(), {numel}, {1}, 0, view.dtype()).to_vector<T>();
}

/// Copies into a scattered view: its elements get the values, everything between them stays.
template <class T>
void check_copy_into_views(Device device, unsigned seed) {
  std::mt19937 random(seed);
  for (int trial = 0; trial < 60; trial++) {
    const Shape shape = random_shape(random, static_cast<int>(random_integer(random, 0, 6)), 5);
    const Tensor destination = scattered_like(random, shape, dtype_of<T>, device);
    const Tensor source = scattered(random, elements<T>(shape.numel()), shape, device);
    int64_t reach = destination.offset();
    for (int i = 0; i < shape.rank(); i++) {
      reach += std::max<int64_t>((shape[i] - 1) * destination.strides()[i], 0);
    }
    std::vector<T> expected(static_cast<size_t>(reach + 1));
    int64_t next = 0;
    testing::for_each_index(shape, [&](const Shape& index) {
      int64_t position = destination.offset();
      for (int i = 0; i < index.rank(); i++) position += index[i] * destination.strides()[i];
      expected[static_cast<size_t>(position)] = element<T>(next++);
    });
    const uint64_t version = destination.version();
    destination.copy_(source);
    ASSERT_GT(destination.version(), version);
    ASSERT_EQ(bytes_of(whole_storage<T>(destination, reach + 1)), bytes_of(expected))
        << "trial " << trial << ": " << source.strides().str() << " into " << destination.str() << " strides "
        << destination.strides().str() << " offset " << destination.offset();
  }
}

TEST_P(Movement, CopyIntoViewsOfOneByte) { check_copy_into_views<uint8_t>(device(), 5); }
TEST_P(Movement, CopyIntoViewsOfTwoBytes) { check_copy_into_views<Half>(device(), 6); }
TEST_P(Movement, CopyIntoViewsOfFourBytes) { check_copy_into_views<int32_t>(device(), 7); }
TEST_P(Movement, CopyIntoViewsOfEightBytes) { check_copy_into_views<double>(device(), 8); }

TEST_P(Movement, CopyIntoEveryOffset) {
  // Strided sources, so that kernels run and not the driver's own copy; every alignment of the destination.
  const Tensor source = Tensor::from(elements<uint8_t>(48), {8, 6}, device()).transpose(0, 1);
  const std::vector<uint8_t> moved = source.to_vector<uint8_t>();
  for (int64_t offset = 0; offset < 150; offset++) {
    const Tensor base = Tensor::zeros({256}, DType::u8, device());
    base.slice(0, offset, offset + 48).reshape({6, 8}).copy_(source);
    std::vector<uint8_t> expected(256);
    std::copy(moved.begin(), moved.end(), expected.begin() + offset);
    ASSERT_EQ(base.to_vector<uint8_t>(), expected) << "offset " << offset;
  }
}

TEST_P(Movement, BigTransposesAndColumns) {
  const Tensor x = Tensor::from(elements<float>(301 * 517), {301, 517}, device());
  const std::vector<float> turned = x.transpose(0, 1).to_vector<float>();
  for (int64_t i = 0; i < 301 * 517; i++)
    ASSERT_EQ(turned[static_cast<size_t>(i % 517 * 301 + i / 517)], element<float>(i));
  const Tensor y = Tensor::zeros({517, 301}, DType::f32, device());
  y.transpose(0, 1).copy_(x);
  EXPECT_EQ(y.to_vector<float>(), turned);
  const Tensor z = Tensor::zeros({301, 517}, DType::f32, device());
  for (int64_t column : {0, 1, 255, 516}) z.select(1, column).copy_(x.select(1, column));
  const std::vector<float> columns = z.to_vector<float>();
  for (int64_t i = 0; i < 301 * 517; i++) {
    const int64_t column = i % 517;
    const bool is_copied = column == 0 || column == 1 || column == 255 || column == 516;
    ASSERT_EQ(columns[static_cast<size_t>(i)], is_copied ? element<float>(i) : 0);
  }
}

TEST_P(Movement, FarViewsOfLargeTensors) {
  // Offset times size goes far beyond 2^31: the offset is no size.
  const int64_t rows = 700, columns = 900;
  const Tensor x = Tensor::from(elements<int32_t>(2 * rows * columns), {2, rows, columns}, device());
  const Tensor second = x.select(0, 1);
  const std::vector<int32_t> turned = second.transpose(0, 1).to_vector<int32_t>();
  const std::vector<int32_t> reversed = second.flip(0).flip(1).to_vector<int32_t>();
  const std::vector<int32_t> halved = second.slice(1, 0, columns, 2).to_vector<int32_t>();
  for (int64_t i = 0; i < rows * columns; i++) {
    const int64_t row = i / columns, column = i % columns;
    const int32_t expected = element<int32_t>(rows * columns + i);
    ASSERT_EQ(turned[static_cast<size_t>(column * rows + row)], expected);
    ASSERT_EQ(reversed[static_cast<size_t>(rows * columns - 1 - i)], expected);
    if (column % 2 == 0) {
      ASSERT_EQ(halved[static_cast<size_t>(row * (columns / 2) + column / 2)], expected);
    }
  }
  const Tensor cast = second.to(DType::f32);
  EXPECT_EQ(cast.select(0, rows - 1).select(0, columns - 1).item(), element<int32_t>(2 * rows * columns - 1));
}

TEST_P(Movement, EightDimensionsThatDontCollapse) {
  const Shape shape{2, 3, 2, 3, 2, 2, 2, 3};
  const Tensor x = Tensor::from(elements<int32_t>(shape.numel()), shape, device());
  const Model model = Model::dense(shape).gather({3, 2, 2, 2, 3, 2, 3, 2}, [](const Shape& index) {
    Shape source = index;
    for (int i = 0; i < 8; i++) source[i] = index[7 - i];
    return source;
  });
  EXPECT_EQ(x.permute({7, 6, 5, 4, 3, 2, 1, 0}).to_vector<int32_t>(), picked<int32_t>(model.position));
  // Every second element in each dimension: a destination without a unit stride that needs all of its loops.
  const Tensor y = Tensor::zeros({2, 4, 4, 4, 4, 4, 4}, DType::i32, device());
  Tensor every_second = y;
  for (int i = 1; i < 7; i++) every_second = every_second.slice(i, 1, 4, 2);
  every_second.copy_(Tensor::from(elements<int32_t>(128), {2, 2, 2, 2, 2, 2, 2}, device()));
  EXPECT_EQ(every_second.to_vector<int32_t>(), elements<int32_t>(128));
  EXPECT_EQ(y.select(6, 0).to_vector<int32_t>(), std::vector<int32_t>(2048));
}

TEST_P(Movement, OverlappingCopies) {
  const Tensor x = Tensor::from(elements<float>(100), {100}, device());
  x.slice(0, 1, 100).copy_(x.slice(0, 0, 99));
  std::vector<float> expected = elements<float>(99);
  expected.insert(expected.begin(), element<float>(0));
  EXPECT_EQ(x.to_vector<float>(), expected);
  const Tensor square = Tensor::from(elements<float>(64), {8, 8}, device());
  square.copy_(square.transpose(0, 1));
  EXPECT_EQ(square.to_vector<float>(), Tensor::from(elements<float>(64), {8, 8}).transpose(0, 1).to_vector<float>());
  const Tensor line = Tensor::from(elements<float>(5), {5}, device());
  line.copy_(line.flip(0));
  EXPECT_EQ(line.to_vector<float>(), (std::vector<float>{5, 4, 3, 2, 1}));
  line.copy_(line);
  EXPECT_EQ(line.to_vector<float>(), (std::vector<float>{5, 4, 3, 2, 1}));
}

TEST_P(Movement, CopyBetweenDevices) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 30; trial++) {
    const Shape shape = random_shape(random, static_cast<int>(random_integer(random, 0, 4)), 6);
    const std::vector<float> values = elements<float>(shape.numel());
    const Tensor here = scattered(random, values, shape, Device::cpu());
    const Tensor there = here.to(device());
    ASSERT_EQ(there.device(), device());
    ASSERT_EQ(there.to_vector<float>(), values);
    ASSERT_EQ(there.to(Device::cpu()).to_vector<float>(), values);
    const Tensor landed = scattered_like(random, shape, DType::f32, device());
    landed.copy_(here);
    ASSERT_EQ(landed.to_vector<float>(), values);
    const Tensor back = scattered_like(random, shape, DType::f32, Device::cpu());
    back.copy_(landed);
    ASSERT_EQ(back.to_vector<float>(), values);
  }
}

TEST_P(Movement, StaysOnTheDevice) {
  const Tensor x = Tensor::from(elements<float>(600), {20, 30}, device());
  const Counters before = counters(device().kind);
  x.transpose(0, 1).contiguous();
  x.flip(1).contiguous();
  x.clone().slice(1, 3, 9).fill_(2);
  x.slice(1, 0, 10).copy_(x.slice(1, 20, 30));
  const Counters spent = counters(device().kind) - before;
  EXPECT_EQ(spent.bytes_to_host, 0);
  EXPECT_EQ(spent.bytes_to_device, 0);
  EXPECT_EQ(spent.cpu_fallbacks, 0);
}

TEST_P(Movement, ItselfWhenNothingIsToDo) {
  const Tensor x = Tensor::zeros({3, 4}, DType::f32, device());
  EXPECT_EQ(x.contiguous().storage(), x.storage());
  EXPECT_EQ(x.to(device()).storage(), x.storage());
  EXPECT_EQ(x.to(DType::f32).storage(), x.storage());
  EXPECT_NE(x.clone().storage(), x.storage());
}

TEST_P(Movement, CopyErrors) {
  const Tensor x = Tensor::zeros({3, 4}, DType::f32, device());
  expect_error<ShapeError>([&] { x.copy_(Tensor::zeros({4}, DType::f32, device())); },
                           {"Tensor::copy_", "f32[4]", "f32[3, 4]", "broadcast_to"});
  expect_error<DTypeError>(
      [&] {
        x.copy_(Tensor::zeros({3, 4}, DType::boolean, device()));
      },
      {"Tensor::copy_", "bool[3, 4]", "to(DType::f32)"});
  const Tensor row = Tensor::zeros({4}, DType::f32, device());
  expect_error<ValueError>([&] { row.broadcast_to({3, 4}).copy_(x); }, {"copy", "strides [0, 1]", "clone()"});
  expect_error<ValueError>([&] { row.as_strided({2, 2}, {1, 1}, 0).fill_(1); }, {"fill", "strides [1, 1]", "clone()"});
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(12));
}

TEST_P(Movement, FillEveryType) {
  std::mt19937 random(10);
  const auto check = [&]<class T>(double value, T expected) {
    for (int trial = 0; trial < 8; trial++) {
      const Shape shape = random_shape(random, static_cast<int>(random_integer(random, 0, 5)), 5);
      const Tensor x = scattered_like(random, shape, dtype_of<T>, device());
      x.fill_(value);
      const std::vector<T> wanted(static_cast<size_t>(shape.numel()), expected);
      ASSERT_EQ(bytes_of(x.to_vector<T>()), bytes_of(wanted)) << x.str() << " strides " << x.strides().str();
    }
  };
  check(-2.5, -2.5f);
  check(0.1, 0.1f);
  check(-2.5, Half(-2.5f));
  check(1e9, Half(std::numeric_limits<float>::infinity()));
  check(-2.5, BFloat16(-2.5f));
  check(0.1, 0.1);
  check(-7.9, int32_t{-7});
  check(-9007199254740992.0, int64_t{-9007199254740992});
  check(255.5, uint8_t{255});
}

TEST_P(Movement, FillsOnlyItsElements) {
  const Tensor x = Tensor::zeros({6, 7}, DType::i32, device());
  x.slice(0, 1, 6, 2).slice(1, 2, 7, 3).fill_(9);
  std::vector<int32_t> expected(42);
  for (size_t row : {1u, 3u, 5u}) {
    for (size_t column : {2u, 5u}) expected[row * 7 + column] = 9;
  }
  EXPECT_EQ(x.to_vector<int32_t>(), expected);
  const Tensor flags = Tensor::full({3}, 0.5, DType::boolean, device());
  EXPECT_EQ(flags.to_vector<bool>(), (std::vector<bool>{true, true, true}));
  EXPECT_TRUE(std::isnan(Tensor::full({1}, NAN, DType::f32, device()).item()));
}

TEST_P(Movement, FillRefusesWhatTheTypeCantHold) {
  const auto fill = [this](double value, DType dtype) { Tensor::full({2}, value, dtype, device()); };
  expect_error<ValueError>([&] { fill(256, DType::u8); }, {"fill", "256", "u8", "to(DType::f32)"});
  expect_error<ValueError>([&] { fill(-1, DType::u8); }, {"u8"});
  expect_error<ValueError>([&] { fill(2147483648.0, DType::i32); }, {"i32"});
  expect_error<ValueError>([&] { fill(9223372036854775808.0, DType::i64); }, {"i64"});
  expect_error<ValueError>([&] { fill(NAN, DType::i64); }, {"nan", "i64"});
  EXPECT_EQ(Tensor::full({1}, -2147483648.0, DType::i32, device()).item(), -2147483648.0);
  EXPECT_EQ(Tensor::full({1}, -0.5, DType::u8, device()).item(), 0);
}

TEST_P(Movement, EmptyTensors) {
  for (const Shape& shape : {Shape{0}, Shape{3, 0}, Shape{0, 2, 5}}) {
    const Tensor x = Tensor::empty(shape, DType::f32, device());
    x.fill_(1);
    x.copy_(Tensor::zeros(shape, DType::f32, device()));
    EXPECT_TRUE(x.to_vector<float>().empty());
    EXPECT_EQ(x.clone().shape(), shape);
    EXPECT_EQ(x.contiguous().shape(), shape);
    EXPECT_EQ(x.to(Device::cpu()).shape(), shape);
    EXPECT_EQ(x.to(DType::i64).dtype(), DType::i64);
    EXPECT_EQ(x.flip(0).transpose(0, -1).contiguous().numel(), 0);
    EXPECT_TRUE(Tensor::from(std::vector<float>(), shape, device()).to_vector<float>().empty());
  }
}

}  // namespace
}  // namespace ashlar
