// Who may use a worker, and what strangers can do to it: nothing, while a session goes on undisturbed.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/remote/link/certificates.h"
#include "penstock/remote/link/credentials.h"
#include "penstock/remote/link/frame.h"
#include "penstock/remote/link/identity.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/link/link_server.h"
#include "penstock/remote/link/listener.h"
#include "penstock/remote/link/stream.h"
#include "penstock/remote/testing/link_sessions.h"

namespace penstock::remote {
namespace security_test {

using testing::AllOf;
using testing::HasSubstr;

// More than a test may take: an error comes before.
constexpr double kForever = 10000;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/penstock_security_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return absl::StrCat(path_, "/", name); }
  std::string Write(const std::string& name, const std::string& text, mode_t mode) const {
    std::ofstream(File(name)) << text;
    chmod(File(name).c_str(), mode);
    return File(name);
  }

 private:
  std::string path_;
};

std::string BytesIn(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

// Sends bytes on a new connection and waits until the server has closed it.
void ExpectClosed(int port, const std::string& bytes) {
  const int fd = ConnectTo(port);
  (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  char buffer[256];
  while (recv(fd, buffer, sizeof(buffer), 0) > 0) continue;
  close(fd);
}

struct Session {
  RecordingReceiver control, bulk;
  std::unique_ptr<SessionLinks> links;
};

absl::StatusOr<std::unique_ptr<Session>> Open(RemoteOptions options) {
  if (options.connect_seconds > 5 && options.connect_seconds < kForever) {
    options.connect_seconds = 5;
  }
  options.note = [](absl::string_view) {};
  auto session = std::make_unique<Session>();
  PENSTOCK_ASSIGN_OR_RETURN(session->links, ConnectLinks(options, {.control = &session->control,
                                                                   .bulk = &session->bulk}));
  return session;
}

void ExpectWorks(Session& session) {
  const size_t before = session.control.messages().size();
  ASSERT_TRUE(session.links->control().Send({.header = "still here"}).ok());
  EXPECT_EQ(session.control.WaitForMessages(before + 1).back(), "echo still here|");
  EXPECT_EQ(session.links->control().stats().reconnects, 0);
}

class LinkSecurity : public testing::Test {
 protected:
  absl::Status Start(LinkServerOptions options) {
    if (options.listen == LinkServerOptions().listen) options.listen = "127.0.0.1:0";
    options.log = log_.function();
    PENSTOCK_ASSIGN_OR_RETURN(server_, LinkServer::Start(options, &handler_));
    return absl::OkStatus();
  }
  std::string Address(bool tls = false) const {
    return absl::StrCat(tls ? "grpcs://" : "grpc://", server_->address());
  }
  int port() const { return PortOf(server_->address()); }

  TemporaryFolder folder_;
  LogLines log_;
  EchoHandler handler_;
  std::unique_ptr<LinkServer> server_;
};

TEST_F(LinkSecurity, RefusesPlaintextOnOtherAddressesThanLoopback) {
  const absl::Status status = Start({.listen = "0.0.0.0:0"});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "plaintext is for loopback only")) << status;
}

TEST_F(LinkSecurity, RefusesToListenToOthersWithoutAuthentication) {
  ASSERT_TRUE(MakeCertificates(folder_.File("c"), {"localhost"}).ok());
  const absl::Status status = Start({.listen = "0.0.0.0:0",
                                     .certificate = folder_.File("c/server.pem"),
                                     .key = folder_.File("c/server.key")});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "without authentication")) << status;
}

