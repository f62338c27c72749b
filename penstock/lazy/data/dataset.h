// torch.utils.data's map-style datasets: examples by index, for DataLoader.
//
//   namespace data = penstock::lazy::utils::data;
//   class Flowers : public data::Dataset {
//    public:
//     int64_t size() const override { return paths_.size(); }                      // __len__
//     absl::StatusOr<data::Sample> get(int64_t index) const override {             // __getitem__
//       PENSTOCK_ASSIGN_OR_RETURN(const Array image, Decode(paths_[index]));
//       return data::Ordered({image, Array::Scalar<int64_t>(labels_[index])});
//     }
//   };
//
// A pipeline of room data (penstock/data/dataset.h), which decodes and batches by itself, is read
// by DataLoader, too, and is faster.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/base/array.h"

namespace penstock::lazy::utils::data {

// One example or one batch: arrays in order, each with a name. PyTorch's tuples have the names "0",
// "1", ...; its dicts have their keys.
using Sample = base::NamedArrays;
// The arrays under the names "0", "1", ...
Sample Ordered(std::vector<base::Array> arrays);

// Examples by index. size and get are called concurrently by the worker threads of a DataLoader.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Example `index`, 0 <= index < size(). An error, or an exception, ends the loader's pass with
  // that error and the index.
  virtual absl::StatusOr<Sample> get(int64_t index) const = 0;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

// A dataset of two functions, for objects that are no Dataset. `get` must be thread-safe.
DatasetPtr MapDataset(int64_t size, std::function<absl::StatusOr<Sample>(int64_t index)> get);

// Rows of arrays: example i has row i of each, under the names of `arrays`, sharing their memory.
// All must have a first axis, of the same size: INVALID_ARGUMENT.
absl::StatusOr<DatasetPtr> TensorDataset(Sample arrays);

// Examples `indices` of another dataset, in that order; they may repeat. OUT_OF_RANGE for an index
// that it does not have.
absl::StatusOr<DatasetPtr> Subset(DatasetPtr dataset, std::vector<int64_t> indices);

// One dataset after the other. INVALID_ARGUMENT if there are none.
absl::StatusOr<DatasetPtr> ConcatDataset(std::vector<DatasetPtr> datasets);

// Disjoint random subsets. `lengths`: numbers of examples, whose sum is size(); or fractions whose
// sum is 1, as in PyTorch: then each gets floor(size * fraction), and the examples left over go to
// the first ones, one each. The permutation is that of base::Random, not of torch.Generator.
absl::StatusOr<std::vector<DatasetPtr>> random_split(DatasetPtr dataset,
                                                     const std::vector<double>& lengths,
                                                     uint64_t seed);

}  // namespace penstock::lazy::utils::data
