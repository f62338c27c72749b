// Reads shards from a storage service over failing connections and during outages: every record
// arrives exactly as often as it should, with its original bytes.
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/clock.h"
#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/iterator.h"
#include "penstock/io/arrow/arrow_file_system.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/gcs/gcs_file_system.h"
#include "penstock/io/testing/emulator.h"
#include "penstock/io/testing/fake_time.h"
#include "penstock/io/testing/latency_proxy.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/uri.h"
#include "penstock/record/tfrecord.h"
#include "penstock/record/tfrecord_index.h"

namespace penstock::data {
namespace far_shards_test {

using base::NamedArrays;

constexpr int kShards = 4;
constexpr int kRecords = 150;  // per shard
constexpr int kRounds = 2;

std::string Record(int shard, int record) {
  return absl::StrCat(shard, "/", record, ":", std::string(4000, static_cast<char>('a' + shard)));
}

// Enables faults when the first shard is opened, that is, after the listing.
class FaultsFromFirstOpen : public io::ForwardingFileSystem {
 public:
  FaultsFromFirstOpen(std::shared_ptr<io::FileSystem> next, std::atomic<bool>* trouble)
      : ForwardingFileSystem(std::move(next)), trouble_(trouble) {}

  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
    *trouble_ = true;
    return ForwardingFileSystem::OpenInput(uri);
  }
  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    *trouble_ = true;
    return ForwardingFileSystem::OpenRandomAccess(uri);
  }

 private:
  std::atomic<bool>* const trouble_;
};

class FarShards : public ::testing::Test {
 protected:
  void Start() {
    const std::shared_ptr<io::FileSystem> near = io::MakeGcsFileSystem(io::MakeArrowFileSystem());
    ASSERT_OK_AND_ASSIGN(io::Emulator * gcs, io::Emulator::Gcs());
    ASSERT_OK_AND_ASSIGN(const std::string bucket, gcs->MakeBucket(*near));
    for (int shard = 0; shard < kShards; ++shard) {
      const std::string uri = io::JoinPath(bucket, absl::StrCat(shard, ".tfrec"));
      ASSERT_OK_AND_ASSIGN(auto writer, record::TfRecordWriter::Create(*near, uri));
      for (int r = 0; r < kRecords; ++r) ASSERT_OK(writer->Append(Record(shard, r)));
      ASSERT_OK(writer->Close());
      ASSERT_OK(record::TfRecordIndex::LoadOrBuild(*near, uri).status());
    }
    proxy_.emplace(
        io::LatencyProxyOptions{.upstream_port = gcs->port(), .round_trip_seconds = 0.002});
    proxy_->SetFaults([this](int connection) { return FaultOf(connection); });
    pattern_ =
        absl::StrReplaceAll(io::JoinPath(bucket, "*.tfrec"),
                            {{absl::StrCat(":", gcs->port()), absl::StrCat(":", proxy_->port())},
                             {"retry_limit_seconds=10", "retry_limit_seconds=100000"}});
  }

  io::LatencyProxy::Fault FaultOf(int connection) {
    if (!trouble_) return {};
    base::Random random(base::MixSeeds(5, connection));
    switch (random.Below(3)) {
      case 0:
        ++faults_;
        return {.unavailable = true};
      case 1:
        ++faults_;
        return {.cut_after = static_cast<int64_t>(random.Below(300'000))};
      default:
        return {};
    }
  }

  // Retry delays take no real time.
  std::shared_ptr<io::FileSystem> FarFileSystem() {
    return std::make_shared<FaultsFromFirstOpen>(
        io::MakeGcsFileSystem(io::MakeArrowFileSystem(), {.http = time_.Http()}), &trouble_);
  }

  io::FakeTime time_;
  std::optional<io::LatencyProxy> proxy_;
  std::atomic<bool> trouble_ = false;
  std::atomic<int> faults_ = 0;
  std::string pattern_;
};

// Replaces each shard between its listing and its opening.
class ReplacesOnOpen : public io::ForwardingFileSystem {
 public:
  explicit ReplacesOnOpen(std::shared_ptr<io::FileSystem> next)
      : ForwardingFileSystem(std::move(next)) {}

  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Replace(uri));
    return ForwardingFileSystem::OpenInput(uri);
  }
  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    PENSTOCK_RETURN_IF_ERROR(Replace(uri));
    return ForwardingFileSystem::OpenRandomAccess(uri);
  }

 private:
  absl::Status Replace(absl::string_view uri) {
    if (!absl::StrContains(uri, ".tfrec?")) return absl::OkStatus();  // an index file
    PENSTOCK_ASSIGN_OR_RETURN(auto in, ForwardingFileSystem::OpenInput(uri));
    PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, io::ReadAll(*in));
    return io::WriteFile(next(), uri, bytes);
  }
};

TEST_F(FarShards, UsesVersionsOfListing) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const auto fs =
      std::make_shared<ReplacesOnOpen>(io::MakeGcsFileSystem(io::MakeArrowFileSystem()));
  for (const bool global_shuffle : {false, true}) {
    const auto iterator = Dataset::FromTfRecords({pattern_}, {.global_shuffle = global_shuffle})
                              .MakeIterator({.file_system = fs});
    ASSERT_OK(iterator.status());
    NamedArrays element;
    EXPECT_THAT((*iterator)->Next(&element).status(),
                io::IsStatus(absl::StatusCode::kAborted, "was replaced since it was listed"));
  }
}

TEST_F(FarShards, LoseAndRepeatNothingWhenConnectionsBreak) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const bool global_shuffle : {false, true}) {
    for (const bool deterministic : {true, false}) {
      SCOPED_TRACE(
          absl::StrCat("global_shuffle ", global_shuffle, ", deterministic ", deterministic));
      trouble_ = false;
      const auto iterator =
          Dataset::FromTfRecords({pattern_}, {.global_shuffle = global_shuffle})
              .Shuffle(20)
              .Repeat(kRounds)
              .MakeIterator({.file_system = FarFileSystem(), .deterministic = deterministic});
      ASSERT_OK(iterator.status());
      std::map<std::string, int> times;
      NamedArrays element;
      for (;;) {
        const absl::StatusOr<bool> more = (*iterator)->Next(&element);
        ASSERT_OK(more.status());
        if (!*more) break;
        ++times[std::string(element.Find("record")->values<absl::string_view>()[0])];
      }
      ASSERT_EQ(times.size(), kShards * kRecords);
      for (int shard = 0; shard < kShards; ++shard) {
        for (int r = 0; r < kRecords; ++r) ASSERT_EQ(times[Record(shard, r)], kRounds);
      }
    }
  }
  EXPECT_GT(faults_, 5);
}

}  // namespace far_shards_test
}  // namespace penstock::data
