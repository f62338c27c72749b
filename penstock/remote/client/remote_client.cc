#include "penstock/remote/client/remote_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/dtype.h"
#include "penstock/base/status.h"
#include "penstock/data/travel/allowed_paths.h"
#include "penstock/remote/checkpoint/client_checkpoints.h"
#include "penstock/remote/client/remote_executable.h"
#include "penstock/remote/feed/client_feed.h"
#include "penstock/remote/feed/device_rows_reader.h"
#include "penstock/remote/files/client_files.h"
#include "penstock/remote/wire/taken_over.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/runtime/program_check.h"

namespace penstock::remote {
namespace {

// Limits of a message of small tensors; it is sent when it reaches either.
constexpr int kMaxTensorsOfPut = 1024;
constexpr int64_t kMaxBytesOfPut = int64_t{1} << 20;

bool DevicesHave(base::DType dtype) {
  return dtype != base::DType::kInvalid && dtype != base::DType::kString &&
         base::BitWidth(dtype) % 8 == 0;
}

absl::Status CheckArray(const base::Array& array) {
  if (!array.valid()) return absl::InvalidArgumentError("Put was given an empty Array");
  if (DevicesHave(array.dtype())) return absl::OkStatus();
  std::vector<absl::string_view> known;
  for (int i = 0; i < base::kNumDTypes; ++i) {
    const auto dtype = static_cast<base::DType>(i);
    if (DevicesHave(dtype)) known.push_back(base::DTypeName(dtype));
  }
  return absl::InvalidArgumentError(absl::StrCat("a device does not support ",
                                                 base::DTypeName(array.dtype()), "; it supports ",
                                                 absl::StrJoin(known, ", ")));
}

std::vector<runtime::Device> ReadDevices(const WorkerInfo& worker) {
  std::vector<runtime::Device> devices;
  for (const Device& device : worker.devices()) {
    devices.push_back(FromMessage(device, static_cast<int>(devices.size())));
  }
  return devices;
}

// "8 of tpu (TPU v3)".
std::string SummaryOf(absl::string_view platform, const std::vector<runtime::Device>& devices) {
  return absl::StrCat(devices.size(), " of ", platform,
                      devices.empty() ? "" : absl::StrCat(" (", devices[0].kind, ")"));
}

// The messages of one PutAll: small tensors travel together in a request, the others in chunks after it.
class PutWriter {
 public:
  PutWriter(ClientSession& session, int device) : session_(session), device_(device) {}

  absl::Status Add(uint64_t handle, const base::Array& array) {
    Put& put = *request_.mutable_put();
    Put::Tensor& tensor = *put.add_tensors();
    tensor.set_buffer(handle);
    *tensor.mutable_type() = ToMessage(ir::TensorType{array.dtype(), array.shape()});
    if (array.num_bytes() > kInlinedBytes) {
      // Memory without an owner is read before Put returns.
      chunked_.emplace_back(handle, array.owner() != nullptr ? array : array.Clone());
    } else {
      tensor.set_inlined(true);
      bytes_.append(static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes()));
    }
    const bool full = put.tensors_size() >= kMaxTensorsOfPut ||
                      static_cast<int64_t>(bytes_.size()) >= kMaxBytesOfPut;
    return full ? Flush() : absl::OkStatus();
  }

  absl::Status Flush() {
    if (request_.put().tensors().empty()) return absl::OkStatus();
    request_.mutable_put()->set_device(device_);
    std::vector<Slice> payload;
    if (!bytes_.empty()) {
      const auto owner = std::make_shared<const std::string>(std::move(bytes_));
      payload.push_back({owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()});
    }
    if (chunked_.empty()) {
      // Arguments of an execution that follows.
      PENSTOCK_RETURN_IF_ERROR(
          session_.SendHeld(std::exchange(request_, Request()), std::move(payload)));
    } else {
      PENSTOCK_RETURN_IF_ERROR(
          session_.Send(std::exchange(request_, Request()), std::move(payload)));
    }
    bytes_.clear();
    for (const auto& [handle, array] : std::exchange(chunked_, {})) {
      PENSTOCK_RETURN_IF_ERROR(
          session_.SendChunks(handle, array.owner(), array.raw(), array.num_bytes()));
    }
    return absl::OkStatus();
  }

