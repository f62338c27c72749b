// GatedFileSystem: a file system whose writes wait while a test keeps the gate closed, to observe
// what happens during a slow write.
//
//   GatedFileSystem fs(io::MakeMemoryFileSystem());
//   fs.Close();
//   checkpoints.Save(checkpoint);   // asynchronous
//   fs.AwaitWriter();               // its first file is being created, and waits
//   fs.Open();
//
// The gate is open at first. Any thread may use it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "penstock/io/forwarding_file_system.h"

namespace penstock::save {

class GatedFileSystem : public io::ForwardingFileSystem {
 public:
  explicit GatedFileSystem(std::shared_ptr<io::FileSystem> inner)
      : ForwardingFileSystem(std::move(inner)) {}

  void Close() { Set(false); }
  void Open() { Set(true); }
  // Blocks until a Create waits at the gate.
  void AwaitWriter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
    {
      std::unique_lock lock(mutex_);
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
      --waiting_;
    }
    return next().Create(uri);
  }

 private:
  void Set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};

}  // namespace penstock::save
