#include "penstock/remote/worker/device_session.h"

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include <gmock/gmock.h>

#include "penstock/base/clock.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/testing/fake_client.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/save/checkpoint.h"

namespace penstock::remote {
namespace device_session_test {

using testing::AllOf;
using testing::HasSubstr;

struct TestFolder {
  TestFolder() {
    std::string pattern = testing::TempDir() + "device_session_XXXXXX";
    path = ::mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

// Keeps what the session sends.
class RecordingLink : public Link {
 public:
  absl::Status Send(Message message) override { return Post(std::move(message)); }
  absl::Status Post(Message message) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_.has_value()) return *closed_;
    if (message.header.size() > limit) return absl::ResourceExhaustedError("too large");
    sent_.push_back(std::move(message));
    changed_.notify_all();
    return absl::OkStatus();
  }
  void Close(const absl::Status& reason) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_.has_value()) closed_ = reason;
  }
  Stats stats() const override { return {}; }

  size_t limit = SIZE_MAX;  // bytes of a message

  // The `index`th message, when it has been sent.
  Message WaitFor(size_t index) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return sent_.size() > index; });
    return sent_[index];
  }
  size_t size() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sent_.size();
  }
  // Why the session closed the link; OK if it did not.
  absl::Status closed() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closed_.value_or(absl::OkStatus());
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Message> sent_;
  std::optional<absl::Status> closed_;
};

// A session on a FakeClient, and the messages of a client that may do anything.
class DeviceSessionTest : public testing::Test {
 protected:
  void SetUp() override { Open({}); }
  void TearDown() override { Close(); }

  void Open(const SessionLimits& limits,
            std::shared_ptr<runtime::Client> client = std::make_shared<FakeClient>(),
            std::vector<std::string> readable = {}) {
    OpenWith({.limits = limits, .readable = std::move(readable)}, std::move(client));
  }
  void OpenWith(const DeviceSessionOptions& options,
                std::shared_ptr<runtime::Client> client = std::make_shared<FakeClient>()) {
    Close();
    control_ = std::make_unique<RecordingLink>();
    bulk_ = std::make_unique<RecordingLink>();
    session_ = std::make_unique<DeviceSession>(std::move(client), options);
    session_->Attach(control_.get(), bulk_.get());
    replies_ = 0;
  }
  void Close() {
    if (session_ == nullptr) return;
    session_->control_receiver()->OnClosed(absl::OkStatus());
    session_->bulk_receiver()->OnClosed(absl::OkStatus());
    session_ = nullptr;
  }

  static std::vector<Slice> Bytes(const std::string& bytes) {
    const auto owner = std::make_shared<const std::string>(bytes);
    return {{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()}};
  }
  void Send(const Request& request, const std::string& payload = "") {
    ControlMessage message;
    *message.mutable_request() = request;
    session_->control_receiver()->OnMessage(
        {.header = message.SerializeAsString(), .payload = Bytes(payload)});
  }
  void SendChunk(uint64_t id, int64_t offset, int64_t total, const std::string& bytes) {
    Chunk chunk;
    chunk.set_id(id);
    chunk.set_offset(offset);
    chunk.set_total(total);
    session_->bulk_receiver()->OnMessage(
        {.header = chunk.SerializeAsString(), .payload = Bytes(bytes)});
  }
  // Sends a request with an id, and returns its reply.
  absl::StatusOr<Message> Call(Request request, const std::string& payload = "") {
    request.set_id(100 + replies_);
    Send(request, payload);
    return NextReply();
  }
  absl::StatusOr<Message> NextReply() {
    Message sent = control_->WaitFor(replies_++);
    ControlMessage message;
    EXPECT_TRUE(message.ParseFromString(sent.header));
    const absl::Status status = FromMessage(message.reply().status());
    if (!status.ok()) return status;
    return sent;
  }

  static Request PutRequest(uint64_t handle, int64_t elements, bool inlined) {
    Request request;
    Put::Tensor& tensor = *request.mutable_put()->add_tensors();
    tensor.set_buffer(handle);
    *tensor.mutable_type() = ToMessage(ir::TensorType{base::DType::kU8, {elements}});
    tensor.set_inlined(inlined);
    return request;
  }
  static Request GetRequest(uint64_t handle) {
    Request request;
    request.mutable_get()->set_buffer(handle);
    return request;
  }
  static Request CompileRequest(uint64_t handle, bool donates = false) {
    ir::Program program;
    program.name = "step";
    program.text = "module {}";
    program.parameters = program.results = {{base::DType::kU8, {4}}};
    if (donates) program.alias = {0};
    Request request;
    request.mutable_compile()->set_executable(handle);
    *request.mutable_compile()->mutable_program() = ToMessage(program);
    request.mutable_compile()->add_devices(0);
    return request;
  }
  static Request ExecuteRequest(uint64_t program, uint64_t argument, uint64_t result) {
    Request request;
    request.mutable_execute()->set_executable(program);
    request.mutable_execute()->add_arguments(argument);
    request.mutable_execute()->add_results(result);
    return request;
  }
  std::string TextOf(const absl::StatusOr<Message>& message) {
    if (!message.ok()) return std::string(message.status().message());
    std::string bytes(message->payload_bytes(), '\0');
    CopyPayload(message->payload, reinterpret_cast<std::byte*>(bytes.data()));
    return bytes;
  }

