// Views: same storage, other shape; and what they refuse.
#include <numeric>

#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar {
namespace {

using testing::expect_error;
using testing::random_view;
using testing::RandomView;

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from(values, shape);
}

/// The elements by shape, strides and offset alone: no kernel takes part.
std::vector<int64_t> positions(const Tensor& x) {
  std::vector<int64_t> result;
  testing::for_each_index(x.shape(), [&](const Shape& index) {
    int64_t position = x.offset();
    for (int i = 0; i < index.rank(); i++) position += index[i] * x.strides()[i];
    result.push_back(position);
  });
  return result;
}

TEST(Making, EmptyHasDenseStrides) {
  const Tensor x = Tensor::empty({2, 3, 5}, DType::bf16);
  EXPECT_EQ(x.strides(), (Shape{15, 5, 1}));
  EXPECT_EQ(x.offset(), 0);
  EXPECT_EQ(x.dtype(), DType::bf16);
  EXPECT_EQ(x.device(), Device::cpu());
  EXPECT_EQ(x.bytes(), 60);
  EXPECT_EQ(x.size(-1), 5);
  EXPECT_EQ(x.str(), "bf16[2, 3, 5] on cpu");
  EXPECT_TRUE(x.is_contiguous());
}

TEST(Making, RefusesImpossibleSizes) {
  expect_error<ShapeError>([] { Tensor::empty({2, -1}); }, {"Tensor::empty", "[2, -1]", "0 or more"});
  const int64_t huge = int64_t{1} << 61;
  expect_error<ShapeError>([=] { Tensor::empty({huge}, DType::f64); }, {"2^63 bytes"});
  const testing::LittleMemory little(Device::cpu());
  expect_error<OutOfMemory>([=] { Tensor::empty({huge}, DType::u8); }, {});
}

TEST(Making, FromChecksTheCount) {
  expect_error<ShapeError>(
      [] {
        Tensor::from(std::vector<float>(5), {2, 3});
      },
      {"Tensor::from", "5 values", "[2, 3]", "6 values"});
}

TEST(Making, FromAndBackForEveryType) {
  const auto round_trip = []<class T>(std::vector<T> values) {
    const Tensor x = Tensor::from(values, {static_cast<int64_t>(values.size())});
    EXPECT_EQ(x.dtype(), dtype_of<T>);
    EXPECT_EQ(x.to_vector<T>(), values);
  };
  round_trip(std::vector<float>{1.5f, -2});
  round_trip(std::vector<double>{1.5, -2e300});
  round_trip(std::vector<int32_t>{7, -8});
  round_trip(std::vector<int64_t>{int64_t{1} << 60, -8});
  round_trip(std::vector<uint8_t>{0, 255});
  round_trip(std::vector<bool>{true, false, true});
  const Tensor halves = Tensor::from(std::vector<Half>{Half(1.5f)}, {1});
  EXPECT_EQ(halves.to_vector<Half>()[0].bits, 0x3e00);
  const Tensor brains = Tensor::from(std::vector<BFloat16>{BFloat16(1.5f)}, {1});
  EXPECT_EQ(brains.to_vector<BFloat16>()[0].bits, 0x3fc0);
}

TEST(Making, ToVectorChecksTheType) {
  expect_error<DTypeError>([] { Tensor::from(std::vector<float>{1}, {1}).to_vector<double>(); },
                           {"Tensor::to_vector", "f32[1]", "f64", "to(DType::f64)"});
  expect_error<DTypeError>([] { Tensor::from(std::vector<uint8_t>{1}, {1}).to_vector<bool>(); },
                           {"to(DType::boolean)"});
}

TEST(Making, BorrowsHostMemoryWhereItLies) {
  std::vector<float> values(40);
  std::iota(values.begin(), values.end(), 0.0f);
  for (int start = 0; start < 17; start++) {
    const Tensor x = Tensor::borrow(values.data() + start, {3, 4});
    EXPECT_EQ(x.data(), values.data() + start);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.storage()->host()) % detail::kBaseAlignment, 0u);
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(values.begin() + start, values.begin() + start + 12));
    EXPECT_EQ(x.slice(1, 1, 3).select(0, 2).data(), values.data() + start + 9);
  }
  alignas(4) char bytes[12] = {};
  expect_error<ValueError>([&] { Tensor::borrow(reinterpret_cast<float*>(bytes + 1), {2}); },
                           {"Tensor::borrow", "multiple of 4"});
}

