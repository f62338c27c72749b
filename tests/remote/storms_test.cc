// What strangers do to a worker's port, and its own clients to the worker, while it serves a training: the training goes
// on on its connections, the worker's memory stays as it is, and its log gets a line now and then.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include <openssl/ssl.h>
#include <sys/stat.h>

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/remote/client.h"
#include "penstock/remote/link/certificates.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/wire/wire_types.h"
#include "penstock/runtime/testing/test_device.h"

#include "tests/remote/http2_attacker.h"
#include "tests/remote/processes.h"
#include "tests/remote/small_training.h"

namespace penstock::tests {
namespace {

constexpr int64_t kMegabytes = 64;  // that a worker may hold more after a storm than before
constexpr int64_t kSessionMegabytes =
    64;  // besides, the allocator may keep what a session was allowed to hold

// Trains again and again in a session of its own until it is stopped.
class TrainingBeside {
 public:
  explicit TrainingBeside(remote::RemoteOptions options)
      : undisturbed_(TrainSmall(runtime::TestClient(1), {.epochs = 2, .verbose = 0})) {
    options.note = [this](absl::string_view line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      absl::StrAppend(&notes_, line, "\n");
    };
    auto client = remote::OpenRemoteClient(options);
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return;
    ExpectSameState(undisturbed_, TrainSmall(*client, {.epochs = 2, .verbose = 0}));
    thread_ = std::thread([this, client = *std::move(client)] {
      while (!ending_.load()) {
        ExpectSameState(undisturbed_, TrainSmall(client, {.epochs = 2, .verbose = 0}));
        ++trainings_;
      }
    });
  }
  // A whole training after the storm, too.
  ~TrainingBeside() {
    const int before = trainings_.load();
    while (thread_.joinable() && trainings_.load() < before + 2) std::this_thread::yield();
    ending_.store(true);
    if (thread_.joinable()) thread_.join();
    EXPECT_EQ(notes_, "");  // no connection was lost
  }

 private:
  const base::NamedArrays undisturbed_;
  std::mutex mutex_;
  std::string notes_;
  std::atomic<bool> ending_ = false;
  std::atomic<int> trainings_ = 0;
  std::thread thread_;
};

class StormsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0600);
    return path;
  }

  void StartPlain(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"--token-file", Write("token", "correct")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    worker_ = std::make_unique<WorkerProcess>(
        WorkerProcessOptions{.folder = folder_.path(), .arguments = arguments});
    options_ = {.address = worker_->address(), .token_file = folder_.path() + "/token"};
  }

  void StartTls() {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to connections that the worker has ended
    certificates_ = folder_.path() + "/certificates";
    ASSERT_TRUE(remote::MakeCertificates(certificates_, {"127.0.0.1"}).ok());
    worker_ = std::make_unique<WorkerProcess>(WorkerProcessOptions{
        .folder = folder_.path(),
        .arguments = {"--certificate", certificates_ + "/server.pem", "--key",
                      certificates_ + "/server.key", "--client-ca", certificates_ + "/ca.pem"},
        .tls = true});
    options_ = {.address = worker_->address(),
                .ca = certificates_ + "/ca.pem",
                .certificate = certificates_ + "/client.pem",
                .key = certificates_ + "/client.key"};
  }

  // Runs a storm beside a training, and compares what the worker holds.
  void Storm(const std::string& name, const std::function<void()>& attack) {
    StormOfClient(name, 0, attack);
  }
  // `allowed`: megabytes that the attack's own session may hold.
  void StormOfClient(const std::string& name, int64_t allowed,
                     const std::function<void()>& attack) {
    SCOPED_TRACE(name);
    const Held before = HeldBy(worker_->process().id());
    const size_t lines_before = Strangers();
    const auto begin = std::chrono::steady_clock::now();
    attack();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const Held after = HeldBy(worker_->process().id());
    const size_t lines = Strangers() - lines_before;
    std::printf("%-28s %5.2f s, memory %lld to %lld MB, threads %lld to %lld, %zu lines\n",
                name.c_str(), seconds, static_cast<long long>(before.megabytes),
                static_cast<long long>(after.megabytes), static_cast<long long>(before.threads),
                static_cast<long long>(after.threads), lines);
    EXPECT_TRUE(worker_->process().running());
    EXPECT_LE(after.megabytes, before.megabytes + kMegabytes + allowed);
    EXPECT_LE(lines, static_cast<size_t>(seconds / 2) + 1);
  }

  // Lines of the log about others than the session.
  size_t Strangers() const {
    size_t count = 0;
    for (const std::string& line : worker_->LogLines()) {
      count += absl::StrContains(line, "rejected a c") ||
               absl::StrContains(line, "closed a conn") || absl::StrContains(line, "cannot accept");
    }
    return count;
  }

  const TemporaryFolder folder_;
  std::string certificates_;
  std::unique_ptr<WorkerProcess> worker_;
  remote::RemoteOptions options_;
};

