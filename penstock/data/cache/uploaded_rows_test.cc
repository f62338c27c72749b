#include "penstock/data/cache/uploaded_rows.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/stage.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/travel/dataset_json.h"
#include "penstock/io/file_system.h"

namespace penstock::data {
namespace uploaded_rows_test {

using base::Array;
using ::testing::HasSubstr;
using testing::ReadAll;

Dataset Numbers(int64_t rows) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(i);
  return Dataset::FromArrays({{"n", Array::Of<int64_t>({rows}, values)}});
}

// Sends the part of a dataset through text, as a client and a worker do.
absl::StatusOr<Dataset> ThroughText(const Dataset& dataset, uint64_t seed) {
  std::vector<DatasetPart> parts;
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, DatasetToJson(dataset, &parts));
  std::vector<std::shared_ptr<const UploadedRows>> all;
  for (const DatasetPart& part : parts) {
    PENSTOCK_ASSIGN_OR_RETURN(
        const PartDescription description,
        PartDescription::Of(*part.description, {.file_system = io::FileSystem::Default()}));
    PENSTOCK_ASSIGN_OR_RETURN(PartDescription read,
                              PartDescription::FromJson(description.ToJson()));
    auto rows = std::make_shared<UploadedRows>(std::move(read));
    PENSTOCK_ASSIGN_OR_RETURN(
        auto iterator,
        SerializedRows(part.description, part.first_stage).MakeIterator({.seed = seed}));
    for (base::NamedArrays record;;) {
      PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&record));
      if (!more) break;
      PENSTOCK_RETURN_IF_ERROR(
          rows->Add(std::string(record.Find("rows")->values<absl::string_view>()[0])));
    }
    all.push_back(rows);
  }
  return DatasetFromJson(
      text,
      {.uploaded_rows = [&](int64_t number) -> absl::StatusOr<std::shared_ptr<const UploadedRows>> {
        if (number < 0 || number >= static_cast<int64_t>(all.size())) {
          return absl::InvalidArgumentError("no such rows");
        }
        return all[static_cast<size_t>(number)];
      }});
}

TEST(UploadedRows, RestOfTheDatasetIsTheSame) {
  const Dataset kept = Numbers(1000).Shuffle(100).Cache("worker").Shuffle(50).Repeat(2).Batch(7);
  const Dataset zipped = Dataset::Zip({Numbers(90).Shuffle(9).Cache("worker"),
                                       Numbers(90).Shuffle(9).Enumerate().Cache("worker")},
                                      {.prefixes = {"a", "b"}})
                             .Shuffle(20);
  for (const Dataset& dataset : {kept, zipped}) {
    const auto same = ThroughText(dataset, 7);
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_EQ(same->ToString(), dataset.ToString());
    for (const int64_t epoch : {0, 2}) {
      // A new description: its cache is filled by epoch 0, whichever is read first.
      auto a = dataset.MakeIterator({.seed = 7, .epoch = epoch});
      auto b = same->MakeIterator({.seed = 7, .epoch = epoch});
      ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
      for (base::NamedArrays x, y;;) {
        const auto more = (*a)->Next(&x);
        const auto more_there = (*b)->Next(&y);
        ASSERT_TRUE(more.ok() && more_there.ok()) << more.status() << more_there.status();
        ASSERT_EQ(*more, *more_there);
        EXPECT_EQ((*a)->State().ToString(), (*b)->State().ToString());
        if (!*more) break;
        ASSERT_EQ(x.size(), y.size());
        for (const auto& [name, array] : x) {
          EXPECT_TRUE(BitwiseEqual(array, *y.Find(name))) << name;
        }
      }
    }
  }
}

TEST(UploadedRows, RejectsWhatIsNoRecord) {
  UploadedRows rows(
      {.printed = "Numbers\n", .num_stages = 1, .sources = "", .spec = Numbers(1).spec()});
  for (const std::string& record : {std::string("x"), std::string(1, '\0'), std::string("\5abc"),
                                    std::string("\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9)}) {
    EXPECT_FALSE(rows.Add(record).ok());
  }
  EXPECT_EQ(rows.elements(), 0);
}

TEST(UploadedRows, RejectsWrongDescriptions) {
  for (const char* text :
       {"", "[]", "{\"num_stages\":0}", "{\"num_stages\":1000000}", "{\"printed\":7}",
        "{\"spec\":7}", "{\"unknown\":1}", "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"}) {
    EXPECT_FALSE(PartDescription::FromJson(text).ok()) << text;
  }
  const auto status =
      DatasetFromJson("{\"format\":1,\"pipeline\":[{\"stage\":\"UploadedRows\",\"rows\":3}]}")
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("no rows 3"));
}

// Where there is no worker, it is a cache that gives up what does not fit.
TEST(UploadedRows, CacheAtTheWorkerIsACacheHere) {
  const Dataset numbers = Numbers(3000).Map(
      [](const base::NamedArrays& in, base::NamedArrays* out) {
        out->Set("n", in.Find("n")->Clone());
        return absl::OkStatus();
      },
      {.name = "copy", .reads = {"n"}});
  const Dataset cached = numbers.Shuffle(10).Cache("worker");
  EXPECT_THAT(cached.ToString(), HasSubstr("Cache(worker)"));
  auto whole = (numbers.Shuffle(10).Cache()).MakeIterator({.seed = 3});
  ASSERT_TRUE(whole.ok());
  for (int pass = 0; pass < 2; ++pass) {
    auto a = numbers.Shuffle(10).Cache().MakeIterator({.seed = 3});
    auto b = cached.MakeIterator({.seed = 3, .epoch = pass, .memory_bytes = 20'000});
    ASSERT_TRUE(a.ok() && b.ok()) << b.status();
    for (base::NamedArrays x, y;;) {
      const auto more = (*a)->Next(&x), more_b = (*b)->Next(&y);
      ASSERT_TRUE(more.ok() && more_b.ok()) << more_b.status();
      ASSERT_EQ(*more, *more_b);
      if (!*more) break;
      EXPECT_TRUE(BitwiseEqual(*x.Find("n"), *y.Find("n")));
    }
    if (pass == 0) {
      EXPECT_THAT((*b)->Explain(), HasSubstr("they are not kept"));
    }
  }
}

}  // namespace uploaded_rows_test
}  // namespace penstock::data
