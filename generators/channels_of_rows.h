// Rows of a matrix that are groups of channels, for kernels that normalise rows and groups alike.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

/// Row r is group r mod `groups` of an image, and has `channels_of_group` channels of as many places each as
/// `inverse_space` says: 2³² over it, rounded up. A plain row is all of one group, whose channels are its columns.
/// There are less than 2¹⁶ columns.
struct ChannelsOfRows {
  Scalar<int32_t> groups{"groups"}, channels_of_group{"channels_of_group"};
  Scalar<int64_t> inverse_space{"inverse_space"};

  /// The number of column `column`'s channel, or `none` where `has_numbers` is 0.
  template <class Numbers>
  Value of_row(const Numbers& numbers, const Scalar<int32_t>& has_numbers, double none, const Expr& column,
               const Expr& row) const {
    const Expr inverse = Halide::cast<uint64_t>(Value(inverse_space).expr());
    const Expr in_group =
        Halide::cast<int32_t>((Halide::cast<uint64_t>(column) * inverse) >> Halide::cast<uint64_t>(32));
    const Expr channel = row % Value(groups).expr() * Value(channels_of_group).expr() + in_group;
    // A promise isn't pure to Halide, which takes such a vector apart.
    const Expr there = Halide::clamp(channel, 0, numbers.extent(0) - 1);
    return select(Value(has_numbers) != 0, numbers(Value(there)), none);
  }
};

}  // namespace ashlar::dsl
