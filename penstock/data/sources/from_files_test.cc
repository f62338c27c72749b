#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/clock.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/memory_files.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {
namespace from_files_test {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ReadAll;
using testing::ReadSome;
using ::testing::UnorderedElementsAreArray;

constexpr int kFiles = 40;

std::shared_ptr<io::FileSystem> Files() {
  std::vector<std::string> texts;
  for (int i = 0; i < kFiles; ++i) texts.push_back(i == 3 ? "" : absl::StrCat("text ", i));
  return testing::MemoryFiles(".txt", texts);
}

std::vector<std::string> Expected() {
  std::vector<std::string> out;
  for (int i = 0; i < kFiles; ++i) {
    out.push_back(absl::StrFormat("path=string[] {\"memory://d/%02d.txt\"} bytes=string[] {\"%s\"}",
                                  i, i == 3 ? "" : absl::StrCat("text ", i)));
  }
  return out;
}

TEST(FromFiles, ReturnsPathsAndBytes) {
  const Dataset dataset = Dataset::FromFiles({"memory://d/*.txt"});
  EXPECT_EQ(dataset.spec().ToString(), "{path: string[], bytes: string[]}");
  EXPECT_THAT(*ReadAll(dataset, {.file_system = Files()}), ElementsAreArray(Expected()));
  EXPECT_THAT(*ReadAll(dataset, {.file_system = Files(), .deterministic = false}),
              UnorderedElementsAreArray(Expected()));
}

TEST(FromFiles, ReadsWithLittleMemory) {
  const Dataset dataset =
      Dataset::FromFiles({"memory://d/*.txt"}, {.parallel_files = 3, .read_ahead_bytes = 1});
  EXPECT_THAT(*ReadAll(dataset, {.file_system = Files()}), ElementsAreArray(Expected()));
}

TEST(FromFiles, SkipsWithoutReading) {
  const auto expected = Expected();
  for (int64_t skip : {0, 1, 20, 40, 50}) {
    const Dataset dataset = Dataset::FromFiles({"memory://d/*.txt"}).Skip(skip);
    EXPECT_THAT(*ReadAll(dataset, {.file_system = Files()}),
                ElementsAreArray(expected.begin() + std::min<int64_t>(skip, 40), expected.end()));
  }
}

TEST(FromFiles, NamesMissingOrUnreadableFile) {
  const auto fs = Files();
  EXPECT_THAT(std::string(Dataset::FromFiles({"memory://d/x.txt"})
                              .MakeIterator({.file_system = fs})
                              .status()
                              .message()),
              HasSubstr("memory://d/x.txt"));
  EXPECT_FALSE(Dataset::FromFiles({}).status().ok());
}

TEST(FromFiles, NamesRemovedFile) {
  const auto fs = Files();
  auto iterator = Dataset::FromFiles({"memory://d/*.txt"}, {.parallel_files = 1})
                      .MakeIterator({.file_system = fs});
  PENSTOCK_CHECK_OK(fs->Remove("memory://d/20.txt"));
  base::NamedArrays element;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(*(*iterator)->Next(&element));
  EXPECT_THAT(std::string((*iterator)->Next(&element).status().message()),
              HasSubstr("memory://d/20.txt"));
}

// Blocks when a file whose name contains `gated` is opened, until Open(). Bucket gs://d maps to
// memory://d.
class GatedFileSystem : public io::FileSystem {
 public:
  GatedFileSystem(std::shared_ptr<io::FileSystem> files, std::string gated)
      : files_(std::move(files)), gated_(std::move(gated)) {}

  void WaitForReaders(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
      absl::string_view uri) override {
    Wait(uri);
    return files_->OpenRandomAccess(InMemory(uri));
  }
  absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
    Wait(uri);
    return files_->OpenInput(InMemory(uri));
  }
  absl::StatusOr<std::unique_ptr<io::OutputStream>> Create(absl::string_view uri) override {
    return files_->Create(InMemory(uri));
  }
  absl::StatusOr<io::FileInfo> Stat(absl::string_view uri) override {
    return files_->Stat(InMemory(uri));
  }
  absl::StatusOr<std::vector<io::FileInfo>> List(absl::string_view uri) override {
    return WithScheme(uri, files_->List(InMemory(uri)));
  }
  absl::StatusOr<std::vector<io::FileInfo>> ListRecursive(absl::string_view uri) override {
    return WithScheme(uri, files_->ListRecursive(InMemory(uri)));
  }
  absl::Status Remove(absl::string_view uri) override { return files_->Remove(InMemory(uri)); }
  absl::Status RemoveRecursively(absl::string_view uri) override {
    return files_->RemoveRecursively(InMemory(uri));
  }
  absl::Status CreateFolder(absl::string_view uri) override {
    return files_->CreateFolder(InMemory(uri));
  }

