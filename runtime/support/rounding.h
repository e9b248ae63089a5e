// Sizes in whole units.
#pragma once

#include <cstdint>

namespace ashlar::detail {

/// How many units hold so many: ⌈n / unit⌉, n >= 0.
constexpr int64_t over(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }
/// The least multiple of `unit` that is no less than n.
constexpr int64_t round_up(int64_t n, int64_t unit) { return over(n, unit) * unit; }

}  // namespace ashlar::detail
