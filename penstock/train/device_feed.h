// DeviceFeed: batches of rows that are in the memory of the devices (device_rows.h). The pipeline gives row numbers; they
// are transferred, and a program on the devices gathers the rows. The batches are those of Feed, bit for bit.
// Internal to rooms train and remote.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/iterator.h"
#include "penstock/data/report.h"
#include "penstock/train/device_rows.h"
#include "penstock/train/feed.h"
#include "penstock/train/feed_columns.h"
#include "penstock/train/feed_host.h"

namespace penstock::train {

class DeviceFeed final : public HostFeed {
 public:
  // `iterator`: batches of one column, row numbers (data::RowNumbers). `client` must outlive the feed. Labels are not
  // checked (options.targets).
  DeviceFeed(std::unique_ptr<data::Iterator> iterator, FeedPorts ports, runtime::Client& client,
             std::vector<runtime::Device> devices, Feed::Options options,
             std::shared_ptr<const DeviceRows> rows, std::shared_ptr<GatherPrograms> programs);

  absl::StatusOr<std::optional<DeviceBatch>> Next(int64_t depth, int64_t steps) override;
  absl::StatusOr<bool> HasNext() override { return Read(); }
  data::IteratorState State() const override {
    return read_.empty() ? iterator_->State() : before_read_;
  }
  int64_t batch_rows() const override { return options_.batch_rows; }
  std::vector<std::string> Hints() const override { return {}; }
  data::PipelineReport Report() const override { return iterator_->Report(); }
  void Interrupt() override { iterator_->Interrupt(); }

 private:
  // The rows of one execution: of a batch, or of a stack of `depth` batches.
  struct Stack {
    std::vector<base::Array> numbers;          // [replica]: int32 [rows] or [depth, rows]
    std::vector<std::vector<int32_t>> counts;  // [replica][step]: examples without the padding
    int64_t steps = 0;                         // at most depth
    int64_t examples = 0;                      // of all replicas and steps
  };

  int num_replicas() const { return static_cast<int>(devices_.size()); }
  // Reads row numbers into read_ if it is empty; false at the end of the data.
  absl::StatusOr<bool> Read();
  absl::Status TakeNumbers(const base::NamedArrays& batch);
  absl::Status CheckSize();
  absl::Status ResolveColumns();
  absl::Status AddClassWeights();
  const std::shared_ptr<const BatchTypes>& TypesOf(int64_t depth);
  // Writes the numbers of the rows of replica `replica`, padded with the first one of the batch.
  void WriteNumbers(int replica, int32_t* out) const;
  int32_t ExamplesOf(int replica) const;
  absl::Status CheckDepth(int64_t depth) const;
  // Takes what Read has read, and up to steps - 1 batches more.
  absl::StatusOr<Stack> TakeStack(int64_t depth, int64_t steps);
  int64_t BytesOfStep() const;
  // Transfers the row numbers of a replica, then the counts that its step program takes.
  absl::StatusOr<runtime::Buffers> Put(const Stack& stack, int64_t depth, size_t replica);

  const std::unique_ptr<data::Iterator> iterator_;
  const FeedPorts ports_;
  runtime::Client& client_;
  const std::vector<runtime::Device> devices_;
  Feed::Options options_;
  const std::shared_ptr<const DeviceRows> rows_;
  const std::shared_ptr<GatherPrograms> programs_;

  bool resolved_ = false;
  FeedColumns columns_;
  std::vector<ir::TensorType> column_types_;
  std::vector<runtime::Buffers> column_buffers_;  // [replica], those that the network takes
  int64_t replica_rows_ = 0;
  std::vector<int32_t> read_;  // not yet returned by Next
  data::IteratorState before_read_;
  std::shared_ptr<const BatchTypes> types_;
};

}  // namespace penstock::train
