// Blocks of space moved to channels or to the batch, and back: reshapes and transpositions.
#include <algorithm>
#include <utility>
#include <vector>

#include "penstock/session/ops/array_ops.h"
#include "penstock/session/ops/internal.h"

namespace penstock::session {

using internal::In;
using internal::Reject;
using ir::Value;

namespace {

using Dims = std::vector<int64_t>;

// Larger ones would overflow extents; no tensor in memory has so many rows.
constexpr int64_t kLargestBlock = int64_t{1} << 20;
constexpr int64_t kLargestPadding = int64_t{1} << 40;

// To NHWC and back; nullopt for an unknown format.
std::optional<bool> ChannelsFirst(absl::string_view data_format) {
  if (data_format == "NHWC" || data_format.empty()) return false;
  if (data_format == "NCHW") return true;
  return std::nullopt;
}

Value ToChannelsLast(Value x, bool channels_first) {
  return channels_first ? ir::Transpose(x, {0, 2, 3, 1}) : x;
}
Value FromChannelsLast(Value x, bool channels_first) {
  return channels_first ? ir::Transpose(x, {0, 3, 1, 2}) : x;
}

Value SpaceToDepthOf(Value x, int64_t b) {
  const int64_t n = x.shape().dim(0), h = x.shape().dim(1), w = x.shape().dim(2),
                c = x.shape().dim(3);
  if (h % b != 0 || w % b != 0) {
    return Reject(x, "height and width of ", x.type().ToString(),
                  " have to be multiples of block_size ", b);
  }
  x = ir::Reshape(x, Shape({n, h / b, b, w / b, b, c}));
  return ir::Reshape(ir::Transpose(x, {0, 1, 3, 2, 4, 5}), Shape({n, h / b, w / b, b * b * c}));
}

Value DepthToSpaceOf(Value x, int64_t b) {
  const int64_t n = x.shape().dim(0), h = x.shape().dim(1), w = x.shape().dim(2),
                c = x.shape().dim(3);
  if (c % (b * b) != 0) {
    return Reject(x, "the channels of ", x.type().ToString(), " have to be a multiple of ", b * b);
  }
  x = ir::Reshape(x, Shape({n, h, w, b, b, c / (b * b)}));
  return ir::Reshape(ir::Transpose(x, {0, 1, 3, 2, 4, 5}), Shape({n, h * b, w * b, c / (b * b)}));
}

Tensor AddBlocks(absl::string_view type, const Tensor& input, int64_t block_size,
                 absl::string_view name, absl::string_view data_format, SourceLocation where,
                 Value (*function)(Value x, int64_t block)) {
  const std::optional<bool> channels_first = ChannelsFirst(data_format);
  if (!channels_first.has_value() || block_size < 1 || block_size > kLargestBlock) {
    return FailOp({input}, type,
                  absl::StrCat("expects a block_size from 1 to ", kLargestBlock,
                               " and data_format NHWC or NCHW, "
                               "got ",
                               block_size, " and \"", data_format, "\""),
                  where);
  }
  return AddOp(type, {input}, name, where, [=, first = *channels_first](In in) -> Value {
    if (in[0].rank() != 4) return Reject(in[0], "expects 4 axes, got ", in[0].type().ToString());
    const Value y = function(ToChannelsLast(in[0], first), block_size);
    return y.valid() ? FromChannelsLast(y, first) : y;
  });
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

Value SpaceToBatch(Value x, const Dims& block, const Pairs& paddings) {
  const int64_t m = static_cast<int64_t>(block.size());
  std::vector<ir::PadAxis> pad(x.rank());
  for (int64_t i = 0; i < m; ++i) pad[1 + i] = {paddings[i].first, paddings[i].second};
  x = ir::Pad(x, 0, pad);
  if (!x.valid()) return x;
  Dims split{x.shape().dim(0)}, joined{x.shape().dim(0)};
  ir::Axes blocks, places;
  for (int64_t i = 0; i < m; ++i) {
    const int64_t extent = x.shape().dim(static_cast<int>(1 + i));
    if (extent % block[i] != 0) {
      return Reject(x, "padded axis ", 1 + i, " of ", extent,
                    " elements is not a multiple of its block of ", block[i]);
    }
    split.insert(split.end(), {extent / block[i], block[i]});
    joined[0] *= block[i];
    joined.push_back(extent / block[i]);
    places.push_back(1 + 2 * i), blocks.push_back(2 + 2 * i);
  }
  ir::Axes permutation = blocks;
  permutation.push_back(0);
  permutation.insert(permutation.end(), places.begin(), places.end());
  for (int i = static_cast<int>(m) + 1; i < x.rank(); ++i) {
    permutation.push_back(static_cast<int64_t>(split.size()));
    split.push_back(x.shape().dim(i));
    joined.push_back(x.shape().dim(i));
  }
  if (split.size() > base::kMaxRank) return Reject(x, "too many axes");
  return ir::Reshape(ir::Transpose(ir::Reshape(x, Shape(split)), permutation), Shape(joined));
}

Value BatchToSpace(Value x, const Dims& block, const Pairs& crops) {
  const int64_t m = static_cast<int64_t>(block.size());
  int64_t all = 1;
  for (const int64_t b : block) {
    if (all > x.shape().dim(0)) break;
    all *= b;
  }
  if (x.shape().dim(0) % all != 0) {
    return Reject(x, "the batch of ", x.type().ToString(), " is not a multiple of the ", all,
                  " elements of a block");
  }
  Dims split = block, joined{x.shape().dim(0) / all};
  split.push_back(joined[0]);
  ir::Axes permutation{m};
  std::vector<ir::PadAxis> crop(x.rank());
  for (int64_t i = 0; i < m; ++i) {
    permutation.insert(permutation.end(), {m + 1 + i, i});
    joined.push_back(x.shape().dim(static_cast<int>(1 + i)) * block[i]);
    crop[1 + i] = {-crops[i].first, -crops[i].second};
  }
  for (int i = 1; i < x.rank(); ++i) {
    split.push_back(x.shape().dim(i));
    if (i <= m) continue;
    permutation.push_back(m + i);
    joined.push_back(x.shape().dim(i));
  }
  if (split.size() > base::kMaxRank) return Reject(x, "too many axes");
  x = ir::Reshape(ir::Transpose(ir::Reshape(x, Shape(split)), permutation), Shape(joined));
  return x.valid() ? ir::Pad(x, 0, crop) : x;
}

Tensor AddBatchBlocks(absl::string_view type, const Tensor& input, const Dims& block,
                      const Pairs& pairs, absl::string_view name, SourceLocation where,
                      Value (*function)(Value x, const Dims& block, const Pairs& pairs)) {
  return AddOp(type, {input}, name, where, [=](In in) -> Value {
    const bool positive =
        std::all_of(block.begin(), block.end(),
                    [](int64_t b) { return b > 0 && b <= kLargestBlock; }) &&
        std::all_of(pairs.begin(), pairs.end(), [](const auto& pair) {
          return std::max(std::abs(pair.first), std::abs(pair.second)) <= kLargestPadding;
        });
    if (block.size() != pairs.size() || static_cast<int>(block.size()) >= in[0].rank() ||
        !positive) {
      return Reject(in[0], "expects a positive block and a pair for some axes after the batch of ",
                    in[0].type().ToString(), ", got ", block.size(), " and ", pairs.size());
    }
    return function(in[0], block, pairs);
  });
}

}  // namespace

Tensor SpaceToDepth(const Tensor& input, int64_t block_size, absl::string_view name,
                    absl::string_view data_format, SourceLocation where) {
  return AddBlocks("SpaceToDepth", input, block_size, name, data_format, where, SpaceToDepthOf);
}

Tensor DepthToSpace(const Tensor& input, int64_t block_size, absl::string_view name,
                    absl::string_view data_format, SourceLocation where) {
  return AddBlocks("DepthToSpace", input, block_size, name, data_format, where, DepthToSpaceOf);
}

Tensor SpaceToBatchND(const Tensor& input, const std::vector<int64_t>& block_shape,
                      const std::vector<std::pair<int64_t, int64_t>>& paddings,
                      absl::string_view name, SourceLocation where) {
  return AddBatchBlocks("SpaceToBatchND", input, block_shape, paddings, name, where, SpaceToBatch);
}

Tensor BatchToSpaceND(const Tensor& input, const std::vector<int64_t>& block_shape,
                      const std::vector<std::pair<int64_t, int64_t>>& crops, absl::string_view name,
                      SourceLocation where) {
  return AddBatchBlocks("BatchToSpaceND", input, block_shape, crops, name, where, BatchToSpace);
}

}  // namespace penstock::session
