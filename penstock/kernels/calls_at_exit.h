// Programs may still run when the process ends: a main that returns early, an exit after an error.
// Kernels' libraries destroy what they keep at exit, and a call that comes after that crashes. So
// the exit waits for the calls that have begun, and later ones are refused.
//
// Internal to room kernels.
#pragma once

namespace penstock::kernels {

// What a kernel holds while it uses a library.
class LibraryCall {
 public:
  LibraryCall();
  ~LibraryCall();
  LibraryCall(const LibraryCall&) = delete;
  LibraryCall& operator=(const LibraryCall&) = delete;

  // False: the process is ending, and the library must not be touched.
  bool allowed() const { return allowed_; }

 private:
  bool allowed_;
};

// From now on, the exit waits. To be called when the libraries have been used: what they keep is
// destroyed in the opposite order of its making.
void WaitForCallsAtExit();

}  // namespace penstock::kernels
