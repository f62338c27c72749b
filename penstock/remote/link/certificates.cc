#include "penstock/remote/link/certificates.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/status.h"

namespace penstock::remote {
namespace {

template <auto Free>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpenSslFree<X509_free>>;
using BioPtr = std::unique_ptr<BIO, OpenSslFree<BIO_free_all>>;

constexpr long kDay = 24 * 60 * 60;

absl::Status OpenSslError(absl::string_view what) {
  char text[256] = "unknown reason";
  if (const unsigned long code = ERR_get_error(); code != 0)
    ERR_error_string_n(code, text, sizeof(text));
  return absl::InternalError(absl::StrCat("cannot ", what, ": OpenSSL: ", text));
}

struct Identity {
  KeyPtr key;
  CertificatePtr certificate;
};

bool AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

struct CertificateRequest {
  std::string common_name;
  long days;
  std::vector<std::pair<int, std::string>> extensions;
};

// Signed by `issuer`; by itself if that is null.
absl::StatusOr<Identity> Issue(const CertificateRequest& request, const Identity* issuer) {
  Identity made{KeyPtr(EVP_EC_gen("P-256")), CertificatePtr(X509_new())};
  X509* certificate = made.certificate.get();
  if (!made.key || certificate == nullptr) return OpenSslError("make a key");
  unsigned char serial[16];
  if (RAND_bytes(serial, sizeof(serial)) != 1) return OpenSslError("make a serial number");
  serial[0] &= 0x7f;  // positive
  BIGNUM* number = BN_bin2bn(serial, sizeof(serial), nullptr);
  bool ok = BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  X509_NAME* name = X509_get_subject_name(certificate);
  ok = ok && X509_set_version(certificate, 2) == 1 &&
       // A day back: clocks differ.
       X509_gmtime_adj(X509_getm_notBefore(certificate), -kDay) != nullptr &&
       X509_gmtime_adj(X509_getm_notAfter(certificate), request.days * kDay) != nullptr &&
       X509_NAME_add_entry_by_txt(
           name, "CN", MBSTRING_UTF8,
           reinterpret_cast<const unsigned char*>(request.common_name.c_str()), -1, -1, 0) == 1 &&
       X509_set_pubkey(certificate, made.key.get()) == 1;
  X509* by = issuer == nullptr ? certificate : issuer->certificate.get();
  ok = ok && X509_set_issuer_name(certificate, X509_get_subject_name(by)) == 1;
  for (const auto& [id, value] : request.extensions)
    ok = ok && AddExtension(certificate, by, id, value);
  EVP_PKEY* signer = issuer == nullptr ? made.key.get() : issuer->key.get();
  if (!ok || X509_sign(certificate, signer, EVP_sha256()) == 0) {
    return OpenSslError(absl::StrCat("make the certificate of ", request.common_name));
  }
  return made;
}

absl::Status WriteNewFile(const std::string& path, BIO* bytes, mode_t mode) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bytes, &data);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists already, and is not overwritten"));
  }
  bool ok = fd >= 0;
  for (long done = 0; ok && done < size;) {
    const ssize_t written = write(fd, data + done, static_cast<size_t>(size - done));
    ok = written > 0;
    done += written;
  }
  const int error = errno;
  if (fd >= 0) ok = close(fd) == 0 && ok;
  if (ok) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

absl::Status WriteIdentity(const std::string& path, const Identity& identity) {
  const BioPtr key(BIO_new(BIO_s_mem())), certificate(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(key.get(), identity.key.get(), nullptr, nullptr, 0, nullptr,
                                    nullptr) != 1 ||
      PEM_write_bio_X509(certificate.get(), identity.certificate.get()) != 1) {
    return OpenSslError(absl::StrCat("write ", path, ".pem"));
  }
  PENSTOCK_RETURN_IF_ERROR(WriteNewFile(absl::StrCat(path, ".key"), key.get(), 0600));
  return WriteNewFile(absl::StrCat(path, ".pem"), certificate.get(), 0644);
}

// "DNS:tpu1,IP:10.0.0.7"
absl::StatusOr<std::string> AlternativeNames(const std::vector<std::string>& hosts) {
  if (hosts.empty()) {
    return absl::InvalidArgumentError("name the hosts by which clients will reach the worker");
  }
  std::string names;
  for (const std::string& host : hosts) {
    unsigned char address[16];
    const bool is_ip = inet_pton(AF_INET, host.c_str(), address) == 1 ||
                       inet_pton(AF_INET6, host.c_str(), address) == 1;
    bool valid = is_ip || !host.empty();
    for (const char c : host) {
      valid = valid && (is_ip || absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
                        c == '-' || c == '_' || c == '*');
    }
    if (!valid) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", host, "\" is no host name or IP address"));
    }
    absl::StrAppend(&names, names.empty() ? "" : ",", is_ip ? "IP:" : "DNS:", host);
  }
  return names;
}

}  // namespace

absl::Status MakeCertificates(const std::string& folder, const std::vector<std::string>& hosts) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string names, AlternativeNames(hosts));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  for (const char* file :
       {"ca.pem", "ca.key", "server.pem", "server.key", "client.pem", "client.key"}) {
    const std::string path = absl::StrCat(folder, "/", file);
    if (std::filesystem::exists(path, error)) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " exists already, and is not overwritten"));
    }
  }
  PENSTOCK_ASSIGN_OR_RETURN(const Identity ca,
                            Issue({"penstock authority",
                                   3650,
                                   {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                    {NID_key_usage, "critical,keyCertSign,cRLSign"},
                                    {NID_subject_key_identifier, "hash"}}},
                                  nullptr));
  PENSTOCK_ASSIGN_OR_RETURN(const Identity server,
                            Issue({"penstock worker",
                                   825,
                                   {{NID_basic_constraints, "critical,CA:FALSE"},
                                    {NID_key_usage, "critical,digitalSignature"},
                                    {NID_ext_key_usage, "serverAuth"},
                                    {NID_subject_alt_name, names}}},
                                  &ca));
  PENSTOCK_ASSIGN_OR_RETURN(const Identity client,
                            Issue({"penstock client",
                                   825,
                                   {{NID_basic_constraints, "critical,CA:FALSE"},
                                    {NID_key_usage, "critical,digitalSignature"},
                                    {NID_ext_key_usage, "clientAuth"}}},
                                  &ca));
  PENSTOCK_RETURN_IF_ERROR(WriteIdentity(absl::StrCat(folder, "/ca"), ca));
  PENSTOCK_RETURN_IF_ERROR(WriteIdentity(absl::StrCat(folder, "/server"), server));
  return WriteIdentity(absl::StrCat(folder, "/client"), client);
}

}  // namespace penstock::remote
