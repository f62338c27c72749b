#include "penstock/lazy/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/lazy/replicas.h"

namespace penstock::lazy::utils::data {
namespace {

std::vector<int64_t> Permutation(int64_t size, uint64_t seed) {
  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  base::Random random(seed);
  base::Shuffle(random, order);
  return order;
}

absl::Status CheckSize(const char* sampler, int64_t size) {
  if (size >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(sampler, ": the number of examples is ", size, ", below 0"));
}

int64_t CeilDivide(int64_t a, int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

absl::StatusOr<std::vector<int64_t>> SequentialSampler::indices() {
  const int64_t size = size_.Get();
  PENSTOCK_RETURN_IF_ERROR(CheckSize("SequentialSampler", size));
  std::vector<int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

RandomSampler::RandomSampler(NumExamples size, RandomSamplerOptions options)
    : size_(std::move(size)),
      num_samples_(options.num_samples),
      replacement_(options.replacement),
      seed_(options.seed.value_or(base::EntropySeed())) {}

int64_t RandomSampler::size() const {
  return num_samples_.has_value() ? *num_samples_ : size_.Get();
}

absl::StatusOr<std::vector<int64_t>> RandomSampler::indices() {
  const int64_t size = size_.Get(), num_samples = num_samples_.value_or(size);
  PENSTOCK_RETURN_IF_ERROR(CheckSize("RandomSampler", size));
  PENSTOCK_RETURN_IF_ERROR(CheckSize("RandomSampler (num_samples)", num_samples));
  if (size == 0 && num_samples > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("RandomSampler: ", num_samples, " samples of a dataset without examples"));
  }
  const uint64_t seed = base::MixSeeds(seed_, pass_++);
  std::vector<int64_t> order;
  order.reserve(num_samples);
  base::Random random(seed);
  for (uint64_t round = 0; static_cast<int64_t>(order.size()) < num_samples; ++round) {
    if (replacement_) {
      order.push_back(static_cast<int64_t>(random.Below(size)));
      continue;
    }
    const std::vector<int64_t> next = Permutation(size, base::MixSeeds(seed, round));
    const int64_t wanted = num_samples - static_cast<int64_t>(order.size());
    order.insert(order.end(), next.begin(), next.begin() + std::min(wanted, size));
  }
  return order;
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<int64_t> indices,
                                         SubsetRandomSamplerOptions options)
    : indices_(std::move(indices)), seed_(options.seed.value_or(base::EntropySeed())) {}

absl::StatusOr<std::vector<int64_t>> SubsetRandomSampler::indices() {
  std::vector<int64_t> order = indices_;
  base::Random random(base::MixSeeds(seed_, pass_++));
  base::Shuffle(random, order);
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                                             WeightedRandomSamplerOptions options)
    : weights_(std::move(weights)),
      num_samples_(num_samples),
      replacement_(options.replacement),
      seed_(options.seed.value_or(base::EntropySeed())) {}

absl::Status WeightedRandomSampler::Check() const {
  PENSTOCK_RETURN_IF_ERROR(CheckSize("WeightedRandomSampler (num_samples)", num_samples_));
  int64_t positive = 0;
  double sum = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!(weights_[i] >= 0) || std::isinf(weights_[i])) {
      return absl::InvalidArgumentError(absl::StrCat("WeightedRandomSampler: weight ", i, " is ",
                                                     weights_[i],
                                                     "; weights are finite and not below 0"));
    }
    positive += weights_[i] > 0 ? 1 : 0;
    sum += weights_[i];
  }
  const int64_t needed = replacement_ ? std::min<int64_t>(1, num_samples_) : num_samples_;
  if (positive < needed || std::isinf(sum)) {
    return absl::InvalidArgumentError(
        absl::StrCat("WeightedRandomSampler: cannot draw ", num_samples_, " samples ",
                     replacement_ ? "with" : "without", " replacement from ", positive,
                     " weights above 0 whose sum is ", sum));
  }
  return absl::OkStatus();
}

std::vector<int64_t> WeightedRandomSampler::WithReplacement(uint64_t seed) const {
  std::vector<double> ends;  // cumulative weights
  double sum = 0;
  for (const double weight : weights_) ends.push_back(sum += weight);
  base::Random random(seed);
  std::vector<int64_t> order;
  while (static_cast<int64_t>(order.size()) < num_samples_) {
    // The first end above the point; rounding may put the point at the last end.
    const double point = random.Uniform() * sum;
    const auto place = std::upper_bound(ends.begin(), ends.end(), point);
    if (place != ends.end()) order.push_back(place - ends.begin());
  }
  return order;
}

// Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006: the smallest of
// exponentially distributed keys with rates weights[i], in order.
std::vector<int64_t> WeightedRandomSampler::WithoutReplacement(uint64_t seed) const {
  base::Random random(seed);
  std::vector<std::pair<double, int64_t>> keys;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const double key = -std::log1p(-random.Uniform());
    if (weights_[i] > 0) keys.emplace_back(key / weights_[i], static_cast<int64_t>(i));
  }
  std::partial_sort(keys.begin(), keys.begin() + num_samples_, keys.end());
  std::vector<int64_t> order;
  for (int64_t i = 0; i < num_samples_; ++i) order.push_back(keys[i].second);
  return order;
}