 private:
  static std::string InMemory(absl::string_view uri) {
    return absl::StrReplaceAll(uri, {{"gs://", "memory://"}});
  }
  static absl::StatusOr<std::vector<io::FileInfo>> WithScheme(
      absl::string_view uri, absl::StatusOr<std::vector<io::FileInfo>> listed) {
    if (listed.ok() && absl::StartsWith(uri, "gs://")) {
      for (io::FileInfo& info : *listed) {
        info.uri = absl::StrReplaceAll(info.uri, {{"memory://", "gs://"}});
      }
    }
    return listed;
  }

  void Wait(absl::string_view uri) {
    if (!absl::StrContains(uri, gated_)) return;
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }

  const std::shared_ptr<io::FileSystem> files_;
  const std::string gated_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(FromFiles, CanBeDestroyedWhileReadIsInFlight) {
  for (const Dataset& dataset :
       {Dataset::FromFiles({"memory://d/*.txt"}), Dataset::FromTfRecords({"memory://d/*.txt"})}) {
    const auto fs = std::make_shared<GatedFileSystem>(Files(), "");
    base::ThreadPool other(1);
    auto iterator = dataset.Batch(4).Prefetch(2).MakeIterator({.file_system = fs});
    fs->WaitForReaders(1);
    other.Schedule([&] { fs->Open(); });
    iterator->reset();
  }
}

// Shards of equal size end together; the next ones must already be open by then.
TEST(FileInterleave, OpensNextFileWhenOneHasBeenRead) {
  const auto memory = io::MakeMemoryFileSystem();
  for (const char* name : {"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "b4", "b5"}) {
    auto writer = record::TfRecordWriter::Create(*memory, absl::StrCat("memory://d/", name));
    PENSTOCK_CHECK_OK((*writer)->Append(name));
    PENSTOCK_CHECK_OK((*writer)->Close());
  }
  const auto fs = std::make_shared<GatedFileSystem>(memory, "/b");
  auto iterator = Dataset::FromTfRecords({"memory://d/*"}, {.parallel_files = 4})
                      .MakeIterator({.file_system = fs});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  fs->WaitForReaders(5);  // the successors of a0 to a3, and one more
  fs->Open();
  base::NamedArrays element;
  for (const char* name : {"a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "b4", "b5"}) {
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(element[0].second.data<absl::string_view>()[0], name);
  }
  EXPECT_FALSE(*(*iterator)->Next(&element));
}

TEST(FromFiles, DoesNotWaitForSlowFileWhenNotDeterministic) {
  const auto fs = std::make_shared<GatedFileSystem>(Files(), "00.txt");
  auto iterator = Dataset::FromFiles({"memory://d/*.txt"})
                      .MakeIterator({.file_system = fs, .deterministic = false});
  base::NamedArrays element;
  for (int i = 0; i < kFiles; ++i) {
    if (i == kFiles - 1) fs->Open();
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(element[0].second.data<absl::string_view>()[0] == "memory://d/00.txt",
              i == kFiles - 1);
  }
}

// No file may be opened until the expected number of opens is in flight.
TEST(FromFiles, ReadsManyFilesOfObjectStoreInParallel) {
  const auto fs = std::make_shared<GatedFileSystem>(Files(), "gs://");
  base::FakeClock clock;
  auto iterator =
      Dataset::FromFiles({"gs://d/*.txt"}).MakeIterator({.file_system = fs, .clock = &clock});
  ASSERT_TRUE(iterator.ok()) << iterator.status();
  fs->WaitForReaders(kFiles);
  clock.Advance(0.05);  // latency of the open
  EXPECT_EQ((*iterator)->Stats()[0].parallelism, 64);
  EXPECT_THAT((*iterator)->Explain(), Not(HasSubstr("hint")));
  fs->Open();
  base::NamedArrays element;
  for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(*(*iterator)->Next(&element));
  EXPECT_THAT((*iterator)->Explain(),
              HasSubstr("\n  hint: each of these files of about 1 kB is a request of "));
  EXPECT_THAT((*iterator)->Stats()[0].hint, HasSubstr("penstock pack 'gs://d/*.txt' --out FOLDER"));
}

TEST(FromFiles, HasNoHintForLocalFiles) {
  auto iterator = Dataset::FromFiles({"memory://d/*.txt"}).MakeIterator({.file_system = Files()});
  base::NamedArrays element;
  for (int i = 0; i < kFiles; ++i) ASSERT_TRUE(*(*iterator)->Next(&element));
  EXPECT_EQ((*iterator)->Stats()[0].parallelism, 16);
  EXPECT_EQ((*iterator)->Stats()[0].hint, "");
}

TEST(FromFiles, CanBeDestroyedAnywhere) {
  const Dataset dataset = Dataset::FromFiles({"memory://d/*.txt"}).Shuffle(4).Batch(3);
  const auto fs = Files();
  for (int64_t count = 0; count < 14; ++count) {
    EXPECT_TRUE(ReadSome(dataset, count, {.file_system = fs}).ok());
  }
}

}  // namespace from_files_test
}  // namespace penstock::data
