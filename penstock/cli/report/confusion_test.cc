// Tests of the counts and scores (by hand, from scikit-learn's formulas) and of the page.
#include "penstock/cli/report/confusion.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/cli/report/confusion_page.h"
#include "penstock/cli/report/html_text.h"

namespace penstock::cli {
namespace confusion_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// y_true = [0 0 0 0 1 1 1 3 3 4], y_pred = [0 0 1 3 1 1 0 3 0 3] of five classes.
Confusion Example() {
  Confusion confusion(5);
  const int64_t labels[] = {0, 0, 0, 0, 1, 1, 1, 3, 3, 4};
  const int64_t predicted[] = {0, 0, 1, 3, 1, 1, 0, 3, 0, 3};
  for (int i = 0; i < 10; ++i) {
    confusion.Add({.label = labels[i], .predicted = predicted[i], .label_probability = 0.5});
  }
  return confusion;
}

TEST(Confusion, HasTheScoresOfScikitLearn) {
  const Confusion confusion = Example();
  const std::vector<ClassScores> scores = confusion.PerClass();
  ASSERT_THAT(scores, SizeIs(4)) << "class 2 occurs neither as a label nor as a prediction";
  const auto expect = [&](size_t i, int64_t number, int64_t support, double precision,
                          double recall, double f1) {
    SCOPED_TRACE(number);
    EXPECT_EQ(scores[i].class_number, number);
    EXPECT_EQ(scores[i].support, support);
    EXPECT_DOUBLE_EQ(scores[i].precision, precision);
    EXPECT_DOUBLE_EQ(scores[i].recall, recall);
    EXPECT_DOUBLE_EQ(scores[i].f1, f1);
  };
  expect(0, 0, 4, 0.5, 0.5, 0.5);
  expect(1, 1, 3, 2 / 3.0, 2 / 3.0, 2 / 3.0);
  expect(2, 3, 2, 1 / 3.0, 0.5, 0.4);
  expect(3, 4, 1, 0, 0, 0);  // never predicted: zero_division=0
  EXPECT_DOUBLE_EQ(confusion.accuracy(), 0.5);
  EXPECT_DOUBLE_EQ(confusion.Macro().precision, 0.375);
  EXPECT_DOUBLE_EQ(confusion.Macro().recall, 5 / 12.0);
  EXPECT_DOUBLE_EQ(confusion.Macro().f1, 47 / 120.0);
  EXPECT_DOUBLE_EQ(confusion.Weighted().precision, 7 / 15.0);
  EXPECT_DOUBLE_EQ(confusion.Weighted().recall, 0.5);
  EXPECT_DOUBLE_EQ(confusion.Weighted().f1, 0.48);
  const std::vector<ConfusedPair> pairs = confusion.WorstPairs(3);
  ASSERT_THAT(pairs, SizeIs(3));  // five different mistakes, once each, in the order of the classes
  EXPECT_EQ(pairs[0].label, 0);
  EXPECT_EQ(pairs[0].predicted, 1);
  EXPECT_EQ(pairs[2].label, 1);
}

TEST(Confusion, ClipsTheProbabilitiesOfTheLogLoss) {
  Confusion confusion(2);
  for (const double p : {0.5, 1.0, 0.0}) confusion.Add({.label_probability = p});
  EXPECT_NEAR(confusion.log_loss(), (std::log(2.0) + 52 * std::log(2.0)) / 3, 1e-12);
}

TEST(Confusion, OfNothingIsZero) {
  const Confusion confusion(3);
  EXPECT_EQ(confusion.accuracy(), 0);
  EXPECT_EQ(confusion.log_loss(), 0);
  EXPECT_EQ(confusion.Macro().f1, 0);
  EXPECT_THAT(confusion.PerClass(), SizeIs(0));
}

TEST(WorstMistakes, KeepsTheMostConfident) {
  WorstMistakes worst(3);
  const double probabilities[] = {0.5, 0.9, 0.7, 0.9, 0.6, 0.95, 0.2};
  for (int i = 0; i < 7; ++i) {
    worst.Add({.label = 0, .predicted = 1, .probability = probabilities[i], .number = i});
  }
  const std::vector<Mistake> sorted = worst.Sorted();
  ASSERT_THAT(sorted, SizeIs(3));
  EXPECT_EQ(sorted[0].number, 5);
  EXPECT_EQ(sorted[1].number, 1);
  EXPECT_EQ(sorted[2].number, 3);
  EXPECT_FALSE(worst.Wants(0.9));
  EXPECT_FALSE(WorstMistakes(0).Wants(1));
}

TEST(HtmlText, EscapesMarkupControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(HtmlText("<a href='x'>&\"\n\x1b"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;  ");
  EXPECT_EQ(HtmlText("caf\xe9"), "caf\uFFFD");
  EXPECT_EQ(HtmlText("caf\u00e9"), "caf\u00e9");
}

std::string Page(const Confusion& confusion, const std::vector<Mistake>& mistakes,
                 std::vector<std::string> names = {}, const std::string& title = "m") {
  return ConfusionPage({.confusion = confusion,
                        .mistakes = mistakes,
                        .class_name =
                            [names](int64_t i) {
                              return static_cast<size_t>(i) < names.size()
                                         ? names[static_cast<size_t>(i)]
                                         : absl::StrCat("class", i);
                            },
                        .title = title});
}

size_t Occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

TEST(ConfusionPage, ShowsMatrixPairsScoresAndImages) {
  base::Array pixels = base::Array::Zeros(base::DType::kU8, {8, 8, 1});
  base::Array large = base::Array::Zeros(base::DType::kU8, {400, 100, 3});
  const std::string page = Page(
      Example(), {{.label = 0, .predicted = 3, .probability = 0.876, .number = 7, .pixels = pixels},
                  {.label = 1, .predicted = 3, .probability = 0.5, .number = 8, .pixels = large}});
  EXPECT_THAT(page, HasSubstr("10 images, accuracy 50.00 %"));
  EXPECT_THAT(page, HasSubstr("class0, predicted as class3: 1 images, 25.0 % of the class"));
  EXPECT_THAT(page, HasSubstr("<td>class3</td><td>0.3333</td><td>0.5000</td><td>0.4000</td><td>2"));
  EXPECT_THAT(page, AllOf(HasSubstr("data:image/png;base64,"), HasSubstr("data:image/jpeg")));
  EXPECT_THAT(page, AllOf(HasSubstr("87.6 %"), HasSubstr("image 7")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme:dark"));
  // Opens without a network: no script, no reference but to its own data.
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("href=")),
                          Not(HasSubstr("src=\"http")), Not(HasSubstr("url("))));
  EXPECT_EQ(Occurrences(page, "<g>"), 8u) << "a cell for each pair that occurs";
}

TEST(ConfusionPage, EscapesNames) {
  const std::string page = Page(
      Example(),
      {{.label = 0, .predicted = 1, .pixels = base::Array::Zeros(base::DType::kU8, {2, 2, 1})}},
      {"<script>alert(1)</script>", "\"><img src=x onerror=y>", "", "caf\xe9", "a\nb"}, "<b>'\xff");
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("<img src=x")),
                          Not(HasSubstr("\xe9")), Not(HasSubstr("<b>"))));
  EXPECT_THAT(page, AllOf(HasSubstr("&lt;script&gt;alert(1)"), HasSubstr("caf\uFFFD")));
}

