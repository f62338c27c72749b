// DotGeneral and MatMul.
#include "penstock/ir/operations/dot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "penstock/ir/op_def.h"
#include "penstock/ir/ops.h"
#include "penstock/ir/printer.h"

namespace penstock::ir {
namespace {

const Axes& AxesOf(const Node& node, absl::string_view name) {
  return node.attributes.Get<Axes>(name);
}

// The axes of a value of `rank` that are in neither list.
Axes FreeAxes(int rank, const Axes& contracting, const Axes& batch) {
  Axes free;
  for (int64_t i = 0; i < rank; ++i) {
    if (std::count(contracting.begin(), contracting.end(), i) +
            std::count(batch.begin(), batch.end(), i) ==
        0) {
      free.push_back(i);
    }
  }
  return free;
}

InferResult InferDot(const Node& node) {
  const TensorType &lhs = node.operands[0].type(), &rhs = node.operands[1].type();
  if (lhs.dtype != rhs.dtype)
    return OpError(node, absl::StrCat("expects one element type, got ", TypesOf(node)));
  std::vector<int64_t> dims;
  struct Pairs {
    const char* what;
    const Axes &of_lhs, &of_rhs;
  };
  for (const Pairs& p :
       {Pairs{"batch", AxesOf(node, "lhs_batch"), AxesOf(node, "rhs_batch")},
        Pairs{"contracting", AxesOf(node, "lhs_contracting"), AxesOf(node, "rhs_contracting")}}) {
    if (p.of_lhs.size() != p.of_rhs.size()) {
      return OpError(node, absl::StrCat(p.what, " axes come in pairs, got ", p.of_lhs.size(),
                                        " and ", p.of_rhs.size()));
    }
    for (size_t i = 0; i < p.of_lhs.size(); ++i) {
      const int64_t a = p.of_lhs[i], b = p.of_rhs[i];
      if (a < 0 || a >= lhs.shape.rank() || b < 0 || b >= rhs.shape.rank()) {
        return OpError(node, absl::StrCat("there is no ", p.what, " axis ", a, " or ", b, " in ",
                                          TypesOf(node)));
      }
      if (lhs.shape.dim(a) != rhs.shape.dim(b)) {
        return OpError(node, absl::StrCat(p.what, " extents differ: lhs ", lhs.ToString(), " axis ",
                                          a, " is ", lhs.shape.dim(a), ", rhs ", rhs.ToString(),
                                          " axis ", b, " is ", rhs.shape.dim(b)));
      }
      if (p.what[0] == 'b') dims.push_back(lhs.shape.dim(a));
    }
  }
  for (const char* side : {"lhs", "rhs"}) {
    Axes named = AxesOf(node, absl::StrCat(side, "_batch"));
    const Axes& contracting = AxesOf(node, absl::StrCat(side, "_contracting"));
    named.insert(named.end(), contracting.begin(), contracting.end());
    std::sort(named.begin(), named.end());
    if (const auto twice = std::adjacent_find(named.begin(), named.end()); twice != named.end()) {
      return OpError(node, absl::StrCat("axis ", *twice, " of the ", side, " is repeated"));
    }
  }
  for (int64_t i :
       FreeAxes(lhs.shape.rank(), AxesOf(node, "lhs_contracting"), AxesOf(node, "lhs_batch"))) {
    dims.push_back(lhs.shape.dim(i));
  }
  for (int64_t i :
       FreeAxes(rhs.shape.rank(), AxesOf(node, "rhs_contracting"), AxesOf(node, "rhs_batch"))) {
    dims.push_back(rhs.shape.dim(i));
  }
  if (dims.size() > base::kMaxRank)
    return OpError(node, absl::StrCat("the result has ", dims.size(), " axes"));
  return std::vector<TensorType>{{lhs.dtype, Shape(dims)}};
}

// Gradient of one side: the product of the cotangent and the other side, contracted along the other
// side's free axes. The result has the axes batch, mine free, mine contracting (in the order of the
// other's axes), or the last two exchanged, and is transposed to the operand's order.
Value GradientOfSide(const GradientArgs& g, bool of_lhs) {
  const Value mine = g.operand(of_lhs ? 0 : 1), other = g.operand(of_lhs ? 1 : 0);
  const Axes& my_contracting = AxesOf(g.node, of_lhs ? "lhs_contracting" : "rhs_contracting");
  const Axes& other_contracting = AxesOf(g.node, of_lhs ? "rhs_contracting" : "lhs_contracting");
  const Axes& my_batch = AxesOf(g.node, of_lhs ? "lhs_batch" : "rhs_batch");
  const Axes& other_batch = AxesOf(g.node, of_lhs ? "rhs_batch" : "lhs_batch");
  const Axes my_free = FreeAxes(mine.rank(), my_contracting, my_batch);
  const Axes other_free = FreeAxes(other.rank(), other_contracting, other_batch);
  // The result's axes: batch, lhs free, rhs free.
  const int64_t batch = static_cast<int64_t>(my_batch.size());
  const int64_t lhs_free = static_cast<int64_t>(of_lhs ? my_free.size() : other_free.size());
  Axes result_batch, result_other_free;
  for (int64_t i = 0; i < batch; ++i) result_batch.push_back(i);
  for (size_t i = 0; i < other_free.size(); ++i) {
    result_other_free.push_back(batch + (of_lhs ? lhs_free : 0) + static_cast<int64_t>(i));
  }
  // If this side is [.., contracting, free], the product has its order without a transposition when
  // the other side comes first.
  const bool other_first =
      !my_contracting.empty() && !my_free.empty() &&
      *std::min_element(my_contracting.begin(), my_contracting.end()) < my_free[0];
  const Value product = other_first ? DotGeneral(other, g.cotangent(),
                                                 {.lhs_contracting = other_free,
                                                  .rhs_contracting = result_other_free,
                                                  .lhs_batch = other_batch,
                                                  .rhs_batch = result_batch})
                                    : DotGeneral(g.cotangent(), other,
                                                 {.lhs_contracting = result_other_free,
                                                  .rhs_contracting = other_free,
                                                  .lhs_batch = result_batch,
                                                  .rhs_batch = other_batch});
  // The other side's contracting axes are in ascending order; find the partner of each.
  Axes order(other_contracting.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return other_contracting[a] < other_contracting[b]; });
  Axes place(mine.rank());  // of mine's axes in the product
  int64_t at = 0;
  for (int64_t axis : my_batch) place[axis] = at++;
  const auto place_free = [&] {
    for (int64_t axis : my_free) place[axis] = at++;
  };
  if (!other_first) place_free();
  for (int64_t i : order) place[my_contracting[i]] = at++;
  if (other_first) place_free();
  return Transpose(product, place);
}

const OpDef kDotGeneral = {
    .name = "stablehlo.dot_general",
    .infer = InferDot,
    .gradient = [](const GradientArgs& g) -> Values {
      return {GradientOfSide(g, true), GradientOfSide(g, false)};
    },
    .print =
        [](Printer& printer, const Node& node) {
          const Axes& batch = AxesOf(node, "lhs_batch");
          const std::string batching =
              batch.empty() ? ""
                            : absl::StrCat(", batching_dims = ", MlirList(batch), " x ",
                                           MlirList(AxesOf(node, "rhs_batch")));
          const absl::string_view named = printer.precision();
          const std::string precision =
              named.empty() ? "" : absl::StrCat(", precision = [", named, ", ", named, "]");
          printer.Line(
              node, absl::StrCat("stablehlo.dot_general ", printer.Names(node.operands), batching,
                                 ", contracting_dims = ", MlirList(AxesOf(node, "lhs_contracting")),
                                 " x ", MlirList(AxesOf(node, "rhs_contracting")), precision, " : ",
                                 FunctionType(node)));
        },
    .expensive = true};

}  // namespace

