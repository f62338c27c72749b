// Faults of an object store, crossed with each request that a resume makes: the result is the
// newest checkpoint or an error, never an older one and never "there is none".
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/scripted_gcs.h"
#include "penstock/save/async_checkpoint.h"
#include "penstock/save/checkpoint.h"

namespace penstock::save {
namespace checkpoint_service_test {

using Fault = io::ScriptedGcs::Fault;
using Request = io::ScriptedGcs::Request;

constexpr char kPage[] = "<html>The service is being maintained</html>";

struct NamedFault {
  const char* name;
  Fault fault;
};

std::vector<NamedFault> Faults() {
  return {{"Status401", {.status = 401}},
          {"Status403", {.status = 403}},
          {"Status403Page", {.status = 403, .page = kPage}},
          {"Status404", {.status = 404}},
          {"Status404Page", {.status = 404, .page = kPage}},
          {"Status412", {.status = 412}},
          {"Status500", {.status = 500}},
          {"Status503", {.status = 503}},
          {"Page", {.page = kPage}},
          {"EmptyJson", {.page = "{}"}},
          {"EndlessError", {.status = 503, .page = std::string(100000, 'x'), .endless = true}},
          {"Silence", {.cut_after = 0, .then = Fault::kHang}},
          {"StallInTheBody", {.cut_after = 20, .then = Fault::kHang}},
          {"Trickle", {.cut_after = 20, .then = Fault::kTrickle}},
          {"CutInTheBody", {.cut_after = 20}},
          {"ShortAnswer", {.cut_after = 20, .understates_length = true}}};
}

// A store with complete checkpoints of steps 100 and 200.
class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    const std::shared_ptr<io::FileSystem> memory = io::MakeMemoryFileSystem();
    CheckpointManager manager(*memory, "memory://bucket/run", {.keep = 5});
    for (int64_t step : {100, 200}) {
      const auto value = static_cast<float>(step);
      EXPECT_TRUE(
          manager.Save({.step = step, .arrays = {{"w", base::Array::Of<float>({2}, {value, 1})}}})
              .ok());
    }
    const std::vector<io::FileInfo> files = *memory->ListRecursive("memory://bucket/run");
    for (const io::FileInfo& file : files) {
      const std::string bytes = *io::ReadFile(*memory, file.uri);
      gcs_.Put(std::string(absl::StripPrefix(file.uri, "memory://bucket/")), bytes);
    }
  }

  absl::StatusOr<Restored> Resume() {
    CheckpointManager manager(*fs_, gcs_.Uri("run"));
    return manager.ReadLatest();
  }

  void ExpectTheNewestOrAnError(const absl::StatusOr<Restored>& restored) {
    if (restored.ok()) {
      EXPECT_EQ(restored->checkpoint.step, 200);
      EXPECT_TRUE(restored->skipped.empty());
      EXPECT_EQ(restored->checkpoint.arrays.Find("w")->values<float>()[0], 200);
    } else {
      EXPECT_FALSE(absl::IsNotFound(restored.status())) << restored.status();
      EXPECT_FALSE(absl::IsDataLoss(restored.status())) << restored.status();
    }
  }

  io::ScriptedGcs gcs_{/*max_connections=*/8};
  io::FakeTime time_{[this] { return gcs_.hung(); }};
  const std::shared_ptr<io::FileSystem> fs_ =
      io::MakeGcsFileSystem(io::MakeMemoryFileSystem(), {.http = time_.Http(), .seed = 1});
};

class CheckpointService : public StoreTest, public testing::WithParamInterface<NamedFault> {};

INSTANTIATE_TEST_SUITE_P(Faults, CheckpointService, testing::ValuesIn(Faults()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CheckpointService, TransientFaultDoesNotFallBack) {
  int number = 0;
  for (bool met = true; met && !HasFailure(); ++number) {
    SCOPED_TRACE(absl::StrCat("request ", number));
    const int first = static_cast<int>(gcs_.requests().size());
    gcs_.SetScript([&, first, number](const Request& r) {
      return r.number - first == number ? GetParam().fault : Fault{};
    });
    ExpectTheNewestOrAnError(Resume());
    met = static_cast<int>(gcs_.requests().size()) - first > number;
  }
  EXPECT_GT(number, 5);
}

TEST_P(CheckpointService, PersistentFaultIsAnError) {
  for (const char* what : {"checkpoint.json", "state-", "step-00000200", ""}) {
    SCOPED_TRACE(what);
    gcs_.SetScript([&](const Request& r) {
      // Listings get a normal answer: an empty one means an empty folder.
      const bool concerned = !r.is_list && absl::StrContains(r.object, what);
      return concerned ? GetParam().fault : Fault{};
    });
    const absl::StatusOr<Restored> restored = Resume();
    ExpectTheNewestOrAnError(restored);
    // A truncated answer makes a little progress each time.
    if (GetParam().fault.cut_after <= 0) {
      EXPECT_FALSE(restored.ok());
    }
  }
}

// The store answers 503 for longer than requests are repeated: training gets the error, and the
// checkpoints stay.
TEST_F(StoreTest, AsynchronousSaveReturnsErrorOfUnavailableStore) {
  AsyncCheckpointManager checkpoints(*fs_, gcs_.Uri("run"), {.checkpoints = {.keep = 1}});
  gcs_.SetScript([](const Request&) { return Fault{.status = 503}; });
  checkpoints.Save({.step = 300, .arrays = {{"w", base::Array::Of<float>({2}, {300, 1})}}});
  const absl::Status status = checkpoints.Wait();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("saving a checkpoint of step 300"),
                             testing::HasSubstr("503")));
  gcs_.SetScript([](const Request&) { return Fault{}; });
  ExpectTheNewestOrAnError(Resume());
  EXPECT_TRUE(Resume().ok());
}

}  // namespace checkpoint_service_test
}  // namespace penstock::save
