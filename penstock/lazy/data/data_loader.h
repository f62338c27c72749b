// torch.utils.data.DataLoader: batches of a dataset's examples, read by worker threads.
//
//   data::DataLoader loader(dataset, {.batch_size = 128, .shuffle = true, .num_workers = 4});
//   for (int epoch = 0; epoch < 3; ++epoch) {
//     for (const data::Sample& batch : loader) {                // a pass
//       const base::Array& images = batch[0].second;            // uint8[128,32,32,3]
//       ...
//     }
//     PENSTOCK_RETURN_IF_ERROR(loader.status());                // whether the pass ended early
//   }
//
// Batches come in the sampler's order whatever the number of workers. Batches are on the host;
// ParallelLoader and MpDeviceLoader (parallel_loader.h) bring them to devices.
//
// Inside of xmp::spawn a loader that waits is cancelled when another replica fails.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/lazy/data/dataset.h"
#include "penstock/lazy/data/sampler.h"

namespace penstock::lazy::utils::data {

// One pass over a loader's batches. Its destructor ends the pass's threads, which blocks until
// running calls of Dataset::get have returned.
class BatchIterator {
 public:
  virtual ~BatchIterator() = default;
  // Sets `*batch` to the next batch and returns true; returns false at the end. After an error the
  // same error is returned again. Called by one thread at a time.
  virtual absl::StatusOr<bool> Next(Sample* batch) = 0;
  // Makes a Next that waits, and later ones, return `status`. Called by any thread. A user-defined
  // function that is running is not interrupted.
  virtual void Cancel(const absl::Status& status) = 0;
};

// Batches that can be read several times: a pass for each epoch.
class Loader {
 public:
  virtual ~Loader() = default;
  // Begins a pass.
  virtual absl::StatusOr<std::unique_ptr<BatchIterator>> MakeIterator() = 0;
  // Number of batches of a pass (len(loader)); kUnknownSize.
  virtual int64_t size() const = 0;
  static constexpr int64_t kUnknownSize = -1;
};

// Makes one batch of examples.
using CollateFunction = std::function<absl::StatusOr<Sample>(std::vector<Sample> examples)>;
// Stacks each array of the examples along a new first axis. All examples must have the same names,
// types and shapes.
absl::StatusOr<Sample> default_collate(std::vector<Sample> examples);

// Range-for: a source has `bool Read(Batch*)`.
struct BatchEnd {};
template <typename Source, typename Batch>
class BatchCursor {
 public:
  explicit BatchCursor(Source* source) : source_(source) { ++*this; }
  Batch& operator*() { return batch_; }
  BatchCursor& operator++() {
    if (!source_->Read(&batch_)) source_ = nullptr;
    return *this;
  }
  bool operator!=(BatchEnd) const { return source_ != nullptr; }

 private:
  Source* source_;  // null at the end
  Batch batch_;
};

struct DataLoaderOptions {
  int64_t batch_size = 1;  // 0: examples one by one, not collated (batch_size=None)
  bool shuffle = false;    // another order in each pass
  // The order of the examples; excludes shuffle.
  std::shared_ptr<Sampler> sampler = nullptr;
  // The batches; excludes batch_size, shuffle, sampler and drop_last.
  std::shared_ptr<BatchSamplerBase> batch_sampler = nullptr;
  // Number of worker threads, which call Dataset::get and collate_fn concurrently. 0: the reader's
  // thread does the work.
  int num_workers = 0;
  bool drop_last = false;  // drops a last batch that is smaller
  CollateFunction collate_fn = default_collate;
  // Seed of shuffle. Default: from the system's entropy.
  std::optional<uint64_t> seed = {};
  // Number of batches that are read ahead, for each worker.
  int prefetch_factor = 2;
};

class DataLoader : public Loader {
 public:
  using Options = DataLoaderOptions;

  // Invalid options are an error of the first pass.
  explicit DataLoader(DatasetPtr dataset, Options options = {});
  // A pipeline of room data that ends in batches, as PyTorch's IterableDataset. It reads ahead by
  // itself (Prefetch). Pass n is the iterator's epoch `options.epoch` + n. In xmp::spawn every
  // ordinal reads it whole, unless it is sharded: pipeline.Shard(world size, ordinal).
  explicit DataLoader(::penstock::data::Dataset pipeline,
                      ::penstock::data::IteratorOptions options = {});

  absl::StatusOr<std::unique_ptr<BatchIterator>> MakeIterator() override;
  int64_t size() const override;

  // Range-for: begin() begins a pass; status() is the error that ended it, OK after a whole pass or
  // a `break`. One pass at a time.
  BatchCursor<DataLoader, Sample> begin();
  BatchEnd end() const { return {}; }
  const absl::Status& status() const { return status_; }
  bool Read(Sample* batch);

 private:
  absl::Status CheckOptions() const;

  DatasetPtr dataset_;
  Options options_;
  std::shared_ptr<BatchSamplerBase> batches_;
  std::optional<::penstock::data::Dataset> pipeline_;
  ::penstock::data::IteratorOptions pipeline_options_;
  std::unique_ptr<BatchIterator> pass_;
  absl::Status status_;
};

}  // namespace penstock::lazy::utils::data
