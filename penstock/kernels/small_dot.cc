#include "penstock/kernels/small_dot.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "penstock/ir/ops.h"

namespace penstock::kernels {
namespace {

using base::DType;
using ir::Axes;
using ir::Value;

// Maximum number of multiplications; docs/design/kernels.md has the measurement.
constexpr int64_t kMax = 2048;

// Roles of the axes of one side of the product.
struct Side {
  Side(const ir::Node& node, const char* batch_name, const char* contracting_name, const Value& x)
      : batch(node.attributes.Get<Axes>(batch_name)),
        contracting(node.attributes.Get<Axes>(contracting_name)) {
    for (int64_t axis = 0; axis < x.rank(); ++axis) {
      if (std::count(batch.begin(), batch.end(), axis) == 0 &&
          std::count(contracting.begin(), contracting.end(), axis) == 0) {
        free.push_back(axis);
      }
    }
  }

  Axes batch, contracting, free;
};

// x with its batch axes first, then free and contracted ones, broadcast to `all`.
Value Spread(const Side& side, const Value& x, int64_t free_from, int64_t sum_from,
             const base::Shape& all) {
  Axes order, places;
  const auto take = [&](const Axes& axes, int64_t to) {
    for (int64_t axis : axes) {
      order.push_back(axis);
      places.push_back(to++);
    }
  };
  take(side.batch, 0);
  take(side.free, free_from);
  take(side.contracting, sum_from);
  return ir::BroadcastInDim(ir::Transpose(x, order), all, places);
}

}  // namespace

ir::Values LowerSmallDot(ir::Rewriter& r, int id) {
  const ir::Node& node = r.from().node(id);
  const ir::TensorType& type = node.results[0];
  if (type.dtype != DType::kF32 && type.dtype != DType::kF64) return {};
  const Value lhs = r.Replacement(node.operands[0]), rhs = r.Replacement(node.operands[1]);
  const Side of_lhs(node, "lhs_batch", "lhs_contracting", lhs),
      of_rhs(node, "rhs_batch", "rhs_contracting", rhs);

  // Axes: batch, free of lhs, free of rhs, contracted.
  std::vector<int64_t> dims(type.shape.dims().begin(), type.shape.dims().end());
  for (int64_t axis : of_lhs.contracting) dims.push_back(lhs.shape().dim(static_cast<int>(axis)));
  const base::Shape all(dims);
  if (all.rank() > base::kMaxRank || all.num_elements() == 0 || all.num_elements() > kMax)
    return {};

  const auto batch = static_cast<int64_t>(of_lhs.batch.size());
  const int64_t rhs_from = batch + static_cast<int64_t>(of_lhs.free.size()),
                sum_from = type.shape.rank();
  const Value a = Spread(of_lhs, lhs, batch, sum_from, all);
  const Value b = Spread(of_rhs, rhs, rhs_from, sum_from, all);
  Axes summed;
  for (int64_t axis = sum_from; axis < all.rank(); ++axis) summed.push_back(axis);
  const Value products = a * b;
  return {summed.empty() ? products : ir::ReduceSum(products, summed)};
}

}  // namespace penstock::kernels
