// torch.utils.data's samplers: the order of a dataset's examples in one pass.
//
//   auto sampler = std::make_shared<data::DistributedSampler>(
//       dataset->size(), data::DistributedSamplerOptions{.num_replicas = xm::xrt_world_size(),
//                                                        .rank = xm::get_ordinal()});
//   data::DataLoader loader(dataset, {.batch_size = 128, .sampler = sampler});
//   for (int epoch = 0; epoch < 3; ++epoch) {
//     sampler->set_epoch(epoch);
//     ...
//
// Random orders come from base::Random: the same seed gives the same order on every machine and in
// every version, but not the order that torch.Generator gives.
//
// A sampler belongs to one thread at a time. Invalid options are an error of its first pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/lazy/data/dataset.h"

namespace penstock::lazy::utils::data {

// Indices of the examples of one pass.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // The indices of the next pass, in order (PyTorch's __iter__). Random samplers draw new ones each
  // time.
  virtual absl::StatusOr<std::vector<int64_t>> indices() = 0;
  // Number of indices of a pass.
  virtual int64_t size() const = 0;
};

// Number of examples that a sampler draws from: a number, or a dataset's size at each pass.
class NumExamples {
 public:
  NumExamples(int64_t number) : number_(number) {}                               // NOLINT: converts
  NumExamples(DatasetPtr dataset) : number_(0), dataset_(std::move(dataset)) {}  // NOLINT: converts
  int64_t Get() const { return dataset_ == nullptr ? number_ : dataset_->size(); }

 private:
  int64_t number_;
  DatasetPtr dataset_;
};

// 0, 1, ..., size - 1.
class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(NumExamples size) : size_(std::move(size)) {}
  absl::StatusOr<std::vector<int64_t>> indices() override;
  int64_t size() const override { return size_.Get(); }

 private:
  NumExamples size_;
};

struct RandomSamplerOptions {
  bool replacement = false;
  // Number of indices of a pass; default: the dataset's size. Without replacement, more than the
  // dataset has are taken from one permutation after the other.
  std::optional<int64_t> num_samples = {};
  // Default: from the system's entropy. Each pass draws another order.
  std::optional<uint64_t> seed = {};
};
// A random permutation, or independent random indices with replacement.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(NumExamples size, RandomSamplerOptions options = {});
  absl::StatusOr<std::vector<int64_t>> indices() override;
  int64_t size() const override;

 private:
  NumExamples size_;
  std::optional<int64_t> num_samples_;
  bool replacement_;
  uint64_t seed_;
  uint64_t pass_ = 0;
};

struct SubsetRandomSamplerOptions {
  std::optional<uint64_t> seed = {};  // default: from the system's entropy
};
// The given indices in random order, another one each pass.
class SubsetRandomSampler : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> indices,
                               SubsetRandomSamplerOptions options = {});
  absl::StatusOr<std::vector<int64_t>> indices() override;
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }

 private:
  std::vector<int64_t> indices_;
  uint64_t seed_;
  uint64_t pass_ = 0;
};

struct WeightedRandomSamplerOptions {
  bool replacement = true;
  std::optional<uint64_t> seed = {};
};
// Independent indices, i with a probability in proportion to weights[i]; without replacement each
// index at most once, as if drawn one after the other.
class WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t num_samples,
                        WeightedRandomSamplerOptions options = {});
  absl::StatusOr<std::vector<int64_t>> indices() override;
  int64_t size() const override { return num_samples_; }

 private:
  absl::Status Check() const;
  std::vector<int64_t> WithReplacement(uint64_t seed) const;
  std::vector<int64_t> WithoutReplacement(uint64_t seed) const;

  std::vector<double> weights_;
  int64_t num_samples_;
  bool replacement_;
  uint64_t seed_;
  uint64_t pass_ = 0;
};

struct DistributedSamplerOptions {
  // Default: number of replicas and ordinal of the calling thread (xm::xrt_world_size,
  // get_ordinal).
  std::optional<int> num_replicas = {};
  std::optional<int> rank = {};
  bool shuffle = true;
  uint64_t seed = 0;  // the same on all replicas
  // Drops the last examples, so that all replicas have the same number. Default: the first examples
  // are repeated instead.
  bool drop_last = false;
};
// Every num_replicas-th example, beginning with the rank-th, of an order that all replicas share.
// All replicas get the same number of examples: PyTorch's rule of padding and dropping.
class DistributedSampler : public Sampler {
 public:
  explicit DistributedSampler(int64_t size, DistributedSamplerOptions options = {});
  // The order of this epoch; without it every pass has the same order.
  void set_epoch(int64_t epoch) { epoch_ = epoch; }
  absl::StatusOr<std::vector<int64_t>> indices() override;
  int64_t size() const override;

 private:
  int64_t size_;
  int num_replicas_, rank_;
  bool shuffle_, drop_last_;
  uint64_t seed_;
  int64_t epoch_ = 0;
};

// Batches of indices.
class BatchSamplerBase {
 public:
  virtual ~BatchSamplerBase() = default;
  virtual absl::StatusOr<std::vector<std::vector<int64_t>>> batches() = 0;
  virtual int64_t size() const = 0;  // number of batches of a pass
};

// Groups a sampler's indices; the last batch may be smaller, unless it is dropped.
class BatchSampler : public BatchSamplerBase {
 public:
  BatchSampler(std::shared_ptr<Sampler> sampler, int64_t batch_size, bool drop_last);
  absl::StatusOr<std::vector<std::vector<int64_t>>> batches() override;
  int64_t size() const override;

 private:
  std::shared_ptr<Sampler> sampler_;
  int64_t batch_size_;
  bool drop_last_;
};

}  // namespace penstock::lazy::utils::data
