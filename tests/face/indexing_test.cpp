// a[i], and writing through it; joining.
#include "ashlar/ashlar.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;
using Floats = std::vector<float>;

class Indexing : public testing::OnDevice {
 protected:
  Tensor matrix() const { return Tensor::from({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}, {2, 3}, device()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Indexing, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(Indexing, Reads) {
  const Tensor x = matrix();
  EXPECT_EQ(x[1].to_vector<float>(), (Floats{4, 5, 6}));
  EXPECT_EQ(x[-2].to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_EQ(x[1][-1].item(), 6);
  EXPECT_EQ(x[0][0].shape(), Shape{});
  expect_error<IndexError>([&] { x[2]; }, {"index 2", "f32[2, 3]", "-2 to 1"});
  expect_error<IndexError>([&] { x[-3]; }, {"index -3", "-2 to 1"});
  expect_error<IndexError>([&] { x[0][0][0]; }, {"operator[]", "f32[]", "item()"});
  expect_error<IndexError>([&] { Tensor::zeros({0, 3}, DType::f32, device())[0]; }, {"an axis with elements"});
  expect_error<ValueError>([&] { Tensor()[0]; }, {"operator[]", "undefined"});
}

TEST_P(Indexing, Writes) {
  const Tensor x = matrix();
  x[0] = x[1];
  EXPECT_EQ(x.to_vector<float>(), (Floats{4, 5, 6, 4, 5, 6}));
  x[1] = 7;
  x[0][1] = 0.5;
  EXPECT_EQ(x.to_vector<float>(), (Floats{4, 0.5F, 6, 7, 7, 7}));
  x[0] = Tensor::from({9}, device());  // broadcast and converted
  EXPECT_EQ(x[0].to_vector<float>(), (Floats{9, 9, 9}));
  x.slice(1, 1) = x.slice(1, 0, 2);  // the two overlap
  EXPECT_EQ(x.to_vector<float>(), (Floats{9, 9, 9, 7, 7, 7}));
  expect_error<ShapeError>([&] { x[0] = Tensor::zeros({2}, DType::f32, device()); }, {"f32[2]", "[3]"});
  // A variable becomes another tensor.
  Tensor y = x;
  y = Tensor::zeros({2}, DType::f32, device());
  EXPECT_EQ(y.shape(), (Shape{2}));
  EXPECT_EQ(x.shape(), (Shape{2, 3}));
}

TEST_P(Indexing, Joins) {
  const Tensor x = matrix(), y = Tensor::from({7, 8, 9}, {1, 3}, device());
  const Tensor rows = cat({x, y});
  EXPECT_EQ(rows.shape(), (Shape{3, 3}));
  EXPECT_EQ(rows.dtype(), DType::f32);
  EXPECT_EQ(rows[2].to_vector<float>(), (Floats{7, 8, 9}));
  EXPECT_EQ(cat({x, x.slice(1, 0, 1)}, -1).to_vector<float>(), (Floats{1, 2, 3, 1, 4, 5, 6, 4}));
  const Tensor pairs = stack({x[0], x[1]}, 1);
  EXPECT_EQ(pairs.shape(), (Shape{3, 2}));
  EXPECT_EQ(pairs.to_vector<float>(), (Floats{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(stack({x[0], x[1]}).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(stack({x[0][0], x[1][0]}, -1).to_vector<float>(), (Floats{1, 4}));
  expect_error<ShapeError>([&] { cat({x, y}, 1); }, {"cat", "f32[2, 3]", "i32[1, 3]", "every axis but 1"});
  expect_error<ShapeError>([&] { stack({x, y}); }, {"stack", "one shape"});
  expect_error<IndexError>([&] { cat({x, x}, 2); }, {"cat", "axis 2"});
  expect_error<ValueError>([&] { cat(std::span<const Tensor>{}); }, {"cat", "no tensor"});
  expect_error<ValueError>([&] { stack({x, Tensor()}); }, {"stack", "undefined"});
  if (device() != Device::cpu()) expect_error<DeviceError>([&] { cat({x, Tensor::zeros({2, 3})}); }, {"cat", "cpu"});
}

TEST_P(Indexing, Splits) {
  const Tensor x = Tensor::arange(10, DType::f32, device());
  const auto sizes = [](const std::vector<Tensor>& parts) {
    std::vector<int64_t> all;
    for (const Tensor& part : parts) all.push_back(part.size(0));
    return all;
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(sizes(split(x, 4)), (Sizes{4, 4, 2}));
  EXPECT_EQ(split(x, 4)[2].to_vector<float>(), (Floats{8, 9}));
  EXPECT_EQ(split(x, 4)[1].storage(), x.storage());
  EXPECT_EQ(sizes(split(x, Shape{3, 0, 7})), (Sizes{3, 0, 7}));
  EXPECT_EQ(sizes(chunk(x, 4)), (Sizes{3, 3, 3, 1}));
  EXPECT_EQ(sizes(chunk(x, 6)), (Sizes{2, 2, 2, 2, 2})) << "fewer, as in PyTorch";
  EXPECT_EQ(sizes(chunk(x.slice(0, 0, 0), 9)), Sizes(9, 0));
  EXPECT_EQ(sizes(split(x.slice(0, 0, 0), 3)), (Sizes{0}));
  expect_error<ShapeError>([&] { split(x, Shape{3, 3}); }, {"split", "[3, 3]", "an axis of 10"});
  expect_error<ShapeError>([&] { split(x, Shape{-1, 11}); }, {"split", "[-1, 11]"});
  expect_error<ValueError>([&] { split(x, 0); }, {"split", "parts of 0"});
  expect_error<ValueError>([&] { chunk(x, 0); }, {"chunk", "0 chunks"});
}

TEST_P(Indexing, SlicesBackwards) {
  const Tensor x = Tensor::arange(6, DType::f32, device());
  EXPECT_EQ(x.slice(0, -1, Tensor::kEnd, -1).to_vector<float>(), (Floats{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(x.slice(0, 4, 0, -2).to_vector<float>(), (Floats{4, 2}));
  EXPECT_EQ(x.slice(0, 4, -7, -2).to_vector<float>(), (Floats{4, 2, 0}));
  EXPECT_EQ(x.slice(0, 0, 4, -1).numel(), 0);
  EXPECT_EQ(x.slice(0, 0, 0).slice(0, -1, Tensor::kEnd, -1).numel(), 0);
  expect_error<ValueError>([&] { x.slice(0, 0, 3, 0); }, {"slice", "step 0"});
}

TEST_P(Indexing, RearrangingRefusesWhatItCantDo) {
  const Tensor x = matrix(), label = Tensor::from({int64_t{1}}, device());
  expect_error<ShapeError>([&] { repeat(x, {2}); }, {"repeat", "[2]", "a repeat for each axis"});
  expect_error<ValueError>([&] { tile(x, {2, -1}); }, {"tile", "[2, -1]"});
  expect_error<ValueError>([&] { flip(x, {0, -2}); }, {"flip", "each axis once"});
  expect_error<IndexError>([&] { flip(x, {2}); }, {"flip", "axis 2"});
  expect_error<ValueError>([&] { roll(x, {1, 2}, {0}); }, {"roll", "a shift for each axis"});
  expect_error<ShapeError>([&] { tril(x[0]); }, {"tril", "a matrix"});
  expect_error<ValueError>([&] { masked_fill(label, eq(label, 1), 1e30); }, {"i64"});
  expect_error<DTypeError>([&] { masked_fill(x, x, 0); }, {"masked_fill", "mask"});
  expect_error<ShapeError>([&] { masked_fill(x, eq(x, x).slice(1, 0, 2), 0); }, {"[2, 2]"});
  expect_error<ValueError>([&] { one_hot(label, 0); }, {"one_hot", "num_classes = 0"});
  expect_error<DTypeError>([&] { scatter(x, label.unsqueeze(0), label.unsqueeze(0)); }, {"scatter", "src"});
  if (device() == Device::cpu()) {
    EXPECT_EQ(one_hot(label).shape(), (Shape{1, 2})) << "as many classes as the largest index needs";
    expect_error<IndexError>([&] { one_hot(label, 1); }, {"index 1"});
  } else {
    expect_error<ValueError>([&] { one_hot(label); }, {"one_hot", "num_classes"});
  }
}

}  // namespace
}  // namespace ashlar