TEST_F(StormsTest, PlaintextWorkerBearsWrongAndBrokenClients) {
  StartPlain();
  const int port = worker_->port();
  const TrainingBeside training(options_);
  Storm("wrong token", [&] {
    const std::string wrong = Write("wrong", "incorrect");
    for (int i = 0; i < 30; ++i) {
      const auto client =
          remote::OpenRemoteClient({.address = worker_->address(), .token_file = wrong});
      EXPECT_TRUE(absl::IsUnauthenticated(client.status())) << client.status();
    }
  });
  Storm("port scan", [&] {
    for (int i = 0; i < 300; ++i) {
      Attacker scanner(port);
      if (i % 3 == 1) scanner.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      if (i % 3 == 2) scanner.Send(std::string("\x16\x03\x01\x02\x00\x01", 6));
    }
  });
  Storm("random bytes", [&] {
    base::Random random(1);
    for (int i = 0; i < 100; ++i) {
      std::string bytes(2000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random.Uniform() * 256);
      Attacker attacker(port);
      attacker.Send(i % 2 == 0 ? bytes : Http2Begin() + bytes);
    }
  });
  Storm("1,000 connections", [&] {
    std::vector<std::unique_ptr<Attacker>> attackers;
    for (int i = 0; i < 1000; ++i) {
      attackers.push_back(std::make_unique<Attacker>(port));
      if (i % 2 == 0) (void)attackers.back()->Send(Http2Begin());
    }
  });
}

// Each sends as much as it may, with and without reading what the worker answers.
TEST_F(StormsTest, PlaintextWorkerBearsFloodsOfFrames) {
  StartPlain();
  const int port = worker_->port();
  const TrainingBeside training(options_);
  const auto flood = [&](const std::string& name, const std::string& begin,
                         const std::function<std::string(int)>& piece, int count) {
    for (const bool reads : {true, false}) {
      Storm(absl::StrCat(name, reads ? "" : ", deaf"), [&] {
        Attacker attacker(port);
        if (attacker.Send(Http2Begin() + begin)) (void)attacker.Flood(piece, count, reads);
      });
    }
  };
  const auto stream = [](int i) { return static_cast<uint32_t>(2 * i + 1); };
  const std::string call = CallHeaders();
  flood(
      "rapid reset", "",
      [&](int i) {
        return Http2Frame(kHeaders, kEndHeaders, stream(i), call) +
               Http2Frame(kResetStream, 0, stream(i), std::string("\0\0\0\x08", 4));
      },
      20000);
  flood(
      "many streams", "", [&](int i) { return Http2Frame(kHeaders, kEndHeaders, stream(i), call); },
      20000);
  flood(
      "settings", "", [](int) { return Http2Frame(kSettings, 0, 0, ""); }, 200000);
  flood(
      "settings with values", "",
      [](int i) {
        return Http2Frame(kSettings, 0, 0,
                          std::string("\0\x04\0\0", 4) + static_cast<char>(i % 100) + '\x10');
      },
      100000);
  flood(
      "pings", "", [](int) { return Http2Frame(kPing, 0, 0, "12345678"); }, 200000);
  flood(
      "priorities", "",
      [&](int i) { return Http2Frame(kPriority, 0, stream(i), std::string("\0\0\0\0\x10", 5)); },
      100000);
  flood(
      "window updates", "",
      [](int) { return Http2Frame(kWindowUpdate, 0, 0, std::string("\x7f\xff\xff\xff", 4)); },
      10000);
  const std::string value(8000, 'v');
  flood(
      "huge headers", Http2Frame(kHeaders, 0, 1, call),
      [&](int i) {
        return Http2Frame(kContinuation, 0, 1, LiteralHeader(absl::StrCat("x-", i), value, false));
      },
      4000);
  flood(
      "one huge header",
      Http2Frame(kHeaders, 0, 1, call + std::string("\0\x01x\x7f\x80\x80\x80\x20", 8)),
      [&](int) { return Http2Frame(kContinuation, 0, 1, value); }, 4000);
  flood(
      "empty continuations", Http2Frame(kHeaders, 0, 1, call),
      [](int) { return Http2Frame(kContinuation, 0, 1, ""); }, 200000);
  // One entry of the dynamic table, named again and again.
  const std::string bomb =
      LiteralHeader("x", std::string(3900, 'b'), true) + std::string(12000, '\xbe');
  flood(
      "compressed headers", "",
      [&](int i) { return Http2Frame(kHeaders, kEndHeaders, stream(i), call + bomb); }, 500);
  flood(
      "empty data", Http2Frame(kHeaders, kEndHeaders, 1, call),
      [](int) { return Http2Frame(kData, 0, 1, ""); }, 200000);
  flood(
      "a message of 4 GiB",
      Http2Frame(kHeaders, kEndHeaders, 1, call) +
          Http2Frame(kData, 0, 1, std::string("\0\xff\xff\xff\xff", 5)),
      [&](int) { return Http2Frame(kData, 0, 1, value); }, 4000);
  flood(
      "a frame of 16 MiB", Http2Frame(kHeaders, kEndHeaders, 1, call),
      [&](int) { return Http2Frame(kData, 0, 1, value, 0xffffff); }, 4000);
  flood(
      "data for no stream", "", [&](int i) { return Http2Frame(kData, 0, stream(i), value); },
      4000);
}

