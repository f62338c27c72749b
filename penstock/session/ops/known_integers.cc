#include "penstock/session/ops/known_integers.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace penstock::session::internal {

const KnownValues* KnownOf(const Tensor& tensor) {
  if (!tensor.valid() || tensor.index() != 0) return nullptr;
  const auto* known = dynamic_cast<const KnownIntegers*>(tensor.node()->extra.get());
  return known == nullptr ? nullptr : &known->values;
}

void SetKnown(const Tensor& tensor, KnownValues values) {
  if (!tensor.valid() || tensor.node()->extra != nullptr || values.size() > base::kMaxRank) return;
  tensor.node()->extra = std::make_shared<KnownIntegers>(std::move(values));
}

std::optional<KnownValues> KnownIntegersOf(const Array& array) {
  const bool is_index = array.dtype() == DType::kI32 || array.dtype() == DType::kI64;
  if (!is_index || array.rank() > 1 || array.num_elements() > base::kMaxRank) return std::nullopt;
  const absl::StatusOr<Array> wide = array.Cast(DType::kI64);
  if (!wide.ok()) return std::nullopt;
  return KnownValues(wide->values<int64_t>().begin(), wide->values<int64_t>().end());
}

void SetKnownElementwise(const Tensor& result, const Tensor& x, const Tensor& y,
                         const std::function<std::optional<int64_t>(int64_t, int64_t)>& function) {
  const KnownValues *a = KnownOf(x), *b = KnownOf(y);
  if (a == nullptr || b == nullptr || a->empty() || b->empty()) return;
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return;
  KnownValues values(std::max(a->size(), b->size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const std::optional<int64_t>&l = (*a)[a->size() == 1 ? 0 : i],
          &r = (*b)[b->size() == 1 ? 0 : i];
    if (l.has_value() && r.has_value()) values[i] = function(*l, *r);
  }
  SetKnown(result, std::move(values));
}

PartialShape ShapeFromKnown(const Tensor& shape) {
  if (!shape.valid() || !shape.shape().has_rank() || shape.shape().rank() != 1) return {};
  const int64_t rank = shape.shape().dim(0);
  if (rank < 0 || rank > base::kMaxRank) return {};
  std::vector<int64_t> dims(rank, -1);
  const KnownValues* const known = KnownOf(shape);
  for (size_t i = 0; known != nullptr && i < std::min(known->size(), dims.size()); ++i) {
    dims[i] = std::max<int64_t>((*known)[i].value_or(-1), -1);
  }
  return Shape(dims);
}

}  // namespace penstock::session::internal