absl::StatusOr<std::vector<int64_t>> WeightedRandomSampler::indices() {
  PENSTOCK_RETURN_IF_ERROR(Check());
  const uint64_t seed = base::MixSeeds(seed_, pass_++);
  return replacement_ ? WithReplacement(seed) : WithoutReplacement(seed);
}

DistributedSampler::DistributedSampler(int64_t size, DistributedSamplerOptions options)
    : size_(size),
      num_replicas_(options.num_replicas.value_or(CurrentNumReplicas())),
      rank_(options.rank.value_or(CurrentReplica() == nullptr ? 0 : CurrentReplica()->ordinal)),
      shuffle_(options.shuffle),
      drop_last_(options.drop_last),
      seed_(options.seed) {}

int64_t DistributedSampler::size() const {
  if (num_replicas_ < 1) return 0;
  // With drop_last, ceil((size - replicas) / replicas) examples if they do not divide evenly.
  return drop_last_ ? size_ / num_replicas_ : CeilDivide(size_, num_replicas_);
}

absl::StatusOr<std::vector<int64_t>> DistributedSampler::indices() {
  PENSTOCK_RETURN_IF_ERROR(CheckSize("DistributedSampler", size_));
  if (num_replicas_ < 1 || rank_ < 0 || rank_ >= num_replicas_) {
    return absl::InvalidArgumentError(absl::StrCat("DistributedSampler: rank ", rank_,
                                                   " is not one of ", num_replicas_,
                                                   " replicas, which count from 0"));
  }
  std::vector<int64_t> order;
  if (shuffle_) {
    // PyTorch seeds its generator with seed + epoch.
    order = Permutation(size_, seed_ + static_cast<uint64_t>(epoch_));
  } else {
    order.resize(size_);
    std::iota(order.begin(), order.end(), 0);
  }
  std::vector<int64_t> mine;
  mine.reserve(size());
  for (int64_t i = 0; i < size(); ++i) mine.push_back(order[(i * num_replicas_ + rank_) % size_]);
  return mine;
}

BatchSampler::BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last)
    : sampler_(std::move(sampler)), batch_size_(batch_size), drop_last_(drop_last) {}

absl::StatusOr<std::vector<std::vector<int64_t>>> BatchSampler::batches() {
  if (sampler_ == nullptr || batch_size_ < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "BatchSampler: needs a sampler and a batch size of at least 1, which is ", batch_size_));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int64_t> order, sampler_->indices());
  std::vector<std::vector<int64_t>> batches;
  for (size_t begin = 0; begin < order.size(); begin += batch_size_) {
    const size_t end = std::min(order.size(), begin + static_cast<size_t>(batch_size_));
    if (drop_last_ && end - begin < static_cast<size_t>(batch_size_)) break;
    batches.emplace_back(order.begin() + begin, order.begin() + end);
  }
  return batches;
}

int64_t BatchSampler::size() const {
  if (sampler_ == nullptr || batch_size_ < 1) return 0;
  return drop_last_ ? sampler_->size() / batch_size_ : CeilDivide(sampler_->size(), batch_size_);
}

}  // namespace penstock::lazy::utils::data
