// Tensors whose axes follow each other in memory in another order: parts of one, and results that lie as operands do.
#include "runtime/forms/memory_order.h"

#include <algorithm>
#include <numeric>

#include "runtime/tensor/storage.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar::forms {
namespace {

using ashlar::testing::random_integer;
using ashlar::testing::random_shape;

Shape random_axes(std::mt19937& random, int rank) {
  Shape axes = Shape::filled(rank, 0);
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  return axes;
}

std::vector<Tensor> cut(const Tensor& x, int axis, int64_t count) {
  std::vector<Tensor> parts;
  const int64_t size = x.size(axis) / count;
  for (int64_t i = 0; i < count; i++) parts.push_back(x.slice(axis, i * size, (i + 1) * size));
  return parts;
}

bool is_same_view(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.shape() != b.shape() || a.offset() != b.offset()) return false;
  for (int i = 0; i < a.rank(); i++) {
    if (a.size(i) > 1 && a.strides()[i] != b.strides()[i]) return false;
  }
  return true;
}

TEST(MemoryOrder, PartsOfOneTensorAreFoundToBeThat) {
  std::mt19937 random(31);
  for (int trial = 0; trial < 500; trial++) {
    const int rank = static_cast<int>(random_integer(random, 1, 4));
    const int axis = static_cast<int>(random_integer(random, 0, rank - 1));
    const int64_t count = random_integer(random, 2, 4);
    Shape sizes = random_shape(random, rank, 4);
    const Shape order = random_axes(random, rank);
    const int cut_axis = static_cast<int>(order[axis]);
    sizes[cut_axis] *= count;
    const Tensor x = Tensor::empty(sizes).permute(order);
    const std::vector<Tensor> parts = cut(x, axis, count);
    const std::optional<Tensor> whole = whole_of(parts, axis);
    ASSERT_TRUE(whole.has_value()) << x.str() << x.strides().str() << axis;
    EXPECT_TRUE(is_same_view(*whole, x)) << whole->str() << whole->strides().str();
    // Results for these lie so, too, and where the first begins.
    const std::vector<Tensor> again = empty_as(parts);
    const std::optional<Tensor> joined = whole_of(again, axis);
    ASSERT_TRUE(joined.has_value());
    EXPECT_EQ(joined->shape(), x.shape());
    EXPECT_NE(joined->storage(), x.storage());
  }
}

TEST(MemoryOrder, OthersArent) {
  const Tensor x = Tensor::empty({4, 6, 5});
  std::vector<Tensor> parts = cut(x, 1, 3);
  EXPECT_TRUE(whole_of(parts, 1).has_value());
  EXPECT_FALSE(whole_of(parts, 0).has_value());
  EXPECT_FALSE(whole_of(parts, 2).has_value());
  EXPECT_FALSE(whole_of(std::span(parts).first(2), 1).has_value());  // a third of each row is left
  EXPECT_FALSE(whole_of(std::span(parts).first(1), 1).has_value());
  std::swap(parts[0], parts[1]);
  EXPECT_FALSE(whole_of(parts, 1).has_value());
  parts[0] = parts[1];
  EXPECT_FALSE(whole_of(parts, 1).has_value());
  parts = cut(x, 1, 3);
  parts[1] = parts[1].clone();
  EXPECT_FALSE(whole_of(parts, 1).has_value());
  EXPECT_FALSE(whole_of(cut(x.select(0, 0).broadcast_to({4, 6, 5}), 1, 3), 1).has_value());
  EXPECT_FALSE(whole_of(cut(Tensor::empty({0, 6}), 1, 3), 1).has_value());
  EXPECT_FALSE(whole_of(std::vector<Tensor>(2), 0).has_value());
  // A tensor each then, in the order in which each lies.
  const std::vector<Tensor> apart = empty_as(std::array{parts[0].transpose(0, 1), parts[1]});
  EXPECT_NE(apart[0].storage(), apart[1].storage());
  EXPECT_EQ(apart[0].strides(), (Shape{5, 10, 1}));
  EXPECT_EQ(apart[1].strides(), (Shape{10, 5, 1}));
}

TEST(MemoryOrder, RowsStayDense) {
  const Tensor x = Tensor::empty({2, 5, 3, 4}).permute({0, 2, 1, 3});
  EXPECT_EQ(axes_in_memory(x, 3), (Shape{0, 2, 1, 3}));
  const Tensor y = empty_in_order_of(x, {2, 3, 5, 7});
  EXPECT_EQ(y.shape(), (Shape{2, 3, 5, 7}));
  EXPECT_EQ(y.strides(), (Shape{105, 7, 21, 1}));
  EXPECT_EQ(axes_in_memory(x.transpose(2, 3), 3), (Shape{0, 1, 2, 3}));
  EXPECT_EQ(axes_in_memory(x.transpose(2, 3), 4), (Shape{0, 3, 1, 2}));
  EXPECT_EQ(x.permute({2, 0, 3, 1}).permute(inverse_of({2, 0, 3, 1})).strides(), x.strides());
  EXPECT_EQ(empty_in_order_of(x.transpose(2, 3), {2, 3, 4, 5}).strides(), (Shape{60, 20, 5, 1}));
}

}  // namespace
}  // namespace ashlar::forms
