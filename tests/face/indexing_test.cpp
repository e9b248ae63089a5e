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

}  // namespace
}  // namespace ashlar
