#include "penstock/nn/quantiles.h"

#include <algorithm>
#include <cmath>

namespace penstock::nn::internal {
namespace {

// Linear interpolation at `at` between the points (x[i], y[i]), constant outside.
double Interpolate(double at, const std::vector<double>& x, const std::vector<double>& y) {
  if (at <= x.front()) return y.front();
  if (at >= x.back()) return y.back();
  const size_t i = static_cast<size_t>(std::upper_bound(x.begin(), x.end(), at) - x.begin());
  return y[i - 1] + (y[i] - y[i - 1]) * (at - x[i - 1]) / (x[i] - x[i - 1]);
}

}  // namespace

void QuantileSummary::Add(std::vector<float> numbers) {
  if (numbers.empty()) return;
  std::sort(numbers.begin(), numbers.end());
  const double step = std::max(1.0, static_cast<double>(numbers.size()) * epsilon_);
  for (size_t i = static_cast<size_t>(step - 1); i < numbers.size();
       i += static_cast<size_t>(step)) {
    points_.push_back({numbers[i], step});
  }
  std::stable_sort(points_.begin(), points_.end(),
                   [](const Point& a, const Point& b) { return a.value < b.value; });
  points_ = Compress(points_, epsilon_);
}

// Points at the quantiles epsilon, 2 epsilon, ..., from the cumulative weights.
std::vector<QuantileSummary::Point> QuantileSummary::Compress(const std::vector<Point>& points,
                                                              double epsilon) {
  if (static_cast<double>(points.size()) * epsilon < 1) return points;
  std::vector<double> values, cumulated, shares;
  double total = 0;
  for (const Point& p : points) {
    values.push_back(p.value);
    cumulated.push_back(total += p.weight);
  }
  for (double c : cumulated) shares.push_back(c / total);
  std::vector<Point> out;
  double before = 0;
  const auto count = static_cast<int64_t>(std::ceil(1 / epsilon));
  for (int64_t i = 0; i < count; ++i) {
    const double share = epsilon + static_cast<double>(i) * epsilon;
    const double weight = Interpolate(share, shares, cumulated);
    out.push_back({Interpolate(share, shares, values), weight - before});
    before = weight;
  }
  return out;
}

std::vector<double> QuantileSummary::Boundaries(int64_t num_bins) const {
  std::vector<double> boundaries;
  for (const Point& p : Compress(points_, 1.0 / static_cast<double>(num_bins))) {
    boundaries.push_back(p.value);
  }
  if (!boundaries.empty()) boundaries.pop_back();
  return boundaries;
}

}  // namespace penstock::nn::internal
