// Injects every status code into every call of the file system, once or persistently. No error
// removes complete checkpoints beyond those due for removal, and no error makes a reader return an
// older checkpoint, or none, instead of the newest.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/testing/sanitized.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/uri.h"
#include "penstock/save/checkpoint.h"
#include "penstock/save/testing/faulty_file_system.h"

namespace penstock::save {
namespace checkpoint_fault_test {

using base::Array;
using ::testing::ElementsAre;

constexpr char kFolder[] = "memory://bucket/run";
constexpr char kState[] = "state-0123456789abcdef.safetensors";
constexpr int kKeep = 2;

// Codes 1 to 16 of absl::StatusCode.
std::vector<absl::StatusCode> AllCodes() {
  std::vector<absl::StatusCode> codes;
  for (int code = 1; code <= 16; ++code) codes.push_back(static_cast<absl::StatusCode>(code));
  return codes;
}
// The codes that checkpoints distinguish, and one other.
std::vector<absl::StatusCode> DistinctCodes() {
  return {absl::StatusCode::kNotFound, absl::StatusCode::kDataLoss, absl::StatusCode::kUnavailable,
          absl::StatusCode::kUnimplemented, absl::StatusCode::kAborted};
}

Checkpoint MakeCheckpoint(int64_t step) {
  return {.step = step,
          .arrays = {{"w", Array::Of<float>({2}, {static_cast<float>(step), 1})}},
          .state = absl::StrCat("{\"epoch\":", step, "}")};
}

bool IsCheckpointOf(const Checkpoint& checkpoint, int64_t step) {
  return checkpoint.step == step && checkpoint.arrays.size() == 1 &&
         BitwiseEqual(*checkpoint.arrays.Find("w"), *MakeCheckpoint(step).arrays.Find("w"));
}

// Steps 100 and 200 are complete.
std::shared_ptr<io::FileSystem> MakeStore(bool with_left_overs) {
  std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  CheckpointManager manager(*fs, kFolder, {.keep = kKeep});
  for (int64_t step : {100, 200}) EXPECT_TRUE(manager.Save(MakeCheckpoint(step)).ok());
  if (!with_left_overs) return fs;
  for (const char* folder : {"step-00000050", "step-00000200", "step-00000300"}) {
    EXPECT_TRUE(io::WriteFile(*fs, absl::StrCat(kFolder, "/", folder, "/", kState), "half").ok());
  }
  EXPECT_TRUE(io::WriteFile(*fs, absl::StrCat(kFolder, "/step-00000150/notes.txt"), "mine").ok());
  return fs;
}

std::set<int64_t> CompleteSteps(io::FileSystem& fs) {
  CheckpointManager manager(fs, kFolder, {.keep = kKeep});
  const absl::StatusOr<CheckpointList> list = manager.List();
  EXPECT_TRUE(list.ok()) << list.status();
  std::set<int64_t> steps;
  if (!list.ok()) return steps;
  for (const CheckpointInfo& info : list->complete) {
    const absl::StatusOr<Checkpoint> checkpoint = manager.Read(info.step);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (checkpoint.ok() && IsCheckpointOf(*checkpoint, info.step)) steps.insert(info.step);
  }
  return steps;
}

struct Fault {
  int64_t at;
  absl::StatusCode code;
  bool lasts;
  std::string ToString() const {
    return absl::StrCat(absl::StatusCodeToString(code), lasts ? " from call " : " at call ", at);
  }
};

// Under a sanitizer, each code at every third call only. Other codes take the calls between, and
// what an error frees or leaks does not depend on its code.
constexpr int64_t kEvery = base::kSanitized ? 3 : 1;

// Runs `use` with each fault until a run ends before the fault. Returns the number of calls.
int64_t ForEveryFault(
    bool with_left_overs, const std::vector<absl::StatusCode>& codes,
    const std::function<void(io::FileSystem& faulty, io::FileSystem& inner, const Fault&)>& use) {
  int64_t calls = 0;
  for (const absl::StatusCode code : codes) {
    for (const bool lasts : {false, true}) {
      bool met = true;
      const int64_t first = static_cast<int64_t>(code) % kEvery;
      for (int64_t at = first; met && !testing::Test::HasFailure(); at += kEvery) {
        met = false;
        const Fault fault{at, code, lasts};
        const std::shared_ptr<io::FileSystem> inner = MakeStore(with_left_overs);
        FaultyFileSystem fs(
            inner,
            [&](int64_t call) {
              if (call < at || (call > at && !lasts)) return absl::OkStatus();
              met = true;
              return absl::Status(fault.code, "injected");
            },
            FaultyFileSystem::Counts::kEveryCall);
        SCOPED_TRACE(fault.ToString());
        use(fs, *inner, fault);
        calls = std::max(calls, at);
      }
    }
  }
  return calls;
}

// The newest kKeep checkpoints must still exist.
void ExpectNothingIsLost(io::FileSystem& inner) {
  const std::set<int64_t> whole = CompleteSteps(inner);
  std::set<int64_t> needed = whole;
  needed.insert({100, 200});
  while (needed.size() > kKeep) needed.erase(needed.begin());
  for (int64_t step : needed) EXPECT_TRUE(whole.contains(step)) << "step " << step << " is lost";
}

void ExpectNotesStay(io::FileSystem& inner, bool with_left_overs) {
  if (!with_left_overs) return;
  EXPECT_TRUE(inner.Stat(absl::StrCat(kFolder, "/step-00000150/notes.txt")).ok());
}

// If the result is OK, it is the newest checkpoint; an older one is accompanied by a reason.
void ExpectNewestOrError(const absl::StatusOr<Restored>& restored, const Fault& fault) {
  if (restored.ok()) {
    if (restored->checkpoint.step == 200 && restored->skipped.empty()) {
      EXPECT_TRUE(IsCheckpointOf(restored->checkpoint, 200));
      return;
    }
    // Only a store that persistently reports corrupt bytes is believed.
    EXPECT_TRUE(fault.lasts && fault.code == absl::StatusCode::kDataLoss);
    EXPECT_FALSE(restored->skipped.empty());
    return;
  }
  if (absl::IsNotFound(restored.status())) {
    // Only a listing of the folder that persistently reports so from the first call is believed.
    EXPECT_TRUE(fault.lasts && fault.at == 0) << restored.status();
  }
}

class CheckpointFaults : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Folders, CheckpointFaults, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithLeftOvers" : "Clean"; });

TEST_P(CheckpointFaults, ReadingNeverFallsBackSilently) {
  const auto read = [&](auto& fs, auto& inner, const Fault& fault) {
    CheckpointManager manager(fs, kFolder, {.keep = kKeep});
    ExpectNewestOrError(manager.ReadLatest(), fault);
    const absl::StatusOr<Checkpoint> one = manager.Read(200);
    if (absl::IsNotFound(one.status())) {
      EXPECT_TRUE(fault.lasts && fault.code == absl::StatusCode::kNotFound);
    }
    (void)manager.List();
    EXPECT_EQ(CompleteSteps(inner), (std::set<int64_t>{100, 200}));
    ExpectNotesStay(inner, GetParam());
  };
  EXPECT_GT(ForEveryFault(GetParam(), AllCodes(), read), 8);
}

TEST_P(CheckpointFaults, SavingLosesNothing) {
  const auto save = [&](auto& fs, auto& inner, const Fault&) {
    CheckpointManager manager(fs, kFolder, {.keep = kKeep});
    const absl::StatusOr<Saved> saved = manager.Save(MakeCheckpoint(300));
    ExpectNothingIsLost(inner);
    if (saved.ok()) {
      EXPECT_TRUE(CompleteSteps(inner).contains(300));
    }
    ExpectNotesStay(inner, GetParam());
  };
  EXPECT_GT(ForEveryFault(GetParam(), AllCodes(), save), 20);
}

// The fault hits one of the operations; the later ones run as if nothing had happened.
TEST_P(CheckpointFaults, RandomOperationsNeverLoseACheckpoint) {
  ForEveryFault(GetParam(), DistinctCodes(), [&](auto& fs, auto& inner, const Fault& fault) {
    CheckpointManager manager(fs, kFolder, {.keep = kKeep});
    ExpectNewestOrError(manager.ReadLatest(), fault);
    (void)manager.Save(MakeCheckpoint(200));  // again
    (void)manager.Annotate(200, "{}", 0.5);
    ExpectNothingIsLost(inner);
    (void)manager.Save(MakeCheckpoint(300));
    ExpectNothingIsLost(inner);
    ExpectNotesStay(inner, GetParam());
  });
}

TEST_P(CheckpointFaults, RemoveNewerThanKeepsOlderCheckpoints) {
  ForEveryFault(GetParam(), AllCodes(), [&](auto& fs, auto& inner, const Fault& fault) {
    CheckpointManager manager(fs, kFolder, {.keep = kKeep});
    const absl::Status status = manager.RemoveNewerThan(100);
    const std::set<int64_t> whole = CompleteSteps(inner);
    EXPECT_TRUE(whole.contains(100));
    const bool all_is_missing = fault.lasts && fault.code == absl::StatusCode::kNotFound;
    if (status.ok() && !all_is_missing) {
      EXPECT_FALSE(whole.contains(200));
    }
    ExpectNotesStay(inner, GetParam());
  });
}

// A file system that is not mounted: the folder exists and is empty.
TEST(CheckpointFault, TemporarilyEmptyListingLosesNothing) {
  class Unmounted : public FaultyFileSystem {
   public:
    using FaultyFileSystem::FaultyFileSystem;
    absl::StatusOr<std::vector<io::FileInfo>> List(absl::string_view uri) override {
      if (unmounted) return std::vector<io::FileInfo>();
      return FaultyFileSystem::List(uri);
    }
    bool unmounted = true;
  };
  const std::shared_ptr<io::FileSystem> inner = MakeStore(false);
  Unmounted fs(inner, [](int64_t) { return absl::OkStatus(); });
  CheckpointManager manager(fs, kFolder, {.keep = 1});
  EXPECT_TRUE(absl::IsNotFound(manager.ReadLatest().status()));
  // Training has started over; now the listing is back.
  fs.unmounted = false;
  const absl::Status status = manager.Save(MakeCheckpoint(10)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(CompleteSteps(*inner), (std::set<int64_t>{100, 200}));
  // The listing is empty during a Save: the newer checkpoints stay, and a resume uses them.
  fs.unmounted = true;
  (void)manager.Save(MakeCheckpoint(10));
  fs.unmounted = false;
  (void)manager.Save(MakeCheckpoint(20));
  CheckpointManager next(*inner, kFolder, {.keep = 1});
  EXPECT_EQ(next.ReadLatest()->checkpoint.step, 200);
}

}  // namespace checkpoint_fault_test
}  // namespace penstock::save
