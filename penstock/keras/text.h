// Strings to numbers: keras.layers.StringLookup and keras.layers.TextVectorization. Devices have no
// strings, so that these are stages of the input pipeline, before Batch, instead of layers; the
// model begins with the numbers.
//
//   TextVectorization vectorize({.max_tokens = 20000, .output_sequence_length = 200});
//   PENSTOCK_RETURN_IF_ERROR(vectorize.Adapt(reviews, "text"));        // learns the vocabulary
//   PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset tokens, vectorize.Map(reviews, "text"));
//   keras::Layer embed = keras::Embedding({.input_dim = vectorize.vocabulary_size()});
//
// As in Keras, the vocabulary is sorted by descending frequency, then by descending bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/data/dataset.h"
#include "penstock/nn/typed_options.h"

namespace penstock::keras {

// Keras's arguments, with its defaults. With several places for unknown strings (num_oov_indices
// above 1), `invert` and tf_idf there is no counterpart.
struct StringLookupOptions {
  // Maximum size of the vocabulary, special strings included; nullopt: no limit.
  std::optional<int64_t> max_tokens = {};
  // 1: unknown strings are the number of oov_token. 0: they are an error.
  int64_t num_oov_indices = 1;
  // With int, this string is 0; with the other modes it is ignored.
  std::optional<std::string> mask_token = {};
  std::string oov_token = "[UNK]";
  // Instead of Adapt: the strings in their order, with or without the special ones in front.
  std::vector<std::string> vocabulary = {};
  // Of an element [..., n] (a single string: n = 1):
  //   int        int64 [..., n]: the mask is 0, unknown strings come next, then the vocabulary
  //   one_hot    float32 [..., n, vocabulary_size()]; of a single string [vocabulary_size()]
  //   multi_hot  float32 [..., vocabulary_size()]: 1 for the strings that occur
  //   count      float32 [..., vocabulary_size()]: how often they occur
  nn::OutputMode output_mode = nn::OutputMode::kInt;
};

class StringLookup {
 public:
  explicit StringLookup(StringLookupOptions options = {});

  // Learns the vocabulary from `column` of all elements, batched or not; with one column there is
  // no need to name it. Replaces an earlier one; a vocabulary in the options is an error, and
  // so is a dataset without an end.
  absl::Status Adapt(const data::Dataset& dataset, absl::string_view column = "");
  // The special strings (mask, unknown), then the others.
  std::vector<std::string> GetVocabulary() const;
  int64_t vocabulary_size() const;

  // The numbers of an element. FAILED_PRECONDITION without a vocabulary.
  absl::StatusOr<base::Array> operator()(const base::Array& strings) const;
  // The dataset with the numbers in place of the strings of `column`, or as the column `makes`. A
  // string that is an error is one of its element, which IgnoreErrors skips.
  absl::StatusOr<data::Dataset> Map(const data::Dataset& dataset, const std::string& column,
                                    const std::string& makes = "") const;

 private:
  friend class TextVectorization;
  struct Table;

  // Makes the table of the strings in their order, without special ones.
  absl::Status SetTokens(std::vector<std::string> tokens);
  absl::Status Check() const;

  StringLookupOptions options_;
  absl::Status status_;  // of the options
  std::shared_ptr<const Table> table_;
};

// What TextVectorization does to a text before it is split.
struct Standardize : nn::NamedOption<Standardize> {
  enum Value { kLowerAndStripPunctuation, kLower, kStripPunctuation, kNone };
  static constexpr const char* kNames[] = {"lower_and_strip_punctuation", "lower",
                                           "strip_punctuation", "none"};
  using NamedOption::NamedOption;
  Standardize(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};
// How it splits a text: at white space, into Unicode characters, or not at all.
struct Split : nn::NamedOption<Split> {
  enum Value { kWhitespace, kCharacter, kNone };
  static constexpr const char* kNames[] = {"whitespace", "character", "none"};
  using NamedOption::NamedOption;
  Split(Value value) : NamedOption(kNames[value]) {}  // NOLINT
};

struct TextVectorizationOptions {
  std::optional<int64_t> max_tokens = {};
  // Letters A to Z become lower case, and ASCII punctuation is removed, as in Keras.
  Standardize standardize = Standardize::kLowerAndStripPunctuation;
  Split split = Split::kWhitespace;
  // Above 1: also the groups of 2 to `ngrams` consecutive tokens, joined by spaces.
  int64_t ngrams = 1;
  // int: int64 [output_sequence_length]; 0 is padding, 1 an unknown token. multi_hot, count:
  // float32 [vocabulary_size()]; 0 is an unknown token.
  nn::OutputMode output_mode = nn::OutputMode::kInt;
  // int: longer texts are cut, shorter ones are padded. nullopt: as many numbers as tokens, for
  // Dataset::PaddedBatch.
  std::optional<int64_t> output_sequence_length = {};
  std::vector<std::string> vocabulary = {};
};

class TextVectorization {
 public:
  explicit TextVectorization(TextVectorizationOptions options = {});

  absl::Status Adapt(const data::Dataset& dataset, absl::string_view column = "");
  std::vector<std::string> GetVocabulary() const { return lookup_.GetVocabulary(); }
  int64_t vocabulary_size() const { return lookup_.vocabulary_size(); }

  // The tokens of a text.
  std::vector<std::string> Tokens(absl::string_view text) const;
  // The numbers of a text.
  absl::StatusOr<base::Array> operator()(absl::string_view text) const;
  // As StringLookup::Map, for a column of one text per element.
  absl::StatusOr<data::Dataset> Map(const data::Dataset& dataset, const std::string& column,
                                    const std::string& makes = "") const;

 private:
  absl::StatusOr<base::Array> NumbersOf(absl::string_view text) const;

  TextVectorizationOptions options_;
  absl::Status status_;  // of the options
  StringLookup lookup_;
};

}  // namespace penstock::keras
