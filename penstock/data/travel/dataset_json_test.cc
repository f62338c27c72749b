#include "penstock/data/travel/dataset_json.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "penstock/base/random.h"
#include "penstock/base/testing/sanitized.h"
#include "penstock/data/testing/random_pipeline.h"
#include "penstock/formats/npy.h"
#include "penstock/io/memory/memory_file_system.h"

namespace penstock::data {
namespace dataset_json_test {

using base::Array;
using base::DType;
using base::NamedArrays;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Elements {
  std::vector<NamedArrays> elements;
  std::vector<std::string> states;
  std::string error;
};

Elements ReadUpTo(const Dataset& dataset, const IteratorOptions& options, size_t max) {
  Elements out;
  auto iterator = dataset.MakeIterator(options);
  out.error = iterator.status().ToString();
  if (!iterator.ok()) return out;
  out.states.push_back((*iterator)->State().ToString());
  NamedArrays element;
  while (out.elements.size() < max) {
    const auto more = (*iterator)->Next(&element);
    out.error = more.status().ToString();
    if (!more.ok() || !*more) break;
    out.elements.push_back(element);
    out.states.push_back((*iterator)->State().ToString());
  }
  return out;
}

void ExpectSame(const Elements& want, const Elements& got) {
  EXPECT_EQ(got.error, want.error);
  EXPECT_EQ(got.states, want.states);
  ASSERT_EQ(got.elements.size(), want.elements.size());
  for (size_t i = 0; i < want.elements.size(); ++i) {
    ASSERT_EQ(got.elements[i].size(), want.elements[i].size());
    for (const auto& [name, array] : want.elements[i]) {
      const Array* other = got.elements[i].Find(name);
      ASSERT_NE(other, nullptr) << name;
      ASSERT_TRUE(BitwiseEqual(*other, array)) << "element " << i << ", " << name;
    }
  }
}

// Written and read; both must print, and be written, the same.
Dataset Travel(const Dataset& dataset, std::shared_ptr<io::FileSystem> file_system = nullptr) {
  const auto text = DatasetToJson(dataset);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) return dataset;
  const auto read = DatasetFromJson(*text, {.file_system = std::move(file_system)});
  EXPECT_TRUE(read.ok()) << read.status() << "\n" << *text;
  if (!read.ok()) return dataset;
  EXPECT_EQ(read->ToString(), dataset.ToString());
  EXPECT_EQ(read->spec(), dataset.spec());
  EXPECT_EQ(*DatasetToJson(*read), *text);
  return *read;
}

std::string WhyNot(const Dataset& dataset) {
  return std::string(DatasetToJson(dataset).status().message());
}

std::string ReadError(absl::string_view text) {
  return std::string(DatasetFromJson(text).status().message());
}

TEST(DatasetJsonTest, RandomPipelinesAreTheSameAfterTravel) {
  const testing::RandomFiles files;
  const std::string root =
      absl::StrCat(::testing::TempDir(), "/dataset_json_", absl::Hex(base::EntropySeed()));
  for (int64_t seed = 0; seed < base::FewerIfSanitized(80); ++seed) {
    SCOPED_TRACE(absl::StrCat("pipeline ", seed));
    // A folder of a cache is filled by the first of the two.
    testing::RandomPipelines random(files, absl::StrCat(root, "/", seed),
                                    static_cast<uint64_t>(seed),
                                    /*travels=*/true);
    const Dataset dataset = random.Make().dataset;
    const Dataset read = Travel(dataset, files.file_system());
    IteratorOptions options = {.file_system = files.file_system()};
    options.seed = static_cast<uint64_t>(random.Below(100));
    options.epoch = random.Below(3);
    const Elements want = ReadUpTo(dataset, options, 25);
    ExpectSame(want, ReadUpTo(read, options, 25));
    if (want.states.empty() || ::testing::Test::HasFailure()) continue;
    // Each continues where the other one was.
    const auto at = static_cast<size_t>(random.Below(static_cast<int64_t>(want.states.size())));
    IteratorOptions resumed = {.file_system = files.file_system()};
    resumed.state = *IteratorState::Parse(want.states[at]);
    ExpectSame(ReadUpTo(dataset, resumed, 10), ReadUpTo(read, resumed, 10));
  }
  std::filesystem::remove_all(root);
}

TEST(DatasetJsonTest, EveryOptionTravels) {
  const auto same = [](const Dataset& dataset) {
    // An option that was lost would be missing in the text of what was read: Travel compares both.
    Travel(dataset);
    return *DatasetToJson(dataset);
  };
  const Dataset records =
      Dataset::FromTfRecords({"gs://b/*.tfrec", "/x/é"}, {.parallel_files = 3,
                                                          .block_length = 4,
                                                          .shuffle_files = true,
                                                          .read_ahead_bytes = 5,
                                                          .block_bytes = 6,
                                                          .verify = false,
                                                          .skip_corrupt = true});
  EXPECT_EQ(
      same(records),
      "{\"format\":1,\"pipeline\":[{\"block_bytes\":6,\"block_length\":4,\"parallel_files\":3,"
      "\"read_ahead_bytes\":5,\"reads\":[\"gs://b/*.tfrec\",\"/x/é\"],\"shuffle_files\":true,"
      "\"skip_corrupt\":true,\"stage\":\"FromTfRecords\",\"verify\":false}]}");
  const record::ExampleSchema schema = {
      .features = {
          {.name = "image",
           .dtype = DType::kString,
           .default_value = Array::Strings({}, {std::string("\xff\0z", 3)})},
          {.name = "class", .dtype = DType::kI64, .default_value = Array::Scalar<int64_t>(-7)},
          {.name = "box", .dtype = DType::kF32, .shape = {4}, .variable_length = true},
          {.name = "weights",
           .dtype = DType::kF32,
           .shape = {2},
           .default_value = Array::Of<float>({2}, {0.1f, 3e-40f})}}};
  const Dataset parsed = records.ParseExample(schema, {.column = "record"});
  same(parsed);
  const std::string decoded = same(parsed.DecodeImage({.column = "image",
                                                       .channels = 1,
                                                       .height = 7,
                                                       .width = 9,
                                                       .filter = image::Filter::kBicubic,
                                                       .antialias = true,
                                                       .fit = image::Fit::kCenterCrop,
                                                       .apply_orientation = true,
                                                       .max_pixels = 1234,
                                                       .dct_scaling = image::DctScaling::kAuto}));
  for (const char* field :
       {"\"filter\":\"bicubic\"", "\"fit\":\"center_crop\"", "\"max_pixels\":1234",
        "\"dct_scaling\":\"auto\"", "\"antialias\":true", "\"apply_orientation\":true"}) {
    EXPECT_THAT(decoded, HasSubstr(field));
  }
  same(parsed.DecodeImage(
      {.height = 8,
       .width = 8,
       .random_crop = {{.scale = {0.3, 0.9}, .ratio = {0.1, 7.3}}},
       .random_flip = true,
       .seed = UINT64_MAX,
       .dtype = DType::kBF16,
       .normalize = {.scale = 1 / 255.0f, .mean = {0.1f, 0.2f, 0.3f}, .std = {1, 2, 3}}}));
  same(Dataset::FromTfRecords({"gs://b/a"}, {.global_shuffle = true}));
  same(Dataset::FromText({"s3://b/a.txt"}, {.shuffle_files = true, .max_line_bytes = 99}));
  same(Dataset::FromFiles({"gs://b/*.jpg"},
                          {.parallel_files = 7, .shuffle_files = true, .read_ahead_bytes = 8}));
  same(Dataset::FromCsv(
      {"/t/a.csv"},
      {.columns = {{"a", DType::kI64, "5"}, {"b", DType::kString}, {"c", DType::kF32}},
       .select = {"c", "a"},
       .header = false,
       .check_header = false,
       .delimiter = ';',
       .quotes = false,
       .na_value = "NA",
       .max_row_bytes = 77}));
  const Dataset range = Dataset::Range(INT64_MIN, INT64_MAX, 3);
  same(range.Batch(4, {.drop_remainder = true}).Rebatch(3).Unbatch());
  same(range.Window(4, {.shift = 2, .stride = 3, .drop_remainder = true}));
  same(range.PaddedBatch(
      4, {.padding_values = {{"value", Array::Scalar<int64_t>(-1)}}, .drop_remainder = true}));
  same(range.Shuffle(9, {.seed = 0, .reshuffle_each_epoch = false}).Shard(5, 2).Take(4).Skip(1));
  same(range.Enumerate(3, {.column = "i"})
           .RandomSeed({.column = "s", .seed = 4})
           .IgnoreErrors({.max_errors = 2}));
  same(range.Cache()
           .Prefetch(3)
           .Repeat(2)
           .Cache("/c")
           .Cache("/d", {.memory_first = true})
           .Snapshot("gs://b/s", {.shard_bytes = 5}));
  same(Dataset::Zip({range, range}, {.prefixes = {"a", "b"}}));
  same(Dataset::Sample({range, range.Concatenate(range)}, {0.1, 2.5},
                       {.seed = 7, .stop_on_empty = true}));
  same(Dataset::Random({.seed = 5, .rerandomize_each_epoch = false}));
}

TEST(DatasetJsonTest, SourcesThatLookAtFilesTravel) {
  const auto files = io::MakeMemoryFileSystem();
  const Array rows = Array::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  ASSERT_TRUE(formats::WriteNpy(*files, "memory://n/x.npy", rows).ok());
  ASSERT_TRUE(io::WriteFile(*files, "memory://n/t.csv", "a,b\n1,x\n2.5,y\n").ok());
  for (const char* name :
       {"memory://n/f/cat/1.png", "memory://n/f/dog/2.png", "memory://n/f/dog/3.jpg"}) {
    ASSERT_TRUE(io::WriteFile(*files, name, name).ok());
  }
  IteratorOptions options = {.file_system = files};
  options.seed = 3;
  for (const Dataset& dataset :
       {Dataset::FromNpy("memory://n/x.npy", {.file_system = files}),
        Dataset::FromNpy("memory://n/x.npy",
                         {.access = NpyAccess::kStream, .block_bytes = 8, .file_system = files}),
        Dataset::FromCsv({"memory://n/t.csv"}, {.file_system = files}),
        Dataset::FromImageFolder("memory://n/f", {.paths = true, .file_system = files}),
        Dataset::FromImageFolder("memory://n/f", {.class_names = {"dog"},
                                                 .validation_split = 0.5,
                                                 .subset = ImageSubset::kValidation,
                                                 .split_seed = 4,
                                                 .file_system = files})}) {
    const Dataset read = Travel(dataset, files);
    EXPECT_EQ(read.class_names(), dataset.class_names());
    ExpectSame(ReadUpTo(dataset, options, 10), ReadUpTo(read, options, 10));
  }
}

// A schema or columns that are inferred are not inferred again from files that changed meanwhile.
TEST(DatasetJsonTest, WritesWhatWasInferred) {
  const auto files = io::MakeMemoryFileSystem();
  ASSERT_TRUE(io::WriteFile(*files, "memory://n/t.csv", "a,b\n1,x\n").ok());
  const Dataset dataset = Dataset::FromCsv({"memory://n/t.csv"}, {.file_system = files});
  ASSERT_TRUE(io::WriteFile(*files, "memory://n/t.csv", "a,b\nx,1\n").ok());
  EXPECT_EQ(Travel(dataset, files).spec().ToString(), "{a: int64[], b: string[]}");
}

TEST(DatasetJsonTest, NamesTheStageThatCannotTravel) {
  const Dataset range = Dataset::Range(0, 9);
  const auto identity = [](const NamedArrays&, NamedArrays*) { return absl::OkStatus(); };
  EXPECT_THAT(WhyNot(range.Map(identity, {.name = "augment"}).Batch(2)),
              AllOf(HasSubstr("stage Map(augment"),
                    HasSubstr("holds a C++ function and cannot travel"), HasSubstr("DecodeImage")));
  EXPECT_THAT(WhyNot(range.Filter([](const NamedArrays&) { return true; }, {.name = "big"})),
              HasSubstr("stage Filter(big"));
  EXPECT_THAT(WhyNot(range.Interleave([=](const NamedArrays&) { return range; })),
              HasSubstr("stage Interleave("));
  EXPECT_THAT(WhyNot(range.FlatMap([=](const NamedArrays&) { return range; })),
              HasSubstr("stage FlatMap("));
  EXPECT_THAT(WhyNot(range.Scan({}, [](const NamedArrays&, NamedArrays*,
                                       NamedArrays*) { return absl::OkStatus(); })),
              HasSubstr("stage Scan("));
  EXPECT_THAT(WhyNot(Dataset::FromGenerator({}, {{"v", DType::kI64, {}}})),
              HasSubstr("FromGenerator"));
  NamedArrays arrays;
  arrays.Set("x", Array::Of<float>({2}, {1, 2}));
  EXPECT_THAT(WhyNot(Dataset::Zip({range, Dataset::FromArrays(arrays)})),
              AllOf(HasSubstr("stage FromArrays("), HasSubstr("penstock pack")));
  EXPECT_THAT(WhyNot(Dataset::FromText({"/tmp/\xff"})), HasSubstr("is not UTF-8"));
  EXPECT_THAT(WhyNot(range.Batch(0)), HasSubstr("at least 1"));  // the description's own error
  Dataset deep = range;
  for (int i = 0; i < 40; ++i) deep = Dataset::Sample({deep, range});
  EXPECT_THAT(WhyNot(deep), HasSubstr("nested more than 32 deep"));
}

TEST(DatasetJsonTest, RejectsHostileText) {
  EXPECT_THAT(ReadError(""), HasSubstr("not the JSON of a dataset"));
  EXPECT_THAT(ReadError("[1]"), HasSubstr("not the JSON of a dataset"));
  EXPECT_THAT(ReadError(std::string(100'000, '[')), HasSubstr("nests more than"));
  EXPECT_THAT(ReadError("{\"format\":2,\"pipeline\":[]}"), HasSubstr("format other than 1"));
  const auto stage = [](absl::string_view fields) {
    return ReadError(
        absl::StrCat("{\"format\":1,\"pipeline\":[{\"stage\":\"Range\",\"end\":9},", fields, "]}"));
  };
  EXPECT_EQ(stage("{\"stage\":\"Take\",\"count\":4}"), "");
  EXPECT_THAT(stage("{\"stage\":\"Map\"}"), HasSubstr("stage 1 (Map): no stage of this name"));
  EXPECT_THAT(stage("{\"stage\":\"Batch\",\"size\":-1}"), HasSubstr("stage 1 (Batch)"));
  EXPECT_THAT(stage("{\"stage\":\"Batch\",\"size\":1e9}"), HasSubstr("expected an integer"));
  EXPECT_THAT(stage("{\"stage\":\"Batch\",\"size\":18446744073709551615}"),
              HasSubstr("expected an integer"));
  EXPECT_THAT(stage("{\"stage\":\"Batch\",\"size\":2,\"sise\":3}"),
              HasSubstr("there is no option 'sise'"));
  EXPECT_THAT(stage("{\"stage\":\"Zip\"}"), "");
  EXPECT_THAT(stage("{\"stage\":\"Concatenate\"}"), HasSubstr("it has 1 inputs; expected 2"));
  EXPECT_THAT(stage("{\"stage\":\"Zip\",\"inputs\":[]}"), HasSubstr("must be the first"));
  EXPECT_THAT(stage("7"), HasSubstr("expected an object"));
  EXPECT_THAT(ReadError("{\"format\":1,\"pipeline\":[]}"), HasSubstr("at least one stage"));
  EXPECT_THAT(ReadError("{\"format\":1,\"pipeline\":[{\"stage\":\"Zip\",\"inputs\":[]}]}"),
              HasSubstr("has 0 inputs"));
  EXPECT_THAT(ReadError("{\"format\":1,\"pipeline\":[{\"stage\":\"Take\",\"count\":1}]}"),
              HasSubstr("has 0 inputs"));
  EXPECT_THAT(ReadError("{\"format\":1,\"pipeline\":[{\"stage\":\"FromText\",\"reads\":[\"/a\"],"
                        "\"parallel_files\":2000000000}]}"),
              HasSubstr("'parallel_files' is 2000000000; expected 0 to 1024"));
  std::string many = "{\"format\":1,\"pipeline\":[{\"stage\":\"Range\"}";
  for (int i = 0; i < 1001; ++i) many += ",{\"stage\":\"Take\"}";
  EXPECT_THAT(ReadError(many + "]}"), HasSubstr("more than 1000 stages"));
  EXPECT_THAT(DatasetFromJson("{}", {.max_bytes = 1}).status().message(), HasSubstr("limit of 1"));
}

TEST(DatasetJsonTest, ChecksUrisBeforeAnythingIsOpened) {
  const std::string text =
      "{\"format\":1,\"pipeline\":[{\"stage\":\"FromNpy\",\"reads\":[\"/etc/x.npy\"]}]}";
  std::vector<std::string> seen;
  const auto read = DatasetFromJson(text, {.check = [&](absl::string_view uri, bool write) {
                                      seen.push_back(absl::StrCat(uri, write ? " w" : " r"));
                                      return absl::PermissionDeniedError("no");
                                    }});
  EXPECT_EQ(read.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(read.status().message(), "stage 0 (FromNpy): no");
  EXPECT_EQ(seen, std::vector<std::string>{"/etc/x.npy r"});
}

TEST(DatasetJsonTest, PathsOfListsWhatIsReadAndWritten) {
  const Dataset shards = Dataset::FromTfRecords({"gs://b/*.tfrec", "file:///l/a"});
  const Dataset dataset =
      Dataset::Sample({shards.Cache("/c"), Dataset::FromTfRecords({"s3://d/x"})})
          .Map([](const NamedArrays&, NamedArrays*) { return absl::OkStatus(); })
          .Snapshot("gs://b/s");
  std::string all;
  for (const DatasetPath& path : PathsOf(dataset)) {
    absl::StrAppend(&all, path.write ? "w " : "r ", path.uri, path.local ? " local\n" : "\n");
  }
  EXPECT_EQ(all, "r gs://b/*.tfrec\nr file:///l/a local\nw /c local\nr s3://d/x\nw gs://b/s\n");
}

}  // namespace dataset_json_test
}  // namespace penstock::data
