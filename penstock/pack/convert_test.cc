// Tests of Convert that hold for every source: stopping, resuming, listing unreadable inputs.
#include "penstock/pack/convert.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/io/local/folder_lock.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::pack {
namespace convert_test {

using ::testing::HasSubstr;

// Makes records "record I". The inputs in `broken` are corrupt; those from `gone_from` on are
// unavailable.
class Numbers : public RecordSource {
 public:
  explicit Numbers(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  std::string Name(int64_t i) const override { return absl::StrCat("input ", i); }
  Job job() const override { return {{"the numbers", absl::StrCat(size_)}}; }
  std::vector<std::string> classes() const override { return {"a", "b"}; }
  absl::StatusOr<std::string> Make(int64_t i) const override {
    {
      std::lock_guard lock(mutex_);
      ++made_;
      EXPECT_TRUE(seen_.insert(i).second || allow_again) << "input " << i << " was read twice";
    }
    if (gone_from >= 0 && i >= gone_from) return absl::UnavailableError("no network");
    if (broken.count(i) > 0) return absl::DataLossError("cut off, at byte 3");
    return absl::StrCat("record ", i);
  }

  int64_t made() const { return made_; }

  std::set<int64_t> broken;
  int64_t gone_from = -1;
  bool allow_again = false;

 private:
  const int64_t size_;
  mutable std::mutex mutex_;
  mutable int64_t made_ = 0;
  mutable std::set<int64_t> seen_;
};

class ConvertTest : public ::testing::Test {
 protected:
  absl::StatusOr<ShardPlan> Run(const RecordSource& source, const std::string& out,
                                PackOptions options) {
    options.out = "memory://" + out;
    log_.clear();
    options.on_message = [this](absl::string_view line) { absl::StrAppend(&log_, line, "\n"); };
    return Convert(*fs_, source, options);
  }

  std::map<std::string, std::string> Files(const std::string& out) {
    std::map<std::string, std::string> files;
    const auto listed = fs_->List("memory://" + out);
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const io::FileInfo& file : *listed) {
      files[file.uri.substr(("memory://" + out).size())] = *io::ReadFile(*fs_, file.uri);
    }
    return files;
  }

  std::shared_ptr<io::FileSystem> fs_ = io::MakeMemoryFileSystem();
  std::string log_;
};

TEST_F(ConvertTest, ReadsEachInputOnce) {
  Numbers source(300);
  const auto made = Run(source, "out", {.shards = 7, .seed = 3, .threads = 5});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(source.made(), 300);
  EXPECT_EQ(made->records(), 300);
  EXPECT_EQ(made->shards.size(), 7u);
}

TEST_F(ConvertTest, StopsWhenServiceIsUnavailableAndResumes) {
  for (const PackOptions& options :
       {PackOptions{.shards = 10, .keep_order = true, .threads = 3},
        PackOptions{.shard_bytes = 300, .keep_order = true, .threads = 3}}) {
    const std::string name = options.shards > 0 ? "count" : "size";
    Numbers reference(100);
    reference.broken = {3, 50, 51, 99};
    ASSERT_TRUE(Run(reference, name + "_reference", options).ok());

    Numbers source(100);
    source.broken = reference.broken;
    source.gone_from = 64;
    const auto stopped = Run(source, name, options);
    EXPECT_TRUE(absl::IsUnavailable(stopped.status())) << stopped.status();
    // A record takes at least 25 bytes, so 11 or 12 fit into 300 bytes.
    const char* shards = options.shards > 0 ? "after 6 shards" : "after 5 shards";
    EXPECT_THAT(std::string(stopped.status().message()),
                HasSubstr(absl::StrCat("input 64: no network. Stopped ", shards,
                                       "; run it again to resume")));
    EXPECT_EQ(Files(name).count("/classes.txt"), 0u);

    source.gone_from = -1;
    source.allow_again = true;
    const auto resumed = Run(source, name, options);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_THAT(log_, HasSubstr(absl::StrCat("resuming ", shards)));
    EXPECT_EQ(resumed->unreadable.size(), 4u);
    EXPECT_TRUE(Files(name) == Files(name + "_reference"));
  }
}

TEST_F(ConvertTest, ListsUnreadableInputsAfterLastRecord) {
  Numbers source(20);
  for (int64_t i = 5; i < 20; ++i) source.broken.insert(i);
  const auto made = Run(source, "out", {.shards = 4, .keep_order = true});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->records(), 5);
  EXPECT_EQ(made->shards.size(), 1u) << "shards without a record are not written";
  const std::string report = Files("out")["/unreadable.csv"];
  EXPECT_THAT(report, HasSubstr("path,why\ninput 5,\"cut off, at byte 3\"\n"));
  EXPECT_THAT(report, HasSubstr("\ninput 19,"));
  // The plan keeps all of them.
  EXPECT_EQ(Run(source, "out", {.shards = 4, .keep_order = true})->unreadable.size(), 15u);
}

