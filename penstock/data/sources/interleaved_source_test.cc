// A source of a format of its own: one element, the file's name, for each byte of a file.
#include "penstock/data/sources/interleaved_source.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/io/file_system.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/io/testing/status_assertions.h"

namespace penstock::data {
namespace interleaved_source_test {

using ::testing::ElementsAre;
using testing::ReadAll;

class NameReader : public FileReader {
 public:
  NameReader(const std::string& name, size_t rows) : file_(std::make_shared<File>()) {
    file_->name = name;
    file_->views.assign(rows, file_->name);
  }
  absl::StatusOr<FileBlock> Read() override {
    FileBlock out;
    if (file_->views.empty() || std::exchange(read_, true)) return out;
    auto block = std::make_shared<Block>();
    block->rows = static_cast<int64_t>(file_->views.size());
    block->columns.emplace_back(
        base::Array::View(base::DType::kString, {block->rows}, file_->views.data(), file_));
    out.block = std::move(block);
    return out;
  }

 private:
  struct File {
    std::string name;
    std::vector<absl::string_view> views;
  };
  const std::shared_ptr<File> file_;
  bool read_ = false;
};

// What make_open was called with.
using Calls = std::shared_ptr<std::vector<std::vector<std::string>>>;

InterleavedSource Names(std::vector<std::string> patterns, Calls calls = nullptr) {
  return {.name = "FromNames",
          .files = SourceFiles(std::move(patterns)),
          .spec = {{"name", base::DType::kString, {}}},
          .interleave = {.parallel_files = 2, .block_length = 1},
          .parameters = ", of a test",
          .make_open = [calls](const SourceFiles& files) -> OpenFileReader {
            if (calls != nullptr) calls->push_back(files.names());
            return [](io::FileSystem& file_system,
                      const std::string& uri) -> absl::StatusOr<std::unique_ptr<FileReader>> {
              PENSTOCK_ASSIGN_OR_RETURN(const std::string bytes, io::ReadFile(file_system, uri));
              return std::make_unique<NameReader>(uri, bytes.size());
            };
          }};
}

std::shared_ptr<io::FileSystem> Files() {
  auto files = io::MakeMemoryFileSystem();
  PENSTOCK_CHECK_OK(io::WriteFile(*files, "memory://d/a", "12"));
  PENSTOCK_CHECK_OK(io::WriteFile(*files, "memory://d/b", ""));
  PENSTOCK_CHECK_OK(io::WriteFile(*files, "memory://d/c", "123"));
  return files;
}

TEST(InterleavedSource, ReadsAFormatOfItsOwn) {
  const auto rows = ReadAll(Dataset::From(MakeInterleavedSource(Names({"memory://d/*"}))),
                            {.file_system = Files()});
  ASSERT_OK(rows);
  const std::string a = "name=string[] {\"memory://d/a\"}", c = "name=string[] {\"memory://d/c\"}";
  EXPECT_THAT(*rows, ElementsAre(a, a, c, c, c));
}

TEST(InterleavedSource, HasOneOpenFunctionPerIterator) {
  const auto calls = std::make_shared<std::vector<std::vector<std::string>>>();
  const Dataset dataset =
      Dataset::From(MakeInterleavedSource(Names({"memory://d/a", "memory://d/c"}, calls)))
          .Repeat(2);
  for (int i = 0; i < 2; ++i) {
    calls->clear();
    ASSERT_OK(ReadAll(dataset, {.file_system = Files()}));
    // Once, though there are two passes.
    EXPECT_THAT(*calls, ElementsAre(ElementsAre("memory://d/a", "memory://d/c")));
  }
}

TEST(InterleavedSource, DescribesItself) {
  const auto stage = MakeInterleavedSource(Names({"memory://d/*"}));
  EXPECT_EQ(stage->ToString(),
            "FromNames(memory://d/*, parallel_files=2, block_length=1, of a test)");
  EXPECT_EQ(stage->io_threads(), 1);  // a pattern
  const auto cardinality = stage->Cardinality({}, {.file_system = Files()});
  ASSERT_OK(cardinality);
  EXPECT_EQ(*cardinality, kUnknownCardinality);

  InterleavedSource counted = Names({"memory://d/*"});
  counted.cardinality = [](io::FileSystem&, const SourceFiles& files) {
    return static_cast<int64_t>(files.names().size());
  };
  EXPECT_EQ(*MakeInterleavedSource(counted)->Cardinality({}, {.file_system = Files()}), 3);
}

TEST(InterleavedSource, ReportsPatternsThenInterleaveThenOtherOptions) {
  const auto message = [](InterleavedSource source) {
    return std::string(MakeInterleavedSource(std::move(source))->OutputSpec({}).status().message());
  };
  InterleavedSource source = Names({});
  source.interleave.block_length = 0;
  source.status = absl::InvalidArgumentError("other");
  EXPECT_EQ(message(source), "the list of files is empty");
  source.files = SourceFiles({"memory://d/*"});
  EXPECT_EQ(message(source), kCountsAtLeastOne);
  source.interleave.block_length = 1;
  EXPECT_EQ(message(source), "other");
  source.status = absl::OkStatus();
  EXPECT_OK(MakeInterleavedSource(source)->OutputSpec({}));
}

}  // namespace interleaved_source_test
}  // namespace penstock::data
