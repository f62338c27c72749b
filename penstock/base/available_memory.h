// Available memory: how much this process can still allocate before it swaps or the kernel kills it
// (OOM). Checked before something large is read into memory.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::base {

struct MemoryHeadroom {
  int64_t bytes = INT64_MAX;  // INT64_MAX: unknown on this system
  std::string limited_by;     // "this machine", "the cgroup '/user.slice'"
};

// The minimum of the system's available memory (MemAvailable in /proc/meminfo: without swapping)
// and the memory left below the limits of the process's cgroups, version 1 or 2. Page cache counts
// as available. `root` is prepended to /proc and /sys, for tests.
MemoryHeadroom AvailableMemory(const std::string& root = "");

// Formats a number of bytes for people: "1.5 GiB", "300 MiB".
std::string PrintBytes(int64_t bytes);

}  // namespace penstock::base
