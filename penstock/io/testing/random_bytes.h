// RandomBytes: contents of files for tests.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::io {

// Returns random bytes that depend on the size and the seed. All aligned 8-byte words differ, so a
// range that is read from a wrong offset is detected.
std::string RandomBytes(int64_t size, uint64_t seed = 0);

}  // namespace penstock::io
