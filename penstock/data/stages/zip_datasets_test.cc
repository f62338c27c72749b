#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/dataset.h"
#include "penstock/data/stage.h"
#include "penstock/data/testing/conformance.h"
#include "penstock/data/testing/source.h"

namespace penstock::data {
namespace zip_datasets_test {

using base::Array;
using base::DType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::ExpectConforms;
using ::testing::HasSubstr;
using testing::PrintedRow;
using testing::ReadAll;
using testing::TestSource;

TEST(Zip, CombinesColumns) {
  const Dataset dataset = Dataset::Zip({Dataset::Range(10, 13), TestSource({.rows = 3})});
  EXPECT_EQ(dataset.spec().ToString(), "{value: int64[], x: int64[], v: float32[2], s: string[]}");
  EXPECT_THAT(*ReadAll(dataset), ElementsAre("value=int64[] {10} " + PrintedRow(0),
                                             "value=int64[] {11} " + PrintedRow(1),
                                             "value=int64[] {12} " + PrintedRow(2)));
}

TEST(Zip, EndsWithShortest) {
  for (int64_t a : {0, 1, 5, 5000}) {
    for (int64_t b : {0, 1, 6, 9000}) {
      const Dataset dataset =
          Dataset::Zip({Dataset::Range(0, a), TestSource({.rows = b, .portion = 100})});
      EXPECT_EQ(ReadAll(dataset)->size(), std::min(a, b));
      EXPECT_EQ(ReadAll(dataset.Skip(3))->size(), std::max<int64_t>(0, std::min(a, b) - 3));
    }
  }
  EXPECT_EQ(ReadAll(Dataset::Zip({TestSource({.rows = 7}), Dataset::Range(0, 9).Repeat()}))->size(),
            7);
}

TEST(Zip, OfShuffledRowsTakesThemOneByOne) {
  const int64_t n = 3000;
  const Dataset dataset =
      Dataset::Zip({Dataset::Range(0, n).Shuffle(n), TestSource({.rows = n, .portion = 50})});
  auto iterator = dataset.MakeIterator({.seed = 3});
  std::set<int64_t> seen;
  base::NamedArrays element;
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_TRUE(*(*iterator)->Next(&element));
    EXPECT_EQ(element.Find("x")->item<int64_t>(), i);
    EXPECT_EQ(element.Find("s")->values<absl::string_view>()[0], absl::StrCat("row ", i));
    seen.insert(element.Find("value")->item<int64_t>());
  }
  EXPECT_EQ(seen.size(), n);
  EXPECT_FALSE(*(*iterator)->Next(&element));
  EXPECT_EQ((*ReadAll(dataset.Batch(1000), {.seed = 3})).size(), 3);
}

// When one input ends, another may still have elements to skip.
TEST(Zip, ResumesInLaterRound) {
  const Dataset late = TestSource({.rows = 12, .portion = 1});
  const Dataset range = Dataset::Range(0, 10);
  for (const Dataset& round : {Dataset::Zip({range, late}), Dataset::Zip({late, range}),
                               Dataset::Zip({late.Take(10), range.Repeat()})}) {
    const Dataset dataset = round.Batch(4).Repeat(5);
    const auto all = *ReadAll(dataset, {.seed = 1});
    ASSERT_EQ(all.size(), 15);
    for (int64_t skip = 0; skip <= 15; ++skip) {
      for (int repeated = 0; repeated < 5; ++repeated) {
        EXPECT_THAT(*ReadAll(dataset, {.seed = 1, .skip = skip}),
                    ElementsAreArray(all.begin() + skip, all.end()));
      }
    }
  }
}

TEST(Zip, StopsSkippingWhenAnInputHasEnded) {
  const Dataset range = Dataset::Range(0, 10);
  EXPECT_THAT(
      *ReadAll(Dataset::Zip({range.Repeat(), range}, {.prefixes = {"a", "b"}}).Skip(INT64_MAX)),
      ElementsAre());
  const Dataset many = Dataset::Range(0, INT64_MAX);
  EXPECT_EQ(
      ReadAll(Dataset::Zip({many, many}, {.prefixes = {"a", "b"}}).Skip(INT64_MAX - 5))->size(), 5);
}

TEST(Zip, NamesCanHaveAPrefix) {
  const Dataset range = Dataset::Range(0, 1);
  EXPECT_THAT(*ReadAll(Dataset::Zip({range, range}, {.prefixes = {"", "b"}})),
              ElementsAre("value=int64[] {0} b/value=int64[] {0}"));
}

TEST(Zip, NamesDuplicateColumn) {
  EXPECT_THAT(
      std::string(
          Dataset::Zip({TestSource(), Dataset::Range(0, 1), TestSource()}).status().message()),
      AllOf(HasSubstr("Zip("), HasSubstr("'x' of dataset 2"), HasSubstr("prefixes")));
  EXPECT_FALSE(Dataset::Zip({}).status().ok());
  EXPECT_FALSE(Dataset::Zip({TestSource()}, {.prefixes = {"a", "b"}}).status().ok());
}

TEST(Zip, Conforms) {
  ExpectConforms([](const Dataset& d) { return Dataset::Zip({d}); });
  ExpectConforms([](const Dataset& d) { return Dataset::Zip({d, Dataset::Range(0, 5000)}); });
  ExpectConforms([](const Dataset& d) {
    return Dataset::Zip({d, Dataset::Range(0, 5000).Shuffle(100)}).Shuffle(3).Repeat(2).Batch(3);
  });
  ExpectConforms([](const Dataset& d) {
    return Dataset::Zip({d, TestSource({.rows = 4000, .portion = 2})}, {.prefixes = {"", "other"}});
  });
  ExpectConforms(
      [](const Dataset& d) {
        return Dataset::Zip({d, Dataset::Range(0, 6)});
      },
      {.reads_all_input = false});
}

TEST(Zip, ErrorNamesAllOrigins) {
  const auto fail = [](const base::NamedArrays& in, base::NamedArrays*) {
    return in.Find("x")->item<int64_t>() < 3 ? absl::OkStatus() : absl::DataLossError("too large");
  };
  const Dataset dataset = Dataset::Zip({TestSource(), Dataset::Range(10, 99)})
                              .Map([&](const base::NamedArrays& in, base::NamedArrays* out) {
                                *out = in;
                                return fail(in, out);
                              });
  EXPECT_EQ(ReadAll(dataset).status().message(), "source:3 + range:13: Map: too large");
}

TEST(Zip, ReportsFirstFailedInput) {
  for (int i = 0; i < 20; ++i) {
    const Dataset dataset =
        Dataset::Zip({TestSource({.fail_at = 9, .portion = 2}), TestSource({.fail_at = 9})},
                     {.prefixes = {"a", "b"}});
    EXPECT_THAT(std::string(ReadAll(dataset).status().message()), HasSubstr("source:9: broken"));
    const Dataset short_first = Dataset::Zip({Dataset::Range(0, 9), TestSource({.fail_at = 9})});
    EXPECT_EQ(ReadAll(short_first)->size(), 9);
    const Dataset short_last = Dataset::Zip({TestSource({.fail_at = 9}), Dataset::Range(0, 9)});
    EXPECT_FALSE(ReadAll(short_last).ok());
  }
}

// Numbers 0, 1, 2, ...; one of them is a recoverable error.
class OneErrorNode : public Node {
 public:
  OneErrorNode(const NodeContext& context, int64_t bad) : Node(context, nullptr), bad_(bad) {}

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    if (next_ == 40) return Poll::kEnd;
    if (next_ == bad_) {
      ++next_;
      return RecoverableError(absl::DataLossError("bad"), absl::StrCat("number:", bad_),
                              "OneError");
    }
    const int64_t end = std::min(next_ + std::min<int64_t>(max_rows, 4), next_ < bad_ ? bad_ : 40);
    auto block = std::make_shared<Block>();
    block->rows = end - next_;
    std::vector<int64_t> values;
    while (next_ < end) values.push_back(next_++);
    block->columns.emplace_back(Array::Of<int64_t>({block->rows}, absl::MakeConstSpan(values)));
    out->Append(block, 0, block->rows);
    return Poll::kReady;
  }

