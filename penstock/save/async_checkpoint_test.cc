// Asynchronous saves: training continues during a write, no error is lost, and what is on the disk
// or in the store is what CheckpointManager leaves there.
#include "penstock/save/async_checkpoint.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/io/local/local_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/save/testing/gated_file_system.h"

namespace penstock::save {
namespace async_checkpoint_test {

using base::Array;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFolder[] = "memory://bucket/run";

// Two arrays, which max_file_bytes = 1 puts into two files.
Checkpoint MakeCheckpoint(int64_t step) {
  const auto value = static_cast<float>(step);
  return {.step = step,
          .arrays = {{"kernel", Array::Of<float>({2, 2}, {value, -value, value + 1, -0.0f})},
                     {"key", Array::Of<uint32_t>({2}, {7, static_cast<uint32_t>(step)})}},
          .state = absl::StrCat("{\"epoch\":", step, "}")};
}

bool IsCheckpointOf(const Checkpoint& checkpoint, int64_t step) {
  const Checkpoint expected = MakeCheckpoint(step);
  if (checkpoint.step != step || checkpoint.arrays.size() != expected.arrays.size()) return false;
  for (const auto& [name, array] : expected.arrays) {
    const Array* other = checkpoint.arrays.Find(name);
    if (other == nullptr || !BitwiseEqual(array, *other)) return false;
  }
  return true;
}

std::vector<int64_t> CompleteSteps(io::FileSystem& fs, const std::string& folder = kFolder) {
  CheckpointManager manager(fs, folder);
  const absl::StatusOr<CheckpointList> list = manager.List();
  EXPECT_TRUE(list.ok()) << list.status();
  std::vector<int64_t> steps;
  if (!list.ok()) return steps;
  EXPECT_TRUE(list->corrupt.empty());
  for (const CheckpointInfo& info : list->complete) {
    const absl::StatusOr<Checkpoint> read = manager.Read(info.step);
    EXPECT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read.ok() && IsCheckpointOf(*read, info.step)) << info.step;
    steps.push_back(info.step);
  }
  return steps;
}

// The array files of a folder by step: their bytes in the order of the manifest, whose names are
// random.
std::map<int64_t, std::vector<std::string>> ArrayFiles(io::FileSystem& fs) {
  CheckpointManager manager(fs, kFolder);
  std::map<int64_t, std::vector<std::string>> files;
  const absl::StatusOr<CheckpointList> list = manager.List();
  EXPECT_TRUE(list.ok()) << list.status();
  if (!list.ok()) return files;
  for (const CheckpointInfo& info : list->complete) {
    for (const std::string& uri : info.files) files[info.step].push_back(*io::ReadFile(fs, uri));
    files[info.step].push_back(info.state);
    files[info.step].push_back(absl::StrCat(info.score.value_or(-1)));
  }
  return files;
}

TEST(AsyncCheckpoint, FilesAreThoseOfSynchronousSaves) {
  for (const int64_t max_file_bytes : {int64_t{1}, int64_t{1} << 20}) {
    const CheckpointOptions options{
        .keep = 2, .keep_best = true, .max_file_bytes = max_file_bytes, .threads = 3};
    const auto save = [&](bool asynchronous) {
      const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
      AsyncCheckpointManager checkpoints(*fs, kFolder,
                                         {.checkpoints = options, .asynchronous = asynchronous});
      for (int64_t step = 1; step <= 6; ++step) {
        checkpoints.Save(MakeCheckpoint(step));
        checkpoints.Annotate(step, absl::StrCat("{\"validated\":", step, "}"),
                             step == 2 ? 0.9 : 0.5);
      }
      EXPECT_TRUE(checkpoints.Wait().ok());
      EXPECT_THAT(CompleteSteps(*fs), ElementsAre(2, 5, 6)) << "the best and the two newest";
      EXPECT_EQ(fs->ListRecursive(kFolder)->size(), 3u * (max_file_bytes == 1 ? 3 : 2));
      return ArrayFiles(*fs);
    };
    EXPECT_EQ(save(true), save(false));
  }
}

TEST(AsyncCheckpoint, SaveReturnsWhileFilesAreWritten) {
  const std::shared_ptr<io::FileSystem> inner = io::MakeMemoryFileSystem();
  GatedFileSystem fs(inner);
  AsyncCheckpointManager checkpoints(fs, kFolder);
  fs.Close();
  checkpoints.Save(MakeCheckpoint(1));
  fs.AwaitWriter();
  // Returns too, and is done when the checkpoint is complete.
  checkpoints.Annotate(1, R"({"epoch":7})", 0.25);
  checkpoints.Annotate(1, R"({"epoch":8})", 0.5);
  EXPECT_TRUE(checkpoints.busy());
  EXPECT_TRUE(checkpoints.TakeError().ok());
  EXPECT_THAT(CompleteSteps(*inner), IsEmpty());
  fs.Open();
  EXPECT_TRUE(checkpoints.Wait().ok());
  EXPECT_FALSE(checkpoints.busy());
  const absl::StatusOr<CheckpointList> list = checkpoints.WhenIdle().List();
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->complete.size(), 1u);
  EXPECT_EQ(list->complete[0].state, R"({"epoch":8})");
  EXPECT_EQ(list->complete[0].score, 0.5);
}

