// Curves as a picture.
#pragma once

#include <string>
#include <vector>

namespace ashlar::nn {

/// y over x; a point that isn't finite is left out.
struct Curve {
  std::string name;
  std::vector<double> x, y;
};

/// Curves that share their axes.
struct Panel {
  std::string title;
  std::vector<Curve> curves;
};

/// An SVG (version 1.1) that any browser shows: panels one below the other, each with labelled axes, a grid and the
/// names of its curves. Panels without a finite point say so. `x_title` stands below each.
std::string plot_svg(const std::string& title, const std::vector<Panel>& panels, const std::string& x_title);

}  // namespace ashlar::nn
