#include "penstock/cli/report/learning_rate_plot.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock::cli {
namespace {

// Ranges of the axes. Losses above `high` are drawn at the top: a diverging loss would flatten the
// rest of the curve.
struct CurveAxes {
  double first = 0, last = 1;  // logarithms of the rates
  double low = 0, high = 1;

  double X(double rate) const {
    return std::clamp((std::log10(rate) - first) / (last - first), 0.0, 1.0);
  }
  double Y(double loss) const { return std::clamp((loss - low) / (high - low), 0.0, 1.0); }
};

CurveAxes AxesOf(const keras::LearningRateCurve& curve) {
  CurveAxes axes;
  if (curve.points.empty()) return axes;
  axes.first = std::log10(curve.points.front().rate);
  axes.last = std::log10(curve.points.back().rate);
  if (axes.last <= axes.first) axes.last = axes.first + 1;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const keras::LearningRatePoint& point : curve.points) {
    low = std::min(low, point.smoothed);
    high = std::max(high, point.smoothed);
  }
  // Twice the loss of the beginning, if the end is higher.
  const double start = curve.points.front().smoothed;
  if (start > 0) high = std::min(high, 2 * start);
  axes.low = low;
  axes.high = high > low ? high : low + 1;
  return axes;
}

// Calls `tick` for each power of ten within the axis.
void ForPowersOfTen(const CurveAxes& axes, const std::function<void(int exponent)>& tick) {
  constexpr double kRounding = 1e-9;
  for (int e = static_cast<int>(std::ceil(axes.first - kRounding)); e <= axes.last + kRounding;
       ++e) {
    tick(e);
  }
}

}  // namespace

std::string LearningRateText(const keras::LearningRateCurve& curve, int width, int height) {
  const CurveAxes axes = AxesOf(curve);
  std::vector<std::string> rows(static_cast<size_t>(height),
                                std::string(static_cast<size_t>(width), ' '));
  const auto column = [&](double rate) {
    return static_cast<size_t>(std::lround(axes.X(rate) * (width - 1)));
  };
  if (curve.proposed.has_value()) {
    for (std::string& row : rows) row[column(*curve.proposed)] = '|';
  }
  for (const keras::LearningRatePoint& point : curve.points) {
    const auto y = static_cast<size_t>(std::lround((1 - axes.Y(point.smoothed)) * (height - 1)));
    rows[y][column(point.rate)] = '*';
  }
  std::string out = "smoothed loss\n";
  for (size_t y = 0; y < rows.size(); ++y) {
    const bool ends = y == 0 || y + 1 == rows.size();
    const std::string label =
        ends ? absl::StrFormat("%10.4g", y == 0 ? axes.high : axes.low) : std::string(10, ' ');
    absl::StrAppend(&out, label, " |", absl::StripTrailingAsciiWhitespace(rows[y]), "\n");
  }
  std::string line(static_cast<size_t>(width), '-'), labels(static_cast<size_t>(width) + 8, ' ');
  ForPowersOfTen(axes, [&](int exponent) {
    const size_t at = column(std::pow(10.0, exponent));
    const std::string text = absl::StrCat("1e", exponent);
    line[at] = '+';
    // Labels that would touch the one before are left out.
    if (at > 0 && labels[at - 1] != ' ') return;
    labels.replace(at, text.size(), text);
  });
  absl::StrAppend(&out, std::string(11, ' '), "+", line, "\n", std::string(12, ' '),
                  absl::StripTrailingAsciiWhitespace(labels), " learning rate\n");
  return out;
}

std::string LearningRateSvg(const keras::LearningRateCurve& curve) {
  constexpr double kWidth = 640, kHeight = 360, kLeft = 70, kTop = 34, kRight = 20, kBottom = 50;
  constexpr double kInnerRight = kWidth - kRight, kInnerBottom = kHeight - kBottom;
  const CurveAxes axes = AxesOf(curve);
  const auto x = [&](double rate) { return kLeft + axes.X(rate) * (kInnerRight - kLeft); };
  const auto y = [&](double loss) { return kInnerBottom - axes.Y(loss) * (kInnerBottom - kTop); };
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
      "%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "  <rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
      "  <text x=\"%.0f\" y=\"20\" font-weight=\"bold\">Learning rate range test</text>\n",
      kWidth, kHeight, kWidth, kHeight, kLeft);
  constexpr int kTicks = 4;
  for (int i = 0; i <= kTicks; ++i) {
    const double loss = axes.low + (axes.high - axes.low) * i / kTicks;
    absl::StrAppendFormat(&svg,
                          "  <line x1=\"%.0f\" y1=\"%.1f\" x2=\"%.0f\" y2=\"%.1f\" "
                          "stroke=\"#ddd\"/>\n  <text x=\"%.0f\" y=\"%.1f\" "
                          "text-anchor=\"end\">%.4g</text>\n",
                          kLeft, y(loss), kInnerRight, y(loss), kLeft - 6, y(loss) + 4, loss);
  }
  ForPowersOfTen(axes, [&](int exponent) {
    absl::StrAppendFormat(&svg,
                          "  <text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">1e%d</text>\n",
                          x(std::pow(10.0, exponent)), kInnerBottom + 18, exponent);
  });
  absl::StrAppendFormat(
      &svg, "  <text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">learning rate</text>\n",
      (kLeft + kInnerRight) / 2, kInnerBottom + 38);
  std::string line;
  for (const keras::LearningRatePoint& point : curve.points) {
    absl::StrAppendFormat(
        &svg,
        "  <circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.8\" fill=\"#9ecae1\"><title>rate "
        "%.3g: loss %.5g</title></circle>\n",
        x(point.rate), y(point.loss), point.rate, point.loss);
    absl::StrAppendFormat(&line, "%s%.1f,%.1f", line.empty() ? "" : " ", x(point.rate),
                          y(point.smoothed));
  }
  absl::StrAppendFormat(&svg,
                        "  <polyline points=\"%s\" fill=\"none\" stroke=\"#1f77b4\" "
                        "stroke-width=\"1.8\"/>\n",
                        line);
  if (curve.proposed.has_value()) {
    const double at = x(*curve.proposed);
    absl::StrAppendFormat(
        &svg,
        "  <line x1=\"%.1f\" y1=\"%.0f\" x2=\"%.1f\" y2=\"%.0f\" stroke=\"#d62728\" "
        "stroke-dasharray=\"4 3\"/>\n  <text x=\"%.1f\" y=\"%.0f\" fill=\"#d62728\">proposed: "
        "%.3g</text>\n",
        at, kTop, at, kInnerBottom, at + 5, kTop + 12, *curve.proposed);
  }
  return svg + "</svg>\n";
}

}  // namespace penstock::cli
