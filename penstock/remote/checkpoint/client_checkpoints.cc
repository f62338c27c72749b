#include "penstock/remote/checkpoint/client_checkpoints.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/checkpoint/arrays_blob.h"
#include "penstock/remote/wire/wire_types.h"

namespace penstock::remote {
namespace {

void Warn(absl::string_view text) {
  std::fprintf(stderr, "warning: %s\n", std::string(text).c_str());
}

absl::StatusOr<train::StateOnDevices*> StateOf(train::TrainingContext& context) {
  auto* const state = dynamic_cast<train::StateOnDevices*>(&context);
  if (state != nullptr) return state;
  return absl::UnimplementedError(
      "the worker saves the state of Fit's trainings only; use place = kClient");
}

// Sends an array to the device, in a buffer of the session.
absl::StatusOr<std::shared_ptr<RemoteBuffer>> PutArray(
    const std::shared_ptr<ClientSession>& session, const Devices& devices,
    const base::Array& array) {
  const uint64_t handle = session->NewHandles(1);
  const ir::TensorType type = {array.dtype(), array.shape()};
  Request request;
  Put& put = *request.mutable_put();
  Put::Tensor& tensor = *put.add_tensors();
  tensor.set_buffer(handle);
  *tensor.mutable_type() = ToMessage(type);
  auto buffer = std::make_shared<RemoteBuffer>(session, handle, type, devices, 0);
  PENSTOCK_RETURN_IF_ERROR(session->Send(std::move(request)));
  PENSTOCK_RETURN_IF_ERROR(
      session->SendChunks(handle, array.owner(), array.raw(), array.num_bytes()));
  // Complete before it is used.
  PENSTOCK_RETURN_IF_ERROR(buffer->Await());
  return buffer;
}

}  // namespace

struct ClientCheckpoints::Progress {
  std::mutex mutex;
  std::condition_variable idle;
  int working = 0;
  absl::Status error;  // of a save, not returned yet

  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex);
    ++working;
  }
  void End(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex);
    error.Update(status);
    if (--working == 0) idle.notify_all();
  }
};

ClientCheckpoints::ClientCheckpoints(std::shared_ptr<ClientSession> session, Devices devices)
    : session_(std::move(session)),
      devices_(std::move(devices)),
      store_(session_->NewHandles(1)),
      progress_(std::make_shared<Progress>()) {}

absl::StatusOr<std::unique_ptr<ClientCheckpoints>> ClientCheckpoints::Open(
    std::shared_ptr<ClientSession> session, Devices devices, const std::string& folder,
    const save::CheckpointOptions& options, bool check) {
  std::unique_ptr<ClientCheckpoints> store(
      new ClientCheckpoints(std::move(session), std::move(devices)));
  Request request = store->NewRequest();
  Checkpoints::Open& open = *request.mutable_checkpoints()->mutable_open();
  open.set_folder(folder);
  open.set_keep(options.keep);
  open.set_keep_best(options.keep_best);
  open.set_check(check);
  PENSTOCK_RETURN_IF_ERROR(store->Call(std::move(request)).status());
  return store;
}

ClientCheckpoints::~ClientCheckpoints() {
  if (const absl::Status last = Wait(); !last.ok()) Warn(last.message());
  Request request = NewRequest();
  request.mutable_checkpoints()->set_close(true);
  session_->Send(std::move(request), {}, [](absl::StatusOr<ReceivedReply>) {}).IgnoreError();
}

Request ClientCheckpoints::NewRequest() const {
  Request request;
  request.mutable_checkpoints()->set_store(store_);
  return request;
}

absl::StatusOr<CheckpointsReply> ClientCheckpoints::Call(Request request) {
  PENSTOCK_ASSIGN_OR_RETURN(ReceivedReply reply, session_->Call(std::move(request)));
  return std::move(*reply.reply.mutable_checkpoints());
}

