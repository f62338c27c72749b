// Fault injection for `penstock pack` and `penstock reshard`: errnos are injected into every system
// call of the command. Each case ends with the bytes of an uninterrupted run, or with exit code 1
// and a message that contains the path and the error. No other files change, an incomplete folder
// is rejected, and a second run completes it.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/cli/testing/command_fixture.h"
#include "penstock/image/encode.h"
#include "penstock/image/view.h"
#include "penstock/io/local/local_output_stream.h"
#include "penstock/io/testing/system_call_faults.h"
#include "penstock/pack/shard_plan.h"
#include "penstock/record/tfrecord.h"

namespace penstock::cli {
namespace pack_local_faults_test {

using io::SystemCallFault;
using Threads = SystemCallFault::Threads;
using Tree = std::map<std::string, std::string>;
namespace fs = std::filesystem;

// Uses memory if possible, since every case writes and syncs several files.
fs::path NewRoot() {
  const char* const memory = "/dev/shm";
  const std::string folder = ::access(memory, W_OK) == 0 ? memory : ::testing::TempDir();
  return absl::StrCat(folder, "/penstock_pack_faults_", absl::Hex(base::EntropySeed()));
}

class PackLocalFaults : public ::testing::Test {
 protected:
  PackLocalFaults() {
    for (int i = 0; i < 4; ++i) {
      const fs::path file =
          root_ / "images" / (i % 2 == 0 ? "even" : "odd") / absl::StrCat(i, ".png");
      fs::create_directories(file.parent_path());
      base::Array pixels = base::Array::Zeros(base::DType::kU8, {4, 4, 1});
      pixels.mutable_data<uint8_t>()[0] = static_cast<uint8_t>(i);
      std::ofstream(file, std::ios::binary) << *image::EncodePng(*image::ViewOf(pixels));
    }
    fs::create_directories(root_ / "shards");
    for (const bool zipped : {false, true}) {
      auto writer = record::TfRecordWriter::Create(
          *io::FileSystem::Default(),
          (root_ / "shards" / (zipped ? "b.tfrec" : "a.tfrec")).string(),
          {.compression = zipped ? record::Compression::kGzip : record::Compression::kNone});
      for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE((*writer)->Append(absl::StrCat("record ", zipped, " ", i)).ok());
      }
      EXPECT_TRUE((*writer)->Close().ok());
    }
  }
  ~PackLocalFaults() override { fs::remove_all(root_); }

  // Returns all files below a folder with their bytes.
  Tree TreeOf(const std::string& folder) const {
    Tree tree;
    if (!fs::exists(root_ / folder)) return tree;
    for (const auto& entry : fs::recursive_directory_iterator(root_ / folder)) {
      if (entry.is_regular_file())
        tree[fs::relative(entry.path(), root_ / folder).string()] = testing::Bytes(entry.path());
    }
    return tree;
  }

  std::vector<std::string> Command(const std::string& name) const {
    const std::string in = (root_ / (name == "pack" ? "images" : "shards")).string();
    return {name, in,          "--out", (root_ / "out").string(), "--shards",
            "2",  "--threads", "1",     "--skip-unreadable"};
  }

  testing::CommandResult Run(const std::string& name, const SystemCallFault& fault) {
    // Armed inside, so that the capture of the output is not affected.
    return testing::Penstock(
        Command(name), [&] { io::ArmSystemCalls(fault); },
        [&] { calls_ = io::DisarmSystemCalls(); });
  }

  void RemoveUnpublished() const {
    for (const auto& [file, bytes] : TreeOf("out")) {
      if (io::IsUnpublished(file)) fs::remove(root_ / "out" / file);
    }
  }

  bool IsComplete() const {
    std::vector<std::string> shards;
    for (const auto& [file, bytes] : TreeOf("out")) {
      if (absl::EndsWith(file, ".tfrec")) shards.push_back((root_ / "out" / file).string());
    }
    return !shards.empty() && pack::CheckShardsComplete(*io::FileSystem::Default(), shards).ok();
  }

