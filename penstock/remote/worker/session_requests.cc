#include "penstock/remote/worker/session_requests.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/exceptions.h"
#include "penstock/base/status.h"
#include "penstock/remote/checkpoint/worker_checkpoints.h"
#include "penstock/remote/feed/worker_feeds.h"
#include "penstock/remote/files/worker_files.h"
#include "penstock/remote/wire/features.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/worker_info.h"
#include "penstock/remote/worker/xla_flags.h"
#include "penstock/runtime/program_check.h"

namespace penstock::remote {
namespace {

// ---- Compile ----

struct CompileTask {
  ir::Program program;
  runtime::CompileOptions options;
};

absl::StatusOr<CompileTask> ReadCompile(SessionState& session, Compile& compile) {
  CompileTask task;
  if (compile.text_bytes() > 0) {
    PENSTOCK_ASSIGN_OR_RETURN(*compile.mutable_program()->mutable_text(),
                              session.TakeText(compile.executable(), compile.text_bytes()));
  }
  const auto size = static_cast<int64_t>(compile.program().text().size());
  if (size > session.limits().max_program_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the program's text has ", size, " bytes; the worker accepts ",
                     session.limits().max_program_bytes, " (max_program_bytes)"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(task.program, FromMessage(compile.program()));
  for (const int index : compile.devices()) {
    PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device, session.device(index));
    task.options.devices.push_back(device->index);
  }
  // Without a list a program would run on the first devices of the worker, which may be another's.
  if (task.options.devices.size() != static_cast<size_t>(task.program.num_replicas)) {
    return absl::InvalidArgumentError(absl::StrCat(task.program.num_replicas, " replicas, but ",
                                                   task.options.devices.size(), " devices"));
  }
  for (const Flag& flag : compile.xla_flags()) {
    PENSTOCK_RETURN_IF_ERROR(CheckXlaFlag(flag.name(), flag.value()));
    task.options.xla_flags.emplace_back(flag.name(), flag.value());
  }
  task.options.allow_copied_donations = compile.allow_copied_donations();
  return task;
}

Reply DescribeExecutable(const runtime::Executable& executable) {
  Reply reply;
  Compiled& compiled = *reply.mutable_compiled();
  compiled.set_from_cache(executable.from_cache());
  const absl::StatusOr<runtime::MemoryStats> memory = executable.Memory();
  *compiled.mutable_memory_status() = ToMessage(memory.status());
  if (memory.ok()) {
    compiled.set_arguments(memory->arguments);
    compiled.set_outputs(memory->outputs);
    compiled.set_aliased(memory->aliased);
    compiled.set_temporary(memory->temporary);
    compiled.set_code(memory->code);
  }
  const absl::StatusOr<runtime::CostEstimate> cost = executable.Cost();
  *compiled.mutable_cost_status() = ToMessage(cost.status());
  if (cost.ok()) {
    compiled.set_flops(cost->flops);
    compiled.set_bytes_accessed(cost->bytes_accessed);
    compiled.set_optimal_seconds(cost->optimal_seconds);
  }
  return reply;
}

absl::Status HandleCompile(SessionState& session, Call& call) {
  Compile& compile = *call.body.mutable_compile();
  const uint64_t request = call.body.id(), handle = compile.executable();
  if (request == 0) return absl::InvalidArgumentError("Compile without a request id");
  PENSTOCK_RETURN_IF_ERROR(session.CheckNewHandles({&handle, 1}));
  PENSTOCK_ASSIGN_OR_RETURN(CompileTask task, ReadCompile(session, compile));
  PENSTOCK_RETURN_IF_ERROR(session.ReserveProgram(handle, task.program.name));
  const auto bytes = static_cast<int64_t>(compile.program().text().size());
  const absl::Status begun =
      session.RunCompile(bytes, [&session, request, handle, task = std::move(task)] {
        absl::StatusOr<std::shared_ptr<runtime::Executable>> executable = base::CatchExceptions(
            [&] { return session.client().Compile(task.program, task.options); });
        if (!executable.ok()) {
          session.AddProgram(handle, nullptr);
          return session.SendError(request, executable.status());
        }
        Reply reply = DescribeExecutable(**executable);
        session.AddProgram(handle, *std::move(executable));
        session.SendReply(request, std::move(reply));
      });
  if (!begun.ok()) session.AddProgram(handle, nullptr);
  return begun;
}

// ---- Put ----

absl::StatusOr<runtime::Buffer> PutInlined(SessionState& session, const ir::TensorType& type,
                                           const runtime::Device& device,
                                           absl::Span<const Slice> bytes) {
  PENSTOCK_RETURN_IF_ERROR(session.CheckBytes({&type, 1}));
  base::Array array = base::Array::Uninitialized(type.dtype, type.shape);
  CopyPayload(bytes, static_cast<std::byte*>(array.mutable_raw()));
  return session.client().Put(array, device);
}

absl::Status HandlePut(SessionState& session, Call& call) {
  const Put& put = call.body.put();
  PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device, session.device(put.device()));
  size_t left = 0;
  for (const Slice& slice : call.payload) left += slice.size;
  for (const Put::Tensor& tensor : put.tensors()) {
    const uint64_t handle = tensor.buffer();
    PENSTOCK_RETURN_IF_ERROR(session.CheckNewHandles({&handle, 1}));
    PENSTOCK_ASSIGN_OR_RETURN(const ir::TensorType type, FromMessage(tensor.type()));
    const int64_t bytes = BytesOf(type);
    if (!tensor.inlined() && bytes > 0) {
      PENSTOCK_RETURN_IF_ERROR(session.AnnounceUpload(handle, type, *device));
      continue;
    }
    if (bytes > kInlinedBytes || static_cast<size_t>(bytes) > left) {
      return absl::InvalidArgumentError(absl::StrCat("a tensor of ", bytes,
                                                     " bytes in a message of ", left, "; at most ",
                                                     kInlinedBytes, " may be inlined"));
    }
    left -= static_cast<size_t>(bytes);
    const std::vector<Slice> payload = TakePayload(call.payload, static_cast<size_t>(bytes));
    session.AddBuffer(handle, PutInlined(session, type, *device, payload));
  }
  if (left > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(left, " bytes of the message belong to no tensor"));
  }
  if (call.body.id() != 0) session.SendReply(call.body.id(), Reply());
  return absl::OkStatus();
}

