// Random requests, and the chunks of their uploads whenever they come, against a model that executes the requests one
// after another: the replies and what the session holds are the same. PENSTOCK_SEED repeats a run.
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/remote/protocol.pb.h"
#include "penstock/remote/testing/fake_client.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/remote/worker/device_session.h"

namespace penstock::remote {
namespace device_session_random_test {

// The bytes of a reply, or the code of its error.
struct Outcome {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string bytes = {};
  bool operator==(const Outcome& other) const { return code == other.code && bytes == other.bytes; }
};

// Collects replies by the ids of their requests, of both links.
class Replies {
 public:
  class End : public Link {
   public:
    End(Replies* replies, bool bulk) : replies_(replies), bulk_(bulk) {}
    absl::Status Send(Message message) override { return Post(std::move(message)); }
    absl::Status Post(Message message) override {
      replies_->Take(message, bulk_);
      return absl::OkStatus();
    }
    void Close(const absl::Status& reason) override {
      const std::lock_guard<std::mutex> lock(replies_->mutex_);
      replies_->closed_ = reason;
      replies_->changed_.notify_all();
    }
    Stats stats() const override { return {}; }

   private:
    Replies* const replies_;
    const bool bulk_;
  };

  End control{this, false}, bulk{this, true};

  // OK and no bytes if the session was closed: then the test fails.
  Outcome WaitFor(uint64_t id) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return done_.count(id) > 0 || closed_.has_value(); });
    EXPECT_FALSE(closed_.has_value()) << *closed_;
    return done_[id];
  }

 private:
  void Take(const Message& message, bool bulk) {
    std::string bytes(message.payload_bytes(), '\0');
    CopyPayload(message.payload, reinterpret_cast<std::byte*>(bytes.data()));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bulk) {
      Chunk chunk;
      ASSERT_TRUE(chunk.ParseFromString(message.header));
      std::string& all = chunks_[chunk.id()];
      ASSERT_EQ(chunk.offset(), static_cast<int64_t>(all.size()));
      all += bytes;
      if (static_cast<int64_t>(all.size()) == chunk.total()) done_[chunk.id()].bytes = all;
    } else {
      ControlMessage parsed;
      ASSERT_TRUE(parsed.ParseFromString(message.header));
      const Reply& reply = parsed.reply();
      EXPECT_EQ(done_.count(reply.id()), 0u) << "two replies to request " << reply.id();
      done_[reply.id()] = {FromMessage(reply.status()).code(), bytes};
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Outcome> done_;
  std::map<uint64_t, std::string> chunks_;
  std::optional<absl::Status> closed_;
};

// What a session should hold, by its documentation.
class Model {
 public:
  struct Program {
    bool donates = false;
  };
  using Buffer = Outcome;  // its bytes, or the error that its users get
  static constexpr size_t kProgramBytes = 4;

  bool IsFree(uint64_t handle) const {
    return handle != 0 && buffers.count(handle) == 0 && programs.count(handle) == 0;
  }
  Outcome Delete(const std::vector<uint64_t>& handles) {
    for (const uint64_t handle : handles) {
      if (buffers.erase(handle) + programs.erase(handle) == 0) return kInvalid;
    }
    return {};
  }
  Outcome Get(uint64_t handle) const {
    const auto found = buffers.find(handle);
    return found == buffers.end() ? kInvalid : found->second;
  }
  Outcome Execute(uint64_t program, uint64_t argument, uint64_t result) {
    if (!IsFree(result)) return kInvalid;
    const auto found = programs.find(program);
    Outcome outcome = kInvalid;
    if (found != programs.end()) {
      outcome = Get(argument);
      if (outcome.code == absl::StatusCode::kOk && outcome.bytes.size() != kProgramBytes) {
        outcome = kInvalid;  // another type
      }
      if (found->second.donates) buffers.erase(argument);
    }
    if (outcome.code == absl::StatusCode::kOk) outcome.bytes = std::string(kProgramBytes, '\0');
    buffers[result] = outcome;
    return {outcome.code, ""};
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [handle, buffer] : buffers) sum += static_cast<int64_t>(buffer.bytes.size());
    return sum;
  }

  static inline const Outcome kInvalid = {absl::StatusCode::kInvalidArgument, ""};
  std::map<uint64_t, Buffer> buffers;
  std::map<uint64_t, Program> programs;
};

