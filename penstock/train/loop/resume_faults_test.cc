// File system faults during checkpointing: the final results are right or an error is returned, and
// no saved checkpoint is lost.
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>

#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/save/checkpoint.h"
#include "penstock/train/callbacks/checkpoint.h"
#include "penstock/train/callbacks/early_stopping.h"
#include "penstock/train/testing/files.h"
#include "penstock/train/testing/small_training.h"

namespace penstock::train {
namespace resume_faults_test {

using testing::Points;
using testing::SmallTrainer;

namespace stdfs = std::filesystem;

// Asks the test for a fault before every call.
class FailingFileSystem : public io::ForwardingFileSystem {
 public:
  FailingFileSystem(std::shared_ptr<io::FileSystem> next, int64_t at, absl::StatusCode code)
      : ForwardingFileSystem(std::move(next)), at_(at), code_(code) {}

  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Call());
    return next().OpenRandomAccess(uri);
  }
  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Call());
    return next().Create(uri);
  }
  absl::StatusOr<io::FileInfo> Stat(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Call());
    return next().Stat(uri);
  }
  absl::StatusOr<std::vector<io::FileInfo>> List(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Call());
    return next().List(uri);
  }
  absl::Status Remove(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Call());
    return next().Remove(uri);
  }
  bool met() const { return calls_ > at_; }

 private:
  absl::Status Call() {
    return calls_++ == at_ ? absl::Status(code_, "injected") : absl::OkStatus();
  }

  const int64_t at_;
  const absl::StatusCode code_;
  int64_t calls_ = 0;
};

class ResumeFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    trainer_ = *SmallTrainer();
    first_ = *trainer_->State();
    whole_ = *Train(nullptr, "", 2);
  }

  // State after `epochs` epochs of 4 steps.
  absl::StatusOr<base::NamedArrays> Train(std::shared_ptr<io::FileSystem> fs,
                                          const std::string& folder, int epochs) {
    PENSTOCK_RETURN_IF_ERROR(trainer_->SetState(first_));
    FitOptions fit{.epochs = epochs};
    fit.callbacks.push_back(EarlyStopping({.monitor = "loss", .patience = 9}));
    if (!folder.empty()) {
      fit.callbacks.push_back(
          Checkpoint({.folder = folder, .every_steps = 2, .keep = 2, .file_system = fs}));
    }
    const auto data = data::Dataset::FromArrays(Points(26)).Shuffle(26).Batch(8);
    PENSTOCK_RETURN_IF_ERROR(trainer_->Fit(data, fit).status());
    return trainer_->State();
  }

  void ExpectWhole(const absl::StatusOr<base::NamedArrays>& state) {
    ASSERT_TRUE(state.ok()) << state.status();
    for (const auto& [name, array] : whole_) {
      EXPECT_TRUE(base::BitwiseEqual(array, *state->Find(name))) << name;
    }
  }

  std::unique_ptr<Trainer> trainer_;
  base::NamedArrays first_, whole_;
};

TEST_F(ResumeFaults, ErrorAtAnyCallIsReportedOrHarmless) {
  constexpr char kFolder[] = "memory://bucket/run";
  for (const absl::StatusCode code :
       {absl::StatusCode::kNotFound, absl::StatusCode::kDataLoss, absl::StatusCode::kUnavailable,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kResourceExhausted}) {
    int64_t at = 0;
    for (bool met = true; met && !HasFailure(); at += 3) {
      SCOPED_TRACE(absl::StrCat(absl::StatusCodeToString(code), " at call ", at));
      const std::shared_ptr<io::FileSystem> store = io::MakeMemoryFileSystem();
      ASSERT_TRUE(Train(store, kFolder, 1).ok());
      const auto failing = std::make_shared<FailingFileSystem>(store, at, code);
      const absl::StatusOr<base::NamedArrays> state = Train(failing, kFolder, 2);
      met = failing->met();
      if (state.ok()) ExpectWhole(state);
      save::CheckpointManager manager(*store, kFolder);
      const absl::StatusOr<save::CheckpointList> list = manager.List();
      ASSERT_TRUE(list.ok()) << list.status();
      EXPECT_GE(list->complete.size(), 2u);
      EXPECT_GE(list->complete.back().step, 4);
      EXPECT_TRUE(list->corrupt.empty());
      ExpectWhole(Train(store, kFolder, 2));
    }
    EXPECT_GT(at, 30);
  }
}