  std::unique_ptr<RecordingLink> control_, bulk_;
  std::unique_ptr<DeviceSession> session_;
  size_t replies_ = 0;
};

TEST_F(DeviceSessionTest, ReturnsInlinedTensor) {
  Send(PutRequest(1, 4, true), "abcd");
  EXPECT_EQ(TextOf(Call(GetRequest(1))), "abcd");
  EXPECT_EQ(session_->stats().buffers, 1);
  EXPECT_EQ(session_->stats().buffer_bytes, 4);
}

TEST_F(DeviceSessionTest, RequestWaitsForUploadThatItUses) {
  Send(PutRequest(1, 4, false));
  Request get = GetRequest(1);
  get.set_id(7);
  Send(get);
  SendChunk(1, 0, 4, "ab");
  EXPECT_EQ(control_->size(), 0u);
  SendChunk(1, 2, 4, "cd");
  EXPECT_EQ(TextOf(NextReply()), "abcd");
}

// Its type and value are known only then.
TEST_F(DeviceSessionTest, CopiesABufferWhenItsUploadHasArrived) {
  Send(PutRequest(1, 4, false));
  Request copy;
  copy.mutable_copy_buffers()->add_buffers(1);
  copy.mutable_copy_buffers()->set_first_copy(2);
  copy.set_id(7);
  Send(copy);
  SendChunk(1, 0, 4, "abcd");
  ASSERT_TRUE(NextReply().ok());
  EXPECT_EQ(TextOf(Call(GetRequest(2))), "abcd");
}

// As a newer client would: a body that this program's protocol.proto does not have, which protobuf hides.
TEST_F(DeviceSessionTest, RejectsRequestsOfUnknownKind) {
  constexpr char kUnknownBody[] = "\xba\x3e\x02\x08\x07";  // field 999, a message
  const auto send = [&](uint64_t id, uint32_t kind) {
    Request request;
    request.set_id(id);
    request.set_kind(kind);
    ASSERT_TRUE(request.MergeFromString(kUnknownBody));
    ASSERT_EQ(request.body_case(), Request::BODY_NOT_SET);
    Send(request);
  };
  Send(PutRequest(1, 4, true), "abcd");
  send(1, 999);
  const absl::Status status = NextReply().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("this worker (Penstock "), HasSubstr("kind 999"),
                    HasSubstr("update the worker")));
  EXPECT_EQ(TextOf(Call(GetRequest(1))), "abcd") << "the session goes on";
  // Without a reply there is no other way to say it than to end the session.
  send(0, 999);
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("kind 999"));
}

