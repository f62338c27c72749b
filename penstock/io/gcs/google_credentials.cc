#include "penstock/io/gcs/google_credentials.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/environment.h"
#include "penstock/io/http/network_wait.h"
#include "penstock/io/local/file_descriptor.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/uri.h"

namespace penstock::io {
namespace {

// Whether `fd` is ready before the deadline.
bool Await(int fd, short events, absl::Time deadline) {
  const int64_t milliseconds = absl::ToInt64Milliseconds(deadline - absl::Now());
  pollfd waiting{fd, events, 0};
  return milliseconds > 0 && ::poll(&waiting, 1, static_cast<int>(milliseconds)) == 1;
}

FileDescriptor Connect(const std::string& host, const std::string& port, absl::Time deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  FileDescriptor fd(
      ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol));
  if (!fd.valid()) return {};
  if (::connect(fd.get(), found->ai_addr, found->ai_addrlen) != 0 &&
      (errno != EINPROGRESS || !Await(fd.get(), POLLOUT, deadline))) {
    return {};
  }
  return fd;
}

// Other clouds have a server at the same address; only Google's identifies itself in its response.
bool MetadataServerResponds(absl::Time deadline) {
  const std::string root = GoogleMetadataHost();
  const NetworkWait wait(NetworkWaits::Default(),
                         absl::StrCat("find Google's metadata server at ", root));
  const std::pair<std::string, std::string> host_port =
      absl::StrSplit(root, absl::MaxSplits(':', 1));
  const FileDescriptor fd =
      Connect(host_port.first, host_port.second.empty() ? "80" : host_port.second, deadline);
  if (!fd.valid()) return false;
  const std::string request =
      absl::StrCat("GET / HTTP/1.0\r\nHost: ", root, "\r\nMetadata-Flavor: Google\r\n\r\n");
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return false;
  }
  std::string response;
  char part[1024];
  while (response.size() < 16384 && Await(fd.get(), POLLIN, deadline)) {
    const ssize_t n = ::recv(fd.get(), part, sizeof(part), 0);
    if (n <= 0) break;
    response.append(part, n);
    if (absl::StrContains(absl::AsciiStrToLower(response), "metadata-flavor: google")) return true;
  }
  return false;
}

}  // namespace

std::string GoogleCredentialsFile() {
  if (std::string named = GetEnvironment("GOOGLE_APPLICATION_CREDENTIALS"); !named.empty()) {
    return named;
  }
  std::string folder = GetEnvironment("CLOUDSDK_CONFIG");
  if (folder.empty()) folder = JoinPath(GetEnvironment("HOME"), ".config/gcloud");
  std::string file = JoinPath(folder, "application_default_credentials.json");
  return ::access(file.c_str(), R_OK) == 0 ? file : "";
}

absl::StatusOr<std::string> ReadGoogleCredentialsFile(const std::string& file) {
  auto read = ReadFile(*MakeLocalFileSystem(), file);
  if (read.ok()) return read;
  const absl::Status why = base::WithContext(
      read.status(), absl::StrCat("the credentials in '", file,
                                  "' cannot be read; check GOOGLE_APPLICATION_CREDENTIALS, or log "
                                  "in with 'gcloud auth application-default login'"));
  return absl::IsNotFound(why) || absl::IsFailedPrecondition(why)
             ? absl::UnauthenticatedError(why.message())
             : why;
}

absl::Status CheckGoogleCredentialsFile(const std::string& file) {
  return ReadGoogleCredentialsFile(file).status();
}

std::string GoogleMetadataHost() {
  const std::string root = GetEnvironment("GCE_METADATA_ROOT");
  return root.empty() ? "169.254.169.254" : root;
}

bool GoogleCredentialsExist(absl::Duration timeout) {
  return !GoogleCredentialsFile().empty() || MetadataServerResponds(absl::Now() + timeout);
}

bool GoogleCredentialsSearch::Found() {
  constexpr double kFileSeconds = 5, kServerSeconds = 60;
  std::lock_guard lock(mutex_);
  const double now = clock_->Seconds();
  if (found_ || now < file_at_) return found_;
  const bool with_server = now >= server_at_;
  found_ = with_server ? GoogleCredentialsExist() : !GoogleCredentialsFile().empty();
  // Counted from the end of the search, which may have taken a while.
  file_at_ = clock_->Seconds() + kFileSeconds;
  if (with_server) server_at_ = clock_->Seconds() + kServerSeconds;
  return found_;
}

}  // namespace penstock::io
