#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/record/example_parser.h"

namespace penstock::data {
namespace {

class ParseExampleKernel : public RowKernel {
 public:
  explicit ParseExampleKernel(record::ExampleParser parser) : parser_(std::move(parser)) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    const auto& features = parser_.schema().features;
    std::vector<base::Array> columns(features.size());
    for (size_t f = 0; f < features.size(); ++f) {
      if (features[f].variable_length) continue;
      auto column = out.Dense(static_cast<int>(f));
      if (!column.ok()) return out.FailAndStop(0, column.status());
      columns[f] = *std::move(column);
    }
    int64_t row = 0;
    record::RaggedRows ragged;
    absl::Status status =
        parser_.ParseRange(in.columns[0]->values().values<absl::string_view>(), 0,
                           absl::MakeSpan(columns), &ragged, [&](int64_t i) {
                             row = i;
                             return std::string("record");  // where it stands is added above
                           });
    if (status.ok()) status = WriteRagged(ragged, out);
    if (!status.ok()) return out.FailAndStop(row, std::move(status));
    for (size_t f = 0; f < features.size(); ++f) {
      const auto& value = features[f].default_value;
      if (value.has_value()) out.KeepAlive(static_cast<int>(f), value->owner());
    }
  }

 private:
  absl::Status WriteRagged(const record::RaggedRows& rows, RowsOut& out) const {
    const std::vector<record::Ragged> columns = parser_.JoinRagged({rows});
    for (size_t f = 0; f < columns.size(); ++f) {
      if (!columns[f].values.valid()) continue;
      const auto splits = columns[f].row_splits.values<int64_t>();
      PENSTOCK_RETURN_IF_ERROR(out.Ragged(static_cast<int>(f), columns[f].values,
                                          std::vector<int64_t>(splits.begin(), splits.end())));
    }
    return absl::OkStatus();
  }

  const record::ExampleParser parser_;
};

struct ParseExampleFields {
  std::vector<record::ExampleFeature> features = {};
  std::string column = ParseExampleOptions().column;
};
void Fields(StageFields& f, ParseExampleFields& p) {
  f.List("features", &p.features, [](StageFields& of, record::ExampleFeature& feature) {
    of.Value("name", &feature.name);
    of.Value("dtype", &feature.dtype);
    of.Value("shape", &feature.shape);
    of.Value("variable_length", &feature.variable_length);
    of.Value("default", &feature.default_value);
  });
  f.Value("column", &p.column);
}

class ParseExampleStage : public RowStage {
 public:
  ParseExampleStage(record::ExampleSchema schema, ParseExampleOptions options)
      : schema_(std::move(schema)), options_(std::move(options)) {}

  absl::string_view name() const override { return "ParseExample"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, ParseExampleFields{schema_.features, options_.column});
  }
  // Only what differs from the defaults is added, so that states and caches of before stay valid.
  std::string Parameters() const override {
    std::string out = schema_.ToString();
    if (options_.column != ParseExampleOptions().column) {
      absl::StrAppend(&out, "; column ", options_.column);
    }
    for (const record::ExampleFeature& feature : schema_.features) {
      if (!feature.default_value.has_value()) continue;
      const base::Array& value = *feature.default_value;
      absl::StrAppend(&out, "; ", feature.name, " or ",
                      value.valid() ? value.ToString(value.num_elements()) : "nothing");
    }
    return out;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_ASSIGN_OR_RETURN(const int index, inputs[0].Index(options_.column));
    const ColumnSpec& records = inputs[0][index];
    if (records.dtype != base::DType::kString || records.shape.rank() != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", records.ToString(), " does not hold one record each"));
    }
    PENSTOCK_RETURN_IF_ERROR(record::ExampleParser::Create(schema_).status());
    ElementSpec spec;
    for (const ColumnSpec& column : inputs[0].columns()) {
      if (column.name != options_.column) spec.Set(column);
    }
    for (const record::ExampleFeature& feature : schema_.features) {
      spec.Set({feature.name, feature.dtype,
                feature.variable_length ? feature.shape.Prepend(-1) : feature.shape});
    }
    return spec;
  }

  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                        const ElementSpec& output) const override {
    // Features are made in the order in which they stand among the columns.
    record::ExampleSchema schema;
    RowKernelBinding binding;
    for (const ColumnSpec& column : output.columns()) {
      const record::ExampleFeature* feature = FindFeature(column.name);
      binding.passes.push_back(feature == nullptr ? input.Find(column.name) : -1);
      if (feature != nullptr) schema.features.push_back(*feature);
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto parser, record::ExampleParser::Create(std::move(schema)));
    binding.reads = {input.Find(options_.column)};
    binding.kernel = std::make_shared<ParseExampleKernel>(std::move(parser));
    return binding;
  }

 private:
  const record::ExampleFeature* FindFeature(absl::string_view name) const {
    for (const record::ExampleFeature& feature : schema_.features) {
      if (feature.name == name) return &feature;
    }
    return nullptr;
  }

  const record::ExampleSchema schema_;
  const ParseExampleOptions options_;
};