TEST_F(LinkSecurity, UsesTlsForAddressesThatAreNotLoopback) {
  EXPECT_TRUE(ParseEndpoint("grpc://203.0.113.7:8470")->secure);
  EXPECT_TRUE(ParseEndpoint("grpcs://127.0.0.1:8470")->secure);
  EXPECT_FALSE(ParseEndpoint("grpc://127.0.0.1:8470")->secure);
  EXPECT_FALSE(ParseEndpoint("grpc://[::1]:8470")->secure);
  for (const char* bad : {"tpu1:8470", "grpc://tpu1", "grpc://:1", "grpc://a:b", "grpc://a:70000",
                          "grpc://::1:80", "http://a:1", "grpc://a/b:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEndpoint(bad).status())) << bad;
  }
}

TEST_F(LinkSecurity, ChecksTheToken) {
  ASSERT_TRUE(Start({.token = "correct-horse"}).ok());
  const auto good =
      Open({.address = Address(), .token_file = folder_.Write("good", "correct-horse\n", 0600)});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(handler_.session(0).peer.identity, "token");
  const auto wrong =
      Open({.address = Address(), .token_file = folder_.Write("wrong", "correct-house\n", 0600)});
  EXPECT_TRUE(absl::IsUnauthenticated(wrong.status())) << wrong.status();
  EXPECT_TRUE(absl::IsUnauthenticated(Open({.address = Address()}).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(DescribeWorker({.address = Address()}).status()));
  EXPECT_TRUE(absl::StrContains(log_.WaitFor("rejected a client"), "wrong bearer token"));
  EXPECT_EQ(handler_.opened(), 1);
  ExpectWorks(**good);
}

TEST_F(LinkSecurity, RefusesTokenFilesThatOthersMayRead) {
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadToken(folder_.Write("open", "x", 0644)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadToken(folder_.Write("empty", "\n", 0600)).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ReadToken(folder_.Write("two", "a b", 0600)).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadToken(folder_.File("none")).status()));
  EXPECT_EQ(*ReadToken(folder_.Write("good", " abc \n", 0600)), "abc");
}

TEST_F(LinkSecurity, ConnectsByCertificatesOfBothSides) {
  const std::string dir = folder_.File("c"), other = folder_.File("other");
  ASSERT_TRUE(MakeCertificates(dir, {"127.0.0.1", "localhost"}).ok());
  ASSERT_TRUE(MakeCertificates(other, {"127.0.0.1"}).ok());
  ASSERT_TRUE(Start({.certificate = dir + "/server.pem",
                     .key = dir + "/server.key",
                     .client_ca = dir + "/ca.pem"})
                  .ok());
  const auto good = Open({.address = Address(true),
                          .ca = dir + "/ca.pem",
                          .certificate = dir + "/client.pem",
                          .key = dir + "/client.key"});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(handler_.session(0).peer.identity, "certificate penstock client");
  // The worker's certificate is of another authority.
  const auto stranger = Open({.address = Address(true),
                              .ca = other + "/ca.pem",
                              .certificate = dir + "/client.pem",
                              .key = dir + "/client.key"});
  EXPECT_TRUE(absl::IsUnauthenticated(stranger.status())) << stranger.status();
  // The client's is, and there is none: the worker says so at once.
  const auto wrong = Open({.address = Address(true),
                           .ca = dir + "/ca.pem",
                           .certificate = other + "/client.pem",
                           .key = other + "/client.key",
                           .connect_seconds = kForever});
  EXPECT_TRUE(absl::IsUnauthenticated(wrong.status())) << wrong.status();
  EXPECT_TRUE(absl::StrContains(wrong.status().message(), "--client-ca has signed"))
      << wrong.status();
  const auto none =
      Open({.address = Address(true), .ca = dir + "/ca.pem", .connect_seconds = kForever});
  EXPECT_TRUE(absl::IsUnauthenticated(none.status())) << none.status();
  EXPECT_TRUE(absl::StrContains(none.status().message(), "needs a client certificate"))
      << none.status();
  // A worker's certificate is none for clients, although the authority has signed it.
  const auto purpose = Open({.address = Address(true),
                             .ca = dir + "/ca.pem",
                             .certificate = dir + "/server.pem",
                             .key = dir + "/server.key",
                             .connect_seconds = kForever});
  EXPECT_TRUE(absl::IsUnauthenticated(purpose.status())) << purpose.status();
  for (const auto& status :
       {DescribeWorker({.address = Address(true), .ca = dir + "/ca.pem"}).status(),
        DescribeWorker({.address = Address(true),
        .ca = dir + "/ca.pem",
        .certificate = other + "/client.pem",
        .key = other + "/client.key"})
            .status()}) {
    EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  }
  EXPECT_EQ(handler_.opened(), 1);
  ExpectWorks(**good);
}

TEST_F(LinkSecurity, MakesCertificatesOnce) {
  const std::string dir = folder_.File("c");
  EXPECT_TRUE(absl::IsInvalidArgument(MakeCertificates(dir, {})));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeCertificates(dir, {"a,IP:1.2.3.4"})));
  ASSERT_TRUE(MakeCertificates(dir, {"tpu1", "10.0.0.7", "::1"}).ok());
  for (const char* key : {"ca.key", "server.key", "client.key"}) {
    struct stat info = {};
    ASSERT_EQ(stat(absl::StrCat(dir, "/", key).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  EXPECT_TRUE(absl::IsAlreadyExists(MakeCertificates(dir, {"tpu1"})));
}

// gRPC says these in every handshake, when clients come, and without the name of the file.
TEST_F(LinkSecurity, SaysAtTheStartWhichCertificateFileIsWrong) {
  const std::string a = folder_.File("a"), b = folder_.File("b");
  ASSERT_TRUE(MakeCertificates(a, {"localhost"}).ok());
  ASSERT_TRUE(MakeCertificates(b, {"localhost"}).ok());
  const std::string cut = folder_.Write("cut.pem", BytesIn(a + "/server.pem").substr(0, 100), 0600);
  const std::string half = folder_.Write(
      "half.pem", BytesIn(a + "/server.pem") + BytesIn(a + "/ca.pem").substr(0, 300), 0600);
  const std::string turned =
      folder_.Write("turned.pem", BytesIn(a + "/server.pem") + BytesIn(b + "/ca.pem"), 0600);
  const std::string cut_key =
      folder_.Write("cut.key", BytesIn(a + "/server.key").substr(0, 100), 0600);
  ASSERT_EQ(mkfifo(folder_.File("fifo").c_str(), 0600), 0);
  const std::string server = a + "/server.pem", key = a + "/server.key";
  struct Case {
    std::string certificate, key, client_ca, names, says;
  };
  for (const Case& wrong : std::vector<Case>{
           {cut, key, "", cut, "is damaged or cut short (100 bytes)"},
           {half, key, "", half, "is damaged or cut short"},
           {turned, key, "", turned, "has not signed"},
           {server, cut_key, "", cut_key, "--new-certificates"},
           {server, b + "/server.key", "", b + "/server.key", "is not the key of " + server},
           {server, key, cut, cut, "is damaged or cut short"},
           {server, key, b + "/ca.pem", b + "/ca.pem", "has not signed " + server},
           {server, key, key, key, "contains no certificate"},
           {folder_.File("fifo"), key, "", folder_.File("fifo"), "is empty"},
           {server, a, "", a, "Is a directory"}}) {
    const absl::Status status =
        Start({.certificate = wrong.certificate, .key = wrong.key, .client_ca = wrong.client_ca});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(wrong.names), HasSubstr(wrong.says)));
  }
  EXPECT_TRUE(Start({.certificate = server, .key = key, .client_ca = a + "/ca.pem"}).ok());
}

