// CheckIdentity: whether PEM files of a certificate and its key are what TLS needs, so that a worker or a client says at its
// start which file is wrong. gRPC would say it in each handshake, without the file's name.
//
// Errors are FAILED_PRECONDITION. Internal to room remote.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace penstock::remote {

struct IdentityFiles {
  std::string certificate_file = {};  // for messages, as key_file
  std::string certificate = {};       // PEM: the certificate, then those that lead to its authority
  std::string key_file = {};
  std::string key = {};  // PEM
};
// OK: both can be read whole, belong together, and the certificates are valid at the time, each signed by the next one.
absl::Status CheckIdentity(const IdentityFiles& identity, int64_t unix_seconds);

// The certificates of authorities in a file. OK: it can be read whole, and one of them is valid at the time.
absl::Status CheckAuthorities(absl::string_view file, absl::string_view pem, int64_t unix_seconds);

// The authorities of the clients beside the server's own certificate: one with the name of its issuer that has not signed it
// is of another `--new-certificates`, unless a further one has.
absl::Status CheckSameAuthority(const IdentityFiles& server, absl::string_view authorities_file,
                                absl::string_view authorities);

}  // namespace penstock::remote
