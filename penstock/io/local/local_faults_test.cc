// Fault table of the local file system and the disk cache: every errno of Linux, at every system
// call that an operation makes, once and persistently. Every case must end with the right bytes, or
// with an error that names the file and has the code of that errno (posix_error.h). Nothing else is
// deleted or changed, no temporary files remain, and the cache never causes an error.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/io/cache/caching_file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/local/mapped_file.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/posix_error.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/testing/system_call_faults.h"

namespace penstock::io {
namespace local_faults_test {

// The fault of the latest Run, and the calls that were made.
SystemCallFault failpoint;
SystemCalls calls;

std::vector<int> AllErrors() {
  std::vector<int> errors(EHWPOISON);
  std::iota(errors.begin(), errors.end(), 1);
  return errors;
}
// Errors that the code handles individually, and several of each other group.
std::vector<int> ManyErrors() {
  return {EIO,    ESTALE, ETIMEDOUT, EAGAIN, EINTR,   ENOENT,       EACCES, EPERM,    EROFS, ENOSPC,
          EDQUOT, EMFILE, ENOTDIR,   EISDIR, EEXIST,  ENAMETOOLONG, ELOOP,  EINVAL,   ENXIO, ENODEV,
          ENOMEM, ENOLCK, ENOTSUP,   ENOSYS, EUCLEAN, ENOTCONN,     EBADF,  ENOTEMPTY};
}
// Errors for later calls of the same name.
std::vector<int> SomeErrors() {
  return {EIO, ESTALE, ETIMEDOUT, EINTR, ENOENT, EACCES, ENOSPC, ENOTDIR};
}

const std::string kOld(5000, 'o');
const std::string kNew(300'000, 'n');  // takes more than one write

// Prefers a file system in memory, because every write operation syncs to disk.
std::string NewRoot() {
  const char* const memory = "/dev/shm";
  const std::string folder = ::access(memory, W_OK) == 0 ? memory : testing::TempDir();
  return absl::StrCat(folder, "/penstock_faults_", absl::Hex(base::EntropySeed()));
}

class LocalFaults : public testing::Test {
 protected:
  ~LocalFaults() override { std::filesystem::remove_all(root_); }

  std::string At(const std::string& name) const { return absl::StrCat(root_, "/", name); }

  void MakeTree() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(At("a/b"));
    for (const char* name : {"file", "beside", "a/x", "a/b/y", "link_target"}) {
      std::ofstream(At(name), std::ios::binary) << kOld;
    }
    std::filesystem::create_symlink("link_target", At("link"));
    std::filesystem::create_directory_symlink("a/b", At("linked"));
  }

  // All paths in the tree with their contents.
  std::map<std::string, std::string> Tree() const {
    std::map<std::string, std::string> tree;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      std::string& content = tree[entry.path().string().substr(root_.size() + 1)];
      if (entry.is_symlink()) {
        content = "-> " + std::filesystem::read_symlink(entry.path()).string();
      } else if (entry.is_regular_file()) {
        std::ifstream in(entry.path(), std::ios::binary);
        content.assign(std::istreambuf_iterator<char>(in), {});
      }
    }
    return tree;
  }

  // The operation under test. Returns an error, or OK if the result is right; a wrong result is
  // Internal with "WRONG".
  using Operation = std::function<absl::Status()>;

  struct Case {
    const char* name;
    Operation run;
    // Whether this state of the tree is allowed after success or, if `failed`, after an error.
    std::function<bool(const std::map<std::string, std::string>&, bool failed)> tree_is_right;
    enum Kind {
      kReads,
      kLists,
      kChanges,  // changes the tree, which is recreated for each run
      kCached,   // must never return an error
    } kind = kReads;
    std::function<void()> before = {};
  };

  // Runs the operation with the fault injected and stores the calls that it made.
  absl::Status Run(const Case& c, SystemCallFault with) {
    if (c.kind == Case::kChanges) MakeTree();
    if (c.before) c.before();
    failpoint = std::move(with);
    ArmSystemCalls(failpoint);
    absl::Status status = c.run();
    calls = DisarmSystemCalls();
    return status;
  }

  void ExpectRight(const Case& c, const absl::Status& status) {
    const int error = failpoint.error;
    SCOPED_TRACE(absl::StrCat(c.name, ": ", failpoint.call, " number ", failpoint.number,
                              failpoint.persistent ? " and all after it: " : ": ",
                              std::strerror(error), " gave ", status.ToString()));
    // Listings omit entries of folders that vanish meanwhile; a dangling link counts as a file.
    const bool gone = error == ENOENT || error == ELOOP || error == ENOTDIR;
    const bool wrong = absl::StrContains(status.message(), "WRONG");
    ASSERT_FALSE(wrong && !(gone && c.kind == Case::kLists && failpoint.call != "readdir"));
    if (c.kind == Case::kCached) {
      ASSERT_OK(status);
    } else if (!status.ok() && !wrong) {
      // The missing file may be the target of a link.
      const bool missing = error == ENOENT && absl::IsFailedPrecondition(status);
      // A folder that exists for mkdir, but no longer when a file is created in it.
      const bool raced = error == EEXIST && failpoint.call == "mkdir" && absl::IsNotFound(status);
      if (raced) return;
      ASSERT_TRUE(missing || status.code() == PosixError(error, "", "").code());
      ASSERT_TRUE(absl::StrContains(status.message(), root_));
      ASSERT_FALSE(absl::IsDataLoss(status));
      ASSERT_TRUE(!absl::IsNotFound(status) || error == ENOENT);
      // Interrupted calls are retried.
      ASSERT_TRUE(error != EINTR || failpoint.call == "realpath" || failpoint.call == "mmap");
    }
    if (c.kind == Case::kReads || c.kind == Case::kLists) return;  // see RunTable
    ASSERT_TRUE(c.tree_is_right(Tree(), !status.ok()))
        << absl::StrJoin(Tree(), ", ", [](std::string* out, const auto& entry) {
             absl::StrAppend(out, entry.first, " of ", entry.second.size());
           });
  }

