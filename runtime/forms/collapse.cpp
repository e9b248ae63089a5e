#include "runtime/forms/collapse.h"

#include <algorithm>
#include <numeric>

namespace ashlar::forms {

Loops collapse(const Shape& sizes, const std::vector<Shape>& strides) {
  Loops loops{{}, std::vector<Shape>(strides.size())};
  for (int i = 0; i < sizes.rank(); i++) {
    if (sizes[i] == 1) continue;
    const int last = loops.sizes.rank() - 1;
    bool merges = last >= 0;
    for (size_t o = 0; merges && o < strides.size(); o++) {
      merges = loops.strides[o][last] == sizes[i] * strides[o][i];
    }
    if (merges) {
      loops.sizes[last] *= sizes[i];
    } else {
      loops.sizes.push_back(sizes[i]);
    }
    for (size_t o = 0; o < strides.size(); o++) {
      if (merges) {
        loops.strides[o][last] = strides[o][i];
      } else {
        loops.strides[o].push_back(strides[o][i]);
      }
    }
  }
  return loops;
}

namespace {

/// Sorts the outermost `count` loops. They are few: each is put into its place among those before.
void sort_loops(Loops& loops, int count, const auto& goes_outside) {
  std::array<int, kMaxRank> order{};
  std::iota(order.begin(), order.begin() + count, 0);
  bool is_sorted = true;
  for (int i = 1; i < count; i++) {
    for (int j = i; j > 0 && goes_outside(order[j], order[j - 1]); j--) {
      std::swap(order[j], order[j - 1]);
      is_sorted = false;
    }
  }
  if (is_sorted) return;
  const auto reorder = [&](Shape& values) {
    const Shape before = values;
    for (int i = 0; i < count; i++) values[i] = before[order[i]];
  };
  reorder(loops.sizes);
  for (Shape& strides : loops.strides) reorder(strides);
}

}  // namespace

void sort_by_first(Loops& loops) {
  const Shape before = loops.strides[0];
  sort_loops(loops, loops.sizes.rank(), [&](int a, int b) { return before[a] > before[b]; });
}

void sort_for_few_pieces(Loops& loops, int rank) {
  if (loops.sizes.rank() <= rank) return;
  // A piece is a launch. One that begins between aligned places is written elsewhere first, and brought to its place in
  // one copy where it is dense, else in one for each of its rows (launch_detour.h).
  constexpr int64_t kAligned = 16;
  const Shape sizes = loops.sizes, steps = loops.strides[0];
  const int64_t rows = sizes.numel() / (sizes[sizes.rank() - 1] * sizes[sizes.rank() - 2]);
  const auto calls = [=](int i) {
    return steps[i] % kAligned == 0 ? sizes[i] : i == 0 ? 2 * sizes[i] : sizes[i] + rows;
  };
  std::vector<int> fewest_first(static_cast<size_t>(sizes.rank() - 2));
  std::iota(fewest_first.begin(), fewest_first.end(), 0);
  std::ranges::stable_sort(fewest_first, [&](int a, int b) { return calls(a) < calls(b); });
  // The others stay in their order, in which a piece of a dense tensor is dense.
  const auto pieces = static_cast<size_t>(sizes.rank() - rank);
  std::vector<int> place(fewest_first.size());
  std::iota(place.begin(), place.end(), static_cast<int>(pieces));
  for (size_t i = 0; i < pieces; i++) place[static_cast<size_t>(fewest_first[i])] = static_cast<int>(i) - sizes.rank();
  sort_loops(loops, sizes.rank() - 2,
             [&](int a, int b) { return place[static_cast<size_t>(a)] < place[static_cast<size_t>(b)]; });
}

namespace {

using Piece = std::function<void(const Loops&, const std::vector<int64_t>&)>;

void cut(const Loops& loops, int rank, std::vector<int64_t> offsets, const Piece& run) {
  const int64_t numel = loops.sizes.numel();
  if (numel == 0) return;
  if (loops.sizes.rank() <= rank && numel <= kMaxElements) return run(loops, offsets);
  const int64_t size = loops.sizes[0], inside = numel / size;
  Loops piece = loops;
  int64_t step = 1;
  if (loops.sizes.rank() > rank || inside > kMaxElements) {
    piece.sizes.erase(0);
    for (Shape& strides : piece.strides) strides.erase(0);
  } else {
    step = kMaxElements / inside;
    if (step > 1024) step -= step % 1024;  // keeps the pieces as well aligned as the whole
  }
  for (int64_t start = 0; start < size; start += step) {
    if (piece.sizes.rank() == loops.sizes.rank()) piece.sizes[0] = std::min(step, size - start);
    cut(piece, rank, offsets, run);
    for (size_t o = 0; o < offsets.size(); o++) offsets[o] += step * loops.strides[o][0];
  }
}

}  // namespace

void for_each_piece(const Loops& loops, int rank, const Piece& run) {
  cut(loops, rank, std::vector<int64_t>(loops.strides.size(), 0), run);
}

Tensor piece_of(const Tensor& tensor, const Loops& piece, int operand, int64_t offset, int rank) {
  Shape sizes = piece.sizes, strides = piece.strides[operand];
  while (sizes.rank() < rank) {
    // As if dense, so that a schedule's "rows follow each other" test holds; a stride must fit 32 bits.
    const int64_t step = sizes.empty() ? 1 : sizes[0] * strides[0];
    strides.insert(0, step <= kMaxElements ? step : 0);
    sizes.insert(0, 1);
  }
  return Tensor(tensor.storage(), sizes, strides, tensor.offset() + offset, tensor.dtype());
}

bool has_negative_strides(const Tensor& tensor) {
  for (int i = 0; i < tensor.rank(); i++) {
    if (tensor.shape()[i] > 1 && tensor.strides()[i] < 0) return true;
  }
  return false;
}

Tensor without_negative_strides(const Tensor& tensor) {
  return has_negative_strides(tensor) ? tensor.contiguous() : tensor;
}

Tensor dense_as(const Tensor& tensor, const Shape& shape) {
  const Tensor dense = tensor.contiguous();
  return Tensor(dense.storage(), shape, dense_strides(shape), dense.offset(), dense.dtype());
}

}  // namespace ashlar::forms
