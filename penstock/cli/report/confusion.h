// Confusion: counts of predicted classes by true class, and what follows from them: precision,
// recall and F1 score, with scikit-learn's formulas.
//
//   Confusion confusion(3);
//   confusion.Add({.label = 0, .predicted = 2, .label_probability = 0.1});
//   for (const ClassScores& scores : confusion.PerClass()) Print(scores.recall);
//
// Its memory is proportional to the number of classes and of different pairs, not to that of the
// images.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "penstock/base/array.h"

namespace penstock::cli {

// An image's true and predicted class.
struct Judged {
  int64_t label = 0;
  int64_t predicted = 0;
  double label_probability = 0;  // probability that the model gave the true class
};

// sklearn.metrics.precision_recall_fscore_support with zero_division=0: precision is the fraction
// of the images predicted as the class that belong to it, recall the fraction of its images that
// are predicted as it, F1 = 2 precision recall / (precision + recall), each 0 where the divisor is
// 0.
struct ClassScores {
  int64_t class_number = 0;
  int64_t support = 0;    // images of the class
  int64_t predicted = 0;  // images predicted as the class
  double precision = 0, recall = 0, f1 = 0;
};
// Means over classes.
struct MeanScores {
  double precision = 0, recall = 0, f1 = 0;
};

// Number of images of class `label` that were predicted as another class.
struct ConfusedPair {
  int64_t label = 0, predicted = 0, count = 0;
};

class Confusion {
 public:
  explicit Confusion(int64_t classes) : classes_(classes) {}

  // Both classes must be in [0, classes).
  void Add(const Judged& judged);

  int64_t classes() const { return classes_; }
  int64_t images() const { return images_; }
  int64_t Count(int64_t label, int64_t predicted) const;
  // All pairs with images, by label, then by predicted class.
  const std::map<std::pair<int64_t, int64_t>, int64_t>& counts() const { return counts_; }

  // 0 without images.
  double accuracy() const;
  // Mean of -log p of the true class, p at least 2^-52, as sklearn.metrics.log_loss for float64.
  double log_loss() const;
  // Classes that occur as a label or as a prediction, in order.
  std::vector<ClassScores> PerClass() const;
  // Means over those classes, unweighted and weighted by support (average="macro", "weighted").
  MeanScores Macro() const;
  MeanScores Weighted() const;
  // The `limit` most frequent mistakes, most frequent first.
  std::vector<ConfusedPair> WorstPairs(size_t limit) const;

 private:
  MeanScores Mean(bool weighted) const;

  const int64_t classes_;
  int64_t images_ = 0, right_ = 0;
  double loss_sum_ = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> counts_;
};

// A misclassified image, and the probability of the predicted class.
struct Mistake {
  int64_t label = 0, predicted = 0;
  double probability = 0;
  int64_t number = 0;       // of the image, from 0, in the order of the data
  base::Array pixels = {};  // uint8 [height, width, channels], as the model saw it
};

// The most confident mistakes of a stream of images; keeps the pixels of at most `limit` images.
class WorstMistakes {
 public:
  explicit WorstMistakes(size_t limit) : limit_(limit) {}
  // Whether a mistake of this probability would be kept, so that its pixels have to be copied.
  bool Wants(double probability) const;
  void Add(Mistake mistake);
  // Most confident first; of equal ones the first in the data.
  std::vector<Mistake> Sorted() const;

 private:
  const size_t limit_;
  std::vector<Mistake> heap_;  // the least confident one first
};

}  // namespace penstock::cli
