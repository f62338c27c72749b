// ExampleParser: parses many tf.train.Example records directly into the columns of a batch
// (tf.io.parse_example), including ragged columns for variable-length features.
//
//   PENSTOCK_ASSIGN_OR_RETURN(ExampleParser parser, ExampleParser::Create({.features = {
//       {.name = "image", .dtype = DType::kString},
//       {.name = "class", .dtype = DType::kI64},
//       {.name = "one_hot_class", .dtype = DType::kF32, .shape = {104}},
//       {.name = "tags", .dtype = DType::kString, .variable_length = true}}}));
//   std::vector<Array> columns = parser.NewColumns(128);     // string[128], int64[128], ...
//   RaggedRows ragged;                                       // for the features of variable length
//   PENSTOCK_RETURN_IF_ERROR(parser.ParseRange(block.records, /*first_row=*/0,
//       absl::MakeSpan(columns), &ragged, [&](int64_t i) { return block.Origin(i); }));
//   Ragged tags = parser.JoinRagged({ragged})[3];
//
// A feature of the schema that a record lacks, or has without a list, takes its default value;
// without a default it has no values if its length is variable, otherwise it is an error. Features
// that are not in the schema are skipped. A wrong type or number of values is an error.
//
// Errors name the record (by its `origin`), the feature, the expected type and the contents of the
// record:
//   train-00.tfrec:8123:17: feature 'class' is missing (expected int64[]); the record has: image
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
  base::DType dtype = base::DType::kInvalid;  // kString, kI64 or kF32, the types of an Example
  // Shape of one record's values, in row-major order; {} is a single value. With variable_length:
  // the shape of one step, and a record has any number of steps.
  base::Shape shape = {};
  bool variable_length = false;
  // Value for records without the feature: of type `dtype`, with as many values as `shape` has, or
  // with one value, which is broadcast. With variable_length: any number of whole steps.
  std::optional<base::Array> default_value = std::nullopt;
};

struct ExampleSchema {
  std::vector<ExampleFeature> features;

  std::string ToString() const;  // "image string[], tags string[?], box float32[?,4]"
};

// Infers a schema that fits all of `records`: features sorted by name, shape {} for one value in
// each record, {n} for n, and variable_length if counts differ or the feature is missing in some
// records. Features that are empty in all records are omitted. An error names the first record (by
// its index in `records`) that is malformed or has a feature of a different type than earlier ones.
absl::StatusOr<ExampleSchema> InferSchema(absl::Span<const absl::string_view> records);

// A ragged column (tf.RaggedTensor), whose rows have different lengths: row i consists of steps
// [row_splits[i], row_splits[i + 1]) of `values`.
struct Ragged {
  base::Array values;      // [steps, shape...]
  base::Array row_splits;  // int64[rows + 1], from 0 to steps

  int64_t rows() const { return row_splits.num_elements() - 1; }
  base::Array Row(int64_t i) const;  // [steps of row i, shape...], shares memory
};

// Intermediate result of ParseRange: the variable-length features of a range of rows, one entry per
// feature of the schema, empty for those of fixed length. Input of JoinRagged. Reusing an object
// reuses its memory.
struct RaggedRows {
  struct Column {
    std::variant<std::vector<absl::string_view>, std::vector<float>, std::vector<int64_t>> values;
    std::vector<int64_t> steps;  // per row
  };
  std::vector<Column> columns;
};

// Thread safety: immutable. Any number of threads may parse concurrently, without locks, into
// disjoint rows of the same columns.
class ExampleParser {
 public:
  // InvalidArgument for duplicate names, types that an Example cannot contain, unknown extents, and
  // defaults that do not match.
  static absl::StatusOr<ExampleParser> Create(ExampleSchema schema);

  const ExampleSchema& schema() const { return *schema_; }

  // Allocates uninitialized columns [rows, shape...], one per feature in the schema's order; an
  // invalid Array for features of variable length.
  std::vector<base::Array> NewColumns(int64_t rows) const;

  // Origin of records[i] for error messages, such as RecordBlock::Origin(i).
  using Origin = absl::FunctionRef<std::string(int64_t)>;

  // Parses records[i] into row first_row + i of `columns`, which must be allocated by NewColumns
  // with enough rows. Strings are views into the records: keep the records' memory alive as long as
  // the columns (Array::KeepAlive(block.owner)). `ragged` is overwritten; it may be nullptr if no
  // feature has variable length. Stops at the first malformed record; the contents of the rows of
  // this range are then unspecified.
  absl::Status ParseRange(absl::Span<const absl::string_view> records, int64_t first_row,
                          absl::Span<base::Array> columns, RaggedRows* ragged, Origin origin) const;

  // Concatenates the variable-length features of the ranges of a batch, in row order: one Ragged
  // per feature, with invalid arrays for those of fixed length. Strings remain views.
  std::vector<Ragged> JoinRagged(absl::Span<const RaggedRows> ranges) const;

 private:
  // Slot of the hash table of feature names (open addressing).
  struct Slot {
    uint64_t hash = 0;
    int32_t feature = -1;
  };
  // Output of the record being parsed.
  struct Destination;

  explicit ExampleParser(ExampleSchema schema);
  int FindFeature(absl::string_view name) const;  // -1 if not in the schema
  absl::Status ParseRecord(absl::string_view record, const Destination& to) const;
  absl::Status ParseFeature(size_t f, absl::string_view feature, absl::string_view record,
                            const Destination& to) const;

  std::shared_ptr<const ExampleSchema> schema_;  // with defaults broadcast to their shape
  std::vector<Slot> slots_;            // the size is a power of two, at most half of it in use
  std::vector<int64_t> value_counts_;  // number of values of each feature's shape
};

}  // namespace penstock::record
