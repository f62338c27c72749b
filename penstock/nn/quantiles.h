// Quantile sketch, as in Keras's Discretization: values with weights, merged and compressed to
// about 1 / epsilon of them. Internal to room nn.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::nn::internal {

class QuantileSummary {
 public:
  explicit QuantileSummary(double epsilon = 0.01) : epsilon_(epsilon) {}

  void Add(std::vector<float> numbers);
  bool empty() const { return points_.empty(); }
  // num_bins - 1 boundaries (fewer if fewer numbers were added) of bins with about equal weight.
  std::vector<double> Boundaries(int64_t num_bins) const;

 private:
  struct Point {
    double value, weight;
  };
  static std::vector<Point> Compress(const std::vector<Point>& points, double epsilon);

  double epsilon_;
  std::vector<Point> points_;  // ascending by value
};

}  // namespace penstock::nn::internal
