// Rows of a matrix that are groups of channels, for kernels that normalise rows and groups alike.
#pragma once

#include "dsl/kernel.h"
#include "schedules/lowering/rewrite.h"

namespace ashlar::dsl {

/// Row r is group r mod `groups` of an image, and has `channels_of_group` channels of `space` places each; a plain row
/// is all of one group, whose channels are its columns. Rows are dealt out by `classes`, a multiple of the groups, of
/// which the columns of one row each come to a multiple of 4.
struct ChannelsOfRows {
  Scalar<int32_t> class_count{"classes"}, groups{"groups"}, channels_of_group{"channels_of_group"}, space{"space"};

  Expr classes() const { return Value(class_count).expr(); }
  /// (column, class): the channel's number, or `none` where `has_numbers` is 0.
  template <class Numbers>
  Halide::Func each(const std::string& name, const Numbers& numbers, const Scalar<int32_t>& has_numbers,
                    double none) const {
    Halide::Var column("column"), of_class("class");
    const Expr channel = of_class % Value(groups).expr() * Value(channels_of_group).expr() + column / Value(space).expr();
    const Expr there = Halide::unsafe_promise_clamped(channel, 0, numbers.extent(0) - 1);
    Halide::Func result(name);
    result(column, of_class) = select(Value(has_numbers) != 0, numbers(Value(there)), none).expr();
    return result;
  }
  /// Such a number of a row's column.
  template <class Column>
  Value at(const Halide::Func& each, const Column& column, const Var& row) const {
    return Value(Expr(each(Value(column).expr(), row % classes())));
  }
};

}  // namespace ashlar::dsl
