#include "penstock/save/checkpoint.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/testing/sanitized.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint_manifest.h"
#include "penstock/save/save.h"
#include "penstock/save/testing/faulty_file_system.h"

namespace penstock::save {
namespace checkpoint_test {

using base::Array;
using base::DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMemoryFolder[] = "memory://bucket/run";

// Distinct checkpoints: every element depends on `seed`.
Checkpoint MakeCheckpoint(int64_t step, int seed) {
  const float value = static_cast<float>(seed);
  return {.step = step,
          .arrays = {{"kernel", Array::Of<float>({2, 2}, {value, -value, value + 1, -0.0f})},
                     {"momentum", Array::Of<double>({1}, {value})},
                     {"key", Array::Of<uint32_t>({2}, {7, static_cast<uint32_t>(seed)})}},
          .state = absl::StrCat("{\"seed\":", seed, "}")};
}
Checkpoint MakeCheckpoint(int64_t step) { return MakeCheckpoint(step, static_cast<int>(step)); }

bool Same(const Checkpoint& a, const Checkpoint& b) {
  if (a.step != b.step || a.state != b.state || a.score != b.score) return false;
  if (a.arrays.size() != b.arrays.size()) return false;
  for (const auto& [name, array] : a.arrays) {
    const Array* other = b.arrays.Find(name);
    if (other == nullptr || !BitwiseEqual(array, *other)) return false;
  }
  return true;
}

std::vector<int64_t> Steps(CheckpointManager& manager) {
  absl::StatusOr<CheckpointList> list = manager.List();
  EXPECT_TRUE(list.ok()) << list.status();
  std::vector<int64_t> steps;
  if (list.ok()) {
    for (const CheckpointInfo& info : list->complete) steps.push_back(info.step);
  }
  return steps;
}

// A new folder in a file system.
struct Place {
  std::shared_ptr<io::FileSystem> fs;
  std::string folder;

  ~Place() { (void)fs->RemoveRecursively(folder); }

  CheckpointManager Manager(CheckpointOptions options = {}) const {
    return CheckpointManager(*fs, folder, options);
  }
  std::string OnlyFile(int64_t step, absl::string_view suffix) const {
    const std::vector<io::FileInfo> files = *fs->ListRecursive(folder);
    for (const io::FileInfo& file : files) {
      if (absl::StrContains(file.uri, absl::StrCat("step-", absl::Dec(step, absl::kZeroPad8))) &&
          absl::EndsWith(file.uri, suffix)) {
        return file.uri;
      }
    }
    ADD_FAILURE() << "step " << step << " has no " << suffix;
    return "";
  }
};

Place MakeLocalPlace() {
  std::string folder = absl::StrCat(testing::TempDir(), "/checkpoint_test_XXXXXX");
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return {io::MakeLocalFileSystem(), folder};
}
Place MakeMemoryPlace() { return {io::MakeMemoryFileSystem(), kMemoryFolder}; }

// On disk and in memory, which behaves like an object store.
class CheckpointOn : public testing::TestWithParam<Place (*)()> {
 protected:
  Place place_ = GetParam()();
};
INSTANTIATE_TEST_SUITE_P(FileSystems, CheckpointOn,
                         testing::Values(&MakeLocalPlace, &MakeMemoryPlace), [](const auto& info) {
                           return info.index == 0 ? "Local" : "ObjectStore";
                         });

TEST_P(CheckpointOn, RestoresEveryBit) {
  Checkpoint saved = MakeCheckpoint(12);
  saved.arrays.Append("nan",
                      Array::Of<float>({2}, {std::numeric_limits<float>::quiet_NaN(), -0.0f}));
  saved.arrays.Append("seed", Array::Of<uint64_t>({1}, {~uint64_t{0}}));
  saved.arrays.Append("mask", Array::Of<bool>({3}, {true, false, true}));
  saved.arrays.Append("scale", Array::Zeros(DType::kF8E4M3, {3}));
  saved.arrays.Append("none", Array::Zeros(DType::kF32, {0, 3}));
  saved.state = R"({"data":{"offset":18446744073709551615},"epoch":3,"rate":0.1})";
  saved.score = 0.98765432101234567;
  CheckpointManager manager = place_.Manager({.verify_by_reading = true});
  absl::StatusOr<Saved> result = manager.Save(saved);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->cleanup.ok()) << result->cleanup;
  EXPECT_EQ(result->info.state, saved.state);
  ASSERT_EQ(result->info.files.size(), 1u);
  EXPECT_EQ(Inspect(*place_.fs, result->info.files[0])->tensors.size(), saved.arrays.size());

