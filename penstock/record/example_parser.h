// ExampleParser: many tf.train.Example records, read straight into the columns of a batch.
//
//   PENSTOCK_ASSIGN_OR_RETURN(ExampleParser parser, ExampleParser::Create({.features = {
//       {.name = "image", .dtype = DType::kString},
//       {.name = "class", .dtype = DType::kI64},
//       {.name = "one_hot_class", .dtype = DType::kF32, .shape = {104}},
//       {.name = "tags", .dtype = DType::kString, .variable_length = true}}}));
//   std::vector<Array> columns = parser.NewColumns(128);     // string[128], int64[128], ...
//   RaggedRows ragged;                                       // for the features of variable length
//   PENSTOCK_RETURN_IF_ERROR(parser.ParseRange(block.records, /*first_row=*/0,
//       absl::MakeSpan(columns), &ragged, [&](int64_t i) { return block.Where(i); }));
//   Ragged tags = parser.JoinRagged({ragged})[3];
//
// What counts as what, for a feature of the schema that a record has not, or has without any list:
// its default; without one, no values where the length is variable, else an error. Features that
// are not in the schema are passed over unread. A value of another type or count is an error.
//
// Errors name the record (`origin` says where it stands), the feature, what was wanted and what the
// record has:
//   train-00.tfrec:8123:17: feature 'class' is missing (wanted int64[]); the record has: image
//   bytes (1)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"

namespace penstock::record {

struct ExampleFeature {
  std::string name = {};
  base::DType dtype = base::DType::kInvalid;  // kString, kI64 or kF32: what an Example can hold
  // Of one record's values, in row-major order; {} is one value. With variable_length, of one step:
  // a record has any number of steps.
  base::Shape shape = {};
  bool variable_length = false;
  // For records without the feature: of `dtype`, with as many values as `shape` has, or with one,
  // which is repeated. With variable_length, any number of whole steps.
  std::optional<base::Array> default_value = std::nullopt;
};

struct ExampleSchema {
  std::vector<ExampleFeature> features;

  std::string ToString() const;  // "image string[], tags string[?], box float32[?,4]"
};

// A schema that fits all of `records`: features sorted by name, {} for one value in each record,
// {n} for n, variable_length where counts differ or the feature is missing in some. Features that
// are empty in all records are left out. An error names the first record (by its place in
// `records`) that is damaged or has a feature in another type than those before it.
absl::StatusOr<ExampleSchema> InferSchema(absl::Span<const absl::string_view> records);

// A column whose rows have different lengths: row i is steps [row_splits[i], row_splits[i + 1]) of
// `values`.
struct Ragged {
  base::Array values;      // [steps, shape...]
  base::Array row_splits;  // int64[rows + 1], from 0 to steps

  int64_t rows() const { return row_splits.num_elements() - 1; }
  base::Array Row(int64_t i) const;  // [its steps, shape...], shares memory
};

// The variable-length features of a range of rows as one call of ParseRange leaves them: one entry
// per feature of the schema, empty for those of fixed length. To be joined by JoinRagged; using one
// again keeps its memory.
struct RaggedRows {
  struct Column {
    std::variant<std::vector<absl::string_view>, std::vector<float>, std::vector<int64_t>> values;
    std::vector<int64_t> steps;  // of each row
  };
  std::vector<Column> columns;
};

// Threads: immutable; any number of threads may parse at once, without locks, into rows of their
// own of the same columns.
class ExampleParser {
 public:
  // Refuses names that occur twice, types an Example cannot hold, unknown extents, defaults that do
  // not fit.
  static absl::StatusOr<ExampleParser> Create(ExampleSchema schema);

  const ExampleSchema& schema() const { return *schema_; }

  // Uninitialised columns, one per feature in the schema's order: [rows, shape...]; an Array that
  // is not valid() for features of variable length.
  std::vector<base::Array> NewColumns(int64_t rows) const;

  // Where a record stands, for errors: origin(i) for records[i]. RecordBlock::Where.
  using Origin = absl::FunctionRef<std::string(int64_t)>;

  // Reads records[i] into row first_row + i of `columns` (as NewColumns makes them, with rows
  // enough: contract). Strings become views into the records: keep the records' memory alive as
  // long as the columns (Array::KeepAlive(block.owner)). `ragged` is overwritten; it may be nullptr
  // when no feature has variable length. Stops at the first bad record; the rows of this range are
  // then undefined.
  absl::Status ParseRange(absl::Span<const absl::string_view> records, int64_t first_row,
                          absl::Span<base::Array> columns, RaggedRows* ragged, Origin origin) const;

  // The variable-length columns of a batch, from its ranges in the order of the rows: one per
  // feature, empty (arrays not valid()) for those of fixed length. Strings stay views.
  std::vector<Ragged> JoinRagged(absl::Span<const RaggedRows> ranges) const;

 private:
  // Finds a feature of the schema by name: open addressing over a hash of the name.
  struct Slot {
    uint64_t hash = 0;
    int32_t feature = -1;
  };
  // Where the features of the record being read go.
  struct Destination;

  explicit ExampleParser(ExampleSchema schema);
  int FindFeature(absl::string_view name) const;  // -1: not in the schema
  absl::Status ParseRecord(absl::string_view record, const Destination& to) const;
  absl::Status ParseFeature(size_t f, absl::string_view feature, absl::string_view record,
                            const Destination& to) const;

  std::shared_ptr<const ExampleSchema> schema_;  // defaults in full shape
  std::vector<Slot> slots_;                      // a power of two of them, at most half in use
  std::vector<int64_t> value_counts_;            // of each feature's shape
};

}  // namespace penstock::record
