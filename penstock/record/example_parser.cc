#include "penstock/record/example_parser.h"

#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/record/example.h"
#include "penstock/record/example_wire.h"

namespace penstock::record {
namespace {

using base::Array;
using base::DType;
using base::Shape;
using internal::FeatureList;
using internal::ListKind;

uint64_t HashName(absl::string_view name) {
  uint64_t hash = name.size();
  const char* p = name.data();
  for (size_t left = name.size(); left > 0;) {
    uint64_t word = 0;
    const size_t n = std::min(left, sizeof(word));
    std::memcpy(&word, p, n);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    p += n;
    left -= n;
  }
  return hash;
}

// The type of a feature: "float32[?,4]".
std::string TypeString(const ExampleFeature& feature) {
  const Shape shape = feature.variable_length ? feature.shape.Prepend(-1) : feature.shape;
  return absl::StrCat(base::DTypeName(feature.dtype), shape.ToString());
}

absl::StatusOr<int64_t> CountValues(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", shape.ToString(),
          " has an unknown extent; use variable_length for a first dimension of variable size"));
    }
    if (__builtin_mul_overflow(count, extent, &count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", shape.ToString(), " has a number of values that overflows int64"));
    }
  }
  return count;
}

// Broadcasts a default of one value to `count` values.
Array Repeated(const Array& value, const Shape& shape, int64_t count) {
  Array out = Array::Uninitialized(value.dtype(), shape);
  const size_t width = static_cast<size_t>(base::ByteWidth(value.dtype()));
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<char*>(out.mutable_raw()) + static_cast<size_t>(i) * width, value.raw(),
                width);
  }
  if (value.dtype() == DType::kString) out.KeepAlive(value.owner());
  return out;
}

// Checks a feature, and broadcasts its default to the full shape.
absl::Status CheckFeature(ExampleFeature* feature) {
  if (internal::ListOfDType(feature->dtype) == ListKind::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("the features of an Example are string, int64 or float32, not ",
                     base::DTypeName(feature->dtype), "; convert after parsing"));
  }
  if (feature->shape.rank() >= base::kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("shape ", feature->shape.ToString(),
                                                   " has too many dimensions: at most ",
                                                   base::kMaxRank - 1, " besides the batch"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t count, CountValues(feature->shape));
  if (feature->variable_length && count == 0) {
    return absl::InvalidArgumentError(
        "a variable-length feature needs a shape with at least one value per step");
  }
  if (!feature->default_value.has_value()) return absl::OkStatus();

  Array& value = *feature->default_value;
  const bool whole = feature->variable_length ? value.valid() && value.num_elements() % count == 0
                                              : value.valid() && value.num_elements() == count;
  if (!value.valid() || value.dtype() != feature->dtype || (!whole && value.num_elements() != 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the default is ", value.TypeString(), ", expected one value or ", TypeString(*feature)));
  }
  if (!whole) value = Repeated(value, feature->shape, count);
  return absl::OkStatus();
}

// Error of one feature, with a summary of the record.
absl::Status Unfit(const ExampleFeature& feature, absl::string_view what,
                   absl::string_view record) {
  return absl::InvalidArgumentError(absl::StrCat("feature '", feature.name, "' ", what,
                                                 " (expected ", TypeString(feature),
                                                 "); the record has: ", DescribeExample(record)));
}

absl::Status Damaged(const WireError& error, absl::string_view record) {
  return absl::DataLossError(
      absl::StrCat("not a tf.train.Example: ", internal::DescribeWireError(error, record)));
}

template <typename T>
void AppendDefault(const Array& value, std::vector<T>* out) {
  out->insert(out->end(), value.data<T>(), value.data<T>() + value.num_elements());
}

}  // namespace

struct ExampleParser::Destination {
  int64_t row;
  absl::Span<Array> columns;
  RaggedRows* ragged;
  // The encoded Feature of each feature of the schema in the current record; data() is nullptr if
  // the record lacks it.
  absl::Span<absl::string_view> found;
};

std::string ExampleSchema::ToString() const {
  return absl::StrJoin(features, ", ", [](std::string* out, const ExampleFeature& feature) {
    absl::StrAppend(out, feature.name, " ", TypeString(feature));
  });
}

