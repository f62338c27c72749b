#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/row_node.h"
#include "penstock/data/stage.h"

namespace penstock::data {
namespace {

class BatchStage : public Stage {
 public:
  BatchStage(int64_t size, BatchOptions options) : size_(size), options_(options) {}

  absl::string_view name() const override { return "Batch"; }
  std::string Parameters() const override {
    return absl::StrCat(size_, options_.drop_remainder ? ", drop remainder" : "");
  }
  bool runs_chain() const override { return true; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (size_ < 1) return absl::InvalidArgumentError("a batch has at least 1 element");
    ElementSpec spec;
    for (const ColumnSpec& column : inputs[0].columns()) {
      // Blocks put one more extent before it.
      if (column.shape.rank() + 2 > base::kMaxRank) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(), " has too many dimensions for one more"));
      }
      const int64_t rows = options_.drop_remainder ? size_ : -1;
      spec.Set({column.name, column.dtype, column.shape.Prepend(rows)});
    }
    return spec;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return MakeRowNode(context, std::move(input),
                       {.batch = size_, .drop_remainder = options_.drop_remainder});
  }

 private:
  const int64_t size_;
  const BatchOptions options_;
};

}  // namespace

Dataset Dataset::Batch(int64_t size, BatchOptions options) const {
  return Then(std::make_shared<BatchStage>(size, options));
}

}  // namespace penstock::data
