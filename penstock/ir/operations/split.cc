// Split: parts of a value along an axis. A slice for each would do, but the gradients of slices are
// as large as the whole, mostly zeros, and have to be added; here they are concatenated.
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/ir/dynamic_forms.h"
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
        fits = fits && size >= 0 && size <= whole.shape.dim(axis) - sum;
        if (fits) sum += size;
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
            SliceRange range{.begin = std::vector<int64_t>(whole.shape.rank()),
                             .end = ListOf(whole.shape),
                             .strides = std::vector<int64_t>(whole.shape.rank(), 1)};
            range.begin[axis] = begin;
            // Along the axis of the batch, every part is a multiple of it, or empty.
            begin += node.results[i].shape.dim(static_cast<int>(axis));
            range.end[axis] = begin;
            if (!printer.IsUsed(static_cast<int>(i))) continue;
            const std::string text =
                SliceText(printer, printer.Name(node.operands[0]), whole, range, node.results[i]);
            names[i] = printer.FreshName();
            printer.PlainLine(absl::StrCat(names[i], " = ", text));
          }
          printer.NameResults(std::move(names));
        },
    .has_dynamic_form = true};

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