TEST_F(DeviceSessionTest, FreesBeforeItRejectsAnUnknownKind) {
  Send(PutRequest(1, 4, true), "abcd");
  Request request;
  request.set_id(1);
  request.set_kind(999);
  request.add_delete_(1);
  Send(request);
  EXPECT_EQ(NextReply().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(session_->stats().buffers, 0) << "the client has forgotten it";
}

// Clients from before Request.kind send 0.
TEST_F(DeviceSessionTest, AcceptsRequestsWithoutKindAndRejectsContradictions) {
  Request request = PutRequest(1, 4, true);
  ASSERT_EQ(request.kind(), 0u);
  EXPECT_TRUE(Call(request, "abcd").ok());
  EXPECT_TRUE(Call(Request()).ok()) << "one that only frees";
  Request get = GetRequest(1);
  get.set_kind(Request::kGet);
  EXPECT_EQ(TextOf(Call(get)), "abcd");
  get.set_kind(Request::kAwait);
  EXPECT_THAT(TextOf(Call(get)), HasSubstr("a request of kind 6 has a body of kind 5"));
}

TEST_F(DeviceSessionTest, RequestThatUsesNoUploadDoesNotWait) {
  Send(PutRequest(1, 4, true), "abcd");
  Send(PutRequest(2, 4, false));
  EXPECT_EQ(TextOf(Call(GetRequest(1))), "abcd");
}

TEST_F(DeviceSessionTest, AcceptsChunksBeforeTheirPut) {
  SendChunk(1, 0, 4, "abcd");
  Send(PutRequest(1, 4, false));
  EXPECT_EQ(TextOf(Call(GetRequest(1))), "abcd");
}

// As the link does for large chunks: it asks for memory, copies, and delivers what it has copied.
TEST_F(DeviceSessionTest, GivesMemoryForEachPartOfAnUploadOnce) {
  LinkReceiver& bulk = *session_->bulk_receiver();
  const auto header = [](int64_t offset, int64_t total = 8) {
    Chunk chunk;
    chunk.set_id(1);
    chunk.set_offset(offset);
    chunk.set_total(total);
    return chunk.SerializeAsString();
  };
  const auto has_memory = [&](const std::string& header, size_t bytes) {
    return bulk.PayloadMemory(header, bytes).data != nullptr;
  };
  Send(PutRequest(1, 8, false));
  EXPECT_FALSE(has_memory(header(0), 2));  // begins with its message
  SendChunk(1, 0, 8, "ab");
  EXPECT_FALSE(has_memory(header(0), 2));
  EXPECT_FALSE(has_memory(header(4), 2));
  EXPECT_FALSE(has_memory(header(2), 7));
  EXPECT_FALSE(has_memory(header(2, 9), 2));
  EXPECT_FALSE(has_memory("\xff", 2));
  EXPECT_FALSE(session_->control_receiver()->PayloadMemory(header(2), 2).data != nullptr);
  const Slice second = bulk.PayloadMemory(header(2), 2);
  ASSERT_NE(second.data, nullptr);
  EXPECT_FALSE(has_memory(header(2), 2));  // comes again: it was damaged
  std::memcpy(const_cast<std::byte*>(second.data), "??", 2);
  SendChunk(1, 2, 8, "cd");
  const Slice third = bulk.PayloadMemory(header(4), 4);
  ASSERT_NE(third.data, nullptr);
  std::memcpy(const_cast<std::byte*>(third.data), "efgh", 4);
  bulk.OnMessage({.header = header(4), .payload = {third}});
  EXPECT_EQ(TextOf(Call(GetRequest(1))), "abcdefgh");
  EXPECT_FALSE(has_memory(header(0), 2));
}

TEST_F(DeviceSessionTest, ExecutesAndFetchesWithTheReply) {
  ASSERT_TRUE(Call(CompileRequest(1)).ok());
  Send(PutRequest(2, 4, true), "abcd");
  Request execute = ExecuteRequest(1, 2, 3);
  execute.mutable_execute()->add_fetch(0);
  EXPECT_EQ(TextOf(Call(execute)), std::string(4, '\0'));
  EXPECT_EQ(session_->stats().executions, 1);
  EXPECT_EQ(session_->stats().buffers, 2);
}

TEST_F(DeviceSessionTest, ErrorOfAnExecutionIsReturnedByItsResults) {
  ASSERT_TRUE(Call(CompileRequest(1)).ok());
  Send(PutRequest(2, 5, true), "abcde");
  Send(ExecuteRequest(1, 2, 3));
  EXPECT_THAT(TextOf(Call(GetRequest(3))), HasSubstr("expected uint8[4], got uint8[5]"));
  Send(ExecuteRequest(1, 3, 4));
  EXPECT_THAT(TextOf(Call(GetRequest(4))), HasSubstr("expected uint8[4], got uint8[5]"));
  EXPECT_TRUE(control_->closed().ok());
}

TEST_F(DeviceSessionTest, DonatedArgumentIsGone) {
  ASSERT_TRUE(Call(CompileRequest(1, /*donates=*/true)).ok());
  Send(PutRequest(2, 4, true), "abcd");
  Send(ExecuteRequest(1, 2, 3));
  EXPECT_THAT(TextOf(Call(GetRequest(2))), HasSubstr("unknown handle 2"));
  EXPECT_EQ(session_->stats().buffers, 1);
}

TEST_F(DeviceSessionTest, DeletesBeforeTheRequest) {
  Send(PutRequest(1, 4, true), "abcd");
  Request request = PutRequest(2, 4, true);
  request.add_delete_(1);
  Send(request, "efgh");
  EXPECT_EQ(session_->stats().buffers, 1);
  EXPECT_EQ(TextOf(Call(GetRequest(2))), "efgh");
}

TEST_F(DeviceSessionTest, SendsLargeTensorInChunks) {
  const int64_t size = kChunkBytes + 10;
  SendChunk(1, 0, size, std::string(kChunkBytes, 'a'));
  SendChunk(1, kChunkBytes, size, std::string(10, 'b'));
  Send(PutRequest(1, size, false));
  Request get = GetRequest(1);
  get.set_id(9);
  Send(get);
  EXPECT_EQ(bulk_->WaitFor(0).payload_bytes(), static_cast<size_t>(kChunkBytes));
  Chunk chunk;
  const Message last = bulk_->WaitFor(1);
  ASSERT_TRUE(chunk.ParseFromString(last.header));
  EXPECT_EQ(chunk.id(), 9u);
  EXPECT_EQ(chunk.offset(), kChunkBytes);
  EXPECT_EQ(chunk.total(), size);
  EXPECT_EQ(TextOf(last), std::string(10, 'b'));
}

// Compiles nothing before Open.
class GatedClient : public FakeClient {
 public:
  absl::StatusOr<std::shared_ptr<runtime::Executable>> Compile(
      const ir::Program& program, const runtime::CompileOptions& options) override {
    std::unique_lock<std::mutex> lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    return FakeClient::Compile(program, options);
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Waits until `count` compilations have begun.
  void WaitForBegun(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }
  int begun() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return begun_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int begun_ = 0;
};

TEST_F(DeviceSessionTest, ProgramsThatWaitToBeCompiledAreBounded) {
  const auto client = std::make_shared<GatedClient>();
  Open({.max_program_bytes = 100}, client);  // a text has 9 bytes
  for (uint64_t handle = 1; handle <= 11; ++handle) {
    Request request = CompileRequest(handle);
    request.set_id(handle);
    Send(request);
  }
  Request excess = CompileRequest(12);
  excess.set_id(12);
  Send(excess);
  EXPECT_THAT(TextOf(NextReply()),
              AllOf(HasSubstr("99 bytes are being compiled"), HasSubstr("max_program_bytes")));
  const double now = base::Clock::Real()->Seconds();
  EXPECT_GE(session_->stats().last_request_seconds, now) << "who compiles is not idle";
  client->Open();
  for (int i = 0; i < 11; ++i) EXPECT_TRUE(NextReply().ok());
  EXPECT_TRUE(Call(CompileRequest(12)).ok()) << "the handle is free, and there is room again";
  EXPECT_EQ(session_->stats().programs, 12);
}

// The compiler's parser has no limit but its stack, and would end the worker.
TEST_F(DeviceSessionTest, RejectsProgramsOfDeeplyNestedBrackets) {
  const auto compile = [&](const std::string& text) {
    Request request = CompileRequest(1);
    request.mutable_compile()->mutable_program()->set_text(text);
    return TextOf(Call(request));
  };
  for (const char bracket : {'(', '[', '{', '<'}) {
    EXPECT_THAT(compile("module " + std::string(201, bracket)),
                HasSubstr("brackets within more than 200 others, at byte 207"));
  }
  EXPECT_THAT(compile("ML\xefR\x01"), HasSubstr("bytecode"));
  std::string flat = "// <<<\n";
  for (int i = 0; i < 300; ++i) flat += "a(\"((\\\"\") : (i1) -> f<[{}]> // ((\n";
  EXPECT_EQ(compile(flat), "");
}

TEST_F(DeviceSessionTest, EndDoesNotWaitForProgramsWhoseTurnHasNotCome) {
  const auto client = std::make_shared<GatedClient>();
  Open({}, client);
  for (uint64_t handle = 1; handle <= 50; ++handle) {
    Request request = CompileRequest(handle);
    request.set_id(handle);
    Send(request);
  }
  client->WaitForBegun(2);  // it has two threads
  session_->control_receiver()->OnClosed(absl::OkStatus());
  session_->bulk_receiver()->OnClosed(absl::OkStatus());
  client->Open();
  session_ = nullptr;
  EXPECT_EQ(client->begun(), 2);
}

// ---- Requests that break the protocol ----

TEST_F(DeviceSessionTest, RejectsUnknownHandles) {
  EXPECT_THAT(TextOf(Call(GetRequest(42))), HasSubstr("unknown handle 42"));
  Request await;
  await.mutable_await()->set_buffer(42);
  EXPECT_THAT(TextOf(Call(await)), HasSubstr("unknown handle 42"));
  Send(ExecuteRequest(42, 43, 44));
  EXPECT_THAT(TextOf(Call(GetRequest(44))), HasSubstr("unknown handle 42"));
  EXPECT_TRUE(control_->closed().ok());
}

TEST_F(DeviceSessionTest, DoubleDeleteEndsTheSession) {
  Send(PutRequest(1, 4, true), "abcd");
  Request request;
  request.add_delete_(1);
  Send(request);
  EXPECT_TRUE(control_->closed().ok());
  Send(request);
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("unknown handle 1"));
  EXPECT_FALSE(bulk_->closed().ok());
}

TEST_F(DeviceSessionTest, HandleInUseEndsTheSession) {
  Send(PutRequest(1, 4, true), "abcd");
  Send(PutRequest(1, 4, true), "abcd");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("handle 1 is in use"));
}

