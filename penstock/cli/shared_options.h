// Options shared by several commands, and functions that interpret them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/cli/options.h"
#include "penstock/data/dataset.h"
#include "penstock/nn/network.h"
#include "penstock/runtime/client.h"

namespace penstock::cli {

// --device, --cpu-devices, --replicas, --take-over.
struct DeviceOptions {
  // "cpu", "gpu", "tpu", "auto", or the address of a worker (remote/resolver.h).
  std::string device;
  int cpu_devices = 0;  // 0: one per replica
  int replicas = 1;
  std::string dump_hlo;  // runtime::ClientOptions::dump_hlo; Describe does not add an option for it

  bool take_over = false;

  void Describe(Options& options);
  absl::StatusOr<std::shared_ptr<runtime::Client>> Open() const;
  // The address if the device is a worker's; else empty.
  absl::StatusOr<std::string> Address() const;
};

// Shards of labeled images, as written by `penstock pack`.
struct ShardOptions {
  std::vector<std::string> data;
  int64_t batch_size = 64;

  void Describe(Options& options);
};

struct ImageShape {
  int height = 0, width = 0, channels = 3;
};

// Returns a dataset with the columns `image` (uint8 [batch, height, width, channels]) and `class`
// (int64 [batch]). With a shuffle buffer, every epoch has a different order.
data::Dataset ImageBatches(const std::vector<std::string>& files, const ImageShape& shape,
                           int64_t batch_size, int64_t shuffle_buffer = 0);

// Returns an error if a batch of such images is larger than the free memory.
absl::Status CheckBatchFits(int64_t batch_size, const ImageShape& shape);

// Returns the shape of the images that a network takes; an error if its input is not images.
absl::StatusOr<ImageShape> InputShape(const nn::Network& network);

// Returns the number of records, from the names of the shards (NN-COUNT.tfrec). Reads shards with
// other names.
absl::StatusOr<int64_t> CountImages(const std::vector<std::string>& files);

// Returns the files that match. It is an error if a pattern matches no file, or if the files are
// shards of an unfinished conversion (shard_plan.h).
absl::StatusOr<std::vector<std::string>> FindShards(const std::vector<std::string>& patterns);

// Shape of the first image of the shards, and number of classes that they were packed with. The
// shards must be complete.
struct ShardFacts {
  ImageShape image;
  int64_t classes = 0;
};
absl::StatusOr<ShardFacts> ReadShardFacts(const std::vector<std::string>& patterns);

// Returns the class names from classes.txt beside the first shard; empty if it does not exist.
absl::StatusOr<std::vector<std::string>> ReadClassNames(const std::vector<std::string>& patterns);

// Checks the classes.txt files beside the shards against `names`, the class names of a model: a
// name in both must have the same number. Otherwise the numbers in the records mean other labels;
// shards of a folder that lacks a class are an example.
absl::Status CheckClassNumbers(const std::vector<std::string>& names,
                               const std::vector<std::string>& patterns);

// Checks that each pattern matches a file, that the shards are complete, and that at least one of
// the files contains a record.
absl::Status CheckShardsHaveRecords(const std::vector<std::string>& patterns);

}  // namespace penstock::cli
