#include "penstock/remote/feed/batch_description.h"

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
  f.CheckRange("batch_rows", d.batch_rows, 0, int64_t{1} << 31);
}

void RowsFields(data::StageFields& f, RowsDescription& d) {
  f.Value("names", &d.names);
  TypesFields(f, "types", &d.types);
  f.Value("note", &d.note);
  if (f.reading() && f.status().ok() && (d.names.size() != d.types.size() || d.names.empty())) {
    f.Fail(absl::InvalidArgumentError("rows need as many names as types, and a column"));
  }
}

}  // namespace

std::string ToJson(const BatchDescription& description) {
  return data::ToText(description, DescriptionFields);
}

absl::StatusOr<BatchDescription> BatchDescriptionFromJson(absl::string_view text) {
  return data::FromText<BatchDescription>(text, "the description of a batch", /*max_levels=*/5,
                                          data::OtherFields::kIgnore, DescriptionFields);
}

std::string ToJson(const RowsDescription& description) {
  return data::ToText(description, RowsFields);
}

absl::StatusOr<RowsDescription> RowsDescriptionFromJson(absl::string_view text) {
  return data::FromText<RowsDescription>(text, "the description of rows on devices",
                                         /*max_levels=*/5, data::OtherFields::kIgnore, RowsFields);
}

}  // namespace penstock::remote