 private:
  const int64_t bad_;
  int64_t next_ = 0;
};

class OneErrorStage : public Stage {
 public:
  OneErrorStage(std::string column, int64_t bad) : column_(std::move(column)), bad_(bad) {}
  absl::string_view name() const override { return "OneError"; }
  std::string Parameters() const override { return absl::StrCat(bad_); }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec>) const override {
    return ElementSpec{{column_, DType::kI64, {}}};
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    return std::make_unique<OneErrorNode>(context, bad_);
  }

 private:
  const std::string column_;
  const int64_t bad_;
};

class AskAgainNode : public Node {
 public:
  using Node::Node;

 protected:
  absl::StatusOr<Poll> DoNext(int64_t max_rows, RowRefs* out) override {
    for (;;) {
      absl::StatusOr<Poll> poll = input_->Next(max_rows, out);
      if (poll.ok()) return poll;
    }
  }
};

class AskAgainStage : public Stage {
 public:
  absl::string_view name() const override { return "AskAgain"; }
  std::string Parameters() const override { return ""; }
  absl::StatusOr<ElementSpec> OutputSpec(absl::Span<const ElementSpec> inputs) const override {
    return inputs[0];
  }
  absl::StatusOr<std::unique_ptr<Node>> MakeNode(const NodeContext& context) const override {
    PENSTOCK_ASSIGN_OR_RETURN(auto input, context.make_input(0, context.epoch));
    return std::make_unique<AskAgainNode>(context, std::move(input));
  }
};

TEST(Zip, StaysAlignedWhenErrorIsSkipped) {
  for (int64_t bad_a : {-1, 0, 7, 39}) {
    for (int64_t bad_b : {-1, 0, 5, 7, 39}) {
      const Dataset dataset =
          Dataset::Zip({Dataset::From(std::make_shared<OneErrorStage>("a", bad_a)),
                        Dataset::From(std::make_shared<OneErrorStage>("b", bad_b))})
              .Then(std::make_shared<AskAgainStage>());
      std::vector<std::string> expected;
      for (int64_t i = 0; i < 40; ++i) {
        if (i == bad_a || i == bad_b) continue;
        expected.push_back(absl::StrCat("a=int64[] {", i, "} b=int64[] {", i, "}"));
      }
      EXPECT_EQ(*ReadAll(dataset), expected) << bad_a << " " << bad_b;
      // A failed element is skipped like any other.
      const Dataset rest =
          Dataset::Zip({Dataset::From(std::make_shared<OneErrorStage>("a", bad_a)),
                        Dataset::From(std::make_shared<OneErrorStage>("b", bad_b))})
              .Skip(9)
              .Then(std::make_shared<AskAgainStage>());
      expected.erase(expected.begin(),
                     std::find_if(expected.begin(), expected.end(), [](const std::string& element) {
                       return element == "a=int64[] {9} b=int64[] {9}";
                     }));
      EXPECT_EQ(*ReadAll(rest), expected) << bad_a << " " << bad_b;
    }
  }
}

}  // namespace zip_datasets_test
}  // namespace penstock::data