TEST_F(LinkSecurity, CertificatesAreValidForATime) {
  const std::string dir = folder_.File("c");
  ASSERT_TRUE(MakeCertificates(dir, {"localhost"}).ok());
  const IdentityFiles server{.certificate_file = dir + "/server.pem",
                             .certificate = BytesIn(dir + "/server.pem"),
                             .key_file = dir + "/server.key",
                             .key = BytesIn(dir + "/server.key")};
  const std::string ca = BytesIn(dir + "/ca.pem");
  const int64_t now = std::time(nullptr), day = 24 * 60 * 60;
  EXPECT_TRUE(CheckIdentity(server, now + 824 * day).ok());
  EXPECT_THAT(std::string(CheckIdentity(server, now + 826 * day).message()),
              AllOf(HasSubstr("/server.pem expired on 20"), HasSubstr("--new-certificates")));
  EXPECT_THAT(std::string(CheckIdentity(server, now - 2 * day).message()),
              AllOf(HasSubstr("/server.pem is valid only from 20"), HasSubstr("clock")));
  EXPECT_TRUE(CheckAuthorities("ca.pem", ca, now + 3649 * day).ok());
  EXPECT_THAT(std::string(CheckAuthorities("ca.pem", ca, now + 3651 * day).message()),
              HasSubstr("ca.pem expired on 20"));
}

