#include "runtime/forms/collapse.h"

#include "tests/tensor/devices.h"
#include "tests/tensor/model.h"

namespace ashlar::forms {
namespace {

using ashlar::testing::random_integer;

TEST(Collapse, DropsOnesAndMergesRuns) {
  const Loops dense = collapse({2, 1, 3, 4}, {{12, 99, 4, 1}});
  EXPECT_EQ(dense.sizes, Shape{24});
  EXPECT_EQ(dense.strides[0], Shape{1});
  EXPECT_EQ(collapse({1, 1}, {{5, 7}}).sizes, Shape{});
  EXPECT_EQ(collapse({}, {{}}).sizes, Shape{});
}

TEST(Collapse, MergesOnlyWhatAllOperandsMerge) {
  // The second operand repeats a row: only the inner two dimensions are one run in both.
  const Loops loops = collapse({2, 3, 4}, {{12, 4, 1}, {0, 4, 1}});
  EXPECT_EQ(loops.sizes, (Shape{2, 12}));
  EXPECT_EQ(loops.strides[0], (Shape{12, 1}));
  EXPECT_EQ(loops.strides[1], (Shape{0, 1}));
  EXPECT_EQ(collapse({2, 3}, {{0, 0}}).sizes, Shape{6});
  EXPECT_EQ(collapse({2, 3}, {{-3, -1}}).sizes, Shape{6});
  EXPECT_EQ(collapse({2, 3}, {{-3, 1}}).sizes, (Shape{2, 3}));
}

/// Offsets of every element of loops, operand by operand, in order.
std::vector<std::vector<int64_t>> walk(const Loops& loops, const std::vector<int64_t>& offsets) {
  std::vector<std::vector<int64_t>> elements;
  ashlar::testing::for_each_index(loops.sizes, [&](const Shape& index) {
    std::vector<int64_t> element = offsets;
    for (size_t o = 0; o < offsets.size(); o++) {
      for (int i = 0; i < index.rank(); i++) element[o] += index[i] * loops.strides[o][i];
    }
    elements.push_back(element);
  });
  return elements;
}

TEST(Collapse, RandomLoopsKeepTheirElementsInOrder) {
  std::mt19937 random(20);
  for (int trial = 0; trial < 500; trial++) {
    const int rank = static_cast<int>(random_integer(random, 0, 6));
    const Loops loops{ashlar::testing::random_shape(random, rank, 3), {Shape::filled(rank, 0), Shape::filled(rank, 0)}};
    Loops given = loops;
    for (int i = rank - 1; i >= 0; i--) {
      for (Shape& strides : given.strides) {
        const bool continues = i + 1 < rank && random_integer(random, 0, 2) > 0;
        strides[i] = continues ? strides[i + 1] * given.sizes[i + 1] : random_integer(random, -2, 4);
      }
    }
    const Loops collapsed = collapse(given.sizes, given.strides);
    ASSERT_LE(collapsed.sizes.rank(), rank);
    ASSERT_EQ(walk(collapsed, {5, 7}), walk(given, {5, 7}));
    // Cut to pieces of two dimensions, they are still the same elements in the same order.
    std::vector<std::vector<int64_t>> pieces;
    for_each_piece(collapsed, 2, [&](const Loops& piece, const std::vector<int64_t>& offsets) {
      ASSERT_LE(piece.sizes.rank(), 2);
      for (auto& element : walk(piece, {5 + offsets[0], 7 + offsets[1]})) pieces.push_back(element);
    });
    ASSERT_EQ(pieces, walk(given, {5, 7}));
  }
}

TEST(Collapse, CutsWhatIsTooBigForOneKernel) {
  const int64_t size = 3 * kMaxElements + 17;
  int64_t next = 0;
  for_each_piece({{size}, {{1}, {0}}}, 1, [&](const Loops& piece, const std::vector<int64_t>& offsets) {
    EXPECT_EQ(offsets[0], next);
    EXPECT_EQ(offsets[1], 0);
    EXPECT_LE(piece.sizes[0], kMaxElements);
    EXPECT_EQ(offsets[0] % 1024, 0);
    next += piece.sizes[0];
  });
  EXPECT_EQ(next, size);

  // Rows of more than kMaxElements are cut inside, three of them.
  next = 0;
  for_each_piece({{3, size}, {{2 * size, 1}}}, 4, [&](const Loops& piece, const std::vector<int64_t>&) {
    EXPECT_LE(piece.sizes.numel(), kMaxElements);
    next += piece.sizes.numel();
  });
  EXPECT_EQ(next, 3 * size);

  int calls = 0;
  for_each_piece({{5, 0}, {{1, 1}}}, 4, [&](const Loops&, const std::vector<int64_t>&) { calls++; });
  EXPECT_EQ(calls, 0);
}

TEST(Collapse, PiecesArePaddedOutside) {
  const Tensor x = Tensor::empty({3, 5});
  const Loops loops{{5}, {{1}}};
  const Tensor piece = piece_of(x, loops, 0, 10, 4);
  EXPECT_EQ(piece.shape(), (Shape{1, 1, 1, 5}));
  EXPECT_EQ(piece.strides(), (Shape{5, 5, 5, 1}));
  EXPECT_EQ(piece.offset(), 10);
  EXPECT_EQ(piece_of(x, {{}, {{}}}, 0, 2, 2).shape(), (Shape{1, 1}));
}

}  // namespace
}  // namespace ashlar::forms
