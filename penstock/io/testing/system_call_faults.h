// System calls of this program that fail when a test says so. The linker gives the program these
// calls in place of the C library's (penstock_wrap_system_calls in cmake/Room.cmake): all that the
// program's own code makes, and none that shared libraries make.
//
//   ArmSystemCalls({.call = "fsync", .number = 2, .error = EIO});
//   ... whatever is tested ...
//   const SystemCalls calls = DisarmSystemCalls();
//   EXPECT_TRUE(calls.hit);
#pragma once

#include <map>
#include <string>

namespace penstock::io {

struct SystemCallFault {
  std::string call = {};  // the name of the system call; "": none fails, calls are only counted
  int number = 0;         // the first one that fails, from 0
  bool for_ever = false;  // and all after it
  int error = 0;          // the errno
  bool one_byte = false;  // no read or write moves more than one byte
  // Which threads' calls are counted and fail: those of the thread that arms, or of the others.
  // What one thread calls comes in the same order every time; the calls of several do not.
  enum class Threads { kAll, kThis, kOthers } threads = Threads::kAll;
};

struct SystemCalls {
  std::map<std::string, int> made = {};  // number of calls, by name
  bool hit = false;                      // whether one failed
};

// From now on, until DisarmSystemCalls. Any thread may make calls meanwhile.
void ArmSystemCalls(SystemCallFault fault);
SystemCalls DisarmSystemCalls();

}  // namespace penstock::io