// Counts the files that are being written.
class CountingFileSystem : public io::ForwardingFileSystem {
 public:
  CountingFileSystem() : ForwardingFileSystem(io::MakeMemoryFileSystem()) {}

  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> stream, next().Create(uri));
    return std::make_unique<Stream>(std::move(stream), *this);
  }
  int maximum() const { return maximum_; }

 private:
  class Stream : public io::OutputStream {
   public:
    Stream(std::unique_ptr<io::OutputStream> stream, CountingFileSystem& fs)
        : OutputStream(stream->full_uri()), stream_(std::move(stream)), fs_(fs) {
      const int now = ++fs_.open_;
      for (int old = fs_.maximum_; old < now && !fs_.maximum_.compare_exchange_weak(old, now);) {
      }
    }
    ~Stream() override { --fs_.open_; }
    absl::Status Append(absl::string_view bytes) override { return stream_->Append(bytes); }
    absl::Status Close() override { return stream_->Close(); }

   private:
    const std::unique_ptr<io::OutputStream> stream_;
    CountingFileSystem& fs_;
  };

  std::atomic<int> open_ = 0, maximum_ = 0;
};

TEST(AsyncCheckpoint, SavesNeverOverlap) {
  CountingFileSystem fs;
  AsyncCheckpointManager checkpoints(fs, kFolder);
  for (int64_t step = 1; step <= 100; ++step) {
    checkpoints.Save(MakeCheckpoint(step));
    if (step % 3 == 0) checkpoints.Annotate(step, "{}", 1);
  }
  EXPECT_TRUE(checkpoints.Wait().ok());
  EXPECT_EQ(fs.maximum(), 1);
  EXPECT_THAT(CompleteSteps(fs), ElementsAre(98, 99, 100));
}

TEST(AsyncCheckpoint, FreesStateWhenItIsWritten) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  AsyncCheckpointManager checkpoints(*fs, kFolder);
  auto owner = std::make_shared<std::vector<float>>(4, 1.0f);
  const std::weak_ptr<std::vector<float>> alive = owner;
  const float* data = owner->data();
  Checkpoint checkpoint{.step = 1};
  checkpoint.arrays.Append("w", Array::View(base::DType::kF32, {4}, data, std::move(owner)));
  checkpoints.Save(std::move(checkpoint));
  EXPECT_TRUE(checkpoints.Wait().ok());
  EXPECT_TRUE(alive.expired());
}

TEST(AsyncCheckpoint, EveryErrorIsReturnedOnce) {
  const std::shared_ptr<io::FileSystem> inner = io::MakeMemoryFileSystem();
  std::atomic<bool> full = false;
  FaultyFileSystem fs(inner, [&](int64_t) {
    return full ? absl::ResourceExhaustedError("no space left on device") : absl::OkStatus();
  });
  std::vector<std::string> warnings;
  AsyncCheckpointManager checkpoints(
      fs, kFolder, {.warn = [&](absl::string_view text) { warnings.emplace_back(text); }});
  checkpoints.Save(MakeCheckpoint(1));
  ASSERT_TRUE(checkpoints.Wait().ok());
  full = true;
  checkpoints.Save(MakeCheckpoint(2));
  checkpoints.Annotate(2, "{}", 1);  // there is nothing to annotate
  absl::Status status;
  while (status.ok()) status = checkpoints.TakeError();  // as training does at each step
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("saving a checkpoint of step 2"), HasSubstr("no space left")));
  EXPECT_TRUE(checkpoints.Wait().ok());
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_THAT(CompleteSteps(*inner), ElementsAre(1));
  // The disk has space again.
  full = false;
  checkpoints.Save(MakeCheckpoint(3));
  EXPECT_TRUE(checkpoints.Wait().ok());
  EXPECT_THAT(CompleteSteps(*inner), ElementsAre(1, 3));
}