absl::StatusOr<ExampleSchema> InferSchema(absl::Span<const absl::string_view> records) {
  struct Seen {
    DType dtype = DType::kInvalid;
    int64_t records = 0;  // records in which it has a list
    int64_t count = 0;
    bool same_count = true;
  };
  std::map<std::string, Seen> seen;
  for (size_t i = 0; i < records.size(); ++i) {
    absl::StatusOr<FeatureMap> features = ReadExample(records[i]);
    if (!features.ok()) return base::WithContext(features.status(), absl::StrCat("record ", i));
    for (const auto& [name, values] : *features) {
      if (!values.valid()) continue;
      Seen& before = seen[name];
      if (before.records++ == 0) {
        before.dtype = values.dtype();
        before.count = values.num_elements();
      }
      if (before.dtype != values.dtype()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "record ", i, ": feature '", name, "' is ", base::DTypeName(values.dtype()), ", and ",
            base::DTypeName(before.dtype), " in earlier records"));
      }
      before.same_count &= before.count == values.num_elements();
    }
  }
  ExampleSchema schema;
  for (const auto& [name, feature] : seen) {
    const bool fixed =
        feature.same_count && feature.records == static_cast<int64_t>(records.size());
    if (feature.same_count && feature.count == 0) continue;
    ExampleFeature out{.name = name, .dtype = feature.dtype, .variable_length = !fixed};
    if (fixed && feature.count != 1) out.shape = {feature.count};
    schema.features.push_back(std::move(out));
  }
  return schema;
}

Array Ragged::Row(int64_t i) const {
  const absl::Span<const int64_t> splits = row_splits.values<int64_t>();
  return values.Slice(splits[static_cast<size_t>(i)], splits[static_cast<size_t>(i) + 1]);
}

absl::StatusOr<ExampleParser> ExampleParser::Create(ExampleSchema schema) {
  absl::flat_hash_set<std::string> names;
  for (ExampleFeature& feature : schema.features) {
    const std::string where = absl::StrCat("schema, feature '", feature.name, "'");
    if (!names.insert(feature.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": duplicate name"));
    }
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(CheckFeature(&feature), where));
  }
  return ExampleParser(std::move(schema));
}

ExampleParser::ExampleParser(ExampleSchema schema)
    : schema_(std::make_shared<const ExampleSchema>(std::move(schema))) {
  const std::vector<ExampleFeature>& features = schema_->features;
  size_t size = 2;
  while (size < 2 * features.size()) size *= 2;
  slots_.resize(size);
  for (size_t f = 0; f < features.size(); ++f) {
    const uint64_t hash = HashName(features[f].name);
    size_t i = hash & (size - 1);
    while (slots_[i].feature >= 0) i = (i + 1) & (size - 1);
    slots_[i] = {hash, static_cast<int32_t>(f)};
    value_counts_.push_back(features[f].shape.num_elements());
  }
}

int ExampleParser::FindFeature(absl::string_view name) const {
  const uint64_t hash = HashName(name);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask; slots_[i].feature >= 0; i = (i + 1) & mask) {
    const int32_t f = slots_[i].feature;
    if (slots_[i].hash == hash && schema_->features[static_cast<size_t>(f)].name == name) return f;
  }
  return -1;
}

std::vector<Array> ExampleParser::NewColumns(int64_t rows) const {
  std::vector<Array> columns;
  for (const ExampleFeature& feature : schema_->features) {
    Array& column = columns.emplace_back();
    if (feature.variable_length) continue;
    column = Array::Uninitialized(feature.dtype, feature.shape.Prepend(rows));
    if (feature.dtype == DType::kString && feature.default_value.has_value()) {
      column.KeepAlive(feature.default_value->owner());
    }
  }
  return columns;
}

absl::Status ExampleParser::ParseRange(absl::Span<const absl::string_view> records,
                                       int64_t first_row, absl::Span<Array> columns,
                                       RaggedRows* ragged, Origin origin) const {
  const std::vector<ExampleFeature>& features = schema_->features;
  const int64_t count = static_cast<int64_t>(records.size());
  PENSTOCK_CHECK(columns.size() == features.size());
  if (ragged != nullptr) ragged->columns.resize(features.size());
  for (size_t f = 0; f < features.size(); ++f) {
    if (!features[f].variable_length) {
      PENSTOCK_CHECK(columns[f].dtype() == features[f].dtype && columns[f].rank() > 0 &&
                     columns[f].shape().RowShape() == features[f].shape && first_row >= 0 &&
                     first_row + count <= columns[f].dim(0));
      continue;
    }
    PENSTOCK_CHECK(ragged != nullptr);
    RaggedRows::Column& column = ragged->columns[f];
    column.steps.clear();
    internal::VisitList(internal::ListOfDType(features[f].dtype), [&](auto type) {
      using Values = std::vector<decltype(type)>;
      if (!std::holds_alternative<Values>(column.values)) column.values = Values();
      std::get<Values>(column.values).clear();
      return true;
    });
  }

  std::vector<absl::string_view> found(features.size());
  for (int64_t i = 0; i < count; ++i) {
    std::fill(found.begin(), found.end(), absl::string_view());
    const absl::Status status = ParseRecord(
        records[static_cast<size_t>(i)], {first_row + i, columns, ragged, absl::MakeSpan(found)});
    if (!status.ok()) return base::WithContext(status, origin(i));
  }
  return absl::OkStatus();
}

