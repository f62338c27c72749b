#include "penstock/runtime/cache/cache_key.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include <openssl/evp.h>
#include <sys/stat.h>

#include "penstock/base/status.h"
#include "penstock/runtime/cache/compile_cache.h"

namespace penstock::runtime {
namespace {

// Incremental SHA-256.
class Hash {
 public:
  Hash() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    PENSTOCK_CHECK(context_ != nullptr &&
                   EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void Add(const char* bytes, size_t size) {
    PENSTOCK_CHECK(EVP_DigestUpdate(context_.get(), bytes, size) == 1);
  }
  std::string Digits() {
    std::array<unsigned char, kKeyDigits / 2> digest;
    PENSTOCK_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
    return absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

absl::Status CheckSha256() {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  if (context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "OpenSSL does not provide SHA-256 (its configuration, OPENSSL_CONF, may exclude the "
      "provider)");
}

std::string Sha256(absl::string_view bytes) {
  Hash hash;
  hash.Add(bytes.data(), bytes.size());
  return hash.Digits();
}

std::string CacheKey(absl::Span<const std::string> parts) {
  Hash hash;
  for (const std::string& part : parts) {
    const std::string length = absl::StrCat(part.size(), ":");
    hash.Add(length.data(), length.size());
    hash.Add(part.data(), part.size());
  }
  return hash.Digits();
}

std::string FileIdentity(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return "";
  // Also ctime: unlike mtime it cannot be set back.
  return absl::StrCat(info.st_dev, ":", info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec,
                      ".", info.st_mtim.tv_nsec, ":", info.st_ctim.tv_sec, ".",
                      info.st_ctim.tv_nsec);
}

absl::StatusOr<std::string> HashFile(const std::string& path, const std::string& identity,
                                     CompileCache& cache) {
  const std::string key = CacheKey({"hash of a file", path, identity});
  std::optional<std::string> known = cache.Find(key);
  if (known.has_value() && known->size() == kKeyDigits) return *known;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(1 << 20);
  Hash hash;
  while (file.read(piece.data(), piece.size()) || file.gcount() > 0) {
    hash.Add(piece.data(), file.gcount());
  }
  if (!file.eof()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  if (identity.empty() || FileIdentity(path) != identity) {
    return absl::FailedPreconditionError(absl::StrCat(path, " changed after it was loaded"));
  }
  std::string digits = hash.Digits();
  cache.Store(key, digits);
  return digits;
}

absl::StatusOr<std::string> ProcessorFeatures(const std::string& cpuinfo) {
  // x86 and Arm; the other lines change from run to run (clock frequency) or are irrelevant to a
  // compiler.
  static constexpr const char* kNames[] = {
      "vendor_id",       "cpu family", "model",       "model name",   "stepping", "flags",
      "CPU implementer", "CPU part",   "CPU variant", "CPU revision", "Features"};
  std::ifstream file(cpuinfo);
  std::string features, line;
  while (std::getline(file, line)) {
    const absl::string_view text = line;
    const size_t colon = text.find(':');
    if (colon == absl::string_view::npos) {
      if (!features.empty()) break;  // the first processor is every processor
      continue;
    }
    const absl::string_view name = absl::StripAsciiWhitespace(text.substr(0, colon));
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) continue;
    absl::StrAppend(&features, line, "\n");
  }
  if (features.empty()) {
    return absl::UnavailableError(
        absl::StrCat("the processor is unknown: ", cpuinfo, " does not describe it"));
  }
  return absl::StrCat(features, "threads: ", std::thread::hardware_concurrency());
}

std::string EnvironmentFlags() {
  std::string flags;
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS", "TF_XLA_FLAGS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    absl::StrAppend(&flags, name, "=", value, "\n");
    if (*value == '\0' || *value == '-') continue;
    std::ifstream file(value);
    std::ostringstream contents;
    contents << file.rdbuf();
    absl::StrAppend(&flags, contents.str(), "\n");
  }
  return flags;
}

}  // namespace penstock::runtime
