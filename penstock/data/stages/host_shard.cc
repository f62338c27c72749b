#include "penstock/data/stages/host_shard.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/stages/ragged.h"
#include "penstock/io/file_system.h"

namespace penstock::data {

absl::Status CheckBatch(int64_t size, const HostShard& host) {
  constexpr int64_t kMaxRows = int64_t{1} << 31;
  if (size < 1) return absl::InvalidArgumentError("a batch must have at least 1 element");
  if (size > kMaxRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch can have at most ", kMaxRows, " elements"));
  }
  if (size >= host.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a batch of ", size, " rows cannot be shared by ",
                                                 host.count, " hosts; make it larger"));
}

int64_t RowsPerHost(const HostShard& host, int64_t size) {
  return size % host.count == 0 ? size / host.count : -1;
}

absl::Status CheckSameShapes(const ElementSpec& batches) {
  for (const ColumnSpec& column : batches.columns()) {
    // Strings stay on the host.
    if (column.dtype == base::DType::kString || column.shape.rank() == 0) continue;
    const bool ragged = batches.Find(RowSplitsOf(column.name)) >= 0;
    if (!ragged && IsKnown(column.shape.RowShape())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "IteratorOptions.host: the shape of column ", column.ToString(),
        " depends on the rows that a host gets, so the hosts would run programs of different "
        "shapes. Give it a fixed shape: ",
        ragged ? "PaddedBatch with .padded_shapes in place of .ragged, or a Map after the batch "
                 "that makes it dense"
               : "PaddedBatchOptions.padded_shapes, .height and .width of DecodeImage, or .makes "
                 "of a Map"));
  }
  return absl::OkStatus();
}

std::string PrintHost(const HostShard& host) {
  return host.count == 1 ? "" : absl::StrCat(", machine ", host.index, " of ", host.count);
}

int64_t NumBatches(int64_t rows, int64_t size, bool drop_remainder, const HostShard& host) {
  if (rows < 0) return rows;
  return rows / size + (!drop_remainder && rows % size >= host.count ? 1 : 0);
}

// A copy of the description, with the last stage that makes batches replaced; the stages after it
// get the spec of its output.
absl::StatusOr<Dataset> Dataset::ForHost(const HostShard& host) const {
  PENSTOCK_RETURN_IF_ERROR(status_);
  if (host.count == 1) return *this;
  const Stage& stage = *description_->stage;
  if (description_->inputs.size() == 1) {
    Dataset input;
    input.description_ = description_->inputs[0];
    std::shared_ptr<const Stage> shared = stage.ForHost(host);
    if (shared == nullptr && stage.may_follow_host_shard()) {
      PENSTOCK_ASSIGN_OR_RETURN(input, input.ForHost(host));
      shared = description_->stage;
    }
    if (shared != nullptr) {
      Dataset own = input.Then(std::move(shared));
      PENSTOCK_RETURN_IF_ERROR(own.status());
      return own;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "IteratorOptions.host: hosts share the rows of batches, so the dataset must end in "
      "Batch, PaddedBatch or Rebatch, followed only by Map, Repeat, Shuffle, Take, Skip and "
      "Prefetch; found ",
      stage.ToString()));
}

namespace {

using Descriptions = std::vector<const Dataset::Description*>;

// Stages from the last one of the dataset to the one that makes the shared batches; empty if there
// is none.
Descriptions FromEndToShared(const Dataset::Description& end) {
  Descriptions path;
  for (const auto* at = &end;; at = at->inputs[0].get()) {
    path.push_back(at);
    if (at->stage->ForHost({.count = 1, .index = 0}) != nullptr) return path;
    if (at->inputs.size() != 1) return {};
  }
}

}  // namespace

absl::Status Dataset::CheckSameBatches(const IteratorOptions& options) const {
  const int64_t then = options.state->hosts, now = options.host.count;
  if (then == now || options.state->elements == 0) return absl::OkStatus();
  const Descriptions path = FromEndToShared(*description_);
  const auto behind = std::find_if(path.rbegin(), path.rend(), [](const Description* at) {
    return at->stage->depends_on_length();
  });
  if (behind == path.rend()) return absl::OkStatus();
  const Description& shared = *path.back();
  const auto batches = [&](int64_t machines, int64_t rows) {
    const ResolveContext unused;
    return shared.stage->ForHost({.count = machines, .index = 0})->Cardinality({&rows, 1}, unused);
  };
  // A last batch that one number of machines drops and the other shares, if any.
  const int64_t fewest = std::min(then, now);
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t max_dropped, batches(std::max(then, now), fewest));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t min_dropped, batches(fewest, fewest));
  if (max_dropped == min_dropped) return absl::OkStatus();
  Dataset input;
  input.description_ = shared.inputs[0];
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t rows,
                            input.Cardinality({.file_system = options.file_system}));
  if (rows == kInfiniteCardinality) return absl::OkStatus();
  if (rows >= 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t batches_then, batches(then, rows));
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t batches_now, batches(now, rows));
    if (batches_then == batches_now) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the iterator's state (", options.state->ToString(), ") was saved on ", then,
      " hosts and is not valid on ", now, ": a last batch of fewer rows than hosts is ",
      "dropped (HostShard), so after ", shared.stage->ToString(), " the elements of ",
      (*behind)->stage->ToString(), rows < 0 ? " may be different. " : " are different. ",
      "Resume on ", then,
      " hosts, or begin a new epoch; with drop_remainder a state is valid on any number"));
}

absl::StatusOr<int64_t> Dataset::Cardinality(const IteratorOptions& options) const {
  PENSTOCK_ASSIGN_OR_RETURN(const Dataset own, ForHost(options.host));
  const ResolveContext context = {.file_system = options.file_system != nullptr
                                                     ? options.file_system
                                                     : io::FileSystem::Default()};
  const std::function<absl::StatusOr<int64_t>(const Description&)> count =
      [&](const Description& description) -> absl::StatusOr<int64_t> {
    std::vector<int64_t> inputs;
    for (const auto& input : description.inputs) {
      PENSTOCK_ASSIGN_OR_RETURN(inputs.emplace_back(), count(*input));
    }
    absl::StatusOr<int64_t> elements = description.stage->Cardinality(inputs, context);
    if (!elements.ok()) return base::WithContext(elements.status(), description.stage->ToString());
    return elements;
  };
  return count(*own.description_);
}

}  // namespace penstock::data
