// ClientCertificates: checks the certificates that clients show. TLS has proved that a client has the key of its
// certificate; whether the certificate is signed by the authority of --client-ca is checked here, when the call has
// arrived, and not in the handshake: a failed handshake tells a client nothing, and it would try again until its
// time is over.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const auto authority, ClientCertificates::Make(pem_of_the_authority));
//   PENSTOCK_RETURN_IF_ERROR(authority->Check(certificate_pem, chain_pem));   // UNAUTHENTICATED, and why
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock::remote {

// Thread-safe.
class ClientCertificates {
 public:
  // `authorities`: PEM text of one or more certificates; each of them is trusted. FAILED_PRECONDITION: there is none.
  static absl::StatusOr<std::unique_ptr<ClientCertificates>> Make(absl::string_view authorities);
  ~ClientCertificates();

  // PEM text of a client's certificate and of those between it and the authority, which may be empty.
  // UNAUTHENTICATED: it is not signed by an authority, has expired, or is not for clients.
  absl::Status Check(absl::string_view certificate, absl::string_view chain) const;

 private:
  struct State;
  explicit ClientCertificates(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace penstock::remote
