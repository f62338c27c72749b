#include "penstock/session/ops/spatial.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace penstock::session::internal {

std::optional<Layout> LayoutOf(absl::string_view data_format, int spatial) {
  static constexpr absl::string_view kAxes[] = {"", "W", "HW", "DHW"};
  if (data_format.empty() || data_format == absl::StrCat("N", kAxes[spatial], "C")) {
    return Layout{spatial, false};
  }
  // tf.nn.conv1d and separable_conv2d take the names of two dimensions, too.
  if (data_format == absl::StrCat("NC", kAxes[spatial])) return Layout{spatial, true};
  if (spatial == 1 && data_format == "NHWC") return Layout{spatial, false};
  if (spatial == 1 && data_format == "NCHW") return Layout{spatial, true};
  return std::nullopt;
}

std::optional<std::vector<int64_t>> PerAxis(const Ints& ints, const Layout& layout) {
  const std::vector<int64_t>& given = ints.values();
  if (std::any_of(given.begin(), given.end(), [](int64_t v) { return v < 1; })) {
    return std::nullopt;
  }
  if (given.size() == static_cast<size_t>(layout.rank())) return given;
  std::vector<int64_t> all(layout.rank(), 1);
  if (given.empty()) return all;
  if (given.size() != 1 && given.size() != static_cast<size_t>(layout.spatial)) {
    return std::nullopt;
  }
  for (int i = 0; i < layout.spatial; ++i) {
    all[layout.first_spatial() + i] = given[given.size() == 1 ? 0 : i];
  }
  return all;
}

std::optional<Pairs> PaddingOf(const Padding& padding, const Shape& shape,
                               const std::vector<int64_t>& window,
                               const std::vector<int64_t>& strides,
                               const std::vector<int64_t>& dilations) {
  const size_t rank = static_cast<size_t>(shape.rank());
  if (padding.name() == "VALID") return Pairs(rank, {0, 0});
  if (padding.name() == "EXPLICIT") {
    if (padding.pairs().size() != rank) return std::nullopt;
    for (const auto& [low, high] : padding.pairs()) {
      if (low < 0 || high < 0) return std::nullopt;
    }
    return padding.pairs();
  }
  if (padding.name() != "SAME") return std::nullopt;
  Pairs pairs;
  for (size_t i = 0; i < rank; ++i) {
    pairs.push_back(
        ir::SamePadding(shape.dim(static_cast<int>(i)), window[i], strides[i], dilations[i]));
  }
  return pairs;
}

}  // namespace penstock::session::internal
