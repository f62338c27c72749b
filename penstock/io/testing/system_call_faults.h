// Fault injection for system calls (failpoints): a test makes a chosen call fail with an errno, or
// kills the process there (crash point). The linker's --wrap replaces the C library's calls
// (penstock_wrap_system_calls in cmake/Room.cmake) in the program's own code, but not in shared
// libraries.
//
//   ArmSystemCalls({.call = "fsync", .number = 2, .error = EIO});
//   EXPECT_FALSE(WriteFile(*fs, path, bytes).ok());
//   const SystemCalls calls = DisarmSystemCalls();
//   EXPECT_TRUE(calls.hit);
#pragma once

#include <map>
#include <string>

namespace penstock::io {

struct SystemCallFault {
  std::string call = {};    // name of the system call; "": calls are only counted
  int number = 0;           // index of the first call that fails, from 0
  bool persistent = false;  // all later calls fail as well
  int error = 0;            // the errno
  bool kill = false;        // crash point: SIGKILL before the call instead of an error
  int signal = 0;           // raised before the call, which is made then
  bool one_byte = false;    // reads and writes transfer one byte at a time
  // Threads whose calls are counted and fail: all, the thread that arms the fault, or the others.
  // The order of calls is deterministic for one thread only.
  enum class Threads { kAll, kThis, kOthers } threads = Threads::kAll;
};

struct SystemCalls {
  std::map<std::string, int> made = {};  // number of calls by name
  bool hit = false;                      // whether one failed
};

// Activates the fault until DisarmSystemCalls. Other threads may make calls meanwhile.
void ArmSystemCalls(SystemCallFault fault);
SystemCalls DisarmSystemCalls();

}  // namespace penstock::io
