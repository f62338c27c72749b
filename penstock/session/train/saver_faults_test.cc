// Saver on a disk that is full, or at which the process is killed, at each change of the file
// system: the checkpoint before stays the newest one or the new one is complete, and nothing is
// left behind that no later Save removes.
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/testing/faulty_file_system.h"
#include "penstock/session/ops/core_ops.h"
#include "penstock/session/train/saver.h"

namespace penstock::session::train {
namespace saver_faults_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFolder[] = "memory://bucket/run", kPath[] = "memory://bucket/run/model.ckpt";

class SaverFaultsTest : public testing::Test {
 protected:
  SaverFaultsTest() { EXPECT_EQ(session_.Run(GlobalVariablesInitializer()), absl::OkStatus()); }

  // Saves a checkpoint of which each number is the step.
  absl::Status Save(Saver& saver, int64_t step) {
    const float number = static_cast<float>(step);
    EXPECT_EQ(session_.SetVariableValue("w", Array::Of<float>({2}, {number, number})),
              absl::OkStatus());
    return saver.Save(session_, kPath, step).status();
  }
  static std::vector<std::string> Files(io::FileSystem& fs) {
    std::vector<std::string> names;
    const std::vector<io::FileInfo> files = fs.List(kFolder).value();
    for (const io::FileInfo& file : files) names.push_back(io::Basename(file.uri));
    return names;
  }
  static CheckpointState State(io::FileSystem& fs) {
    return GetCheckpointState(kFolder, "checkpoint", &fs).value();
  }
  // The newest checkpoint's step, after checking that all that the state names can be read.
  static int64_t NewestStep(io::FileSystem& fs) {
    for (const std::string& path : State(fs).all_model_checkpoint_paths) {
      EXPECT_EQ(LoadCheckpoint(path, &fs).status(), absl::OkStatus()) << path;
    }
    const std::string latest = LatestCheckpoint(kFolder, "checkpoint", &fs).value();
    const auto arrays = LoadCheckpoint(latest, &fs);
    if (!arrays.ok()) ADD_FAILURE() << arrays.status();
    if (!arrays.ok()) return -1;
    const auto step = static_cast<int64_t>(arrays->Find("w")->values<float>()[0]);
    EXPECT_THAT(latest, HasSubstr("-" + std::to_string(step)));
    return step;
  }
  static void ExpectOnlyCheckpoints(io::FileSystem& fs, int64_t before, int64_t last) {
    std::vector<std::string> names = {"checkpoint"};
    for (const int64_t step : {before, last}) {
      const std::string name = "model.ckpt-" + std::to_string(step);
      names.insert(names.end(), {name + ".data-00000-of-00001", name + ".index"});
    }
    EXPECT_THAT(Files(fs), testing::UnorderedElementsAreArray(names));
  }

