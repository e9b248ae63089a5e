// Curves as a picture.
#pragma once

#include <string>
#include <vector>

namespace ashlar::nn {

/// y over x; a point that isn't finite is left out.
struct Curve {
  std::string name;
  std::vector<double> x, y;
  bool is_joined = true;    ///< by a line; otherwise each point is a dot by itself
  std::string colour = {};  ///< as SVG names it; none: one of six, by the curve's place
};

/// A part of the x axis. Those of one name have one colour.
struct Band {
  std::string name;
  double from = 0, to = 0;
};

/// Curves that share their axes.
struct Panel {
  std::string title;
  std::vector<Curve> curves;
  std::vector<Band> bands = {};  ///< shaded behind the curves; the x axis is as wide as both
};

/// An SVG (version 1.1) that any browser shows: panels one below the other, each with labelled axes, a grid and the
/// names of its curves and bands. Panels without a finite point say so. `x_title` stands below each.
std::string plot_svg(const std::string& title, const std::vector<Panel>& panels, const std::string& x_title);

}  // namespace ashlar::nn
