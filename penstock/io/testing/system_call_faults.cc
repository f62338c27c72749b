#include "penstock/io/testing/system_call_faults.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::io {
namespace {

struct State {
  std::atomic<bool> armed = false;
  std::mutex mutex;
  // Guarded by mutex.
  SystemCallFault fault;
  SystemCalls calls;
  std::thread::id armed_by;
};

// Never destroyed: calls are made until the process ends.
State& TheState() {
  static auto* const state = new State;
  return *state;
}

bool Fails(const char* call) {
  State& state = TheState();
  if (!state.armed) return false;
  std::lock_guard lock(state.mutex);
  const SystemCallFault& fault = state.fault;
  using Threads = SystemCallFault::Threads;
  const bool is_this = std::this_thread::get_id() == state.armed_by;
  if (fault.threads != Threads::kAll && is_this != (fault.threads == Threads::kThis)) return false;
  const int number = state.calls.made[call]++;
  if (fault.call != call || (fault.error == 0 && !fault.kill && fault.signal == 0)) return false;
  if (number != fault.number && !(fault.persistent && number > fault.number)) return false;
  if (fault.kill) ::raise(SIGKILL);
  state.calls.hit = true;
  if (fault.signal != 0) {
    ::raise(fault.signal);
    return false;
  }
  errno = fault.error;
  return true;
}

size_t AtMost(size_t size) {
  State& state = TheState();
  if (!state.armed || size <= 1) return size;
  std::lock_guard lock(state.mutex);
  return state.fault.one_byte ? 1 : size;
}

}  // namespace

void ArmSystemCalls(SystemCallFault fault) {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.fault = std::move(fault);
  state.calls = {};
  state.armed_by = std::this_thread::get_id();
  state.armed = true;
}

SystemCalls DisarmSystemCalls() {
  State& state = TheState();
  std::lock_guard lock(state.mutex);
  state.armed = false;
  return std::move(state.calls);
}

#define PENSTOCK_WRAP(Return, name, parameters, arguments, failed)              \
  extern "C" Return __real_##name parameters;  /* NOLINT: the linker's names */ \
  extern "C" Return __wrap_##name parameters;  /* NOLINT */                     \
  extern "C" Return __wrap_##name parameters { /* NOLINT */                     \
    if (Fails(#name)) return failed;                                            \
    return __real_##name arguments;                                             \
  }

// open and fcntl take their third argument from the same place whether it is named or not.
PENSTOCK_WRAP(int, open, (const char* path, int flags, mode_t mode), (path, flags, mode), -1)
PENSTOCK_WRAP(int, mkostemp, (char* path, int flags), (path, flags), -1)
PENSTOCK_WRAP(int, fcntl, (int fd, int what, long value), (fd, what, value), -1)  // NOLINT
PENSTOCK_WRAP(ssize_t, read, (int fd, void* p, size_t n), (fd, p, AtMost(n)), -1)
PENSTOCK_WRAP(ssize_t, pread, (int fd, void* p, size_t n, off_t at), (fd, p, AtMost(n), at), -1)
PENSTOCK_WRAP(ssize_t, write, (int fd, const void* p, size_t n), (fd, p, AtMost(n)), -1)
PENSTOCK_WRAP(ssize_t, pwrite, (int fd, const void* p, size_t n, off_t at), (fd, p, AtMost(n), at),
              -1)
PENSTOCK_WRAP(int, fsync, (int fd), (fd), -1)
PENSTOCK_WRAP(int, fstat, (int fd, struct stat* out), (fd, out), -1)
PENSTOCK_WRAP(int, stat, (const char* path, struct stat* out), (path, out), -1)
PENSTOCK_WRAP(int, lstat, (const char* path, struct stat* out), (path, out), -1)
PENSTOCK_WRAP(int, fstatat, (int fd, const char* path, struct stat* out, int flags),
              (fd, path, out, flags), -1)
PENSTOCK_WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
PENSTOCK_WRAP(int, ftruncate, (int fd, off_t size), (fd, size), -1)
PENSTOCK_WRAP(int, flock, (int fd, int what), (fd, what), -1)
PENSTOCK_WRAP(int, futimens, (int fd, const timespec* times), (fd, times), -1)
PENSTOCK_WRAP(int, rename, (const char* from, const char* to), (from, to), -1)
PENSTOCK_WRAP(int, unlink, (const char* path), (path), -1)
PENSTOCK_WRAP(int, mkdir, (const char* path, mode_t mode), (path, mode), -1)
PENSTOCK_WRAP(DIR*, opendir, (const char* path), (path), nullptr)
PENSTOCK_WRAP(dirent*, readdir, (DIR * folder), (folder), nullptr)
PENSTOCK_WRAP(char*, realpath, (const char* path, char* out), (path, out), nullptr)
PENSTOCK_WRAP(void*, mmap, (void* at, size_t size, int protect, int flags, int fd, off_t offset),
              (at, size, protect, flags, fd, offset), MAP_FAILED)

// Linux closes a file also when close reports an error.
extern "C" int __real_close(int fd);
extern "C" int __wrap_close(int fd);
extern "C" int __wrap_close(int fd) {
  const bool fails = Fails("close");
  const int error = errno;
  const int result = __real_close(fd);
  if (!fails) return result;
  errno = error;
  return -1;
}

}  // namespace penstock::io
