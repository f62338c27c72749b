// How the commands attach and devices write a worker's sessions.
#pragma once

#include <string>

#include "penstock/remote/protocol.pb.h"

namespace penstock::cli {

// "session 4f3a91c2 of ada at laptop since 14:02, idle 3 min, devices 0-7".
std::string SessionLine(const remote::SessionInfo& session);

}  // namespace penstock::cli
