// How much memory this process can still take: before something large is read into it.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::base {

struct MemoryRoom {
  int64_t bytes = INT64_MAX;  // INT64_MAX: not to be found out here
  std::string limited_by;     // "this machine", "the cgroup '/user.slice'"
};

// The least of what Linux says is available (MemAvailable: without swapping) and of the room in the
// cgroups, version 1 or 2, that the process is in; memory that only caches files counts as room.
// `root` stands before /proc and /sys, for tests.
MemoryRoom AvailableMemory(const std::string& root = "");

// "1.5 GiB", "300 MiB".
std::string PrintBytes(int64_t bytes);

}  // namespace penstock::base
