#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/data/dataset.h"
#include "penstock/data/engine/input_queue.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// Origin of a combined element: those of all inputs.
class ZippedOrigins : public OriginSource {
 public:
  explicit ZippedOrigins(std::vector<Origins> parts) : parts_(std::move(parts)) {}
  std::string At(int64_t index) const override {
    return absl::StrJoin(parts_, " + ", [&](std::string* out, const Origins& part) {
      absl::StrAppend(out, part.At(index));
    });
  }

 private:
  const std::vector<Origins> parts_;
};

// Columns of rows that are contiguous in a block are views of it; other rows become lists, which
// cost a reference each but copy no element either.
void AddColumns(const RowRefs& rows, std::vector<Column>* columns) {
  const size_t num_columns = rows.blocks()[0]->columns.size();
  const RowRefs::Range first = rows.ranges()[0];
  for (size_t c = 0; c < num_columns; ++c) {
    if (first.count == rows.size()) {
      columns->push_back(
          rows.blocks()[first.block]->columns[c].Slice(first.begin, first.begin + first.count));
      continue;
    }
    std::vector<base::Array> list;
    list.reserve(rows.size());
    ForEachRange(rows, 0, rows.size(), [&](const Block& block, int64_t begin, int64_t count) {
      for (int64_t i = begin; i < begin + count; ++i) list.push_back(block.columns[c].Row(i));
    });
    columns->push_back(Column::List(std::move(list)));
  }
}

class ZipNode : public Node {
 public:
  ZipNode(const NodeContext& context, std::vector<InputQueue> queues) : Node(context, nullptr) {
    for (InputQueue& queue : queues) inputs_.push_back({.queue = std::move(queue)});
  }

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    while (*rows > 0) {
      if (inputs_.empty()) return Poll::kEnd;
      if (part_left_ == 0) {
        part_left_ = std::min(*rows, part_);
        part_ = std::min(2 * part_, INT64_MAX / 2);
      }
      const Decision decision = ForAll([&](Input& input) { return SkipTo(part_left_, input); });
      const int64_t skipped =
          decision.input == nullptr ? part_left_ : std::max<int64_t>(decision.input->ahead, 0);
      for (Input& input : inputs_) input.ahead -= skipped;
      part_left_ -= skipped;
      *rows -= skipped;
      if (decision.input != nullptr) return Answer(decision);
    }
    return Poll::kReady;
  }

  void DoAdvance() override {
    for (Input& input : inputs_) input.queue.Advance();
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (inputs_.empty()) return Poll::kEnd;
    Decision decision = ForAll([&](Input& input) { return SkipTo(0, input); });
    if (decision.input != nullptr) return Answer(decision);
    decision = ForAll([&](Input& input) { return input.queue.Fill(max_rows); });
    if (decision.input != nullptr) return Answer(decision);
    const BlockPtr block = MakeBlock(max_rows);
    out->Append(block, 0, block->rows);
    return Poll::kReady;
  }

 private:
  struct Input {
    InputQueue queue;
    // Position relative to this node's next element: negative if it still has to drop an element
    // that belongs to another input's failed element, positive in the middle of a skip.
    int64_t ahead = 0;
  };
  // The input that determines why not all are ready, and its answer.
  struct Decision {
    Input* input = nullptr;
    absl::StatusOr<Poll> poll = Poll::kReady;
  };
  // Minimum number of rows for which a block of views is better than a longer one of lists.
  static constexpr int64_t kEnoughForViews = 16;
  // A block of lists holds all blocks of its rows until its last row is released, so it has few
  // rows if they are large.
  static constexpr int64_t kMaxInLists = 256;
  static constexpr int64_t kMaxBytesInLists = 256 << 10;
  // A long skip is done in parts, each twice as long as the previous one, so that endless inputs
  // are not skipped far beyond the end of the shortest.
  static constexpr int64_t kFirstPart = 1 << 16;

  // Runs a step on every input, so that all of them start to work. Among those that are not ready,
  // the one at the earliest element decides; among several, the first in the list. So the answer
  // does not depend on which of them is faster, and an input that has ended does not hide elements
  // that another one still has to skip before that end.
  template <typename Step>
  Decision ForAll(Step step) {
    Decision decision;
    for (Input& input : inputs_) {
      absl::StatusOr<Poll> poll = step(input);
      if (poll.ok() && *poll == Poll::kReady) continue;
      if (decision.input != nullptr && decision.input->ahead <= input.ahead) continue;
      decision = {.input = &input, .poll = std::move(poll)};
    }
    return decision;
  }

  absl::StatusOr<Poll> Answer(const Decision& decision) {
    if (decision.poll.ok()) {
      // No input prefetches after the shortest has ended.
      if (*decision.poll == Poll::kEnd) inputs_.clear();
      return decision.poll;
    }
    // After the error of one element, the next call must not return the other inputs' elements that
    // belong to it.
    for (Input& input : inputs_) {
      if (&input != decision.input) --input.ahead;
    }
    return decision.input->queue.TakeError();
  }

  static absl::StatusOr<Poll> SkipTo(int64_t ahead, Input& input) {
    if (input.ahead >= ahead) return Poll::kReady;
    const int64_t requested = ahead - input.ahead;
    int64_t left = requested;
    absl::StatusOr<Poll> poll = input.queue.Skip(&left);
    input.ahead += requested - left;
    return poll;
  }

  BlockPtr MakeBlock(int64_t max_rows) {
    int64_t rows = max_rows;
    int64_t together = max_rows;  // in one block of each input
    for (Input& input : inputs_) {
      rows = std::min(rows, input.queue.rows().size());
      together = std::min<int64_t>(together, input.queue.rows().ranges()[0].count);
    }
    const int64_t max_in_lists =
        std::clamp<int64_t>(kMaxBytesInLists / std::max<int64_t>(row_bytes_, 1), 1, kMaxInLists);
    rows = together >= kEnoughForViews ? together : std::min(rows, max_in_lists);
    auto block = std::make_shared<Block>();
    block->rows = rows;
    std::vector<Origins> origins;
    int64_t bytes = 0;
    for (Input& input : inputs_) {
      RowRefs taken;
      input.queue.rows().MoveFront(rows, &taken);
      AddColumns(taken, &block->columns);
      origins.push_back(taken.AllOrigins());
      block->views.insert(block->views.end(), taken.blocks().begin(), taken.blocks().end());
      bytes += taken.Bytes();
    }
    row_bytes_ = bytes / rows;
    block->origins.Append(std::make_shared<ZippedOrigins>(std::move(origins)), 0, rows);
    return block;
  }

  std::vector<Input> inputs_;             // empty after the end
  int64_t row_bytes_ = kMaxBytesInLists;  // as measured last; the first block has one row
  int64_t part_ = kFirstPart;             // size of the next part of a skip
  int64_t part_left_ = 0;                 // rest of the current part
};

