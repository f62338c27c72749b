#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/base/status.h"
#include "penstock/data/cache/rows_format.h"

// Round trip: rows that were parsed can be serialized, and parse to the same rows again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  using base::DType;
  const data::ElementSpec spec = {
      {"s", DType::kString, {-1}}, {"f", DType::kF32, {-1, 2}}, {"b", DType::kBool, {}}};
  const auto owner = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  if (absl::Status error; data::IsError(*owner) && data::ParseError(*owner, &error).ok()) {
    absl::Status again;
    PENSTOCK_CHECK_OK(data::ParseError(data::SerializeError(error), &again));
    PENSTOCK_CHECK(again == error);
    return 0;
  }
  const auto block = data::ParseRows(*owner, owner, spec);
  if (!block.ok()) return 0;
  data::RowRefs rows;
  rows.Append(*block, 0, (*block)->rows);
  const auto bytes = std::make_shared<const std::string>(data::SerializeRows(rows, spec));
  const auto again = data::ParseRows(*bytes, bytes, spec);
  PENSTOCK_CHECK_OK(again);
  PENSTOCK_CHECK((*again)->rows == (*block)->rows);
  for (int64_t row = 0; row < (*block)->rows; ++row) {
    PENSTOCK_CHECK((*again)->origins.At(row) == (*block)->origins.At(row));
    for (int c = 0; c < spec.size(); ++c) {
      PENSTOCK_CHECK(BitwiseEqual((*again)->columns[c].Row(row), (*block)->columns[c].Row(row)));
    }
    if (row == 64) break;  // finding an origin takes time linear in the row number
  }
  return 0;
}
