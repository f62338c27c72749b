// Decides where an input pipeline runs: here, or beside devices that are elsewhere (feed_host.h).
// Internal to room train.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const FeedPlace place, PlaceFeed(client, dataset, read));
//   if (!place.note.empty()) callbacks.NoteOnce(place.note);
//   if (place.host != nullptr) PENSTOCK_ASSIGN_OR_RETURN(auto feed, OpenFeedAt(place, ...));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/cache/device_cache.h"
#include "penstock/data/dataset.h"
#include "penstock/train/device_cache.h"
#include "penstock/train/feed.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/options.h"

namespace penstock::train {

struct FeedPlace {
  FeedHost* host = nullptr;  // null: the pipeline runs here
  std::string dataset = {};  // JSON for the host
  uint64_t dataset_id = 0;
  // Parts of the dataset that run here; their elements are sent once (SendParts).
  std::vector<data::DatasetPart> parts = {};
  std::vector<uint64_t> rows = {};  // their handles there
  std::string note = {};            // why it runs where it runs, if the devices are elsewhere

  // Of a dataset with Cache("device"): what is upstream of it is read once, at the host if this has its JSON.
  std::optional<data::DeviceCacheSplit> device_cache = {};
  std::string device_part = {};
  CachedOnDevices on_devices = {};  // set by SendParts
  std::optional<data::Dataset> numbers =
      {};  // what is downstream, over row numbers; set by SendParts
};

// An error if the user requested the worker (ReadOptions::place) and the pipeline cannot run there, or if a stage
// cannot follow Cache("device"); nothing has been sent.
absl::StatusOr<FeedPlace> PlaceFeed(runtime::Client& client, const data::Dataset& dataset,
                                    const ReadOptions& read);

// Sends the elements of the parts that the host does not have yet, and transfers the rows of a Cache("device") that the
// devices do not have yet; call before every OpenFeedAt and OpenFeedHere. Sets place.note if there is something to say.
// What does not fit runs here (place.host is null afterwards), or is an error if the user requested the worker, or
// the devices.
absl::Status SendParts(FeedPlace& place, const ReadOptions& read,
                       const data::IteratorOptions& options, const Strategy& strategy);

// Opens the feed at place.host. `read`: the seed, epoch and state. The labels of the first batch are checked
// as Feed checks them. What is referred to must outlive the feed.
absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeedAt(const FeedPlace& place,
                                                     const data::IteratorOptions& read,
                                                     const nn::Network& network,
                                                     const Strategy& strategy,
                                                     const Feed::Options& options);

// Opens the feed of a pipeline that runs here (place.host is null).
absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeedHere(
    const FeedPlace& place, const data::Dataset& dataset, const data::IteratorOptions& read,
    const nn::Network& network, const Strategy& strategy, const Feed::Options& options);

}  // namespace penstock::train
