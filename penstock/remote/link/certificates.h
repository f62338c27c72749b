// Certificates for a worker and its clients, made on the spot, for those who have no authority of their
// own (`penstock worker --new-certificates DIR`).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace penstock::remote {

// Writes into `folder`, which is made if it does not exist:
//
//   ca.pem, ca.key          an authority, valid for 10 years
//   server.pem, server.key  for the worker; subject alternative names: `hosts` (names or IP addresses)
//   client.pem, client.key  for clients (mTLS); common name "penstock client"
//
// Keys are on the curve P-256; their files are readable by their owner only. The server's and the client's
// certificate are valid for 825 days, the longest that common TLS stacks accept. Nothing is overwritten:
// ALREADY_EXISTS if one of the files is there. INVALID_ARGUMENT without hosts.
absl::Status MakeCertificates(const std::string& folder, const std::vector<std::string>& hosts);

}  // namespace penstock::remote
