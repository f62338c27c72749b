// Random (a source of random numbers) and RandomSeed (an RNG key for each element).
#include "penstock/base/random.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/row_stage.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

std::string PrintSeed(const std::optional<uint64_t>& seed) {
  return seed.has_value() ? absl::StrCat("seed=", *seed) : "";
}

// ---- The source ----

class RandomOrigins : public OriginSource {
 public:
  std::string At(int64_t index) const override { return absl::StrCat("random:", index); }
};

// Number i is a function of the seed and i, so skipping costs nothing.
class RandomNode : public Node {
 public:
  RandomNode(const NodeContext& context, uint64_t seed) : Node(context, nullptr), seed_(seed) {}

 protected:
  absl::StatusOr<Poll> DoSkip(int64_t* rows) override {
    next_ += static_cast<uint64_t>(std::exchange(*rows, 0));
    return Poll::kReady;
  }

  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (block_ == nullptr || next_ - block_begin_ >= kBlockRows) {
      MakeBlock();
    }
    const int64_t first = static_cast<int64_t>(next_ - block_begin_);
    const int64_t rows = std::min(max_rows, kBlockRows - first);
    out->Append(block_, first, rows);
    next_ += static_cast<uint64_t>(rows);
    return Poll::kReady;
  }

 private:
  static constexpr int64_t kBlockRows = 4096;

  void MakeBlock() {
    block_begin_ = next_;
    auto block = std::make_shared<Block>();
    block->rows = kBlockRows;
    base::Array values = base::Array::Uninitialized(base::DType::kI64, {kBlockRows});
    int64_t* p = values.mutable_data<int64_t>();
    for (int64_t i = 0; i < kBlockRows; ++i) {
      p[i] = static_cast<int64_t>(base::MixSeeds(seed_, next_ + static_cast<uint64_t>(i)));
    }
    block->origins.Append(std::make_shared<RandomOrigins>(), static_cast<int64_t>(next_),
                          kBlockRows);
    block->columns.emplace_back(std::move(values));
    block_ = std::move(block);
  }

  const uint64_t seed_;
  uint64_t next_ = 0;
  BlockPtr block_;
  uint64_t block_begin_ = 0;
};

struct RandomFields {
  RandomOptions options = {};
};
void Fields(StageFields& f, RandomFields& p) {
  f.Value("seed", &p.options.seed);
  f.Value("rerandomize_each_epoch", &p.options.rerandomize_each_epoch);
}

class RandomStage : public Stage {
 public:
  explicit RandomStage(RandomOptions options) : options_(options) {}

  absl::string_view name() const override { return "Random"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, RandomFields{options_});
  }
  Varies varies() const override { return Varies::kElements; }
  std::string Parameters() const override {
    return absl::StrCat(PrintSeed(options_.seed),
                        options_.rerandomize_each_epoch ? "" : ", same in each epoch");
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    return ElementSpec{{"value", base::DType::kI64, {}}};
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    return kInfiniteCardinality;
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    const int64_t epoch = options_.rerandomize_each_epoch ? context.epoch : 0;
    return std::make_unique<RandomNode>(
        context,
        base::MixSeeds(options_.seed.value_or(context.seed), static_cast<uint64_t>(epoch)));
  }

 private:
  const RandomOptions options_;
};

// ---- One for each element ----

class RandomSeedKernel : public RowKernel {
 public:
  explicit RandomSeedKernel(std::optional<uint64_t> seed) : seed_(seed) {}

  void Run(const RowsIn& in, RowsOut& out) const override {
    auto column = out.Dense(0);
    if (!column.ok()) return out.FailAndStop(0, column.status());
    const uint64_t seed = seed_.value_or(in.seed);
    uint32_t* key = column->mutable_data<uint32_t>();
    for (int64_t row = 0; row < in.rows; ++row, key += 2) {
      const uint64_t mixed = RowSeed(in, seed, row);
      key[0] = static_cast<uint32_t>(mixed >> 32);
      key[1] = static_cast<uint32_t>(mixed);
    }
  }

 private:
  const std::optional<uint64_t> seed_;
};

struct RandomSeedFields {
  RandomSeedOptions options = {};
};
void Fields(StageFields& f, RandomSeedFields& p) {
  f.Value("column", &p.options.column);
  f.Value("seed", &p.options.seed);
}

class RandomSeedStage : public RowStage {
 public:
  explicit RandomSeedStage(RandomSeedOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "RandomSeed"; }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, RandomSeedFields{options_});
  }
  Varies varies() const override { return Varies::kElements; }
  std::string Parameters() const override {
    const std::string seed = PrintSeed(options_.seed);
    return absl::StrCat(options_.column, seed.empty() ? "" : ", ", seed);
  }
  bool counts_rows() const override { return true; }

  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    if (inputs[0].Find(options_.column) >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("there is a column '", options_.column,
                                                     "' already; choose another name (.column)"));
    }
    ElementSpec spec = inputs[0];
    spec.Set({options_.column, base::DType::kU32, {2}});
    return spec;
  }

  absl::StatusOr<RowKernelBinding> Bind(const ElementSpec& input,
                                        const ElementSpec&) const override {
    RowKernelBinding binding;
    binding.kernel = std::make_shared<RandomSeedKernel>(options_.seed);
    for (int i = 0; i < input.size(); ++i) binding.passes.push_back(i);
    binding.passes.push_back(-1);
    return binding;
  }

 private:
  const RandomSeedOptions options_;
};

}  // namespace

Dataset Dataset::Random(RandomOptions options) {
  return From(std::make_shared<RandomStage>(options));
}

Dataset Dataset::RandomSeed(RandomSeedOptions options) const {
  return Then(std::make_shared<RandomSeedStage>(std::move(options)));
}

absl::StatusOr<Dataset> ReadRandom(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<RandomFields>(in));
  return Dataset::Random(p.options);
}

absl::StatusOr<Dataset> ReadRandomSeed(StageFields& in, std::vector<Dataset> inputs) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<RandomSeedFields>(in));
  return inputs[0].RandomSeed(p.options);
}

}  // namespace penstock::data
