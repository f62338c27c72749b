// RowSender: sends the elements of parts of datasets, which the worker keeps (Cache("worker")). Internal to room
// remote; RemoteClient has one.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/iterator.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/remote/client/client_session.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {

// Thread-safe: one part is sent at a time.
class RowSender {
 public:
  // train::FeedHost::KeepRows. Rows of an earlier session are gone with it and are sent again; those of parts that
  // do not exist any more are dropped.
  absl::StatusOr<train::KeptRows> Send(const std::shared_ptr<ClientSession>& session,
                                       const data::DatasetPart& part,
                                       const data::IteratorOptions& read);

 private:
  struct Sent {
    std::weak_ptr<const data::Dataset::Description> part;
    std::weak_ptr<ClientSession> session;
    train::KeptRows kept;
  };

  std::mutex mutex_;
  std::vector<Sent> sent_;
};

}  // namespace penstock::remote
