// The picture of a space.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/tune/apply.h"

namespace ashlar::tune {
namespace {

constexpr double kWidth = 300, kHeight = 200, kLeft = 46, kTop = 44, kGap = 36;

/// One shape of one instance: every candidate's speed over the default's.
struct Panel {
  std::string title;
  std::vector<std::pair<double, const Outcome*>> speeds;  // sorted, slowest first
  int out = 0;
};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string format(const char* pattern, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::vector<Panel> panels_of(const Results& results) {
  std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<const Outcome*>> shapes;
  std::map<std::string, int> out;
  for (const Outcome& outcome : results.outcomes) {
    const std::string name = outcome.kernel + " " + outcome.instance;
    if (outcome.status == "timed" || outcome.status == "slow") shapes[{name, outcome.sizes}].push_back(&outcome);
    out[name] += outcome.is_out();
  }
  std::vector<Panel> panels;
  for (const auto& [key, outcomes] : shapes) {
    const auto standard = std::ranges::find_if(outcomes, [](const Outcome* o) { return o->tunables.empty(); });
    if (standard == outcomes.end()) continue;
    Panel panel{key.first + ", " + text_of(key.second), {}, out[key.first]};
    for (const Outcome* o : outcomes) panel.speeds.emplace_back((*standard)->microseconds / o->microseconds, o);
    std::ranges::sort(panel.speeds, {}, [](const auto& one) { return one.first; });
    panels.push_back(panel);
  }
  return panels;
}

std::string draw(const Panel& panel, double x0, double y0) {
  const double most = std::max(1.2, panel.speeds.back().first * 1.08);
  const auto y_of = [&](double speed) { return y0 + kHeight - kHeight * speed / most; };
  const auto count = static_cast<double>(panel.speeds.size());
  std::string svg =
      format("<text x=\"%.0f\" y=\"%.0f\" class=\"t\">%s</text>\n", x0, y0 - 24, escaped(panel.title).c_str());
  const Outcome& best = *panel.speeds.back().second;
  svg += format("<text x=\"%.0f\" y=\"%.0f\" class=\"s\">best %.2fx, %.4g us; %d left out</text>\n", x0, y0 - 9,
                panel.speeds.back().first, best.microseconds, panel.out);
  svg += format("<rect x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" class=\"f\"/>\n", x0, y0, kWidth, kHeight);
  for (double tick = 0.5; tick < most; tick += 0.5) {
    svg += format("<line x1=\"%.0f\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>", x0, x0 + kWidth, y_of(tick),
                  y_of(tick), tick == 1 ? "d" : "g");
    svg += format("<text x=\"%.0f\" y=\"%.1f\" class=\"a\">%.1f</text>\n", x0 - 6, y_of(tick) + 4, tick);
  }
  for (size_t i = 0; i < panel.speeds.size(); i++) {
    const auto& [speed, outcome] = panel.speeds[i];
    const char* kind = outcome->tunables.empty() ? "o" : outcome->status == "slow" ? "w" : "p";
    svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%s\" class=\"%s\"><title>%.2fx ",
                  x0 + kWidth * (static_cast<double>(i) + 0.5) / count, y_of(speed),
                  outcome->tunables.empty() ? "5" : "3", kind, speed) +
           escaped(text_of(outcome->tunables)) + "</title></circle>\n";
  }
  return svg + format("<text x=\"%.0f\" y=\"%.0f\" class=\"s\">", x0, y0 + kHeight + 15) +
         escaped(text_of(best.tunables)) + "</text>\n";
}

}  // namespace

std::string plot(const Results& results) {
  const std::vector<Panel> panels = panels_of(results);
  const size_t columns = std::min<size_t>(std::max<size_t>(panels.size(), 1), 3);
  const size_t rows = (panels.size() + columns - 1) / columns;
  const double width = kLeft + static_cast<double>(columns) * (kWidth + kGap);
  const double height = 34 + static_cast<double>(rows) * (kTop + kHeight + kGap);
  std::string svg =
      format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n",
             width, height, width, height);
  svg +=
      "<style>text{font-family:sans-serif;fill:#222}.t{font-size:13px;font-weight:bold}.s{font-size:11px;fill:#555}"
      ".a{font-size:10px;text-anchor:end;fill:#555}.f{fill:#fff;stroke:#999}.g{stroke:#e4e4e4}.d{stroke:#d95f02}"
      ".p{fill:#1b6ca8}.w{fill:#b9c6d2}.o{fill:#d95f02}</style>\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n";
  svg += "<text x=\"8\" y=\"18\" class=\"s\">" +
         escaped(results.where.device + " (" + results.where.target +
                 "): each dot is one setting of the tunables, slowest to quickest; speed over the default's (orange)") +
         "</text>\n";
  for (size_t i = 0; i < panels.size(); i++) {
    svg += draw(panels[i], kLeft + static_cast<double>(i % columns) * (kWidth + kGap),
                34 + kTop + static_cast<double>(i / columns) * (kTop + kHeight + kGap));
  }
  return svg + "</svg>\n";
}

}  // namespace ashlar::tune
