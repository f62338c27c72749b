// A small decoder memorizes three sonnets, character by character.
#include <algorithm>
#include <cmath>
#include <map>

#include "gtest/gtest.h"

#include "penstock/base/random.h"
#include "penstock/keras/keras.h"
#include "penstock/models/models.h"

#include "tests/interop/small_data.h"

namespace penstock::tests::text_learned_test {
namespace {

using base::Array;
using base::DType;

constexpr int64_t kSteps = 48;

// Maps characters to numbers, in the order of their codes.
class Alphabet {
 public:
  explicit Alphabet(const std::string& text) : letters_(text) {
    std::sort(letters_.begin(), letters_.end());
    letters_.erase(std::unique(letters_.begin(), letters_.end()), letters_.end());
  }
  int64_t size() const { return static_cast<int64_t>(letters_.size()); }
  int32_t Number(char c) const { return static_cast<int32_t>(letters_.find(c)); }
  char Letter(int64_t number) const { return letters_[static_cast<size_t>(number)]; }

 private:
  std::string letters_;
};

// Every `stride`th window of the text as input, and the same window shifted by one as labels.
std::pair<Array, Array> Windows(const std::string& text, const Alphabet& alphabet, int64_t stride) {
  const int64_t n = (static_cast<int64_t>(text.size()) - kSteps - 1) / stride + 1;
  Array x = Array::Uninitialized(DType::kI32, {n, kSteps}), y = x.Clone();
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < kSteps; ++k) {
      const auto at = static_cast<size_t>(i * stride + k);
      x.mutable_data<int32_t>()[i * kSteps + k] = alphabet.Number(text[at]);
      y.mutable_data<int32_t>()[i * kSteps + k] = alphabet.Number(text[at + 1]);
    }
  }
  return {x, y};
}

// Extends `text` greedily with the most likely character.
absl::StatusOr<std::string> Continued(keras::Model& model, const Alphabet& alphabet,
                                      std::string text, size_t size) {
  while (text.size() < size) {
    const int64_t known = std::min<int64_t>(kSteps, static_cast<int64_t>(text.size()));
    Array x = Array::Uninitialized(DType::kI32, {1, kSteps});
    for (int64_t k = 0; k < kSteps; ++k) {
      // Positions after the known text are hidden by the causal mask.
      const size_t at = text.size() - static_cast<size_t>(known) + static_cast<size_t>(k);
      x.mutable_data<int32_t>()[k] = k < known ? alphabet.Number(text[at]) : 0;
    }
    PENSTOCK_ASSIGN_OR_RETURN(const Array logits, model.Predict(x));
    const float* last = logits.data<float>() + (known - 1) * alphabet.size();
    text += alphabet.Letter(std::max_element(last, last + alphabet.size()) - last);
  }
  return text;
}

TEST(Sonnets, AreLearnedByHeartByASmallDecoder) {
  const auto text = Sonnets();
  ASSERT_TRUE(text.ok()) << text.status();
  const Alphabet alphabet(*text);
  keras::Model model(models::Gpt({.vocabulary_size = alphabet.size(),
                                  .sequence_length = kSteps,
                                  .dim = 64,
                                  .depth = 2,
                                  .heads = 4}));
  const absl::Status compiled = model.Compile(
      {.optimizer = keras::AdamW({.learning_rate = keras::CosineDecay(
                                      {.initial_learning_rate = 0.004, .decay_steps = 450}),
                                  .global_clipnorm = 1}),
       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
       .seed = 1});
  ASSERT_TRUE(compiled.ok()) << compiled;
  const auto [x, y] = Windows(*text, alphabet, 1);
  const auto history = model.Fit(x, y, {.batch_size = 64, .epochs = 16, .verbose = 0});
  ASSERT_TRUE(history.ok()) << history.status();

  // The first characters of a window cannot be predicted, so the loss is not 0. Guessing costs more
  // than 5 bits.
  const auto [test_x, test_y] = Windows(*text, alphabet, 7);
  const auto logs = model.Evaluate(test_x, test_y);
  ASSERT_TRUE(logs.ok()) << logs.status();
  const double bits = *logs->Find("loss") / std::log(2.0);
  RecordProperty("bits_per_character", std::to_string(bits));
  EXPECT_LT(bits, 0.6);
  EXPECT_GT(std::log2(static_cast<double>(alphabet.size())), 5);

  // Longer than a window, so that predictions are based on generated text.
  const size_t size = 3 * kSteps;
  const auto continued = Continued(model, alphabet, text->substr(0, 16), size);
  ASSERT_TRUE(continued.ok()) << continued.status();
  EXPECT_EQ(*continued, text->substr(0, size));
}

}  // namespace
}  // namespace penstock::tests::text_learned_test
