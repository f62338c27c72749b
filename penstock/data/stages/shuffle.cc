#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

// Blocks with reference counts, so that a block is released when its last row has left.
class BlockTable {
 public:
  uint32_t Add(BlockPtr block) {
    uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    slots_[slot] = {.block = std::move(block), .uses = 0, .output = 0, .index = 0};
    return slot;
  }
  void Use(uint32_t slot, uint32_t times) { slots_[slot].uses += times; }
  void Drop(uint32_t slot) {
    if (--slots_[slot].uses > 0) return;
    slots_[slot].block.reset();
    free_.push_back(slot);
  }
  // Appends a row to `out`; calls with the same number `output` have the same `out`.
  void Append(uint32_t slot, uint32_t row, uint64_t output, RowRefs* out) {
    Slot& s = slots_[slot];
    if (s.output != output) {
      s.output = output;
      s.index = out->AddBlock(s.block);
    }
    out->AddRow(s.index, row);
  }

 private:
  struct Slot {
    BlockPtr block;
    uint64_t uses;
    uint64_t output;  // position of the block in the last output
    uint32_t index;
  };
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

class ShuffleNode : public Node {
 public:
  ShuffleNode(const NodeContext& context, std::unique_ptr<Node> input, int64_t buffer,
              uint64_t seed)
      : Node(context, std::move(input)),
        capacity_(buffer),
        random_(seed),
        reservation_(context.memory) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    ++output_;
    const int64_t before = out->size();
    while (!input_ended_ && out->size() == before) {
      PENSTOCK_RETURN_IF_ERROR(CheckMemory());
      // Each row that arrives when the buffer is full displaces one.
      const int64_t room = capacity_ - static_cast<int64_t>(buffer_.size());
      RowRefs in;
      PENSTOCK_ASSIGN_OR_RETURN(
          const Poll poll,
          input_->Next(std::min(room, kMaxAtOnce) + std::min(max_rows, kMaxAtOnce), &in));
      if (poll == Poll::kPending) return poll;
      if (poll == Poll::kEnd) input_ended_ = true;
      Exchange(in, out);
    }
    while (out->size() - before < max_rows && input_ended_ && !buffer_.empty()) DrawLast(out);
    return out->size() > before ? Poll::kReady : Poll::kEnd;
  }

 private:
  // 8 bytes wait for each row.
  struct Reference {
    uint32_t slot;
    uint32_t row;
  };
  static constexpr int64_t kMaxAtOnce = 1 << 16;

  // The order requires everything in the buffer: the references, and the blocks that they keep
  // alive.
  absl::Status CheckMemory() {
    const auto bytes = static_cast<int64_t>(buffer_.capacity() * sizeof(Reference));
    if (references_.bytes() != bytes) references_ = MemoryCharge(memory_, bytes);
    const absl::Status status = reservation_.SetToCharged();
    if (status.ok()) return status;
    return base::WithContext(status, absl::StrCat("with ", buffer_.size(), " of ", capacity_,
                                                  " elements in the buffer of Shuffle"));
  }

  void Exchange(const RowRefs& in, RowRefs* out) {
    uint32_t slot = 0;
    const BlockPtr* block = nullptr;
    for (const RowRefs::Range& range : in.ranges()) {
      if (block != &in.blocks()[range.block]) {
        if (block != nullptr) blocks_.Drop(slot);
        block = &in.blocks()[range.block];
        slot = blocks_.Add(*block);
        ChargeTo(**block, memory_);
        blocks_.Use(slot, 1);  // until its rows are in
      }
      blocks_.Use(slot, range.count);
      for (uint32_t row = range.begin; row < range.begin + range.count; ++row) {
        if (static_cast<int64_t>(buffer_.size()) < capacity_) {
          buffer_.push_back({slot, row});
          continue;
        }
        Reference& drawn = buffer_[random_.Below(buffer_.size())];
        Emit(drawn, out);
        drawn = {slot, row};
      }
    }
    if (block != nullptr) blocks_.Drop(slot);
  }

  void DrawLast(RowRefs* out) {
    Reference& drawn = buffer_[random_.Below(buffer_.size())];
    Emit(drawn, out);
    drawn = buffer_.back();
    buffer_.pop_back();
  }

  void Emit(Reference reference, RowRefs* out) {
    blocks_.Append(reference.slot, reference.row, output_, out);
    blocks_.Drop(reference.slot);
  }

  const int64_t capacity_;
  base::Random random_;
  MemoryCharge references_;
  MemoryReservation reservation_;
  BlockTable blocks_;
  std::vector<Reference> buffer_;
  uint64_t output_ = 0;
  bool input_ended_ = false;
};

struct ShuffleFields {
  int64_t buffer = 0;
  ShuffleOptions options = {};
};
void Fields(StageFields& f, ShuffleFields& p) {
  f.Value("buffer", &p.buffer);
  f.Value("seed", &p.options.seed);
  f.Value("reshuffle_each_epoch", &p.options.reshuffle_each_epoch);
}

class ShuffleStage : public Stage {
 public:
  ShuffleStage(int64_t buffer, ShuffleOptions options) : buffer_(buffer), options_(options) {}

  absl::string_view name() const override { return "Shuffle"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, ShuffleFields{buffer_, options_});
  }
  Varies varies() const override { return Varies::kOrder; }
  std::string Parameters() const override {
    std::string out = absl::StrCat(buffer_);
    if (options_.seed.has_value()) absl::StrAppend(&out, ", seed=", *options_.seed);
    if (!options_.reshuffle_each_epoch) absl::StrAppend(&out, ", same order each epoch");
    return out;
  }
  bool is_selection() const override { return true; }
  bool depends_on_length() const override { return true; }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0];
  }
  std::string memory_advice() const override {
    return "a smaller shuffle buffer (with shuffle_files, or global_shuffle of "
           "FromTfRecords, a small one or none suffices)";
  }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (buffer_ < 1) return absl::InvalidArgumentError("the buffer must hold at least 1 element");
    return inputs[0];
  }

  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    const uint64_t seed = options_.seed.value_or(context.seed);
    const int64_t epoch = options_.reshuffle_each_epoch ? context.epoch : 0;
    return std::make_unique<ShuffleNode>(context, std::move(input), buffer_,
                                         base::MixSeeds(seed, epoch));
  }

 private:
  const int64_t buffer_;
  const ShuffleOptions options_;
};

}  // namespace

Dataset Dataset::Shuffle(int64_t buffer, ShuffleOptions options) const {
  return Then(std::make_shared<ShuffleStage>(buffer, options));
}

absl::StatusOr<Dataset> ReadShuffle(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<ShuffleFields>(in));
  return inputs[0].Shuffle(p.buffer, p.options);
}

}  // namespace penstock::data
