#include "nn/trainer/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

namespace ashlar::nn {
namespace {

// In pixels.
constexpr double kWidth = 720, kPanel = 240, kLeft = 70, kRight = 150, kTop = 34, kGap = 46;
constexpr std::array<const char*, 6> kColours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};
constexpr std::array<const char*, 4> kShades{"#eeeeee", "#dcebf7", "#f2b8a0", "#fbefd5"};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else {
      result += c;
    }
  }
  return result;
}

std::string number_text(double value) {
  std::ostringstream text;
  text.precision(4);
  text << value;
  return text.str();
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
  void widen() {
    if (low < high) return;
    const double room = low == 0 ? 1 : std::abs(low) / 2;
    low -= room;
    high += room;
  }
};

/// Round numbers of the range, about five: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> ticks_of(const Range& range) {
  const double rough = (range.high - range.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) step = factor * power >= rough ? factor * power : step;
  std::vector<double> ticks;
  if (!(step > 0) || !std::isfinite(step)) return ticks;
  for (double i = std::ceil(range.low / step); i * step <= range.high + step * 1e-9; i++) ticks.push_back(i * step);
  return ticks;
}

class Drawing {
 public:
  Drawing(const std::string& title, size_t panels) {
    const double height = kTop + static_cast<double>(panels) * (kPanel + kGap) + 10;
    out_ << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")" << kWidth << R"(" height=")" << height
         << R"(" viewBox="0 0 )" << kWidth << ' ' << height << R"(" font-family="sans-serif" font-size="12">)" << '\n'
         << R"(<rect width="100%" height="100%" fill="white"/>)" << '\n';
    text(kWidth / 2, 18, title, "middle", 14);
  }

  void panel(const Panel& panel, size_t index, const std::string& x_title) {
    top_ = kTop + 16 + static_cast<double>(index) * (kPanel + kGap);
    text(kLeft, top_ - 5, panel.title, "start", 13);
    x_ = y_ = Range();
    for (const Curve& curve : panel.curves) {
      for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); i++) {
        if (!std::isfinite(curve.x[i]) || !std::isfinite(curve.y[i])) continue;
        x_.include(curve.x[i]);
        y_.include(curve.y[i]);
      }
    }
    const bool is_empty = y_.is_empty();
    for (const Band& band : panel.bands) {
      x_.include(band.from);
      x_.include(band.to);
    }
    if (!is_empty) {
      x_.widen();
      y_.widen();
      bands(panel.bands, panel.curves.size());
    }
    rectangle(kLeft, right(), top_, bottom(), R"(fill="none" stroke="#888")");
    if (is_empty) return text((kLeft + right()) / 2, (top_ + bottom()) / 2, "nothing finite to show", "middle");
    axes(x_title);
    for (size_t i = 0; i < panel.curves.size(); i++) this->curve(panel.curves[i], i);
  }

  std::string finish() {
    out_ << "</svg>\n";
    return out_.str();
  }

 private:
  static double right() { return kWidth - kRight; }
  double bottom() const { return top_ + kPanel - 30; }
  double at_x(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (right() - kLeft); }
  double at_y(double y) const { return bottom() - (y - y_.low) / (y_.high - y_.low) * (bottom() - top_); }

  void text(double x, double y, const std::string& what, const char* anchor, int size = 12) {
    out_ << R"(<text x=")" << x << R"(" y=")" << y << R"(" text-anchor=")" << anchor << R"(" font-size=")" << size
         << R"(">)" << escaped(what) << "</text>\n";
  }

  void line(double x1, double y1, double x2, double y2, const std::string& colour) {
    out_ << R"(<line x1=")" << x1 << R"(" y1=")" << y1 << R"(" x2=")" << x2 << R"(" y2=")" << y2 << R"(" stroke=")"
         << colour << R"("/>)" << '\n';
  }

  void rectangle(double x1, double x2, double y1, double y2, const std::string& style) {
    out_ << R"(<rect x=")" << x1 << R"(" y=")" << y1 << R"(" width=")" << x2 - x1 << R"(" height=")" << y2 - y1
         << R"(" )" << style << "/>\n";
  }

  /// Where the name of a curve or band stands, and its colour's sample before it.
  double legend(size_t index) const { return top_ + 14 + 18 * static_cast<double>(index); }

  /// Their names stand below those of the curves.
  void bands(const std::vector<Band>& bands, size_t curves) {
    std::vector<std::string> names;
    for (const Band& band : bands) {
      const auto known = std::ranges::find(names, band.name);
      const auto index = static_cast<size_t>(known - names.begin());
      const std::string style = std::string("fill=\"") + kShades[index % kShades.size()] + "\"";
      if (known == names.end()) {
        names.push_back(band.name);
        const double y = legend(curves + index);
        rectangle(right() + 10, right() + 30, y - 10, y, style);
        text(right() + 35, y, band.name, "start");
      }
      rectangle(at_x(band.from), at_x(band.to), top_, bottom(), style);
    }
  }

  void axes(const std::string& x_title) {
    for (const double tick : ticks_of(x_)) {
      line(at_x(tick), top_, at_x(tick), bottom(), "#ddd");
      text(at_x(tick), bottom() + 15, number_text(tick), "middle");
    }
    for (const double tick : ticks_of(y_)) {
      line(kLeft, at_y(tick), right(), at_y(tick), "#ddd");
      text(kLeft - 6, at_y(tick) + 4, number_text(tick), "end");
    }
    text((kLeft + right()) / 2, bottom() + 30, x_title, "middle");
  }

  void curve(const Curve& curve, size_t index) {
    const std::string colour = curve.colour.empty() ? kColours[index % kColours.size()] : curve.colour;
    std::ostringstream line_points, dots;
    const auto dot = [&](std::ostream& out, double x, double y) {
      out << R"(<circle r=")" << (curve.is_joined ? 2 : 3.5) << R"(" cx=")" << x << R"(" cy=")" << y << R"(" fill=")"
          << colour << R"("/>)" << '\n';
    };
    for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); i++) {
      if (!std::isfinite(curve.x[i]) || !std::isfinite(curve.y[i])) continue;
      line_points << at_x(curve.x[i]) << ',' << at_y(curve.y[i]) << ' ';
      if (!curve.is_joined || curve.x.size() <= 60) dot(dots, at_x(curve.x[i]), at_y(curve.y[i]));
    }
    if (curve.is_joined) {
      out_ << R"(<polyline fill="none" stroke-width="1.5" stroke=")" << colour << R"(" points=")" << line_points.str()
           << R"("/>)" << '\n';
    }
    out_ << dots.str();
    const double y = legend(index);
    if (curve.is_joined) {
      line(right() + 10, y - 4, right() + 30, y - 4, colour);
    } else {
      dot(out_, right() + 20, y - 4);
    }
    text(right() + 35, y, curve.name, "start");
  }

  std::ostringstream out_;
  double top_ = 0;
  Range x_, y_;
};

}  // namespace

std::string plot_svg(const std::string& title, const std::vector<Panel>& panels, const std::string& x_title) {
  Drawing drawing(title, panels.size());
  for (size_t i = 0; i < panels.size(); i++) drawing.panel(panels[i], i, x_title);
  return drawing.finish();
}

}  // namespace ashlar::nn
