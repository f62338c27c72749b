// Arguments of convolutions and pooling: where the spatial axes are, strides, padding. For the
// sources of ops/ only.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/ir/ops.h"
#include "penstock/session/ops/operand.h"

namespace penstock::session::internal {

// Layout of a value with `spatial` spatial axes.
struct Layout {
  int spatial = 2;
  bool channels_first = false;

  int rank() const { return spatial + 2; }
  int channels() const { return channels_first ? 1 : spatial + 1; }
  int first_spatial() const { return channels_first ? 2 : 1; }
};
// "" and "NHWC" (NWC, NDHWC), "NCHW" (NCW, NCDHW); nullopt for others.
std::optional<Layout> LayoutOf(absl::string_view data_format, int spatial);

// A number for each axis of the value: of none ones, of one it for the spatial axes, of `spatial`
// those. nullopt if there are others, or numbers below 1.
std::optional<std::vector<int64_t>> PerAxis(const Ints& ints, const Layout& layout);

// Padding of all axes of a value of this shape; the windows' sizes are those before dilation.
// nullopt if the padding is malformed.
using Pairs = Padding::Pairs;
std::optional<Pairs> PaddingOf(const Padding& padding, const Shape& shape,
                               const std::vector<int64_t>& window,
                               const std::vector<int64_t>& strides,
                               const std::vector<int64_t>& dilations);

// The elements of the spatial axes.
template <typename T>
std::vector<T> SpatialPart(const std::vector<T>& each, const Layout& layout) {
  return {each.begin() + layout.first_spatial(),
          each.begin() + layout.first_spatial() + layout.spatial};
}

}  // namespace penstock::session::internal
