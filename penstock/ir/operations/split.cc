// Split: parts of a value along an axis. A slice for each would do, but the gradients of slices are
// as large as the whole, mostly zeros, and have to be added; here they are concatenated.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

using Sizes = std::vector<int64_t>;

const OpDef kSplit = {
    .name = "penstock.split",
    .infer = [](const Node& node) -> InferResult {
      const TensorType& whole = node.operands[0].type();
      const int64_t axis = node.attributes.Get<int64_t>("axis");
      const Sizes& sizes = node.attributes.Get<Sizes>("sizes");
      int64_t sum = 0;
      bool fits = !sizes.empty();
      std::vector<TensorType> parts;
      for (int64_t size : sizes) {
        fits = fits && size >= 0;
        sum += size;
        parts.push_back(whole);
        if (fits) parts.back().shape.set_dim(axis, size);
      }
      if (fits && sum == whole.shape.dim(axis)) return parts;
      return OpError(node, absl::StrCat("the sizes ", MlirList(sizes), " do not add up to axis ",
                                        axis, " of ", whole.ToString()));
    },
    .gradient = [](const GradientArgs& g) -> Values {
      Values parts;
      for (size_t i = 0; i < g.cotangents.size(); ++i) {
        parts.push_back(g.cotangents[i].valid() ? g.cotangents[i] : SplatLike(g.results[i], 0));
      }
      return {Concatenate(parts, g.node.attributes.Get<int64_t>("axis"))};
    },
    .print =
        [](Printer& printer, const Node& node) {
          const TensorType& whole = node.operands[0].type();
          const int64_t axis = node.attributes.Get<int64_t>("axis");
          std::vector<std::string> names(node.results.size());
          int64_t begin = 0;
          for (size_t i = 0; i < names.size(); ++i) {
            const int64_t end = begin + node.results[i].shape.dim(axis);
            std::vector<std::string> ranges;
            for (int k = 0; k < whole.shape.rank(); ++k) {
              ranges.push_back(k == axis ? absl::StrCat(begin, ":", end)
                                         : absl::StrCat("0:", whole.shape.dim(k)));
            }
            begin = end;
            if (!printer.IsUsed(static_cast<int>(i))) continue;
            names[i] = printer.FreshName();
            printer.PlainLine(absl::StrCat(names[i], " = stablehlo.slice ",
                                           printer.Name(node.operands[0]), " [",
                                           absl::StrJoin(ranges, ", "), "] : (", MlirType(whole),
                                           ") -> ", MlirType(node.results[i])));
          }
          printer.NameResults(std::move(names));
        }};

}  // namespace

Values Split(Value x, const std::vector<int64_t>& sizes, int64_t axis) {
  Values parts(sizes.size());
  if (!x.valid() || !NormalizeAxis(x, axis, "split")) return parts;
  if (sizes.size() == 1 && sizes[0] == x.shape().dim(static_cast<int>(axis))) return {x};
  Values made = x.graph()->Emit(kSplit, {x}, {{"axis", axis}, {"sizes", sizes}});
  return made.empty() ? parts : made;
}

Values Split(Value x, int parts, int64_t axis) {
  if (!x.valid() || !NormalizeAxis(x, axis, "split")) return Values(parts);
  const int64_t extent = x.shape().dim(static_cast<int>(axis));
  if (parts < 1 || extent % parts != 0) {
    x.graph()->Fail(
        absl::InvalidArgumentError(absl::StrCat("split: axis ", axis, " of ", x.type().ToString(),
                                                " cannot be split into ", parts, " equal parts")));
    return Values(std::max(parts, 0));
  }
  return Split(x, Sizes(parts, extent / parts), axis);
}

OpList SplitOps() {
  static constexpr const OpDef* kOps[] = {&kSplit};
  return kOps;
}

}  // namespace penstock::ir