TEST(Making, Item) {
  EXPECT_EQ(counted({2, 3}).select(0, 1).select(0, 2).item(), 5);
  EXPECT_EQ(Tensor::from(std::vector<Half>{Half(-2.5f)}, {1}).item(), -2.5);
  EXPECT_EQ(Tensor::from(std::vector<BFloat16>{BFloat16(-2.5f)}, {}).item(), -2.5);
  EXPECT_EQ(Tensor::from(std::vector<double>{0.1}, {}).item(), 0.1);
  EXPECT_EQ(Tensor::from(std::vector<int32_t>{-3}, {}).item(), -3);
  EXPECT_EQ(Tensor::from(std::vector<int64_t>{-3}, {}).item(), -3);
  EXPECT_EQ(Tensor::from(std::vector<uint8_t>{200}, {1, 1}).item(), 200);
  EXPECT_EQ(Tensor::from(std::vector<bool>{true}, {1, 1}).item(), 1);
  expect_error<ShapeError>([] { counted({2}).item(); }, {"Tensor::item", "f32[2]", "one element"});
  expect_error<ShapeError>([] { counted({0}).item(); }, {"Tensor::item"});
}

TEST(Undefined, RefusesToAct) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_EQ(none.str(), "undefined");
  EXPECT_EQ(none.numel(), 0);
  const std::function<void()> calls[] = {[&] { none.device(); },
                                         [&] { none.data(); },
                                         [&] { none.version(); },
                                         [&] { none.reshape({1}); },
                                         [&] { none.permute({}); },
                                         [&] { none.transpose(0, 1); },
                                         [&] { none.slice(0, 0, 1); },
                                         [&] { none.select(0, 0); },
                                         [&] { none.flip(0); },
                                         [&] { none.squeeze(0); },
                                         [&] { none.unsqueeze(0); },
                                         [&] { none.broadcast_to({1}); },
                                         [&] { none.contiguous(); },
                                         [&] { none.clone(); },
                                         [&] { none.to(Device::cpu()); },
                                         [&] { none.to(DType::f16); },
                                         [&] { none.copy_(none); },
                                         [&] { counted({1}).copy_(none); },
                                         [&] { none.fill_(0); },
                                         [&] { none.to_vector<float>(); },
                                         [&] { none.item(); },
                                         [&] { none.bump_version(); },
                                         [&] { none.as_strided({}, {}, 0); }};
  for (const auto& call : calls) expect_error<ValueError>(call, {"Tensor::", "undefined"});
}

TEST(Views, ShareStorage) {
  const Tensor x = counted({2, 3, 4});
  const uint64_t version = x.version();
  for (const Tensor& view : {x.reshape({6, 4}), x.permute({2, 0, 1}), x.transpose(0, 1), x.slice(2, 1, 3),
                             x.select(0, 1), x.flip(0), x.unsqueeze(1), x.broadcast_to({5, 2, 3, 4})}) {
    EXPECT_EQ(view.storage(), x.storage());
  }
  EXPECT_EQ(x.version(), version);
  x.bump_version();
  EXPECT_GT(x.select(0, 0).version(), version);
}

TEST(Views, RandomChainsAgreeWithTheModel) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; trial++) {
    const RandomView expected = random_view(random, {.steps = 6});
    const Tensor view = expected.apply(counted(expected.base));
    ASSERT_EQ(view.shape(), expected.model.shape);
    ASSERT_EQ(positions(view), expected.model.position) << "trial " << trial;
  }
}

TEST(Views, ReshapeWithoutCopyWhereStridesAllow) {
  const Tensor x = counted({4, 6, 5});
  const auto is_view = [](const Tensor& view, const Tensor& of) { return view.storage() == of.storage(); };
  EXPECT_EQ(x.reshape({-1, 5}).shape(), (Shape{24, 5}));
  EXPECT_EQ(x.reshape({2, 2, 3, -1}).shape(), (Shape{2, 2, 3, 10}));
  EXPECT_EQ(positions(x.reshape({8, 15})), positions(x));
  // A slice of the outermost axis stays one run; one of the innermost leaves the outer two mergeable.
  EXPECT_TRUE(is_view(x.slice(0, 1, 3).reshape({60}), x));
  const Tensor inner = x.slice(2, 1, 4);
  EXPECT_TRUE(is_view(inner.reshape({24, 3}), x));
  EXPECT_TRUE(is_view(inner.reshape({2, 12, 1, 3}), x));
  EXPECT_EQ(positions(inner.reshape({2, 12, 1, 3})), positions(inner));
  // Broadcast and reversed runs can be cut too.
  const Tensor wide = counted({1}).broadcast_to({12});
  EXPECT_EQ(wide.reshape({3, 4}).strides(), (Shape{0, 0}));
  EXPECT_EQ(positions(x.flip(0).flip(1).reshape({24, 5})), positions(x.flip(0).flip(1)));
  EXPECT_TRUE(is_view(x.flip(0).flip(1).reshape({24, 5}), x));
}

