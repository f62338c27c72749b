// Feed: batches on their way from a pipeline to the devices. It picks the columns, pads the last
// batch to the size of the others (so that no second program is compiled), splits it over the
// replicas and starts the copies; on CPU devices nothing is copied.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/nn/network.h"
#include "penstock/train/step_program.h"
#include "penstock/train/strategy.h"

namespace penstock::train {

// Which columns of a batch go where.
struct Columns {
  // For the network's inputs, in their order. Empty: the columns named as the inputs are, or else
  // the first column when the network has one input and the batch has two columns.
  std::vector<std::string> inputs = {};
  // Empty: the only column that is no input.
  std::string label = "";
};

// A batch on the devices.
struct DeviceBatch {
  std::vector<runtime::Buffers> replicas;  // [replica]: inputs..., label (if wanted), count
  int64_t examples = 0;                    // real ones, of all replicas
  BatchTypes types;                        // of one replica's part
};

class Feed {
 public:
  struct Options {
    Columns columns = {};
    bool with_label = true;
  };
  // `strategy` and `network` outlive the feed.
  Feed(std::unique_ptr<data::Iterator> iterator, const nn::Network& network,
       const Strategy& strategy, Options options)
      : iterator_(std::move(iterator)),
        network_(network),
        strategy_(strategy),
        options_(std::move(options)) {}

  // The next batch, nothing at the end of the data.
  absl::StatusOr<std::optional<DeviceBatch>> Next();
  // Of the data, behind the last batch that Next gave.
  data::IteratorState State() const { return iterator_->State(); }
  // What would make the data come faster, as far as that is known by now.
  std::vector<std::string> Hints() const;

 private:
  absl::Status ResolveColumns(const base::NamedArrays& batch);
  absl::StatusOr<DeviceBatch> Place(const base::NamedArrays& batch);

  std::unique_ptr<data::Iterator> iterator_;
  const nn::Network& network_;
  const Strategy& strategy_;
  Options options_;
  bool resolved_ = false;
  std::vector<std::string> names_;  // inputs..., label
  int64_t replica_rows_ = 0;        // of every batch, padding included
};

}  // namespace penstock::train
