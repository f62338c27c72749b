#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/data/cache/stored_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"
#include "penstock/io/file_system.h"
#include "penstock/io/forwarding_file_system.h"
#include "penstock/io/local/local_file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/example.h"

namespace penstock::data {
namespace cache_folder_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintedRows;
using testing::ReadAll;
using testing::ReadSome;
using testing::SourceCounts;
using testing::TestSource;

// Returns a new folder name on each call.
class CacheFolder : public ::testing::Test {
 protected:
  CacheFolder()
      : root_(absl::StrCat(::testing::TempDir(), "/cache_folder_test_",
                           absl::Hex(base::EntropySeed()))) {}
  ~CacheFolder() override { std::filesystem::remove_all(root_); }

  std::string NewFolder() { return absl::StrCat(root_, "/", folders_++); }

  // The only file of elements in `folder`.
  static std::string ElementsFile(const std::string& folder) {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!absl::EndsWith(entry.path().string(), ".tfrec")) continue;
      EXPECT_EQ(found, "");
      found = entry.path();
    }
    return found;
  }
  static void ChangeByte(const std::string& path, size_t at) {
    const auto fs = io::MakeLocalFileSystem();
    std::string bytes = *io::ReadFile(*fs, path);
    bytes.at(at) ^= 1;
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, path, bytes));
  }

 private:
  const std::string root_;
  int folders_ = 0;
};

std::vector<std::string> SourceRows(int64_t n) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < n; ++i) rows.push_back(i);
  return PrintedRows(rows);
}

TEST_F(CacheFolder, ReadsInputOnceForLaterRuns) {
  const std::string folder = NewFolder();
  auto counts = std::make_shared<SourceCounts>();
  EXPECT_EQ(ReadAll(TestSource({.rows = 20}, counts).Cache(folder).Repeat(3))->size(), 60);
  EXPECT_EQ(counts->passes, 1);
  for (int run = 0; run < 2; ++run) {
    auto later = std::make_shared<SourceCounts>();
    EXPECT_THAT(*ReadAll(TestSource({.rows = 20}, later).Cache(folder)),
                ElementsAreArray(SourceRows(20)));
    EXPECT_EQ(later->passes, 0);
  }
}

// At most 128 rows each are being written, in the engine's output buffer, and in the reader's
// block.
constexpr testing::StageTraits kTraits = {.max_ahead = 3 * 128};

TEST_F(CacheFolder, Conforms) {
  ExpectConforms([&](const Dataset& d) { return d.Cache(NewFolder()).Repeat(2); }, kTraits);
}

TEST_F(CacheFolder, KeepsOriginsAndShapes) {
  const std::string folder = NewFolder();
  const Dataset dataset = TestSource({.rows = 20})
                              .Map(
                                  [](const NamedArrays& in, NamedArrays* out) {
                                    const int64_t x = in[0].second.item<int64_t>();
                                    out->Set("list", Array::Zeros(DType::kF32, {x % 4}));
                                    return absl::OkStatus();
                                  },
                                  {.reads = {"x"}, .makes = {{"list", DType::kF32, {-1}}}})
                              .Cache(folder);
  const auto first = *ReadAll(dataset);
  EXPECT_EQ(*ReadAll(dataset), first);
  EXPECT_THAT(first[7], HasSubstr("list=float32[3]"));
  const Dataset failing = dataset.Skip(13).Map(
      [](const NamedArrays&, NamedArrays*) -> absl::Status { return absl::DataLossError("bad"); });
  EXPECT_EQ(ReadAll(failing).status().message(), "source:13: Map: bad");
}

TEST_F(CacheFolder, IsReadLikeOtherSources) {
  const std::string folder = NewFolder();
  const Dataset cached = TestSource({.rows = 40}).Cache(folder);
  ASSERT_TRUE(ReadAll(cached).ok());
  const Dataset dataset = cached.Shuffle(8).Batch(3).Repeat(2);
  const auto all = *ReadAll(dataset, {.seed = 1});
  EXPECT_EQ(all,
            *ReadAll(TestSource({.rows = 40}).Cache().Shuffle(8).Batch(3).Repeat(2), {.seed = 1}));
  for (int64_t skip = 0; skip <= static_cast<int64_t>(all.size()); ++skip) {
    EXPECT_THAT(*ReadAll(dataset, {.seed = 1, .skip = skip}),
                ElementsAreArray(all.begin() + skip, all.end()));
    EXPECT_TRUE(ReadSome(dataset, skip).ok());
  }
}