// A client with credentials that sends what it likes on the links of a session, and drops what comes.
class RawSession {
 public:
  // Waits until the devices of the one before are free.
  explicit RawSession(const remote::RemoteOptions& options) {
    for (;;) {
      auto links = remote::ConnectLinks(options, {.control = &control_, .bulk = &bulk_});
      if (links.ok()) {
        links_ = *std::move(links);
        return;
      }
      PENSTOCK_CHECK(absl::IsResourceExhausted(links.status()));
    }
  }
  ~RawSession() { links_ = nullptr; }

  // False when the worker has ended the session.
  bool Send(remote::Request request, const std::string& payload = "") {
    request.set_id(next_++);
    remote::ControlMessage message;
    *message.mutable_request() = std::move(request);
    return SendOn(links_->control(), message.SerializeAsString(), payload);
  }
  bool SendChunk(uint64_t id, int64_t total, const std::string& bytes) {
    remote::Chunk chunk;
    chunk.set_id(id);
    chunk.set_total(total);
    return SendOn(links_->bulk(), chunk.SerializeAsString(), bytes);
  }
  // Waits for the replies to all requests, or the end of the session.
  void AwaitReplies() { control_.Await(next_ - 1); }
  std::string LastError() { return control_.last_error(); }

 private:
  class Counter : public remote::LinkReceiver {
   public:
    void OnMessage(remote::Message message) override {
      remote::ControlMessage parsed;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (parsed.ParseFromString(message.header) && parsed.reply().status().code() != 0) {
        error_ = parsed.reply().status().message();
      }
      ++count_;
      changed_.notify_all();
    }
    void OnClosed(const absl::Status& reason) override {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
      error_ = std::string(reason.message());
      changed_.notify_all();
    }
    void Await(uint64_t count) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || count_ >= count; });
    }
    std::string last_error() {
      const std::lock_guard<std::mutex> lock(mutex_);
      return error_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    uint64_t count_ = 0;
    bool closed_ = false;
    std::string error_;
  };

  static bool SendOn(remote::Link& link, std::string header, const std::string& payload) {
    remote::Message message{.header = std::move(header)};
    if (!payload.empty()) {
      const auto owner = std::make_shared<const std::string>(payload);
      message.payload = {{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()}};
    }
    return link.Send(std::move(message)).ok();
  }

  Counter control_, bulk_;
  uint64_t next_ = 1;
  std::unique_ptr<remote::SessionLinks> links_;
};

