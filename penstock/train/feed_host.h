// FeedHost: a client whose devices are elsewhere and where an input pipeline can run beside them (room remote).
// Training and evaluation find it by dynamic_cast; the pipeline then travels as a description, and the same
// Feed runs at the other end.
//
//   auto* host = dynamic_cast<FeedHost*>(&strategy.client());
//   if (host != nullptr) {
//     PENSTOCK_ASSIGN_OR_RETURN(auto feed, host->OpenFeed(request));
//   }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/data/report.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/ir/graph.h"
#include "penstock/nn/network.h"
#include "penstock/runtime/client.h"
#include "penstock/train/device_rows.h"
#include "penstock/train/step_program.h"

namespace penstock::train {

// Maps the columns of a batch to the network's inputs and targets.
struct Columns {
  // The column of each input, in order. Default: the columns named like the inputs, or else the
  // first column if the network has one input and the batch has two columns.
  std::vector<std::string> inputs = {};
  // The column of each output's labels, in order. Default: the columns named like the outputs, or
  // else, with one output, the only remaining column.
  std::vector<std::string> labels = {};
  // Weights of the examples: one column for all outputs, or one for each. Default: the column
  // "sample_weight" if there is one, else every example weighs 1.
  std::vector<std::string> sample_weights = {};
};

// What a feed has to know of a network: the names of its inputs and outputs.
struct FeedPorts {
  std::vector<std::string> inputs = {};
  std::vector<std::string> outputs = {};
};
FeedPorts FeedPortsOf(const nn::Network& network);

// The input of one execution, on the devices: a batch, or several as a stack.
struct DeviceBatch {
  // [replica]: inputs..., then, with labels, labels..., weights..., count, and for a stack also the
  // number of its batches.
  std::vector<runtime::Buffers> replicas;
  int64_t steps = 1;     // number of batches; a stack has space for types->depth
  int64_t examples = 0;  // real ones, without padding, of all replicas and batches
  int64_t bytes = 0;     // of one batch, all replicas
  // Without labels: the columns that are not the network's inputs, on the host.
  base::NamedArrays others = {};
  // Types of one replica's part. Batches of one feed share the object as long as their types do not
  // change, so comparing the pointers suffices to decide whether the same program applies.
  std::shared_ptr<const BatchTypes> types;
};

// Batches on the devices, from an input pipeline here (Feed) or beside the devices.
class HostFeed {
 public:
  virtual ~HostFeed() = default;

  // The next batch; no value at the end of the data. With a depth above 1: the next `steps` batches
  // in a stack with space for `depth`, fewer at the end of the data, before a batch of other types,
  // and as Expect announced.
  virtual absl::StatusOr<std::optional<DeviceBatch>> Next(int64_t depth = 1, int64_t steps = 1) = 0;
  // Whether Next will return a batch, which is read for it; false at the end of the data.
  virtual absl::StatusOr<bool> HasNext() = 0;
  // Iterator state after the last batch that Next returned.
  virtual data::IteratorState State() const = 0;
  // Rows of a full batch; 0 before the first batch.
  virtual int64_t batch_rows() const = 0;
  // Hints on how to make the input pipeline faster, as far as they are known by now.
  virtual std::vector<std::string> Hints() const = 0;
  virtual data::PipelineReport Report() const = 0;
  // From any thread, of a feed that runs here: Next ends soon with CANCELLED, unless it reads a file.
  virtual void Interrupt() {}

  // Arguments of a call of Next.
  struct Take {
    int64_t depth = 1, steps = 1;
    friend bool operator==(const Take&, const Take&) = default;
  };
  // The calls of Next that will probably follow, for a feed that prefetches over a connection. A
  // wrong announcement costs time.
  virtual void Expect(const std::vector<Take>& calls) { (void)calls; }
  // Number of calls worth announcing; 0: none.
  virtual int expects() const { return 0; }
};

// Everything that a feed depends on but the devices' kind.
struct FeedRequest {
  std::string dataset = {};  // JSON (data/travel/dataset_json.h)
  // Identifies the dataset within this process: a cache in memory belongs to one dataset.
  uint64_t dataset_id = 0;
  // Of data::IteratorOptions.
  std::optional<uint64_t> seed = {};
  int64_t epoch = 0;
  std::optional<data::IteratorState> state = {};
  bool deterministic = true;

  FeedPorts ports = {};
  Columns columns = {};
  bool with_labels = true;
  std::map<int64_t, double> class_weight = {};
  int64_t batch_rows = 0;
  std::vector<int> devices = {};  // index of each replica's device
  // Handles of the rows of the dataset's parts (FeedHost::KeepRows), by their numbers.
  std::vector<uint64_t> rows = {};
  // The dataset is one of row numbers (data::RowNumbers), and these are the rows, on the devices.
  std::shared_ptr<const DeviceRows> device_rows = {};
  // Over a connection, instead: names of the columns and handles of their buffers, replica by replica.
  std::vector<std::string> device_columns = {};
  std::vector<uint64_t> device_buffers = {};
  // Not 0: no feed is opened, but all elements of the dataset become rows on the devices. Handles of their buffers:
  // this and the following ones, replica by replica.
  uint64_t first_row_buffer = 0;
};

// JSON of everything but `dataset` and `device_rows`; from anywhere.
std::string FeedRequestToJson(const FeedRequest& request);
absl::StatusOr<FeedRequest> FeedRequestFromJson(absl::string_view text);

// Elements that stay in the memory of a host.
struct KeptRows {
  uint64_t handle = 0;
  int64_t elements = 0, bytes = 0;
  std::string where = {};  // "the worker's memory (free: 3.1 GiB)"
  bool sent = false;       // by this call
};

// Rows that the devices' host has read itself.
struct RowsThere {
  DeviceRows rows = {};
  std::string note = {};  // how much they take, and of what (DescribeRows)
};

// Capability of a runtime::Client.
class FeedHost {
 public:
  virtual ~FeedHost() = default;
  // Whether a pipeline there may read (write) the URI.
  virtual absl::Status CheckPath(absl::string_view uri, bool write) const = 0;
  virtual absl::StatusOr<std::unique_ptr<HostFeed>> OpenFeed(const FeedRequest& request) = 0;
  // Computes the elements of a part of a dataset here and sends them, unless the host has them already. They stay
  // there as long as the part exists here. `read`: the seed or state, pool and file system; elements are those of
  // epoch 0. RESOURCE_EXHAUSTED: they do not fit; says how much they take and what fits.
  virtual absl::StatusOr<KeptRows> KeepRows(const data::DatasetPart& part,
                                            const data::IteratorOptions& read) = 0;
  // What the buffers belong to: another object after the devices were lost.
  virtual std::shared_ptr<const void> device_state() const = 0;
  // Reads all elements of request.dataset there, once, into the memory of each of request.devices.
  // RESOURCE_EXHAUSTED: they do not fit.
  virtual absl::StatusOr<RowsThere> ReadToDevices(const FeedRequest& request) = 0;
  // Copies buffers to another device there; nothing goes over the connection.
  virtual absl::StatusOr<runtime::Buffers> CopyToDevice(const runtime::Buffers& buffers,
                                                        const runtime::Device& device) = 0;
  // Time from dispatching an execution that takes no time until its report is here, in seconds, as far as
  // it was measured; 0: not yet.
  virtual double round_trip_seconds() const { return 0; }
};

}  // namespace penstock::train
