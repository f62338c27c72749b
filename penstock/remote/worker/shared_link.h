// SharedLink: a link that several threads use until it is closed. Internal to room remote.
#pragma once

#include <condition_variable>
#include <mutex>

#include "absl/functional/function_ref.h"

#include "penstock/remote/link/link.h"

namespace penstock::remote {

class SharedLink {
 public:
  void Set(Link* link) { link_ = link; }
  // Calls `use` with the link; does nothing after Release. Calls may overlap.
  void Use(absl::FunctionRef<void(Link&)> use);
  // Waits until no thread uses the link; none does afterwards.
  void Release();

 private:
  std::mutex mutex_;
  std::condition_variable unused_;
  Link* link_ = nullptr;
  int users_ = 0;
};

}  // namespace penstock::remote