// ---- Transfers to the client ----

// Small tensors that are sent with one reply, once the last of them has arrived on the host.
class FetchReply {
 public:
  // `wanted`: number of Add calls that follow.
  // `busy`: ends with the reply.
  FetchReply(std::shared_ptr<SessionState> session, uint64_t request, Reply reply, size_t wanted,
             std::shared_ptr<void> busy = nullptr)
      : session_(std::move(session)),
        busy_(std::move(busy)),
        request_(request),
        reply_(std::move(reply)),
        arrays_(wanted),
        missing_(wanted) {
    session_->BeginAsync();
  }

  // Destroyed after the reply. Before the first Add.
  void Keep(std::vector<runtime::Buffer> buffers) { kept_ = std::move(buffers); }

  static void Add(const std::shared_ptr<FetchReply>& self, size_t place,
                  const runtime::Buffer& buffer) {
    base::Array& array = self->arrays_[place];
    array = base::Array::Uninitialized(buffer.type().dtype, buffer.type().shape);
    const auto event = buffer.GetAsync(array);
    if (!event.ok()) return self->Done(event.status());
    (*event)->OnReady([self](const absl::Status& status) { self->Done(status); });
  }

 private:
  void Done(const absl::Status& status) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      status_.Update(status);
      if (--missing_ > 0) return;
    }
    busy_ = nullptr;
    if (status_.ok()) {
      std::vector<Slice> payload;
      for (const base::Array& array : arrays_) {
        const auto* data = static_cast<const std::byte*>(array.raw());
        payload.push_back({array.owner(), data, static_cast<size_t>(array.num_bytes())});
      }
      session_->SendReply(request_, std::move(reply_), std::move(payload));
    } else {
      session_->SendError(request_, status_);
    }
    // This is a callback of the execution, which may end a moment later.
    if (!kept_.empty()) session_->DestroyLater(std::move(kept_));
    session_->EndAsync();
  }

  const std::shared_ptr<SessionState> session_;
  std::shared_ptr<void> busy_;
  const uint64_t request_;
  Reply reply_;
  std::vector<base::Array> arrays_;
  std::vector<runtime::Buffer> kept_;
  std::mutex mutex_;
  size_t missing_;
  absl::Status status_;
};

