// ForwardingFileSystem: a decorator that forwards every call to another file system. Wrappers (a
// cache, custom requests, fault injection in tests) derive from it and override what they change.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "penstock/io/file_system.h"

namespace penstock::io {

class ForwardingFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    return next_->OpenRandomAccess(uri);
  }
  absl::StatusOr<std::unique_ptr<InputStream>> OpenInput(absl::string_view uri) override {
    return next_->OpenInput(uri);
  }
  absl::StatusOr<std::unique_ptr<OutputStream>> Create(absl::string_view uri) override {
    return next_->Create(uri);
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view uri) override { return next_->Stat(uri); }
  absl::StatusOr<std::vector<FileInfo>> List(absl::string_view uri) override {
    return next_->List(uri);
  }
  absl::StatusOr<std::vector<FileInfo>> ListRecursive(absl::string_view uri) override {
    return next_->ListRecursive(uri);
  }
  absl::Status Remove(absl::string_view uri) override { return next_->Remove(uri); }
  absl::Status RemoveRecursively(absl::string_view uri) override {
    return next_->RemoveRecursively(uri);
  }
  absl::Status CreateFolder(absl::string_view uri) override { return next_->CreateFolder(uri); }

 protected:
  explicit ForwardingFileSystem(std::shared_ptr<FileSystem> next) : next_(std::move(next)) {}
  FileSystem& next() const { return *next_; }

 private:
  const std::shared_ptr<FileSystem> next_;
};

}  // namespace penstock::io