class RandomRun {
 public:
  explicit RandomRun(uint64_t seed) : random_(seed) {
    session_.Attach(&replies_.control, &replies_.bulk);
  }
  ~RandomRun() {
    session_.control_receiver()->OnClosed(absl::OkStatus());
    session_.bulk_receiver()->OnClosed(absl::OkStatus());
  }

  void Step() {
    if (!chunks_.empty() && Below(2) == 0) return SendChunk();
    switch (Below(6)) {
      case 0:
      case 1:
        return Put();
      case 2:
        return Get();
      case 3:
        return Below(4) == 0 ? Compile() : Execute();
      case 4:
        return Delete();
      default:
        return Await();
    }
  }

  void Finish() {
    while (!chunks_.empty()) SendChunk();
    for (const auto& [id, expected] : expected_) {
      const Outcome got = replies_.WaitFor(id);
      EXPECT_EQ(got.code, expected.code) << "request " << id << ": " << what_[id];
      EXPECT_TRUE(got.bytes == expected.bytes) << "request " << id << ": " << what_[id];
    }
    const SessionStats stats = session_.stats();
    EXPECT_EQ(stats.buffers, static_cast<int64_t>(model_.buffers.size()));
    EXPECT_EQ(stats.programs, static_cast<int64_t>(model_.programs.size()));
    EXPECT_EQ(stats.buffer_bytes, model_.bytes());
  }

 private:
  int64_t Below(int64_t limit) { return static_cast<int64_t>(random_.Uniform() * limit); }
  // One that exists mostly, and otherwise one that may.
  uint64_t Known() { return static_cast<uint64_t>(Below(static_cast<int64_t>(next_) + 1)); }
  template <typename Map>
  uint64_t KnownOf(const Map& map) {
    if (map.empty() || Below(5) == 0) return Known();
    return std::next(map.begin(), Below(static_cast<int64_t>(map.size())))->first;
  }
  // Mostly one that was never used. Never one that was freed: a handle is used once.
  uint64_t New() {
    const uint64_t known = Known();
    return Below(12) == 0 && !model_.IsFree(known) ? known : next_++;
  }

  void Send(Request request, const Outcome& expected, const std::string& what,
            const std::string& payload = "") {
    const uint64_t id = 1'000'000 + next_request_++;
    request.set_id(id);
    request.set_kind(Below(2) == 0 ? 0 : static_cast<uint32_t>(request.body_case()));
    expected_[id] = expected;
    what_[id] = what;
    ControlMessage message;
    *message.mutable_request() = std::move(request);
    session_.control_receiver()->OnMessage(
        {.header = message.SerializeAsString(), .payload = Payload(payload)});
  }
  static std::vector<Slice> Payload(const std::string& bytes) {
    const auto owner = std::make_shared<const std::string>(bytes);
    return {{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()}};
  }

