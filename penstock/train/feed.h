// Feed: transfers batches from an input pipeline to the devices. It selects the columns, pads the
// last batch to the size of the others (so that no second program is compiled), splits it over the
// replicas and starts the transfers. On CPU devices nothing is copied.
//
// For executions of several steps it stacks batches: they are copied once on the host, into memory
// aligned for CPU devices, which is reused when the execution is done.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/data/engine/buffer_pool.h"
#include "penstock/data/iterator.h"
#include "penstock/data/report.h"
#include "penstock/nn/network.h"
#include "penstock/train/feed_columns.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/objective.h"
#include "penstock/train/step_program.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// The device of each replica.
std::vector<runtime::Device> DevicesOf(const Strategy& strategy);

class Feed final : public HostFeed {
 public:
  struct Options {
    Columns columns = {};
    bool with_labels = true;
    // Weight of each class, by class number; default 1. Multiplied with the examples' weights, if
    // there are any. Requires one output, with class numbers or one-hot labels.
    std::map<int64_t, double> class_weight = {};
    // Targets whose losses check the labels of the first batch: labels that make no sense for the
    // loss are an error there. Null: no check.
    const std::vector<Target>* targets = nullptr;
    base::Trace* trace = nullptr;
    // Rows of a full batch, for an iterator that starts in the middle of a pass, where the first
    // batch may be the smaller last one. 0: the rows of the first batch.
    int64_t batch_rows = 0;
  };
  // `strategy` and `network` must outlive the feed.
  Feed(std::unique_ptr<data::Iterator> iterator, const nn::Network& network,
       const Strategy& strategy, Options options);
  // Without a network. `client` must outlive the feed; a device for each replica.
  Feed(std::unique_ptr<data::Iterator> iterator, FeedPorts ports, runtime::Client& client,
       std::vector<runtime::Device> devices, Options options)
      : iterator_(std::move(iterator)),
        ports_(std::move(ports)),
        client_(client),
        devices_(std::move(devices)),
        options_(std::move(options)) {}

  absl::StatusOr<std::optional<DeviceBatch>> Next(int64_t depth = 1, int64_t steps = 1) override;
  absl::StatusOr<bool> HasNext() override { return Read(); }
  data::IteratorState State() const override {
    return read_.empty() ? iterator_->State() : before_read_;
  }
  int64_t batch_rows() const override { return options_.batch_rows; }
  std::vector<std::string> Hints() const override;
  data::PipelineReport Report() const override { return iterator_->Report(); }
  // From any thread: Next returns CANCELLED from now on, also one that waits for the pipeline.
  void Interrupt() override { iterator_->Interrupt(); }

 private:
  // Numbers that are on a device already: not transferred again while they stay the same.
  struct Sent {
    std::vector<int32_t> numbers;
    runtime::Buffer buffer;
  };
  struct SentTo {
    Sent counts, steps;
  };

  // Reads a batch into read_ if it is empty; false at the end of the data.
  absl::StatusOr<bool> Read();
  absl::Status ResolveColumns(const base::NamedArrays& batch);
  absl::Status ApplyClassWeights();
  absl::Status CheckRows();
  absl::Status CheckLabels() const;
  const base::Array& Column(size_t i) const { return *read_.Find(columns_.names[i]); }
  int64_t Examples() const { return Column(0).dim(0); }
  int num_replicas() const { return static_cast<int>(devices_.size()); }
  int32_t ExamplesOf(int replica) const;
  // Types of the batch in read_, in a stack of `depth`: types_, renewed if they differ.
  const std::shared_ptr<const BatchTypes>& TypesOfRead(int64_t depth);
  // Whether the batch in read_ has these types, whatever their depth.
  bool ReadHasTypes(const BatchTypes& types) const;
  absl::StatusOr<DeviceBatch> Place();
  // Checks that a stack fits into the free memory.
  absl::Status CheckStackFits(int64_t depth) const;
  absl::StatusOr<DeviceBatch> PlaceStack(int64_t depth, int64_t steps);
  // Allocates a stack of each column for each replica.
  absl::StatusOr<std::vector<std::vector<base::Array>>> AllocateStacks(int64_t depth) const;
  absl::StatusOr<runtime::Buffer> PutNumbers(int replica, std::vector<int32_t> numbers, Sent& sent);

  std::unique_ptr<data::Iterator> iterator_;
  const FeedPorts ports_;
  const nn::Network* network_ = nullptr;  // null: labels are not checked here
  runtime::Client& client_;
  const std::vector<runtime::Device> devices_;
  Options options_;
  bool resolved_ = false;
  FeedColumns columns_;
  int64_t checked_depth_ = 0;
  int64_t replica_rows_ = 0;  // of every batch, padding included
  base::NamedArrays read_;    // read from the iterator, not yet returned by Next
  data::IteratorState before_read_;
  std::shared_ptr<const BatchTypes> types_;  // of the last batch
  std::vector<SentTo> sent_;                 // [replica]
  const std::shared_ptr<data::BufferPool> memory_ = data::BufferPool::Make();
};

}  // namespace penstock::train