TEST(AsyncCheckpoint, DestructorWaitsAndReportsError) {
  const std::shared_ptr<io::FileSystem> inner = io::MakeMemoryFileSystem();
  std::vector<std::string> warnings;
  const auto warn = [&](absl::string_view text) { warnings.emplace_back(text); };
  { AsyncCheckpointManager(*inner, kFolder, {.warn = warn}).Save(MakeCheckpoint(1)); }
  EXPECT_THAT(CompleteSteps(*inner), ElementsAre(1));
  EXPECT_THAT(warnings, IsEmpty());
  FaultyFileSystem fs(inner, [](int64_t) { return absl::PermissionDeniedError("read-only"); });
  { AsyncCheckpointManager(fs, kFolder, {.warn = warn}).Save(MakeCheckpoint(2)); }
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("read-only")));
}

// The best checkpoint cannot be removed, or a score cannot be added: training continues.
TEST(AsyncCheckpoint, HarmlessFailuresAreWarnings) {
  const std::shared_ptr<io::FileSystem> inner = io::MakeMemoryFileSystem();
  class NoRemove : public io::ForwardingFileSystem {
   public:
    explicit NoRemove(std::shared_ptr<io::FileSystem> inner)
        : ForwardingFileSystem(std::move(inner)) {}
    absl::Status Remove(absl::string_view) override {
      return absl::PermissionDeniedError("may not remove");
    }
  };
  NoRemove fs(inner);
  std::vector<std::string> warnings;
  AsyncCheckpointManager checkpoints(
      fs, kFolder, {.checkpoints = {.keep = 1}, .warn = [&](absl::string_view text) {
                      warnings.emplace_back(text);
                    }});
  checkpoints.Save(MakeCheckpoint(1));
  checkpoints.Save(MakeCheckpoint(2));
  ASSERT_TRUE(checkpoints.Wait().ok());
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("step 2"), HasSubstr("may not remove"))));
  checkpoints.Annotate(7, "{}", 1);  // not the one that was saved last
  ASSERT_TRUE(checkpoints.Wait().ok());
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[1], HasSubstr("step 7 is saved, but its score could not be added"));
}

TEST(AsyncCheckpoint, ExceptionOfWarnIsIgnored) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  for (const bool asynchronous : {true, false}) {
    AsyncCheckpointManager checkpoints(
        *fs, kFolder, {.asynchronous = asynchronous, .warn = [](absl::string_view) {
                         throw std::runtime_error("the log is closed");
                       }});
    checkpoints.Annotate(7, "{}", 1);  // no such checkpoint
    EXPECT_TRUE(checkpoints.Wait().ok());
  }
}

// ---- Faults ----

std::shared_ptr<io::FileSystem> StoreWith100And200() {
  std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  CheckpointManager manager(*fs, kFolder, {.keep = 2});
  for (int64_t step : {100, 200}) EXPECT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
  return fs;
}

// Every call of the file system fails, once or from then on, during a save that writes one file, or
// several with several threads. Either the checkpoint is complete or the error is returned, and no
// other checkpoint is lost.
TEST(AsyncCheckpointFaults, ErrorAtAnyCallIsReturnedOrHarmless) {
  for (const int64_t max_file_bytes : {int64_t{1} << 20, int64_t{1}}) {
    for (const absl::StatusCode code :
         {absl::StatusCode::kResourceExhausted, absl::StatusCode::kPermissionDenied,
          absl::StatusCode::kUnavailable, absl::StatusCode::kNotFound}) {
      for (const bool lasts : {false, true}) {
        std::atomic<bool> met = true;
        int64_t at = 0;
        for (; met && !HasFailure(); ++at) {
          SCOPED_TRACE(absl::StrCat(absl::StatusCodeToString(code), lasts ? " from " : " at ", at,
                                    ", files of ", max_file_bytes, " bytes"));
          met = false;
          const std::shared_ptr<io::FileSystem> inner = StoreWith100And200();
          FaultyFileSystem fs(
              inner,
              [&](int64_t call) {
                if (call < at || (call > at && !lasts)) return absl::OkStatus();
                met = true;
                return absl::Status(code, "injected");
              },
              FaultyFileSystem::Counts::kEveryCall);
          absl::Status status;
          {
            AsyncCheckpointManager checkpoints(
                fs, kFolder,
                {.checkpoints = {.keep = 2, .max_file_bytes = max_file_bytes, .threads = 2},
                 .warn = [](absl::string_view) {}});
            checkpoints.Save(MakeCheckpoint(300));
            checkpoints.Annotate(300, "{}", 0.5);
            status = checkpoints.Wait();
          }
          const std::vector<int64_t> complete = CompleteSteps(*inner);
          const std::set<int64_t> steps(complete.begin(), complete.end());
          EXPECT_TRUE(steps.contains(200));
          EXPECT_TRUE(steps.contains(300) || steps.contains(100));
          if (status.ok()) {
            EXPECT_TRUE(steps.contains(300));
          } else {
            EXPECT_THAT(std::string(status.message()), HasSubstr("step 300"));
          }
        }
        EXPECT_GT(at, 10);
      }
    }
  }
}

