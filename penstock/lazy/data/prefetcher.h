// The threads and queues of a ParallelLoader. Internal to parallel_loader.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/lazy/data/bounded_queue.h"
#include "penstock/lazy/data/data_loader.h"
#include "penstock/lazy/data/parallel_loader.h"
#include "penstock/lazy/replicas.h"
#include "penstock/lazy/tensor.h"
#include "penstock/runtime/client.h"

namespace penstock::lazy::pl {

// Reads a pass in one thread, and transfers the batches in a thread for each device:
//
//   BatchIterator -> host queue of each device -> device queue of each device
class Prefetcher {
 public:
  using NamedBuffers = std::vector<std::pair<std::string, runtime::Buffer>>;

  Prefetcher(absl::StatusOr<std::unique_ptr<utils::data::BatchIterator>> source,
             const std::vector<Device>& devices, const ParallelLoaderOptions& options);
  // Ends the threads; blocks until a running read of the source has returned.
  ~Prefetcher();

  // The next batch of a device; not set at the end. DEADLINE_EXCEEDED if another device's full queue
  // has blocked the source for options.timeout_seconds.
  absl::StatusOr<std::optional<NamedBuffers>> Next(const Device& device);
  // Makes every Next return `status`, and ends the threads soon.
  void Cancel(const absl::Status& status);

 private:
  struct Lane {
    Lane(const Device& d, int host_batches, int device_batches)
        : device(d), host(host_batches), ready(device_batches) {}
    const Device device;
    BoundedQueue<utils::data::Sample> host;
    BoundedQueue<NamedBuffers> ready;
  };

  static std::vector<std::unique_ptr<Lane>> MakeLanes(const std::vector<Device>& devices,
                                                      const ParallelLoaderOptions& options);
  void Start();
  // Blocks until the lane has a batch or has ended.
  absl::Status AwaitBatch(Lane& lane);
  // Bodies of the threads.
  void ReadSource();
  void Transfer(Lane& lane);

  const ParallelLoaderOptions options_;
  const std::unique_ptr<utils::data::BatchIterator> source_;  // null: its error is in the queues
  const std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<int64_t> num_pushes_ = 0;  // begun by ReadSource: to one lane after the other
  std::vector<std::thread> threads_;
  const CancelOnFailure cancel_;  // destroyed first
};

}  // namespace penstock::lazy::pl