 private:
  ClientSession& session_;
  const int device_;
  Request request_;
  std::string bytes_;
  std::vector<std::pair<uint64_t, base::Array>> chunked_;
};

// The handles of buffers of this session: in another one they name other buffers.
absl::Status AddHandles(const ClientSession& session, const runtime::Buffers& buffers,
                        std::vector<uint64_t>& handles) {
  for (const runtime::Buffer& buffer : buffers) {
    const auto* remote = dynamic_cast<const RemoteBuffer*>(buffer.impl().get());
    if (remote == nullptr) return absl::InvalidArgumentError("a buffer is of another client");
    PENSTOCK_RETURN_IF_ERROR(remote->CheckLive());
    if (remote->session().get() != &session) {
      PENSTOCK_RETURN_IF_ERROR(remote->session()->status());  // why it was lost
      return absl::FailedPreconditionError("a buffer is of another session");
    }
    handles.push_back(remote->handle());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<runtime::Client>> DeviceClient::Open(Connect connect) {
  return RemoteClient::Open(std::move(connect));
}

absl::StatusOr<std::shared_ptr<RemoteClient>> RemoteClient::Open(DeviceClient::Connect connect) {
  std::shared_ptr<RemoteClient> client(new RemoteClient(std::move(connect)));
  PENSTOCK_ASSIGN_OR_RETURN(client->session_, ClientSession::Open(client->connect_));
  const WorkerInfo& worker = client->session_->worker();
  client->platform_ = worker.platform();
  client->version_ = worker.version();
  client->devices_ = std::make_shared<const std::vector<runtime::Device>>(ReadDevices(worker));
  if (client->devices_->empty()) {
    return absl::FailedPreconditionError("the worker gave this session no devices");
  }
  return client;
}

std::shared_ptr<ClientSession> RemoteClient::session() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return session_;
}

absl::Status RemoteClient::Reopen() {
  const std::lock_guard<std::mutex> one(reopen_mutex_);
  if (const auto last = session(); last->status().ok()) {
    const std::optional<std::string> draining = last->draining();
    if (!draining.has_value()) {
      return absl::AlreadyExistsError("no device is lost: the session with the worker lives");
    }
    // A worker that drains waits for its sessions.
    last->End(absl::UnavailableError(*draining));
  } else if (IsTakenOver(last->status())) {
    return absl::FailedPreconditionError(
        "the client that took over has them; wait until it has ended, and start this program "
        "again");
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::shared_ptr<ClientSession> opened, ClientSession::Open(connect_));
  const WorkerInfo& worker = opened->worker();
  const std::vector<runtime::Device> devices = ReadDevices(worker);
  // With --share, the ids may be others: the sessions of a worker that was started again come in another order.
  const auto same = [](const runtime::Device& a, const runtime::Device& b) {
    return a.kind == b.kind;
  };
  const std::string& platform = worker.platform();
  if (platform != platform_ ||
      !std::equal(devices.begin(), devices.end(), devices_->begin(), devices_->end(), same)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker came back with other devices: ", SummaryOf(platform, devices),
                     ", before ", SummaryOf(platform_, *devices_)));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  session_ = std::move(opened);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> RemoteClient::Compile(
    const ir::Program& program, const runtime::CompileOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(runtime::CheckProgram(program));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int> devices,
                            runtime::ChooseDevices(program, options, *devices_));
  auto executable =
      std::make_shared<RemoteExecutable>(shared_from_this(), program, devices, options);
  PENSTOCK_RETURN_IF_ERROR(executable->Load());
  return executable;
}

absl::StatusOr<runtime::Buffer> RemoteClient::Put(const base::Array& array,
                                                  const runtime::Device& device) {
  PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffers buffers, PutAll({&array, 1}, device));
  return std::move(buffers[0]);
}

absl::StatusOr<runtime::Buffers> RemoteClient::PutAll(absl::Span<const base::Array> arrays,
                                                      const runtime::Device& device) {
  for (const base::Array& array : arrays) PENSTOCK_RETURN_IF_ERROR(CheckArray(array));
  PENSTOCK_RETURN_IF_ERROR(runtime::CheckDevice(device, *devices_));
  const std::shared_ptr<ClientSession> session = this->session();
  uint64_t handle = session->NewHandles(static_cast<int64_t>(arrays.size()));
  PutWriter writer(*session, device.index);
  runtime::Buffers buffers;
  buffers.reserve(arrays.size());
  for (const base::Array& array : arrays) {
    buffers.emplace_back(std::make_shared<RemoteBuffer>(
        session, handle, ir::TensorType{array.dtype(), array.shape()}, devices_, device.index));
    PENSTOCK_RETURN_IF_ERROR(writer.Add(handle++, array));
  }
  PENSTOCK_RETURN_IF_ERROR(writer.Flush());
  return buffers;
}