TEST_F(DeviceSessionTest, PayloadThatDoesNotFitEndsTheSession) {
  Send(PutRequest(1, 4, true), "abc");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("4 bytes in a message of 3"));
  Open({});
  Send(PutRequest(1, 4, true), "abcde");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("belong to no tensor"));
}

TEST_F(DeviceSessionTest, OverlappingAndMissingChunksEndTheSession) {
  SendChunk(1, 0, 8, "abcd");
  SendChunk(1, 2, 8, "ef");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("expected offset 4"));
  Open({});
  SendChunk(1, 4, 8, "abcd");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("expected offset 0"));
}

TEST_F(DeviceSessionTest, AbsurdNumbersOfChunksEndTheSession) {
  for (const auto& [offset, total] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 8}, {0, -1}, {0, 0}, {INT64_MAX, 8}, {6, 8}, {INT64_MIN, INT64_MAX}}) {
    Open({});
    SendChunk(1, offset, total, "abcd");
    EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("invalid numbers"));
  }
}

TEST_F(DeviceSessionTest, ChangedTotalEndsTheSession) {
  SendChunk(1, 0, 8, "abcd");
  SendChunk(1, 4, 9, "efgh");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("the total was 8"));
}

TEST_F(DeviceSessionTest, UploadOfAnotherSizeIsAnErrorOfTheBuffer) {
  SendChunk(1, 0, 4, "abcd");
  Send(PutRequest(1, 5, false));
  EXPECT_THAT(TextOf(Call(GetRequest(1))),
              HasSubstr("5 bytes is uploaded in chunks of a total of 4"));
  EXPECT_EQ(session_->stats().buffer_bytes, 0);
}