TEST_F(CacheFolder, MayBeEmpty) {
  const std::string folder = NewFolder();
  EXPECT_EQ(ReadAll(TestSource({.rows = 0}).Cache(folder))->size(), 0);
  auto counts = std::make_shared<SourceCounts>();
  EXPECT_EQ(ReadAll(TestSource({.rows = 0}, counts).Cache(folder))->size(), 0);
  EXPECT_EQ(counts->passes, 0);
}

TEST_F(CacheFolder, IsRebuiltWhenIncomplete) {
  const std::string folder = NewFolder();
  EXPECT_EQ(ReadSome(TestSource({.rows = 2000}).Cache(folder), 99)->size(), 99);
  EXPECT_FALSE(std::filesystem::exists(folder + "/cache.manifest"));
  auto counts = std::make_shared<SourceCounts>();
  EXPECT_THAT(*ReadAll(TestSource({.rows = 2000}, counts).Cache(folder)),
              ElementsAreArray(SourceRows(2000)));
  EXPECT_EQ(counts->passes, 1);
}

// Writes some rows in a child process, which is killed before it publishes them. It uses no
// threads, because threads must not be created after fork().
pid_t StoreAndBeKilled(const std::string& folder, int64_t shard_bytes) {
  const StoredRowsKey key = {.kind = "cache",
                             .folder = folder,
                             .pipeline = "killed",
                             .spec = {{"x", DType::kI64, {}}},
                             .sources = ""};
  auto block = std::make_shared<Block>();
  block->rows = 2;
  block->columns.emplace_back(Array::Of<int64_t>({2}, {7, 8}));
  RowRefs rows;
  rows.Append(block, 0, 2);
  const pid_t child = ::fork();
  if (child == 0) {
    auto writer = StoredRowsWriter::Create(io::MakeLocalFileSystem(), key, shard_bytes);
    if (!writer.ok() || *writer == nullptr) ::_exit(1);
    for (int i = 0; i < 3; ++i) {
      if (!(*writer)->Append(rows).ok()) ::_exit(1);
    }
    ::kill(::getpid(), SIGKILL);
  }
  return child;
}

TEST_F(CacheFolder, IsRebuiltAfterKill) {
  // Killed with three complete files, or with one unpublished file.
  for (int64_t shard_bytes : {1, 1 << 20}) {
    const std::string folder = NewFolder();
    int status = 0;
    const pid_t child = StoreAndBeKilled(folder, shard_bytes);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    const auto files = [&] {
      int count = 0;
      for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string name = entry.path().filename();
        count += name != "cache.manifest" && name != "cache.lock";
      }
      return count;
    };
    EXPECT_EQ(files(), shard_bytes == 1 ? 3 : 1);
    EXPECT_THAT(*ReadAll(TestSource({.rows = 20}).Cache(folder)), ElementsAreArray(SourceRows(20)));
    EXPECT_EQ(files(), 1);
    auto counts = std::make_shared<SourceCounts>();
    EXPECT_THAT(*ReadAll(TestSource({.rows = 20}, counts).Cache(folder)),
                ElementsAreArray(SourceRows(20)));
    EXPECT_EQ(counts->passes, 0);
  }
}

TEST_F(CacheFolder, IsRebuiltWhenCorrupt) {
  const auto fs = io::MakeLocalFileSystem();
  const std::vector<std::function<void(const std::string&)>> damages = {
      [&](const std::string& folder) { ChangeByte(folder + "/cache.manifest", 40); },
      [&](const std::string& folder) {
        PENSTOCK_CHECK_OK(io::WriteFile(*fs, folder + "/cache.manifest", ""));
      },
      [&](const std::string& folder) { std::filesystem::resize_file(ElementsFile(folder), 9); },
      [&](const std::string& folder) { std::filesystem::remove(ElementsFile(folder)); },
  };
  for (const auto& damage : damages) {
    const std::string folder = NewFolder();
    ASSERT_TRUE(ReadAll(TestSource({.rows = 20}).Cache(folder)).ok());
    damage(folder);
    auto counts = std::make_shared<SourceCounts>();
    EXPECT_EQ(ReadAll(TestSource({.rows = 20}, counts).Cache(folder).Repeat(2))->size(), 40);
    EXPECT_EQ(counts->passes, 1);
    ElementsFile(folder);  // the corrupt file was removed
  }
}

TEST_F(CacheFolder, NamesCorruptRecord) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(ReadAll(TestSource({.rows = 20}).Cache(folder)).ok());
  ChangeByte(ElementsFile(folder), 30);
  const auto got = ReadAll(TestSource({.rows = 20}).Cache(folder));
  EXPECT_EQ(got.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(got.status().message()),
              AllOf(HasSubstr(ElementsFile(folder) + ":0:0"), HasSubstr("remove that file")));
}