runtime::FreeMemoryInfo RemoteClient::FreeMemory(const runtime::Device& device) {
  Request request;
  request.mutable_free_memory()->set_device(device.index);
  const absl::StatusOr<ReceivedReply> got = session()->Call(std::move(request));
  if (!got.ok()) return {};
  const FreeMemoryInfo& info = got->reply.free_memory();
  return {.bytes = info.bytes(), .where = info.where(), .shared = info.shared()};
}

absl::Status RemoteClient::AddKernels(absl::Span<const runtime::Kernel> kernels) {
  const auto session = this->session();
  const auto& known = session->worker().kernels();
  for (const runtime::Kernel& kernel : kernels) {
    if (std::find(known.begin(), known.end(), kernel.name) == known.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the worker has no kernel '", kernel.name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status RemoteClient::CheckPath(absl::string_view uri, bool write) const {
  const auto session = this->session();
  const auto& readable = session->worker().readable();
  const auto& writable = session->worker().writable();
  return data::AllowedPaths({readable.begin(), readable.end()}, {writable.begin(), writable.end()})
      .Check(uri, write);
}

absl::StatusOr<std::unique_ptr<train::HostFeed>> RemoteClient::OpenFeed(
    const train::FeedRequest& request) {
  const std::shared_ptr<ClientSession> session = this->session();
  train::FeedRequest sent = request;
  if (request.device_rows != nullptr) {
    sent.device_columns = request.device_rows->names;
    for (const runtime::Buffers& replica : request.device_rows->replicas) {
      PENSTOCK_RETURN_IF_ERROR(AddHandles(*session, replica, sent.device_buffers));
    }
  }
  return std::make_unique<ClientFeed>(session, devices_, std::move(sent));
}

absl::StatusOr<train::RowsThere> RemoteClient::ReadToDevices(const train::FeedRequest& request) {
  return ReadRowsToDevices(session(), devices_, request);
}

absl::StatusOr<runtime::Buffers> RemoteClient::CopyToDevice(const runtime::Buffers& buffers,
                                                            const runtime::Device& device) {
  PENSTOCK_RETURN_IF_ERROR(runtime::CheckDevice(device, *devices_));
  const std::shared_ptr<ClientSession> session = this->session();
  std::vector<uint64_t> handles;
  PENSTOCK_RETURN_IF_ERROR(AddHandles(*session, buffers, handles));
  const uint64_t first = session->NewHandles(static_cast<int64_t>(handles.size()));
  Request message;
  CopyBuffers& copy = *message.mutable_copy_buffers();
  copy.mutable_buffers()->Add(handles.begin(), handles.end());
  copy.set_first_copy(first);
  copy.set_device(device.index);
  PENSTOCK_RETURN_IF_ERROR(session->Call(std::move(message)).status());
  runtime::Buffers copies;
  for (size_t i = 0; i < buffers.size(); ++i) {
    copies.emplace_back(std::make_shared<RemoteBuffer>(session, first + i, buffers[i].type(),
                                                       devices_, device.index));
  }
  return copies;
}

absl::StatusOr<train::KeptRows> RemoteClient::KeepRows(const data::DatasetPart& part,
                                                       const data::IteratorOptions& read) {
  return rows_.Send(session(), part, read);
}

absl::StatusOr<std::unique_ptr<train::CheckpointStore>> RemoteClient::OpenCheckpoints(
    const std::string& folder, const save::CheckpointOptions& options, bool check) {
  PENSTOCK_RETURN_IF_ERROR(CheckPath(folder, /*write=*/true));
  return ClientCheckpoints::Open(session(), devices_, folder, options, check);
}

std::shared_ptr<io::FileSystem> RemoteClient::Files() {
  return std::make_shared<ClientFiles>(session());
}

void RemoteClient::Log(absl::string_view line) {
  Request request;
  request.mutable_log()->set_line(std::string(line));
  session()->Send(std::move(request)).IgnoreError();
}

}  // namespace penstock::remote