TEST_F(DeviceSessionTest, InvalidTypesEndTheSession) {
  const auto reason = [&](const std::string& dtype, std::vector<int64_t> dims) {
    Open({});
    Request request = PutRequest(1, 4, true);
    TensorType& type = *request.mutable_put()->mutable_tensors(0)->mutable_type();
    type.set_dtype(dtype);
    type.clear_dims();
    for (const int64_t dim : dims) type.add_dims(dim);
    Send(request, "abcd");
    return std::string(control_->closed().message());
  };
  EXPECT_THAT(reason("uint8", {-4}), HasSubstr("negative extent"));
  EXPECT_THAT(reason("uint8", {INT64_MAX, INT64_MAX}), HasSubstr("too many"));
  EXPECT_THAT(reason("float64", {INT64_MAX}), HasSubstr("too many"));
  EXPECT_THAT(reason("uint8", std::vector<int64_t>(9, 1)), HasSubstr("rank 9"));
  EXPECT_THAT(reason("string", {1}), HasSubstr("string"));
  EXPECT_THAT(reason("nonsense", {1}), HasSubstr("nonsense"));
}

TEST_F(DeviceSessionTest, RejectsExecutionWithOtherCounts) {
  ASSERT_TRUE(Call(CompileRequest(1)).ok());
  Request execute = ExecuteRequest(1, 2, 3);
  execute.mutable_execute()->add_arguments(2);
  EXPECT_THAT(TextOf(Call(execute)), HasSubstr("2 arguments and 1 results"));
  execute = ExecuteRequest(1, 2, 4);
  execute.mutable_execute()->add_results(4);
  EXPECT_THAT(TextOf(Call(execute)), HasSubstr("one handle for two results"));
  execute = ExecuteRequest(1, 2, 5);
  execute.mutable_execute()->add_fetch(1);
  EXPECT_THAT(TextOf(Call(execute)), HasSubstr("result 1 to fetch"));
}

TEST_F(DeviceSessionTest, RejectsFlagsThatNamePaths) {
  Request compile = CompileRequest(1);
  Flag& flag = *compile.mutable_compile()->add_xla_flags();
  flag.set_name("xla_dump_to");
  flag.set_value("/tmp");
  const absl::StatusOr<Message> reply = Call(compile);
  EXPECT_TRUE(absl::IsPermissionDenied(reply.status())) << reply.status();
  flag.set_name("xla_gpu_autotune_level");
  EXPECT_TRUE(absl::IsPermissionDenied(Call(compile).status()));
  flag.set_value("2");
  EXPECT_TRUE(Call(compile).ok());
}

TEST_F(DeviceSessionTest, RejectsDevicesOfOthers) {
  Request compile = CompileRequest(1);
  compile.mutable_compile()->set_devices(0, 7);
  EXPECT_THAT(TextOf(Call(compile)), HasSubstr("device 7"));
  compile.mutable_compile()->clear_devices();
  EXPECT_THAT(TextOf(Call(compile)), HasSubstr("1 replicas, but 0 devices"));
}