  void RunTable(const Case& c) {
    // Records the calls that are made without a fault.
    MakeTree();
    ASSERT_OK(Run(c, {})) << c.name;
    ASSERT_TRUE(c.tree_is_right(Tree(), false)) << c.name;
    const std::map<std::string, int> made = calls.made;
    int64_t cells = 0;
    for (const auto& [call, count] : made) {
      for (int number = 0; number < std::min(count, c.kind == Case::kCached ? 3 : 5); ++number) {
        for (const int error : number > 0 || base::kSanitized ? SomeErrors()
                               : c.kind == Case::kReads       ? AllErrors()
                                                              : ManyErrors()) {
          for (const bool persistent : {false, true}) {
            // A persistent EINTR or a lock that is never released would block forever, or for a
            // second.
            if (persistent && (error == EINTR || (call == "flock" && error == EWOULDBLOCK)))
              continue;
            if (persistent &&
                (number > 0 || (error != EIO && error != ENOSPC && error != EACCES))) {
              continue;
            }
            const absl::Status status =
                Run(c, {.call = call, .number = number, .persistent = persistent, .error = error});
            ExpectRight(c, status);
            if (HasFatalFailure()) return;
            ASSERT_TRUE(calls.hit) << call << " " << number;
            ++cells;
          }
        }
      }
    }
    // Reads and writes may always transfer fewer bytes than requested.
    ASSERT_OK(Run(c, {.one_byte = true})) << c.name;
    ASSERT_TRUE(c.tree_is_right(Tree(), false)) << c.name;
    EXPECT_GT(cells, base::FewerIfSanitized(20)) << c.name;
  }

  // The tree is unchanged.
  std::function<bool(const std::map<std::string, std::string>&, bool)> Unchanged() {
    MakeTree();
    return [tree = Tree()](const auto& now, bool) { return now == tree; };
  }

  const std::string root_ = NewRoot();
  const std::shared_ptr<FileSystem> fs_ = MakeLocalFileSystem();
};

absl::Status Wrong(absl::string_view what) {
  return absl::InternalError(absl::StrCat("WRONG: ", what));
}

absl::Status ExpectBytes(const absl::StatusOr<std::string>& got, const std::string& expected) {
  if (!got.ok()) return got.status();
  return *got == expected ? absl::OkStatus() : Wrong(absl::StrCat(got->size(), " bytes"));
}

absl::StatusOr<std::string> ReadRandomly(FileSystem& fs, const std::string& uri) {
  PENSTOCK_ASSIGN_OR_RETURN(const auto file, fs.OpenRandomAccess(uri));
  std::string bytes(static_cast<size_t>(file->size()), '\0');
  // Reads the second half first.
  const size_t half = bytes.size() / 2;
  for (const auto& [begin, end] : {std::pair{half, bytes.size()}, {size_t{0}, half}}) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const int64_t n,
        file->Read(static_cast<int64_t>(begin), absl::MakeSpan(&bytes[begin], end - begin)));
    if (n != static_cast<int64_t>(end - begin)) return Wrong("a short read");
  }
  return bytes;
}

TEST_F(LocalFaults, InReadsGiveBytesOrError) {
  RunTable({"read a stream", [&] { return ExpectBytes(ReadFile(*fs_, At("file")), kOld); },
            Unchanged()});
  RunTable({"read randomly", [&] { return ExpectBytes(ReadRandomly(*fs_, At("link")), kOld); },
            Unchanged()});
  RunTable({"map",
            [&] {
              const auto mapped = MappedFile::Open(At("file"));
              if (!mapped.ok()) return mapped.status();
              return (*mapped)->bytes() == kOld ? absl::OkStatus() : Wrong("mapped");
            },
            Unchanged()});
}

