#include "penstock/base/random.h"

#include "programs.h"

namespace penstock::keras_io {
namespace {

constexpr int64_t kMaxTokens = 200, kSequenceLength = 12, kEmbedding = 16;

struct Review {
  std::string text;
  int64_t label;
};
std::vector<Review> Reviews() {
  const std::vector<std::string> good = {"wonderful", "lovely", "brilliant"},
                                 bad = {"awful", "dull", "terrible"},
                                 fill = {"the", "movie", "was", "and", "its", "plot", "a", "we"};
  base::Random random(1);
  std::vector<Review> reviews;
  for (int64_t i = 0; i < 240; ++i) {
    std::vector<std::string> words;
    for (uint64_t n = 5 + random.Below(6); n > 0; --n) words.push_back(fill[random.Below(8)]);
    words[random.Below(words.size())] = (i % 2 == 1 ? good : bad)[random.Below(3)];
    std::string text;
    for (const std::string& word : words) text += word + (random.Below(4) == 0 ? "! " : " ");
    reviews.push_back({text, i % 2});
  }
  return reviews;
}

}  // namespace

absl::StatusOr<double> TextClassification() {
  const std::vector<Review> reviews = Reviews();
  std::vector<std::string> texts;
  std::vector<int64_t> labels;
  for (const Review& review : reviews) {
    texts.push_back(review.text);
    labels.push_back(review.label);
  }
  const auto count = static_cast<int64_t>(reviews.size());
  const Dataset raw = Dataset::FromArrays(
      {{"text", Array::Strings({count}, texts)}, {"label", Array::Of<int64_t>({count}, labels)}});
  keras::TextVectorization vectorize(
      {.max_tokens = kMaxTokens, .output_sequence_length = kSequenceLength});
  PENSTOCK_RETURN_IF_ERROR(vectorize.Adapt(raw, "text"));
  PENSTOCK_ASSIGN_OR_RETURN(Dataset tokens, vectorize.Map(raw, "text"));
  tokens = tokens.Cache();
  const Dataset train = tokens.Skip(40).Shuffle(200).Batch(20).Prefetch();
  const Dataset test = tokens.Take(40).Batch(20);

  const keras::Symbol inputs =
      keras::Input({.shape = {kSequenceLength}, .dtype = DType::kI64, .name = "text"});
  keras::Symbol x = keras::Embedding({.input_dim = kMaxTokens, .output_dim = kEmbedding})(inputs);
  x = keras::Dropout({.rate = 0.2})(x);
  x = keras::Conv1D({.filters = 16, .kernel_size = 3, .padding = "valid", .activation = "relu"})(x);
  x = keras::GlobalMaxPooling1D()(x);
  x = keras::Dense({.units = 16, .activation = "relu"})(x);
  keras::Model model(inputs,
                     keras::Dense({.units = 1, .activation = "sigmoid", .name = "predictions"})(x));
  PENSTOCK_RETURN_IF_ERROR(model.Compile({.optimizer = keras::Adam({.learning_rate = 0.01}),
                                          .loss = "binary_crossentropy",
                                          .metrics = {"accuracy"}}));
  PENSTOCK_RETURN_IF_ERROR(model.Fit(train, {.epochs = 6, .verbose = 0}).status());
  PENSTOCK_ASSIGN_OR_RETURN(const keras::Logs score, model.Evaluate(test));
  return score.Get("accuracy");
}

}  // namespace penstock::keras_io