TEST(ConfusionPage, DrawsTheClassesWithTheMostMistakesOfThousands) {
  constexpr int64_t kClasses = 5000;
  Confusion confusion(kClasses);
  for (int64_t i = 0; i < kClasses; ++i) {
    for (int64_t n = 0; n < 2; ++n) confusion.Add({.label = i, .predicted = i});
  }
  for (int64_t i = 0; i < 30; ++i) {
    confusion.Add({.label = 4000 + i, .predicted = 17, .label_probability = 0.1});
  }
  const std::string page = Page(confusion, {});
  EXPECT_THAT(page, HasSubstr("The 40 of 5000 classes with the most mistakes."));
  EXPECT_THAT(page, AllOf(HasSubstr(">class17</text>"), HasSubstr(">class4029</text>"),
                          Not(HasSubstr(">class4100</text>"))));
  EXPECT_EQ(Occurrences(page, "<g>"), 40u + 30u);
  EXPECT_THAT(page, HasSubstr("<td>class4999</td>")) << "all classes have scores";
  EXPECT_LT(page.size(), 1u << 20);
}

TEST(ConfusionPage, WorksForOneClassAndForNone) {
  Confusion one(1);
  one.Add({.label = 0, .predicted = 0, .label_probability = 1});
  EXPECT_THAT(Page(one, {}),
              AllOf(HasSubstr("accuracy 100.00 %"), Not(HasSubstr("Most frequent confusions"))));
  EXPECT_THAT(Page(Confusion(2), {}), AllOf(HasSubstr("0 images"), Not(HasSubstr("<svg"))));
}

// A long name is cut between characters, not inside one.
TEST(ConfusionPage, ShortensNamesBetweenCharacters) {
  std::string name;
  for (int i = 0; i < 40; ++i) name += "\u00e9";
  Confusion one(1);
  one.Add({.label = 0, .predicted = 0});
  EXPECT_THAT(Page(one, {}, {name}), Not(HasSubstr("\uFFFD")));
}

}  // namespace confusion_test
}  // namespace penstock::cli