TEST_F(LocalFaults, InListingsLoseNoFile) {
  const auto expect = [](const auto& got, const std::vector<std::string>& expected) {
    if (!got.ok()) return got.status();
    std::vector<std::string> uris;
    for (const FileInfo& info : *got) uris.push_back(info.uri);
    return uris == expected ? absl::OkStatus() : Wrong(absl::StrJoin(uris, " "));
  };
  const std::vector<std::string> files = {At("a/b/y"), At("a/x"),  At("beside"),
                                          At("file"),  At("link"), At("link_target")};
  RunTable({"list",
            [&] {
              return expect(fs_->List(root_), {At("a"), At("beside"), At("file"), At("link"),
                                               At("link_target"), At("linked")});
            },
            Unchanged(), Case::kLists});
  RunTable({"list recursively", [&] { return expect(fs_->ListRecursive(root_), files); },
            Unchanged(), Case::kLists});
  RunTable({"glob at any depth", [&] { return expect(GlobInfos(*fs_, At("**")), files); },
            Unchanged(), Case::kLists});
  RunTable({"glob", [&] { return expect(GlobInfos(*fs_, At("a/*/?")), {At("a/b/y")}); },
            Unchanged(), Case::kLists});
  RunTable({"stat",
            [&] {
              const auto info = fs_->Stat(At("link"));
              if (!info.ok()) return info.status();
              return info->size == 5000 ? absl::OkStatus() : Wrong("size");
            },
            Unchanged(), Case::kLists});
}

TEST_F(LocalFaults, InWritesLeaveOldOrNewFile) {
  const auto right_when = [&](const std::string& name, const std::string& target) {
    MakeTree();
    // Parent folders that were created may remain.
    return [tree = Tree(), name, target](std::map<std::string, std::string> now, bool failed) {
      const auto old = tree.find(target);
      if (failpoint.error == ENOENT && failpoint.call == "lstat" && now[name] == kNew) {
        return true;  // the link vanished before it was followed, so the new file replaces it
      }
      const bool is_new = now.count(target) == 1 && now[target] == kNew;
      const bool is_old = old == tree.end() ? now.count(target) == 0 : now[target] == old->second;
      for (const char* folder : {"new", "new/folder"}) now.erase(folder);
      now.erase(target);
      std::map<std::string, std::string> others = tree;
      others.erase(target);
      return (is_new || (failed && is_old)) && now == others;
    };
  };
  for (const auto& [name, target] : {std::pair<std::string, std::string>{"file", "file"},
                                     {"link", "link_target"},
                                     {"new/folder/file", "new/folder/file"}}) {
    RunTable({"write", [&, name = name] { return WriteFile(*fs_, At(name), kNew); },
              right_when(name, target), Case::kChanges});
    if (HasFatalFailure()) return;
  }
}

TEST_F(LocalFaults, InRemovalsRemoveNothingElse) {
  MakeTree();
  RunTable({"remove", [&] { return fs_->Remove(At("file")); },
            [tree = Tree()](std::map<std::string, std::string> now, bool failed) {
              if (!failed && now.count("file") != 0) return false;
              if (now.count("file") == 0) now["file"] = kOld;
              return now == tree;
            },
            Case::kChanges});
  MakeTree();
  RunTable({"make a folder", [&] { return fs_->CreateFolder(At("new/folder")); },
            [tree = Tree()](std::map<std::string, std::string> now, bool failed) {
              const bool made = now.erase("new/folder") == 1;
              now.erase("new");
              return (made || failed) && now == tree;
            },
            Case::kChanges});
}

// The store is in memory, so every failing call is the cache's own.
TEST_F(LocalFaults, InCacheWarnAndReturnStoredBytes) {
  const auto store = MakeMemoryFileSystem();
  const std::string bytes(70'077, 'c');  // two checksummed pieces
  ASSERT_OK(WriteFile(*store, "memory://file", bytes));
  std::shared_ptr<FileSystem> fs;
  int warnings = 0;
  const auto open = [&] {
    warnings = 0;
    fs = WithDiskCache(store,
                       {.folder = At("cache"), .warn = [&](const std::string&) { ++warnings; }});
  };
  const auto cold = [&] {
    std::filesystem::remove_all(At("cache"));
    open();
  };
  const auto warm = [&] {
    cold();
    PENSTOCK_CHECK_OK(ReadFile(*fs, "memory://file"));
    open();
  };
  const auto unchanged = [tree = (MakeTree(), Tree())](const auto& now, bool) {
    for (const auto& [name, content] : tree) {
      if (now.find(name) == now.end() || now.at(name) != content) return false;
    }
    return true;
  };
  const auto checked = [&](absl::Status status) {
    if (!status.ok()) return status;
    if (warnings > 2) return Wrong("more than a warning of failure and one of damage");
    return absl::IsNotFound(fs->OpenInput("memory://no").status()) ? absl::OkStatus()
                                                                   : Wrong("what is missing");
  };
  const auto stream = [&] { return checked(ExpectBytes(ReadFile(*fs, "memory://file"), bytes)); };
  const auto random = [&] {
    return checked(ExpectBytes(ReadRandomly(*fs, "memory://file"), bytes));
  };
  for (const auto& [name, run] :
       {std::pair<const char*, Operation>{"stream", stream}, {"random", random}}) {
    RunTable({absl::StrCat("cold cache, ", name).c_str(), run, unchanged, Case::kCached, cold});
    RunTable({absl::StrCat("warm cache, ", name).c_str(), run, unchanged, Case::kCached, warm});
    if (HasFatalFailure()) return;
  }
}

}  // namespace local_faults_test
}  // namespace penstock::io