  CheckpointManager other_process = place_.Manager();
  absl::StatusOr<Restored> restored = other_process.ReadLatest();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(restored->skipped.empty());
  EXPECT_TRUE(Same(restored->checkpoint, saved));
}

TEST_P(CheckpointOn, EmptyOrMissingFolderHasNoCheckpoint) {
  CheckpointManager manager = place_.Manager();
  EXPECT_THAT(Steps(manager), ElementsAre());
  EXPECT_TRUE(absl::IsNotFound(manager.ReadLatest().status()));
  EXPECT_TRUE(absl::IsNotFound(manager.Read(3).status()));
  CheckpointManager missing(*place_.fs, io::JoinPath(place_.folder, "not/there"));
  EXPECT_TRUE(absl::IsNotFound(missing.ReadLatest().status()));
}

TEST_P(CheckpointOn, KeepsNewest) {
  CheckpointManager manager = place_.Manager({.keep = 2});
  for (int64_t step : {5, 10, 99'999'999, 100'000'000}) {
    ASSERT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
  }
  EXPECT_THAT(Steps(manager), ElementsAre(99'999'999, 100'000'000));
  EXPECT_EQ(place_.fs->List(place_.folder)->size(), 2u);
  EXPECT_TRUE(absl::IsNotFound(manager.Read(5).status()));
  EXPECT_TRUE(Same(*manager.Read(99'999'999), MakeCheckpoint(99'999'999)));
}

TEST_P(CheckpointOn, KeepsBestAndNewest) {
  CheckpointManager manager = place_.Manager({.keep = 1, .keep_best = true});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<int64_t, double> kScores[] = {{1, 0.5}, {2, 0.9}, {3, 0.7}, {4, nan}, {5, 0.9}};
  for (const auto& [step, score] : kScores) {
    Checkpoint checkpoint = MakeCheckpoint(step);
    checkpoint.score = score;
    ASSERT_TRUE(manager.Save(checkpoint).ok());
    if (step == 4) {
      EXPECT_THAT(Steps(manager), ElementsAre(2, 4));
    }
  }
  EXPECT_THAT(Steps(manager), ElementsAre(5));  // equal to 2, but newer
}

TEST_P(CheckpointOn, ReplacesCheckpointOfSameStep) {
  CheckpointManager manager = place_.Manager();
  ASSERT_TRUE(manager.Save(MakeCheckpoint(7, 1)).ok());
  ASSERT_TRUE(manager.Save(MakeCheckpoint(7, 2)).ok());
  EXPECT_TRUE(Same(*manager.Read(7), MakeCheckpoint(7, 2)));
  EXPECT_EQ(place_.fs->ListRecursive(place_.folder)->size(), 2u) << "the replaced file stayed";
}

TEST_P(CheckpointOn, RejectsOlderStepUntilNewerAreRemoved) {
  CheckpointManager manager = place_.Manager();
  for (int64_t step : {1, 2, 3}) ASSERT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
  const absl::Status status = manager.Save(MakeCheckpoint(2)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 3"));
  ASSERT_TRUE(manager.RemoveNewerThan(1).ok());
  EXPECT_THAT(Steps(manager), ElementsAre(1));
  EXPECT_TRUE(manager.Save(MakeCheckpoint(2)).ok());
}

TEST_P(CheckpointOn, KeepsForeignFiles) {
  const std::string notes = io::JoinPath(place_.folder, "notes.txt");
  const std::string alike = io::JoinPath(place_.folder, "step-7/weights.bin");
  // Names that resemble checkpoint files: without a manifest, and later next to a checkpoint's
  // files.
  const std::string same_name = io::JoinPath(place_.folder, "step-00000005/weights.bin");
  const std::string below = io::JoinPath(place_.folder, "step-00000005/state-0123456789abcdef/a");
  const std::string beside = io::JoinPath(place_.folder, "step-00000007/weights.bin");
  const std::vector<std::string> mine = {notes, alike, same_name, below, beside};
  for (const std::string& uri : mine) {
    ASSERT_TRUE(io::WriteFile(*place_.fs, uri, "mine").ok());
  }
  CheckpointManager manager = place_.Manager({.keep = 1});
  for (int64_t step : {6, 7, 8}) ASSERT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
  EXPECT_THAT(Steps(manager), ElementsAre(8));
  for (const std::string& uri : mine) EXPECT_TRUE(place_.fs->Stat(uri).ok()) << uri;
}

TEST_P(CheckpointOn, RejectsInvalidOptions) {
  for (int keep : {0, -1}) {
    CheckpointManager manager = place_.Manager({.keep = keep});
    EXPECT_TRUE(absl::IsInvalidArgument(manager.Save(MakeCheckpoint(1)).status()));
    EXPECT_TRUE(absl::IsInvalidArgument(manager.ReadLatest().status()));
    EXPECT_TRUE(absl::IsInvalidArgument(manager.RemoveNewerThan(0)));
  }
  CheckpointManager nameless(*place_.fs, "");
  EXPECT_TRUE(absl::IsInvalidArgument(nameless.ReadLatest().status()));
}

TEST_P(CheckpointOn, AnnotateChangesOnlyStateAndScore) {
  CheckpointManager manager = place_.Manager({.keep = 1, .keep_best = true});
  EXPECT_TRUE(absl::IsFailedPrecondition(manager.Annotate(1, "{}", 1).status()));
  for (const auto& [step, score] : {std::pair(1, 0.5), {2, 0.9}, {3, 0.7}, {4, 0.95}}) {
    ASSERT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
    const absl::StatusOr<Saved> saved = manager.Annotate(step, R"({"epoch":9})", score);
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_TRUE(saved->cleanup.ok()) << saved->cleanup;
    if (step == 3) {
      EXPECT_THAT(Steps(manager), ElementsAre(2, 3));
    }
  }
  EXPECT_THAT(Steps(manager), ElementsAre(4));
  Checkpoint expected = MakeCheckpoint(4);
  expected.state = R"({"epoch":9})";
  expected.score = 0.95;
  EXPECT_TRUE(Same(*manager.Read(4), expected));
  // A checkpoint replaced by another process no longer belongs to this manager.
  ASSERT_TRUE(place_.Manager().Save(MakeCheckpoint(4)).ok());
  EXPECT_TRUE(absl::IsAborted(manager.Annotate(4, "{}", 1).status()));
  EXPECT_TRUE(Same(*manager.Read(4), MakeCheckpoint(4)));
}

TEST_P(CheckpointOn, FailedSaveChangesNothing) {
  CheckpointManager manager = place_.Manager();
  ASSERT_TRUE(manager.Save(MakeCheckpoint(1)).ok());
  Checkpoint bad = MakeCheckpoint(2);
  bad.state = "{\"epoch\":";
  EXPECT_TRUE(absl::IsInvalidArgument(manager.Save(bad).status()));
  bad = MakeCheckpoint(2);
  bad.state = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_TRUE(absl::IsInvalidArgument(manager.Save(bad).status()));
  bad = MakeCheckpoint(2);
  bad.arrays.Append("names", Array::Strings({1}, {"cat"}));
  EXPECT_TRUE(absl::IsInvalidArgument(manager.Save(bad).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(manager.Save(MakeCheckpoint(-1)).status()));
  EXPECT_THAT(Steps(manager), ElementsAre(1));
}

// Flips every bit of a file, one at a time.
template <typename Check>
void ForEveryCorruption(io::FileSystem& fs, const std::string& uri, const Check& check) {
  const std::string good = *io::ReadFile(fs, uri);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    ASSERT_TRUE(io::WriteFile(fs, uri, bad).ok());
    check(absl::StrCat(uri, ":", i));
  }
  ASSERT_TRUE(io::WriteFile(fs, uri, good.substr(0, good.size() / 2)).ok());
  check("cut off");
  ASSERT_TRUE(fs.Remove(uri).ok());
  check("missing");
  ASSERT_TRUE(io::WriteFile(fs, uri, good).ok());
}

TEST(Checkpoint, DetectsAnyFlippedBitAndReadsPreviousCheckpoint) {
  const Place place = MakeMemoryPlace();
  CheckpointManager writer = place.Manager();
  ASSERT_TRUE(writer.Save(MakeCheckpoint(1)).ok());
  ASSERT_TRUE(writer.Save(MakeCheckpoint(2)).ok());
  const std::string manifest = place.OnlyFile(2, "checkpoint.json");
  for (const std::string& uri : {place.OnlyFile(2, ".safetensors"), manifest}) {
    ForEveryCorruption(*place.fs, uri, [&](const std::string& what) {
      CheckpointManager reader = place.Manager();
      absl::StatusOr<Restored> restored = reader.ReadLatest();
      ASSERT_TRUE(restored.ok()) << what << ": " << restored.status();
      EXPECT_TRUE(Same(restored->checkpoint, MakeCheckpoint(1))) << what;
      if (what == "missing" && uri == manifest) return;  // the file does not exist at all
      ASSERT_EQ(restored->skipped.size(), 1u) << what;
      EXPECT_EQ(restored->skipped[0].step, 2) << what;
      EXPECT_TRUE(absl::IsDataLoss(restored->skipped[0].why)) << restored->skipped[0].why;
    });
  }
  CheckpointManager reader = place.Manager();
  EXPECT_TRUE(Same(reader.ReadLatest()->checkpoint, MakeCheckpoint(2)));
}

TEST(Checkpoint, TrainingContinuesPastCorruptCheckpoint) {
  const Place place = MakeMemoryPlace();
  CheckpointManager manager = place.Manager();
  ASSERT_TRUE(manager.Save(MakeCheckpoint(100)).ok());
  ASSERT_TRUE(manager.Save(MakeCheckpoint(200)).ok());
  const std::string uri = place.OnlyFile(200, ".safetensors");
  const std::string good = *io::ReadFile(*place.fs, uri);
  std::string bytes = good;
  bytes.back() ^= 1;
  ASSERT_TRUE(io::WriteFile(*place.fs, uri, bytes).ok());

  CheckpointManager next = place.Manager({.keep = 1});
  ASSERT_EQ(next.ReadLatest()->checkpoint.step, 100);
  absl::StatusOr<Saved> saved = next.Save(MakeCheckpoint(150));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_THAT(Steps(next), ElementsAre(150));
  EXPECT_EQ(next.List()->corrupt.size(), 1u);
  // The next start skips it again and reports it again.
  CheckpointManager later = place.Manager({.keep = 1});
  absl::StatusOr<Restored> restored = later.ReadLatest();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->checkpoint.step, 150);
  ASSERT_EQ(restored->skipped.size(), 1u);
  EXPECT_EQ(restored->skipped[0].step, 200);
  EXPECT_EQ(*io::ReadFile(*place.fs, uri), bytes) << "changed";
  // The corruption was in memory or in transit: nothing is lost.
  ASSERT_TRUE(io::WriteFile(*place.fs, uri, good).ok());
  EXPECT_TRUE(Same(*place.Manager().Read(200), MakeCheckpoint(200)));
  // Training reaches that step again.
  ASSERT_TRUE(later.Save(MakeCheckpoint(200, 7)).ok());
  EXPECT_TRUE(Same(place.Manager().ReadLatest()->checkpoint, MakeCheckpoint(200, 7)));
}

// Each of these states alone is JSON within the limits. In the manifest it is nested one level
// deeper and indented, which multiplies the length of lists of short numbers.
TEST(Checkpoint, RoundTripsEveryAcceptedState) {
  const Place place = MakeMemoryPlace();
  const auto lists = [](int depth, const std::string& inside) {
    return std::string(depth, '[') + inside + std::string(depth, ']');
  };
  const auto numbers = [](const char* number, int64_t count) {
    std::string text = number;
    for (int64_t i = 1; i < count; ++i) absl::StrAppend(&text, ",", number);
    return text;
  };
  CheckpointManager manager = place.Manager();
  ASSERT_TRUE(manager.Save(MakeCheckpoint(1)).ok());
  std::vector<std::string> states = {lists(60, numbers("1", base::FewerIfSanitized(280'000))),
                                     lists(1, numbers("1e15", base::FewerIfSanitized(900'000)))};
  for (int depth = 60; depth < 68; ++depth) states.push_back(lists(depth, ""));
  int accepted = 0;
  for (const std::string& state : states) {
    SCOPED_TRACE(absl::StrCat(state.substr(0, 80), " of ", state.size(), " bytes"));
    const absl::Status saved = manager.Annotate(1, state, {}).status();
    EXPECT_TRUE(saved.ok() || absl::IsInvalidArgument(saved)) << saved;
    accepted += saved.ok();
    const absl::StatusOr<Restored> read = place.Manager().ReadLatest();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_THAT(read->skipped, ::testing::IsEmpty());
    if (saved.ok() && state.find('e') == std::string::npos) {
      EXPECT_TRUE(read->checkpoint.state == state);
    }
  }
  EXPECT_GE(accepted, 4);
}

TEST(Checkpoint, ReportsReasonsWhenAllAreCorrupt) {
  const Place place = MakeMemoryPlace();
  CheckpointManager manager = place.Manager();
  ASSERT_TRUE(manager.Save(MakeCheckpoint(1)).ok());
  ASSERT_TRUE(manager.Save(MakeCheckpoint(2)).ok());
  ASSERT_TRUE(place.fs->Remove(place.OnlyFile(1, ".safetensors")).ok());
  ASSERT_TRUE(io::WriteFile(*place.fs, place.OnlyFile(2, ".json"), "{}").ok());
  const absl::Status status = manager.ReadLatest().status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is missing"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not begin"));
}

TEST(Checkpoint, NewerVersionIsNeitherSkippedNorRemoved) {
  const Place place = MakeMemoryPlace();
  CheckpointManager manager = place.Manager();
  ASSERT_TRUE(manager.Save(MakeCheckpoint(1)).ok());
  ASSERT_TRUE(manager.Save(MakeCheckpoint(2)).ok());
  const std::string uri = place.OnlyFile(2, "checkpoint.json");
  const std::string text = *io::ReadFile(*place.fs, uri);
  const std::string rest =
      absl::StrReplaceAll(text.substr(text.find(',') + 1), {{"\"version\": 1", "\"version\": 2"}});
  const std::string crc(absl::StrCat(absl::Hex(Crc32(0, rest), absl::kZeroPad8)));
  ASSERT_TRUE(io::WriteFile(*place.fs, uri, absl::StrCat("{\"crc32\": \"", crc, "\",", rest)).ok());
  for (const absl::Status& status :
       {manager.ReadLatest().status(), manager.Save(MakeCheckpoint(3)).status()}) {
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("newer Penstock"));
  }
}

// An unreachable store must not look like corruption, or training would fall back to an older step.
TEST(Checkpoint, UnreachableStoreIsAnError) {
  class Unreachable : public FaultyFileSystem {
   public:
    using FaultyFileSystem::FaultyFileSystem;
    absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
        absl::string_view uri) override {
      if (absl::EndsWith(uri, ".safetensors")) return absl::UnavailableError("no answer");
      return FaultyFileSystem::OpenRandomAccess(uri);
    }
  };
  const Place place = MakeMemoryPlace();
  CheckpointManager writer = place.Manager();
  ASSERT_TRUE(writer.Save(MakeCheckpoint(1)).ok());
  Unreachable fs(place.fs, [](int64_t) { return absl::OkStatus(); });
  CheckpointManager reader(fs, place.folder);
  EXPECT_TRUE(absl::IsUnavailable(reader.ReadLatest().status()));
}

// An interruption while step 300 is being saved with keep = 2; steps 100 and 200 are complete.
void ExpectTheOldOrTheNewOne(const Place& place, const std::string& what) {
  CheckpointManager manager = place.Manager({.keep = 2});
  absl::StatusOr<Restored> restored = manager.ReadLatest();
  ASSERT_TRUE(restored.ok()) << what << ": " << restored.status();
  EXPECT_TRUE(restored->skipped.empty()) << what;
  EXPECT_THAT(restored->checkpoint.step, testing::AnyOf(200, 300)) << what;
  EXPECT_TRUE(Same(restored->checkpoint, MakeCheckpoint(restored->checkpoint.step))) << what;
  EXPECT_TRUE(manager.List()->corrupt.empty()) << what;
  const std::vector<int64_t> steps = Steps(manager);
  EXPECT_GE(steps.size(), 2u) << what;
  for (int64_t step : steps) {
    absl::StatusOr<Checkpoint> checkpoint = manager.Read(step);
    ASSERT_TRUE(checkpoint.ok()) << what << ": " << checkpoint.status();
    EXPECT_TRUE(Same(*checkpoint, MakeCheckpoint(step))) << what;
  }
}

// Training continues or restarts: leftovers of the interruption neither prevent that nor remain.
void ExpectTheNextSaveCleansUp(const Place& place, const std::string& what) {
  CheckpointManager manager = place.Manager({.keep = 2});
  absl::StatusOr<Saved> saved = manager.Save(MakeCheckpoint(300));
  ASSERT_TRUE(saved.ok()) << what << ": " << saved.status();
  EXPECT_TRUE(saved->cleanup.ok()) << what << ": " << saved->cleanup;
  EXPECT_THAT(Steps(manager), ElementsAre(200, 300)) << what;
  EXPECT_EQ(place.fs->List(place.folder)->size(), 2u) << what;
  EXPECT_EQ(place.fs->ListRecursive(place.folder)->size(), 4u) << what;
}

void SaveTheOldOnes(const Place& place) {
  CheckpointManager manager = place.Manager({.keep = 2});
  for (int64_t step : {100, 200}) ASSERT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
}

// Every scenario repeats with a fault at the next change until no fault occurs, so that every
// change is covered. The minimum number ensures that the loop tests something: the appends of the
// header and 3 arrays, 2 changes to close their file, 1 append and 2 for the manifest, and the
// removal of the old manifest and arrays.
constexpr int64_t kFewestChanges = 11;

TEST(CheckpointAccidents, KillAtAnyChangeLeavesCompleteCheckpoint) {
  int64_t at = 0;
  for (bool killed = true; killed; ++at) {
    const Place place = MakeLocalPlace();
    SaveTheOldOnes(place);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultyFileSystem fs(place.fs, [at](int64_t change) {
        if (change == at) raise(SIGKILL);
        return absl::OkStatus();
      });
      CheckpointManager manager(fs, place.folder, {.keep = 2});
      _exit(manager.Save(MakeCheckpoint(300)).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    killed = WIFSIGNALED(status);
    if (!killed) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
    }
    const std::string what = absl::StrCat("killed at change ", at);
    ExpectTheOldOrTheNewOne(place, what);
    ExpectTheNextSaveCleansUp(place, what);
  }
  EXPECT_GT(at, kFewestChanges);
}

// Simulates a kill: from one change on, all changes fail.
TEST(CheckpointAccidents, KilledObjectStoreWriterLeavesCompleteCheckpoint) {
  int64_t at = 0;
  for (bool died = true; died; ++at) {
    died = false;
    const Place place = MakeMemoryPlace();
    SaveTheOldOnes(place);
    FaultyFileSystem fs(place.fs, [&](int64_t change) {
      died |= change >= at;
      return died ? absl::AbortedError("dead") : absl::OkStatus();
    });
    {
      CheckpointManager manager(fs, place.folder, {.keep = 2});
      (void)manager.Save(MakeCheckpoint(300));
    }
    const std::string what = absl::StrCat("died at change ", at);
    ExpectTheOldOrTheNewOne(place, what);
    ExpectTheNextSaveCleansUp(place, what);
  }
  EXPECT_GT(at, kFewestChanges);
}

TEST_P(CheckpointOn, ErrorAtAnyChangeIsReportedAndLosesNothing) {
  int64_t at = 0;
  for (bool failed = true; failed; ++at) {
    failed = false;
    const Place place = GetParam()();
    SaveTheOldOnes(place);
    FaultyFileSystem fs(place.fs, [&](int64_t change) {
      failed |= change == at;
      return change == at ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
    });
    CheckpointManager manager(fs, place.folder, {.keep = 2});
    absl::StatusOr<Saved> saved = manager.Save(MakeCheckpoint(300));
    const std::string what = absl::StrCat("error at change ", at);
    const absl::Status reported = saved.ok() ? saved->cleanup : saved.status();
    EXPECT_EQ(absl::IsResourceExhausted(reported), failed) << what << ": " << reported;
    ExpectTheOldOrTheNewOne(place, what);
    ExpectTheNextSaveCleansUp(place, what);
  }
  EXPECT_GT(at, kFewestChanges);
}

// Leftovers of a killed writer may be what fills the disk.
TEST(CheckpointAccidents, RemovesLeftoversBeforeWriting) {
  const Place place = MakeMemoryPlace();
  ASSERT_TRUE(place.Manager().Save(MakeCheckpoint(900)).ok());
  const std::string name = "state-0123456789abcdef.safetensors";
  const std::string older = io::JoinPath(place.folder, "step-00000800/" + name);
  const std::string newer = io::JoinPath(place.folder, "step-00001000/" + name);
  ASSERT_TRUE(io::WriteFile(*place.fs, older, "half").ok());
  ASSERT_TRUE(io::WriteFile(*place.fs, newer, "half").ok());
  bool gone_at_first_append = false;
  FaultyFileSystem fs(place.fs, [&](int64_t change) {
    // Changes 0 and 1 remove the file.
    if (change == 2) gone_at_first_append = absl::IsNotFound(place.fs->Stat(older).status());
    return change < 2 ? absl::OkStatus() : absl::ResourceExhaustedError("disk full");
  });
  CheckpointManager manager(fs, place.folder);
  const absl::Status full = manager.Save(MakeCheckpoint(1000)).status();
  EXPECT_TRUE(gone_at_first_append);
  // An incomplete checkpoint newer than the newest complete one is left for the user to decide.
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr(newer));
  EXPECT_TRUE(place.fs->Stat(newer).ok());
  // It remains until a newer checkpoint is published.
  ASSERT_TRUE(place.Manager().Save(MakeCheckpoint(1000)).ok());
  EXPECT_TRUE(absl::IsNotFound(place.fs->Stat(newer).status()));
}

// Killed while the same step is saved again: either the first or the second is complete.
TEST(CheckpointAccidents, ReplacingAStepNeverLosesIt) {
  int64_t at = 0;
  for (bool died = true; died; ++at) {
    died = false;
    const Place place = MakeMemoryPlace();
    CheckpointManager first = place.Manager({.keep = 1});
    ASSERT_TRUE(first.Save(MakeCheckpoint(300, 1)).ok());
    FaultyFileSystem fs(place.fs, [&](int64_t change) {
      died |= change >= at;
      return died ? absl::AbortedError("dead") : absl::OkStatus();
    });
    CheckpointManager second(fs, place.folder, {.keep = 1});
    (void)second.Save(MakeCheckpoint(300, 2));
    absl::StatusOr<Checkpoint> read = place.Manager().Read(300);
    ASSERT_TRUE(read.ok()) << at << ": " << read.status();
    EXPECT_TRUE(Same(*read, MakeCheckpoint(300, 1)) || Same(*read, MakeCheckpoint(300, 2))) << at;
  }
}

// Two writers violate the contract: a second one saves at a change of the first. Either may fail,
// but what can be read is the first's checkpoint, the second's, or an older one, never a mixture.
TEST(CheckpointAccidents, ConcurrentWritersNeverMixCheckpoints) {
  for (int64_t step_of_second : {300, 400}) {
    int64_t at = 0;
    for (bool met = true; met; ++at) {
      met = false;
      const Place place = MakeMemoryPlace();
      SaveTheOldOnes(place);
      CheckpointManager second = place.Manager({.keep = 2});
      FaultyFileSystem fs(place.fs, [&](int64_t change) {
        if (change == at) {
          met = true;
          EXPECT_TRUE(second.Save(MakeCheckpoint(step_of_second, 2)).ok());
        }
        return absl::OkStatus();
      });
      CheckpointManager first(fs, place.folder, {.keep = 2});
      (void)first.Save(MakeCheckpoint(300, 1));

      CheckpointManager reader = place.Manager();
      absl::StatusOr<CheckpointList> list = reader.List();
      ASSERT_TRUE(list.ok()) << list.status();
      ASSERT_FALSE(list->complete.empty()) << at;
      for (const CheckpointInfo& info : list->complete) {
        absl::StatusOr<Checkpoint> read = reader.Read(info.step);
        ASSERT_TRUE(read.ok()) << at << ": " << read.status();
        EXPECT_TRUE(Same(*read, MakeCheckpoint(info.step)) ||
                    Same(*read, MakeCheckpoint(info.step, 1)) ||
                    Same(*read, MakeCheckpoint(info.step, 2)))
            << at;
      }
    }
  }
}

// A folder that is a link, which a user creates to continue from another run.
class LinkedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(elsewhere_.Manager().Save(MakeCheckpoint(103)).ok());
    std::filesystem::create_directories(place_.folder);
    std::filesystem::create_directory_symlink(elsewhere_.folder + "/step-00000103",
                                              place_.folder + "/step-00000103");
  }
  void ExpectTheTargetIsUntouched() {
    EXPECT_TRUE(Same(*elsewhere_.Manager().Read(103), MakeCheckpoint(103)));
  }

  Place elsewhere_ = MakeLocalPlace();
  Place place_ = MakeLocalPlace();
};

TEST_F(LinkedCheckpoint, IsReadAndOnlyLinkIsRemoved) {
  CheckpointManager manager = place_.Manager({.keep = 1});
  EXPECT_TRUE(Same(manager.ReadLatest()->checkpoint, MakeCheckpoint(103)));
  absl::StatusOr<Saved> saved = manager.Save(MakeCheckpoint(110));
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(saved->cleanup.ok()) << saved->cleanup;
  EXPECT_THAT(Steps(manager), ElementsAre(110));
  EXPECT_FALSE(std::filesystem::is_symlink(place_.folder + "/step-00000103"));
  ExpectTheTargetIsUntouched();
}

// The folder is on a disk that is not mounted, and may contain checkpoints.
TEST(Checkpoint, DanglingLinkIsNotAnEmptyFolder) {
  const Place place = MakeLocalPlace();
  std::filesystem::create_symlink(place.folder + "/disk", place.folder + "/link");
  for (const char* name : {"/link", "/link/run", "/link/"}) {
    CheckpointManager manager(*place.fs, place.folder + name);
    EXPECT_TRUE(absl::IsFailedPrecondition(manager.ReadLatest().status())) << name;
    EXPECT_TRUE(absl::IsFailedPrecondition(manager.Save(MakeCheckpoint(1)).status())) << name;
  }
}

TEST_F(LinkedCheckpoint, RemoveNewerThanRemovesTheLink) {
  CheckpointManager manager = place_.Manager();
  ASSERT_TRUE(manager.RemoveNewerThan(-1).ok());
  EXPECT_THAT(Steps(manager), ElementsAre());
  ExpectTheTargetIsUntouched();
}

TEST_F(LinkedCheckpoint, DoesNotWriteThroughTheLink) {
  const absl::Status status = place_.Manager().Save(MakeCheckpoint(103, 7)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("symbolic link"));
  ExpectTheTargetIsUntouched();
}

TEST_F(LinkedCheckpoint, RemovesNothingWithoutAManifest) {
  const std::string manifest = elsewhere_.OnlyFile(103, "checkpoint.json");
  const std::string state = elsewhere_.OnlyFile(103, ".safetensors");
  std::filesystem::remove(manifest);
  ASSERT_TRUE(place_.Manager().Save(MakeCheckpoint(110)).ok());
  EXPECT_TRUE(std::filesystem::exists(state));
  EXPECT_TRUE(std::filesystem::is_symlink(place_.folder + "/step-00000103"));
}

TEST_F(LinkedCheckpoint, RemovesOnlyTheLinkOfALinkedArrayFile) {
  CheckpointManager manager = place_.Manager({.keep = 1});
  ASSERT_TRUE(manager.Save(MakeCheckpoint(110)).ok());
  const std::string state = place_.OnlyFile(110, ".safetensors");
  const std::string target = elsewhere_.folder + "/shared.safetensors";
  std::filesystem::rename(state, target);
  std::filesystem::create_symlink(target, state);
  EXPECT_TRUE(Same(*manager.Read(110), MakeCheckpoint(110)));
  ASSERT_TRUE(manager.Save(MakeCheckpoint(120)).ok());
  EXPECT_THAT(Steps(manager), ElementsAre(120));
  EXPECT_TRUE(std::filesystem::exists(target));
}

}  // namespace checkpoint_test
}  // namespace penstock::save
