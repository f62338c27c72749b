// Layers that make numbers for a network out of raw data (layers_preprocessing.cc). Included by
// layers.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/nn/layer.h"
#include "penstock/nn/sizes.h"

namespace penstock::nn {

using base::SourceLocation;

// x * scale + offset, whatever x is: reckoned in float32, given in the layer's compute type.
struct RescalingOptions {
  double scale = 1;
  double offset = 0;
  std::string name = "";
  std::string dtype = "";
};
Layer Rescaling(const RescalingOptions& options,
                SourceLocation location = SourceLocation::Current());

// (x - mean) / sqrt(variance), or with `invert` x * sqrt(variance) + mean; the deviation is at
// least 1e-7. The statistics are given, one number or one for each position of `axis` (row-major
// when it names several); or learned by Adapt; or else they are the layer's variables "mean" and
// "variance" (beside Keras's "count"), which a file of weights brings.
struct NormalizationOptions {
  AxisList axis = -1;  // what has statistics of its own; none: one mean and variance for all
  std::vector<double> mean = {};
  std::vector<double> variance = {};
  bool invert = false;
  std::string name = "";
  std::string dtype = "";
};
Layer Normalization(const NormalizationOptions& options = {},
                    SourceLocation location = SourceLocation::Current());

// Whole numbers in [0, num_tokens) as vectors; others give zeros.
//   one_hot    one vector for each number; a last axis of 1 is left out
//   multi_hot  [batch, n] -> [batch, num_tokens]: 1 where a number occurs
//   count      the same: how often; a second input holds the numbers' weights
struct CategoryEncodingOptions {
  int64_t num_tokens = 0;
  std::string output_mode = "multi_hot";
  std::string name = "";
  std::string dtype = "";
};
Layer CategoryEncoding(const CategoryEncodingOptions& options,
                       SourceLocation location = SourceLocation::Current());

// In which of the ranges (-inf, b0), [b0, b1), ... a number lies: its index (output_mode "int"), or
// that encoded as CategoryEncoding does. The boundaries are given, or learned by Adapt so that
// num_bins ranges hold about the same number of elements each, to `epsilon` of them.
struct DiscretizationOptions {
  std::vector<double> bin_boundaries = {};
  int64_t num_bins = 0;
  double epsilon = 0.01;
  std::string output_mode = "int";  // int, one_hot, multi_hot, count
  std::string name = "";
  std::string dtype = "";
};
Layer Discretization(const DiscretizationOptions& options,
                     SourceLocation location = SourceLocation::Current());

// ---- Learning from data before training, Keras's adapt ----

// A layer that can: Normalization, Discretization. Internal to room nn.
class AdaptableBody {
 public:
  virtual ~AdaptableBody() = default;
  virtual void StartAdapting() = 0;
  virtual absl::Status AdaptTo(const Array& batch) = 0;
  virtual absl::Status FinishAdapting() = 0;
};

// Shows data to a layer, batch after batch; after Finish the layer has their statistics, instead of
// what it had. It must not have been called yet: models that exist keep what they have.
//
//   Layer normalize = Normalization();
//   Adapter adapter(normalize);
//   for (const Array& batch : batches) PENSTOCK_RETURN_IF_ERROR(adapter.Update(batch));
//   PENSTOCK_RETURN_IF_ERROR(adapter.Finish());
class Adapter {
 public:
  explicit Adapter(const Layer& layer);
  // [examples, ...]; the error of a layer that learns nothing from data, or of data that does not
  // fit the layer or the batches before.
  absl::Status Update(const Array& batch);
  absl::Status Finish();

 private:
  absl::Status CheckLayer() const;
  Layer layer_;
  AdaptableBody* body_;
};
// All at once.
absl::Status Adapt(const Layer& layer, const std::vector<Array>& batches);

}  // namespace penstock::nn
