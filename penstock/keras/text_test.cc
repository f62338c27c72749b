// Vocabularies and numbers of strings, beside Keras's documentation and its rules.
#include "penstock/keras/text.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "penstock/data/iterator.h"
#include "penstock/io/memory/memory_file_system.h"
#include "penstock/keras/keras.h"
#include "penstock/runtime/testing/test_device.h"

namespace penstock::keras {
namespace text_test {

using base::Array;
using base::DType;
using nn::OutputMode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

Array Strings(const std::vector<std::string>& strings) {
  return Array::Strings({static_cast<int64_t>(strings.size())}, strings);
}
data::Dataset Texts(const std::vector<std::string>& texts) {
  return data::Dataset::FromArrays({{"text", Strings(texts)}});
}
template <typename T>
std::vector<T> Numbers(const absl::StatusOr<Array>& array) {
  PENSTOCK_CHECK_OK(array.status());
  return std::vector<T>(array->values<T>().begin(), array->values<T>().end());
}

// The example of Keras's documentation: adapt(["a", "c", "d"], ["d", "z", "b"]).
TEST(StringLookup, LearnsTheVocabularyOfKerassExample) {
  StringLookup lookup;
  EXPECT_THAT(Message(lookup(Strings({"a"})).status()), HasSubstr("call Adapt first"));
  ASSERT_TRUE(lookup.Adapt(Texts({"a", "c", "d", "d", "z", "b"})).ok());
  EXPECT_THAT(lookup.GetVocabulary(), ElementsAre("[UNK]", "d", "z", "c", "b", "a"));
  EXPECT_EQ(lookup.vocabulary_size(), 6);
  EXPECT_THAT(Numbers<int64_t>(lookup(Strings({"a", "c", "d", "d", "m", "[UNK]"}))),
              ElementsAre(5, 3, 1, 1, 0, 0));
}

TEST(StringLookup, HasAMaskAndALimit) {
  StringLookup lookup({.max_tokens = 4, .mask_token = ""});
  const data::Dataset batches = Texts({"b", "b", "", "a", "c", "c", "c", ""}).Batch(3);
  ASSERT_TRUE(lookup.Adapt(batches, "text").ok());
  EXPECT_THAT(lookup.GetVocabulary(), ElementsAre("", "[UNK]", "c", "b"));
  EXPECT_THAT(Numbers<int64_t>(lookup(Strings({"", "a", "b", "c"}))), ElementsAre(0, 1, 3, 2));
}

TEST(StringLookup, EncodesInEveryMode) {
  const std::vector<std::string> vocabulary = {"x", "y"};
  const Array strings = *Strings({"y", "x", "y", "?"}).Reshape({2, 2});
  const auto numbers = [&](const OutputMode& mode) {
    return StringLookup({.vocabulary = vocabulary, .output_mode = mode})(strings);
  };
  EXPECT_THAT(Numbers<int64_t>(numbers("int")), ElementsAre(2, 1, 2, 0));
  EXPECT_EQ(numbers(OutputMode::kOneHot)->shape(), base::Shape({2, 2, 3}));
  EXPECT_THAT(Numbers<float>(numbers(OutputMode::kOneHot)),
              ElementsAre(0, 0, 1, 0, 1, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_EQ(numbers(OutputMode::kMultiHot)->shape(), base::Shape({2, 3}));
  EXPECT_THAT(Numbers<float>(numbers(OutputMode::kMultiHot)), ElementsAre(0, 1, 1, 1, 0, 1));
  const StringLookup count(
      {.mask_token = "-", .vocabulary = vocabulary, .output_mode = OutputMode::kCount});
  EXPECT_THAT(Numbers<float>(count(Strings({"x", "-", "x", "?"}))), ElementsAre(1, 2, 0));
  // A single string.
  EXPECT_THAT(Numbers<float>(StringLookup({.vocabulary = vocabulary, .output_mode = "one_hot"})(
                  Array::Strings({}, {"x"}))),
              ElementsAre(0, 1, 0));
}

TEST(StringLookup, MapsAColumn) {
  StringLookup lookup({.num_oov_indices = 0, .vocabulary = {"no", "yes"}});
  const data::Dataset rows =
      data::Dataset::FromArrays({{"answer", Strings({"yes", "no", "maybe", "yes"})},
                                 {"row", Array::Of<int64_t>({4}, {0, 1, 2, 3})}});
  const auto mapped = lookup.Map(rows, "answer");
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  EXPECT_EQ(mapped->spec().ToString(), "{answer: int64[], row: int64[]}");
  base::NamedArrays batch;
  auto iterator = *mapped->IgnoreErrors().Batch(4).MakeIterator({});
  ASSERT_TRUE(*iterator->Next(&batch));
  EXPECT_THAT(batch.Find("answer")->values<int64_t>(), ElementsAre(1, 0, 1));
  EXPECT_THAT(batch.Find("row")->values<int64_t>(), ElementsAre(0, 1, 3));
  iterator = *mapped->Batch(4).MakeIterator({});
  EXPECT_THAT(Message(iterator->Next(&batch).status()),
              AllOf(HasSubstr("'maybe' is not in the vocabulary"), HasSubstr("num_oov_indices")));
  const auto added = lookup.Map(rows, "answer", "number");
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->spec().ToString(), "{answer: string[], row: int64[], number: int64[]}");
  EXPECT_THAT(Message(lookup.Map(rows, "row").status()),
              HasSubstr("'row' is no column of strings"));
  EXPECT_THAT(Message(lookup.Map(rows, "none").status()), HasSubstr("'none'"));
}

TEST(StringLookup, RejectsWhatItCannotDo) {
  const auto error = [](const StringLookupOptions& options) {
    return Message(StringLookup(options)(Strings({"a"})).status());
  };
  EXPECT_THAT(error({.num_oov_indices = 2}), HasSubstr("num_oov_indices must be 0 or 1, got 2"));
  EXPECT_THAT(error({.vocabulary = {"a", "b", "a"}}), HasSubstr("'a' twice"));
  EXPECT_THAT(error({.max_tokens = 2, .vocabulary = {"a", "b"}}), HasSubstr("max_tokens is 2"));
  EXPECT_THAT(error({.max_tokens = 1}), HasSubstr("max_tokens"));
  const StringLookup known({.num_oov_indices = 0, .vocabulary = {"a"}});
  EXPECT_THAT(Message(known(Strings({"a\nb"})).status()), HasSubstr("'a\\nb' is not in"));
  EXPECT_THAT(error({.mask_token = "b", .vocabulary = {"a", "b"}}), HasSubstr("mask_token 'b'"));
  EXPECT_THAT(error({.mask_token = "", .vocabulary = {"", "a"}}),
              HasSubstr("begin with all of them: '', '[UNK]'"));
  EXPECT_THAT(error({.vocabulary = {"a"}, .output_mode = "tf_idf"}),
              HasSubstr("unknown output_mode 'tf_idf'"));
  EXPECT_EQ(error({.mask_token = "", .vocabulary = {"", "[UNK]", "a"}}), "")
      << "special ones first";
  StringLookup fixed({.vocabulary = {"a"}});
  EXPECT_THAT(Message(fixed.Adapt(Texts({"b"}))), HasSubstr("would replace"));
  StringLookup lookup;
  EXPECT_THAT(Message(lookup.Adapt(Texts({"a"}).Repeat())), HasSubstr("the data has no end"));
  EXPECT_THAT(Message(lookup.Adapt(data::Dataset::Range(0, 3))), HasSubstr("from strings"));
  EXPECT_THAT(Message(fixed(Array::Scalar(1.0f)).status()), HasSubstr("reads strings"));
  // One-hot rows would have nine axes.
  const StringLookup one_hot({.vocabulary = {"a"}, .output_mode = OutputMode::kOneHot});
  const Array deep = *Strings({"a"}).Reshape({1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(Message(one_hot(deep).status()), HasSubstr("adds an axis"));
}

// Keras accepts it as well: every string is unknown.
TEST(StringLookup, LearnsNothingFromAnEmptyDataset) {
  StringLookup lookup;
  ASSERT_TRUE(lookup.Adapt(Texts({"a"}).Take(0)).ok());
  EXPECT_THAT(lookup.GetVocabulary(), ElementsAre("[UNK]"));
  EXPECT_THAT(Numbers<int64_t>(lookup(Strings({"a"}))), ElementsAre(0));
}

TEST(TextVectorization, StandardizesAndSplits) {
  const auto tokens = [](const TextVectorizationOptions& options, const std::string& text) {
    return TextVectorization(options).Tokens(text);
  };
  const std::string text = " The caf\u00e9,  isn't\tBAD!\n";
  EXPECT_THAT(tokens({}, text), ElementsAre("the", "caf\u00e9", "isnt", "bad"));
  EXPECT_THAT(tokens({.standardize = Standardize::kLower}, text),
              ElementsAre("the", "caf\u00e9,", "isn't", "bad!"));
  EXPECT_THAT(tokens({.standardize = "strip_punctuation"}, text),
              ElementsAre("The", "caf\u00e9", "isnt", "BAD"));
  EXPECT_THAT(tokens({.standardize = "none", .split = Split::kNone}, text), ElementsAre(text));
  EXPECT_THAT(tokens({.split = Split::kCharacter},
                     "A\u00e9\u5199-\xff"
                     "b\xe5\x86"),
              ElementsAre("a", "\u00e9", "\u5199", "\ufffd", "b", "\ufffd", "\ufffd"));
  EXPECT_THAT(tokens({.ngrams = 3}, "a b c"), ElementsAre("a", "b", "c", "a b", "b c", "a b c"));
  EXPECT_THAT(tokens({.ngrams = 3}, "a"), ElementsAre("a"));
  EXPECT_THAT(tokens({}, " ... "), IsEmpty());
}

// The example of Keras's documentation.
TEST(TextVectorization, PadsAndCuts) {
  TextVectorization vectorize({.max_tokens = 5000, .output_sequence_length = 4});
  ASSERT_TRUE(vectorize.Adapt(Texts({"foo bar", "bar baz", "baz bada boom"})).ok());
  // By frequency: bar and baz twice, the others once.
  EXPECT_THAT(vectorize.GetVocabulary(),
              ElementsAre("", "[UNK]", "baz", "bar", "foo", "boom", "bada"));
  EXPECT_THAT(Numbers<int64_t>(vectorize("foo qux bar")), ElementsAre(4, 1, 3, 0));
  EXPECT_THAT(Numbers<int64_t>(vectorize("baz baz baz bar bar")), ElementsAre(2, 2, 2, 3));
  EXPECT_THAT(Numbers<int64_t>(vectorize("")), ElementsAre(0, 0, 0, 0));
  const TextVectorization ragged({.vocabulary = vectorize.GetVocabulary()});
  EXPECT_THAT(Numbers<int64_t>(ragged("foo qux bar")), ElementsAre(4, 1, 3));
  const auto padded = ragged.Map(Texts({"foo qux bar", "bada"}), "text");
  ASSERT_TRUE(padded.ok()) << padded.status();
  base::NamedArrays batch;
  ASSERT_TRUE(*(*padded->PaddedBatch(2).MakeIterator({}))->Next(&batch));
  EXPECT_THAT(batch.Find("text")->values<int64_t>(), ElementsAre(4, 1, 3, 6, 0, 0));
}

TEST(TextVectorization, EncodesTexts) {
  TextVectorization vectorize({.max_tokens = 3, .output_mode = OutputMode::kMultiHot});
  ASSERT_TRUE(vectorize.Adapt(Texts({"a b", "a b", "a c"})).ok());
  EXPECT_THAT(vectorize.GetVocabulary(), ElementsAre("[UNK]", "a", "b"));
  EXPECT_THAT(Numbers<float>(vectorize("a x a")), ElementsAre(1, 1, 0));
  EXPECT_THAT(Numbers<float>(vectorize("")), ElementsAre(0, 0, 0));
  const TextVectorization count(
      {.output_mode = OutputMode::kCount, .vocabulary = {"[UNK]", "a", "b"}});
  EXPECT_THAT(Numbers<float>(count("a x a")), ElementsAre(1, 2, 0));
}

TEST(TextVectorization, RejectsWhatItCannotDo) {
  const auto error = [](TextVectorizationOptions options) {
    if (options.vocabulary.empty()) options.vocabulary = {"a"};
    return Message(TextVectorization(options)("a").status());
  };
  EXPECT_THAT(error({.standardize = "upper"}), HasSubstr("unknown standardize 'upper'"));
  EXPECT_THAT(error({.split = "words"}), HasSubstr("available: whitespace, character, none"));
  EXPECT_THAT(error({.ngrams = 0}), HasSubstr("ngrams"));
  EXPECT_THAT(error({.output_mode = "one_hot"}), HasSubstr("int, multi_hot or count"));
  EXPECT_THAT(error({.output_sequence_length = 0}), HasSubstr("at least 1"));
  EXPECT_THAT(error({.output_mode = "count", .output_sequence_length = 3}),
              HasSubstr("with count"));
  EXPECT_THAT(error({.max_tokens = 2}), HasSubstr("max_tokens"));
  // Neither a number of bytes that overflows nor a failed allocation is an exception.
  EXPECT_THAT(error({.output_sequence_length = INT64_MAX}), HasSubstr("fit into memory"));
  EXPECT_THAT(error({.output_sequence_length = int64_t{1} << 56}), HasSubstr("memory"));
  const TextVectorization vectorize({.vocabulary = {"a"}});
  EXPECT_THAT(Message(vectorize.Map(Texts({"a", "b"}).Batch(2), "text").status()),
              HasSubstr("before Batch"));
}

TEST(TextVectorization, FeedsAModel) {
  std::vector<std::string> texts;
  std::vector<int64_t> labels;
  for (int i = 0; i < 64; ++i) {
    texts.push_back(i % 2 == 0 ? "A fine film!" : "a dull film");
    labels.push_back(i % 2);
  }
  const data::Dataset reviews = data::Dataset::FromArrays(
      {{"text", Strings(texts)}, {"label", Array::Of<int64_t>({64}, labels)}});
  TextVectorization vectorize({.output_sequence_length = 4});
  ASSERT_TRUE(vectorize.Adapt(reviews, "text").ok());
  const auto tokens = vectorize.Map(reviews, "text");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  Model model = Sequential({Input({.shape = {4}, .dtype = DType::kI64}),
                            Embedding({.input_dim = vectorize.vocabulary_size(), .output_dim = 4}),
                            GlobalAveragePooling1D(), Dense({.units = 1})});
  ASSERT_TRUE(model
                  .Compile({.optimizer = Adam({.learning_rate = 0.1}),
                            .loss = BinaryCrossentropy({.from_logits = true}),
                            .metrics = {metrics::BinaryAccuracy({.threshold = 0})},
                            .columns = {.inputs = {"text"}, .labels = {"label"}},
                            .client = runtime::TestClient(1)})
                  .ok());
  const auto history = model.Fit(tokens->Batch(16), {.epochs = 5, .verbose = 0});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ((*history)["binary_accuracy"].back(), 1);
}

// A run that failed within an epoch and is started again has the weights of an uninterrupted one.
TEST(TextVectorization, ResumesWithinAnEpoch) {
  std::vector<std::string> texts, kinds;
  std::vector<int64_t> labels;
  for (int i = 0; i < 40; ++i) {
    texts.push_back(absl::StrCat("word", i % 11, " word", i % 7, " film"));
    kinds.push_back(absl::StrCat("kind", i % 3));
    labels.push_back(i % 2);
  }
  const data::Dataset reviews =
      data::Dataset::FromArrays({{"text", Strings(texts)},
                                 {"kind", Strings(kinds)},
                                 {"label", Array::Of<int64_t>({40}, labels)}});
  const auto fs = io::MakeMemoryFileSystem();
  const auto run = [&](const std::string& to,
                       int64_t fail_at) -> absl::StatusOr<base::NamedArrays> {
    TextVectorization vectorize({.output_sequence_length = 3});
    StringLookup lookup({.output_mode = OutputMode::kOneHot});
    PENSTOCK_RETURN_IF_ERROR(vectorize.Adapt(reviews, "text"));
    PENSTOCK_RETURN_IF_ERROR(lookup.Adapt(reviews, "kind"));
    PENSTOCK_ASSIGN_OR_RETURN(data::Dataset rows, vectorize.Map(reviews.Shuffle(40), "text"));
    PENSTOCK_ASSIGN_OR_RETURN(rows, lookup.Map(rows, "kind"));
    const auto text = Input({.shape = {3}, .dtype = DType::kI64, .name = "text"});
    const auto kind = Input({.shape = {lookup.vocabulary_size()}, .name = "kind"});
    const auto words = GlobalAveragePooling1D()(
        Embedding({.input_dim = vectorize.vocabulary_size(), .output_dim = 4})(text));
    Model model({text, kind}, Dense({.units = 1})(Concatenate()({words, kind})));
    PENSTOCK_RETURN_IF_ERROR(
        model.Compile({.optimizer = Adam(),
                       .loss = BinaryCrossentropy({.from_logits = true}),
                       .columns = {.inputs = {"text", "kind"}, .labels = {"label"}},
                       .client = runtime::TestClient(1),
                       .seed = 3}));
    int64_t batches = 0;
    const auto fails =
        LambdaCallback({.on_train_batch_end = [&](train::TrainingContext&, const train::Position&,
                                                  const train::Logs&) {
          return ++batches == fail_at ? absl::AbortedError("stopped") : absl::OkStatus();
        }});
    PENSTOCK_RETURN_IF_ERROR(
        model
            .Fit(rows.Batch(5),
                 {.epochs = 3,
                  .verbose = 0,
                  .callbacks = {Checkpoint({.folder = to, .every_steps = 2, .file_system = fs}),
                                fails}})
            .status());
    return model.GetWeights();
  };
  const auto whole = run("memory://whole", -1);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto failed = run("memory://parts", 11);
  ASSERT_TRUE(absl::IsAborted(failed.status())) << failed.status();
  const auto resumed = run("memory://parts", -1);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_EQ(whole->size(), resumed->size());
  for (const auto& [name, array] : *whole) {
    EXPECT_TRUE(base::BitwiseEqual(array, *resumed->Find(name))) << name;
  }
}

}  // namespace text_test
}  // namespace penstock::keras
