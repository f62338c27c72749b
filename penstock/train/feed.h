// Feed: batches on their way from a pipeline to the devices. It picks the columns, pads the last
// batch to the size of the others (so that no second program is compiled), splits it over the
// replicas and starts the copies; on CPU devices nothing is copied.
//
// For executions of several steps it stacks batches: they are copied once on the host, into memory
// that is aligned as a CPU device wants it and used again when its execution is done.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/buffer_pool.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/report.h"
#include "penstock/nn/network.h"
#include "penstock/train/step_program.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// Which columns of a batch go where.
struct Columns {
  // For the network's inputs, in their order. Empty: the columns named as the inputs are, or else
  // the first column when the network has one input and the batch has two columns.
  std::vector<std::string> inputs = {};
  // For the network's outputs, in their order. Empty: the columns named as the outputs are, or
  // else, with one output, the only column that is left.
  std::vector<std::string> labels = {};
  // How much each example counts: one column for all outputs, or one for each. Empty: the column
  // "sample_weight" if there is one, else all examples count alike.
  std::vector<std::string> sample_weights = {};
};

// What one execution takes, on the devices: a batch, or several as a stack.
struct DeviceBatch {
  // [replica]: inputs..., and if wanted labels..., weights..., count, of a stack also the number of
  // its batches.
  std::vector<runtime::Buffers> replicas;
  int64_t steps = 1;     // batches; a stack has room for types.depth
  int64_t examples = 0;  // real ones, of all replicas and batches
  int64_t bytes = 0;     // of one batch, all replicas
  BatchTypes types;      // of one replica's part
};

class Feed {
 public:
  struct Options {
    Columns columns = {};
    bool with_labels = true;
    // The weight of each class, by its number; examples of the others weigh 1. With weights of the
    // examples too it is their product. Needs one output, whose labels are class numbers or
    // one-hot.
    std::map<int64_t, double> class_weight = {};
    // Whose labels are looked at in the first batch: numbers that make no sense for the loss are an
    // error there. Null: they are not.
    const std::vector<Target>* targets = nullptr;
    base::Trace* trace = nullptr;
    // Rows of a whole batch, if the iterator starts in the middle of a pass, where the first batch
    // may be the smaller last one. 0: as many as the first batch has.
    int64_t batch_rows = 0;
  };
  // `strategy` and `network` outlive the feed.
  Feed(std::unique_ptr<data::Iterator> iterator, const nn::Network& network,
       const Strategy& strategy, Options options)
      : iterator_(std::move(iterator)),
        network_(network),
        strategy_(strategy),
        options_(std::move(options)) {}

  // The next batch, nothing at the end of the data. With a depth of more than 1 the next `steps`
  // batches, in a stack with room for `depth`; fewer at the end of the data, and before a batch
  // whose rows have other shapes.
  absl::StatusOr<std::optional<DeviceBatch>> Next(int64_t depth = 1, int64_t steps = 1);
  // Whether Next will give a batch, which is read for it; false at the end of the data.
  absl::StatusOr<bool> HasNext() { return Read(); }
  // Of the data, behind the last batch that Next gave.
  data::IteratorState State() const { return read_.empty() ? iterator_->State() : before_read_; }
  // Rows of a whole batch; 0 before the first batch.
  int64_t batch_rows() const { return options_.batch_rows; }
  // What would make the data come faster, as far as that is known by now.
  std::vector<std::string> Hints() const;
  data::PipelineReport Report() const { return iterator_->Report(); }

 private:
  // Numbers that are on a device.
  struct Sent {
    std::vector<int32_t> numbers;
    runtime::Buffer buffer;
  };
  struct SentTo {
    Sent counts, steps;
  };

  // Makes sure that a batch stands in read_; false at the end of the data.
  absl::StatusOr<bool> Read();
  absl::Status ResolveColumns(const base::NamedArrays& batch);
  absl::StatusOr<std::vector<std::string>> InputNames(
      const std::vector<std::string>& present) const;
  absl::StatusOr<std::vector<std::string>> LabelNames(
      const std::vector<std::string>& present) const;
  absl::Status AddWeightColumn(const std::vector<std::string>& present);
  absl::Status WeighByClass();
  absl::Status CheckRows();
  absl::Status CheckLabels() const;
  const base::Array& Column(size_t i) const { return *read_.Find(names_[i]); }
  int64_t Examples() const { return Column(0).dim(0); }
  int32_t ExamplesOf(int replica) const;
  BatchTypes TypesOfRead() const;
  absl::StatusOr<DeviceBatch> Place();
  // Checks that a stack fits into the free memory.
  absl::Status CheckStackFits(int64_t depth) const;
  absl::StatusOr<DeviceBatch> PlaceStack(int64_t depth, int64_t steps);
  absl::StatusOr<runtime::Buffer> PutNumbers(int replica, std::vector<int32_t> numbers, Sent& sent);

  std::unique_ptr<data::Iterator> iterator_;
  const nn::Network& network_;
  const Strategy& strategy_;
  Options options_;
  bool resolved_ = false;
  std::vector<std::string> names_;  // inputs..., labels..., weights...
  size_t num_labels_ = 0;
  int64_t checked_depth_ = 0;
  int64_t replica_rows_ = 0;  // of every batch, padding included
  base::NamedArrays read_;    // from the iterator, not yet given
  data::IteratorState before_read_;
  std::vector<SentTo> sent_;  // [replica]
  const std::shared_ptr<data::BufferPool> memory_ = data::BufferPool::Make();
};

}  // namespace penstock::train