absl::Status ClientCheckpoints::Save(train::TrainingContext& context, int64_t step,
                                     std::string progress, std::optional<double> score) {
  PENSTOCK_ASSIGN_OR_RETURN(train::StateOnDevices* const state, StateOf(context));
  PENSTOCK_ASSIGN_OR_RETURN(const train::StateOnDevices::Parts parts, state->StateParts());
  Request request = NewRequest();
  Checkpoints::Save& save = *request.mutable_checkpoints()->mutable_save();
  save.set_step(step);
  save.set_state(std::move(progress));
  if (score.has_value()) save.set_score(*score);
  for (size_t i = 0; i < parts.names.size(); ++i) {
    const auto* const buffer = dynamic_cast<const RemoteBuffer*>(parts.buffers[i].impl().get());
    if (buffer == nullptr || buffer->session() != session_) {
      return absl::FailedPreconditionError(
          absl::StrCat("'", parts.names[i], "' is not on the worker that saves"));
    }
    PENSTOCK_RETURN_IF_ERROR(buffer->CheckLive());
    save.add_names(parts.names[i]);
    save.add_buffers(buffer->handle());
  }
  std::shared_ptr<RemoteBuffer> others;
  if (!parts.others.empty()) {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array blob, ToBlob(parts.others));
    PENSTOCK_ASSIGN_OR_RETURN(others, PutArray(session_, devices_, blob));
    save.set_others(others->handle());
    for (const auto& [name, array] : parts.others) save.add_other_names(name);
  }
  progress_->Begin();
  const absl::Status sent = session_->Send(
      std::move(request), {},
      [progress = progress_, others, step](const absl::StatusOr<ReceivedReply>& reply) mutable {
        if (reply.ok() && !reply->reply.checkpoints().warning().empty()) {
          Warn(absl::StrCat("the checkpoint of step ", step,
                            " is saved, but older ones could not be removed: ",
                            reply->reply.checkpoints().warning()));
        }
        // The buffer owns the session. The waiting thread may release its own reference next and end the process.
        others.reset();
        progress->End(
            base::WithContext(reply.status(), absl::StrCat("saving a checkpoint of step ", step)));
      });
  if (!sent.ok()) progress_->End(absl::OkStatus());
  return sent;
}

void ClientCheckpoints::Annotate(int64_t step, std::string progress, std::optional<double> score) {
  Request request = NewRequest();
  Checkpoints::Annotate& annotate = *request.mutable_checkpoints()->mutable_annotate();
  annotate.set_step(step);
  annotate.set_state(std::move(progress));
  if (score.has_value()) annotate.set_score(*score);
  progress_->Begin();
  const bool has_score = score.has_value();
  const absl::Status sent = session_->Send(
      std::move(request), {},
      [progress = progress_, step, has_score](const absl::StatusOr<ReceivedReply>& reply) {
        const std::string why = !reply.ok() ? std::string(reply.status().message())
                                            : reply->reply.checkpoints().warning();
        if (!why.empty()) {
          Warn(absl::StrCat("the checkpoint of step ", step, " is saved, but ",
                            reply.ok()  ? "older ones could not be removed: "
                            : has_score ? "its score could not be added: "
                                        : "the end of its epoch could not be recorded: ",
                            why));
        }
        progress->End(absl::OkStatus());
      });
  if (!sent.ok()) progress_->End(absl::OkStatus());
}

bool ClientCheckpoints::busy() const {
  const std::lock_guard<std::mutex> lock(progress_->mutex);
  return progress_->working > 0;
}

absl::Status ClientCheckpoints::TakeError() {
  const std::lock_guard<std::mutex> lock(progress_->mutex);
  return std::exchange(progress_->error, absl::OkStatus());
}

absl::Status ClientCheckpoints::Wait() {
  {
    std::unique_lock<std::mutex> lock(progress_->mutex);
    progress_->idle.wait(lock, [this] { return progress_->working == 0; });
  }
  return TakeError();
}

absl::StatusOr<train::FoundCheckpoint> ClientCheckpoints::ReadLatest() {
  Request request = NewRequest();
  request.mutable_checkpoints()->set_read(true);
  PENSTOCK_ASSIGN_OR_RETURN(found_, Call(std::move(request)));
  train::FoundCheckpoint found = {.step = found_.step(), .state = found_.state()};
  if (found_.has_score()) found.score = found_.score();
  for (const CheckpointsReply::Skipped& skipped : found_.skipped()) {
    found.skipped.push_back(
        {.step = skipped.step(), .uri = skipped.uri(), .why = FromMessage(skipped.why())});
  }
  return found;
}