// The process is killed while the thread of the manager is at a change of the folder.
TEST(AsyncCheckpointFaults, KillAtAnyChangeLeavesCompleteCheckpoint) {
  std::set<int64_t> newest;
  int64_t at = 0;
  for (bool killed = true; killed && !HasFailure(); ++at) {
    SCOPED_TRACE(absl::StrCat("change ", at));
    std::string folder = absl::StrCat(testing::TempDir(), "/async_checkpoint_XXXXXX");
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::shared_ptr<io::FileSystem> local = io::MakeLocalFileSystem();
    {
      CheckpointManager manager(*local, folder, {.keep = 2});
      for (int64_t step : {100, 200}) ASSERT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
    }
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultyFileSystem fs(local, [at](int64_t change) {
        if (change == at) raise(SIGKILL);
        return absl::OkStatus();
      });
      AsyncCheckpointManager checkpoints(
          fs, folder, {.checkpoints = {.keep = 2, .max_file_bytes = 1, .threads = 2}});
      checkpoints.Save(MakeCheckpoint(300));
      checkpoints.Annotate(300, "{}", 0.5);
      _exit(checkpoints.Wait().ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    killed = WIFSIGNALED(status);
    if (!killed) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
    }
    const std::vector<int64_t> steps = CompleteSteps(*local, folder);
    ASSERT_FALSE(steps.empty());
    newest.insert(steps.back());
    EXPECT_GE(steps.size(), 2u);
    // The next run saves, and nothing is left over.
    CheckpointManager next(*local, folder, {.keep = 2});
    EXPECT_TRUE(next.Save(MakeCheckpoint(400)).ok());
    EXPECT_THAT(CompleteSteps(*local, folder), ElementsAre(steps.back(), 400));
    std::filesystem::remove_all(folder);
  }
  EXPECT_THAT(newest, ElementsAre(200, 300)) << "kills before and after the publication";
  EXPECT_GT(at, 11);
}

// ---- Several files ----

TEST(CheckpointFiles, AreBoundedAndRestoreEveryArray) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  Checkpoint checkpoint{.step = 1};
  for (const int64_t elements : {4, 3, 1, 20, 0, 2, 5}) {  // float32
    Array array = Array::Zeros(base::DType::kF32, {elements});
    for (int64_t i = 0; i < elements; ++i) {
      array.mutable_data<float>()[i] = static_cast<float>(checkpoint.arrays.size() * 100 + i);
    }
    checkpoint.arrays.Append(absl::StrCat("w", checkpoint.arrays.size()), array);
  }
  CheckpointManager manager(*fs, kFolder, {.max_file_bytes = 32, .threads = 3});
  const absl::StatusOr<Saved> saved = manager.Save(checkpoint);
  ASSERT_TRUE(saved.ok()) << saved.status();
  // 4 + 3 + 1 elements, 20, 0 + 2 + 5.
  EXPECT_EQ(saved->info.files.size(), 3u);
  // Other options read it as well.
  CheckpointManager reader(*fs, kFolder, {.threads = 1});
  const absl::StatusOr<Restored> restored = reader.ReadLatest();
  ASSERT_TRUE(restored.ok()) << restored.status();
  ASSERT_EQ(restored->checkpoint.arrays.size(), checkpoint.arrays.size());
  for (const auto& [name, array] : checkpoint.arrays) {
    ASSERT_NE(restored->checkpoint.arrays.Find(name), nullptr) << name;
    EXPECT_TRUE(BitwiseEqual(array, *restored->checkpoint.arrays.Find(name))) << name;
  }
  // Each of them counts: a checkpoint that lost one is corrupt.
  for (const std::string& uri : saved->info.files) {
    const std::string bytes = *io::ReadFile(*fs, uri);
    ASSERT_TRUE(fs->Remove(uri).ok());
    EXPECT_TRUE(absl::IsDataLoss(CheckpointManager(*fs, kFolder).ReadLatest().status()));
    ASSERT_TRUE(io::WriteFile(*fs, uri, bytes).ok());
  }
  EXPECT_TRUE(CheckpointManager(*fs, kFolder).ReadLatest().ok());
}

TEST(CheckpointFiles, RejectsInvalidOptions) {
  const std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  for (const CheckpointOptions& options :
       {CheckpointOptions{.max_file_bytes = 0}, CheckpointOptions{.threads = 0}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        CheckpointManager(*fs, kFolder, options).Save(MakeCheckpoint(1)).status()));
  }
}

}  // namespace async_checkpoint_test
}  // namespace penstock::save
