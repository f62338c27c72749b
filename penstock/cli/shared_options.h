// Options that several commands take, and what they mean.
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

// --device, --cpu-devices, --replicas.
struct DeviceOptions {
  std::string device;
  int cpu_devices = 0;  // 0: as many as replicas
  int replicas = 1;
  std::string dump_hlo;  // runtime::ClientOptions::dump_hlo; no option of every command

  void Describe(Options& options);
  absl::StatusOr<std::shared_ptr<runtime::Client>> Open() const;
};

// Shards of labelled images, as `penstock pack` writes them.
struct ShardOptions {
  std::vector<std::string> data;
  int64_t batch_size = 64;

  void Describe(Options& options);
};

struct ImageShape {
  int height = 0, width = 0, channels = 3;
};

// Columns `image` (uint8 [batch, height, width, channels]) and `class` (int64 [batch]). With a
// shuffle buffer the order is another one in each epoch.
data::Dataset ImageBatches(const std::vector<std::string>& files, const ImageShape& shape,
                           int64_t batch_size, int64_t shuffle_buffer = 0);

// An error if a batch of such images is larger than the free memory.
absl::Status CheckBatchFits(int64_t batch_size, const ImageShape& shape);

// Of the images that a network takes; an error when it takes something else.
absl::StatusOr<ImageShape> InputShape(const nn::Network& network);

// How many records there are, by the shards' names (NN-COUNT.tfrec); shards named otherwise are
// read.
absl::StatusOr<int64_t> CountImages(const std::vector<std::string>& files);

// The files that match. An error when a pattern matches none, or when they are shards of a
// conversion that is not finished (shard_plan.h).
absl::StatusOr<std::vector<std::string>> FindShards(const std::vector<std::string>& patterns);

// The shape of the first image of the shards, and how many classes they were packed with. They must
// be complete.
struct ShardFacts {
  ImageShape image;
  int64_t classes = 0;
};
absl::StatusOr<ShardFacts> LookAtShards(const std::vector<std::string>& patterns);

// The names of the classes that the shards number, from classes.txt beside the first of them; empty
// where there is none.
absl::StatusOr<std::vector<std::string>> ClassNamesOfShards(
    const std::vector<std::string>& patterns);

// Checks that each pattern matches a file, that the shards are complete, and that at least one of
// the files contains a record.
absl::Status CheckThereAreRecords(const std::vector<std::string>& patterns);

}  // namespace penstock::cli