TEST(Views, RandomReshapesOfViewsAgreeWithTheModel) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 300; trial++) {
    const RandomView expected = random_view(random, {.steps = 3});
    const Tensor base = counted(expected.base), view = expected.apply(base);
    // A random factorisation of the number of elements.
    Shape shape;
    int64_t left = view.numel();
    while (shape.rank() < 5) {
      const int64_t factor = testing::random_integer(random, 1, 4);
      if (left % factor == 0) {
        shape.push_back(factor);
        left /= factor;
      }
    }
    shape.push_back(left);
    const Tensor reshaped = view.reshape(shape);
    ASSERT_EQ(reshaped.shape(), shape);
    if (reshaped.storage() == base.storage()) {
      ASSERT_EQ(positions(reshaped), expected.model.position);
    } else {
      std::vector<float> values(expected.model.position.begin(), expected.model.position.end());
      ASSERT_EQ(reshaped.to_vector<float>(), values);
    }
  }
}

TEST(Views, ReshapeErrors) {
  const Tensor x = counted({4, 6});
  expect_error<ShapeError>([&] { x.reshape({5, 5}); }, {"Tensor::reshape", "f32[4, 6]", "[5, 5]", "same number"});
  expect_error<ShapeError>([&] { x.reshape({-1, -1}); }, {"at most one"});
  expect_error<ShapeError>([&] { x.reshape({-1, 5}); }, {"divides"});
  expect_error<ShapeError>([&] { x.reshape({-2, 12}); }, {"0 or more"});
  expect_error<ShapeError>([&] { counted({0, 3}).reshape({0, -1}); }, {"divides"});
  EXPECT_EQ(counted({0, 3}).reshape({-1, 7}).shape(), (Shape{0, 7}));
  EXPECT_EQ(counted({0, 3}).reshape({5, 0, 2}).shape(), (Shape{5, 0, 2}));
}

TEST(Views, PermuteErrors) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(x.permute({-1, 0, 1}).shape(), (Shape{4, 2, 3}));
  expect_error<ShapeError>([&] { x.permute({0, 1}); }, {"Tensor::permute", "[0, 1]", "f32[2, 3, 4]"});
  expect_error<ValueError>([&] { x.permute({0, 1, -2}); }, {"Tensor::permute", "each axis once"});
  expect_error<IndexError>([&] { x.permute({0, 1, 3}); }, {"Tensor::permute", "axis 3"});
  expect_error<IndexError>([&] { x.transpose(0, 3); }, {"Tensor::transpose", "axis 3"});
}

