// Protection of kernel calls during process exit. A program may still be running when the process
// ends (main returns early, exit after an error). The kernels' libraries destroy their static state
// at exit, and a call after that crashes. The exit therefore waits for calls in flight, and later
// calls are rejected.
//
// Internal to room kernels.
#pragma once

namespace penstock::kernels {

// RAII guard that a kernel holds while it uses a library.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  // False if the process is exiting: the library must not be used.
  bool allowed() const { return allowed_; }

 private:
  bool allowed_;
};

// Registers the exit handler that waits for calls. Call it after the libraries have been used for
// the first time: static state is destroyed in the reverse order of its construction.
void WaitForCallsAtExit();

}  // namespace penstock::kernels
