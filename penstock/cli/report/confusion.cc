#include "penstock/cli/report/confusion.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::cli {
namespace {

double Fraction(double part, double whole) { return whole == 0 ? 0 : part / whole; }

// More confident, or as confident and earlier in the data.
bool IsWorse(const Mistake& a, const Mistake& b) {
  return a.probability != b.probability ? a.probability > b.probability : a.number < b.number;
}

}  // namespace

void Confusion::Add(const Judged& judged) {
  ++images_;
  if (judged.label == judged.predicted) ++right_;
  ++counts_[{judged.label, judged.predicted}];
  const double smallest = std::numeric_limits<double>::epsilon();
  loss_sum_ -= std::log(std::clamp(judged.label_probability, smallest, 1 - smallest));
}

int64_t Confusion::Count(int64_t label, int64_t predicted) const {
  const auto found = counts_.find({label, predicted});
  return found == counts_.end() ? 0 : found->second;
}

double Confusion::accuracy() const {
  return Fraction(static_cast<double>(right_), static_cast<double>(images_));
}

double Confusion::log_loss() const { return Fraction(loss_sum_, static_cast<double>(images_)); }

std::vector<ClassScores> Confusion::PerClass() const {
  std::map<int64_t, ClassScores> by_class;
  for (const auto& [pair, count] : counts_) {
    by_class[pair.first].support += count;
    by_class[pair.second].predicted += count;
  }
  std::vector<ClassScores> all;
  for (auto& [number, scores] : by_class) {
    scores.class_number = number;
    const auto right = static_cast<double>(Count(number, number));
    scores.precision = Fraction(right, static_cast<double>(scores.predicted));
    scores.recall = Fraction(right, static_cast<double>(scores.support));
    scores.f1 = Fraction(2 * scores.precision * scores.recall, scores.precision + scores.recall);
    all.push_back(scores);
  }
  return all;
}

MeanScores Confusion::Mean(bool weighted) const {
  MeanScores mean;
  double weights = 0;
  for (const ClassScores& scores : PerClass()) {
    const double weight = weighted ? static_cast<double>(scores.support) : 1;
    weights += weight;
    mean.precision += weight * scores.precision;
    mean.recall += weight * scores.recall;
    mean.f1 += weight * scores.f1;
  }
  return {.precision = Fraction(mean.precision, weights),
          .recall = Fraction(mean.recall, weights),
          .f1 = Fraction(mean.f1, weights)};
}

MeanScores Confusion::Macro() const { return Mean(/*weighted=*/false); }
MeanScores Confusion::Weighted() const { return Mean(/*weighted=*/true); }

std::vector<ConfusedPair> Confusion::WorstPairs(size_t limit) const {
  std::vector<ConfusedPair> pairs;
  for (const auto& [pair, count] : counts_) {
    if (pair.first != pair.second) pairs.push_back({pair.first, pair.second, count});
  }
  // Equally frequent ones stay in the order of the classes.
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const ConfusedPair& a, const ConfusedPair& b) { return a.count > b.count; });
  if (pairs.size() > limit) pairs.resize(limit);
  return pairs;
}

bool WorstMistakes::Wants(double probability) const {
  return heap_.size() < limit_ || (limit_ > 0 && probability > heap_.front().probability);
}

void WorstMistakes::Add(Mistake mistake) {
  if (!Wants(mistake.probability)) return;
  if (heap_.size() == limit_) {
    std::pop_heap(heap_.begin(), heap_.end(), IsWorse);
    heap_.pop_back();
  }
  heap_.push_back(std::move(mistake));
  std::push_heap(heap_.begin(), heap_.end(), IsWorse);
}

std::vector<Mistake> WorstMistakes::Sorted() const {
  std::vector<Mistake> sorted = heap_;
  std::sort(sorted.begin(), sorted.end(), IsWorse);
  return sorted;
}

}  // namespace penstock::cli
