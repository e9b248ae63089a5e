// Layers that put elements around the last axes: {left, right, top, bottom, …}, or one number for all sides.
#pragma once

#include <string>

#include "ashlar/ad/images.h"
#include "nn/module.h"
#include "nn/modules/axes.h"

namespace ashlar::nn {

/// pad() of the last kAxes axes (of x, whatever stands before them).
template <class Derived, int kAxes, PadMode kMode>
class Pad : public ModuleOf<Derived> {
 public:
  /// Throws ValueError unless there is one number, or two for each axis.
  explicit Pad(const Shape& padding) : padding_(for_each_axis(class_name(typeid(Derived)), padding, 2 * kAxes)) {}
  Pad(const Shape& padding, double value) requires(kMode == PadMode::constant) : Pad(padding) { value_ = value; }

  /// Throws ShapeError where x has fewer elements than the mode reads.
  Var forward(const Var& x) const { return ad::pad(x, padding_, kMode, value_); }
  std::string details() const override { return padding_.str(); }

 private:
  Shape padding_;
  double value_ = 0;
};

/// The value, 0 where none is given: ConstantPad2d(1, -3). A negative padding crops.
class ConstantPad1d : public Pad<ConstantPad1d, 1, PadMode::constant> {
  using Pad::Pad;
};
class ConstantPad2d : public Pad<ConstantPad2d, 2, PadMode::constant> {
  using Pad::Pad;
};
class ConstantPad3d : public Pad<ConstantPad3d, 3, PadMode::constant> {
  using Pad::Pad;
};
class ZeroPad1d : public Pad<ZeroPad1d, 1, PadMode::constant> {
  using Pad::Pad;
};
class ZeroPad2d : public Pad<ZeroPad2d, 2, PadMode::constant> {
  using Pad::Pad;
};
class ZeroPad3d : public Pad<ZeroPad3d, 3, PadMode::constant> {
  using Pad::Pad;
};
/// x mirrored at its ends, which come once.
class ReflectionPad1d : public Pad<ReflectionPad1d, 1, PadMode::reflect> {
  using Pad::Pad;
};
class ReflectionPad2d : public Pad<ReflectionPad2d, 2, PadMode::reflect> {
  using Pad::Pad;
};
class ReflectionPad3d : public Pad<ReflectionPad3d, 3, PadMode::reflect> {
  using Pad::Pad;
};
/// x's ends.
class ReplicationPad1d : public Pad<ReplicationPad1d, 1, PadMode::replicate> {
  using Pad::Pad;
};
class ReplicationPad2d : public Pad<ReplicationPad2d, 2, PadMode::replicate> {
  using Pad::Pad;
};
class ReplicationPad3d : public Pad<ReplicationPad3d, 3, PadMode::replicate> {
  using Pad::Pad;
};
/// x over again.
class CircularPad1d : public Pad<CircularPad1d, 1, PadMode::circular> {
  using Pad::Pad;
};
class CircularPad2d : public Pad<CircularPad2d, 2, PadMode::circular> {
  using Pad::Pad;
};
class CircularPad3d : public Pad<CircularPad3d, 3, PadMode::circular> {
  using Pad::Pad;
};

}  // namespace ashlar::nn