absl::Status GetInChunks(SessionState& session, uint64_t request, const runtime::Buffer& buffer) {
  const auto array = base::Array::Uninitialized(buffer.type().dtype, buffer.type().shape);
  PENSTOCK_ASSIGN_OR_RETURN(const std::shared_ptr<runtime::Event> event, buffer.GetAsync(array));
  const int64_t bytes = array.num_bytes();
  session.BeginAsync();
  session.BeginGet(bytes);
  event->OnReady(
      [state = session.shared_from_this(), request, array, bytes](const absl::Status& status) {
        const auto done = [state, bytes] {
          state->EndGet(bytes);
          state->EndAsync();
        };
        if (status.ok()) return state->SendTensor(request, array, done);
        state->SendError(request, status);
        done();
      });
  return absl::OkStatus();
}

absl::Status HandleGet(SessionState& session, Call& call) {
  const uint64_t request = call.body.id();
  if (request == 0) return absl::InvalidArgumentError("Get without a request id");
  PENSTOCK_ASSIGN_OR_RETURN(const runtime::Buffer buffer,
                            session.FindBuffer(call.body.get().buffer()));
  if (BytesOf(buffer.type()) > kInlinedBytes) return GetInChunks(session, request, buffer);
  Reply reply;
  reply.mutable_got();
  FetchReply::Add(
      std::make_shared<FetchReply>(session.shared_from_this(), request, std::move(reply), 1), 0,
      buffer);
  return absl::OkStatus();
}

absl::Status HandleAwait(SessionState& session, Call& call) {
  const uint64_t request = call.body.id();
  if (request == 0) return absl::InvalidArgumentError("Await without a request id");
  PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer buffer, session.FindBuffer(call.body.await().buffer()));
  return session.RunWait([&session, request, buffer = std::move(buffer)] {
    const absl::Status status = buffer.Await();
    status.ok() ? session.SendReply(request, Reply()) : session.SendError(request, status);
  });
}

// ---- Execute ----

absl::Status CheckExecute(SessionState& session, const Execute& execute) {
  PENSTOCK_RETURN_IF_ERROR(session.CheckNewHandles(execute.results()));
  const absl::flat_hash_set<uint64_t> distinct(execute.results().begin(), execute.results().end());
  if (distinct.size() != static_cast<size_t>(execute.results_size())) {
    return absl::InvalidArgumentError("one handle for two results");
  }
  if (execute.fetch_size() > execute.results_size()) {
    return absl::InvalidArgumentError("more results to fetch than there are");
  }
  for (const uint32_t result : execute.fetch()) {
    if (result >= static_cast<uint32_t>(execute.results_size())) {
      return absl::InvalidArgumentError(
          absl::StrCat("result ", result, " to fetch; there are ", execute.results_size()));
    }
  }
  return absl::OkStatus();
}

// The handles of donated arguments.
std::vector<uint64_t> DonatedOf(const ir::Program& program, const Execute& execute) {
  std::vector<uint64_t> donated;
  const size_t parameters = program.parameters.size();
  for (int i = 0; i < execute.arguments_size(); ++i) {
    const size_t parameter = static_cast<size_t>(i) % parameters;
    if (parameter < program.alias.size() && program.alias[parameter] >= 0) {
      donated.push_back(execute.arguments(i));
    }
  }
  return donated;
}

// The types of results that do not reuse a donated buffer.
std::vector<ir::TensorType> NewTypes(const ir::Program& program) {
  std::vector<ir::TensorType> types;
  for (size_t i = 0; i < program.results.size(); ++i) {
    const auto& alias = program.alias;
    const bool reuses = std::find(alias.begin(), alias.end(), static_cast<int>(i)) != alias.end();
    if (!reuses) types.push_back(program.results[i]);
  }
  return types;
}

