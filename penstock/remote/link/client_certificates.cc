#include "penstock/remote/link/client_certificates.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

namespace penstock::remote {
namespace {

struct X509Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
  void operator()(BIO* bytes) const { BIO_free_all(bytes); }
};
using X509Ptr = std::unique_ptr<X509, X509Free>;

std::vector<X509Ptr> ReadCertificates(absl::string_view pem) {
  std::vector<X509Ptr> out;
  const std::unique_ptr<BIO, X509Free> bytes(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (X509* const next = PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr)) {
    out.emplace_back(next);
  }
  ERR_clear_error();  // "no start line" is the end
  return out;
}

}  // namespace

struct ClientCertificates::State {
  std::unique_ptr<X509_STORE, X509Free> store{X509_STORE_new()};
};

ClientCertificates::ClientCertificates(std::unique_ptr<State> state) : state_(std::move(state)) {}
ClientCertificates::~ClientCertificates() = default;

absl::StatusOr<std::unique_ptr<ClientCertificates>> ClientCertificates::Make(
    absl::string_view authorities) {
  auto state = std::make_unique<State>();
  const std::vector<X509Ptr> all = ReadCertificates(authorities);
  if (all.empty()) {
    return absl::FailedPreconditionError("the file of the clients' authority has no certificate");
  }
  for (const X509Ptr& certificate : all) X509_STORE_add_cert(state->store.get(), certificate.get());
  ERR_clear_error();  // one that is there twice
  // Each authority of the file is trusted, also one that another authority has signed.
  X509_STORE_set_flags(state->store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  X509_STORE_set_purpose(state->store.get(), X509_PURPOSE_SSL_CLIENT);
  return std::unique_ptr<ClientCertificates>(new ClientCertificates(std::move(state)));
}

absl::Status ClientCertificates::Check(absl::string_view certificate,
                                       absl::string_view chain) const {
  const std::vector<X509Ptr> leaf = ReadCertificates(certificate),
                             between = ReadCertificates(chain);
  if (leaf.empty()) return absl::UnauthenticatedError("the client's certificate is malformed");
  const std::unique_ptr<STACK_OF(X509), X509Free> others(sk_X509_new_null());
  for (const X509Ptr& other : between) sk_X509_push(others.get(), other.get());
  const std::unique_ptr<X509_STORE_CTX, X509Free> context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), state_->store.get(), leaf[0].get(), others.get()) != 1) {
    return absl::InternalError("cannot check the client's certificate: OpenSSL has no memory");
  }
  const bool valid = X509_verify_cert(context.get()) == 1;
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  if (valid) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat("the client's certificate (PENSTOCK_REMOTE_CERTIFICATE) is not valid for this "
                   "worker, which accepts those that its --client-ca has signed: ",
                   X509_verify_cert_error_string(error)));
}

}  // namespace penstock::remote
