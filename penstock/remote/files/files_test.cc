// The worker's files as a file system of the client.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/io/files_elsewhere.h"
#include "penstock/io/testing/status_assertions.h"
#include "penstock/io/write_check.h"
#include "penstock/remote/files/file_limits.h"
#include "penstock/remote/testing/in_process_worker.h"
#include "penstock/runtime/testing/test_device.h"
#include "penstock/save/tensor_bundle_write.h"
#include "penstock/train/callbacks/event_writer.h"
#include "penstock/train/file_host.h"
#include "penstock/train/training_lock.h"

namespace penstock::remote {
namespace files_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WorkerFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = absl::StrCat(testing::TempDir(), "worker_files_", absl::Hex(base::EntropySeed()));
    std::filesystem::create_directories(root_ + "/run");
    std::filesystem::create_directories(root_ + "/data");
    ASSERT_OK_AND_ASSIGN(
        client_, OpenInProcess(runtime::TestClient(1),
                               {.readable = {root_ + "/data/"}, .writable = {root_ + "/run/"}}));
    auto* const host = dynamic_cast<train::FileHost*>(client_.get());
    ASSERT_NE(host, nullptr);
    files_ = host->Files();
  }
  void TearDown() override {
    files_ = nullptr;
    client_ = nullptr;
    std::filesystem::remove_all(root_);
  }

  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  int64_t Entries() const {
    int64_t entries = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ + "/run")) {
      entries += entry.exists() ? 1 : 0;
    }
    return entries;
  }

  std::string root_;
  std::shared_ptr<runtime::Client> client_;
  std::shared_ptr<io::FileSystem> files_;
};

// A model_dir of the worker: the lock is held there, also against its own trainings.
TEST_F(WorkerFilesTest, LocksAFolderForOneTraining) {
  const std::string folder = root_ + "/run/model";
  ASSERT_OK_AND_ASSIGN(auto lock, train::LockForTraining(*files_, folder));
  const auto other = dynamic_cast<train::FileHost*>(client_.get())->Files();
  for (io::FileSystem* fs : {other.get(), io::FileSystem::Default().get()}) {
    const absl::Status second = train::LockForTraining(*fs, folder).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(second)) << second;
    EXPECT_THAT(std::string(second.message()), HasSubstr("another training saves"));
  }
  lock = nullptr;
  EXPECT_OK(train::LockForTraining(*files_, folder));
  // Not a way to lock other folders of the worker.
  ASSERT_OK_AND_ASSIGN(lock, train::LockForTraining(*files_, root_ + "/data"));
  ASSERT_OK_AND_ASSIGN(const auto free,
                       train::LockForTraining(*io::FileSystem::Default(), root_ + "/data"));
  EXPECT_NE(free, nullptr);
}