TEST_F(CacheFolder, RejectsCacheOfAnotherPipeline) {
  const std::string folder = NewFolder();
  ASSERT_TRUE(ReadAll(TestSource({.rows = 20}).Cache(folder)).ok());
  const auto other = TestSource({.rows = 20}).Take(5).Cache(folder).MakeIterator();
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()),
              AllOf(HasSubstr(folder), HasSubstr("another pipeline:\nTestSource(20)\nof elements"),
                    HasSubstr("this one is:\nTestSource(20)\nTake(5)\nof elements")));
  // Downstream stages do not matter.
  EXPECT_EQ(ReadAll(TestSource({.rows = 20}).Cache(folder).Take(5))->size(), 5);
}

// What a stage makes of its input belongs to the pipeline's text, also a default value.
TEST_F(CacheFolder, RejectsCacheOfOtherDefaults) {
  const std::string folder = NewFolder();
  const auto cached = [&](int64_t missing) {
    record::ExampleBuilder without_label;
    without_label.SetFloat("x", 1);
    return Dataset::FromArrays({{"record", Array::Strings({1}, {without_label.Serialize()})}})
        .ParseExample({.features = {{.name = "label",
                                     .dtype = DType::kI64,
                                     .default_value = Array::Scalar<int64_t>(missing)}}})
        .Cache(folder);
  };
  EXPECT_EQ(ReadAll(cached(0))->at(0), "label=int64[] {0}");
  EXPECT_EQ(ReadAll(cached(-1)).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto decoded = [](int64_t max_pixels) {
    return Dataset::FromArrays({{"image", Array::Strings({1}, {""})}})
        .DecodeImage({.max_pixels = max_pixels})
        .ToString();
  };
  EXPECT_NE(decoded(10), decoded(20));
}

// A store that does not answer has not lost its snapshot.
TEST_F(CacheFolder, ASnapshotThatCannotBeReadIsNotMadeAgain) {
  class Forbidden : public io::ForwardingFileSystem {
   public:
    explicit Forbidden(std::shared_ptr<io::FileSystem> next)
        : ForwardingFileSystem(std::move(next)) {}
    absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> OpenRandomAccess(
        absl::string_view uri) override {
      return absl::PermissionDeniedError(absl::StrCat(uri, ": no credentials"));
    }
    absl::StatusOr<std::unique_ptr<io::InputStream>> OpenInput(absl::string_view uri) override {
      return absl::PermissionDeniedError(absl::StrCat(uri, ": no credentials"));
    }
  };
  const auto files = io::MakeMemoryFileSystem();
  const Dataset snapshot = TestSource({.rows = 20}).Snapshot("memory://d/s");
  ASSERT_TRUE(ReadAll(snapshot, {.file_system = files}).ok());
  const size_t count = files->List("memory://d/s")->size();
  const auto forbidden = std::make_shared<Forbidden>(files);
  EXPECT_EQ(ReadAll(snapshot, {.file_system = forbidden}).status().code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(files->List("memory://d/s")->size(), count);
}

TEST_F(CacheFolder, IsRebuiltWhenFilesOrArraysChange) {
  const auto fs = io::MakeLocalFileSystem();
  const std::string folder = NewFolder(), text = NewFolder() + "/a.txt";
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, text, "one\n"));
  const Dataset lines = Dataset::FromText({text}).Cache(folder);
  EXPECT_THAT(ReadAll(lines)->at(0), HasSubstr("one"));
  PENSTOCK_CHECK_OK(io::WriteFile(*fs, text, "three\n"));
  EXPECT_THAT(ReadAll(lines)->at(0), HasSubstr("three"));
  EXPECT_THAT(ReadAll(lines)->at(0), HasSubstr("three"));

  const std::string other = NewFolder();
  for (int64_t value : {1, 2}) {
    const Dataset arrays =
        Dataset::FromArrays({{"x", Array::Of<int64_t>({1}, {value})}}).Cache(other);
    EXPECT_EQ(ReadAll(arrays)->at(0), absl::StrCat("x=int64[] {", value, "}"));
  }
}

