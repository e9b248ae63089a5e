#include "runtime/tensor/shape.h"

#include "runtime/support/error.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

using testing::expect_error;

TEST(Shape, HoldsSizes) {
  Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(shape.back(), 5);
  EXPECT_EQ(shape.str(), "[2, 3, 5]");
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_TRUE(Shape{}.empty());
  EXPECT_EQ(Shape::filled(3, 7), (Shape{7, 7, 7}));
  EXPECT_NE(shape, (Shape{2, 3}));
  EXPECT_NE(shape, (Shape{2, 3, 6}));
}

TEST(Shape, InsertsAndErases) {
  Shape shape{2, 5};
  shape.insert(1, 3);
  EXPECT_EQ(shape, (Shape{2, 3, 5}));
  shape.insert(0, 1);
  EXPECT_EQ(shape, (Shape{1, 2, 3, 5}));
  shape.push_back(7);
  EXPECT_EQ(shape, (Shape{1, 2, 3, 5, 7}));
  shape.erase(0);
  shape.erase(3);
  shape.erase(1);
  EXPECT_EQ(shape, (Shape{2, 5}));
}

TEST(Shape, RefusesTooManyDimensions) {
  expect_error<ShapeError>([] { (void)Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, {"Shape", "9 dimensions", "0 to 8"});
  expect_error<ShapeError>([] { Shape::filled(9, 1); }, {"9 dimensions"});
  expect_error<ShapeError>([] { Shape::filled(8, 1).push_back(1); }, {"9 dimensions"});
  EXPECT_EQ(Shape::filled(8, 1).numel(), 1);
}

TEST(Shape, CountsZeroAndHugeSizes) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_EQ((Shape{huge, huge, 0}).numel(), 0);
  expect_error<ShapeError>([=] { (Shape{huge, huge}).numel(); }, {"2^63"});
}

TEST(Shape, DenseStrides) {
  EXPECT_EQ(dense_strides({2, 3, 5}), (Shape{15, 5, 1}));
  EXPECT_EQ(dense_strides({2, 0, 5}), (Shape{5, 5, 1}));
  EXPECT_EQ(dense_strides({}), Shape{});
}

TEST(Shape, BroadcastsAsNumPy) {
  EXPECT_EQ(broadcast("add", {2, 3}, {3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {3}, {2, 1}), (Shape{2, 3}));
  EXPECT_EQ(broadcast("add", {4, 1, 5}, {3, 1}), (Shape{4, 3, 5}));
  EXPECT_EQ(broadcast("add", {}, {2, 2}), (Shape{2, 2}));
  EXPECT_EQ(broadcast("add", {1}, {0}), Shape{0});
  EXPECT_EQ(broadcast("add", {0, 3}, {1, 1}), (Shape{0, 3}));
  expect_error<ShapeError>([] { broadcast("add", {2, 3}, {2}); }, {"add", "[2, 3] and [2]", "equal or 1", "reshape()"});
  expect_error<ShapeError>([] { broadcast("add", {0}, {2}); }, {"add", "[0] and [2]"});
}

TEST(Shape, NormalizesAxes) {
  EXPECT_EQ(normalize_axis("sum", 0, 3), 0);
  EXPECT_EQ(normalize_axis("sum", -1, 3), 2);
  EXPECT_EQ(normalize_axis("sum", -3, 3), 0);
  expect_error<IndexError>([] { normalize_axis("sum", 3, 3); }, {"sum", "axis 3", "rank 3", "-3 to 2"});
  expect_error<IndexError>([] { normalize_axis("sum", -4, 3); }, {"axis -4"});
  expect_error<IndexError>([] { normalize_axis("sum", 0, 0); }, {"rank 1 or more"});
  EXPECT_EQ(normalize_reduced_axis("sum", 0, 0), 0);
  EXPECT_EQ(normalize_reduced_axis("sum", -1, 0), 0);
  EXPECT_EQ(normalize_reduced_axis("sum", -1, 3), 2);
  expect_error<IndexError>([] { normalize_reduced_axis("sum", 1, 0); }, {"sum", "axis 1"});
}

}  // namespace
}  // namespace ashlar
