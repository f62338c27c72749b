#include "penstock/train/feed_place.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/base/with_commas.h"
#include "penstock/data/stage.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/io/file_system.h"
#include "penstock/io/uri.h"
#include "penstock/train/device_feed.h"

namespace penstock::train {
namespace {

// Why the pipeline cannot run at the host; OK: it can. Local files: those of the host, which are meant only
// if the user says so.
// `parts`: if not null, what is upstream of a Cache("worker") may run here.
absl::Status CheckTravels(const FeedHost& host, const data::Dataset& dataset,
                          const ReadOptions& read, std::string* json,
                          std::vector<data::DatasetPart>* parts) {
  PENSTOCK_ASSIGN_OR_RETURN(*json, data::DatasetToJson(dataset, parts));
  const bool without_parts = parts != nullptr;
  const std::vector<data::DatasetPath> paths = data::PathsOf(dataset, without_parts);
  if (read.file_system != nullptr && (!without_parts || !paths.empty())) {
    return absl::FailedPreconditionError("it reads through a file_system of this process");
  }
  for (const data::DatasetPath& path : paths) {
    if (path.local && read.place != PipelinePlace::kWorker) {
      return absl::FailedPreconditionError(
          absl::StrCat("it ", path.write ? "writes " : "reads ", path.uri, ", a local file"));
    }
    PENSTOCK_RETURN_IF_ERROR(host.CheckPath(path.uri, path.write));
  }
  return absl::OkStatus();
}

// Whether there is a Cache("worker").
bool KeepsRows(const data::Dataset::Description& last) {
  return last.stage->keeps_rows() ||
         std::any_of(last.inputs.begin(), last.inputs.end(),
                     [](const auto& input) { return KeepsRows(*input); });
}

// A feed whose labels are on the devices and are checked here, where the losses are.
class CheckedFeed final : public HostFeed {
 public:
  CheckedFeed(std::unique_ptr<HostFeed> feed, const nn::Network& network,
              const std::vector<Target>& targets, std::vector<std::string> columns)
      : feed_(std::move(feed)),
        network_(network),
        targets_(targets),
        columns_(std::move(columns)) {}

  absl::StatusOr<std::optional<DeviceBatch>> Next(int64_t depth, int64_t steps) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::optional<DeviceBatch> batch, feed_->Next(depth, steps));
    if (!std::exchange(checked_, true) && batch.has_value()) {
      PENSTOCK_RETURN_IF_ERROR(Check(*batch));
    }
    return batch;
  }
  absl::StatusOr<bool> HasNext() override { return feed_->HasNext(); }
  data::IteratorState State() const override { return feed_->State(); }
  int64_t batch_rows() const override { return feed_->batch_rows(); }
  std::vector<std::string> Hints() const override { return feed_->Hints(); }
  data::PipelineReport Report() const override { return feed_->Report(); }
  void Interrupt() override { feed_->Interrupt(); }
  void Expect(const std::vector<Take>& calls) override { feed_->Expect(calls); }
  int expects() const override { return feed_->expects(); }

