// Sets of features in a folder: found, or computed and stored. Internal to room keras
// (cached_features.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "penstock/base/array.h"
#include "penstock/data/cache/stored_rows.h"
#include "penstock/data/dataset.h"
#include "penstock/io/file_system.h"
#include "penstock/keras/cached_features.h"
#include "penstock/keras/split_dataset.h"
#include "penstock/nn/network.h"
#include "penstock/train/trainer.h"

namespace penstock::keras {

// Column of the features.
inline constexpr char kFeaturesColumn[] = "features";

// The features of one dataset.
struct FeatureSet {
  SplitDataset dataset;
  std::vector<std::string> inputs;  // columns of the network's inputs, which are not stored
  data::StoredRowsKey key;          // where they are stored, and what they are computed from
  bool complete = false;            // whether they are stored already
  int64_t rows = 0;                 // of an epoch, or data::kUnknownCardinality
  int64_t row_bytes = 0;            // without strings and columns of unknown shape
};

class FeatureSets {
 public:
  // `features` is the network of `trainer` up to CachedFeatures::until, `weights` are its values.
  // Reference arguments must outlive the object.
  FeatureSets(const train::Trainer& trainer, nn::Network features, base::NamedArrays weights,
              const CachedFeatures& cache, const FitOptions& options);

  // Finds or plans the set of a dataset; computes nothing.
  absl::StatusOr<FeatureSet> Find(const data::Dataset& dataset) const;
  // Whether the folder can be written and has space for the sets that are not complete.
  absl::Status CheckSpace(absl::Span<const FeatureSet> sets) const;
  // The batches of features for the head; computes them first if the set is not complete.
  absl::StatusOr<data::Dataset> Batches(const FeatureSet& set) const;

 private:
  absl::StatusOr<std::vector<std::string>> InputColumns(const data::ElementSpec& spec) const;
  absl::StatusOr<data::ElementSpec> StoredSpec(const data::ElementSpec& rows,
                                               const std::vector<std::string>& inputs) const;
  absl::StatusOr<bool> IsComplete(const data::StoredRowsKey& key) const;
  absl::Status Compute(const FeatureSet& set) const;
  // A trainer that predicts the features.
  absl::StatusOr<std::unique_ptr<train::Trainer>> Predictor(const FeatureSet& set) const;
  void Say(const FeatureSet& set, absl::string_view what) const;
  data::IteratorOptions Reading() const;

  const train::Trainer& trainer_;
  const nn::Network features_;
  const base::NamedArrays weights_;
  const std::string model_;  // the network and its weights, as text
  const CachedFeatures& cache_;
  const FitOptions& options_;
  const std::shared_ptr<io::FileSystem> fs_;
};

}  // namespace penstock::keras