  void CheckResult(const SystemCallFault& fault, const testing::CommandResult& result) {
    ASSERT_TRUE(TreeOf("images") == images_ && TreeOf("shards") == shards_);
    const Tree out = TreeOf("out");
    if (out != reference_) {
      ASSERT_FALSE(IsComplete());
    }
    if (result.code == 0) {
      ASSERT_TRUE(out == reference_) << "the command succeeded with different files";
      return;
    }
    ASSERT_EQ(result.code, 1);
    ASSERT_TRUE(absl::StrContains(result.err, root_.string())) << result.err;
    // The missing file may be a link or a parent folder, and a lock that would block is another process's.
    const std::string error = std::generic_category().message(fault.error);
    const bool is_own_message = fault.error == ENOENT || fault.error == EEXIST ||
                                (fault.call == "flock" && fault.error == EWOULDBLOCK);
    ASSERT_TRUE(is_own_message || absl::StrContains(result.err, error)) << result.err;
    ASSERT_FALSE(absl::StrContains(result.err, "are unreadable")) << "an input was skipped";
  }

  // Returns true if the fault hides an entry from a listing, like an entry that is removed between
  // the listing of the folder and the stat of the entry.
  static bool HidesEntry(const SystemCallFault& fault) {
    const bool is_missing = fault.error == ENOENT || fault.error == ENOTDIR || fault.error == ELOOP;
    const bool is_lookup = fault.call == "stat" || fault.call == "fstatat" ||
                           fault.call == "lstat" || fault.call == "opendir" ||
                           fault.call == "realpath";
    return is_missing && is_lookup;
  }

  // Returns one of three common errors, and one of all errors, which varies with the case.
  // tools/fuzz tests all errors.
  std::vector<int> ErrorsAt(int number) const {
    if (std::getenv("PENSTOCK_FUZZ_SECONDS") != nullptr) {
      std::vector<int> all(EHWPOISON);
      std::iota(all.begin(), all.end(), 1);
      return all;
    }
    const int usual[] = {EIO, ENOENT, ENOSPC};
    return {usual[number % 3], 1 + (number * 7 + cases_) % EHWPOISON};
  }

  void RunCases(const std::string& name) {
    images_ = TreeOf("images");
    shards_ = TreeOf("shards");
    std::map<Threads, std::map<std::string, int>> made;
    for (const Threads threads : {Threads::kThis, Threads::kOthers}) {
      fs::remove_all(root_ / "out");
      const auto whole = Run(name, {.threads = threads});
      ASSERT_EQ(whole.code, 0) << whole.err;
      made[threads] = calls_.made;
      reference_ = TreeOf("out");
    }
    ASSERT_EQ(reference_.count("pack-plan.json"), 1u);
    ASSERT_TRUE(IsComplete());
    for (const auto& [threads, names] : made) {
      for (const auto& [call, count] : names) {
        for (int number = 0; number < count; ++number) {
          for (const int error : ErrorsAt(number)) {
            for (const bool persistent : {false, true}) {
              if (persistent && (number > 0 || (error != EIO && error != ENOSPC))) continue;
              ++cases_;
              const SystemCallFault fault{.call = call,
                                          .number = number,
                                          .persistent = persistent,
                                          .error = error,
                                          .threads = threads};
              SCOPED_TRACE(absl::StrCat(name, ": ", call, " number ", number, " of ",
                                        threads == Threads::kThis ? "the main thread" : "the pool",
                                        persistent ? " and all later calls: " : ": ",
                                        std::generic_category().message(error)));
              RunCase(name, fault);
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
    EXPECT_GT(cases_, 200);
  }

  void RunCase(const std::string& name, const SystemCallFault& fault) {
    fs::remove_all(root_ / "out");
    const auto result = Run(name, fault);
    ASSERT_TRUE(calls_.hit);
    if (result.code == 0 && HidesEntry(fault) && TreeOf("out") != reference_) return;
    // A file that cannot be removed stays, but listings ignore it.
    if (fault.call == "unlink") RemoveUnpublished();
    CheckResult(fault, result);
    if (HasFatalFailure() || result.code == 0) return;
    const auto again = Run(name, {});
    if (HidesEntry(fault) && absl::StrContains(again.err, "list of")) return;
    ASSERT_EQ(again.code, 0) << again.err << " after " << result.err;
    ASSERT_TRUE(TreeOf("out") == reference_) << "the second run made different files";
  }

  const fs::path root_ = NewRoot();
  io::SystemCalls calls_;
  Tree images_, shards_, reference_;
  int cases_ = 0;
};

TEST_F(PackLocalFaults, PackCompletesOrFailsWithResumableError) { RunCases("pack"); }
TEST_F(PackLocalFaults, ReshardCompletesOrFailsWithResumableError) { RunCases("reshard"); }

}  // namespace pack_local_faults_test
}  // namespace penstock::cli