 private:
  // Padding repeats rows of the batch, so it is checked without harm.
  absl::Status Check(const DeviceBatch& batch) const {
    const size_t first = batch.types->inputs.size();
    const size_t labels = std::min(targets_.size(), batch.types->labels.size());
    for (size_t t = 0; t < labels; ++t) {
      for (const runtime::Buffers& replica : batch.replicas) {
        PENSTOCK_ASSIGN_OR_RETURN(base::Array array, replica[first + t].Get());
        if (batch.types->depth > 1) array = array.Row(0);
        const std::string column = t < columns_.size() ? columns_[t] : network_.outputs()[t].name;
        PENSTOCK_RETURN_IF_ERROR(
            base::WithContext(targets_[t].loss.CheckLabels(array, network_.outputs()[t].type),
                              absl::StrCat("the labels in column '", column, "'")));
      }
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<HostFeed> feed_;
  const nn::Network& network_;
  const std::vector<Target>& targets_;
  const std::vector<std::string> columns_;
  bool checked_ = false;
};

std::unique_ptr<HostFeed> WithCheckedLabels(std::unique_ptr<HostFeed> feed,
                                            const nn::Network& network,
                                            const Feed::Options& options) {
  if (options.targets == nullptr || !options.with_labels) return feed;
  return std::make_unique<CheckedFeed>(std::move(feed), network, *options.targets,
                                       options.columns.labels);
}

// A dataset with Cache("device"): what is downstream of it always travels.
absl::Status PlaceDeviceCache(FeedHost* host, const ReadOptions& read, FeedPlace& place) {
  if (host == nullptr || read.place == PipelinePlace::kClient) return absl::OkStatus();
  place.host = host;
  const absl::Status status = CheckTravels(*host, data::Dataset::Of(place.device_cache->rows), read,
                                           &place.device_part, nullptr);
  if (status.ok()) {
    place.note =
        "the input pipeline runs on the worker, which reads what is upstream of Cache(\"device\") "
        "once";
    return absl::OkStatus();
  }
  place.device_part.clear();
  // Paths are the worker's files, and one that it may not read is an error.
  if (read.place == PipelinePlace::kWorker && absl::IsPermissionDenied(status)) return status;
  place.note =
      "what is upstream of Cache(\"device\") runs here and is sent once; the rest of the input "
      "pipeline runs on the worker, beside the devices";
  return absl::OkStatus();
}

absl::Status FillDeviceCache(FeedPlace& place, const data::IteratorOptions& options,
                             const Strategy& strategy) {
  PENSTOCK_ASSIGN_OR_RETURN(
      place.on_devices, CacheOnDevices(*place.device_cache, strategy.client(), DevicesOf(strategy),
                                       place.device_part, options));
  if (!place.on_devices.note.empty()) place.note = std::move(place.on_devices.note);
  if (place.numbers.has_value()) return absl::OkStatus();
  const auto file_system =
      options.file_system != nullptr ? options.file_system : io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(place.numbers,
                            data::RowNumbers(*place.device_cache, place.on_devices.rows->rows(),
                                             {.file_system = file_system}));
  if (place.host == nullptr) return absl::OkStatus();
  PENSTOCK_ASSIGN_OR_RETURN(place.dataset, data::DatasetToJson(*place.numbers));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FeedPlace> PlaceFeed(runtime::Client& client, const data::Dataset& dataset,
                                    const ReadOptions& read) {
  FeedPlace place;
  auto* host = dynamic_cast<FeedHost*>(&client);
  PENSTOCK_ASSIGN_OR_RETURN(place.device_cache, data::SplitAtDeviceCache(dataset));
  if (place.device_cache.has_value()) {
    place.dataset_id = reinterpret_cast<uintptr_t>(dataset.shared_description().get());
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(PlaceDeviceCache(host, read, place),
                                               "the input pipeline cannot run on the worker"));
    return place;
  }
  if (host == nullptr || read.place == PipelinePlace::kClient) return place;
  place.dataset_id = reinterpret_cast<uintptr_t>(dataset.shared_description().get());
  absl::Status status = CheckTravels(*host, dataset, read, &place.dataset, nullptr);
  if (status.ok()) {
    place.host = host;
    place.note = "the input pipeline runs on the worker, beside the devices";
    return place;
  }
  // With kWorker, paths are the worker's files, and one that it may not read is an error.
  if (KeepsRows(dataset.description()) &&
      !(read.place == PipelinePlace::kWorker && absl::IsPermissionDenied(status))) {
    status = CheckTravels(*host, dataset, read, &place.dataset, &place.parts);
    if (status.ok()) {
      place.host = host;
      place.note =
          "what is upstream of Cache(\"worker\") runs here and is sent once; the rest of the input "
          "pipeline runs on the worker, beside the devices";
      return place;
    }
    place.parts.clear();
  }
  if (read.place == PipelinePlace::kWorker) {
    return base::WithContext(status, "the input pipeline cannot run on the worker");
  }
  place.note =
      absl::StrCat("the input pipeline runs here and sends its batches to the worker, because ",
                   status.message());
  return place;
}

absl::Status SendParts(FeedPlace& place, const ReadOptions& read,
                       const data::IteratorOptions& options, const Strategy& strategy) {
  if (place.device_cache.has_value()) return FillDeviceCache(place, options, strategy);
  if (place.host == nullptr) return absl::OkStatus();
  place.rows.clear();
  std::vector<std::string> notes;
  for (const data::DatasetPart& part : place.parts) {
    const absl::StatusOr<KeptRows> kept = place.host->KeepRows(part, options);
    if (absl::IsResourceExhausted(kept.status()) && read.place != PipelinePlace::kWorker) {
      place.host = nullptr;
      place.note =
          absl::StrCat("the input pipeline runs here and sends its batches to the worker, because ",
                       kept.status().message());
      return absl::OkStatus();
    }
    PENSTOCK_RETURN_IF_ERROR(kept.status());
    place.rows.push_back(kept->handle);
    if (kept->sent) {
      notes.push_back(absl::StrCat("cached ", base::WithCommas(kept->elements), " elements, ",
                                   base::PrintBytes(kept->bytes), ", in ", kept->where));
    }
  }
  if (!notes.empty()) place.note = absl::StrJoin(notes, "; ");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeedAt(const FeedPlace& place,
                                                     const data::IteratorOptions& read,
                                                     const nn::Network& network,
                                                     const Strategy& strategy,
                                                     const Feed::Options& options) {
  FeedRequest request = {.dataset = place.dataset,
                         .dataset_id = place.dataset_id,
                         .seed = read.seed,
                         .epoch = read.epoch,
                         .state = read.state,
                         .deterministic = read.deterministic,
                         .ports = FeedPortsOf(network),
                         .columns = options.columns,
                         .with_labels = options.with_labels,
                         .class_weight = options.class_weight,
                         .batch_rows = options.batch_rows};
  for (int r = 0; r < strategy.num_replicas(); ++r) {
    request.devices.push_back(strategy.device(r).index);
  }
  request.rows = place.rows;
  request.device_rows = place.on_devices.rows;
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<HostFeed> feed, place.host->OpenFeed(request));
  return WithCheckedLabels(std::move(feed), network, options);
}

absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeedHere(
    const FeedPlace& place, const data::Dataset& dataset, const data::IteratorOptions& read,
    const nn::Network& network, const Strategy& strategy, const Feed::Options& options) {
  const data::Dataset& source = place.numbers.has_value() ? *place.numbers : dataset;
  PENSTOCK_ASSIGN_OR_RETURN(auto iterator, source.MakeIterator(read));
  if (!place.numbers.has_value()) {
    return std::make_unique<Feed>(std::move(iterator), network, strategy, options);
  }
  return WithCheckedLabels(
      std::make_unique<DeviceFeed>(std::move(iterator), FeedPortsOf(network), strategy.client(),
                                   DevicesOf(strategy), options, place.on_devices.rows,
                                   place.on_devices.programs),
      network, options);
}

}  // namespace penstock::train
