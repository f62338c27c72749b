#include "penstock/data/cache/uploaded_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/json_dump.h"
#include "penstock/base/status.h"
#include "penstock/data/cache/rows_format.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// Of the rows of a record.
constexpr int64_t kRecordBytes = int64_t{1} << 20;
constexpr int64_t kMaxRowsOfRecord = 4096;

void PartFields(StageFields& f, PartDescription& p) {
  f.Value("printed", &p.printed);
  f.Value("num_stages", &p.num_stages);
  f.CheckRange("num_stages", p.num_stages, 1, kMaxJsonStages);
  f.Value("sources", &p.sources);
  f.Value("spec", &p.spec);
}

absl::Status AddSources(const Dataset::Description& last, const ResolveContext& context,
                        std::string* out) {
  for (const auto& input : last.inputs) {
    PENSTOCK_RETURN_IF_ERROR(AddSources(*input, context, out));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto resolved, last.stage->Resolve(context));
  absl::StrAppend(out, (resolved != nullptr ? *resolved : *last.stage).ResolvedSources());
  return absl::OkStatus();
}

// ---- Serializing ----

class SerializedRowsNode : public Node {
 public:
  SerializedRowsNode(const NodeContext& context, std::unique_ptr<Node> input)
      : Node(context, std::move(input)), input_spec_(*context.input_spec) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t, RowRefs* out) override {
    while (!IsFull() && error_.ok() && !ended_) {
      const absl::StatusOr<Poll> poll = input_->Next(kMaxRowsOfRecord - rows_.size(), &rows_);
      if (!poll.ok()) {
        if (!IsRecoverable(poll.status())) return poll;
        error_ = poll.status();
      } else if (*poll == Poll::kPending) {
        return Poll::kPending;
      } else if (*poll == Poll::kEnd) {
        ended_ = true;
      }
    }
    if (!rows_.empty()) {
      const int64_t count = rows_.size();
      Emit(SerializeRows(std::exchange(rows_, RowRefs()), input_spec_), count, out);
      return Poll::kReady;
    }
    if (!error_.ok()) {
      Emit(SerializeError(std::exchange(error_, absl::OkStatus())), 1, out);
      return Poll::kReady;
    }
    return Poll::kEnd;
  }

 private:
  bool IsFull() const {
    return rows_.size() == kMaxRowsOfRecord || (!rows_.empty() && rows_.Bytes() >= kRecordBytes);
  }

  static void Emit(std::string text, int64_t elements, RowRefs* out) {
    const auto owner = std::make_shared<const std::string>(std::move(text));
    base::Array rows = base::Array::Uninitialized(base::DType::kString, {1});
    *rows.mutable_data<absl::string_view>() = *owner;
    rows.KeepAlive(owner);
    auto block = std::make_shared<Block>();
    block->rows = 1;
    block->own_bytes = static_cast<int64_t>(owner->size());
    block->columns.emplace_back(std::move(rows));
    block->columns.emplace_back(base::Array::Of<int64_t>({1}, {elements}));
    out->Append(block, 0, 1);
  }

  const ElementSpec& input_spec_;
  RowRefs rows_;
  absl::Status error_;
  bool ended_ = false;
};

class SerializedRowsStage : public Stage {
 public:
  explicit SerializedRowsStage(int64_t first_stage) : first_stage_(first_stage) {}

  absl::string_view name() const override { return "SerializedRows"; }
  std::string Parameters() const override { return ""; }
  int64_t first_stage() const override { return first_stage_; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    ElementSpec spec;
    spec.Set({"rows", base::DType::kString, {}});
    spec.Set({"elements", base::DType::kI64, {}});
    return spec;
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<SerializedRowsNode>(context, std::move(input));
  }

 private:
  const int64_t first_stage_;
};

// ---- Reading ----

struct UploadedFields {
  int64_t rows = 0;
};
void Fields(StageFields& f, UploadedFields& p) { f.Value("rows", &p.rows); }

class UploadedRowsStage : public Stage {
 public:
  UploadedRowsStage(std::shared_ptr<const UploadedRows> rows, int64_t number)
      : rows_(std::move(rows)), number_(number) {}

  absl::string_view name() const override { return "UploadedRows"; }
  std::string Parameters() const override { return absl::StrCat(rows_->elements()); }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, UploadedFields{number_});
  }
  int64_t num_stages() const override { return rows_->part().num_stages; }
  const std::string* printed() const override { return &rows_->part().printed; }
  std::string ResolvedSources() const override { return rows_->part().sources; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    return rows_->part().spec;
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    return rows_->elements();
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return MakeReadCacheNode(context, rows_->portions());
  }

 private:
  const std::shared_ptr<const UploadedRows> rows_;
  const int64_t number_;
};

}  // namespace

std::string PartDescription::ToJson() const {
  PartDescription copy = *this;
  copy.printed = base::ReplaceInvalidUtf8(copy.printed);
  copy.sources = base::ReplaceInvalidUtf8(copy.sources);
  return ToText(std::move(copy), PartFields);
}

absl::StatusOr<PartDescription> PartDescription::FromJson(absl::string_view text) {
  return FromText<PartDescription>(text, "the description of a part of a dataset",
                                   /*max_levels=*/6, OtherFields::kReject, PartFields);
}

absl::StatusOr<PartDescription> PartDescription::Of(const Dataset::Description& part,
                                                    const ResolveContext& context) {
  PartDescription out;
  out.printed = Dataset::Of(std::make_shared<const Dataset::Description>(part)).ToString();
  out.num_stages = CountStages(part);
  out.spec = part.spec;
  PENSTOCK_RETURN_IF_ERROR(AddSources(part, context, &out.sources));
  return out;
}

int64_t CountStages(const Dataset::Description& last) {
  int64_t stages = last.stage->num_stages();
  for (const auto& input : last.inputs) stages += CountStages(*input);
  return stages;
}

Dataset SerializedRows(std::shared_ptr<const Dataset::Description> part, int64_t first_stage) {
  return Dataset::Of(std::move(part)).Then(std::make_shared<SerializedRowsStage>(first_stage));
}

absl::Status UploadedRows::Add(std::string record) {
  const auto owner = std::make_shared<const std::string>(std::move(record));
  CachedPortion portion;
  if (IsError(*owner)) {
    PENSTOCK_RETURN_IF_ERROR(ParseError(*owner, &portion.error));
    ++elements_;
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(const BlockPtr block, ParseRows(*owner, owner, part_.spec));
    portion.rows.Append(MarkShared(block), 0, block->rows);
    elements_ += block->rows;
  }
  bytes_ += static_cast<int64_t>(owner->size());
  portions_->push_back(std::move(portion));
  return absl::OkStatus();
}

Dataset FromUploadedRows(std::shared_ptr<const UploadedRows> rows, int64_t number) {
  return Dataset::From(std::make_shared<UploadedRowsStage>(std::move(rows), number));
}

absl::StatusOr<Dataset> ReadUploadedRows(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<UploadedFields>(in));
  PENSTOCK_ASSIGN_OR_RETURN(auto rows, in.uploaded_rows(p.rows));
  return FromUploadedRows(std::move(rows), p.rows);
}

}  // namespace penstock::data