  Graph graph_;
  Graph::DefaultScope scope_ = graph_.AsDefault();
  const Variable w_{Array::Of<float>({2}, {1, 2}), "w"};
  Session session_{"", {.client = runtime::TestClient(1)}};
};

constexpr int64_t kMostChanges = 100, kNever = -100 * kMostChanges;

TEST_F(SaverFaultsTest, AnErrorOfAnyChangeLosesNoCheckpoint) {
  bool failed = true;
  for (int64_t at = 0; failed; ++at) {
    ASSERT_LT(at, kMostChanges);
    int64_t next = kNever;
    const auto disk = io::MakeMemoryFileSystem();
    const auto fs = std::make_shared<save::FaultyFileSystem>(disk, [&](int64_t) {
      return next++ == at ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
    });
    Saver saver(SaverOptions{.max_to_keep = 2, .file_system = fs});
    ASSERT_EQ(Save(saver, 1), absl::OkStatus());
    ASSERT_EQ(Save(saver, 2), absl::OkStatus());
    next = 0;
    const absl::Status third = Save(saver, 3);
    failed = next > at;  // RemoveOld tolerates an error
    const int64_t newest = NewestStep(*disk);
    if (third.ok()) {
      EXPECT_EQ(newest, 3) << at;
    } else {
      EXPECT_THAT(third.message(), HasSubstr("disk full")) << at;
    }
    next = kNever;
    ASSERT_EQ(Save(saver, 3), absl::OkStatus()) << at;
    ASSERT_EQ(Save(saver, 4), absl::OkStatus()) << at;
    EXPECT_EQ(NewestStep(*disk), 4);
    ASSERT_EQ(Save(saver, 5), absl::OkStatus()) << at;
    ExpectOnlyCheckpoints(*disk, 4, 5);
  }
}

// Two names in turn: one that could not be removed, and is saved again, is the newest one then.
TEST_F(SaverFaultsTest, AnErrorOfAnyChangeLosesNoneOfTwoNamesInTurn) {
  const auto save = [&](Saver& saver, float number) {
    const bool even = static_cast<int>(number) % 2 == 0;
    EXPECT_EQ(session_.SetVariableValue("w", Array::Of<float>({2}, {number, number})),
              absl::OkStatus());
    return saver.Save(session_, absl::StrCat(kFolder, even ? "/even" : "/odd")).status();
  };
  bool failed = true;
  for (int64_t at = 0; failed; ++at) {
    ASSERT_LT(at, kMostChanges);
    int64_t next = kNever;
    const auto disk = io::MakeMemoryFileSystem();
    const auto fs = std::make_shared<save::FaultyFileSystem>(disk, [&](int64_t) {
      return next++ == at ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
    });
    Saver saver(SaverOptions{.max_to_keep = 1, .file_system = fs});
    ASSERT_EQ(save(saver, 1), absl::OkStatus());
    next = 0;
    save(saver, 2).IgnoreError();
    failed = next > at;
    next = kNever;
    for (const float number : {3, 4, 5}) {
      ASSERT_EQ(save(saver, number), absl::OkStatus());
      const auto arrays = LoadCheckpoint(kFolder, disk.get());
      ASSERT_TRUE(arrays.ok()) << arrays.status() << " after the error of change " << at;
      EXPECT_EQ(arrays->Find("w")->values<float>()[0], number);
    }
  }
}

TEST_F(SaverFaultsTest, AKillAtAnyChangeLosesNoCheckpoint) {
  bool killed = true;
  for (int64_t at = 0; killed; ++at) {
    ASSERT_LT(at, kMostChanges);
    killed = false;
    const auto disk = io::MakeMemoryFileSystem();
    {
      Saver saver(SaverOptions{.max_to_keep = 2, .file_system = disk});
      ASSERT_EQ(Save(saver, 1), absl::OkStatus());
      ASSERT_EQ(Save(saver, 2), absl::OkStatus());
      // Nothing happens on the disk from then on.
      Saver last(SaverOptions{
          .max_to_keep = 2,
          .file_system = std::make_shared<save::FaultyFileSystem>(disk, [&](int64_t change) {
            killed = killed || change >= at;
            return change >= at ? absl::AbortedError("killed") : absl::OkStatus();
          })});
      ASSERT_EQ(last.RecoverLastCheckpoints(saver.last_checkpoints()), absl::OkStatus());
      Save(last, 3).IgnoreError();
    }
    const int64_t newest = NewestStep(*disk);
    EXPECT_TRUE(newest == 2 || newest == 3) << at;
    // The next process continues with the newest one.
    Saver saver(SaverOptions{.max_to_keep = 2, .file_system = disk});
    ASSERT_EQ(saver.RecoverLastCheckpoints(State(*disk).all_model_checkpoint_paths),
              absl::OkStatus());
    for (int64_t step = newest + 1; step <= 6; ++step) {
      ASSERT_EQ(Save(saver, step), absl::OkStatus()) << at;
    }
    EXPECT_EQ(NewestStep(*disk), 6);
  }
}

// On which an index cannot be written.
class FullDisk : public io::ForwardingFileSystem {
 public:
  explicit FullDisk(std::shared_ptr<io::FileSystem> disk) : ForwardingFileSystem(std::move(disk)) {}
  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
    if (full && absl::EndsWith(uri, ".index")) return absl::ResourceExhaustedError("disk full");
    return next().Create(uri);
  }
  bool full = false;
};

TEST_F(SaverFaultsTest, ASaveThatIsTriedAgainOnAFullDiskLeavesNothing) {
  const auto fs = std::make_shared<FullDisk>(io::MakeMemoryFileSystem());
  Saver saver(SaverOptions{.file_system = fs});
  ASSERT_EQ(Save(saver, 1), absl::OkStatus());
  fs->full = true;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THAT(Save(saver, 2).message(), HasSubstr("disk full"));
    EXPECT_THAT(Files(*fs), ElementsAre("checkpoint", "model.ckpt-1.data-00000-of-00001",
                                        "model.ckpt-1.index"));
  }
  fs->full = false;
  EXPECT_EQ(Save(saver, 2), absl::OkStatus());
  EXPECT_EQ(NewestStep(*fs), 2);
}

}  // namespace
}  // namespace saver_faults_test
}  // namespace penstock::session::train