TEST_F(WorkerFilesTest, WritesReadsListsAndRemoves) {
  EXPECT_TRUE(io::IsElsewhere(*files_));
  // Of several messages, with a rest.
  std::string text(static_cast<size_t>(2 * kMaxFilePart + 3), 'x');
  for (size_t i = 0; i < text.size(); i += 1000) text[i] = static_cast<char>('a' + i / 1000 % 26);
  const std::string path = root_ + "/run/a/b.txt";
  ASSERT_OK(io::WriteFile(*files_, path, text));
  EXPECT_TRUE(Read(path) == text);
  ASSERT_OK_AND_ASSIGN(const std::string back, io::ReadFile(*files_, path));
  EXPECT_TRUE(back == text);
  ASSERT_OK_AND_ASSIGN(const auto file, files_->OpenRandomAccess(path));
  EXPECT_EQ(file->size(), static_cast<int64_t>(text.size()));
  std::string part(static_cast<size_t>(kMaxFilePart + 7), '\0');
  ASSERT_OK_AND_ASSIGN(const int64_t read, file->Read(kMaxFilePart - 2, absl::MakeSpan(part)));
  ASSERT_EQ(read, kMaxFilePart + 5);
  EXPECT_TRUE(part.substr(0, static_cast<size_t>(read)) ==
              text.substr(static_cast<size_t>(kMaxFilePart - 2)));
  EXPECT_THAT(file->Read(-1, absl::MakeSpan(part)).status().code(),
              absl::StatusCode::kInvalidArgument);

  ASSERT_OK_AND_ASSIGN(const io::FileInfo info, files_->Stat(path));
  EXPECT_EQ(info.size, static_cast<int64_t>(text.size()));
  EXPECT_FALSE(info.is_directory);
  EXPECT_GT(info.modified_unix_seconds, 1e9);
  ASSERT_OK(files_->CreateFolder(root_ + "/run/empty"));
  std::vector<std::string> names;
  ASSERT_OK_AND_ASSIGN(const auto infos, files_->List(root_ + "/run"));
  for (const io::FileInfo& each : infos) names.push_back(each.uri);
  EXPECT_THAT(names, ElementsAre(root_ + "/run/a", root_ + "/run/empty"));
  ASSERT_OK_AND_ASSIGN(const auto below, files_->ListRecursive(root_ + "/run"));
  ASSERT_EQ(below.size(), 1u);
  EXPECT_EQ(below[0].uri, path);
  ASSERT_OK(files_->Remove(path));
  EXPECT_TRUE(absl::IsNotFound(files_->Stat(path).status()));
  EXPECT_TRUE(absl::IsNotFound(files_->OpenInput(path).status()));
  ASSERT_OK(files_->RemoveRecursively(root_ + "/run/a"));
  EXPECT_EQ(Entries(), 1);
}

// A reply that is no UTF-8 would end the session.
TEST_F(WorkerFilesTest, NamesMayHaveAnyBytes) {
  const std::string path = root_ + "/run/\xff\xfe";
  ASSERT_OK(io::WriteFile(*files_, path, "text"));
  ASSERT_OK_AND_ASSIGN(const auto infos, files_->List(root_ + "/run"));
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].uri, path);
  EXPECT_TRUE(absl::IsNotFound(files_->OpenInput(path + "x").status()));
  EXPECT_FALSE(files_->Stat(path + "/x").ok());
  EXPECT_TRUE(absl::IsPermissionDenied(files_->Stat("/\xff").status()));
  ASSERT_OK_AND_ASSIGN(const std::string text, io::ReadFile(*files_, path));
  EXPECT_EQ(text, "text");
}

