#include "penstock/remote/link/identity.h"

#include <algorithm>
#include <ctime>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

constexpr char kMakeNewOnes[] =
    "copy it again, or make new ones with `penstock worker --new-certificates DIR`";

struct FreePem {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bytes) const { BIO_free_all(bytes); }
};
using PemCertificate = std::unique_ptr<X509, FreePem>;
using PemKey = std::unique_ptr<EVP_PKEY, FreePem>;
using PemBytes = std::unique_ptr<BIO, FreePem>;

PemBytes PemBytesOf(absl::string_view pem) {
  return PemBytes(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// An encrypted key must not make OpenSSL ask for a password on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

absl::Status WrongFile(absl::string_view file, absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(file, " ", what, ": ", kMakeNewOnes));
}

absl::StatusOr<std::vector<PemCertificate>> ParseCertificates(absl::string_view file,
                                                              absl::string_view pem) {
  ERR_clear_error();
  std::vector<PemCertificate> out;
  const PemBytes bytes = PemBytesOf(pem);
  while (X509* const next = PEM_read_bio_X509(bytes.get(), nullptr, &NoPassword, nullptr)) {
    out.emplace_back(next);
  }
  const unsigned long end = ERR_peek_last_error();
  ERR_clear_error();
  const bool whole = ERR_GET_LIB(end) == ERR_LIB_PEM && ERR_GET_REASON(end) == PEM_R_NO_START_LINE;
  if (!whole) {
    return WrongFile(file, absl::StrCat("is damaged or cut short (", pem.size(), " bytes)"));
  }
  if (out.empty()) return WrongFile(file, "contains no certificate");
  return out;
}

std::string DayOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown day";
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromTM(parts, absl::UTCTimeZone()),
                          absl::UTCTimeZone());
}

absl::Status CheckValidity(absl::string_view file, const X509* certificate, int64_t unix_seconds) {
  auto now = static_cast<std::time_t>(unix_seconds);
  if (X509_cmp_time(X509_get0_notAfter(certificate), &now) < 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        file, " expired on ", DayOf(X509_get0_notAfter(certificate)),
        ": make new certificates with `penstock worker --new-certificates DIR`, and give the "
        "clients theirs"));
  }
  if (X509_cmp_time(X509_get0_notBefore(certificate), &now) > 0) {
    return absl::FailedPreconditionError(absl::StrCat(file, " is valid only from ",
                                                      DayOf(X509_get0_notBefore(certificate)),
                                                      " on: check the clock of this machine"));
  }
  return absl::OkStatus();
}

bool HasSigned(const X509& authority, X509& certificate) {
  const bool signed_by = X509_verify(&certificate, X509_get0_pubkey(&authority)) == 1;
  ERR_clear_error();
  return signed_by;
}

}  // namespace

absl::Status CheckIdentity(const IdentityFiles& identity, int64_t unix_seconds) {
  const std::string& file = identity.certificate_file;
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<PemCertificate> chain,
                            ParseCertificates(file, identity.certificate));
  const PemBytes bytes = PemBytesOf(identity.key);
  const PemKey key(PEM_read_bio_PrivateKey(bytes.get(), nullptr, &NoPassword, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return WrongFile(
        identity.key_file,
        absl::StrCat("has no private key, or one that is damaged, cut short or encrypted (",
                     identity.key.size(), " bytes)"));
  }
  const bool belongs = X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (!belongs) {
    return absl::FailedPreconditionError(absl::StrCat(
        identity.key_file, " is not the key of ", file,
        ": give the pair that was made together, or make a new one with `penstock worker "
        "--new-certificates DIR`"));
  }
  for (size_t i = 0; i < chain.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(CheckValidity(file, chain[i].get(), unix_seconds));
    if (i + 1 == chain.size() || HasSigned(*chain[i + 1], *chain[i])) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("certificate ", i + 2, " in ", file, " has not signed certificate ", i + 1,
                     ": the file must begin with the certificate of the key, and each one is "
                     "followed by its authority's"));
  }
  return absl::OkStatus();
}

absl::Status CheckAuthorities(absl::string_view file, absl::string_view pem, int64_t unix_seconds) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<PemCertificate> all, ParseCertificates(file, pem));
  absl::Status first;
  for (const PemCertificate& authority : all) {
    const absl::Status valid = CheckValidity(file, authority.get(), unix_seconds);
    if (valid.ok()) return valid;
    first.Update(valid);
  }
  return first;
}

absl::Status CheckSameAuthority(const IdentityFiles& server, absl::string_view authorities_file,
                                absl::string_view authorities) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<PemCertificate> chain,
                            ParseCertificates(server.certificate_file, server.certificate));
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<PemCertificate> all,
                            ParseCertificates(authorities_file, authorities));
  X509& leaf = *chain[0];
  bool named = false;
  for (const PemCertificate& authority : all) {
    if (X509_NAME_cmp(X509_get_subject_name(authority.get()), X509_get_issuer_name(&leaf)) != 0) {
      continue;
    }
    if (HasSigned(*authority, leaf)) return absl::OkStatus();
    named = true;
  }
  if (!named) return absl::OkStatus();  // clients have another authority than the worker
  return absl::FailedPreconditionError(
      absl::StrCat(authorities_file, " has not signed ", server.certificate_file,
                   ", although it has the name of its authority: they are of two runs of "
                   "--new-certificates. Give files of one folder, or put both authorities into ",
                   authorities_file));
}

}  // namespace penstock::remote
