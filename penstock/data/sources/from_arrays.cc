#include "penstock/data/sources/from_arrays.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"
#include "penstock/record/crc32c.h"

namespace penstock::data {
namespace {

class NamedRows : public OriginSource {
 public:
  explicit NamedRows(std::string name) : name_(std::move(name)) {}
  std::string At(int64_t index) const override { return absl::StrCat(name_, ":", index); }

 private:
  const std::string name_;
};

class FromArraysNode : public Node {
 public:
  FromArraysNode(const NodeContext& context, std::shared_ptr<const std::vector<BlockPtr>> blocks)
      : Node(context, nullptr), blocks_(std::move(blocks)) {}

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    while (*rows > 0 && block_ < blocks_->size()) {
      const int64_t part = std::min(*rows, Left());
      *rows -= part;
      Pass(part);
    }
    return *rows > 0 ? Poll::kEnd : Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (block_ == blocks_->size()) return Poll::kEnd;
    const int64_t part = std::min(max_rows, Left());
    out->Append((*blocks_)[block_], row_, part);
    Pass(part);
    return Poll::kReady;
  }

 private:
  int64_t Left() const { return (*blocks_)[block_]->rows - row_; }
  void Pass(int64_t rows) {
    row_ += rows;
    if (Left() > 0) return;
    ++block_;
    row_ = 0;
  }

  const std::shared_ptr<const std::vector<BlockPtr>> blocks_;
  size_t block_ = 0;
  int64_t row_ = 0;
};

class FromArraysStage : public Stage {
 public:
  FromArraysStage(base::NamedArrays arrays, std::string name,
                  std::function<absl::Status(StageFields& out)> write_fields)
      : arrays_(std::move(arrays)),
        blocks_(MakeBlocks(arrays_, std::move(name))),
        write_fields_(std::move(write_fields)) {}

  absl::string_view name() const override { return "FromArrays"; }
  std::string Parameters() const override { return arrays_.ToString(); }
  absl::Status WriteFields(StageFields& out) const override {
    if (write_fields_ != nullptr) return write_fields_(out);
    return absl::UnimplementedError(
        "holds arrays of this process, which do not travel in a description; write them to "
        "shards that the other process reads (penstock pack), or run the pipeline here");
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    ElementSpec spec;
    if (arrays_.empty()) return absl::InvalidArgumentError("there are no arrays");
    for (const auto& [name, array] : arrays_) {
      if (!array.valid() || array.rank() == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", name, "' has no rows: it is ",
                         array.valid() ? array.TypeString() : std::string("no array")));
      }
      if (array.dim(0) != arrays_[0].second.dim(0)) {
        return absl::InvalidArgumentError(absl::StrCat("'", name, "' and '", arrays_[0].first,
                                                       "' have different numbers of rows"));
      }
      if (base::BitWidth(array.dtype()) % 8 != 0) {
        return absl::InvalidArgumentError(absl::StrCat("rows of ", base::DTypeName(array.dtype()),
                                                       " ('", name, "') are smaller than a byte"));
      }
      if (spec.Find(name) >= 0) {
        return absl::InvalidArgumentError(absl::StrCat("there are two arrays '", name, "'"));
      }
      spec.Set({name, array.dtype(), array.shape().RowShape()});
    }
    if (arrays_[0].second.dim(0) > kMaxRows) {
      return absl::InvalidArgumentError(absl::StrCat(arrays_[0].second.dim(0),
                                                     " rows are more than the maximum of ",
                                                     kMaxRows, " in a dataset of arrays"));
    }
    return spec;
  }

  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    return arrays_[0].second.dim(0);
  }

  // Covers the first elements, enough to distinguish data sets; all of them if it is exact.
  absl::StatusOr<std::string> SourceFingerprint(const ResolveContext& context) const override {
    const int64_t max_bytes = context.exact ? INT64_MAX : 1 << 20;
    const size_t max_strings = context.exact ? SIZE_MAX : 1000;
    uint32_t checksum = 0;
    for (const auto& [name, array] : arrays_) {
      if (array.dtype() == base::DType::kString) {
        const auto strings = array.values<absl::string_view>();
        for (absl::string_view s : strings.subspan(0, max_strings)) {
          checksum = record::ExtendCrc32c(checksum, absl::StrCat(s.size(), " ", s));
        }
      } else if (array.num_bytes() > 0) {
        const auto bytes = static_cast<size_t>(std::min(array.num_bytes(), max_bytes));
        checksum = record::ExtendCrc32c(
            checksum, absl::string_view(static_cast<const char*>(array.raw()), bytes));
      }
    }
    return absl::StrCat(absl::Hex(checksum, absl::kZeroPad8));
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<FromArraysNode>(context, blocks_);
  }

 private:
  using Blocks = std::vector<BlockPtr>;
  // Rows may have no bytes, so memory does not limit their number.
  static constexpr int64_t kMaxRows = int64_t{1} << 40;

  // References to rows count them in 32 bits, so more rows than that are several blocks.
  static std::shared_ptr<const Blocks> MakeBlocks(const base::NamedArrays& arrays,
                                                  std::string name) {
    constexpr int64_t kMaxRowsOfBlock = int64_t{1} << 31;
    auto blocks = std::make_shared<Blocks>();
    const auto source = std::make_shared<NamedRows>(std::move(name));
    int64_t rows = arrays.empty() ? 0 : INT64_MAX;
    for (const auto& [column, array] : arrays) {
      rows = std::min(rows, array.valid() && array.rank() > 0 ? array.dim(0) : 0);
    }
    if (rows > kMaxRows) return blocks;  // OutputSpec rejects them
    for (int64_t begin = 0; begin < rows; begin += kMaxRowsOfBlock) {
      auto block = std::make_shared<Block>();
      block->rows = std::min(kMaxRowsOfBlock, rows - begin);
      for (const auto& [column, array] : arrays) {
        block->columns.emplace_back(MarkShared(array.Slice(begin, begin + block->rows)));
      }
      block->origins.Append(source, begin, block->rows);
      blocks->push_back(std::move(block));
    }
    return blocks;
  }

  const base::NamedArrays arrays_;
  const std::shared_ptr<const Blocks> blocks_;
  const std::function<absl::Status(StageFields& out)> write_fields_;
};

}  // namespace

std::shared_ptr<const Stage> MakeFromArrays(
    base::NamedArrays arrays, std::string name,
    std::function<absl::Status(StageFields& out)> write_fields) {
  return std::make_shared<FromArraysStage>(std::move(arrays), std::move(name),
                                           std::move(write_fields));
}

Dataset Dataset::FromArrays(base::NamedArrays arrays, std::string name) {
  return From(MakeFromArrays(std::move(arrays), std::move(name)));
}

}  // namespace penstock::data
