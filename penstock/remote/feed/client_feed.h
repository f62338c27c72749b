// ClientFeed: the client's side of an input pipeline that runs on the worker. Batches are requested some
// executions ahead; their buffers are handles. Internal to room remote; RemoteClient::OpenFeed makes it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/remote/client/client_session.h"
#include "penstock/remote/client/remote_buffer.h"
#include "penstock/train/feed_host.h"

namespace penstock::remote {

class ClientFeed final : public train::HostFeed {
 public:
  // Executions requested ahead of the one that runs: enough for the next transfers; and at most, where more
  // of them fill a round trip. A worker accepts 16.
  static constexpr int kAhead = 3, kMaxAhead = 14;

  ClientFeed(std::shared_ptr<ClientSession> session, Devices devices, train::FeedRequest request);
  ~ClientFeed() override;

  absl::StatusOr<std::optional<train::DeviceBatch>> Next(int64_t depth, int64_t steps) override;
  absl::StatusOr<bool> HasNext() override;
  data::IteratorState State() const override;
  int64_t batch_rows() const override { return request_.batch_rows; }
  std::vector<std::string> Hints() const override;
  data::PipelineReport Report() const override { return report_; }
  void Expect(const std::vector<Take>& calls) override;
  int expects() const override { return ahead_; }

 private:
  // A reply, when it is there. The callback of the link makes the buffers, so that a batch that no thread waits
  // for is freed.
  struct Answer;
  struct Requested {
    Take take;
    std::shared_ptr<Answer> answer;
  };

  absl::Status Open();
  void CloseNow();
  absl::Status Request(Take take);
  // Sets ahead_ by the time between calls of Next.
  void MeasurePace();
  // Requests what is expected, up to ahead_; at least one batch.
  absl::Status RequestAhead(Take otherwise);
  // Opens the feed again where the batches that Next returned end: what was requested has another depth, or
  // reaches too far.
  absl::Status Reposition();

  const std::shared_ptr<ClientSession> session_;
  const Devices devices_;
  train::FeedRequest request_;  // its state and batch_rows are those after the last batch
  uint64_t feed_ = 0;           // 0: not open
  std::shared_ptr<Answer> opened_;
  std::deque<Requested> requested_;
  std::vector<Take> expected_;
  bool is_expected_ = false;  // Expect was called
  int ahead_ = kAhead;
  double last_next_ = 0,
         between_ = 0;  // time of the last Next, moving average between two; in seconds
  std::shared_ptr<const train::BatchTypes> types_;
  data::PipelineReport report_;
};

}  // namespace penstock::remote
