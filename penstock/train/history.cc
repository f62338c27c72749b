#include "penstock/train/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "penstock/base/json_dump.h"

namespace penstock::train {
namespace {

struct HistoryPoint {
  double epoch;  // from 1
  double value;
};

// One number of training and of validation.
struct Chart {
  std::string name;
  std::vector<HistoryPoint> training, validation;
  double low = HUGE_VAL, high = -HUGE_VAL;
};

std::vector<HistoryPoint> PointsOf(const History& history, absl::string_view name) {
  std::vector<HistoryPoint> points;
  for (size_t i = 0; i < history.epochs.size(); ++i) {
    const double* value = history.epochs[i].Find(name);
    if (value != nullptr && std::isfinite(*value)) {
      points.push_back({static_cast<double>(i + 1), *value});
    }
  }
  return points;
}

std::vector<Chart> ChartsOf(const History& history, const History::PlotOptions& options) {
  std::vector<std::string> names;
  for (const std::string& name : options.names.empty() ? history.names() : options.names) {
    const std::string base(absl::StripPrefix(name, "val_"));
    if (std::find(names.begin(), names.end(), base) == names.end()) names.push_back(base);
  }
  std::vector<Chart> charts;
  for (const std::string& name : names) {
    Chart chart{.name = name,
                .training = PointsOf(history, name),
                .validation = PointsOf(history, "val_" + name)};
    for (const auto* points : {&chart.training, &chart.validation}) {
      for (const HistoryPoint& point : *points) {
        chart.low = std::min(chart.low, point.value);
        chart.high = std::max(chart.high, point.value);
      }
    }
    if (chart.low > chart.high) continue;  // nothing to show
    if (chart.low == chart.high) {         // a flat curve in the middle
      const double margin = chart.low == 0 ? 1 : std::abs(chart.low) / 2;
      constexpr double kMax = std::numeric_limits<double>::max();
      chart.low = std::max(chart.low - margin, -kMax);
      chart.high = std::min(chart.high + margin, kMax);
    }
    charts.push_back(std::move(chart));
  }
  return charts;
}

// Where `value` is between low and high, 0 to 1. Halves first: their difference may overflow.
double Share(double value, double low, double high) {
  const double share = (value / 2 - low / 2) / (high / 2 - low / 2);
  return std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.5;  // equal, or denormal numbers
}

std::string ChartText(const Chart& chart, double epochs, int width, int height) {
  std::vector<std::string> rows(height, std::string(width, ' '));
  const auto draw = [&](const std::vector<HistoryPoint>& points, char mark) {
    for (const HistoryPoint& point : points) {
      const auto x = std::lround(Share(point.epoch, 1, epochs) * (width - 1));
      const auto y = std::lround((1 - Share(point.value, chart.low, chart.high)) * (height - 1));
      char& at = rows[y][x];
      at = at == ' ' || at == mark ? mark : '@';
    }
  };
  draw(chart.training, '*');
  draw(chart.validation, 'o');
  std::string out = chart.name;
  if (!chart.training.empty()) {
    absl::StrAppend(&out, absl::StrFormat("  * %.4g", chart.training.back().value));
  }
  if (!chart.validation.empty()) {
    absl::StrAppend(&out, absl::StrFormat("  o validation %.4g", chart.validation.back().value));
  }
  out += "\n";
  for (int y = 0; y < height; ++y) {
    const bool labelled = y == 0 || y == height - 1;
    const std::string label = labelled ? absl::StrFormat("%10.4g", y == 0 ? chart.high : chart.low)
                                       : std::string(10, ' ');
    absl::StrAppend(&out, label, " |", absl::StripTrailingAsciiWhitespace(rows[y]), "\n");
  }
  const std::string last = absl::StrFormat("%.0f", epochs);
  absl::StrAppend(&out, std::string(11, ' '), "+", std::string(width, '-'), "\n",
                  std::string(12, ' '), "1",
                  std::string(std::max<int>(1, width - 1 - static_cast<int>(last.size())), ' '),
                  last, " epoch\n");
  return out;
}

// ---- SVG ----

constexpr double kPanelWidth = 420, kPanelHeight = 280, kLeft = 62, kTop = 34, kRight = 16,
                 kBottom = 40;
constexpr char kTrainingColor[] = "#1f77b4", kValidationColor[] = "#ff7f0e";

// XML has neither invalid UTF-8 nor control characters.
std::string Escaped(const std::string& text) {
  std::string valid = base::ReplaceInvalidUtf8(text);
  for (char& c : valid) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return absl::StrReplaceAll(valid, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

std::string Curve(const std::vector<HistoryPoint>& points, const Chart& chart, double epochs,
                  const char* color) {
  if (points.empty()) return "";
  std::string line, dots;
  for (const HistoryPoint& point : points) {
    const double x = kLeft + Share(point.epoch, 1, epochs) * (kPanelWidth - kLeft - kRight);
    const double y =
        kTop + (1 - Share(point.value, chart.low, chart.high)) * (kPanelHeight - kTop - kBottom);
    absl::StrAppend(&line, line.empty() ? "" : " ", absl::StrFormat("%.1f,%.1f", x, y));
    absl::StrAppend(&dots, absl::StrFormat("    <circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" "
                                           "fill=\"%s\"><title>epoch %g: %.6g</title></circle>\n",
                                           x, y, color, point.epoch, point.value));
  }
  return absl::StrCat("    <polyline points=\"", line, "\" fill=\"none\" stroke=\"", color,
                      "\" stroke-width=\"1.5\"/>\n", dots);
}

std::string Panel(const Chart& chart, double epochs, double x) {
  const double right = kPanelWidth - kRight, bottom = kPanelHeight - kBottom;
  std::string out = absl::StrFormat("  <g transform=\"translate(%.0f,0)\">\n", x);
  absl::StrAppend(
      &out, absl::StrFormat("    <text x=\"%.0f\" y=\"20\" font-weight=\"bold\">%s</text>\n", kLeft,
                            Escaped(chart.name)));
  constexpr int kTicks = 4;
  for (int i = 0; i <= kTicks; ++i) {
    const double share = static_cast<double>(i) / kTicks;
    const double y = bottom - share * (bottom - kTop);
    const double value = chart.low * (1 - share) + chart.high * share;
    absl::StrAppend(&out,
                    absl::StrFormat("    <line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" "
                                    "stroke=\"#ddd\"/>\n    <text x=\"%.0f\" y=\"%.1f\" "
                                    "text-anchor=\"end\">%.4g</text>\n",
                                    kLeft, y, right, y, kLeft - 6, y + 4, value));
  }
  absl::StrAppend(&out, Curve(chart.training, chart, epochs, kTrainingColor),
                  Curve(chart.validation, chart, epochs, kValidationColor));
  absl::StrAppend(
      &out, absl::StrFormat("    <text x=\"%.0f\" y=\"%.0f\">1</text>\n    <text x=\"%.0f\" "
                            "y=\"%.0f\" text-anchor=\"end\">%.0f</text>\n    <text x=\"%.0f\" "
                            "y=\"%.0f\" text-anchor=\"middle\">epoch</text>\n",
                            kLeft, bottom + 16, right, bottom + 16, epochs, (kLeft + right) / 2,
                            bottom + 32));
  if (!chart.validation.empty()) {
    absl::StrAppend(&out,
                    absl::StrFormat("    <text x=\"%.0f\" y=\"20\" text-anchor=\"end\"><tspan "
                                    "fill=\"%s\">training</tspan> <tspan fill=\"%s\">"
                                    "validation</tspan></text>\n",
                                    right, kTrainingColor, kValidationColor));
  }
  return out + "  </g>\n";
}

}  // namespace

std::vector<double> History::operator[](absl::string_view name) const {
  std::vector<double> values;
  for (const Logs& logs : epochs) {
    if (const double* value = logs.Find(name); value != nullptr) values.push_back(*value);
  }
  return values;
}

std::vector<std::string> History::names() const {
  std::vector<std::string> names;
  for (const Logs& logs : epochs) {
    for (const auto& [name, value] : logs) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string History::ToText(const PlotOptions& options) const {
  const int width = std::clamp(options.width, 2, 1000),
            height = std::clamp(options.height, 2, 1000);
  std::string out;
  for (const Chart& chart : ChartsOf(*this, options)) {
    absl::StrAppend(&out, out.empty() ? "" : "\n",
                    ChartText(chart, static_cast<double>(epochs.size()), width, height));
  }
  return out;
}

std::string History::ToSvg(const PlotOptions& options) const {
  const std::vector<Chart> charts = ChartsOf(*this, options);
  const double width = kPanelWidth * static_cast<double>(std::max<size_t>(1, charts.size()));
  std::string out = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
      "%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n  <rect width=\"100%%\" "
      "height=\"100%%\" fill=\"white\"/>\n",
      width, kPanelHeight, width, kPanelHeight);
  for (size_t i = 0; i < charts.size(); ++i) {
    absl::StrAppend(&out, Panel(charts[i], static_cast<double>(epochs.size()),
                                kPanelWidth * static_cast<double>(i)));
  }
  return out + "</svg>\n";
}

}  // namespace penstock::train
