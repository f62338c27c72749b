#include "penstock/remote/client/remote_executable.h"

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/runtime/program_check.h"

namespace penstock::remote {
namespace {

// CheckOwner has verified the type.
RemoteBuffer& AsRemote(const runtime::Buffer& buffer) {
  return static_cast<RemoteBuffer&>(*buffer.impl());
}

// A message of the worker's, which may be anything: copies the fetched results out of its payload.
absl::Status ReadFetched(const ir::Program& program, absl::Span<const uint32_t> fetch,
                         std::vector<Slice> payload, FetchedResults& out) {
  size_t bytes = 0, expected = 0;
  for (const Slice& slice : payload) bytes += slice.size;
  const size_t results = program.results.size();
  for (const uint32_t place : fetch) {
    const ir::TensorType& type = program.results[place % results];
    out.arrays.push_back(base::Array::Uninitialized(type.dtype, type.shape));
    expected += static_cast<size_t>(out.arrays.back().num_bytes());
  }
  if (bytes != expected) {
    return absl::InternalError(
        absl::StrCat("the worker sent ", bytes, " bytes of results, expected ", expected));
  }
  for (base::Array& array : out.arrays) {
    const auto size = static_cast<size_t>(array.num_bytes());
    CopyPayload(TakePayload(payload, size), static_cast<std::byte*>(array.mutable_raw()));
  }
  return absl::OkStatus();
}

}  // namespace

RemoteExecutable::RemoteExecutable(std::shared_ptr<RemoteClient> client, ir::Program program,
                                   std::vector<int> devices, runtime::CompileOptions options)
    : client_(std::move(client)),
      program_(std::make_shared<const ir::Program>(std::move(program))),
      devices_(std::move(devices)),
      options_(std::move(options)),
      uses_(*program_) {
  for (const int device : devices_) {
    device_pointers_.push_back(&client_->devices()[static_cast<size_t>(device)]);
  }
  std::vector<bool> aliased(program_->results.size());
  for (const size_t i : uses_.donated) aliased[static_cast<size_t>(program_->alias[i])] = true;
  int64_t total = 0;
  for (size_t place = 0; place < devices_.size() * program_->results.size(); ++place) {
    const size_t result = place % program_->results.size();
    const int64_t bytes = BytesOf(program_->results[result]);
    const bool fetch = !aliased[result] && bytes <= kFetchedBytes && total + bytes <= kInlinedBytes;
    places_.push_back(fetch ? static_cast<int>(fetch_.size()) : -1);
    if (!fetch) continue;
    fetch_.push_back(static_cast<uint32_t>(place));
    total += bytes;
  }
}

// ---- Compiling ----

absl::Status RemoteExecutable::Load() { return LoadIn(client_->session()).status(); }

absl::StatusOr<std::shared_ptr<const RemoteExecutable::Loaded>> RemoteExecutable::LoadIn(
    const std::shared_ptr<ClientSession>& session) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (loaded_ != nullptr && loaded_->session == session) return loaded_;
  const uint64_t handle = session->NewHandles(1);
  PENSTOCK_ASSIGN_OR_RETURN(Compiled facts, SendCompile(*session, handle));
  auto loaded = std::make_shared<Loaded>();
  loaded->session = session;
  loaded->handle = handle;
  loaded->facts = std::move(facts);
  loaded_ = std::move(loaded);
  return loaded_;
}

std::shared_ptr<const RemoteExecutable::Loaded> RemoteExecutable::loaded() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return loaded_;
}

absl::StatusOr<Compiled> RemoteExecutable::SendCompile(ClientSession& session,
                                                       uint64_t handle) const {
  Request request;
  Compile& compile = *request.mutable_compile();
  compile.set_executable(handle);
  *compile.mutable_program() = ToMessage(*program_);
  for (const int device : devices_) compile.add_devices(device);
  for (const auto& [name, value] : options_.xla_flags) {
    Flag& flag = *compile.add_xla_flags();
    flag.set_name(name);
    flag.set_value(value);
  }
  compile.set_allow_copied_donations(options_.allow_copied_donations);
  const auto bytes = static_cast<int64_t>(program_->text.size());
  if (bytes > kInlinedTextBytes) {
    compile.mutable_program()->clear_text();
    compile.set_text_bytes(bytes);
    PENSTOCK_RETURN_IF_ERROR(session.SendChunks(handle, program_, program_->text.data(), bytes));
  }
  PENSTOCK_ASSIGN_OR_RETURN(ReceivedReply got, session.Call(std::move(request)));
  session.MeasureRoundTrip();  // nothing is under way now
  return std::move(*got.reply.mutable_compiled());
}

