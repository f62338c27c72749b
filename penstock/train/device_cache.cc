#include "penstock/train/device_cache.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"

namespace penstock::train {
namespace {

// In a DeviceCacheSlot: the rows on devices of one client.
class KeptRowsOfClient final : public data::KeptOnDevices {
 public:
  KeptRowsOfClient(runtime::Client& client, const FeedHost* host)
      : client_(&client), state_(host == nullptr ? nullptr : host->device_state()) {}

  // Buffers of this process keep their client, so that no other one gets its address.
  bool IsOf(const runtime::Client& client, const FeedHost* host) const {
    return &client == client_ && (host == nullptr || state_ == host->device_state());
  }
  // The devices that had them were lost.
  bool IsLost(const runtime::Client& client, const FeedHost* host) const {
    return &client == client_ && !IsOf(client, host);
  }

  std::vector<std::string> names;
  std::vector<ir::TensorType> types;
  std::map<int, runtime::Buffers> on;  // by the device's index
  const std::shared_ptr<GatherPrograms> programs = std::make_shared<GatherPrograms>();

 private:
  const runtime::Client* const client_;
  const std::shared_ptr<const void> state_;
};

int64_t BytesOf(absl::Span<const ir::TensorType> types) {
  int64_t bytes = 0;
  for (const ir::TensorType& type : types) {
    bytes += type.shape.num_elements() * base::ByteWidth(type.dtype);
  }
  return bytes;
}

class Filler {
 public:
  Filler(KeptRowsOfClient& kept, runtime::Client& client, FeedHost* host)
      : kept_(kept), client_(client), host_(host) {}

  // Reads the part and transfers it to the first device; to the others it is copied from there.
  absl::StatusOr<std::string> Read(const data::DeviceCacheSplit& split,
                                   absl::Span<const runtime::Device> devices,
                                   const data::IteratorOptions& read) {
    data::IteratorOptions options = OptionsOfFirstEpoch(read);
    if (options.file_system == nullptr) options.file_system = io::FileSystem::Default();
    const RowsRoom room = Room(devices);
    const RowsFit fits = [&](int64_t rows, int64_t bytes) {
      return CheckRowsFit(room, rows, bytes);
    };
    const data::Dataset part = data::Dataset::Of(split.rows);
    PENSTOCK_ASSIGN_OR_RETURN(const RowsSource source, SourceOfRows(part, options));
    if (const int64_t bytes = BytesOfRows(part.spec(), source.expected); bytes >= 0) {
      PENSTOCK_RETURN_IF_ERROR(fits(source.expected, bytes));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, source.batches.MakeIterator(options));
    PENSTOCK_ASSIGN_OR_RETURN(const RowColumns columns, ReadRows(*iterator, source.expected, fits));
    kept_.names = columns.names;
    kept_.types.clear();
    for (const base::Array& array : columns.arrays) {
      kept_.types.push_back({array.dtype(), array.shape()});
    }
    for (const runtime::Device& device : devices) {
      if (host_ != nullptr && !kept_.on.empty()) break;
      PENSTOCK_RETURN_IF_ERROR(Put(columns.arrays, device));
    }
    PENSTOCK_RETURN_IF_ERROR(CopyTo(devices));
    return DescribeRows(room, columns.rows(), BytesOf(kept_.types));
  }

  // Copies the rows to the devices that do not have them.
  absl::Status CopyTo(absl::Span<const runtime::Device> devices) {
    const runtime::Buffers from = kept_.on.begin()->second;
    for (const runtime::Device& device : devices) {
      if (kept_.on.contains(device.index)) continue;
      if (host_ != nullptr) {
        PENSTOCK_ASSIGN_OR_RETURN(kept_.on[device.index], host_->CopyToDevice(from, device));
        continue;
      }
      std::vector<base::Array> arrays;
      for (const runtime::Buffer& buffer : from) {
        PENSTOCK_ASSIGN_OR_RETURN(arrays.emplace_back(), buffer.Get());
      }
      PENSTOCK_RETURN_IF_ERROR(Put(arrays, device));
    }
    return absl::OkStatus();
  }

  absl::Status CheckRoomFor(absl::Span<const runtime::Device> devices) const {
    std::vector<runtime::Device> missing;
    for (const runtime::Device& device : devices) {
      if (!kept_.on.contains(device.index)) missing.push_back(device);
    }
    if (missing.empty()) return absl::OkStatus();
    return CheckRowsFit(Room(missing), kept_.types[0].shape.dim(0), BytesOf(kept_.types));
  }

 private:
  RowsRoom Room(absl::Span<const runtime::Device> devices) const {
    RowsRoom room = RoomForRows(client_, devices);
    // CPU devices of this process use the arrays that were read, all the same ones.
    if (host_ == nullptr) room.copies = 1;
    return room;
  }

  absl::Status Put(absl::Span<const base::Array> arrays, const runtime::Device& device) {
    PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffers buffers, client_.PutAll(arrays, device));
    for (const runtime::Buffer& buffer : buffers) PENSTOCK_RETURN_IF_ERROR(buffer.Await());
    kept_.on[device.index] = std::move(buffers);
    return absl::OkStatus();
  }

  KeptRowsOfClient& kept_;
  runtime::Client& client_;
  FeedHost* const host_;
};

}  // namespace

absl::StatusOr<CachedOnDevices> CacheOnDevices(const data::DeviceCacheSplit& split,
                                               runtime::Client& client,
                                               absl::Span<const runtime::Device> devices,
                                               const std::string& dataset,
                                               const data::IteratorOptions& read) {
  auto* const host = dynamic_cast<FeedHost*>(&client);
  const std::lock_guard<std::mutex> lock(split.slot->mutex);
  std::shared_ptr<KeptRowsOfClient> kept;
  auto& all = split.slot->kept;
  for (auto it = all.begin(); it != all.end();) {
    auto of = std::dynamic_pointer_cast<KeptRowsOfClient>(*it);
    if (of != nullptr && of->IsOf(client, host)) kept = of;
    it = of != nullptr && of->IsLost(client, host) ? all.erase(it) : it + 1;
  }
  CachedOnDevices out;
  if (kept != nullptr) {
    Filler filler(*kept, client, host);
    PENSTOCK_RETURN_IF_ERROR(filler.CheckRoomFor(devices));
    PENSTOCK_RETURN_IF_ERROR(filler.CopyTo(devices));
  } else {
    kept = std::make_shared<KeptRowsOfClient>(client, host);
    if (!dataset.empty()) {
      FeedRequest request = {.dataset = dataset};
      const data::IteratorOptions first = OptionsOfFirstEpoch(read);
      request.seed = first.seed;
      request.deterministic = first.deterministic;
      for (const runtime::Device& device : devices) request.devices.push_back(device.index);
      PENSTOCK_ASSIGN_OR_RETURN(RowsThere there, host->ReadToDevices(request));
      kept->names = std::move(there.rows.names);
      kept->types = std::move(there.rows.types);
      for (size_t i = 0; i < devices.size(); ++i) {
        kept->on[devices[i].index] = std::move(there.rows.replicas[i]);
      }
      out.note = std::move(there.note);
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(out.note, Filler(*kept, client, host).Read(split, devices, read));
    }
    all.push_back(kept);
  }
  auto rows = std::make_shared<DeviceRows>();
  rows->names = kept->names;
  rows->types = kept->types;
  for (const runtime::Device& device : devices) rows->replicas.push_back(kept->on[device.index]);
  out.rows = std::move(rows);
  out.programs = kept->programs;
  return out;
}

}  // namespace penstock::train