// A client's own files, with their names, before it connects.
TEST_F(LinkSecurity, SaysWhichFileOfTheClientIsWrong) {
  const std::string a = folder_.File("a"), b = folder_.File("b");
  ASSERT_TRUE(MakeCertificates(a, {"localhost"}).ok());
  ASSERT_TRUE(MakeCertificates(b, {"localhost"}).ok());
  const std::string cut = folder_.Write("cut.pem", BytesIn(a + "/ca.pem").substr(0, 100), 0600);
  const std::string address = "grpcs://127.0.0.1:1";
  EXPECT_THAT(std::string(DescribeWorker({.address = address, .ca = cut}).status().message()),
              AllOf(HasSubstr("PENSTOCK_REMOTE_CA"), HasSubstr(cut)));
  const absl::Status mixed =
      DescribeWorker(
          {.address = address, .certificate = a + "/client.pem", .key = b + "/client.key"})
          .status();
  EXPECT_THAT(std::string(mixed.message()), HasSubstr(b + "/client.key is not the key of"));
}

TEST_F(LinkSecurity, ClosesConnectionsThatDoNotSpeakHttp2) {
  ASSERT_TRUE(Start({}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectClosed(port(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(absl::StrContains(log_.WaitFor("closed a connection"), "does not speak HTTP/2"));
  ExpectClosed(port(), std::string("\x16\x03\x01\x02\x00\x01", 6));
  ExpectClosed(port(), std::string(4096, '\xff'));
  ExpectClosed(port(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(4096, '\xff'));
  ExpectClosed(port(), "PRI nonsense nonsense nonsense nonsense nonsense");
  ExpectWorks(**session);
  EXPECT_LE(log_.lines().size(), 2u);
}

TEST_F(LinkSecurity, ClosesConnectionsThatSayNothing) {
  ASSERT_TRUE(Start({.hello_seconds = 0.2}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectClosed(port(), "");
  log_.WaitFor("it sent nothing for 0.2 s");
  ExpectClosed(port(), "P");
  ExpectClosed(port(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");  // no settings
  ExpectWorks(**session);
}

TEST_F(LinkSecurity, BoundsTheNumberOfConnections) {
  ASSERT_TRUE(Start({.max_connections = 20}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<int> connections;
  const int64_t count = base::FewerIfSanitized(1000);
  for (int64_t i = 0; i < count; ++i) connections.push_back(ConnectTo(port()));
  EXPECT_TRUE(absl::StrContains(log_.WaitFor("limit of 20 connections"), "127.0.0.1"));
  ExpectWorks(**session);
  for (const int fd : connections) close(fd);
  // There is room again, once the listener has seen that.
  const auto again = Open({.address = Address()});
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_LE(log_.lines().size(), 5u);
}

// The preface of HTTP/2 and empty settings; no call.
const char kBegin[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

std::string Begin() { return std::string(kBegin, sizeof(kBegin) - 1); }

TEST_F(LinkSecurity, EndsConnectionsWithoutACall) {
  ASSERT_TRUE(Start({.hello_seconds = 0.1}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  ExpectClosed(port(), Begin());
  log_.WaitFor("it made no call with credentials within 0.3 s");
  ExpectWorks(**session);
}

// gRPC keeps 60 times the bytes of pings: 200,000 of them took 200 MB.
TEST_F(LinkSecurity, EndsStrangersThatSendMuch) {
  ASSERT_TRUE(Start({}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  // A header that never ends.
  std::string bytes = Begin() + std::string("\0\0\x08\1\0\0\0\0\1\0\1x\x7f\x80\x80\x80\x20", 17);
  for (int i = 0; i < 200; ++i) {
    bytes += std::string("\0\x1f\x40\x09\0\0\0\0\1", 9) + std::string(8000, 'v');
  }
  ExpectClosed(port(), bytes);
  log_.WaitFor("it sent more than 256 KiB without a call with credentials");
  // Who has credentials may.
  ASSERT_TRUE(
      (*session)->links->bulk().Send({.payload = {SliceOf(std::string(4000000, 'x'))}}).ok());
  EXPECT_EQ(handler_.session(0).bulk.WaitForMessages(1)[0].size(), 4000001u);
  ExpectWorks(**session);
}

// gRPC read on after the end: 32 MB of one header took 96 MB of memory and 21 s of a core.
TEST_F(LinkSecurity, DropsWhatAStrangerHasSentWithItsConnection) {
  std::promise<std::string> line;
  LimitedLog log([&](absl::string_view text) { line.set_value(std::string(text)); });
  auto listener = Listener::Open({.host = "127.0.0.1", .log = &log});
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::promise<int> taken;
  ASSERT_TRUE((*listener)->Start([&](int fd) { taken.set_value(fd); }).ok());
  const int stranger = ConnectTo((*listener)->port());
  std::thread sender([&] {
    const std::string much = "PRI" + std::string(1 << 20, 'x');
    while (send(stranger, much.data(), much.size(), MSG_NOSIGNAL) > 0) continue;
  });
  // The one who has the connection reads more than is allowed, and then looks what is left.
  const int fd = taken.get_future().get();
  const auto wait = [&] {
    pollfd polled = {fd, POLLIN, 0};
    poll(&polled, 1, -1);
  };
  std::string memory(size_t{512} << 10, ' ');
  for (size_t read = 0; read < memory.size();) {
    wait();
    const ssize_t got = recv(fd, memory.data(), memory.size() - read, 0);
    if (got <= 0 && errno != EAGAIN) break;
    if (got > 0) read += static_cast<size_t>(got);
  }
  const std::string closed = line.get_future().get();
  EXPECT_TRUE(absl::StrContains(closed, "it sent more than 256 KiB")) << closed;
  EXPECT_LE(recv(fd, memory.data(), memory.size(), 0), 0);
  sender.join();
  close(fd);
  close(stranger);
}

TEST_F(LinkSecurity, ClientsTakeTheRoomOfStrangers) {
  ASSERT_TRUE(Start({.max_connections = 6}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<int> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(ConnectTo(port()));
    const std::string bytes = i % 2 == 0 ? Begin() : "";
    (void)!send(strangers.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  log_.WaitFor("the limit of 6 connections is reached");
  const auto another = Open({.address = Address()});
  ASSERT_TRUE(another.ok()) << another.status();
  ExpectWorks(**another);
  ExpectWorks(**session);
  for (const int fd : strangers) close(fd);
}

// One stream, as a client of another make opens it.
class RawStream {
 public:
  explicit RawStream(const std::string& address) {
    auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    stub_ = std::make_unique<grpc::GenericStub>(channel);
    stream_ = stub_->PrepareCall(&context_, kConnectMethod, &queue_);
    stream_->StartCall(nullptr);
    EXPECT_TRUE(Next());
  }
  ~RawStream() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag;
    bool ok;
    while (queue_.Next(&tag, &ok)) continue;
  }
  bool Write(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    stream_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Next();
  }
  bool Read() {
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, nullptr);
    if (!Next()) return false;
    slices_ = SlicesOf(buffer);
    return true;
  }
  HelloReply Reply() {
    Frame frame;
    HelloReply reply;
    FrameParser parser(slices_);
    EXPECT_TRUE(parser.Next(&frame).value_or(false));
    EXPECT_TRUE(reply.ParseFromString(frame.header));
    return reply;
  }
  absl::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    (void)Next();
    return FromGrpc(status);
  }

 private:
  bool Next() {
    void* tag;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::vector<Slice> slices_;
};

std::string HelloFrame(const Hello& hello) {
  std::string frame;
  AppendFrame(FrameType::kHello, 0, 0, hello.SerializeAsString(), 0, 0, &frame);
  return frame;
}

Hello GoodHello() {
  Hello hello;
  hello.set_min_version(1);
  hello.set_max_version(1);
  return hello;
}

TEST_F(LinkSecurity, SaysBothVersionRanges) {
  ASSERT_TRUE(Start({}).ok());
  RawStream stream(server_->address());
  Hello hello;
  hello.set_min_version(7);
  hello.set_max_version(9);
  ASSERT_TRUE(stream.Write(HelloFrame(hello)));
  ASSERT_TRUE(stream.Read());
  const HelloReply reply = stream.Reply();
  EXPECT_EQ(reply.version(), 0u);
  EXPECT_TRUE(
      absl::StrContains(reply.status().message(), "the client speaks 7 to 9, this worker 1 to 1"))
      << reply.status().message();
}

TEST_F(LinkSecurity, RejectsAHelloThatIsNone) {
  ASSERT_TRUE(Start({}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  Hello large = GoodHello();
  large.set_host(std::string(70000, 'x'));
  for (const std::string& bytes : {std::string("garbage"), std::string(), HelloFrame(large),
                                   HelloFrame(GoodHello()).substr(0, 20)}) {
    RawStream stream(server_->address());
    ASSERT_TRUE(stream.Write(bytes));
    EXPECT_FALSE(stream.Read());
    EXPECT_FALSE(stream.Finish().ok());
  }
  ExpectWorks(**session);
  EXPECT_EQ(handler_.opened(), 1);
}

TEST_F(LinkSecurity, CutsAClientThatSaysNoHello) {
  ASSERT_TRUE(Start({.hello_seconds = 0.2}).ok());
  RawStream stream(server_->address());
  EXPECT_FALSE(stream.Read());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream.Finish()));
}

TEST_F(LinkSecurity, BreaksTheConnectionAtAFrameThatClaims4GiB) {
  ASSERT_TRUE(Start({}).ok());
  const auto session = Open({.address = Address()});
  ASSERT_TRUE(session.ok()) << session.status();
  std::string frame;
  AppendFrame(FrameType::kMessage, 1, 0, "x", 0xffffffffu, 0, &frame);
  RawStream stream(server_->address());
  ASSERT_TRUE(stream.Write(HelloFrame(GoodHello())));
  ASSERT_TRUE(stream.Read());
  ASSERT_TRUE(stream.Write(frame));
  EXPECT_FALSE(stream.Read());
  EXPECT_TRUE(absl::StrContains(stream.Finish().message(), "a frame claims 4294967296 bytes"));
  ExpectWorks(**session);
}

TEST_F(LinkSecurity, EndsALinkWhoseMessageArrivesDamagedAgainAndAgain) {
  ASSERT_TRUE(Start({}).ok());
  std::string session;
  std::string damaged;
  const uint32_t crc = PayloadCrc({SliceOf("payload")});
  AppendFrame(FrameType::kMessage, 1, 0, "x", 7, crc, &damaged);
  damaged += "paxload";
  for (int attempt = 0; attempt < 3; ++attempt) {
    RawStream stream(server_->address());
    Hello hello = GoodHello();
    hello.set_session(session);
    ASSERT_TRUE(stream.Write(HelloFrame(hello)));
    ASSERT_TRUE(stream.Read());
    session = stream.Reply().session();
    ASSERT_TRUE(stream.Write(damaged));
    while (stream.Read()) continue;
  }
  EXPECT_TRUE(absl::IsDataLoss(handler_.WaitForEnd(0)));
  EXPECT_TRUE(handler_.session(0).control.messages().empty());
}

TEST_F(LinkSecurity, DropsMessagesThatArriveTwiceAndBreaksAtAGap) {
  ASSERT_TRUE(Start({}).ok());
  RawStream stream(server_->address());
  ASSERT_TRUE(stream.Write(HelloFrame(GoodHello())));
  ASSERT_TRUE(stream.Read());
  std::string frames;
  for (const uint64_t sequence : {1, 2, 1, 2, 3, 3}) {
    AppendFrame(FrameType::kMessage, sequence, 0, absl::StrCat(sequence), 0, 0, &frames);
  }
  ASSERT_TRUE(stream.Write(frames));
  RecordingReceiver& control = handler_.session(0).control;
  EXPECT_EQ(control.WaitForMessages(3), (std::vector<std::string>{"1|", "2|", "3|"}));
  frames.clear();
  AppendFrame(FrameType::kMessage, 5, 0, "5", 0, 0, &frames);
  ASSERT_TRUE(stream.Write(frames));
  while (stream.Read()) continue;
  // The reason, or CANCELLED if an acknowledgment was being written.
  EXPECT_FALSE(stream.Finish().ok());
  EXPECT_EQ(control.messages().size(), 3u);
}

TEST_F(LinkSecurity, TellsHoldersOfCertificatesAndTokensApart) {
  const std::string dir = folder_.File("c");
  ASSERT_TRUE(MakeCertificates(dir, {"127.0.0.1"}).ok());
  ASSERT_TRUE(Start({.certificate = dir + "/server.pem",
                     .key = dir + "/server.key",
                     .client_ca = dir + "/ca.pem",
                     .token = "secret"})
                  .ok());
  const auto mine = Open({.address = Address(true),
                          .ca = dir + "/ca.pem",
                          .certificate = dir + "/client.pem",
                          .key = dir + "/client.key"});
  ASSERT_TRUE(mine.ok()) << mine.status();
  const auto theirs = Open({.address = Address(true),
                            .ca = dir + "/ca.pem",
                            .token_file = folder_.Write("token", "secret", 0600)});
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_EQ(handler_.session(0).peer.identity, "certificate penstock client");
  EXPECT_EQ(handler_.session(1).peer.identity, "token");
}

// ---- Wrong addresses: each is one sentence, long before connect_seconds ----

// Listens, and answers each connection with these bytes; if `answers_only` is given, only one that begins with it.
class OtherServer {
 public:
  explicit OtherServer(std::string answer, std::string answers_only = "")
      : answer_(std::move(answer)), answers_only_(std::move(answers_only)) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 16), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Serve(); });
  }
  ~OtherServer() {
    shutdown(socket_, SHUT_RDWR);
    acceptor_.join();
    // gRPC keeps a connection for a while on which no answer has come.
    for (const int fd : connections_) shutdown(fd, SHUT_RDWR);
    for (std::thread& thread : threads_) thread.join();
    for (const int fd : connections_) close(fd);
    close(socket_);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  void Serve() {
    for (int fd; (fd = accept(socket_, nullptr, nullptr)) >= 0;) {
      connections_.push_back(fd);
      threads_.emplace_back([this, fd] { Answer(fd); });
    }
  }
  void Answer(int fd) const {
    char bytes[64] = {};
    (void)!recv(fd, bytes, sizeof(bytes) - 1, 0);
    if (absl::StartsWith(bytes, answers_only_)) {
      (void)!send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      shutdown(fd, SHUT_WR);
    }
    while (recv(fd, bytes, sizeof(bytes), 0) > 0) continue;
  }
  const std::string answer_, answers_only_;
  int socket_ = -1, port_ = 0;
  std::thread acceptor_;
  std::vector<int> connections_;
  std::vector<std::thread> threads_;  // one for each connection
};

// A port whose backlog is full: the kernel drops what asks for further connections.
class FullBacklog {
 public:
  FullBacklog() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(socket_, raw, size), 0);
    EXPECT_EQ(listen(socket_, 0), 0);
    EXPECT_EQ(getsockname(socket_, raw, &size), 0);
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 4; ++i) {
      waiting_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)!connect(waiting_.back(), raw, size);
    }
  }
  ~FullBacklog() {
    for (const int fd : waiting_) close(fd);
    close(socket_);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int socket_ = -1, port_ = 0;
  std::vector<int> waiting_;
};

// The message, if it comes at once, for sessions and for single calls.
std::string ErrorAtOnce(RemoteOptions options, absl::StatusCode code) {
  options.connect_seconds = kForever;
  const absl::Status opened = Open(options).status(), asked = DescribeWorker(options).status();
  EXPECT_EQ(opened.code(), code) << opened;
  EXPECT_EQ(asked.code(), code) << asked;
  EXPECT_EQ(opened.message(), asked.message());
  return std::string(opened.message());
}

TEST_F(LinkSecurity, SaysWhatAnotherServerSpeaks) {
  OtherServer http("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
  OtherServer ssh("SSH-2.0-OpenSSH_9.2\r\n");
  for (const char* const scheme : {"grpc://", "grpcs://"}) {
    EXPECT_THAT(ErrorAtOnce({.address = scheme + http.address()}, absl::StatusCode::kUnimplemented),
                HasSubstr("is no Penstock worker: it answers \"HTTP/1.1 400 Bad Request\""));
    EXPECT_THAT(ErrorAtOnce({.address = scheme + ssh.address()}, absl::StatusCode::kUnimplemented),
                HasSubstr("is no Penstock worker: it answers \"SSH-2.0-OpenSSH_9.2\""));
  }
}

// It waits for the rest of a request, for longer than a user should.
TEST_F(LinkSecurity, SaysThatASilentHttpServerIsNoWorker) {
  OtherServer http("HTTP/1.1 400 Bad Request\r\n\r\n", /*answers_only=*/"PRI");
  const absl::Status status =
      Open({.address = "grpcs://" + http.address(), .connect_seconds = kForever}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("it answers \"HTTP/1.1 400 Bad Request\""));
}

// A server that accepts connections and says nothing, and a host that does not answer to them: a word after some seconds,
// and at the end one sentence.
TEST_F(LinkSecurity, SaysThatAServerDoesNotAnswer) {
  OtherServer silent("", /*answers_only=*/"nothing that begins like this");
  FullBacklog full;
  struct Case {
    std::string address, says;
  };
  std::vector<std::future<void>> asked;  // all at once, since each takes some seconds
  for (const Case& it : {Case{silent.address(), "the server there says nothing"},
                         Case{full.address(), "connections get no answer"}}) {
    for (const bool session : {false, true}) {
      asked.push_back(std::async(std::launch::async, [it, session] {
        LogLines notes;
        RemoteOptions options{.address = "grpc://" + it.address, .connect_seconds = 9};
        options.note = notes.function();
        Session receivers;
        const DeviceClient::Receivers both{.control = &receivers.control, .bulk = &receivers.bulk};
        const absl::Status status =
            session ? ConnectLinks(options, both).status() : DescribeWorker(options).status();
        EXPECT_THAT(std::string(status.message()),
                    AllOf(HasSubstr("cannot reach a worker at " + it.address), HasSubstr(it.says)));
        ASSERT_EQ(notes.lines().size(), 1u);
        EXPECT_THAT(notes.lines()[0], AllOf(HasSubstr("waiting for the worker at " + it.address),
                                            HasSubstr("gives up at"), HasSubstr("Ctrl-C")));
      }));
    }
  }
  for (auto& each : asked) each.get();
}

TEST_F(LinkSecurity, SaysWhichSideSpeaksTls) {
  ASSERT_TRUE(Start({}).ok());
  EXPECT_THAT(ErrorAtOnce({.address = Address(true)}, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("the server there speaks plaintext, and this client TLS"),
                    HasSubstr("write grpc://" + server_->address())));
  const std::string dir = folder_.File("c");
  ASSERT_TRUE(MakeCertificates(dir, {"somewhere.else"}).ok());
  server_ = nullptr;
  ASSERT_TRUE(Start({.certificate = dir + "/server.pem",
                     .key = dir + "/server.key",
                     .client_ca = dir + "/ca.pem"})
                  .ok());
  EXPECT_THAT(ErrorAtOnce({.address = Address(false)}, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("the server there speaks TLS, and this client plaintext"),
                    HasSubstr("write grpcs://" + server_->address())));
  EXPECT_THAT(ErrorAtOnce({.address = Address(true), .ca = dir + "/ca.pem"},
                          absl::StatusCode::kUnauthenticated),
              AllOf(HasSubstr("its certificate is for other names than 127.0.0.1"),
                    HasSubstr("--host 127.0.0.1")));
  ASSERT_TRUE(MakeCertificates(folder_.File("other"), {"127.0.0.1"}).ok());
  EXPECT_THAT(ErrorAtOnce({.address = Address(true), .ca = folder_.File("other/ca.pem")},
                          absl::StatusCode::kUnauthenticated),
              HasSubstr("is not signed by the authority that this client trusts"));
}

// What is to be said of a port that accepts connections and closes them: a tunnel without a worker behind it.
TEST_F(LinkSecurity, SaysThatNobodyIsBehindATunnel) {
  OtherServer tunnel("");
  const absl::Status status =
      Open({.address = "grpc://" + tunnel.address(), .connect_seconds = 2}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("accepted and closed at once"), HasSubstr("attempts in")));
}

// A port that refuses is tried for a quarter of the time, a worker may be about to start; so is an unknown name if
// the name server does not answer either.
TEST_F(LinkSecurity, GivesUpEarlyWhereNobodyListens) {
  std::string address;
  {
    OtherServer server("");
    address = server.address();
  }
  for (const std::string& nobody : {address, std::string("host.invalid:1")}) {
    const absl::Status status =
        Open({.address = "grpc://" + nobody, .connect_seconds = 4}).status();
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsNotFound(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), nobody) ||
                absl::StrContains(status.message(), "'host.invalid'"))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "nobody listens there") ||
                absl::StrContains(status.message(), "cannot be resolved") ||
                absl::StrContains(status.message(), "is unknown"))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "attempts in") ||
                absl::StrContains(status.message(), "is unknown"))
        << status;
  }
}

}  // namespace security_test
}  // namespace penstock::remote