// The first `count` records of a dataset, read now.
absl::StatusOr<std::vector<std::string>> FirstRecords(const Dataset& dataset,
                                                      const ParseExampleOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator,
                            dataset.MakeIterator({.file_system = options.file_system}));
  std::vector<std::string> records;
  while (static_cast<int64_t>(records.size()) < options.infer_records) {
    base::NamedArrays element;
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&element));
    if (!more) break;
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array record, element.Get(options.column));
    if (record.dtype() != base::DType::kString || record.num_elements() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("column '", options.column, "' holds ",
                                                     record.TypeString(), ", not one record each"));
    }
    records.emplace_back(record.data<absl::string_view>()[0]);
  }
  if (!records.empty()) return records;
  return absl::InvalidArgumentError("there is no record to infer the schema from; give the schema");
}

// A record of a few megabytes can hold 100,000 features, each of which would become a column.
constexpr size_t kMaxInferredFeatures = 10'000;

absl::StatusOr<record::ExampleSchema> InferColumns(const std::vector<std::string>& records) {
  const std::vector<absl::string_view> views(records.begin(), records.end());
  PENSTOCK_ASSIGN_OR_RETURN(record::ExampleSchema schema, record::InferSchema(views));
  const size_t features = schema.features.size();
  if (features > 0 && features <= kMaxInferredFeatures) return schema;
  return absl::InvalidArgumentError(absl::StrCat(
      records.size() == 1 ? "record 0 has " : "the first records have ",
      features == 0 ? "no features with values" : absl::StrCat(features, " features"),
      "; the schema is inferred from 1 to ", kMaxInferredFeatures,
      features == 0 ? "; give the schema, or a larger infer_records" : "; give the schema"));
}

}  // namespace

Dataset Dataset::ParseExample(ParseExampleOptions options) const {
  if (!status_.ok()) return *this;
  if (options.infer_records < 1) {
    return Mistaken(absl::InvalidArgumentError("ParseExample: infer_records is at least 1"));
  }
  // What only chooses and orders records need not run.
  Dataset source = *this;
  while (source.description_->inputs.size() == 1 && source.description_->stage->is_selection()) {
    source.description_ = source.description_->inputs[0];
  }
  const auto records = FirstRecords(source.Take(options.infer_records), options);
  if (!records.ok()) return Mistaken(base::WithContext(records.status(), "ParseExample"));
  auto schema = InferColumns(*records);
  if (!schema.ok()) {
    const std::string where = absl::StrCat("ParseExample: the schema cannot be inferred from ",
                                           source.description_->stage->ToString());
    return Mistaken(base::WithContext(schema.status(), where));
  }
  return ParseExample(*std::move(schema), std::move(options));
}

Dataset Dataset::ParseExample(record::ExampleSchema schema, ParseExampleOptions options) const {
  return Then(std::make_shared<ParseExampleStage>(std::move(schema), std::move(options)));
}

absl::StatusOr<Dataset> ReadParseExample(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(auto p, Read<ParseExampleFields>(in));
  return inputs[0].ParseExample({.features = std::move(p.features)},
                                {.column = p.column, .file_system = in.file_system()});
}

}  // namespace penstock::data