// `donated`: the arguments that the execution took.
absl::StatusOr<std::vector<runtime::Buffers>> Dispatch(SessionState& session,
                                                       const Execute& execute,
                                                       std::vector<runtime::Buffer>& donated) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto executable, session.FindProgram(execute.executable()));
  const ir::Program& program = executable->program();
  const auto replicas = static_cast<size_t>(program.num_replicas);
  const size_t parameters = program.parameters.size(), results = program.results.size();
  if (static_cast<size_t>(execute.arguments_size()) != replicas * parameters ||
      static_cast<size_t>(execute.results_size()) != replicas * results) {
    return absl::InvalidArgumentError(
        absl::StrCat("program '", program.name, "': ", execute.arguments_size(), " arguments and ",
                     execute.results_size(), " results for ", replicas, " replicas of ", parameters,
                     " parameters and ", results, " results"));
  }
  std::vector<runtime::Buffers> arguments(replicas);
  absl::Status status;
  for (size_t replica = 0; replica < replicas && status.ok(); ++replica) {
    status = session.FindBuffers(
        absl::MakeConstSpan(execute.arguments()).subspan(replica * parameters, parameters),
        arguments[replica]);
  }
  if (status.ok()) status = session.CheckBytes(NewTypes(program), program.num_replicas);
  if (!status.ok()) {
    donated = session.TakeDonated(DonatedOf(program, execute));
    return base::WithContext(status, runtime::ProgramName(program));
  }
  absl::StatusOr<std::vector<runtime::Buffers>> out = executable->Execute(arguments);
  donated = session.TakeDonated(DonatedOf(program, execute));
  session.CountExecution(program.name);
  return out;
}

absl::Status HandleExecute(SessionState& session, Call& call) {
  const Execute& execute = call.body.execute();
  const uint64_t request = call.body.id();
  if (const absl::Status checked = CheckExecute(session, execute); !checked.ok()) {
    // The client has the results' handles, whatever the reply says: the next requests would fail.
    if (absl::IsResourceExhausted(checked)) session.End(checked);
    return checked;
  }
  std::shared_ptr<void> busy = session.Busy();
  std::vector<runtime::Buffer> donated;
  const absl::StatusOr<std::vector<runtime::Buffers>> out =
      base::CatchExceptions([&] { return Dispatch(session, execute, donated); });
  std::vector<const runtime::Buffer*> results;
  if (out.ok()) {
    for (const runtime::Buffers& replica : *out) {
      for (const runtime::Buffer& buffer : replica) results.push_back(&buffer);
    }
  }
  for (int i = 0; i < execute.results_size(); ++i) {
    const auto place = static_cast<size_t>(i);
    session.AddBuffer(execute.results(i),
                      out.ok() ? absl::StatusOr<runtime::Buffer>(*results[place]) : out.status());
  }
  if (request == 0) return absl::OkStatus();
  PENSTOCK_RETURN_IF_ERROR(out.status());
  int64_t bytes = 0;
  for (const uint32_t result : execute.fetch()) bytes += BytesOf(results[result]->type());
  if (bytes > kInlinedBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes to fetch; at most ", kInlinedBytes));
  }
  Reply reply;
  reply.mutable_executed();
  if (execute.fetch().empty()) {
    session.SendReply(request, std::move(reply));
    return absl::OkStatus();
  }
  const auto fetch =
      std::make_shared<FetchReply>(session.shared_from_this(), request, std::move(reply),
                                   static_cast<size_t>(execute.fetch_size()), std::move(busy));
  fetch->Keep(std::move(donated));
  for (int i = 0; i < execute.fetch_size(); ++i) {
    FetchReply::Add(fetch, static_cast<size_t>(i), *results[execute.fetch(i)]);
  }
  return absl::OkStatus();
}

// ---- Others ----

absl::Status HandleFreeMemory(SessionState& session, Call& call) {
  PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device,
                            session.device(call.body.free_memory().device()));
  runtime::FreeMemoryInfo info = session.client().FreeMemory(*device);
  if (const int64_t left = session.limits().max_buffer_bytes - session.stats().buffer_bytes;
      left < info.bytes) {
    info.bytes = std::max<int64_t>(left, 0);
    info.where = "as much as a session may have (max_buffer_bytes)";
    info.shared = true;
  }
  Reply reply;
  FreeMemoryInfo& out = *reply.mutable_free_memory();
  out.set_bytes(info.bytes);
  out.set_where(info.where);
  out.set_shared(info.shared);
  session.SendReply(call.body.id(), std::move(reply));
  return absl::OkStatus();
}

absl::Status HandleLog(SessionState& session, Call& call) {
  constexpr size_t kMaxLine = 2000;
  std::string line = call.body.log().line().substr(0, kMaxLine);
  for (char& c : line) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  session.client().Log(line);
  if (call.body.id() != 0) session.SendReply(call.body.id(), Reply());
  return absl::OkStatus();
}

absl::Status HandleOpenFeed(SessionState& session, Call& call) {
  return session.feeds().Open(call);
}
absl::Status HandleFeedNext(SessionState& session, Call& call) {
  return session.feeds().Next(call);
}
absl::Status HandleCloseFeed(SessionState& session, Call& call) {
  return session.feeds().Close(call);
}

