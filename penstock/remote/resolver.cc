#include "penstock/remote/resolver.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

constexpr absl::string_view kPlainScheme = "grpc://", kTlsScheme = "grpcs://";
constexpr size_t kMaxAddress = 300;  // a host name has at most 253 characters

std::string ReadEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool IsDevice(absl::string_view text) { return text == "cpu" || text == "gpu" || text == "tpu"; }

bool IsHost(absl::string_view host) {
  if (host.empty()) return false;
  for (const char c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') {
      return false;
    }
  }
  return true;
}

// The hexadecimal digits, colons and scope of an IPv6 address; the resolver of the system checks more.
bool IsBracketed(absl::string_view host) {
  if (host.size() < 4 || host.front() != '[' || host.back() != ']') return false;
  for (const char c : host.substr(1, host.size() - 2)) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != ':' && c != '.' && c != '%') {
      return false;
    }
  }
  return absl::StrContains(host, ":");
}

absl::Status BadAddress(absl::string_view address, absl::string_view reason) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", absl::CHexEscape(address.substr(0, kMaxAddress)),
                   "' is no address: ", reason, "; write HOST:PORT or grpc://HOST:PORT"));
}

// A device or an address, from `source`. A name without a port is none of them.
absl::StatusOr<Resolved> ResolveWord(absl::string_view word, const std::string& source) {
  if (IsDevice(word)) return Resolved{std::string(word), source};
  if (word == "local" || word == "localhost") return Resolved{"tpu", source};
  if (!absl::StrContains(word, ":") && IsHost(word)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": '", word,
                     "' is neither a device (cpu, gpu, tpu, local) nor an address (HOST:PORT)"));
  }
  const absl::StatusOr<std::string> address = ParseAddress(word);
  if (!address.ok()) return base::WithContext(address.status(), source);
  return Resolved{*address, source};
}

// TPU_NAME: the names of Cloud TPUs are known to the TPU API of their project only.
absl::StatusOr<Resolved> ResolveTpuName(absl::string_view name) {
  if (name == "local" || absl::StrContains(name, ":")) return ResolveWord(name, "TPU_NAME");
  return absl::InvalidArgumentError(absl::StrCat(
      "TPU_NAME: '", absl::CHexEscape(name.substr(0, kMaxAddress)),
      "' is the name of a Cloud TPU. Only the TPU API of its project knows its address "
      "(projects/PROJECT/locations/ZONE/nodes/NAME, with Google's credentials): start `penstock "
      "worker --device tpu` on the TPU's machine and set TPU_NAME to its address, HOST:PORT or "
      "grpc://HOST:PORT; or, on that machine itself, to 'local'"));
}

// The hosts of a slice. One of them, which is this machine, is what a program can use without a worker.
absl::StatusOr<Resolved> ResolveHosts(absl::string_view hosts, const char* variable) {
  if (!absl::StrContains(hosts, ",")) {
    const absl::string_view host = hosts.substr(0, hosts.find(':'));
    if (host == "local" || host == "localhost" || host == "127.0.0.1") {
      return Resolved{"tpu", variable};
    }
    // The only host of a slice is the one that has the variable; its port is the TPU runtime's.
    if (IsHost(host)) return Resolved{"tpu", variable};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      variable, ": '", absl::CHexEscape(hosts.substr(0, kMaxAddress)),
      "' is a slice of several hosts, and a program uses the devices of one: start `penstock "
      "worker --device tpu` there and pass its address, or set --device tpu for this machine's"));
}

absl::StatusOr<Resolved> ResolveEnvironment(const Environment& read) {
  if (const std::string name = read("COLAB_TPU_ADDR"); !name.empty()) {
    return ResolveWord(name, "COLAB_TPU_ADDR");
  }
  if (const std::string name = read("TPU_NAME"); !name.empty()) return ResolveTpuName(name);
  for (const char* variable : {"TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES"}) {
    if (const std::string hosts = read(variable); !hosts.empty()) {
      return ResolveHosts(hosts, variable);
    }
  }
  return Resolved{"cpu", "the default"};
}

}  // namespace

absl::StatusOr<std::string> ParseAddress(absl::string_view address) {
  absl::string_view rest = address;
  absl::string_view scheme = kPlainScheme;
  if (absl::ConsumePrefix(&rest, kTlsScheme)) {
    scheme = kTlsScheme;
  } else if (!absl::ConsumePrefix(&rest, kPlainScheme) && absl::StrContains(rest, "://")) {
    return BadAddress(address, "its scheme is neither grpc:// nor grpcs://");
  }
  if (rest.size() > kMaxAddress) return BadAddress(address, "it is too long");
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos || (rest.back() == ']' && rest.front() == '[')) {
    return BadAddress(address, "it has no port");
  }
  const absl::string_view host = rest.substr(0, colon), digits = rest.substr(colon + 1);
  int port = 0;
  const bool number = !digits.empty() && absl::ascii_isdigit(static_cast<unsigned char>(digits[0]));
  if (!number || !absl::SimpleAtoi(digits, &port) || port < 1 || port > 65535) {
    return BadAddress(address, "its port is not a number from 1 to 65535");
  }
  if (!IsHost(host) && !IsBracketed(host)) {
    return BadAddress(address, "its host is no name (IPv6 addresses stand in brackets)");
  }
  return absl::StrCat(scheme, rest);
}

absl::StatusOr<Resolved> ResolveDevice(absl::string_view requested,
                                       const Environment& environment) {
  const Environment& read = environment ? environment : ReadEnvironment;
  const bool automatic = requested == "auto";
  if (!requested.empty() && !automatic) return ResolveWord(requested, "the option");
  if (const std::string device = read("PENSTOCK_DEVICE"); !device.empty() && device != "auto") {
    return ResolveWord(device, "PENSTOCK_DEVICE");
  }
  if (automatic || read("PENSTOCK_DEVICE") == "auto") return ResolveEnvironment(read);
  return Resolved{"cpu", "the default"};
}

absl::StatusOr<std::shared_ptr<runtime::Client>> Initialize(absl::string_view requested) {
  PENSTOCK_ASSIGN_OR_RETURN(const Resolved where, ResolveDevice(requested));
  absl::StatusOr<std::shared_ptr<runtime::Client>> client =
      runtime::OpenClient({.device = where.device});
  if (!client.ok() && where.source != "the option") {
    return base::WithContext(client.status(),
                             absl::StrCat("device ", where.device, " (from ", where.source, ")"));
  }
  return client;
}

absl::Status Shutdown(std::shared_ptr<runtime::Client>& client) {
  const std::shared_ptr<runtime::Client> last = std::move(client);
  client = nullptr;
  if (last == nullptr || last.use_count() == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the devices stay in use: ", last.use_count() - 1,
                   " other objects (models, buffers, sessions) hold this client; destroy them"));
}

}  // namespace penstock::remote
