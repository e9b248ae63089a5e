#include "runtime/forms/overlap.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/tensor/storage.h"

namespace ashlar::forms {
namespace {

__extension__ typedef __int128 Wide;

/// A step of a search: `stride` times a number of [low, high]. Strides are positive.
struct Step {
  int64_t stride, low, high;
};

/// Is Σ stride · x = target for some x of the steps' ranges? Depth first over the largest strides, each only where what
/// remains is in reach of the smaller ones and a multiple of their greatest common divisor.
class Search {
 public:
  explicit Search(std::vector<Step> steps) : steps_(std::move(steps)) {
    std::ranges::sort(steps_, std::ranges::greater{}, &Step::stride);
    const size_t n = steps_.size();
    lowest_.assign(n + 1, 0);
    highest_.assign(n + 1, 0);
    divisor_.assign(n + 1, 0);
    for (size_t i = n; i-- > 0;) {
      lowest_[i] = lowest_[i + 1] + steps_[i].stride * steps_[i].low;
      highest_[i] = highest_[i + 1] + steps_[i].stride * steps_[i].high;
      divisor_[i] = std::gcd(divisor_[i + 1], steps_[i].stride);
    }
  }

  /// Nothing when the budget is spent before that is known.
  std::optional<bool> reaches(int64_t target) {
    const bool found = reaches_from(0, target);
    if (!found && budget_ < 0) return std::nullopt;
    return found;
  }

 private:
  /// x of [0, modulus) with a·x ≡ 1; a and modulus have no common divisor.
  static int64_t inverse(int64_t a, int64_t modulus) {
    int64_t r = modulus, next_r = a % modulus, x = 0, next_x = 1;
    while (next_r != 0) {
      const int64_t quotient = r / next_r;
      r = std::exchange(next_r, r - quotient * next_r);
      x = std::exchange(next_x, x - quotient * next_x);
    }
    return x < 0 ? x + modulus : x;
  }
  static int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0); }

  bool reaches_from(size_t at, int64_t target) {
    if (target < lowest_[at] || target > highest_[at]) return false;
    if (at == steps_.size()) return true;
    if (target % divisor_[at] != 0) return false;
    const Step& step = steps_[at];
    // What's left for the smaller strides has to lie between their lowest and highest sum.
    int64_t first = std::max(step.low, -floor_of(highest_[at + 1] - target, step.stride));
    const int64_t last = std::min(step.high, floor_of(target - lowest_[at + 1], step.stride));
    // And has to be a multiple of their divisor: stride · x ≡ target, which one x of each `period` fulfils.
    const int64_t period = std::max<int64_t>(divisor_[at + 1] / divisor_[at], 1);
    if (period > 1) {
      const auto product = static_cast<Wide>(target / divisor_[at]) * inverse(step.stride / divisor_[at], period);
      const auto residue = static_cast<int64_t>((product - first) % period);
      first += residue < 0 ? residue + period : residue;
    }
    for (int64_t x = first; x <= last; x += period) {
      if (--budget_ < 0) return false;
      if (reaches_from(at + 1, target - step.stride * x)) return true;
    }
    return false;
  }

  std::vector<Step> steps_;
  std::vector<int64_t> lowest_, highest_, divisor_;  // of the sums from each step on
  int64_t budget_ = 100'000;
};

}  // namespace

bool is_injective(const Shape& sizes, const Shape& strides) {
  std::vector<Step> steps;
  int64_t numel = 1;
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  for (int i = 0; i < sizes.rank(); i++) {
    if (sizes[i] == 1) continue;
    if (strides[i] == 0) return false;
    steps.push_back({std::abs(strides[i]), 1 - sizes[i], sizes[i] - 1});
    numel *= sizes[i];
  }
  // The usual: each stride is beyond the reach of the smaller ones.
  std::ranges::sort(steps, {}, &Step::stride);
  int64_t reach = 0;
  bool is_nested = true;
  for (const Step& step : steps) {
    is_nested = is_nested && step.stride > reach;
    reach += step.high * step.stride;
  }
  if (is_nested) return true;
  if (numel > reach + 1) return false;  // more indices than places
  // Two indices meet where their difference, other than 0, steps to 0: let k be its first number that isn't 0, and
  // positive, since the negative difference does the same.
  for (size_t k = 0; k < steps.size(); k++) {
    std::vector<Step> from_k(steps.begin() + static_cast<int64_t>(k), steps.end());
    from_k[0].low = 1;
    if (Search(from_k).reaches(0).value_or(true)) return false;
  }
  return true;
}

bool share_memory(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  // In bytes: first(a) + Σ steps of a + byte of its element = first(b) + the same of b.
  const int64_t a_width = size_of(a.dtype()), b_width = size_of(b.dtype());
  std::vector<Step> steps;
  const auto add = [&steps](int64_t stride, int64_t last) {
    if (last == 0 || stride == 0) return;
    steps.push_back(stride > 0 ? Step{stride, 0, last} : Step{-stride, -last, 0});
  };
  for (int i = 0; i < a.rank(); i++) add(a.strides()[i] * a_width, a.shape()[i] - 1);
  for (int i = 0; i < b.rank(); i++) add(-b.strides()[i] * b_width, b.shape()[i] - 1);
  add(1, a_width - 1);
  add(-1, b_width - 1);
  return Search(std::move(steps)).reaches(b.offset() * b_width - a.offset() * a_width).value_or(true);
}

}  // namespace ashlar::forms