TEST(Views, SliceAsInPython) {
  const Tensor x = counted({10});
  EXPECT_EQ(x.slice(0, 2, 5).to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(x.slice(0, -3, Tensor::kEnd).to_vector<float>(), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(positions(x.slice(0, 1, -1, 4)), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(x.slice(0, -100, 100).shape(), Shape{10});
  EXPECT_EQ(x.slice(0, 5, 2).shape(), Shape{0});
  EXPECT_EQ(x.slice(0, 20, 30).shape(), Shape{0});
  EXPECT_EQ(positions(x.slice(0, 3, 4, 1000)), std::vector<int64_t>{3});
  EXPECT_EQ(x.slice(0, 3, 4, INT64_MAX).shape(), Shape{1});
  EXPECT_EQ(counted({0}).slice(0, 0, 5).shape(), Shape{0});
  expect_error<ValueError>([&] { x.slice(0, 0, 5, 0); }, {"Tensor::slice", "step 0", "backwards"});
  expect_error<IndexError>([&] { x.slice(1, 0, 5); }, {"Tensor::slice", "axis 1"});
}

TEST(Views, SelectErrors) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(positions(x.select(1, -1)), (std::vector<int64_t>{2, 5}));
  expect_error<IndexError>([&] { x.select(1, 3); }, {"Tensor::select", "index 3", "axis 1", "-3 to 2"});
  expect_error<IndexError>([&] { x.select(1, -4); }, {"index -4"});
  expect_error<IndexError>([&] { x.select(2, 0); }, {"axis 2"});
  expect_error<IndexError>([&] { counted({0}).select(0, 0); }, {"an axis with elements"});
}

TEST(Views, FlipSqueezeUnsqueeze) {
  const Tensor x = counted({2, 1, 3});
  EXPECT_EQ(positions(x.flip(-1)), (std::vector<int64_t>{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(positions(x.flip(-1).flip(-1)), positions(x));
  EXPECT_EQ(counted({0, 2}).flip(0).shape(), (Shape{0, 2}));
  EXPECT_EQ(counted({0, 2}).flip(1).offset(), 0);
  EXPECT_EQ(x.squeeze(1).shape(), (Shape{2, 3}));
  expect_error<ShapeError>([&] { x.squeeze(0); }, {"Tensor::squeeze", "axis 0", "size 1", "select()"});
  EXPECT_EQ(x.unsqueeze(0).shape(), (Shape{1, 2, 1, 3}));
  EXPECT_EQ(x.unsqueeze(-1).shape(), (Shape{2, 1, 3, 1}));
  EXPECT_EQ(x.unsqueeze(3).shape(), (Shape{2, 1, 3, 1}));
  EXPECT_TRUE(x.unsqueeze(1).is_contiguous());
  expect_error<IndexError>([&] { x.unsqueeze(5); }, {"Tensor::unsqueeze", "axis 5"});
  expect_error<ShapeError>([&] { counted({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0); }, {"9 dimensions"});
}

TEST(Views, BroadcastToErrors) {
  const Tensor x = counted({3, 1});
  EXPECT_EQ(x.broadcast_to({2, 3, 4}).strides(), (Shape{0, 1, 0}));
  EXPECT_EQ(x.broadcast_to({3, 0}).numel(), 0);
  expect_error<ShapeError>([&] { x.broadcast_to({3}); }, {"Tensor::broadcast_to", "f32[3, 1]", "[3]"});
  expect_error<ShapeError>([&] { x.broadcast_to({2, 4}); }, {"[2, 4]"});
  expect_error<ShapeError>([&] { x.broadcast_to({-1, 3, 4}); }, {"[-1, 3, 4]"});
}

TEST(Views, AsStridedStaysInside) {
  const Tensor x = counted({12});
  EXPECT_EQ(positions(x.as_strided({3, 2}, {4, 1}, 1)), (std::vector<int64_t>{1, 2, 5, 6, 9, 10}));
  EXPECT_EQ(positions(x.as_strided({3}, {-4}, 11)), (std::vector<int64_t>{11, 7, 3}));
  EXPECT_EQ(x.as_strided({0}, {100}, 12).numel(), 0);
  expect_error<IndexError>(
      [&] {
        x.as_strided({3, 2}, {4, 3}, 1);
      },
      {"Tensor::as_strided", "[3, 2]", "[4, 3]", "elements 0 to 11"});
  expect_error<IndexError>([&] { x.as_strided({3}, {-4}, 7); }, {"Tensor::as_strided"});
  expect_error<IndexError>([&] { x.as_strided({}, {}, 12); }, {"element 12"});
  expect_error<IndexError>([&] { x.as_strided({}, {}, -1); }, {"element -1"});
  expect_error<IndexError>([&] { x.as_strided({3}, {INT64_MAX}, 0); }, {"Tensor::as_strided"});
  expect_error<ShapeError>([&] { x.as_strided({3}, {1, 1}, 0); }, {"one stride for each size"});
  expect_error<ShapeError>([&] { x.as_strided({-3}, {1}, 0); }, {"0 or more"});
  // Elements of borrowed memory before the pointer aren't ours, though the base lies there.
  std::vector<float> values(100);
  const Tensor borrowed = Tensor::borrow(values.data() + 3, {8});
  EXPECT_EQ(borrowed.as_strided({2}, {7}, borrowed.offset()).data(), values.data() + 3);
  expect_error<IndexError>([&] { borrowed.as_strided({2}, {1}, borrowed.offset() - 1); }, {"Tensor::as_strided"});
  expect_error<IndexError>([&] { borrowed.as_strided({2}, {8}, borrowed.offset()); }, {"Tensor::as_strided"});
}

TEST(Views, ContiguousMeansDense) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_TRUE(x.slice(0, 1, 2).is_contiguous());
  EXPECT_FALSE(x.slice(1, 0, 2).is_contiguous());
  EXPECT_FALSE(x.transpose(0, 1).is_contiguous());
  EXPECT_FALSE(x.flip(2).is_contiguous());
  EXPECT_FALSE(counted({1}).broadcast_to({2}).is_contiguous());
  EXPECT_TRUE(counted({1}).broadcast_to({1, 1}).is_contiguous());
  EXPECT_TRUE(x.slice(1, 0, 0).is_contiguous());
  EXPECT_TRUE(x.select(0, 1).is_contiguous());
}

}  // namespace
}  // namespace ashlar
