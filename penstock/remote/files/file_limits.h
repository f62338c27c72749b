// How files of the worker travel. Internal to room remote.
#pragma once

#include <cstdint>

namespace penstock::remote {

// Bytes of a file in one message.
inline constexpr int64_t kMaxFilePart = int64_t{4} << 20;

}  // namespace penstock::remote
