#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
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

class ParseExampleStage : public RowStage {
 public:
  ParseExampleStage(record::ExampleSchema schema, ParseExampleOptions options)
      : schema_(std::move(schema)), options_(std::move(options)) {}

  absl::string_view name() const override { return "ParseExample"; }
  std::string Parameters() const override { return schema_.ToString(); }

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

}  // namespace

Dataset Dataset::ParseExample(record::ExampleSchema schema, ParseExampleOptions options) const {
  return Then(std::make_shared<ParseExampleStage>(std::move(schema), std::move(options)));
}

}  // namespace penstock::data
