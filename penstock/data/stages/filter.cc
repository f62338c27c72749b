#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/data/dataset.h"
#include "penstock/data/engine/row_node.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

class FilterStage : public Stage {
 public:
  FilterStage(FilterFunction predicate, FilterOptions options)
      : predicate_(std::move(predicate)), options_(std::move(options)) {}

  absl::string_view name() const override { return "Filter"; }
  absl::Status WriteFields(StageFields&) const override {
    return HoldsFunction(
        "filter once when the data is written, or use IgnoreErrors for elements that fail");
  }
  Varies varies() const override { return CallOf(options_.name); }
  std::string Parameters() const override {
    return absl::StrCat(options_.name, ", C++ of this process");
  }
  std::optional<std::vector<std::string>> predicate_columns(
      const ElementSpec& spec) const override {
    return Reads(spec);
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (predicate_ == nullptr) return absl::InvalidArgumentError("there is no function");
    for (const std::string& name : options_.reads) {
      PENSTOCK_RETURN_IF_ERROR(inputs[0].Index(name).status());
    }
    return inputs[0];
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    const std::vector<std::string> reads = Reads(context.spec);
    std::vector<int> columns;
    for (const std::string& name : reads) columns.push_back(context.spec.Find(name));
    RowPredicate keep = [predicate = predicate_, reads, columns](absl::Span<const Column> of,
                                                                 int64_t row) {
      base::NamedArrays given;
      for (size_t i = 0; i < reads.size(); ++i) given.Append(reads[i], of[columns[i]].Row(row));
      return base::CatchExceptions([&] { return predicate(given); });
    };
    return MakeRowNode(context, std::move(input), {.name = "Filter", .keep = std::move(keep)});
  }

 private:
  std::vector<std::string> Reads(const ElementSpec& spec) const {
    if (!options_.reads.empty()) return options_.reads;
    std::vector<std::string> all;
    for (const ColumnSpec& column : spec.columns()) all.push_back(column.name);
    return all;
  }

  const FilterFunction predicate_;
  const FilterOptions options_;
};

}  // namespace

Dataset Dataset::Filter(FilterFunction predicate, FilterOptions options) const {
  return Then(std::make_shared<FilterStage>(std::move(predicate), std::move(options)));
}

}  // namespace penstock::data
