// RemoteClient: runtime::Client on a worker. Internal to room remote; DeviceClient::Open makes it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/remote/client/client_session.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/remote/client/remote_buffer.h"
#include "penstock/remote/feed/row_sender.h"
#include "penstock/runtime/client.h"
#include "penstock/train/activity_host.h"
#include "penstock/train/checkpoint_store.h"
#include "penstock/train/feed_host.h"
#include "penstock/train/file_host.h"

namespace penstock::remote {

class RemoteClient : public runtime::Client,
                     public train::FeedHost,
                     public train::ActivityHost,
                     public train::CheckpointHost,
                     public train::FileHost,
                     public std::enable_shared_from_this<RemoteClient> {
 public:
  static absl::StatusOr<std::shared_ptr<RemoteClient>> Open(DeviceClient::Connect connect);

  const std::string& platform() const override { return platform_; }
  const std::string& version() const override { return version_; }
  absl::Span<const runtime::Device> devices() const override { return *devices_; }
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override;
  absl::StatusOr<runtime::Buffer> Put(const base::Array& array,
                                      const runtime::Device& device) override;
  absl::StatusOr<runtime::Buffers> PutAll(absl::Span<const base::Array> arrays,
                                          const runtime::Device& device) override;
  runtime::FreeMemoryInfo FreeMemory(const runtime::Device& device) override;
  // OK if the worker has registered kernels of all these names; the handlers are not used.
  absl::Status AddKernels(absl::Span<const runtime::Kernel> kernels) override;
  void Log(absl::string_view line) override;
  absl::Status Reopen() override;
  std::optional<std::string> Draining() const override { return session()->draining(); }

  // train::FeedHost (feed/client_feed.h).
  absl::Status CheckPath(absl::string_view uri, bool write) const override;
  absl::StatusOr<std::unique_ptr<train::HostFeed>> OpenFeed(
      const train::FeedRequest& request) override;
  absl::StatusOr<train::KeptRows> KeepRows(const data::DatasetPart& part,
                                           const data::IteratorOptions& read) override;

  std::shared_ptr<const void> device_state() const override { return session(); }
  absl::StatusOr<train::RowsThere> ReadToDevices(const train::FeedRequest& request) override;
  absl::StatusOr<runtime::Buffers> CopyToDevice(const runtime::Buffers& buffers,
                                                const runtime::Device& device) override;

  // train::CheckpointHost (checkpoint/client_checkpoints.h).
  absl::StatusOr<std::unique_ptr<train::CheckpointStore>> OpenCheckpoints(
      const std::string& folder, const save::CheckpointOptions& options, bool check) override;

  // train::FileHost (files/client_files.h).
  std::shared_ptr<io::FileSystem> Files() override;

  // train::ActivityHost.
  void SetTraining(int64_t step, int64_t epoch, int64_t epochs) override {
    session()->SetActivity({.step = step, .epoch = epoch, .epochs = epochs});
  }
  void SetActivity(absl::string_view what) override {
    session()->SetActivity({.what = std::string(what)});
  }
  double round_trip_seconds() const override { return session()->round_trip_seconds(); }

  std::shared_ptr<ClientSession> session() const;
  const Devices& shared_devices() const { return devices_; }

 private:
  explicit RemoteClient(DeviceClient::Connect connect) : connect_(std::move(connect)) {}

  const DeviceClient::Connect connect_;
  std::string platform_, version_;
  Devices devices_;
  std::mutex reopen_mutex_;  // one Reopen at a time
  mutable std::mutex mutex_;
  std::shared_ptr<ClientSession> session_;
  RowSender rows_;
};

}  // namespace penstock::remote
