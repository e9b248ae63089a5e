// A product of few rows reads its other operand once, by plans of their own on CUDA (schedules/contraction_stream.h);
// so does one of few columns, whose transpose has few rows. Known to those plans and to what chooses beside them:
// splitting a product's terms and a vendor's library.
#pragma once

#include <cstdint>

namespace ashlar {

struct FewRows {
  static constexpr int kAlong = 8;                              ///< where the other operand lies along k
  static constexpr int kAcross = 4;                             ///< where it lies across k
  static constexpr int kOfFewColumns = 16;                      ///< beside as few columns, however the operands lie
  static constexpr int kQuadsAcross = 16;                       ///< where it lies across k, all in aligned quads
  static constexpr int kRowsOfQuads = 8, kColumnsOfQuads = 32;  ///< of such a block
  /// Whether in 16 bits so many of these blocks become twice as many, whose threads share k's terms further: numbers,
  /// or expressions of a schedule.
  template <class Blocks, class Terms>
  static auto are_quads_deep(const Blocks& blocks, const Terms& terms) {
    constexpr int kFewTerms = 256, kTermsOfBlock = 6;
    return terms > kFewTerms && blocks * kTermsOfBlock <= terms;
  }
  /// Beside an operand that lies so; 0: there's no such plan.
  static constexpr int64_t most(bool along_k, bool across_k) { return along_k ? kAlong : across_k ? kAcross : 0; }
};

}  // namespace ashlar
