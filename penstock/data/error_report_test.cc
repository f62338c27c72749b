// Recoverable errors: their origins, the limit on skipped elements, and the error report.
#include "penstock/data/error_report.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/random.h"
#include "penstock/data/dataset.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"

namespace penstock::data {
namespace error_report_test {

using base::DType;
using base::NamedArrays;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ReadAll;
using ::testing::StartsWith;

constexpr int64_t kRecords = 40, kBad = 17;
constexpr char kShard[] = "memory://d/a.tfrec";

// Examples {x: i, list: i % 3 numbers, image: not a JPEG}. Record 17 is not an Example, or with
// `all_examples` is an Example whose `image` differs from the others.
struct Shard {
  explicit Shard(bool all_examples = false) {
    auto writer = *record::TfRecordWriter::Create(*fs, kShard);
    for (int64_t i = 0; i < kRecords; ++i) {
      if (i == kBad) origin = absl::StrCat(kShard, ":", writer->offset(), ":", i);
      record::ExampleBuilder example;
      example.SetInt64("x", i);
      example.SetInt64List("list", std::vector<int64_t>(static_cast<size_t>(i % 3), i));
      example.SetBytes("image", i == kBad ? "no image" : Gif());
      const std::string bytes = example.Serialize();
      PENSTOCK_CHECK_OK(writer->Append(i == kBad && !all_examples ? "\xff\xff" : bytes));
    }
    PENSTOCK_CHECK_OK(writer->Close());
  }
  // Its header suffices, because the image is never decoded.
  static std::string Gif() { return "GIF"; }

  // Flips a bit of the last data byte of `record`.
  void Corrupt(int64_t record) {
    std::string bytes = *io::ReadFile(*fs, kShard);
    auto reader = *record::TfRecordReader::Open(*fs, kShard, {.verify = false});
    const record::RecordBlock block = *reader->ReadBlock();
    const int64_t end = record + 1 < block.size() ? block.OffsetOf(record + 1) : block.next_offset;
    bytes[static_cast<size_t>(end - record::kTfRecordFooterBytes - 1)] ^= 1;
    PENSTOCK_CHECK_OK(io::WriteFile(*fs, kShard, bytes));
    corrupt.push_back(absl::StrCat(kShard, ":", block.OffsetOf(record), ":", record));
  }

