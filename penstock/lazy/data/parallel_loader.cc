#include "penstock/lazy/data/parallel_loader.h"

#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/lazy/data/prefetcher.h"
#include "penstock/lazy/tensor_impl.h"
#include "penstock/lazy/xm.h"

namespace penstock::lazy::pl {
namespace {

using utils::data::BatchCursor;
using utils::data::BatchIterator;

absl::StatusOr<std::unique_ptr<BatchIterator>> BeginSource(utils::data::Loader& loader,
                                                           const std::vector<Device>& devices,
                                                           const ParallelLoaderOptions& options) {
  for (const Device& device : devices) {
    if (!device.valid()) return absl::InvalidArgumentError("ParallelLoader: a device is invalid");
  }
  if (devices.empty() || options.batches_per_execution < 1 || options.loader_prefetch_size < 1 ||
      options.device_prefetch_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ParallelLoader: the number of devices, batches_per_execution, loader_prefetch_size and "
        "device_prefetch_size must be at least 1; they are ",
        devices.size(), ", ", options.batches_per_execution, ", ", options.loader_prefetch_size,
        " and ", options.device_prefetch_size));
  }
  if (!(options.timeout_seconds > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ParallelLoader: timeout_seconds must be above 0; it is ", options.timeout_seconds));
  }
  return base::CatchExceptions([&] { return loader.MakeIterator(); });
}

Tensor TensorOf(runtime::Buffer buffer, const Device& device) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = buffer.type().dtype;
  impl->shape = buffer.type().shape;
  impl->device = device;
  impl->data = std::make_shared<DeviceData>(DeviceData{std::move(buffer), {}});
  return Tensor(std::move(impl));
}

}  // namespace

Tensor TensorBatch::operator[](absl::string_view name) const {
  for (const auto& [other, tensor] : tensors_) {
    if (other == name) return tensor;
  }
  return Tensor();
}

absl::StatusOr<bool> PerDeviceLoader::Next(TensorBatch* batch) {
  PENSTOCK_RETURN_IF_ERROR(status_);
  const auto next = [&]() -> absl::StatusOr<bool> {
    // As in torch_xla, also before the first batch.
    if (++since_mark_step_ >= batches_per_execution_) {
      since_mark_step_ = 0;
      PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
    }
    PENSTOCK_ASSIGN_OR_RETURN(auto buffers, prefetcher_->Next(device_));
    if (!buffers.has_value()) {
      PENSTOCK_RETURN_IF_ERROR(xm::mark_step());
      return false;
    }
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (auto& [name, buffer] : *buffers) {
      tensors.emplace_back(name, TensorOf(std::move(buffer), device_));
    }
    *batch = TensorBatch(std::move(tensors));
    return true;
  };
  const absl::StatusOr<bool> more = next();
  status_ = more.status();
  return more;
}

BatchCursor<PerDeviceLoader, TensorBatch> PerDeviceLoader::begin() {
  return BatchCursor<PerDeviceLoader, TensorBatch>(this);
}

bool PerDeviceLoader::Read(TensorBatch* batch) {
  const absl::StatusOr<bool> more = Next(batch);
  return more.ok() && *more;
}

ParallelLoader::ParallelLoader(utils::data::Loader& loader, std::vector<Device> devices,
                               ParallelLoaderOptions options)
    : prefetcher_(
          std::make_shared<Prefetcher>(BeginSource(loader, devices, options), devices, options)),
      options_(options) {}

ParallelLoader::~ParallelLoader() {
  if (prefetcher_ != nullptr) close();
}

PerDeviceLoader ParallelLoader::per_device_loader(const Device& device) {
  return PerDeviceLoader(prefetcher_, device, options_.batches_per_execution);
}

void ParallelLoader::close() {
  prefetcher_->Cancel(absl::CancelledError("the ParallelLoader was closed"));
}

void MpDeviceLoader::BeginPass() {
  batches_.reset();
  pass_.reset();
  pass_ = std::make_unique<ParallelLoader>(loader_, std::vector<Device>{device_}, options_);
  batches_ = std::make_unique<PerDeviceLoader>(pass_->per_device_loader(device_));
}

absl::StatusOr<bool> MpDeviceLoader::Next(TensorBatch* batch) {
  if (batches_ == nullptr) BeginPass();
  const absl::StatusOr<bool> more = batches_->Next(batch);
  status_ = more.status();
  if (more.ok() && !*more) {
    batches_.reset();
    pass_.reset();
  }
  return more;
}

BatchCursor<MpDeviceLoader, TensorBatch> MpDeviceLoader::begin() {
  BeginPass();
  return BatchCursor<MpDeviceLoader, TensorBatch>(this);
}

bool MpDeviceLoader::Read(TensorBatch* batch) {
  const absl::StatusOr<bool> more = Next(batch);
  if (!more.ok()) {
    batches_.reset();
    pass_.reset();
  }
  return more.ok() && *more;
}

}  // namespace penstock::lazy::pl