absl::Status ExampleParser::ParseRecord(absl::string_view record, const Destination& to) const {
  WireError error;
  const bool whole = internal::ForEachFeature(
      record, &error, [&](absl::string_view name, absl::string_view feature) {
        const int f = FindFeature(name);
        if (f >= 0) to.found[static_cast<size_t>(f)] = feature;
      });
  if (!whole) return Damaged(error, record);
  for (size_t f = 0; f < to.found.size(); ++f) {
    PENSTOCK_RETURN_IF_ERROR(ParseFeature(f, to.found[f], record, to));
  }
  return absl::OkStatus();
}

absl::Status ExampleParser::ParseFeature(size_t f, absl::string_view feature,
                                         absl::string_view record, const Destination& to) const {
  const ExampleFeature& declared = schema_->features[f];
  const ListKind kind = internal::ListOfDType(declared.dtype);
  FeatureList list;
  WireError error;
  if (feature.data() != nullptr && !internal::ReadFeature(feature, &list, &error)) {
    return Damaged(error, record);
  }
  const bool missing = list.kind == ListKind::kNone;
  if (missing && !declared.variable_length && !declared.default_value.has_value()) {
    return Unfit(declared, feature.data() == nullptr ? "is missing" : "is empty", record);
  }
  if (!missing && list.kind != kind) {
    const DType dtype = internal::DTypeOfList(list.kind);
    return Unfit(declared, absl::StrCat("is ", base::DTypeName(dtype)), record);
  }

  const int64_t step = value_counts_[f];
  int64_t count = 0;
  const bool whole = internal::VisitList(kind, [&](auto type) {
    using T = decltype(type);
    if (declared.variable_length) {
      RaggedRows::Column& column = to.ragged->columns[f];
      std::vector<T>& values = std::get<std::vector<T>>(column.values);
      const size_t before = values.size();
      internal::VectorSink<T> sink{&values};
      if (missing) {
        if (declared.default_value.has_value()) AppendDefault(*declared.default_value, &values);
      } else if (!internal::ReadValues(list, type, sink, &error)) {
        return false;
      }
      count = static_cast<int64_t>(values.size() - before);
      column.steps.push_back(count / step);
      return true;
    }
    T* row = to.columns[f].mutable_data<T>() + to.row * step;
    internal::FixedSink<T> sink{row, step};
    if (missing) {
      std::copy_n(declared.default_value->data<T>(), step, row);
      sink.count = step;
    } else if (!internal::ReadValues(list, type, sink, &error)) {
      return false;
    }
    count = sink.count;
    return true;
  });
  if (!whole) return Damaged(error, record);
  if (declared.variable_length ? count % step != 0 : count != step) {
    return Unfit(declared, absl::StrCat("has ", count, count == 1 ? " value" : " values"), record);
  }
  return absl::OkStatus();
}

std::vector<Ragged> ExampleParser::JoinRagged(absl::Span<const RaggedRows> ranges) const {
  const std::vector<ExampleFeature>& features = schema_->features;
  std::vector<Ragged> joined(features.size());
  for (size_t f = 0; f < features.size(); ++f) {
    if (!features[f].variable_length) continue;
    int64_t rows = 0;
    for (const RaggedRows& range : ranges) {
      rows += static_cast<int64_t>(range.columns[f].steps.size());
    }
    Array splits = Array::Uninitialized(DType::kI64, {rows + 1});
    int64_t* split = splits.mutable_data<int64_t>();
    *split = 0;
    for (const RaggedRows& range : ranges) {
      for (int64_t steps : range.columns[f].steps) {
        split[1] = split[0] + steps;
        ++split;
      }
    }
    Array values = Array::Uninitialized(features[f].dtype, features[f].shape.Prepend(*split));
    internal::VisitList(internal::ListOfDType(features[f].dtype), [&](auto type) {
      using T = decltype(type);
      T* out = values.mutable_data<T>();
      for (const RaggedRows& range : ranges) {
        const auto& part = std::get<std::vector<T>>(range.columns[f].values);
        out = std::copy(part.begin(), part.end(), out);
      }
      return true;
    });
    if (features[f].dtype == DType::kString && features[f].default_value.has_value()) {
      values.KeepAlive(features[f].default_value->owner());
    }
    joined[f] = {std::move(values), std::move(splits)};
  }
  return joined;
}

}  // namespace penstock::record