absl::StatusOr<std::vector<runtime::Buffers>> ClientCheckpoints::LoadToDevices(
    const std::vector<std::string>& names, const train::StateLayout& layout,
    const train::Strategy& strategy) {
  Request request = NewRequest();
  Checkpoints::Load& load = *request.mutable_checkpoints()->mutable_load();
  load.mutable_names()->Add(names.begin(), names.end());
  const int replicas = strategy.num_replicas();
  uint64_t handle = session_->NewHandles(static_cast<int64_t>(names.size()) * replicas);
  load.set_first_buffer(handle);
  for (int r = 0; r < replicas; ++r) load.add_devices(strategy.device(r).index);
  PENSTOCK_RETURN_IF_ERROR(Call(std::move(request)).status());
  std::vector<runtime::Buffers> state(static_cast<size_t>(replicas));
  for (int r = 0; r < replicas; ++r) {
    for (const train::StateLayout::Entry& entry : layout.entries) {
      state[static_cast<size_t>(r)].emplace_back(std::make_shared<RemoteBuffer>(
          session_, handle++, entry.type, devices_, strategy.device(r).index));
    }
  }
  return state;
}

absl::StatusOr<base::NamedArrays> ClientCheckpoints::LoadHere(const std::vector<std::string>& names,
                                                              const runtime::Device& device) {
  if (names.empty()) return base::NamedArrays();
  Request request = NewRequest();
  Checkpoints::Load& load = *request.mutable_checkpoints()->mutable_load();
  load.mutable_other_names()->Add(names.begin(), names.end());
  const uint64_t handle = session_->NewHandles(1);
  load.set_others(handle);
  load.add_devices(device.index);
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointsReply reply, Call(std::move(request)));
  // The size is checked as a type of the protocol.
  TensorType type;
  type.set_dtype(std::string(base::DTypeName(base::DType::kU8)));
  type.add_dims(reply.others_bytes());
  PENSTOCK_ASSIGN_OR_RETURN(const ir::TensorType checked, FromMessage(type));
  const auto blob =
      std::make_shared<RemoteBuffer>(session_, handle, checked, devices_, device.index);
  PENSTOCK_ASSIGN_OR_RETURN(const base::Array bytes, blob->Get());
  return FromBlob(bytes);
}

absl::Status ClientCheckpoints::Resume(train::TrainingContext& context) {
  PENSTOCK_ASSIGN_OR_RETURN(train::StateOnDevices* const state, StateOf(context));
  const CheckpointsReply found = std::exchange(found_, {});
  const train::StateLayout& layout = state->state_layout();
  const train::Strategy& strategy = state->state_strategy();
  std::vector<std::string> there, here;
  base::NamedArrays arrays;
  absl::flat_hash_set<std::string> in_layout;
  for (const train::StateLayout::Entry& entry : layout.entries) {
    there.push_back(entry.name);
    in_layout.insert(entry.name);
  }
  for (const CheckpointsReply::Array& array : found.arrays()) {
    // The history, and arrays of callbacks.
    if (!in_layout.contains(array.name()) && absl::StartsWith(array.name(), "run/")) {
      here.push_back(array.name());
      continue;
    }
    // Without memory: the type decides whether the checkpoint is of this training.
    PENSTOCK_ASSIGN_OR_RETURN(const ir::TensorType type, FromMessage(array.type()));
    arrays.Set(array.name(), base::Array::View(type.dtype, type.shape, nullptr, nullptr));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const base::NamedArrays others, LoadHere(here, strategy.device(0)));
  for (const std::string& name : here) {
    const base::Array* array = others.Find(name);
    if (array == nullptr) {
      return absl::InternalError(absl::StrCat("the worker did not send '", name, "'"));
    }
    arrays.Set(name, *array);
  }
  return state->ResumeFrom(arrays, found.state(),
                           [&] { return LoadToDevices(there, layout, strategy); });
}

absl::StatusOr<std::optional<int64_t>> ClientCheckpoints::NewestStep() {
  Request request = NewRequest();
  request.mutable_checkpoints()->set_newest(true);
  PENSTOCK_ASSIGN_OR_RETURN(const CheckpointsReply reply, Call(std::move(request)));
  return reply.step() < 0 ? std::nullopt : std::optional<int64_t>(reply.step());
}

absl::Status ClientCheckpoints::RemoveAll() {
  Request request = NewRequest();
  request.mutable_checkpoints()->set_remove_newer(-1);
  return Call(std::move(request)).status();
}

}  // namespace penstock::remote