TEST_F(DeviceSessionTest, RejectsCheckpointsOfNoStoreAndUnknownRequestsAboutThem) {
  Request request;
  request.mutable_checkpoints()->set_store(5);
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("no store 5"));
  request.mutable_checkpoints()->mutable_open()->set_folder("/run");
  request.mutable_checkpoints()->mutable_open()->set_keep(1);
  EXPECT_TRUE(Call(request).ok());
  request.mutable_checkpoints()->clear_body();
  EXPECT_TRUE(absl::IsUnimplemented(Call(request).status()));
  request.mutable_checkpoints()->mutable_save()->add_names("x");
  EXPECT_TRUE(absl::IsInvalidArgument(Call(request).status()));
  // Nothing was saved that could be annotated.
  request.mutable_checkpoints()->mutable_annotate()->set_step(7);
  EXPECT_TRUE(Call(request).ok());
  // This session may write nowhere.
  request.mutable_checkpoints()->set_read(true);
  EXPECT_TRUE(absl::IsPermissionDenied(Call(request).status()));
}

// The client has no buffers after an error, whose end would free them.
TEST_F(DeviceSessionTest, AFailedLoadLeavesNoBuffers) {
  const TestFolder folder;
  save::CheckpointManager manager(*io::FileSystem::Default(), folder.path, {});
  save::Checkpoint checkpoint{.step = 1};
  checkpoint.arrays.Set("a", base::Array::Zeros(base::DType::kU8, {4}));
  checkpoint.arrays.Set("b", base::Array::Zeros(base::DType::kU8, {1 << 20}));
  ASSERT_TRUE(manager.Save(checkpoint).ok());
  OpenWith({.limits = {.max_buffer_bytes = 1 << 16},
            .readable = {folder.path},
            .writable = {folder.path}});
  Request request;
  request.mutable_checkpoints()->set_store(1);
  request.mutable_checkpoints()->mutable_open()->set_folder(folder.path);
  request.mutable_checkpoints()->mutable_open()->set_keep(1);
  ASSERT_TRUE(Call(request).ok());
  request.mutable_checkpoints()->set_read(true);
  ASSERT_TRUE(Call(request).ok());
  Checkpoints::Load& load = *request.mutable_checkpoints()->mutable_load();
  load.add_names("a");
  load.add_names("b");
  load.add_devices(0);
  load.set_first_buffer(50);
  EXPECT_TRUE(absl::IsResourceExhausted(Call(request).status()));
  EXPECT_EQ(session_->stats().buffers, 0);
}

// A file system whose disk is busy until `go`.
class BusyFileSystem : public io::ForwardingFileSystem {
 public:
  BusyFileSystem() : ForwardingFileSystem(io::FileSystem::Default()) {}
  absl::StatusOr<io::FileInfo> Stat(absl::string_view uri) override {
    go.WaitForNotification();
    return ForwardingFileSystem::Stat(uri);
  }
  absl::Notification go;
};

TEST_F(DeviceSessionTest, ClosesManyFilesAtOnce) {
  constexpr uint64_t kFiles = 128;
  const TestFolder folder;
  const std::string path = folder.path + "/file";
  std::ofstream(path) << "x";
  const auto disk = std::make_shared<BusyFileSystem>();
  OpenWith({.readable = {folder.path}, .file_system = disk});
  const auto open = [&](uint64_t file) {
    Request request;
    request.mutable_files()->mutable_open()->set_uri(path);
    request.mutable_files()->mutable_open()->set_file(file);
    return request;
  };
  for (uint64_t i = 1; i <= kFiles; ++i) ASSERT_TRUE(Call(open(i)).ok());
  uint64_t id = 1000;
  const auto send = [&](Request request) {
    request.set_id(id++);
    Send(request);
  };
  Request stat, close;
  stat.mutable_files()->set_stat(path);
  send(stat);
  for (uint64_t i = 1; i <= kFiles; ++i) {
    close.mutable_files()->set_close(i);
    send(close);
  }
  send(open(500));
  disk->go.Notify();
  for (uint64_t i = 0; i < kFiles + 2; ++i) EXPECT_TRUE(NextReply().ok()) << i;
  for (uint64_t i = 501; i <= 755; ++i) EXPECT_TRUE(Call(open(i)).ok()) << i;  // 256 with 500
}