TEST_F(WorkerFilesTest, PublishesANewFileWhenItIsClosed) {
  const std::string path = root_ + "/run/note";
  std::ofstream(path) << "old";
  {
    ASSERT_OK_AND_ASSIGN(const auto stream, files_->Create(path));
    ASSERT_OK(stream->Append(std::string(static_cast<size_t>(kMaxFilePart) + 1, 'n')));
    EXPECT_EQ(Read(path), "old");
  }
  // A request after the one that drops it.
  ASSERT_OK(files_->Stat(path));
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(WorkerFilesTest, OnlyPrefixesAreReached) {
  std::ofstream(root_ + "/data/in") << "rows";
  std::ofstream(root_ + "/secret") << "key";
  ASSERT_OK_AND_ASSIGN(const std::string in, io::ReadFile(*files_, root_ + "/data/in"));
  EXPECT_EQ(in, "rows");
  const absl::Status denied = io::WriteFile(*files_, root_ + "/data/out", "x");
  EXPECT_TRUE(absl::IsPermissionDenied(denied)) << denied;
  EXPECT_THAT(std::string(denied.message()),
              AllOf(HasSubstr(root_ + "/data/out"), HasSubstr("--write"), HasSubstr("/run")));
  EXPECT_TRUE(absl::IsPermissionDenied(files_->Remove(root_ + "/data/in")));
  EXPECT_TRUE(absl::IsPermissionDenied(files_->RemoveRecursively(root_ + "/data")));
  EXPECT_TRUE(absl::IsPermissionDenied(files_->CreateFolder(root_ + "/data/more")));
  EXPECT_TRUE(absl::IsPermissionDenied(io::CheckWritableFolder(*files_, root_)));
  EXPECT_TRUE(absl::IsPermissionDenied(io::CheckWritableFile(*files_, root_ + "/x")));
  for (const char* path : {"/secret", "/run/../secret", ""}) {
    EXPECT_TRUE(absl::IsPermissionDenied(files_->OpenInput(root_ + path).status())) << path;
    EXPECT_TRUE(absl::IsPermissionDenied(files_->List(root_ + path).status())) << path;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(files_->Stat("relative").status()));
  EXPECT_EQ(Read(root_ + "/data/in"), "rows");
}

// What opens local paths by itself asks the worker instead.
TEST_F(WorkerFilesTest, ChecksAndEventFilesAreTheWorkers) {
  EXPECT_OK(io::CheckWritableFolder(*files_, root_ + "/run/new"));
  EXPECT_OK(io::CheckWritableFile(*files_, root_ + "/run/new/file"));
  EXPECT_EQ(Entries(), 0);
  std::ofstream(root_ + "/run/file") << "a file";
  EXPECT_FALSE(io::CheckWritableFolder(*files_, root_ + "/run/file").ok());
  ASSERT_OK_AND_ASSIGN(const auto events, train::EventWriter::Open({.folder = root_ + "/run/logs",
                                                                    .file_system = files_}));
  EXPECT_FALSE(events->flushes_cheaply());
  ASSERT_OK(events->Append(1, train::ScalarSummary({{"loss", 0.5}})));
  ASSERT_OK(events->Flush());
  EXPECT_EQ(Entries(), 3);
  EXPECT_TRUE(absl::IsPermissionDenied(
      train::EventWriter::Open({.folder = root_ + "/logs", .file_system = files_}).status()));
}

TEST_F(WorkerFilesTest, BuffersBecomeTheSameCheckpointAsArrays) {
  auto* const there = dynamic_cast<train::BufferFiles*>(files_.get());
  ASSERT_NE(there, nullptr);
  base::NamedArrays arrays;
  // One that is uploaded in chunks while the request to save it follows.
  arrays.Append("b/big", base::Array::Zeros(base::DType::kF32, {1 << 20}));
  arrays.Append("a", base::Array::Of<int64_t>({2}, {3, -4}));
  runtime::Buffers buffers;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) {
    names.push_back(name);
    ASSERT_OK_AND_ASSIGN(buffers.emplace_back(), client_->Put(array, client_->devices()[0]));
    EXPECT_TRUE(there->Has(buffers.back()));
  }
  ASSERT_OK(there->WriteBundle(root_ + "/run/there", names, buffers));
  ASSERT_OK(save::tensor_bundle::WriteBundle(*io::FileSystem::Default(), root_ + "/run/here",
                                             arrays, {.name_based = true}));
  for (const char* end : {".index", ".data-00000-of-00001"}) {
    const std::string here = Read(root_ + "/run/here" + end);
    EXPECT_FALSE(here.empty());
    EXPECT_TRUE(Read(root_ + "/run/there" + end) == here) << end;
  }
  EXPECT_TRUE(absl::IsPermissionDenied(there->WriteBundle(root_ + "/data/x", names, buffers)));
  // Of this machine, or of another session.
  ASSERT_OK_AND_ASSIGN(
      const auto local,
      runtime::TestClient(1)->Put(*arrays.Find("a"), runtime::TestClient(1)->devices()[0]));
  EXPECT_FALSE(there->Has(local));
  EXPECT_EQ(there->WriteBundle(root_ + "/run/x", {"a"}, {local}).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace files_test
}  // namespace penstock::remote