TEST_F(ConvertTest, RejectsCorruptPlanUnlessOverwriting) {
  Numbers source(4);
  source.allow_again = true;
  ASSERT_TRUE(io::WriteFile(*fs_, "memory://out/pack-plan.json", "{").ok());
  EXPECT_TRUE(absl::IsDataLoss(Run(source, "out", {}).status()));
  EXPECT_TRUE(Run(source, "out", {.overwrite = true}).ok());
}

// Calls `meanwhile` before it makes the first record.
class Interrupted : public Numbers {
 public:
  Interrupted(int64_t size, std::function<void()> meanwhile)
      : Numbers(size), meanwhile_(std::move(meanwhile)) {
    allow_again = true;
  }
  absl::StatusOr<std::string> Make(int64_t i) const override {
    if (const auto meanwhile = std::exchange(meanwhile_, nullptr)) meanwhile();
    return Numbers::Make(i);
  }

 private:
  mutable std::function<void()> meanwhile_;  // threads = 1: called by one thread
};

// Two runs start while there is no plan; the store keeps the plan that was written last.
TEST_F(ConvertTest, NeverCompletesFolderWithShardsOfTwoRuns) {
  const std::string plan = "memory://out/pack-plan.json";
  for (const bool same_job : {false, true}) {
    for (const bool other_ends_first : {false, true}) {
      for (const char* folder : {"memory://out", "memory://reference"}) {
        ASSERT_TRUE(!*fs_->Exists(folder) || fs_->RemoveRecursively(folder).ok());
      }
      const PackOptions options{.shards = 4, .seed = 1, .keep_order = same_job, .threads = 1};
      PackOptions other_options = options;
      if (!same_job) other_options.seed = 2;
      Numbers numbers(40);
      if (!other_ends_first) numbers.gone_from = 20;
      const Interrupted source(40, [&] {
        ASSERT_TRUE(fs_->Remove(plan).ok());
        const auto other = Run(numbers, "out", other_options);
        EXPECT_EQ(other.ok(), other_ends_first) << other.status();
      });
      const auto made = Run(source, "out", options);
      EXPECT_TRUE(absl::IsAborted(made.status())) << made.status();
      EXPECT_THAT(std::string(made.status().message()),
                  HasSubstr("start over with the overwrite option"));
      EXPECT_TRUE(
          absl::IsFailedPrecondition(CheckShardsComplete(*fs_, {"memory://out/00-10.tfrec"})));
      // The next run rewrites all shards.
      const auto again = Run(source, "out", options);
      ASSERT_TRUE(again.ok()) << again.status();
      ASSERT_TRUE(Run(source, "reference", options).ok());
      EXPECT_TRUE(Files("out") == Files("reference"));
    }
  }
}

TEST_F(ConvertTest, RejectsSecondProcessInLocalFolder) {
  const std::string folder = ::testing::TempDir() + "/convert_test_lock";
  const auto local = io::FileSystem::Default();
  ASSERT_TRUE(local->CreateFolder(folder).ok());
  Numbers source(4);
  source.allow_again = true;
  const PackOptions options{.out = folder, .overwrite = true};
  {
    const auto lock = io::FolderLock::Acquire(folder, "");
    ASSERT_TRUE(lock.ok()) << lock.status();
    const absl::Status rejected = Convert(*local, source, options).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(rejected)) << rejected;
    EXPECT_THAT(std::string(rejected.message()), HasSubstr("another process is writing"));
    EXPECT_EQ(source.made(), 0);
  }
  EXPECT_TRUE(Convert(*local, source, options).ok());
  EXPECT_TRUE(local->RemoveRecursively(folder).ok());
}

TEST_F(ConvertTest, RejectsEmptySource) {
  EXPECT_THAT(std::string(Run(Numbers(0), "out", {}).status().message()),
              HasSubstr("no images to convert"));
}

}  // namespace convert_test
}  // namespace penstock::pack
