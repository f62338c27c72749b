// torch_xla's distributed.parallel_loader (pl): batches on devices, transferred ahead of the step.
//
//   data::DataLoader loader(dataset, {.batch_size = 128, .sampler = sampler, .num_workers = 2});
//   pl::MpDeviceLoader device_loader(loader, device);
//   for (int epoch = 0; epoch < 3; ++epoch) {
//     for (const pl::TensorBatch& batch : device_loader) {          // a pass
//       optimizer.zero_grad();
//       torch::Tensor loss = F::cross_entropy(model(batch[0]), batch[1]);
//       loss.backward();
//       xm::optimizer_step(optimizer);
//     }                                                             // mark_step for each batch
//     PENSTOCK_RETURN_IF_ERROR(device_loader.status());
//   }
//
// Background threads read the loader and start the transfers, up to `device_prefetch_size` batches
// ahead of the reader. Taking a batch calls xm::mark_step, so that the step before it runs; its
// error ends the pass. All devices of one ParallelLoader get the same number of batches, and are
// read in turn or in a thread for each: the queues of a device that nothing reads become full, and
// then no other device gets a batch (timeout_seconds). In xmp::spawn each ordinal has its own
// loader, and DistributedSampler gives them equal lengths; unequal ones end in an error that names
// the ordinals.
//
// An error of the loader arrives in its position in the order of batches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/lazy/data/data_loader.h"
#include "penstock/lazy/tensor.h"

namespace penstock::lazy::pl {

// A batch on a device: the arrays of the host's batch as tensors, in the same order.
class TensorBatch {
 public:
  TensorBatch() = default;
  explicit TensorBatch(std::vector<std::pair<std::string, Tensor>> tensors)
      : tensors_(std::move(tensors)) {}

  size_t size() const { return tensors_.size(); }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }
  // Undefined if there is none.
  Tensor operator[](size_t i) const { return i < size() ? tensors_[i].second : Tensor(); }
  Tensor operator[](absl::string_view name) const;
  Tensor operator[](const char* name) const { return (*this)[absl::string_view(name)]; }
  Tensor operator[](int i) const { return (*this)[static_cast<size_t>(i)]; }

 private:
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

struct ParallelLoaderOptions {
  // xm::mark_step is called for every n-th batch, so that a program executes n steps.
  int64_t batches_per_execution = 1;
  int loader_prefetch_size = 8;  // batches on the host, for each device
  int device_prefetch_size = 4;  // batches on the device
  // For how long the reader of a device waits for a batch while the batches of another device, whose
  // queues are full, are not read; then it gets DEADLINE_EXCEEDED.
  double timeout_seconds = 120;
};

class Prefetcher;

// The batches of one device; used by the thread that trains on it. After the ParallelLoader was
// closed, Next returns CANCELLED.
class PerDeviceLoader {
 public:
  // Ends the step before (xm::mark_step), then sets `*batch` to the next batch and returns true;
  // returns false at the end. After an error the same error is returned again.
  absl::StatusOr<bool> Next(TensorBatch* batch);

  utils::data::BatchCursor<PerDeviceLoader, TensorBatch> begin();
  utils::data::BatchEnd end() const { return {}; }
  const absl::Status& status() const { return status_; }
  bool Read(TensorBatch* batch);

 private:
  friend class ParallelLoader;
  PerDeviceLoader(std::shared_ptr<Prefetcher> prefetcher, Device device, int64_t per_execution)
      : prefetcher_(std::move(prefetcher)),
        device_(std::move(device)),
        batches_per_execution_(per_execution) {}

  std::shared_ptr<Prefetcher> prefetcher_;
  Device device_;
  int64_t batches_per_execution_;
  int64_t since_mark_step_ = 0;
  absl::Status status_;
};

// One pass over a loader, whose batches go to the devices in turn; batches at the end that do not
// suffice for all devices are dropped. The destructor, or close, ends its threads.
class ParallelLoader {
 public:
  // `loader` is not used after the constructor has returned, but its dataset is.
  ParallelLoader(utils::data::Loader& loader, std::vector<Device> devices,
                 ParallelLoaderOptions options = {});
  ~ParallelLoader();
  ParallelLoader(ParallelLoader&&) = default;

  // A device that is not in the list is an error of its Next.
  PerDeviceLoader per_device_loader(const Device& device);
  void close();

 private:
  std::shared_ptr<Prefetcher> prefetcher_;
  ParallelLoaderOptions options_;
};

// A loader whose batches are on one device: each range-for is a pass, with a ParallelLoader of its
// own. After a `break` the pass's threads are ended by the next begin() or the destructor.
class MpDeviceLoader {
 public:
  // `loader` must outlive this.
  MpDeviceLoader(utils::data::Loader& loader, Device device, ParallelLoaderOptions options = {})
      : loader_(loader), device_(std::move(device)), options_(options) {}

  int64_t size() const { return loader_.size(); }

  // As PerDeviceLoader::Next; begins a pass if none is running.
  absl::StatusOr<bool> Next(TensorBatch* batch);

  utils::data::BatchCursor<MpDeviceLoader, TensorBatch> begin();
  utils::data::BatchEnd end() const { return {}; }
  const absl::Status& status() const { return status_; }
  bool Read(TensorBatch* batch);

 private:
  void BeginPass();

  utils::data::Loader& loader_;
  Device device_;
  ParallelLoaderOptions options_;
  std::unique_ptr<ParallelLoader> pass_;
  std::unique_ptr<PerDeviceLoader> batches_;
  absl::Status status_;
};

}  // namespace penstock::lazy::pl