bool RemoteExecutable::from_cache() const { return loaded()->facts.from_cache(); }

absl::StatusOr<runtime::MemoryStats> RemoteExecutable::Memory() const {
  const auto loaded = this->loaded();
  const Compiled& facts = loaded->facts;
  PENSTOCK_RETURN_IF_ERROR(FromMessage(facts.memory_status()));
  return runtime::MemoryStats{.arguments = facts.arguments(),
                              .outputs = facts.outputs(),
                              .aliased = facts.aliased(),
                              .temporary = facts.temporary(),
                              .code = facts.code()};
}

absl::StatusOr<runtime::CostEstimate> RemoteExecutable::Cost() const {
  const auto loaded = this->loaded();
  const Compiled& facts = loaded->facts;
  PENSTOCK_RETURN_IF_ERROR(FromMessage(facts.cost_status()));
  return runtime::CostEstimate{.flops = facts.flops(),
                               .bytes_accessed = facts.bytes_accessed(),
                               .optimal_seconds = facts.optimal_seconds()};
}

// ---- Executing ----

absl::Status RemoteExecutable::CheckOwner(const ClientSession& session,
                                          absl::Span<const runtime::Buffers> arguments) const {
  for (size_t replica = 0; replica < arguments.size(); ++replica) {
    for (size_t i = 0; i < arguments[replica].size(); ++i) {
      const runtime::BufferImpl& buffer = *arguments[replica][i].impl();
      const auto* remote = typeid(buffer) == typeid(RemoteBuffer)
                               ? static_cast<const RemoteBuffer*>(&buffer)
                               : nullptr;
      if (remote != nullptr && remote->session().get() == &session) continue;
      const std::string name = runtime::ParameterName(*program_, replica, i);
      if (remote != nullptr && remote->devices() == client_->shared_devices()) {
        return base::WithContext(remote->session()->status(), name);
      }
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": the buffer belongs to another client; transfer it with Get there and Put here"));
    }
  }
  return absl::OkStatus();
}

std::vector<runtime::Buffers> RemoteExecutable::MakeResults(
    const std::shared_ptr<ClientSession>& session, uint64_t handle,
    std::shared_ptr<FetchedResults> fetched) const {
  std::vector<runtime::Buffers> out(devices_.size());
  size_t place = 0;
  for (size_t replica = 0; replica < devices_.size(); ++replica) {
    out[replica].reserve(program_->results.size());
    for (const ir::TensorType& type : program_->results) {
      out[replica].emplace_back(
          std::make_shared<RemoteBuffer>(session, handle++, type, client_->shared_devices(),
                                         devices_[replica], program_, fetched, places_[place++]));
    }
  }
  return out;
}

absl::StatusOr<std::vector<runtime::Buffers>> RemoteExecutable::Execute(
    absl::Span<const runtime::Buffers> arguments) {
  PENSTOCK_RETURN_IF_ERROR(runtime::CheckArguments(*program_, device_pointers_, arguments));
  const std::shared_ptr<ClientSession> session = client_->session();
  PENSTOCK_RETURN_IF_ERROR(CheckOwner(*session, arguments));
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<const Loaded> loaded, LoadIn(session));
  runtime::DonationClaims<RemoteBuffer> claims;
  PENSTOCK_RETURN_IF_ERROR(claims.Claim(*program_, uses_, arguments));

  Request request;
  ::penstock::remote::Execute& execute = *request.mutable_execute();
  execute.set_executable(loaded->handle);
  for (const runtime::Buffers& replica : arguments) {
    for (const runtime::Buffer& buffer : replica) execute.add_arguments(AsRemote(buffer).handle());
  }
  const size_t results = places_.size();
  const uint64_t first = session->NewHandles(static_cast<int64_t>(results));
  for (size_t i = 0; i < results; ++i) execute.add_results(first + i);
  std::shared_ptr<FetchedResults> fetched;
  if (fetch_.empty()) {
    PENSTOCK_RETURN_IF_ERROR(session->Send(std::move(request)));
  } else {
    for (const uint32_t place : fetch_) execute.add_fetch(place);
    fetched = std::make_shared<FetchedResults>();
    PENSTOCK_RETURN_IF_ERROR(session->Send(
        std::move(request), {},
        [fetched, program = program_, fetch = fetch_](absl::StatusOr<ReceivedReply> reply) {
          absl::Status status = reply.status();
          if (status.ok()) {
            status = ReadFetched(*program, fetch, std::move(reply->payload), *fetched);
          }
          fetched->event.Complete(status);
        }));
  }
  claims.Keep();
  return MakeResults(session, first, std::move(fetched));
}

}  // namespace penstock::remote
