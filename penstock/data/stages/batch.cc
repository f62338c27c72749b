#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/data/dataset.h"
#include "penstock/data/engine/row_node.h"
#include "penstock/data/stage.h"
#include "penstock/data/stages/host_shard.h"
#include "penstock/data/stages/ragged.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// The values of all rows, and the first index of each.
class RaggedJoin : public RowJoin {
 public:
  explicit RaggedJoin(const ColumnSpec& spec) : spec_(spec) {}

  absl::Status Join(absl::Span<const base::Array> rows, BufferPool& buffers, int64_t* failed_row,
                    std::vector<base::Array>* out) const override {
    const base::Shape shape = rows[0].shape().RowShape();
    base::Array splits =
        base::Array::Zeros(base::DType::kI64, {static_cast<int64_t>(rows.size()) + 1});
    int64_t* starts = splits.mutable_data<int64_t>();
    for (size_t i = 0; i < rows.size(); ++i) {
      starts[i + 1] = starts[i] + rows[i].dim(0);
      if (rows[i].shape().RowShape() == shape) continue;
      *failed_row = static_cast<int64_t>(i);
      return absl::InvalidArgumentError(
          absl::StrCat("row ", i, " of the batch has ", spec_.name, " of shape ",
                       rows[i].shape().ToString(), ", but row 0 has ", rows[0].shape().ToString(),
                       "; rows of a ragged column may differ in their first dimension only"));
    }
    out->push_back(Values(rows, shape.Prepend(starts[rows.size()]), buffers));
    out->push_back(std::move(splits));
    return absl::OkStatus();
  }

 private:
  base::Array Values(absl::Span<const base::Array> rows, const base::Shape& shape,
                     BufferPool& buffers) const {
    if (spec_.dtype == base::DType::kString) {
      std::vector<std::string> strings;
      for (const base::Array& row : rows) {
        for (absl::string_view s : row.values<absl::string_view>()) strings.emplace_back(s);
      }
      return base::Array::Strings(shape, strings);
    }
    base::Array values = buffers.Allocate(spec_.dtype, shape);
    char* to = static_cast<char*>(values.mutable_raw());
    for (const base::Array& row : rows) {
      if (row.num_bytes() > 0) std::memcpy(to, row.raw(), row.num_bytes());
      to += row.num_bytes();
    }
    return values;
  }

  const ColumnSpec spec_;
};

struct BatchFields {
  int64_t size = 0;
  BatchOptions options = {};
};
void Fields(StageFields& f, BatchFields& p) {
  f.Value("size", &p.size);
  f.Value("drop_remainder", &p.options.drop_remainder);
  f.Value("ragged", &p.options.ragged);
}

class BatchStage : public Stage {
 public:
  BatchStage(std::string name, int64_t size, BatchOptions options, bool share, HostShard host = {})
      : name_(std::move(name)),
        size_(size),
        options_(std::move(options)),
        share_(share),
        host_(host) {}

  absl::string_view name() const override { return name_; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, BatchFields{size_, options_});
  }
  std::string Parameters() const override {
    std::string out = absl::StrCat(size_);
    if (!options_.ragged.empty()) {
      absl::StrAppend(&out, ", ragged ", absl::StrJoin(options_.ragged, " "));
    }
    if (options_.drop_remainder) absl::StrAppend(&out, ", drop remainder");
    return absl::StrCat(out, PrintHost(host_));
  }
  bool runs_fused_kernels() const override { return true; }
  std::shared_ptr<const Stage> ForHost(const HostShard& host) const override {
    return std::make_shared<BatchStage>(name_, size_, options_, share_, host);
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return NumBatches(inputs[0], size_, options_.drop_remainder, host_);
  }
  std::string memory_advice() const override { return "a smaller batch"; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckBatch(size_, host_));
    for (const std::string& name : options_.ragged) {
      PENSTOCK_ASSIGN_OR_RETURN(const int i, inputs[0].Index(name));
      if (inputs[0][i].shape.rank() == 0) {
        return absl::InvalidArgumentError(absl::StrCat("column ", inputs[0][i].ToString(),
                                                       " is a scalar: its rows have one length"));
      }
      if (inputs[0].Find(RowSplitsOf(name)) >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("there is a column '", RowSplitsOf(name), "' already"));
      }
    }
    const int64_t rows = options_.drop_remainder ? RowsPerHost(host_, size_) : -1;
    ElementSpec spec;
    for (const ColumnSpec& column : inputs[0].columns()) {
      // Blocks put one more extent before it.
      if (column.shape.rank() + 2 > base::kMaxRank) {
        return absl::InvalidArgumentError(
            absl::StrCat("column ", column.ToString(), " has too many dimensions to add one"));
      }
      if (!IsRagged(column)) {
        spec.Set({column.name, column.dtype, column.shape.Prepend(rows)});
        continue;
      }
      spec.Set({column.name, column.dtype, column.shape.RowShape().Prepend(-1)});
      spec.Set({RowSplitsOf(column.name), base::DType::kI64, {rows < 0 ? -1 : rows + 1}});
    }
    return spec;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    RowNodeOptions options = {.name = name_,
                              .batch = size_,
                              .drop_remainder = options_.drop_remainder,
                              .host = host_,
                              .share = share_};
    for (const ColumnSpec& column : context.kernels->output().columns()) {
      options.joins.push_back(IsRagged(column) ? std::make_shared<RaggedJoin>(column) : nullptr);
    }
    return MakeRowNode(context, std::move(input), std::move(options));
  }

 private:
  bool IsRagged(const ColumnSpec& column) const {
    return std::find(options_.ragged.begin(), options_.ragged.end(), column.name) !=
           options_.ragged.end();
  }

  const std::string name_;
  const int64_t size_;
  const BatchOptions options_;
  const bool share_;
  const HostShard host_;
};

}  // namespace

Dataset Dataset::Batch(int64_t size, BatchOptions options) const {
  return Then(std::make_shared<BatchStage>("Batch", size, std::move(options), false));
}

Dataset Dataset::Rebatch(int64_t size, bool drop_remainder) const {
  BatchOptions options = {.drop_remainder = drop_remainder, .ragged = {}};
  for (const ColumnSpec& column : spec().columns()) {
    if (spec().Find(RowSplitsOf(column.name)) >= 0) options.ragged.push_back(column.name);
  }
  return Unbatch().Then(std::make_shared<BatchStage>("Rebatch", size, std::move(options), true));
}

absl::StatusOr<Dataset> ReadBatch(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<BatchFields>(in));
  return inputs[0].Batch(p.size, p.options);
}

// Its input is the Unbatch that Dataset::Rebatch adds.
absl::StatusOr<Dataset> ReadRebatch(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<BatchFields>(in));
  return inputs[0].Then(std::make_shared<BatchStage>("Rebatch", p.size, p.options, true));
}

}  // namespace penstock::data