  std::shared_ptr<io::FileSystem> fs = io::MakeMemoryFileSystem();
  std::string origin;
  std::vector<std::string> corrupt;
};

Dataset Parsed(const Dataset& records) {
  return records.ParseExample(
      {.features = {{.name = "x", .dtype = DType::kI64},
                    {.name = "list", .dtype = DType::kI64, .variable_length = true},
                    {.name = "image", .dtype = DType::kString}}});
}

Dataset Records(TfRecordOptions options = {}) { return Dataset::FromTfRecords({kShard}, options); }

bool IsBad(const NamedArrays& in) { return in.Find("x")->item<int64_t>() == kBad; }

absl::Status FailBad(const NamedArrays& in, NamedArrays* out) {
  if (IsBad(in)) return absl::DataLossError("bad");
  *out = in;
  return absl::OkStatus();
}

TEST(ErrorsOfElements, OfEveryStageBeginWithTheRecord) {
  const Shard no_example, examples(true);
  const auto expect = [](const Shard& shard, const Dataset& dataset, const std::string& stage) {
    SCOPED_TRACE(dataset.ToString());
    const absl::Status status = ReadAll(dataset, {.file_system = shard.fs, .seed = 1}).status();
    EXPECT_THAT(std::string(status.message()), StartsWith(absl::StrCat(shard.origin, ": ", stage)));
  };
  expect(no_example, Parsed(Records()), "ParseExample");
  expect(no_example, Parsed(Records({.global_shuffle = true})).Shuffle(9), "ParseExample");
  expect(no_example, Parsed(Records().Shuffle(40)).Repeat().Prefetch(3), "ParseExample");
  const Dataset parsed =
      Parsed(Records()).Filter([](const NamedArrays& in) -> absl::StatusOr<bool> {
        return in.Find("x")->item<int64_t>() >= kBad;  // drops earlier invalid images
      });
  expect(examples, parsed.DecodeImage(), "DecodeImage");
  expect(examples, Parsed(Records()).Map(FailBad), "Map");
  expect(examples, Parsed(Records()).Shuffle(5).Map(FailBad).Prefetch(2), "Map");
  expect(examples, Parsed(Records()).Cache().Enumerate().Map(FailBad), "Map");
  expect(examples, Parsed(Records()).Shard(2, 1).RandomSeed().Map(FailBad), "Map");
  expect(examples, Parsed(Records()).Take(30).Skip(3).Concatenate(Parsed(Records())).Map(FailBad),
         "Map");
  expect(examples, Dataset::Sample({Parsed(Records())}).Map(FailBad), "Map");
  expect(examples, Parsed(Records()).Filter([](const NamedArrays& in) -> absl::StatusOr<bool> {
    if (IsBad(in)) return absl::DataLossError("bad");
    return true;
  }),
         "Filter");
  expect(examples,
         Parsed(Records()).Scan({}, [](const NamedArrays& in, NamedArrays*,
                                       NamedArrays* out) { return FailBad(in, out); }),
         "Scan");
  const auto inner = [](const NamedArrays& in) -> absl::StatusOr<Dataset> {
    if (IsBad(in)) return absl::DataLossError("bad");
    return Dataset::FromArrays({{"y", base::Array::Zeros(DType::kI64, {1})}});
  };
  const ElementSpec makes = {{"y", DType::kI64, {}}};
  expect(examples, Parsed(Records()).FlatMap(inner, {.makes = makes}), "FlatMap");
  expect(examples, Parsed(Records()).Interleave(inner, {.makes = makes}), "Interleave");
  // The error of a batch names the row whose shape differs.
  const auto longer = [](const NamedArrays& in, NamedArrays* out) {
    out->Set("v", base::Array::Zeros(DType::kF32, {IsBad(in) ? 4 : 3}));
    return absl::OkStatus();
  };
  const Dataset uneven = Records()
                             .ParseExample({.features = {{.name = "x", .dtype = DType::kI64}}})
                             .Map(longer, {.reads = {"x"}, .makes = {{"v", DType::kF32, {-1}}}});
  expect(examples, uneven.Batch(8), "Map");
  expect(examples, uneven.Cache().Batch(8), "Batch");
  expect(examples, uneven.Cache().Window(4), "Window");
  expect(examples, uneven.PaddedBatch(8, {.padded_shapes = {{"v", {3}}}}), "PaddedBatch");
  // With two sources, both origins are named.
  EXPECT_THAT(
      std::string(ReadAll(Dataset::Zip({Parsed(Records()), Dataset::Range(100, 200)}).Map(FailBad),
                          {.file_system = examples.fs})
                      .status()
                      .message()),
      StartsWith(absl::StrCat(examples.origin, " + range:117: Map")));
  // Rows of a batch are identified by the batch's first row.
  const Dataset rows = Parsed(Records()).Batch(4, {.ragged = {"list"}}).Unbatch().Map(FailBad);
  EXPECT_THAT(std::string(ReadAll(rows, {.file_system = examples.fs}).status().message()),
              StartsWith("row 1 of the batch from memory://d/a.tfrec:"));
}

// Everything that is reported about one pass.
struct PassReport {
  absl::Status status;
  int64_t elements = 0;
  int64_t num_skipped = 0;
  std::vector<SkippedElement> skipped;
  std::vector<StageStats> stats;
};

PassReport Read(const Dataset& dataset, IteratorOptions options) {
  PassReport report;
  options.on_skipped = [&](const SkippedElement& skipped) {
    report.skipped.push_back(skipped);
    return absl::OkStatus();
  };
  auto iterator = dataset.MakeIterator(options);
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  for (NamedArrays element;; ++report.elements) {
    const auto more = (*iterator)->Next(&element);
    report.status = more.status();
    if (!more.ok() || !*more) break;
  }
  report.num_skipped = (*iterator)->num_skipped();
  report.stats = (*iterator)->Stats();
  return report;
}

TEST(ErrorsOfElements, ReportsAllSkippedElements) {
  Shard shard;
  shard.Corrupt(3);
  shard.Corrupt(30);
  const PassReport report =
      Read(Parsed(Records({.skip_corrupt = true})).IgnoreErrors(), {.file_system = shard.fs});
  EXPECT_TRUE(report.status.ok()) << report.status;
  EXPECT_EQ(report.elements, kRecords - 3);
  EXPECT_EQ(report.num_skipped, 3);
  ASSERT_EQ(report.skipped.size(), 3);
  std::vector<std::string> sources;
  for (const SkippedElement& skipped : report.skipped) {
    sources.push_back(absl::StrCat(skipped.origin, " ", skipped.stage));
    EXPECT_EQ(skipped.error.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(skipped.error.message()), HasSubstr(skipped.what));
  }
  EXPECT_THAT(sources, ::testing::UnorderedElementsAre(shard.corrupt[0] + " FromTfRecords",
                                                       shard.origin + " ParseExample",
                                                       shard.corrupt[1] + " FromTfRecords"));
  // Stats count skipped elements by stage.
  EXPECT_EQ(report.stats[0].skipped, 2);
  EXPECT_THAT(report.stats[0].skipped_messages,
              ElementsAre(StartsWith(shard.corrupt[0]), StartsWith(shard.corrupt[1])));
  EXPECT_EQ(report.stats.back().skipped, 1);
}

TEST(ErrorsOfElements, ExceedingMaxErrorsOfAllStagesEndsIterator) {
  Shard shard;
  shard.Corrupt(3);
  shard.Corrupt(30);
  const Dataset dataset = Parsed(Records({.skip_corrupt = true})).IgnoreErrors();
  EXPECT_TRUE(Read(dataset, {.file_system = shard.fs, .max_errors = 3}).status.ok());
  const PassReport report = Read(dataset, {.file_system = shard.fs, .max_errors = 2});
  EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(report.status.message()), StartsWith("memory://d/a.tfrec:"));
  EXPECT_THAT(std::string(report.status.message()),
              HasSubstr("including it, 3 elements would be skipped because of errors; the limit is "
                        "2 (IteratorOptions.max_errors)"));
  EXPECT_EQ(report.skipped.size(), 2);
  // Errors are counted over all epochs.
  EXPECT_FALSE(Read(dataset.Repeat(2), {.file_system = shard.fs, .max_errors = 5}).status.ok());
  EXPECT_TRUE(Read(dataset.Repeat(2), {.file_system = shard.fs, .max_errors = 6}).status.ok());
  // With a limit of 0, the first error ends the iterator.
  EXPECT_EQ(Read(dataset, {.file_system = shard.fs, .max_errors = 0}).skipped.size(), 0);
  EXPECT_FALSE(dataset.MakeIterator({.file_system = shard.fs, .max_errors = -2}).ok());
}

TEST(ErrorsOfElements, FailedReportEndsIterator) {
  const Shard shard;
  auto iterator = Parsed(Records()).IgnoreErrors().MakeIterator(
      {.file_system = shard.fs,
       .on_skipped = [](const SkippedElement&) { return absl::UnavailableError("disk full"); }});
  absl::Status status;
  for (NamedArrays element; status.ok();) status = (*iterator)->Next(&element).status();
  EXPECT_EQ(status.message(), "disk full");
}

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(ErrorReport, AppendsOneLineForEachError) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/errors_", getpid(), "_", base::EntropySeed(), ".csv");
  const auto read = [&](const std::string& what) {
    const auto report = ErrorReport(path);
    ASSERT_TRUE(report.ok()) << report.status();
    const Dataset dataset = testing::TestSource({.rows = 9})
                                .Map([what](const NamedArrays& in, NamedArrays* out) {
                                  if (in.Find("x")->item<int64_t>() % 4 == 2) {
                                    return absl::DataLossError(what);
                                  }
                                  *out = in;
                                  return absl::OkStatus();
                                })
                                .IgnoreErrors();
    EXPECT_EQ(ReadAll(dataset, {.on_skipped = *report})->size(), 7);
    // The line is in the file while the report is still open.
    EXPECT_THAT(Contents(path), HasSubstr("source:6,Map,"));
  };
  read("plain");
  read("a \"b\", c\nd");
  EXPECT_EQ(Contents(path),
            "element,stage,error\r\nsource:2,Map,plain\r\nsource:6,Map,plain\r\n"
            "source:2,Map,\"a \"\"b\"\", c\nd\"\r\nsource:6,Map,\"a \"\"b\"\", c\nd\"\r\n");
  // FromCsv can read the report.
  EXPECT_EQ(ReadAll(Dataset::FromCsv({path}))->size(), 4);
  std::filesystem::remove(path);
  EXPECT_FALSE(ErrorReport(::testing::TempDir() + "/no/such/folder/errors.csv").ok());
}

TEST(ErrorReportFile, DoesNotWaitForAReaderOfANamedPipe) {
  const std::string path =
      std::filesystem::temp_directory_path() / absl::StrCat("report", base::EntropySeed());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto report = ErrorReport(path);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(report.status().message(), HasSubstr(path));
  std::filesystem::remove(path);
}

}  // namespace error_report_test
}  // namespace penstock::data