TEST_F(CacheFolder, IsWrittenByOneProcessWhileOthersReadInput) {
  const std::string folder = NewFolder();
  const Dataset dataset = TestSource({.rows = 2000}).Cache(folder);
  auto first = dataset.MakeIterator();
  NamedArrays element;
  ASSERT_TRUE(*(*first)->Next(&element));
  auto counts = std::make_shared<SourceCounts>();
  EXPECT_THAT(*ReadAll(TestSource({.rows = 2000}, counts).Cache(folder)),
              ElementsAreArray(SourceRows(2000)));
  EXPECT_EQ(counts->passes, 1);
  EXPECT_FALSE(std::filesystem::exists(folder + "/cache.manifest"));
  while (*(*first)->Next(&element)) {
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/cache.manifest"));
}

TEST_F(CacheFolder, IsNotChangedByReaderThatWritesToItsBatch) {
  const std::string folder = NewFolder();
  const Dataset dataset = TestSource({.rows = 20}).Batch(4).Cache(folder);
  auto iterator = dataset.MakeIterator();
  for (NamedArrays batch; *(*iterator)->Next(&batch);) {
    Array x = batch[0].second;
    for (int64_t i = 0; i < x.num_elements(); ++i) x.mutable_data<int64_t>()[i] = -1;
  }
  EXPECT_EQ(*ReadAll(dataset), *ReadAll(TestSource({.rows = 20}).Batch(4)));
}

TEST_F(CacheFolder, KeepsForeignFiles) {
  const std::string folder = NewFolder();
  const auto fs = io::MakeLocalFileSystem();
  const std::vector<std::string> others = {"cache-of-mine.tfrec", "x.txt", ".penstock-0.part"};
  for (const std::string& name : others) {
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, absl::StrCat(folder, "/", name), "x"));
  }
  ASSERT_TRUE(ReadAll(TestSource().Cache(folder)).ok());
  for (const std::string& name : others) {
    EXPECT_TRUE(std::filesystem::exists(absl::StrCat(folder, "/", name))) << name;
  }
}

TEST_F(CacheFolder, SnapshotConforms) {
  ExpectConforms([&](const Dataset& d) { return d.Snapshot(NewFolder(), {.shard_bytes = 1000}); },
                 kTraits);
}

TEST_F(CacheFolder, SnapshotIsReadFromShardsOnAnyFileSystem) {
  const std::vector<std::string> folders = {NewFolder(), "memory://d/snapshot"};
  for (const std::string& folder : folders) {
    const auto fs = folder[0] == '/' ? io::MakeLocalFileSystem() : io::MakeMemoryFileSystem();
    const auto make = [&](std::shared_ptr<SourceCounts> counts) {
      return TestSource({.rows = 2000}, std::move(counts)).Snapshot(folder, {.shard_bytes = 5000});
    };
    // An unfinished pass may leave its first shards behind.
    EXPECT_EQ(ReadSome(make(nullptr), 900, {.file_system = fs})->size(), 900);
    auto counts = std::make_shared<SourceCounts>();
    const auto first = *ReadAll(make(counts), {.file_system = fs});
    EXPECT_THAT(first, ElementsAreArray(SourceRows(2000)));
    EXPECT_EQ(*ReadAll(make(counts), {.file_system = fs}), first);
    EXPECT_EQ(counts->passes, 1);
    EXPECT_GT(fs->List(folder)->size(), 10);
    const auto other = make(nullptr).Take(5).Snapshot(folder).MakeIterator({.file_system = fs});
    EXPECT_THAT(std::string(other.status().message()), HasSubstr("the snapshot of another"));
  }
}

TEST_F(CacheFolder, SnapshotIsReadByAnotherPipelineWithoutTheFirst) {
  const std::vector<std::string> folders = {NewFolder(), "memory://d/snapshot"};
  for (const std::string& folder : folders) {
    const auto fs = folder[0] == '/' ? io::MakeLocalFileSystem() : io::MakeMemoryFileSystem();
    const auto read = [&](FromSnapshotOptions options = {}) {
      options.file_system = fs;
      return Dataset::FromSnapshot(folder, options);
    };
    EXPECT_THAT(std::string(read().status().message()),
                HasSubstr("there is no complete snapshot in"));
    const auto snapshot = [&](const Dataset& source) {
      return source
          .Map(
              [](const NamedArrays& in, NamedArrays* out) {
                const int64_t x = in[0].second.item<int64_t>();
                out->Set("list", Array::Zeros(DType::kF32, {2, x % 4}));
                return absl::OkStatus();
              },
              {.reads = {"x"}, .makes = {{"list", DType::kF32, {2, -1}}}})
          .Snapshot(folder, {.shard_bytes = 3000});
    };
    const Dataset broken = snapshot(TestSource({.rows = 500, .fail_at = 400}));
    EXPECT_FALSE(ReadAll(broken, {.file_system = fs}).ok());
    EXPECT_FALSE(read().status().ok());  // incomplete
    const Dataset made = snapshot(TestSource({.rows = 500}));
    const auto stored = *ReadAll(made, {.file_system = fs});
    EXPECT_EQ(read().spec(), made.spec());
    EXPECT_EQ(*ReadAll(read()), stored);
    EXPECT_EQ(*read().Cardinality(), 500);
    EXPECT_THAT(*ReadAll(read({.parallel_files = 3, .shuffle_files = true}), {.seed = 1}),
                ::testing::UnorderedElementsAreArray(stored));
    const Dataset failing =
        read().Skip(13).Map([](const NamedArrays&, NamedArrays*) -> absl::Status {
          return absl::DataLossError("bad");
        });
    EXPECT_EQ(ReadAll(failing).status().message(), "source:13: Map: bad");
  }
}

