// FaultyFileSystem: a file system with failpoints. It fails, or kills the program, at a chosen
// change (crash point), to test that stored data survives.
//
//   FaultyFileSystem fs(inner, [](int64_t change) {
//     return change == 7 ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
//   });
//
// Changes are numbered from 0, in the order in which they happen. A change is an Append (at the
// time when half of the bytes are with the inner file system), a Close (twice: before the file is
// published and after), a Remove (twice: before the file is gone and after), and every file and the
// folder of a RemoveRecursively. Reading is not a change; Counts::kEveryCall numbers it as well:
// opening, every Read (of streams too), Stat, List, ListRecursive.
//
// Any thread may use it; the fault is called on the thread that makes the call.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/io/forwarding_file_system.h"

namespace penstock::save {

class FaultyFileSystem : public io::ForwardingFileSystem {
 public:
  // Called at every change. If it returns an error, the operation returns that error.
  using Fault = std::function<absl::Status(int64_t change)>;

  // Which calls are numbered.
  enum class Counts { kChanges, kEveryCall };

  FaultyFileSystem(std::shared_ptr<io::FileSystem> inner, Fault fault,
                   Counts counts = Counts::kChanges)
      : ForwardingFileSystem(std::move(inner)), fault_(std::move(fault)), counts_(counts) {}

  absl::Status Change() { return fault_(next_change_++); }
  absl::Status Look() { return counts_ == Counts::kEveryCall ? Change() : absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override;
  absl::StatusOr<io::FileInfo> Stat(absl::string_view uri) override;
  absl::StatusOr<std::vector<io::FileInfo>> List(absl::string_view uri) override;
  absl::StatusOr<std::vector<io::FileInfo>> ListRecursive(absl::string_view uri) override;
  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override;
  absl::Status Remove(absl::string_view uri) override;
  absl::Status RemoveRecursively(absl::string_view uri) override;
  absl::Status CreateFolder(absl::string_view uri) override;

 private:
  Fault fault_;
  Counts counts_;
  std::atomic<int64_t> next_change_ = 0;
};

}  // namespace penstock::save