  void Put() {
    const uint64_t handle = New();
    // Some are of the programs' type, some larger than what a reply may hold.
    const int64_t size = Below(3) == 0    ? Model::kProgramBytes
                         : Below(20) == 0 ? 70'000
                                          : 1 + Below(9);
    std::string bytes;
    for (int64_t i = 0; i < size; ++i) bytes += static_cast<char>(Below(256));
    const bool inlined = size < 100 && Below(2) == 0;
    Request request;
    Put::Tensor& tensor = *request.mutable_put()->add_tensors();
    tensor.set_buffer(handle);
    *tensor.mutable_type() = ToMessage(ir::TensorType{base::DType::kU8, {size}});
    tensor.set_inlined(inlined);
    const bool is_free = model_.IsFree(handle);
    if (is_free) model_.buffers[handle] = {absl::StatusCode::kOk, bytes};
    if (is_free && !inlined) {
      // Sometimes it begins before its message.
      AddChunks(handle, bytes);
      if (Below(3) == 0) SendChunk();
    }
    Send(std::move(request), is_free ? Outcome() : Model::kInvalid,
         absl::StrCat("put ", handle, inlined ? "" : " in chunks"), inlined ? bytes : "");
  }
  void AddChunks(uint64_t handle, const std::string& bytes) {
    std::deque<Message> parts;
    for (size_t offset = 0; offset < bytes.size();) {
      const auto size = static_cast<size_t>(1 + Below(static_cast<int64_t>(bytes.size() - offset)));
      Chunk chunk;
      chunk.set_id(handle);
      chunk.set_offset(static_cast<int64_t>(offset));
      chunk.set_total(static_cast<int64_t>(bytes.size()));
      parts.push_back(
          {.header = chunk.SerializeAsString(), .payload = Payload(bytes.substr(offset, size))});
      offset += size;
    }
    chunks_.push_back(std::move(parts));
  }
  // The next one of any upload.
  void SendChunk() {
    const auto upload = std::next(chunks_.begin(), Below(static_cast<int64_t>(chunks_.size())));
    session_.bulk_receiver()->OnMessage(std::move(upload->front()));
    upload->pop_front();
    if (upload->empty()) chunks_.erase(upload);
  }
  void Get() {
    const uint64_t handle = KnownOf(model_.buffers);
    Request request;
    request.mutable_get()->set_buffer(handle);
    Send(std::move(request), model_.Get(handle), absl::StrCat("get ", handle));
  }
  void Await() {
    const uint64_t handle = KnownOf(model_.buffers);
    Request request;
    request.mutable_await()->set_buffer(handle);
    Send(std::move(request), {model_.Get(handle).code, ""}, absl::StrCat("await ", handle));
  }
  void Delete() {
    std::vector<uint64_t> handles;
    Request request;
    for (int64_t i = Below(3); i >= 0; --i) {
      handles.push_back(Below(8) == 0 ? KnownOf(model_.programs) : KnownOf(model_.buffers));
      request.add_delete_(handles.back());
    }
    const Outcome outcome = model_.Delete(handles);
    Send(std::move(request), outcome, absl::StrCat("delete ", handles.size()));
  }
  void Execute() {
    const uint64_t program = KnownOf(model_.programs), argument = KnownOf(model_.buffers),
                   result = New();
    Request request;
    request.mutable_execute()->set_executable(program);
    request.mutable_execute()->add_arguments(argument);
    request.mutable_execute()->add_results(result);
    const Outcome outcome = model_.Execute(program, argument, result);
    Send(std::move(request), outcome, absl::StrCat("execute ", program, " of ", argument));
  }
  // Nothing waits for a compile but its client, so this one waits.
  void Compile() {
    while (!chunks_.empty()) SendChunk();
    const uint64_t handle = New();
    const bool donates = Below(2) == 0, is_free = model_.IsFree(handle);
    ir::Program program;
    program.name = "step";
    program.text = "module {}";
    program.parameters =
        program.results = {{base::DType::kU8, {static_cast<int64_t>(Model::kProgramBytes)}}};
    if (donates) program.alias = {0};
    Request request;
    request.mutable_compile()->set_executable(handle);
    *request.mutable_compile()->mutable_program() = ToMessage(program);
    request.mutable_compile()->add_devices(0);
    if (is_free) model_.programs[handle] = {.donates = donates};
    Send(std::move(request), is_free ? Outcome() : Model::kInvalid,
         absl::StrCat("compile ", handle));
    replies_.WaitFor(1'000'000 + next_request_ - 1);
  }

  base::Random random_;
  Replies replies_;
  DeviceSession session_{std::make_shared<FakeClient>(), {}};
  Model model_;
  std::vector<std::deque<Message>> chunks_;  // of each upload that has some left
  std::map<uint64_t, Outcome> expected_;
  std::map<uint64_t, std::string> what_;
  uint64_t next_ = 1, next_request_ = 1;
};

TEST(DeviceSessionRandom, RepliesAsIfRequestsWereExecutedOneAfterAnother) {
  const char* const given = std::getenv("PENSTOCK_SEED");
  const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : base::EntropySeed();
  const int runs = given != nullptr ? 1 : 40;
  for (int i = 0; i < runs && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("PENSTOCK_SEED=", first + static_cast<uint64_t>(i)));
    RandomRun run(first + static_cast<uint64_t>(i));
    for (int step = 0; step < 300; ++step) run.Step();
    run.Finish();
  }
}

}  // namespace device_session_random_test
}  // namespace penstock::remote
