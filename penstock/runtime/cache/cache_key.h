// Compile cache keys: everything that a compiled program depends on. A program may be loaded from
// the cache only if compiling it again would produce the same executable, so the key contains
//
//   - the program's text without locations, and the encoded compile options (replicas, devices,
//     XLA flags of this program),
//   - the plugin: a hash of its file (its version is not always changed), its names of its platform
//     and version,
//   - the devices: their number and kind,
//   - the processor: an executable with unsupported instructions crashes the process,
//   - flags that compilers read from the environment.
//
// Each part is preceded by its length, so that no two lists of parts have the same text.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "penstock/runtime/client.h"

namespace penstock::runtime {

class CompileCache;

constexpr size_t kKeyDigits = 64;

// Checks that SHA-256 is available: OpenSSL's configuration, named by the environment, may exclude
// it. The functions below need it (contract; CompileCache::Open checks).
absl::Status CheckSha256();

// As hexadecimal digits.
std::string Sha256(absl::string_view bytes);
std::string CacheKey(absl::Span<const std::string> parts);

// Identity of a file, which changes when the file does: device, inode, size and times. Empty if
// there is no file.
std::string FileIdentity(const std::string& path);

// SHA-256 of the file that had this identity when it was loaded; an error if its identity has
// changed. `cache` stores the hash by identity, so that the file is read once.
absl::StatusOr<std::string> HashFile(const std::string& path, const std::string& identity,
                                     CompileCache& cache);

// Properties of this machine's processor that compilers use: its kind, its instruction sets, and
// the number of threads.
absl::StatusOr<std::string> ProcessorFeatures(const std::string& cpuinfo = "/proc/cpuinfo");

// Compiler flags in the environment. If XLA_FLAGS names a file of flags: its contents.
std::string EnvironmentFlags();

}  // namespace penstock::runtime
