#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/remote/client.h"
#include "penstock/remote/client/device_client.h"
#include "penstock/remote/link/link_client.h"
#include "penstock/remote/resolver.h"
#include "penstock/remote/wire/take_over_wait.h"

namespace penstock::remote {
namespace {

// For another attempt at the end of RemoteOptions::reconnect_seconds.
constexpr double kLastTrySeconds = 2;

std::string FromEnvironment(const std::string& given, const char* name) {
  if (!given.empty()) return given;
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::shared_ptr<runtime::Client>> OpenFromRuntime(
    const runtime::ClientOptions& options) {
  return OpenRemoteClient({.address = options.device});
}

// Calls RemoteOptions::note until the client is destroyed. Its session may end later, on a thread of its own.
class Notes {
 public:
  explicit Notes(std::function<void(absl::string_view)> note) : note_(std::move(note)) {}
  void Tell(absl::string_view line) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    const auto note = note_;  // End may come within it
    if (note) note(line);
  }
  void End() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    note_ = nullptr;
  }

 private:
  std::recursive_mutex mutex_;  // a note may destroy the client
  std::function<void(absl::string_view)> note_;
};

void TellUser(const RemoteOptions& options, absl::string_view line) {
  if (options.note) return options.note(line);
  std::fprintf(stderr, "%s\n", std::string(line).c_str());
}

}  // namespace

absl::StatusOr<std::shared_ptr<runtime::Client>> OpenRemoteClient(const RemoteOptions& given) {
  RemoteOptions options = given;
  PENSTOCK_ASSIGN_OR_RETURN(options.address, ParseAddress(given.address));
  options.ca = FromEnvironment(given.ca, "PENSTOCK_REMOTE_CA");
  options.certificate = FromEnvironment(given.certificate, "PENSTOCK_REMOTE_CERTIFICATE");
  options.key = FromEnvironment(given.key, "PENSTOCK_REMOTE_KEY");
  options.token_file = FromEnvironment(given.token_file, "PENSTOCK_REMOTE_TOKEN_FILE");
  if (const char* const take = std::getenv("PENSTOCK_REMOTE_TAKE_OVER");
      take != nullptr && std::strcmp(take, "1") == 0) {
    options.take_over = true;
  }
  std::shared_ptr<void> until_destroyed;
  if (options.note) {
    auto notes = std::make_shared<Notes>(std::move(options.note));
    options.note = [notes](absl::string_view line) { notes->Tell(line); };
    until_destroyed = std::shared_ptr<void>(nullptr, [notes](void*) { notes->End(); });
  }
  // Of the last session; null: none was opened yet. DeviceClient connects once at a time.
  std::function<double()> patience = nullptr;
  return DeviceClient::Open([options, until_destroyed, patience,
                             told = std::string()](const DeviceClient::Receivers& receivers) mutable
                            -> absl::StatusOr<std::unique_ptr<SessionLinks>> {
    RemoteOptions now = options;
    if (patience) now.connect_seconds = std::max(kLastTrySeconds, patience());
    absl::StatusOr<std::unique_ptr<SessionLinks>> links =
        ConnectLinks(now, receivers, patience ? Opening::kAgain : Opening::kFirst);
    if (links.ok()) {
      patience = (*links)->patience();
    } else if (IsTakeOverWait(links.status()) && told != links.status().message()) {
      told = std::string(links.status().message());
      TellUser(options, told);
    }
    return links;
  });
}

}  // namespace penstock::remote

// The room's CMakeLists.txt makes the linker keep this symbol, and with it this file.
extern "C" const bool penstock_remote_registration =
    penstock::runtime::RegisterClientOpener("grpc://", penstock::remote::OpenFromRuntime) &&
    penstock::runtime::RegisterClientOpener("grpcs://", penstock::remote::OpenFromRuntime);
