#include "penstock/io/testing/emulator.h"

#include <csignal>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/local/file_descriptor.h"

namespace penstock::io {

struct Emulator::Kind {
  const char* program;
  const char* how_to_get;
  std::vector<const char*> arguments;  // $0 is the port
  const char* bucket_uri;              // $0 the bucket, $1 the port
};

const Emulator::Kind Emulator::kGcs = {
    "fake-gcs-server",
    "tools/fake-gcs-server",
    {"-scheme", "http", "-host", "127.0.0.1", "-port", "$0", "-backend", "memory"},
    "gs://"
    "anonymous@$0?scheme=http&endpoint_override=127.0.0.1:$1&retry_limit_seconds=10&project_id=p"};

const Emulator::Kind Emulator::kS3 = {
    "gofakes3",
    "tools/fake-s3-server",
    {"-host", "127.0.0.1:$0", "-backend", "memory"},
    "s3://key:secret@$0?scheme=http&endpoint_override=127.0.0.1:$1&region=us-east-1"
    "&allow_bucket_creation=true"};

namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// Returns a port that is free at the moment.
int FreePort() {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  PENSTOCK_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  PENSTOCK_CHECK(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

bool Answers(int port) {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

pid_t Spawn(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    // Kills the emulator when the test program dies.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) ::dup2(nowhere, fd);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return child;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Emulator>> Emulator::Start(const Kind& kind) {
  const std::string program = absl::StrCat(PENSTOCK_EMULATORS, "/", kind.program);
  if (::access(program.c_str(), X_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("this test needs the program ", program,
                                            ", which is missing. Run: ", kind.how_to_get));
  }
  // Another process may take the port meanwhile. Then the emulator exits, and another port is
  // tried.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int port = FreePort();
    std::vector<std::string> command = {program};
    for (const char* word : kind.arguments) command.push_back(absl::Substitute(word, port));
    const pid_t process = Spawn(command);
    if (process < 0) return absl::InternalError("fork failed");
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    bool ended = false;
    while (!ended && absl::Now() < deadline) {
      if (Answers(port)) return std::unique_ptr<Emulator>(new Emulator(kind, port, process));
      ended = ::waitpid(process, nullptr, WNOHANG) != 0;
      absl::SleepFor(absl::Milliseconds(2));
    }
    if (!ended) ::kill(process, SIGKILL);
  }
  return absl::UnavailableError(absl::StrCat(program, " was started and did not respond"));
}

absl::StatusOr<Emulator*> Emulator::Get(const absl::StatusOr<std::unique_ptr<Emulator>>& started) {
  if (!started.ok()) return started.status();
  return started->get();
}

absl::StatusOr<Emulator*> Emulator::Gcs() {
  static const auto started = Start(kGcs);
  return Get(started);
}

absl::StatusOr<Emulator*> Emulator::S3() {
  static const auto started = [] {
    // The emulator does not support trailing checksums, which the AWS client sends by default.
    ::setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required", /*overwrite=*/1);
    ::setenv("AWS_EC2_METADATA_DISABLED", "true", /*overwrite=*/1);
    return Start(kS3);
  }();
  return Get(started);
}

Emulator::~Emulator() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::string Emulator::BucketUri(absl::string_view bucket) const {
  return absl::Substitute(kind_.bucket_uri, bucket, port_);
}

absl::StatusOr<std::string> Emulator::MakeBucket(FileSystem& fs) {
  std::string uri = BucketUri(absl::StrCat("bucket-", buckets_++));
  PENSTOCK_RETURN_IF_ERROR(fs.CreateFolder(uri));
  return uri;
}

}  // namespace penstock::io
