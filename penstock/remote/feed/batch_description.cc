#include "penstock/remote/feed/batch_description.h"

#include <nlohmann/json.hpp>

#include "penstock/base/json_dump.h"
#include "penstock/base/json_nesting.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/remote/wire/wire_types.h"

namespace penstock::remote {
namespace {

void TypesFields(data::StageFields& f, const char* name, std::vector<ir::TensorType>* types) {
  f.List(name, types, [](data::StageFields& of, ir::TensorType& type) {
    of.Value("dtype", &type.dtype);
    of.Value("shape", &type.shape);
    if (of.reading() && of.status().ok()) {
      absl::StatusOr<ir::TensorType> checked = FromMessage(ToMessage(type));
      if (!checked.ok()) of.Fail(checked.status());
    }
  });
}

void DescriptionFields(data::StageFields& f, BatchDescription& d) {
  TypesFields(f, "inputs", &d.types.inputs);
  TypesFields(f, "labels", &d.types.labels);
  TypesFields(f, "weights", &d.types.weights);
  f.Value("depth", &d.types.depth);
  f.CheckRange("depth", d.types.depth, 1, int64_t{1} << 20);
  f.Value("state", &d.state);
  f.Value("report", &d.report);
  f.Value("batch_rows", &d.batch_rows);
}

}  // namespace

std::string ToJson(const BatchDescription& description) {
  data::StageFields fields;
  BatchDescription copy = description;
  DescriptionFields(fields, copy);
  return base::DumpJson(fields.object());
}

absl::StatusOr<BatchDescription> BatchDescriptionFromJson(absl::string_view text) {
  constexpr int kLevels = 5;
  if (base::NestsDeeperThan(text, kLevels)) {
    return absl::InvalidArgumentError("the description of a batch nests too deep");
  }
  const auto json =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("the description of a batch is no JSON");
  data::StageFields fields(json, nullptr);
  BatchDescription description;
  DescriptionFields(fields, description);
  PENSTOCK_RETURN_IF_ERROR(fields.status());
  return description;
}

}  // namespace penstock::remote
