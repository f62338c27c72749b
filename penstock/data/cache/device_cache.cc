#include "penstock/data/cache/device_cache.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/data/cache/cache_folder.h"
#include "penstock/data/cache/uploaded_rows.h"
#include "penstock/data/travel/stage_fields.h"

namespace penstock::data {
namespace {

class DeviceCacheStage : public Stage {
 public:
  absl::string_view name() const override { return "Cache"; }
  std::string Parameters() const override { return "device"; }
  absl::Status WriteFields(StageFields& out) const override {
    return WriteCacheFields(out, "", /*memory_first=*/false, CacheHome::kDevice);
  }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return inputs[0];
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t> inputs,
                                      const ResolveContext&) const override {
    return inputs[0];
  }
  // A cache holds the elements of the first epoch.
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return context.make_input(0, /*epoch=*/0);
  }

  const std::shared_ptr<DeviceCacheSlot>& slot() const { return slot_; }

 private:
  const std::shared_ptr<DeviceCacheSlot> slot_ = std::make_shared<DeviceCacheSlot>();
};

// ---- Row numbers ----

struct RowNumbersFields {
  int64_t rows = 0;
  std::string part = {};  // PartDescription
};
void Fields(StageFields& f, RowNumbersFields& p) {
  f.Value("rows", &p.rows);
  f.CheckRange("rows", p.rows, 0, kMaxDeviceRows);
  f.Value("part", &p.part);
}

// Range(rows) that prints as the stages in whose place it stands.
class RowNumbersStage : public Stage {
 public:
  RowNumbersStage(int64_t rows, PartDescription part)
      : rows_(rows), part_(std::move(part)), range_(Dataset::Range(0, rows).description().stage) {}

  absl::string_view name() const override { return "RowNumbers"; }
  std::string Parameters() const override { return absl::StrCat(rows_); }
  absl::Status WriteFields(StageFields& out) const override {
    return Write(out, RowNumbersFields{rows_, part_.ToJson()});
  }
  int64_t num_stages() const override { return part_.num_stages; }
  const std::string* printed() const override { return &part_.printed; }
  std::string ResolvedSources() const override { return part_.sources; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return range_->OutputSpec(inputs);
  }
  absl::StatusOr<int64_t> Cardinality(absl::Span<const int64_t>,
                                      const ResolveContext&) const override {
    return rows_;
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return range_->MakeNode(context);
  }

 private:
  const int64_t rows_;
  const PartDescription part_;
  const std::shared_ptr<const Stage> range_;
};

const DeviceCacheStage* AsDeviceCache(const Dataset::Description& description) {
  return dynamic_cast<const DeviceCacheStage*>(description.stage.get());
}

bool HasDeviceCache(const Dataset::Description& last) {
  return AsDeviceCache(last) != nullptr ||
         std::any_of(last.inputs.begin(), last.inputs.end(),
                     [](const auto& input) { return HasDeviceCache(*input); });
}

// Whether the stage treats all elements alike, whatever is in them.
bool RunsOnRowNumbers(const Stage& stage) {
  const absl::string_view name = stage.name();
  // Batches of rows that are ragged have another column.
  if (name == "Batch") return stage.Parameters().find("ragged") == std::string::npos;
  return stage.is_selection() || name == "Prefetch" || name == "IgnoreErrors";
}

}  // namespace

std::shared_ptr<const Stage> MakeDeviceCache() { return std::make_shared<DeviceCacheStage>(); }

absl::StatusOr<std::optional<DeviceCacheSplit>> SplitAtDeviceCache(const Dataset& dataset) {
  if (!dataset.status().ok() || !HasDeviceCache(dataset.description())) return std::nullopt;
  DeviceCacheSplit split;
  std::shared_ptr<const Dataset::Description> at = dataset.shared_description();
  for (; AsDeviceCache(*at) == nullptr; at = at->inputs[0]) {
    const bool several = at->inputs.size() > 1;
    if (!several && RunsOnRowNumbers(*at->stage)) {
      split.downstream.push_back(at->stage);
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", at->stage->ToString(), " cannot follow Cache(\"device\"): ",
                     several ? "it joins datasets on the host"
                             : "it needs the elements on the host, and they are on the devices",
                     "; put it before Cache(\"device\"), or use Cache(\"worker\") instead. "
                     "Shuffle, Take, Skip, Shard, "
                     "Repeat, Batch and Prefetch may follow"));
  }
  std::reverse(split.downstream.begin(), split.downstream.end());
  split.cache = at;
  split.rows = at->inputs[0];
  split.slot = AsDeviceCache(*at)->slot();
  return split;
}

absl::StatusOr<Dataset> RowNumbers(const DeviceCacheSplit& split, int64_t rows,
                                   const ResolveContext& context) {
  PENSTOCK_ASSIGN_OR_RETURN(PartDescription part, PartDescription::Of(*split.cache, context));
  part.spec = ElementSpec();
  Dataset numbers = Dataset::From(std::make_shared<RowNumbersStage>(rows, std::move(part)));
  for (const auto& stage : split.downstream) numbers = numbers.Then(stage);
  PENSTOCK_RETURN_IF_ERROR(numbers.status());
  return numbers;
}

absl::StatusOr<Dataset> ReadRowNumbers(StageFields& in, std::vector<Dataset>) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto p, Read<RowNumbersFields>(in));
  PENSTOCK_ASSIGN_OR_RETURN(auto part, PartDescription::FromJson(p.part));
  return Dataset::From(std::make_shared<RowNumbersStage>(p.rows, std::move(part)));
}

}  // namespace penstock::data