remote::Request CompileRequest(uint64_t handle, const std::string& text) {
  ir::Program program;
  program.name = absl::StrCat("flood_", handle);
  program.text = text;
  program.parameters = program.results = {{base::DType::kF32, {4}}};
  remote::Request request;
  request.mutable_compile()->set_executable(handle);
  *request.mutable_compile()->mutable_program() = remote::ToMessage(program);
  request.mutable_compile()->add_devices(0);
  return request;
}

// Clients that may use the worker, on devices of their own, beside a training.
TEST_F(StormsTest, SharedWorkerBearsFloodsOfItsClients) {
  StartPlain({"--share", "--cpu-devices", "2", "--max-session-bytes",
              absl::StrCat(kSessionMegabytes, "MiB")});
  options_.devices = 1;
  const TrainingBeside training(options_);
  StormOfClient("compile requests", kSessionMegabytes, [&] {
    RawSession session(options_);
    for (uint64_t i = 1; i <= 10000; ++i) {
      const std::string text = absl::StrCat(
          "module @flood_", i,
          " { func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> } }");
      if (!session.Send(CompileRequest(i, text))) break;
    }
  });
  StormOfClient("huge programs", kSessionMegabytes, [&] {
    RawSession session(options_);
    const std::string many(size_t{8} << 20, '%');
    std::string deep = "module { func.func @main(%a: ";
    for (int i = 0; i < 200000; ++i) deep += "tuple<";
    for (uint64_t i = 1; i <= 3; ++i) {
      (void)session.Send(CompileRequest(2 * i, many));
      (void)session.Send(CompileRequest(2 * i + 1, deep));
    }
    session.AwaitReplies();
    EXPECT_NE(session.LastError(), "");
  });
  StormOfClient("100,000 handles", kSessionMegabytes, [&] {
    RawSession session(options_);
    uint64_t handle = 0;
    for (int i = 0; i < 100; ++i) {
      remote::Request request;
      for (int k = 0; k < 1000; ++k) {
        remote::Put::Tensor& tensor = *request.mutable_put()->add_tensors();
        tensor.set_buffer(++handle);
        *tensor.mutable_type() = remote::ToMessage(ir::TensorType{base::DType::kF32, {}});
        tensor.set_inlined(true);
      }
      if (!session.Send(request, std::string(4000, 'x'))) break;
    }
    session.AwaitReplies();
  });
  StormOfClient("uploads never finished", kSessionMegabytes, [&] {
    RawSession session(options_);
    for (uint64_t i = 1; session.SendChunk(i, int64_t{1} << 30, "x"); ++i) {
    }
    session.AwaitReplies();
  });
  Storm("sessions", [&] {
    for (int i = 0; i < 50; ++i) RawSession session(options_);
  });
  Storm("questions", [&] {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(remote::DescribeWorker(options_).ok());
      remote::TrainingRequest request;
      request.mutable_follow()->set_training("00000000");
      EXPECT_FALSE(remote::CallTraining(options_, request).ok());
    }
  });
  Storm("watchers of health", [&] {
    std::vector<std::unique_ptr<Attacker>> attackers;
    const std::string call = CallHeaders("/grpc.health.v1.Health/Watch");
    for (int i = 0; i < 100; ++i) {
      attackers.push_back(std::make_unique<Attacker>(worker_->port()));
      std::string calls = Http2Begin();
      for (uint32_t stream = 1; stream < 32; stream += 2) {
        calls += Http2Frame(kHeaders, kEndHeaders, stream, call) +
                 Http2Frame(kData, kEndStream, stream, std::string(5, '\0'));
      }
      (void)attackers.back()->Send(calls);
    }
  });
}

// A TLS connection to a worker; the client's own certificate is optional.
class TlsAttacker {
 public:
  TlsAttacker(int port, const std::string& certificates, bool with_certificate)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
    SSL_CTX_set_max_proto_version(context_.get(),
                                  TLS1_2_VERSION);  // the last one that renegotiates
    const unsigned char protocol[] = "\x02h2";
    SSL_CTX_set_alpn_protos(context_.get(), protocol, 3);
    if (with_certificate) {
      EXPECT_EQ(SSL_CTX_use_certificate_file(context_.get(), (certificates + "/client.pem").c_str(),
                                             SSL_FILETYPE_PEM),
                1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context_.get(), (certificates + "/client.key").c_str(),
                                            SSL_FILETYPE_PEM),
                1);
    }
    tls_.reset(SSL_new(context_.get()));
    connection_ = std::make_unique<Attacker>(port);
    SSL_set_fd(tls_.get(), connection_->fd());
  }
  bool Handshake() { return SSL_connect(tls_.get()) == 1; }
  bool Send(const std::string& bytes) {
    return SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // Asks for another handshake; true if the worker does it.
  bool Renegotiate() {
    if (SSL_renegotiate(tls_.get()) != 1) return false;
    char byte;
    const bool done = SSL_do_handshake(tls_.get()) == 1;
    return done && SSL_renegotiate_pending(tls_.get()) == 0 && SSL_peek(tls_.get(), &byte, 1) >= 0;
  }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<Attacker> connection_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_{nullptr, SSL_free};
};