TEST_F(DeviceSessionTest, AReplyThatIsTooLargeIsAnError) {
  const TestFolder folder;
  for (int i = 0; i < 50; ++i) std::ofstream(absl::StrCat(folder.path, "/file", i)) << "x";
  Open({}, std::make_shared<FakeClient>(), {folder.path});
  control_->limit = 1000;
  Request request;
  request.mutable_files()->set_list(folder.path);
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("too large"));
}

TEST_F(DeviceSessionTest, RejectsUnknownAndTooLargeRequestsAboutFiles) {
  Request request;
  request.mutable_files();
  EXPECT_TRUE(absl::IsUnimplemented(Call(request).status()));
  request.mutable_files()->mutable_read()->set_file(5);
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("no open file 5"));
  request.mutable_files()->set_append(5);
  EXPECT_THAT(TextOf(Call(request, "bytes")), HasSubstr("no new file 5"));
  EXPECT_THAT(TextOf(Call(request, std::string(size_t{9} << 20, 'x'))),
              HasSubstr("of a file travel in one"));
  request.mutable_files()->set_publish(5);
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("no new file 5"));
  request.mutable_files()->set_close(5);
  EXPECT_TRUE(Call(request).ok());
  request.mutable_files()->mutable_open()->set_uri("/etc/passwd");
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("there is a file 0"));
  request.mutable_files()->mutable_open()->set_file(5);
  EXPECT_TRUE(absl::IsPermissionDenied(Call(request).status()));
  request.mutable_files()->mutable_create()->set_uri("/tmp/x");
  request.mutable_files()->mutable_create()->set_file(5);
  EXPECT_TRUE(absl::IsPermissionDenied(Call(request).status()));
  request.mutable_files()->mutable_write_bundle()->add_names("x");
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("1 names of 0 buffers"));
}

TEST_F(DeviceSessionTest, ReadsFilesInBoundedParts) {
  const std::string path = testing::TempDir() + "session_file";
  std::ofstream(path) << "0123456789";
  Open({}, std::make_shared<FakeClient>(), {testing::TempDir()});
  Request request;
  request.mutable_files()->mutable_open()->set_uri(path);
  request.mutable_files()->mutable_open()->set_file(5);
  ASSERT_TRUE(Call(request).ok());
  EXPECT_THAT(TextOf(Call(request)), HasSubstr("there is a file 5"));
  Files::Read& read = *request.mutable_files()->mutable_read();
  read.set_file(5);
  for (const int64_t bytes : {int64_t{-1}, int64_t{1} << 40}) {
    read.set_bytes(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(Call(request).status())) << bytes;
  }
  read.set_bytes(4);
  read.set_offset(7);
  const absl::StatusOr<Message> part = Call(request);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->payload_bytes(), 3u);
}

TEST_F(DeviceSessionTest, GarbageEndsTheSession) {
  session_->control_receiver()->OnMessage({.header = "\xff\xff", .payload = {}});
  EXPECT_FALSE(control_->closed().ok());
  Open({});
  session_->bulk_receiver()->OnMessage({.header = "\xff\xff", .payload = {}});
  EXPECT_FALSE(control_->closed().ok());
}

// ---- Limits ----

TEST_F(DeviceSessionTest, LimitsNameThemselves) {
  Open({.max_buffer_bytes = 6, .max_tensor_bytes = 5});
  Send(PutRequest(1, 6, true), "abcdef");
  EXPECT_THAT(TextOf(Call(GetRequest(1))), HasSubstr("max_tensor_bytes"));
  Send(PutRequest(2, 4, true), "abcd");
  SendChunk(3, 0, 4, "abcd");
  Send(PutRequest(3, 4, false));
  EXPECT_THAT(TextOf(Call(GetRequest(3))), HasSubstr("max_buffer_bytes"));
  ASSERT_TRUE(Call(CompileRequest(4)).ok());
  Send(ExecuteRequest(4, 2, 5));
  EXPECT_THAT(TextOf(Call(GetRequest(5))), HasSubstr("max_buffer_bytes"));
  EXPECT_EQ(session_->stats().buffer_bytes, 4);
}

TEST_F(DeviceSessionTest, LimitsNumberOfUploadsProgramsAndBuffers) {
  Open({.max_buffers = 2, .max_programs = 1, .max_program_bytes = 9, .max_uploads = 1});
  ASSERT_TRUE(Call(CompileRequest(1)).ok());
  EXPECT_THAT(TextOf(Call(CompileRequest(2))), HasSubstr("max_programs"));
  Request large = CompileRequest(3);
  large.mutable_compile()->mutable_program()->set_text("module {  }");
  EXPECT_THAT(TextOf(Call(large)), HasSubstr("max_program_bytes"));
  SendChunk(5, 0, 4, "ab");
  SendChunk(6, 0, 4, "ab");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("max_uploads"));
  Open({.max_buffers = 2});
  for (uint64_t handle : {1, 2, 3}) Send(PutRequest(handle, 4, true), "abcd");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("max_buffers"));
}