// Kinds of corruption of a checkpoint folder. Resuming from each gives the right results or an
// error.
TEST_F(ResumeFaults, CorruptFoldersNeverLookEmpty) {
  struct Accident {
    const char* name;
    std::function<void(const stdfs::path& newest, const stdfs::path& manifest,
                       const stdfs::path& arrays)>
        happen;
    bool falls_back;  // to the older checkpoint, with a warning; otherwise the newest is used
  };
  const auto write = [](const stdfs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  };
  const Accident kAccidents[] = {
      {"arrays cut off", [](auto&, auto&, auto& a) { stdfs::resize_file(a, 100); }, true},
      {"arrays empty", [](auto&, auto&, auto& a) { stdfs::resize_file(a, 0); }, true},
      {"arrays missing", [](auto&, auto&, auto& a) { stdfs::remove(a); }, true},
      {"arrays are a folder",
       [](auto&, auto&, auto& a) {
         stdfs::remove(a);
         stdfs::create_directory(a);
       },
       true},
      {"arrays are a dangling link",
       [](auto&, auto&, auto& a) {
         stdfs::remove(a);
         stdfs::create_symlink("/no/such/file", a);
       },
       true},
      {"manifest cut off", [](auto&, auto& m, auto&) { stdfs::resize_file(m, 100); }, true},
      {"manifest empty", [](auto&, auto& m, auto&) { stdfs::resize_file(m, 0); }, true},
      {"manifest is something else", [&](auto&, auto& m, auto&) { write(m, "{\"a\": 1}"); }, true},
      {"manifest missing", [](auto&, auto& m, auto&) { stdfs::remove(m); }, true},
      {"a file beside it", [&](auto& n, auto&, auto&) { write(n / "notes", "mine"); }, false},
      {"a file with a step's name",
       [&](auto& n, auto&, auto&) { write(n.parent_path() / "step-00000099", "mine"); }, false},
      {"an empty folder with a step's name",
       [](auto& n, auto&, auto&) { stdfs::create_directory(n.parent_path() / "step-00000099"); },
       false},
      {"a link to itself with a step's name",
       [](auto& n, auto&, auto&) {
         stdfs::create_symlink("step-00000099", n.parent_path() / "step-00000099");
       },
       false},
  };
  for (const Accident& accident : kAccidents) {
    SCOPED_TRACE(accident.name);
    const std::string folder = testing::NewPath("_faults");
    ASSERT_TRUE(Train(nullptr, folder, 1).ok());
    const stdfs::path newest = stdfs::path(folder) / "step-00000004";
    stdfs::path arrays;
    for (const auto& entry : stdfs::directory_iterator(newest)) {
      if (entry.path().extension() == ".safetensors") arrays = entry.path();
    }
    accident.happen(newest, newest / "checkpoint.json", arrays);
    save::CheckpointManager manager(*io::FileSystem::Default(), folder);
    const absl::StatusOr<save::Restored> restored = manager.ReadLatest();
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->checkpoint.step, accident.falls_back ? 2 : 4);
    ExpectWhole(Train(nullptr, folder, 2));
    stdfs::remove_all(folder);
  }
}

TEST_F(ResumeFaults, UnusableFolderIsError) {
  const std::string base = testing::NewPath("_nofolder");
  stdfs::create_directory(base);
  std::ofstream(base + "/file") << "mine";
  stdfs::create_symlink("loop", base + "/loop");
  for (const char* name : {"/file", "/file/below", "/loop", "/loop/below"}) {
    SCOPED_TRACE(name);
    const absl::Status status = Train(nullptr, base + name, 1).status();
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(absl::IsNotFound(status)) << status;
  }
  EXPECT_EQ(stdfs::file_size(base + "/file"), 4u);
  stdfs::remove_all(base);
}

}  // namespace resume_faults_test
}  // namespace penstock::train
