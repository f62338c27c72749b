#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/stages/ragged.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// Of a batch it is known where its first row came from.
class BatchOrigin : public OriginSource {
 public:
  explicit BatchOrigin(Origins batch) : batch_(std::move(batch)) {}
  std::string At(int64_t index) const override {
    return absl::StrCat("row ", index, " of the batch from ", batch_.At(0));
  }

 private:
  const Origins batch_;
};

class UnbatchNode : public Node {
 public:
  UnbatchNode(const NodeContext& context, std::unique_ptr<Node> input)
      : Node(context, std::move(input)) {
    const ElementSpec& spec = *context.input_spec;
    for (int i = 0; i < spec.size(); ++i) {
      if (IsRowSplits(spec, spec[i])) continue;
      columns_.push_back({spec[i].name, i, spec.Find(RowSplitsOf(spec[i].name))});
    }
  }

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    while (rows_.empty()) {
      if (engine_.cancelled()) return Poll::kPending;
      RowRefs batch;
      PENSTOCK_ASSIGN_OR_RETURN(const Poll poll, input_->Next(1, &batch));
      if (poll != Poll::kReady) return poll;
      absl::StatusOr<BlockPtr> rows = Split(batch.blocks()[0], batch.ranges()[0].begin);
      if (!rows.ok()) {
        return RecoverableError(rows.status(), batch.OriginOf(0), "Unbatch");
      }
      rows_.Append(*rows, 0, (*rows)->rows);
    }
    rows_.MoveFront(std::min(max_rows, rows_.size()), out);
    return Poll::kReady;
  }

 private:
  struct UnbatchedColumn {
    std::string name;
    int values;
    int row_splits;  // -1: each row is one of the values
  };

  // The rows of a batch, in its memory.
  absl::StatusOr<BlockPtr> Split(const BlockPtr& batches, int64_t row) const {
    const Block& batch = *batches;
    auto block = std::make_shared<Block>();
    block->views = {batches};
    for (size_t c = 0; c < columns_.size(); ++c) {
      const UnbatchedColumn& column = columns_[c];
      base::Array values = batch.columns[column.values].Row(row);
      int64_t rows = values.dim(0);
      if (column.row_splits < 0) {
        block->columns.emplace_back(std::move(values));
      } else {
        const base::Array splits = batch.columns[column.row_splits].Row(row);
        PENSTOCK_RETURN_IF_ERROR(CheckSplits(column.name, splits, rows));
        const auto starts = splits.values<int64_t>();
        rows = static_cast<int64_t>(starts.size()) - 1;
        block->columns.push_back(
            Column::Ragged(std::move(values), std::vector<int64_t>(starts.begin(), starts.end())));
      }
      if (c > 0 && rows != block->rows) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", columns_[0].name, " of the batch has ", block->rows,
                         " rows, but column ", column.name, " has ", rows));
      }
      block->rows = rows;
    }
    // Rows are numbered in 32 bits (rows.h).
    if (block->rows > UINT32_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat("the batch has ", block->rows, " rows; the maximum is ", UINT32_MAX));
    }
    Origins origin;
    origin.Append(batch.origins, row, 1);
    block->origins.Append(std::make_shared<BatchOrigin>(std::move(origin)), 0, block->rows);
    return block;
  }

  static absl::Status CheckSplits(absl::string_view name, const base::Array& splits,
                                  int64_t values) {
    const auto starts = splits.values<int64_t>();
    if (!starts.empty() && starts.front() == 0 && starts.back() == values &&
        std::is_sorted(starts.begin(), starts.end())) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat("the row splits of column ", name,
                                                   " do not increase from 0 to the number of its ",
                                                   values, " values: ", splits.ToString()));
  }

  std::vector<UnbatchedColumn> columns_;
  RowRefs rows_;  // of a batch, not yet passed on
};

class UnbatchStage : public Stage {
 public:
  absl::string_view name() const override { return "Unbatch"; }
  absl::Status WriteFields(StageFields&) const override { return absl::OkStatus(); }
  std::string Parameters() const override { return ""; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    ElementSpec spec;
    for (const ColumnSpec& column : inputs[0].columns()) {
      if (IsRowSplits(inputs[0], column)) continue;
      if (column.shape.rank() == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(), " is a scalar: it has no rows"));
      }
      const bool ragged = inputs[0].Find(RowSplitsOf(column.name)) >= 0;
      base::Shape shape = column.shape.RowShape();
      spec.Set({column.name, column.dtype, ragged ? shape.Prepend(-1) : shape});
    }
    return spec;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<UnbatchNode>(context, std::move(input));
  }
};

}  // namespace

Dataset Dataset::Unbatch() const { return Then(std::make_shared<UnbatchStage>()); }

absl::StatusOr<Dataset> ReadUnbatch(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_RETURN_IF_ERROR(in.Finish());
  return inputs[0].Unbatch();
}

}  // namespace penstock::data
