// Which views share memory, against every pair of their bytes.
#include "runtime/forms/overlap.h"

#include <algorithm>
#include <set>

#include "runtime/support/error.h"
#include "runtime/tensor/storage.h"
#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar::forms {
namespace {

using ashlar::testing::expect_error;
using ashlar::testing::random_integer;

/// The bytes of a view's elements in its storage; how many elements came twice.
std::set<int64_t> bytes_of(const Tensor& x, int64_t& shared) {
  std::set<int64_t> bytes;
  const int64_t width = size_of(x.dtype());
  ashlar::testing::for_each_index(x.shape(), [&](const Shape& index) {
    int64_t at = x.offset();
    for (int i = 0; i < index.rank(); i++) at += index[i] * x.strides()[i];
    shared += !bytes.insert(at * width).second;
    for (int64_t byte = 1; byte < width; byte++) bytes.insert(at * width + byte);
  });
  return bytes;
}

TEST(Overlap, KnowsUsualViews) {
  EXPECT_TRUE(is_injective({2, 3}, {3, 1}));
  EXPECT_TRUE(is_injective({3, 2}, {1, 3}));
  EXPECT_TRUE(is_injective({3, 2}, {-1, -3}));
  EXPECT_TRUE(is_injective({3, 1}, {1, 0}));
  EXPECT_TRUE(is_injective({}, {}));
  EXPECT_TRUE(is_injective({2, 0}, {0, 0}));
  EXPECT_FALSE(is_injective({2, 3}, {0, 1}));
  EXPECT_FALSE(is_injective({2, 3}, {2, 1}));
  EXPECT_FALSE(is_injective({2, 2}, {1, 1}));
}

// Strides that aren't nested, and still no element twice: 0 2 4 and 3 5 7.
TEST(Overlap, KnowsInterleavedViews) {
  EXPECT_TRUE(is_injective({2, 3}, {3, 2}));
  EXPECT_TRUE(is_injective({2, 4}, {3, 2}));
  EXPECT_FALSE(is_injective({3, 4}, {3, 2}));
  EXPECT_TRUE(is_injective({1000, 999}, {999, 1000}));
  EXPECT_FALSE(is_injective({1001, 1000}, {999, 1000}));
  EXPECT_TRUE(is_injective({4, 3, 2}, {6, 10, 15}));
  const int64_t far = int64_t{1} << 40;
  EXPECT_TRUE(is_injective({1 << 20, 1 << 20}, {far, far + 1}));
}

TEST(Overlap, RandomViewsOfOneStorage) {
  std::mt19937 random(21);
  int injective = 0, not_nested = 0, apart = 0;
  for (int trial = 0; trial < 4000; trial++) {
    const auto storage = detail::Storage::create(4096, Device::cpu());
    const auto view = [&] {
      const Shape sizes = ashlar::testing::random_shape(random, static_cast<int>(random_integer(random, 0, 3)), 4);
      const DType dtype = random_integer(random, 0, 1) ? DType::f32 : DType::f16;
      Shape strides;
      for (int i = 0; i < sizes.rank(); i++) strides.push_back(random_integer(random, -12, 12));
      return Tensor(storage, sizes, strides, random_integer(random, 200, 300), dtype);
    };
    const Tensor a = view(), b = view();
    int64_t shared = 0, ignored = 0;
    const std::set<int64_t> of_a = bytes_of(a, shared), of_b = bytes_of(b, ignored);
    ASSERT_EQ(is_injective(a.shape(), a.strides()), shared == 0) << a.shape().str() << a.strides().str();
    const bool meet = std::ranges::any_of(of_a, [&](int64_t byte) { return of_b.contains(byte); });
    ASSERT_EQ(share_memory(a, b), meet) << a.str() << a.strides().str() << a.offset() << " " << b.str()
                                        << b.strides().str() << b.offset();
    injective += shared == 0;
    apart +=
        !meet && !of_a.empty() && !of_b.empty() && *of_a.begin() < *of_b.rbegin() && *of_b.begin() < *of_a.rbegin();
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (int i = 0; i < a.rank(); i++) {
      if (a.shape()[i] > 1) dims.emplace_back(std::abs(a.strides()[i]), a.shape()[i] - 1);
    }
    std::ranges::sort(dims);
    int64_t reach = 0;
    bool is_nested = true;
    for (const auto& [stride, last] : dims) {
      is_nested = is_nested && stride > reach;
      reach += stride * last;
    }
    not_nested += shared == 0 && !is_nested && a.numel() > 0;
  }
  // The trials aren't all of one kind.
  EXPECT_GT(injective, 500);
  EXPECT_LT(injective, 3500);
  EXPECT_GT(not_nested, 50);
  EXPECT_GT(apart, 50);
}

TEST(Overlap, AViewOfInterleavedElementsCanBeWritten) {
  const Tensor base = Tensor::zeros({13});
  const Tensor view = base.as_strided({2, 3}, {3, 2}, 1);  // 1 3 5, 4 6 8
  view.copy_(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}));
  EXPECT_EQ(base.to_vector<float>(), (std::vector<float>{0, 1, 0, 2, 4, 3, 5, 0, 6, 0, 0, 0, 0}));
  view.fill_(7);
  EXPECT_EQ(base.to_vector<float>(), (std::vector<float>{0, 7, 0, 7, 7, 7, 7, 0, 7, 0, 0, 0, 0}));
  expect_error<ValueError>([&] { base.as_strided({3, 4}, {3, 2}, 0).fill_(1); }, {"share memory", "clone()"});
}

}  // namespace
}  // namespace ashlar::forms
