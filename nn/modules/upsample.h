// Other sizes of images.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace ashlar::nn {

enum class Interpolation : uint8_t { nearest, linear };

struct InterpolateOptions {
  Shape size = {};                        ///< of the last axes, one number or one for each; or
  std::vector<double> scale_factor = {};  ///< what sizes are multiplied by and rounded down, likewise
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  ///< linear: first and last elements stay where they are
};

/// x [n, c, sizes…] in other sizes, as torch.nn.functional.interpolate makes it. Linear is PyTorch's linear, bilinear
/// or trilinear, by the number of sizes: one axis after the other. An output i stands at i scale (nearest: rounded
/// down) or (i + ½) scale - ½, not before the first element; scale is 1 / scale_factor, or the sizes' ratio.
///
/// Images (two sizes) of floats, f64 aside, have kernels of their own. Elsewhere whole factors of nearest are copies,
/// and the others read by index_select(), so that gradients are added up in the same order every time; indices are made
/// on the device. Throws ValueError unless there is a size or a factor, positive, for each of one to three axes.
Var interpolate(const Var& x, const InterpolateOptions& options);

/// interpolate() as a module (torch.nn.Upsample).
class Upsample : public ModuleOf<Upsample> {
 public:
  explicit Upsample(InterpolateOptions options) : options_(std::move(options)) {}
  Var forward(const Var& x) const { return interpolate(x, options_); }
  std::string details() const override { return options_.mode == Interpolation::nearest ? "nearest" : "linear"; }

 private:
  InterpolateOptions options_;
};

}  // namespace ashlar::nn
