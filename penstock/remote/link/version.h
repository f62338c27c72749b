// Versions of the protocol that this program speaks: the meaning of frames and of the messages of
// protocol.proto. The server picks the highest one that both sides speak.
#pragma once

#include <cstdint>

namespace penstock::remote {

inline constexpr uint32_t kMinProtocolVersion = 1;
inline constexpr uint32_t kMaxProtocolVersion = 1;

}  // namespace penstock::remote