// A buffer takes much more than the four bytes of its scalar.
TEST_F(DeviceSessionTest, LimitOfBytesBoundsTheNumberOfSmallBuffers) {
  Open({.max_buffer_bytes = 1 << 20});
  uint64_t handle = 0;
  while (control_->closed().ok() && handle < 10000) Send(PutRequest(++handle, 1, true), "a");
  EXPECT_THAT(std::string(control_->closed().message()), HasSubstr("max_buffer_bytes"));
  EXPECT_GT(handle, 4096u);
  EXPECT_LT(handle, 4096u + 1024u + 1u);
}

TEST_F(DeviceSessionTest, RejectedUploadLeavesNothingBehind) {
  Open({.max_uploads = 1});
  Send(PutRequest(1, 4, false));
  EXPECT_THAT(TextOf(Call(PutRequest(2, 4, false))), HasSubstr("max_uploads"));
  EXPECT_THAT(TextOf(Call(GetRequest(2))), HasSubstr("unknown handle 2"));
  // The handle is free for a program, which waits for its text.
  Request compile = CompileRequest(2);
  compile.set_id(7);
  compile.mutable_compile()->mutable_program()->clear_text();
  compile.mutable_compile()->set_text_bytes(9);
  Send(compile);
  SendChunk(1, 0, 4, "abcd");
  EXPECT_EQ(control_->size(), replies_);
  SendChunk(2, 0, 9, "module {}");
  EXPECT_TRUE(NextReply().ok());
  EXPECT_TRUE(control_->closed().ok());
}

TEST_F(DeviceSessionTest, OnlyRequestsThatStillWaitCountAgainstTheLimitOfBytes) {
  // 64 MiB each, of 256 that may wait. The next request that waits is always sent before the last one
  // is ready, so that the queue is never empty.
  const std::vector<Slice> large = Bytes(std::string(size_t{64} << 20, '\0'));
  ControlMessage message;
  message.mutable_request()->mutable_free_memory();
  Send(PutRequest(1, 4, false));
  Request first = GetRequest(1);
  first.set_id(9);
  Send(first);
  for (uint64_t handle = 1; handle <= 8; ++handle) {
    session_->control_receiver()->OnMessage(
        {.header = message.SerializeAsString(), .payload = large});
    Send(PutRequest(handle + 1, 4, false));
    Request get = GetRequest(handle + 1);
    get.set_id(handle);
    Send(get);
    SendChunk(handle, 0, 4, "abcd");
    ASSERT_TRUE(control_->closed().ok()) << control_->closed();
  }
}

TEST_F(DeviceSessionTest, TellsOfDraining) {
  session_->NotifyDraining("SIGTERM", 30);
  ControlMessage message;
  ASSERT_TRUE(message.ParseFromString(control_->WaitFor(0).header));
  EXPECT_EQ(message.notice().draining().reason(), "SIGTERM");
  EXPECT_EQ(message.notice().draining().deadline_seconds(), 30);
}

// Its text never comes: the chunks of that handle are a tensor's.
TEST_F(DeviceSessionTest, RejectsAProgramWhoseTextWasUploadedAsATensor) {
  Send(PutRequest(7, 1000, /*inlined=*/false));
  Request compile = CompileRequest(7);
  compile.mutable_compile()->mutable_program()->clear_text();
  compile.mutable_compile()->set_text_bytes(1000);
  compile.set_id(100);
  Send(compile);
  EXPECT_THAT(TextOf(NextReply()), HasSubstr("handle 7 is in use"));
  SendChunk(7, 0, 1000, std::string(1000, 'x'));
  EXPECT_TRUE(Call(GetRequest(7)).ok()) << "the tensor is there, and the requests go on";
}

TEST_F(DeviceSessionTest, SaysWhatItDoesAndItsLastError) {
  EXPECT_EQ(session_->stats().activity, "opened");
  EXPECT_EQ(session_->stats().last_error, "");
  Request put = PutRequest(1, 4, /*inlined=*/true);
  put.set_activity("training step 12 in epoch 1/3");
  EXPECT_TRUE(Call(put, "abcd").ok());
  EXPECT_EQ(session_->stats().activity, "training step 12 in epoch 1/3");
  EXPECT_EQ(session_->stats().last_error, "");
  EXPECT_FALSE(Call(GetRequest(99)).ok());
  EXPECT_THAT(session_->stats().last_error, testing::AllOf(HasSubstr(" s ago: INVALID_ARGUMENT"),
                                                           HasSubstr("unknown handle 99")));
}

}  // namespace device_session_test
}  // namespace penstock::remote
