// Deterministic test values, and the rounding of a double to an element type. Nothing here uses the library's own
// conversions: what a kernel must store is worked out independently of the runtime.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/tensor/dtype.h"

namespace ashlar::conformance {

/// What the elements of an input look like.
enum class Pattern : uint8_t {
  uniform,   ///< spread over [low, high)
  integers,  ///< whole numbers of [low, high]: ties, and exact sums
  distinct,  ///< evenly spaced over (low, high) in a shuffled order: no ties
  special,   ///< uniform, mixed half and half with NaN, ±Inf and ±0
  masked,    ///< -Inf, but for one in 64, which is uniform: many short rows have nothing else
  denormal,  ///< below the smallest normal number of the element type
  huge,      ///< in the four uppermost binades
  tiny,      ///< in the four lowermost normal binades
  wide,      ///< from all of the element type's range (of i64, what a double holds exactly); floats by their exponent
};

struct Values {
  Pattern pattern = Pattern::uniform;
  double low = -2;  ///< a low ≥ 0 keeps denormal, huge and tiny values positive
  double high = 2;
};

/// `count` values of that pattern, each representable in `dtype`. The same arguments give the same values everywhere.
std::vector<double> draw(const Values& values, int64_t count, DType dtype, uint64_t seed);

/// A seed from a text (64-bit FNV-1a).
uint64_t seed_of(std::string_view text);

/// Well-mixed bits of a counter (SplitMix64, Steele, Lea and Flood 2014).
uint64_t mix(uint64_t counter);

/// The value that `dtype` stores for `value`: to nearest, ties to even, overflow to infinity; integers truncate.
double rounded(double value, DType dtype);
/// Each of them.
void round_all(std::span<double> values, DType dtype);

/// Distance of neighbouring numbers of a floating `dtype` at |value|.
double ulp(double value, DType dtype);

/// The smallest positive normal number of a floating `dtype`.
double smallest_normal(DType dtype);

/// Stores `value`, which must be representable, as one element at `address`; and reads it back.
void store(double value, DType dtype, void* address);
double load(DType dtype, const void* address);
/// As many elements as `values` has.
void load_all(DType dtype, const void* elements, std::span<double> values);

}  // namespace ashlar::conformance
