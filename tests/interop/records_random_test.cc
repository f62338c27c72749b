// Reads random TFRecord files and tf.train.Examples, valid and corrupt, and compares with
// TensorFlow. The duration is set by PENSTOCK_FUZZ_SECONDS (random_cases.h).
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"

#include "penstock/base/testing/random_cases.h"
#include "penstock/io/file_system.h"
#include "penstock/record/example.h"
#include "penstock/record/example_parser.h"
#include "penstock/record/tfrecord.h"

#include "tests/python.h"

namespace penstock::tests::records_random_test {
namespace {

using base::Array;
using base::DType;

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  PENSTOCK_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Parses a sequence of uint32 lengths, each followed by its bytes.
std::vector<std::string> ReadItems(const std::string& path) {
  const std::string all = ReadWhole(path);
  std::vector<std::string> items;
  for (size_t at = 0; at < all.size();) {
    uint32_t length;
    std::memcpy(&length, &all[at], sizeof(length));
    items.push_back(all.substr(at + sizeof(length), length));
    at += sizeof(length) + length;
  }
  return items;
}

// Prints values like tensorflow_random_records.py.
std::string Show(const Array& values) {
  if (!values.valid()) return "none";
  std::string out;
  if (values.dtype() == DType::kString) {
    out = "b";
    for (absl::string_view value : values.values<absl::string_view>()) {
      absl::StrAppend(&out, ",", absl::BytesToHexString(value));
    }
  } else if (values.dtype() == DType::kF32) {
    out = "f";
    for (float value : values.values<float>()) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      absl::StrAppend(&out, ",", bits);
    }
  } else {
    out = "i";
    for (int64_t value : values.values<int64_t>()) absl::StrAppend(&out, ",", value);
  }
  return out;
}

std::string ByReadExample(absl::string_view record, absl::Status& status) {
  const auto features = record::ReadExample(record);
  status = features.status();
  if (!features.ok()) return "E";
  std::vector<std::pair<std::string, std::string>> sorted;
  for (const auto& [name, values] : *features) {
    sorted.emplace_back(std::string(name), Show(values));
  }
  std::sort(sorted.begin(), sorted.end());
  std::string out = "K";
  for (const auto& [name, shown] : sorted) {
    absl::StrAppend(&out, absl::BytesToHexString(name), "=", shown, ";");
  }
  return out;
}

record::ExampleParser MakeParser() {
  return *record::ExampleParser::Create(
      {.features = {{.name = "b1", .dtype = DType::kString},
                    {.name = "i1", .dtype = DType::kI64},
                    {.name = "f2", .dtype = DType::kF32, .shape = {2}},
                    {.name = "iv", .dtype = DType::kI64, .variable_length = true},
                    {.name = "fv", .dtype = DType::kF32, .variable_length = true},
                    {.name = "bv", .dtype = DType::kString, .variable_length = true}}});
}

std::string ByParser(const record::ExampleParser& parser, absl::string_view record,
                     absl::Status& status) {
  std::vector<Array> columns = parser.NewColumns(1);
  std::vector<record::RaggedRows> rows(1);
  status = parser.ParseRange({record}, 0, absl::MakeSpan(columns), &rows[0],
                             [](int64_t) { return std::string("record"); });
  if (!status.ok()) return "E";
  const std::vector<record::Ragged> ragged = parser.JoinRagged(rows);
  std::string out = "K";
  for (size_t i = 0; i < columns.size(); ++i) {
    const bool fixed = !parser.schema().features[i].variable_length;
    absl::StrAppend(&out, Show(fixed ? columns[i] : ragged[i].values), ";");
  }
  return out;
}

// NAME=VALUES in the output of ByReadExample or protobuf.
std::map<std::string, std::string> Entries(absl::string_view shown) {
  shown.remove_prefix(1);
  if (!absl::ConsumeSuffix(&shown, ";")) return {};
  return absl::StrSplit(shown, absl::ByAnyChar("=;"));  // a name may be empty
}

// Expected output of ByParser, given the output of protobuf.
std::string OfSchema(const record::ExampleSchema& schema, absl::string_view by_protobuf) {
  if (by_protobuf == "E") return "E";
  const auto entries = Entries(by_protobuf);
  std::string out = "K";
  for (const record::ExampleFeature& feature : schema.features) {
    const std::string kind = feature.dtype == DType::kString ? "b"
                             : feature.dtype == DType::kF32  ? "f"
                                                             : "i";
    const auto found = entries.find(absl::BytesToHexString(feature.name));
    const bool missing = found == entries.end() || found->second == "none";
    if (missing && !feature.variable_length) return "E";
    const std::string values = missing ? kind : found->second;
    const auto count = std::count(values.begin(), values.end(), ',');
    if (!feature.variable_length && count != feature.shape.num_elements()) return "E";
    // An empty list has no wrong type.
    if (count > 0 && values.substr(0, 1) != kind) return "E";
    absl::StrAppend(&out, count > 0 ? values : kind, ";");
  }
  return out;
}

// Whether ReadExample is allowed to differ from protobuf.
bool MayDiffer(const std::string& got, const std::string& want, const absl::Status& status,
               bool damaged) {
  // docs/design/record.md: an entry of the map with two values, which no writer produces, is an error.
  if (got == "E") return absl::StrContains(status.message(), "two values");
  // Names need not be UTF-8, and entries with unknown fields are accepted.
  if (!damaged) return false;
  if (want == "E") return true;
  const auto ours = Entries(got);
  for (const auto& entry : Entries(want)) {
    const auto found = ours.find(entry.first);
    if (found == ours.end() || found->second != entry.second) return false;
  }
  return true;
}

TEST(RandomRecords, AreReadAsInTensorFlow) {
  const record::ExampleParser parser = MakeParser();
  const auto fs = io::FileSystem::Default();
  for (base::RandomCases cases(1); cases.Next();) {
    SCOPED_TRACE(cases.Describe());
    const TemporaryFolder folder;
    const absl::Status made =
        RunPython("interop/tensorflow_random_records.py",
                  {folder.path().string(), absl::StrCat(cases.seed()), "1500", "200"});
    ASSERT_TRUE(made.ok()) << made;

    const std::vector<std::string> examples = ReadItems(folder / "examples");
    const std::vector<std::string> expected =
        absl::StrSplit(ReadWhole(folder / "examples.want"), '\n', absl::SkipEmpty());
    ASSERT_EQ(examples.size(), expected.size());
    for (size_t i = 0; i < examples.size(); ++i) {
      const std::vector<std::string> want = absl::StrSplit(expected[i], '\t');
      const bool damaged = want[2] == "damaged";
      SCOPED_TRACE(absl::StrCat(want[2], " Example ", absl::BytesToHexString(examples[i])));
      absl::Status status;
      const std::string read = ByReadExample(examples[i], status);
      EXPECT_TRUE(read == want[0] || MayDiffer(read, want[0], status, damaged))
          << "ReadExample " << read << " " << status << "\nprotobuf    " << want[0];
      const std::string parsed = ByParser(parser, examples[i], status);
      // A parser skips features outside the schema, so it may miss corruption there. TensorFlow's
      // rejects unknown fields, and reads only the first part of a list in two parts.
      const bool unseen = damaged && want[0] == "E" && want[1] == "E";
      EXPECT_TRUE(parsed == want[1] || parsed == OfSchema(parser.schema(), want[0]) || unseen ||
                  (parsed == "E" && absl::StrContains(status.message(), "two values")))
          << "ExampleParser " << parsed << " " << status << "\nTensorFlow's  " << want[1]
          << "\nprotobuf      " << want[0];
    }

    for (int i = 0; i < 200; ++i) {
      const std::string path = folder / absl::StrCat("files/", i);
      SCOPED_TRACE(absl::StrCat("file ", i, ", TensorFlow: ", ReadWhole(path + ".want")));
      const std::vector<std::string> want =
          absl::StrSplit(ReadWhole(path + ".want"), absl::ByAnyChar(" \n"), absl::SkipEmpty());
      const auto kind = want[2] == "GZIP"   ? record::Compression::kGzip
                        : want[2] == "ZLIB" ? record::Compression::kZlib
                                            : record::Compression::kNone;
      std::vector<std::string> records;
      absl::Status end;
      auto reader = record::TfRecordReader::Open(*fs, path, {.compression = kind});
      end = reader.status();
      while (end.ok()) {
        const auto block = (*reader)->ReadBlock();
        end = block.status();
        if (!block.ok() || block->empty()) break;
        for (absl::string_view record : block->records) records.emplace_back(record);
      }
      EXPECT_TRUE(end.ok() || absl::IsDataLoss(end)) << end;
      // TensorFlow accepts the following as the end of a file, where Penstock reports an error:
      // fewer than 12 bytes after the last record, bytes after a zlib stream, and a gzip stream
      // without its end. TensorFlow reads only the first of several gzip members, and no record of
      // the last buffer of a corrupt compressed file; Penstock reads all members and all records
      // before the corruption.
      EXPECT_TRUE(want[0] == "K" || !end.ok()) << records.size() << " records";
      const std::vector<std::string> theirs = ReadItems(path + ".records");
      if (kind != record::Compression::kNone && theirs.size() < records.size()) {
        records.resize(theirs.size());
      }
      EXPECT_TRUE(records == theirs)
          << records.size() << " records, and " << theirs.size() << " of TensorFlow; " << end;
    }
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace penstock::tests::records_random_test
