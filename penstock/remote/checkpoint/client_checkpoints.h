// ClientCheckpoints: the client's side of checkpoints that the worker writes and reads: the state stays there. Internal to
// room remote; RemoteClient::OpenCheckpoints makes it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/remote/client/client_session.h"
#include "penstock/remote/client/remote_buffer.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/checkpoint_store.h"

namespace penstock::remote {

class ClientCheckpoints final : public train::CheckpointStore {
 public:
  static absl::StatusOr<std::unique_ptr<ClientCheckpoints>> Open(
      std::shared_ptr<ClientSession> session, Devices devices, const std::string& folder,
      const save::CheckpointOptions& options, bool check);
  ~ClientCheckpoints() override;

  absl::Status Save(train::TrainingContext& context, int64_t step, std::string progress,
                    std::optional<double> score) override;
  void Annotate(int64_t step, std::string progress, std::optional<double> score) override;
  bool busy() const override;
  absl::Status TakeError() override;
  absl::Status Wait() override;
  absl::StatusOr<train::FoundCheckpoint> ReadLatest() override;
  absl::Status Resume(train::TrainingContext& context) override;
  absl::StatusOr<std::optional<int64_t>> NewestStep() override;
  absl::Status RemoveAll() override;

 private:
  // What saves in progress share with the callbacks of their replies.
  struct Progress;

  ClientCheckpoints(std::shared_ptr<ClientSession> session, Devices devices);
  Request NewRequest() const;
  absl::StatusOr<CheckpointsReply> Call(Request request);
  // Loads arrays of the checkpoint that was read.
  absl::StatusOr<std::vector<runtime::Buffers>> LoadToDevices(const std::vector<std::string>& names,
                                                              const train::StateLayout& layout,
                                                              const train::Strategy& strategy);
  absl::StatusOr<base::NamedArrays> LoadHere(const std::vector<std::string>& names,
                                             const runtime::Device& device);

  const std::shared_ptr<ClientSession> session_;
  const Devices devices_;
  const uint64_t store_;
  const std::shared_ptr<Progress> progress_;
  CheckpointsReply found_;
};

}  // namespace penstock::remote