absl::Status HandleKeepRows(SessionState& session, Call& call) {
  return session.feeds().KeepRows(call);
}

absl::Status HandleCheckpoints(SessionState& session, Call& call) {
  return session.checkpoints().Handle(call);
}

absl::Status HandleFiles(SessionState& session, Call& call) { return session.files().Handle(call); }

absl::Status HandleCopyBuffers(SessionState& session, Call& call) {
  const CopyBuffers& copy = call.body.copy_buffers();
  const uint64_t request = call.body.id();
  if (request == 0) return absl::InvalidArgumentError("CopyBuffers without a request id");
  PENSTOCK_ASSIGN_OR_RETURN(const runtime::Device* device, session.device(copy.device()));
  std::vector<runtime::Buffer> from;
  PENSTOCK_RETURN_IF_ERROR(session.FindBuffers(copy.buffers(), from));
  return session.RunWait(
      [&session, request, device, from = std::move(from), handle = copy.first_copy()]() mutable {
        absl::Status status;
        std::vector<uint64_t> made;
        for (size_t i = 0; i < from.size() && status.ok(); ++i, ++handle) {
          status = base::CatchExceptions([&]() -> absl::Status {
            PENSTOCK_RETURN_IF_ERROR(session.CheckNewHandles({&handle, 1}));
            PENSTOCK_RETURN_IF_ERROR(session.CheckBytes({&from[i].type(), 1}));
            PENSTOCK_ASSIGN_OR_RETURN(const base::Array array, from[i].Get());
            PENSTOCK_ASSIGN_OR_RETURN(runtime::Buffer copied, session.client().Put(array, *device));
            PENSTOCK_RETURN_IF_ERROR(copied.Await());
            session.AddBuffer(handle, std::move(copied));
            made.push_back(handle);
            return absl::OkStatus();
          });
        }
        // The client has no buffers then, whose end would free these.
        if (!status.ok()) session.Delete(made).IgnoreError();
        status.ok() ? session.SendReply(request, Reply()) : session.SendError(request, status);
      });
}

absl::Status HandleEnd(SessionState& session, Call&) {
  session.End(absl::OkStatus());
  return absl::OkStatus();
}

// A request that only frees.
absl::Status HandleNothing(SessionState& session, Call& call) {
  session.SendReply(call.body.id(), Reply());
  return absl::OkStatus();
}

struct HandlerRow {
  Request::BodyCase body;
  absl::Status (*handle)(SessionState& session, Call& call);
};

constexpr HandlerRow kHandlers[] = {
    {Request::BODY_NOT_SET, HandleNothing},
    {Request::kCompile, HandleCompile},
    {Request::kPut, HandlePut},
    {Request::kExecute, HandleExecute},
    {Request::kGet, HandleGet},
    {Request::kAwait, HandleAwait},
    {Request::kFreeMemory, HandleFreeMemory},
    {Request::kLog, HandleLog},
    {Request::kOpenFeed, HandleOpenFeed},
    {Request::kFeedNext, HandleFeedNext},
    {Request::kCloseFeed, HandleCloseFeed},
    {Request::kKeepRows, HandleKeepRows},
    {Request::kCopyBuffers, HandleCopyBuffers},
    {Request::kCheckpoints, HandleCheckpoints},
    {Request::kFiles, HandleFiles},
    {Request::kEnd, HandleEnd},
};

}  // namespace

// A row more: the request that only frees.
static_assert(std::size(kHandlers) == std::size(kRequestKinds) + 1,
              "a kind of request has no handler, or no feature (wire/features.h)");

absl::Status HandleRequest(SessionState& session, Call& call) {
  const auto body = static_cast<uint32_t>(call.body.body_case()), kind = call.body.kind();
  if (kind != 0 && kind != body) {
    if (body != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a request of kind ", kind, " has a body of kind ", body));
    }
    return absl::UnimplementedError(absl::StrCat("this worker (Penstock ", PenstockVersion(),
                                                 ") does not know requests of kind ", kind,
                                                 "; update the worker"));
  }
  for (const HandlerRow& row : kHandlers) {
    if (row.body == call.body.body_case()) return row.handle(session, call);
  }
  return absl::InternalError(absl::StrCat("requests of kind ", body, " have no handler"));
}

}  // namespace penstock::remote
