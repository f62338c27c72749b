#include "penstock/lazy/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/random.h"
#include "penstock/base/status.h"

namespace penstock::lazy::utils::data {
namespace {

using base::Array;

absl::Status CheckIndex(int64_t index, int64_t size) {
  if (index >= 0 && index < size) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("index ", index, " of a dataset with ", size, " examples"));
}

class FunctionDataset : public Dataset {
 public:
  FunctionDataset(int64_t size, std::function<absl::StatusOr<Sample>(int64_t)> get)
      : size_(size), get_(std::move(get)) {}
  int64_t size() const override { return size_; }
  absl::StatusOr<Sample> get(int64_t index) const override { return get_(index); }

 private:
  int64_t size_;
  std::function<absl::StatusOr<Sample>(int64_t)> get_;
};

class ArrayRows : public Dataset {
 public:
  explicit ArrayRows(Sample arrays) : arrays_(std::move(arrays)) {}
  int64_t size() const override { return arrays_[0].second.dim(0); }
  absl::StatusOr<Sample> get(int64_t index) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckIndex(index, size()));
    Sample sample;
    for (const auto& [name, array] : arrays_) sample.Append(name, array.Row(index));
    return sample;
  }

 private:
  Sample arrays_;  // at least one, all of rank 1 or more
};

class Selection : public Dataset {
 public:
  Selection(DatasetPtr dataset, std::vector<int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  absl::StatusOr<Sample> get(int64_t index) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckIndex(index, size()));
    return dataset_->get(indices_[index]);
  }

 private:
  DatasetPtr dataset_;
  std::vector<int64_t> indices_;
};

class Concatenation : public Dataset {
 public:
  explicit Concatenation(std::vector<DatasetPtr> datasets) : datasets_(std::move(datasets)) {
    for (const DatasetPtr& dataset : datasets_) ends_.push_back(size() + dataset->size());
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  absl::StatusOr<Sample> get(int64_t index) const override {
    PENSTOCK_RETURN_IF_ERROR(CheckIndex(index, size()));
    const auto place = std::upper_bound(ends_.begin(), ends_.end(), index);
    const size_t i = place - ends_.begin();
    return datasets_[i]->get(i == 0 ? index : index - ends_[i - 1]);
  }

 private:
  std::vector<DatasetPtr> datasets_;
  std::vector<int64_t> ends_;  // the index after the last one of each
};

// The numbers of examples that the lengths or fractions of random_split mean.
absl::StatusOr<std::vector<int64_t>> SplitSizes(int64_t size, const std::vector<double>& lengths) {
  double sum = 0;
  for (const double length : lengths) {
    if (!(length >= 0) || std::isinf(length)) {
      return absl::InvalidArgumentError(
          absl::StrCat("random_split: length ", length, " is not a number of examples"));
    }
    sum += length;
  }
  std::vector<int64_t> sizes;
  const bool fractions = std::abs(sum - 1) < 1e-9;
  for (const double length : lengths) {
    const double count = fractions ? std::floor(static_cast<double>(size) * length) : length;
    if (count != std::floor(count) || count > static_cast<double>(size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("random_split: lengths must be numbers of examples whose sum is ", size,
                       ", or fractions whose sum is 1; one is ", length));
    }
    sizes.push_back(static_cast<int64_t>(count));
  }
  int64_t rest = size - std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (size_t i = 0; fractions && rest > 0; i = (i + 1) % sizes.size(), --rest) ++sizes[i];
  if (rest != 0) {
    return absl::InvalidArgumentError(absl::StrCat("random_split: the lengths ",
                                                   absl::StrJoin(lengths, ", "),
                                                   " do not add up to the dataset's ", size));
  }
  return sizes;
}

}  // namespace

Sample Ordered(std::vector<Array> arrays) {
  Sample sample;
  for (size_t i = 0; i < arrays.size(); ++i) sample.Append(absl::StrCat(i), std::move(arrays[i]));
  return sample;
}

DatasetPtr MapDataset(int64_t size, std::function<absl::StatusOr<Sample>(int64_t)> get) {
  return std::make_shared<FunctionDataset>(size, std::move(get));
}

absl::StatusOr<DatasetPtr> TensorDataset(Sample arrays) {
  if (arrays.empty()) return absl::InvalidArgumentError("TensorDataset: needs at least one array");
  for (const auto& [name, array] : arrays) {
    if (!array.valid() || array.rank() == 0 || array.dim(0) != arrays[0].second.dim(0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("TensorDataset: array '", name, "' is ", array.TypeString(),
                       "; every array must have one row for each example, like '", arrays[0].first,
                       "': ", arrays[0].second.TypeString()));
    }
  }
  return std::make_shared<ArrayRows>(std::move(arrays));
}

absl::StatusOr<DatasetPtr> Subset(DatasetPtr dataset, std::vector<int64_t> indices) {
  if (dataset == nullptr) return absl::InvalidArgumentError("Subset: the dataset is null");
  for (const int64_t index : indices) {
    if (index < 0 || index >= dataset->size()) {
      return absl::OutOfRangeError(absl::StrCat("Subset: index ", index, " of a dataset with ",
                                                dataset->size(), " examples"));
    }
  }
  return std::make_shared<Selection>(std::move(dataset), std::move(indices));
}

absl::StatusOr<DatasetPtr> ConcatDataset(std::vector<DatasetPtr> datasets) {
  if (datasets.empty() || std::count(datasets.begin(), datasets.end(), nullptr) > 0) {
    return absl::InvalidArgumentError(
        "ConcatDataset: needs at least one dataset, and none that is null");
  }
  return std::make_shared<Concatenation>(std::move(datasets));
}

absl::StatusOr<std::vector<DatasetPtr>> random_split(DatasetPtr dataset,
                                                     const std::vector<double>& lengths,
                                                     uint64_t seed) {
  if (dataset == nullptr) return absl::InvalidArgumentError("random_split: the dataset is null");
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, SplitSizes(dataset->size(), lengths));
  std::vector<int64_t> order(dataset->size());
  std::iota(order.begin(), order.end(), 0);
  base::Random random(seed);
  base::Shuffle(random, order);
  std::vector<DatasetPtr> parts;
  auto begin = order.begin();
  for (const int64_t size : sizes) {
    PENSTOCK_ASSIGN_OR_RETURN(DatasetPtr part,
                              Subset(dataset, std::vector<int64_t>(begin, begin + size)));
    parts.push_back(std::move(part));
    begin += size;
  }
  return parts;
}

}  // namespace penstock::lazy::utils::data