// Fails for x of 0, 5, 6, 13 and 19.
Dataset FailSome(const Dataset& dataset) {
  return dataset.Map(
      [](const NamedArrays& in, NamedArrays* out) -> absl::Status {
        const int64_t x = in.Find("x")->item<int64_t>();
        if (x == 0 || x == 5 || x == 6 || x == 13 || x == 19) return absl::OutOfRangeError("bad");
        *out = in;
        return absl::OkStatus();
      },
      {.name = "fail", .reads = {"x"}});
}

// Every pass returns the same elements and errors at the same positions; they are computed only
// once.
TEST_F(CacheFolder, StoresRecoverableErrorsInPosition) {
  for (const bool snapshot : {false, true}) {
    const std::string folder = NewFolder();
    const auto stored = [&](std::shared_ptr<SourceCounts> counts) {
      const Dataset failing = FailSome(TestSource({.rows = 20}, std::move(counts)));
      return snapshot ? failing.Snapshot(folder, {.shard_bytes = 200}) : failing.Cache(folder);
    };
    std::vector<std::string> skipped;
    const OnSkipped on_skipped = [&](const SkippedElement& element) {
      skipped.push_back(absl::StrCat(element.origin, " ", element.stage, " ", element.what));
      return absl::OkStatus();
    };
    const std::vector<std::string> failed = {"source:0 Map bad", "source:5 Map bad",
                                             "source:6 Map bad", "source:13 Map bad",
                                             "source:19 Map bad"};
    const auto good = PrintedRows({1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18});
    const auto counts = std::make_shared<SourceCounts>();
    const Dataset dataset = stored(counts);
    for (int pass = 0; pass < 3; ++pass) {
      skipped.clear();
      const auto rows = ReadAll(dataset.IgnoreErrors(), {.on_skipped = on_skipped});
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(*rows, good);
      EXPECT_EQ(skipped, failed);
    }
    EXPECT_EQ(counts->passes, 1);
    // A new process finds the folder and resumes at any position.
    for (int64_t at = 0; at <= 15; ++at) {
      const std::vector<std::string> rest(good.begin() + at, good.end());
      EXPECT_EQ(*ReadAll(stored(counts).IgnoreErrors(), {.seed = 1, .skip = at}), rest) << at;
    }
    EXPECT_EQ(counts->passes, 1);
    EXPECT_EQ(ReadAll(stored(counts)).status(), absl::OutOfRangeError("source:0: Map: bad"));
    if (!snapshot) continue;
    const Dataset alone = Dataset::FromSnapshot(folder);
    EXPECT_EQ(*ReadAll(alone.IgnoreErrors()), good);
    EXPECT_EQ(*alone.Cardinality(), 20);
  }
}

// A pass that fills the cache is interrupted and resumed: it stores all elements, including skipped
// ones.
TEST_F(CacheFolder, StoresErrorsInAResumedPass) {
  for (int64_t at = 0; at <= 15; ++at) {
    const std::string folder = NewFolder();
    const Dataset dataset = FailSome(TestSource({.rows = 20})).Cache(folder).IgnoreErrors();
    const auto good = PrintedRows({1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18});
    const std::vector<std::string> rest(good.begin() + at, good.end());
    EXPECT_EQ(*ReadAll(dataset, {.seed = 1, .skip = at}), rest) << at;
    EXPECT_EQ(*ReadAll(dataset), good) << at;
  }
}

TEST_F(CacheFolder, RejectsInvalidFolder) {
  EXPECT_THAT(std::string(TestSource().Cache("gs://bucket/cache").status().message()),
              HasSubstr("local disk"));
  const std::string file = NewFolder() + "/file";
  PENSTOCK_CHECK_OK(io::WriteFile(*io::MakeLocalFileSystem(), file, "x"));
  EXPECT_THAT(std::string(ReadAll(TestSource().Cache(file)).status().message()), HasSubstr(file));
}

}  // namespace cache_folder_test
}  // namespace penstock::data
