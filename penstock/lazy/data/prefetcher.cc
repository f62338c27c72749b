#include "penstock/lazy/data/prefetcher.h"

#include <system_error>

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/lazy/metrics.h"
#include "penstock/lazy/random.h"

namespace penstock::lazy::pl {
namespace {

using utils::data::Sample;

// Starts the transfers of a batch's arrays.
absl::StatusOr<Prefetcher::NamedBuffers> Put(const Sample& batch, const Device& device) {
  const met::TimeSample timed("TransferToDeviceTime");
  std::vector<base::Array> arrays;
  double bytes = 0;
  for (const auto& [name, array] : batch) {
    if (!base::IsNumeric(array.dtype())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot transfer '", name, "', ", array.TypeString(), ", of the batch to ",
          device.ToString(), ": devices have numbers only; leave it out of the batch"));
    }
    arrays.push_back(array);
    bytes += static_cast<double>(array.num_bytes());
  }
  PENSTOCK_ASSIGN_OR_RETURN(
      const runtime::Buffers buffers,
      device.client()->PutAll(arrays, device.client()->devices()[device.index()]));
  met::Metrics::Process().AddSample("OutboundData", met::Unit::kBytes, bytes);
  Prefetcher::NamedBuffers named;
  for (size_t i = 0; i < buffers.size(); ++i) named.emplace_back(batch[i].first, buffers[i]);
  return named;
}

}  // namespace

Prefetcher::Prefetcher(absl::StatusOr<std::unique_ptr<utils::data::BatchIterator>> source,
                       const std::vector<Device>& devices, const ParallelLoaderOptions& options)
    : options_(options),
      source_(source.ok() ? *std::move(source) : nullptr),
      lanes_(MakeLanes(devices, options)),
      cancel_([this](const absl::Status& status) { Cancel(status); }) {
  if (source_ != nullptr) {
    Start();
  } else {
    Cancel(source.status());
  }
}

std::vector<std::unique_ptr<Prefetcher::Lane>> Prefetcher::MakeLanes(
    const std::vector<Device>& devices, const ParallelLoaderOptions& options) {
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const Device& device : devices) {
    lanes.push_back(
        std::make_unique<Lane>(device, options.loader_prefetch_size, options.device_prefetch_size));
  }
  return lanes;
}

void Prefetcher::Start() {
  try {
    threads_.emplace_back([this, seed = internal::NextLoaderSeed()] {
      manual_seed(seed);  // without workers, the dataset is read here
      ReadSource();
    });
    for (const auto& lane : lanes_)
      threads_.emplace_back([this, lane = lane.get()] { Transfer(*lane); });
  } catch (const std::system_error& error) {
    Cancel(absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread of the ParallelLoader: ", error.what())));
  }
}

Prefetcher::~Prefetcher() {
  Cancel(absl::CancelledError("the ParallelLoader was closed"));
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::Cancel(const absl::Status& status) {
  if (source_ != nullptr) source_->Cancel(status);
  for (const auto& lane : lanes_) {
    lane->host.Cancel(status);
    lane->ready.Cancel(status);
  }
}

void Prefetcher::ReadSource() {
  std::vector<Sample> group;  // a batch for each device
  absl::Status end;
  while (true) {
    Sample batch;
    const absl::StatusOr<bool> more = base::CatchExceptions([&] { return source_->Next(&batch); });
    end = more.status();
    if (!more.ok() || !*more) break;
    group.push_back(std::move(batch));
    if (group.size() < lanes_.size()) continue;
    bool taken = true;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      ++num_pushes_;
      if (lanes_[i]->host.Push(std::move(group[i]))) continue;
      // A batch that one device cannot take ends the pass of all with its error.
      end.Update(lanes_[i]->host.status());
      taken = false;
    }
    if (!taken) break;
    group.clear();
  }
  for (const auto& lane : lanes_) lane->host.End(end);
}

void Prefetcher::Transfer(Lane& lane) {
  while (true) {
    absl::StatusOr<std::optional<Sample>> batch = lane.host.Pop();
    if (!batch.ok() || !batch->has_value()) {
      lane.ready.End(batch.status());
      return;
    }
    absl::StatusOr<NamedBuffers> buffers =
        base::CatchExceptions([&] { return Put(**batch, lane.device); });
    if (!buffers.ok()) {
      lane.ready.End(buffers.status());
      lane.host.Cancel(buffers.status());
      return;
    }
    if (!lane.ready.Push(*std::move(buffers))) return;
  }
}

absl::Status Prefetcher::AwaitBatch(Lane& lane) {
  while (true) {
    const int64_t before = num_pushes_;
    if (lane.ready.AwaitElement(options_.timeout_seconds)) return absl::OkStatus();
    if (before == 0 || before != num_pushes_) continue;
    // The source has not gone on: it computes, or waits for the reader of this lane.
    Lane& last = *lanes_[static_cast<size_t>(before - 1) % lanes_.size()];
    if (&last == &lane || !last.host.full()) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("the ParallelLoader has had no batch for ", lane.device.ToString(), " for ",
                     options_.timeout_seconds, " s, because nothing reads those of ",
                     last.device.ToString(), ", of which ", options_.loader_prefetch_size,
                     " wait on the host and ", options_.device_prefetch_size,
                     " on the device; read the devices in turn, or in a thread for each, or set "
                     "loader_prefetch_size to the number of batches"));
  }
}

absl::StatusOr<std::optional<Prefetcher::NamedBuffers>> Prefetcher::Next(const Device& device) {
  for (const auto& lane : lanes_) {
    if (!(lane->device == device)) continue;
    PENSTOCK_RETURN_IF_ERROR(AwaitBatch(*lane));
    return lane->ready.Pop();
  }
  return absl::InvalidArgumentError(absl::StrCat("the ParallelLoader has no batches for ",
                                                 device.ToString(),
                                                 ", which is not one of its devices"));
}

}  // namespace penstock::lazy::pl
