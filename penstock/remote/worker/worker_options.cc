#include "penstock/remote/worker/worker_options.h"

#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"

namespace penstock::remote {
namespace {

// "gs://bucket/shards/?endpoint_override=HOST" ends in "/", too.
absl::Status CheckPrefix(const std::string& prefix) {
  const absl::StatusOr<io::Uri> uri = io::ParseUri(prefix);
  std::string name = prefix;
  if (uri.ok() && !uri->options.empty()) name.resize(prefix.size() - uri->options.size() - 1);
  if (!name.empty() && name.back() == '/') return absl::OkStatus();
  name = io::DisplayName(name);
  return absl::InvalidArgumentError(absl::StrCat("the prefix '", name,
                                                 "' does not end in '/', so it would also allow ",
                                                 name, "-other; write ", name, "/"));
}

}  // namespace

absl::Status CheckOptions(const WorkerOptions& options) {
  if (absl::StrContains(options.device, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("a worker serves devices of its own machine, but the device is the address ",
                     options.device, "; use cpu, gpu or tpu"));
  }
  for (const auto* prefixes : {&options.readable, &options.writable}) {
    for (const std::string& prefix : *prefixes) PENSTOCK_RETURN_IF_ERROR(CheckPrefix(prefix));
  }
  if (options.lease_seconds < 1 || options.drain_seconds < 0 || options.max_sessions < 1) {
    return absl::InvalidArgumentError(
        "a worker's lease and number of sessions must be at least 1, its drain at least 0");
  }
  return absl::OkStatus();
}

std::string Security(const WorkerOptions& options) {
  if (options.certificate.empty()) {
    return options.token_file.empty() ? "plaintext (loopback only)"
                                      : "plaintext with a token (loopback only)";
  }
  std::vector<std::string> words = {"TLS"};
  if (!options.client_ca.empty()) words.push_back("client certificates");
  if (!options.token_file.empty()) words.push_back("a token");
  return absl::StrJoin(words, ", ");
}

std::string CountOfDevices(size_t count) {
  return absl::StrCat(count, count == 1 ? " device" : " devices");
}

std::string RandomHex(int bytes) {
  std::random_device random;
  std::string out;
  for (int i = 0; i < bytes; i += 4) absl::StrAppend(&out, absl::Hex(random(), absl::kZeroPad8));
  return out;
}

}  // namespace penstock::remote
