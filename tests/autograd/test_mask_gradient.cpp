// The gradient of an added attention mask, piece by piece: that of the whole, without its memory.
#include <gtest/gtest.h>

#include <cmath>

#include "autograd/recipes/attention.h"
#include "runtime/device/counters.h"
#include "tests/tensor/devices.h"

namespace ashlar {
namespace {

constexpr int64_t kAll = int64_t{1} << 40;

class MaskGradient : public testing::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, MaskGradient, ::testing::ValuesIn(testing::usable_devices()), testing::device_name);

TEST_P(MaskGradient, OfPiecesIsThatOfTheWhole) {
  const Tensor query = numbers({2, 4, 150, 8}), key = numbers({2, 2, 90, 8}), value = numbers({2, 2, 90, 5}),
               dy = numbers({2, 4, 150, 5});
  for (const Shape& shape : {Shape{2, 4, 150, 90},
                             {150, 90},
                             {1, 1, 150, 90},
                             {2, 1, 1, 90},
                             {1, 4, 1, 1},
                             {150, 1},
                             {90},
                             {1, 2 * 2, 150, 1}}) {
    const Tensor mask = numbers(shape);
    for (const int64_t is_causal : {0, 1, 20}) {
      const auto gradient = [&](int64_t most_bytes) {
        const Tensor g = recipes::attention_mask_grad(dy, query, key, value, mask, is_causal, 0.3, most_bytes);
        EXPECT_EQ(g.shape(), shape);
        return g.to_doubles();
      };
      const std::vector<double> whole = gradient(kAll), of_heads = gradient(1 << 20), of_queries = gradient(1);
      for (size_t i = 0; i < whole.size(); i++) {
        ASSERT_NEAR(of_heads[i], whole[i], 2e-5) << "mask " << shape.str() << ", element " << i;
        ASSERT_NEAR(of_queries[i], whole[i], 2e-5) << "mask " << shape.str() << ", element " << i;
      }
    }
  }
  // Of fewer axes, and 16 bits.
  const auto first = [](const Tensor& x) { return x.select(0, 0).select(0, 0); };
  const Tensor mask = numbers({90}).to(DType::bf16);
  const auto gradient = [&](int64_t most_bytes) {
    return recipes::attention_mask_grad(first(dy), first(query), first(key), first(value), mask, 0, 0, most_bytes);
  };
  EXPECT_EQ(gradient(1).dtype(), DType::bf16);
  const std::vector<double> whole = gradient(kAll).to_doubles(), pieces = gradient(1).to_doubles();
  for (size_t i = 0; i < whole.size(); i++) EXPECT_NEAR(pieces[i], whole[i], 0.02) << "element " << i;
}

TEST_P(MaskGradient, OfOneRowNeedsNoMemoryOfAllPairs) {
  constexpr int64_t kRows = 1024, kHeads = 8, kBytesOfPairs = kHeads * kRows * kRows * 4;
  const Tensor x = numbers({1, kHeads, kRows, 8}), mask = numbers({1, 1, 1, kRows});
  const auto added = [&](int64_t most_bytes) {
    const int64_t before = counters(device().kind).pool_bytes;
    recipes::attention_mask_grad(x, x, x, x, mask, 0, 0, most_bytes);
    return counters(device().kind).pool_bytes - before;
  };
  EXPECT_LT(added(1 << 22), kBytesOfPairs / 2);
  EXPECT_GT(added(kAll), kBytesOfPairs);
}

}  // namespace
}  // namespace ashlar