std::optional<DotDimensions> DimensionsOfDot(const Node& node) {
  if (node.op != &kDotGeneral) return std::nullopt;
  return DotDimensions{.lhs_contracting = AxesOf(node, "lhs_contracting"),
                       .rhs_contracting = AxesOf(node, "rhs_contracting"),
                       .lhs_batch = AxesOf(node, "lhs_batch"),
                       .rhs_batch = AxesOf(node, "rhs_batch")};
}

Value DotGeneral(Value a, Value b, const DotDimensions& dimensions) {
  if (!a.valid() || !b.valid()) return Value();
  const auto from_front = [](Axes axes, int rank) {
    for (int64_t& axis : axes) axis += axis < 0 ? rank : 0;
    return axes;
  };
  return EmitOne(kDotGeneral, {a, b},
                 {{"lhs_contracting", from_front(dimensions.lhs_contracting, a.rank())},
                  {"rhs_contracting", from_front(dimensions.rhs_contracting, b.rank())},
                  {"lhs_batch", from_front(dimensions.lhs_batch, a.rank())},
                  {"rhs_batch", from_front(dimensions.rhs_batch, b.rank())}});
}

Value MatMul(Value a, Value b) {
  if (!a.valid() || !b.valid()) return Value();
  if (a.rank() < 2 || b.rank() < 2 || (b.rank() != 2 && b.rank() != a.rank())) {
    a.graph()->Fail(absl::InvalidArgumentError(
        absl::StrCat("matmul: expects [..., m, k] and [k, n] or [..., k, n], got ",
                     a.type().ToString(), " and ", b.type().ToString())));
    return Value();
  }
  DotDimensions dimensions{.lhs_contracting = {a.rank() - 1}, .rhs_contracting = {b.rank() - 2}};
  for (int64_t i = 0; b.rank() > 2 && i < a.rank() - 2; ++i) {
    dimensions.lhs_batch.push_back(i);
    dimensions.rhs_batch.push_back(i);
  }
  return DotGeneral(a, b, dimensions);
}

OpList DotOps() {
  static constexpr const OpDef* kOps[] = {&kDotGeneral};
  return kOps;
}

}  // namespace penstock::ir
