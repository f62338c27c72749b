#include "penstock/keras/split_dataset.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/row_stage.h"

namespace penstock::keras {
namespace {

using data::Dataset;
using data::Stage;

bool IsOneOf(absl::string_view name, std::initializer_list<absl::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

absl::Status Rejected(const Stage& stage, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the dataset's ", stage.ToString(), " ", why));
}

// Checks every stage whose output the features are computed from; `shuffles` becomes whether one of
// them changes the order.
absl::Status CheckFixed(const Dataset::Description& description, bool* shuffles) {
  for (const auto& input : description.inputs) {
    PENSTOCK_RETURN_IF_ERROR(CheckFixed(*input, shuffles));
  }
  const Stage& stage = *description.stage;
  switch (stage.varies()) {
    case Stage::Varies::kNothing:
      return absl::OkStatus();
    case Stage::Varies::kOrder:
      *shuffles = true;
      return absl::OkStatus();
    case Stage::Varies::kElements:
      return Rejected(stage,
                      "returns other elements in each epoch, so their features cannot be computed "
                      "once; remove what is random, or train without cached features");
    case Stage::Varies::kUnknown:
      return Rejected(
          stage,
          "calls a function without a name. If it is not random, give it a name "
          "(MapOptions::name and the like), and another one when you change it: it is by "
          "the name that a change is detected");
  }
  return absl::OkStatus();
}

// Whether the stage makes each element from one, so that it may as well precede a shuffle.
bool IsPerElement(const Stage& stage) {
  const auto* row_stage = dynamic_cast<const data::RowStage*>(&stage);
  return row_stage != nullptr && !row_stage->counts_rows();
}

// The stages that follow the source, or the last stage with several inputs, in their order.
std::vector<std::shared_ptr<const Dataset::Description>> ChainOf(const Dataset& dataset) {
  std::vector<std::shared_ptr<const Dataset::Description>> chain{dataset.shared_description()};
  while (chain.back()->inputs.size() == 1) chain.push_back(chain.back()->inputs[0]);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

class Splitter {
 public:
  explicit Splitter(std::shared_ptr<const Dataset::Description> source)
      : out_{.rows = Dataset::Of(std::move(source)), .per_epoch = {}} {}

  absl::Status Add(const std::shared_ptr<const Stage>& stage) {
    const absl::string_view name = stage->name();
    if (batched_) {
      if (!IsOneOf(name, {"Prefetch", "Shuffle", "Repeat", "Take", "Skip", "Shard"})) {
        return Rejected(*stage, "follows Batch; put it before Batch, where it is done once");
      }
      out_.per_epoch.push_back(stage);
    } else if (name == "Batch") {
      batched_ = true;
      out_.per_epoch.push_back(stage);
    } else if (name == "Prefetch") {  // one follows the features
    } else if (IsOneOf(name, {"Shuffle", "Repeat"}) ||
               (Moved() && IsOneOf(name, {"Take", "Skip", "Shard"}))) {
      selects_ = selects_ || !IsOneOf(name, {"Shuffle", "Repeat"});
      out_.per_epoch.push_back(stage);
    } else if (Moved() && !IsPerElement(*stage) &&
               !(IsOneOf(name, {"Filter", "IgnoreErrors"}) && !selects_)) {
      return Rejected(*stage,
                      "follows Shuffle or Repeat; put it before them, where it is done once");
    } else {
      out_.rows = out_.rows.Then(stage);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<SplitDataset> Finish() {
    if (!batched_) {
      return absl::InvalidArgumentError(
          "the dataset has no Batch(n) after its last stage with several inputs; end it with one");
    }
    PENSTOCK_RETURN_IF_ERROR(out_.rows.status());
    PENSTOCK_RETURN_IF_ERROR(CheckFixed(out_.rows.description(), &out_.source_shuffles));
    return std::move(out_);
  }

 private:
  bool Moved() const { return !out_.per_epoch.empty(); }

  SplitDataset out_;
  bool batched_ = false;
  bool selects_ = false;  // whether a Take, Skip or Shard follows the features
};

}  // namespace

Dataset SplitDataset::Batches(const Dataset& stored, int64_t row_bytes) const {
  // The set has the source's order of one epoch, which is random itself; this buffer draws another
  // order in each.
  constexpr int64_t kShuffleBytes = int64_t{256} << 20;
  Dataset out = stored;
  if (source_shuffles) {
    int64_t buffer = std::max<int64_t>(1024, kShuffleBytes / std::max<int64_t>(row_bytes, 1));
    const absl::StatusOr<int64_t> rows = stored.Cardinality();
    if (rows.ok() && *rows > 0) buffer = std::min(buffer, *rows);
    out = out.Shuffle(buffer);
  }
  for (const auto& stage : per_epoch) out = out.Then(stage);
  return out.Prefetch(2);
}

absl::StatusOr<SplitDataset> SplitAtBatch(const Dataset& dataset) {
  PENSTOCK_RETURN_IF_ERROR(dataset.status());
  const auto chain = ChainOf(dataset);
  Splitter splitter(chain[0]);
  for (size_t i = 1; i < chain.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(splitter.Add(chain[i]->stage));
  }
  return splitter.Finish();
}

}  // namespace penstock::keras
