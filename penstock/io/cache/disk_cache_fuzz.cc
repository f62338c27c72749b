// Cache files as a failing disk or another program may leave them: corruption is detected, or the
// bytes match their checksums. The first byte of the input selects how much of the header is
// repaired before reading, because random bytes never contain a valid 64-bit checksum.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#define XXH_INLINE_ALL
#include <arrow/vendored/xxhash.h>
#include <unistd.h>

#include "penstock/base/status.h"
#include "penstock/io/cache/disk_cache.h"

namespace {

using penstock::io::DiskCache;

constexpr size_t kHeaderBytes = 4096;

struct Cache {
  std::string folder = absl::StrCat(std::filesystem::temp_directory_path().string(),
                                    "/penstock_disk_cache_fuzz_", ::getpid());
  std::unique_ptr<DiskCache> cache;
  std::string entry;  // path of block 1 of "file"
  std::string whole;  // its contents when valid

  Cache() {
    cache = *DiskCache::Open({.folder = folder, .warn = [](const std::string&) {}});
    cache->Store("file", 1, "version", std::string(70'000, 'x'));
    for (const auto& found : std::filesystem::recursive_directory_iterator(folder)) {
      if (found.is_regular_file() && found.path().filename() != "lock") entry = found.path();
    }
    PENSTOCK_CHECK(!entry.empty());
    std::ifstream in(entry, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  ~Cache() { std::filesystem::remove_all(folder); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Cache made;
  if (size < 1) return 0;
  const uint8_t how = data[0];
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (how & 1) {
    // The input modifies a valid entry: pairs of an offset and a byte.
    std::string changed = made.whole;
    for (size_t i = 0; i + 3 < bytes.size(); i += 4) {
      uint32_t at = 0;
      std::memcpy(&at, &bytes[i], 3);
      if (at < changed.size()) changed[at] = bytes[i + 3];
    }
    if (how & 8) changed.resize(bytes.size() * 64 % (changed.size() + 1));
    bytes = std::move(changed);
  }
  if ((how & 2) && bytes.size() >= 8) std::memcpy(bytes.data(), made.whole.data(), 8);  // magic
  if ((how & 4) && bytes.size() >= kHeaderBytes) {
    const uint64_t checksum = XXH3_64bits(bytes.data() + 16, kHeaderBytes - 16);
    std::memcpy(bytes.data() + 8, &checksum, sizeof(checksum));
  }
  std::ofstream(made.entry, std::ios::binary | std::ios::trunc) << bytes;

  const auto found = made.cache->Find("file", 1);
  if (found == nullptr) return 0;
  PENSTOCK_CHECK(found->size() >= 0 && found->size() <= DiskCache::kBlockBytes);
  PENSTOCK_CHECK(found->version().size() < kHeaderBytes);
  PENSTOCK_CHECK(bytes.size() == kHeaderBytes + static_cast<size_t>(found->size()));
  std::string read(static_cast<size_t>(found->size()), '\0');
  if (found->Read(0, absl::MakeSpan(read.data(), read.size()))) {
    PENSTOCK_CHECK(read == bytes.substr(kHeaderBytes));
  }
  const int64_t middle = found->size() / 2;
  (void)found->Read(middle,
                    absl::MakeSpan(read.data(), static_cast<size_t>(found->size() - middle)));
  return 0;
}