TEST_F(StormsTest, TlsWorkerBearsWrongCertificatesAndHandshakes) {
  StartTls();
  const int port = worker_->port();
  const TrainingBeside training(options_);
  const std::string others = folder_.path() + "/others";
  ASSERT_TRUE(remote::MakeCertificates(others, {"127.0.0.1"}).ok());
  Storm("wrong certificate", [&] {
    for (int i = 0; i < 10; ++i) {
      remote::RemoteOptions wrong = options_;
      wrong.certificate = others + "/client.pem";
      wrong.key = others + "/client.key";
      wrong.connect_seconds = 0.05;
      EXPECT_FALSE(remote::OpenRemoteClient(wrong).ok());
    }
  });
  Storm("no certificate", [&] {
    for (int i = 0; i < 30; ++i) {
      TlsAttacker attacker(port, certificates_, false);
      EXPECT_FALSE(attacker.Handshake() && attacker.Renegotiate());
    }
  });
  Storm("renegotiation", [&] {
    for (int i = 0; i < 30; ++i) {
      TlsAttacker attacker(port, certificates_, true);
      ASSERT_TRUE(attacker.Handshake());
      ASSERT_TRUE(attacker.Send(Http2Begin()));
      int done = 0;
      while (done < 100 && attacker.Renegotiate()) ++done;
      EXPECT_EQ(done, 0);
    }
  });
  Storm("handshakes", [&] {
    for (int i = 0; i < 30; ++i) EXPECT_TRUE(TlsAttacker(port, certificates_, true).Handshake());
  });
  Storm("garbage after a handshake", [&] {
    const std::string garbage(16000, '\xa7');
    for (const bool begins : {false, true}) {
      TlsAttacker attacker(port, certificates_, true);
      ASSERT_TRUE(attacker.Handshake());
      if (begins) (void)attacker.Send(Http2Begin());
      for (int i = 0; i < 1000 && attacker.Send(garbage); ++i) {
      }
    }
  });
  Storm("a handshake without an end", [&] {
    // A ClientHello of 16 MiB, in records of 16 KiB.
    const std::string record = std::string("\x16\x03\x01\x40\0", 5) + std::string(16384, '\x03');
    for (int i = 0; i < 10; ++i) {
      Attacker attacker(port);
      (void)attacker.Send(std::string("\x16\x03\x01\0\x06\x01\xff\xff\xff\x03\x03", 11));
      (void)attacker.Flood([&](int) { return record; }, 1000);
    }
  });
  Storm("handshakes byte by byte", [&] {
    const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    std::vector<std::unique_ptr<Attacker>> attackers;
    for (int i = 0; i < 100; ++i) attackers.push_back(std::make_unique<Attacker>(port));
    for (size_t at = 0; at < hello.size(); ++at) {
      for (const auto& attacker : attackers) (void)attacker->Send(hello.substr(at, 1));
    }
  });
  Storm("half a handshake", [&] {
    std::vector<std::unique_ptr<Attacker>> attackers;
    for (int i = 0; i < 400; ++i) {
      attackers.push_back(std::make_unique<Attacker>(port));
      (void)attackers.back()->Send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
    }
  });
  Storm("random bytes", [&] {
    base::Random random(1);
    for (int i = 0; i < 200; ++i) {
      std::string bytes = std::string("\x16\x03\x01", 3) + std::string(600, '\0');
      for (size_t at = 3; at < bytes.size(); ++at) {
        bytes[at] = static_cast<char>(random.Uniform() * 256);
      }
      Attacker attacker(port);
      attacker.Send(bytes);
    }
  });
}

}  // namespace
}  // namespace penstock::tests