struct ZipFields {
  ZipOptions options = {};
};
void Fields(StageFields& f, ZipFields& p) { f.Value("prefixes", &p.options.prefixes); }

class ZipStage : public Stage {
 public:
  explicit ZipStage(ZipOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "Zip"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, ZipFields{options_});
  }
  std::string Parameters() const override { return absl::StrJoin(options_.prefixes, ", "); }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    int64_t least = kInfiniteCardinality;
    for (int64_t input : inputs) {
      if (input == kUnknownCardinality) return input;
      if (input >= 0) least = least < 0 ? input : std::min(least, input);
    }
    return least;
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (inputs.empty()) return absl::InvalidArgumentError("there are no datasets");
    if (!options_.prefixes.empty() && options_.prefixes.size() != inputs.size()) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", options_.prefixes.size(),
                                                     " prefixes for ", inputs.size(), " datasets"));
    }
    ElementSpec out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (ColumnSpec column : inputs[i].columns()) {
        if (!options_.prefixes.empty() && !options_.prefixes[i].empty()) {
          column.name = absl::StrCat(options_.prefixes[i], "/", column.name);
        }
        if (out.Find(column.name) >= 0) {
          return absl::InvalidArgumentError(
              absl::StrCat("column '", column.name, "' of dataset ", i,
                           " already exists in an earlier dataset; set ZipOptions.prefixes"));
        }
        out.Set(std::move(column));
      }
    }
    return out;
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    std::vector<InputQueue> queues;
    for (int i = 0; i < context.num_inputs; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(i, context.epoch));
      queues.emplace_back(std::move(input));
    }
    return std::make_unique<ZipNode>(context, std::move(queues));
  }

 private:
  const ZipOptions options_;
};

}  // namespace

Dataset Dataset::Zip(std::vector<Dataset> datasets, ZipOptions options) {
  return Make(std::make_shared<ZipStage>(std::move(options)), std::move(datasets));
}

absl::StatusOr<Dataset> ReadZip(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<ZipFields>(in));
  return Dataset::Zip(std::move(inputs), p.options);
}

}  // namespace penstock::data
