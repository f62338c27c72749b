// What a compiled program depends on, as a key of the compile cache. A program may be taken from
// the cache only where compiling it again would make the same, so the key holds
//
//   - the program's text without locations, and the encoded compile options (replicas, devices,
//     XLA flags of this program);
//   - the plugin: a hash of its file, not its version, which people forget to change; what it calls
//     its platform and version;
//   - the devices: how many there are and of which kind;
//   - the processor: an executable made for other instructions ends the process when it runs;
//   - flags that compilers read from the environment.
//
// Each part stands behind its length, so that no two lists of parts give the same text.
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

// In hexadecimal digits.
std::string Sha256(absl::string_view bytes);
std::string CacheKey(absl::Span<const std::string> parts);

// Which file a path names and whether it changed: device, inode, size and times. Empty when there
// is none.
std::string FileIdentity(const std::string& path);

// SHA-256 of the file that had this identity when it was loaded; an error when it has another by
// now. Read once: `cache` remembers it for the identity.
absl::StatusOr<std::string> HashFile(const std::string& path, const std::string& identity,
                                     CompileCache& cache);

// What compilers see of this machine's processor: its kind, its instructions, and how many threads
// may run.
absl::StatusOr<std::string> ProcessorFeatures(const std::string& cpuinfo = "/proc/cpuinfo");

// Flags in the environment. XLA_FLAGS may name a file of them: then what that holds.
std::string EnvironmentFlags();

}  // namespace penstock::runtime
