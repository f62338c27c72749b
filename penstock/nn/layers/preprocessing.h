// Preprocessing layers: raw data to inputs of a network (layers/preprocessing.cc). Included by
// layers.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "penstock/nn/layer.h"
#include "penstock/nn/layers/sizes.h"
#include "penstock/nn/typed_options.h"

namespace penstock::nn {

using base::SourceLocation;

// x * scale + offset for an x of any dtype: computes in float32, returns the layer's compute type.
// Lists have one number for each element of the last axis.
struct RescalingOptions {
  PerChannel scale = 1;
  PerChannel offset = 0;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Rescaling(const RescalingOptions& options,
                SourceLocation location = SourceLocation::Current());

// (x - mean) / sqrt(variance), or with `invert` x * sqrt(variance) + mean; the standard deviation
// is at least 1e-7. The statistics are options, one number or one for each position of `axis`
// (row-major for several axes); or computed by Adapt; or otherwise the layer's variables "mean" and
// "variance" (and Keras's "count"), loaded from a weights file.
struct NormalizationOptions {
  AxisList axis = -1;  // axes with separate statistics; empty: one mean and variance for all
  std::vector<double> mean = {};
  std::vector<double> variance = {};
  bool invert = false;
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Normalization(const NormalizationOptions& options = {},
                    SourceLocation location = SourceLocation::Current());

// Encodes integers in [0, num_tokens) as vectors; other values give zeros.
//   one_hot    one vector for each number; a last axis of 1 is dropped
//   multi_hot  [batch, n] -> [batch, num_tokens]: 1 where a number occurs
//   count      the same: number of occurrences; a second input holds weights
struct CategoryEncodingOptions {
  int64_t num_tokens = 0;
  OutputMode output_mode = "multi_hot";
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer CategoryEncoding(const CategoryEncodingOptions& options,
                       SourceLocation location = SourceLocation::Current());

// Bucketizes numbers: the index of the range (-inf, b0), [b0, b1), ... that contains a number
// (output_mode "int"), or its encoding as by CategoryEncoding. The boundaries are an option, or
// computed by Adapt so that num_bins ranges hold about the same number of elements each, up to a
// fraction `epsilon`.
struct DiscretizationOptions {
  std::vector<double> bin_boundaries = {};
  int64_t num_bins = 0;
  double epsilon = 0.01;
  OutputMode output_mode = "int";  // int, one_hot, multi_hot, count
  std::string name = "";
  DTypePolicy dtype = "";
};
Layer Discretization(const DiscretizationOptions& options,
                     SourceLocation location = SourceLocation::Current());

// ---- Statistics of data before training: Keras's adapt ----

// A layer that supports Adapt: Normalization, Discretization. Internal to room nn.
class AdaptableBody {
 public:
  virtual ~AdaptableBody() = default;
  virtual void StartAdapting() = 0;
  virtual absl::Status AdaptTo(const Array& batch) = 0;
  virtual absl::Status FinishAdapting() = 0;
};

// Computes the statistics of a layer from data, batch by batch; Finish replaces the layer's
// previous statistics. The layer must not have been called yet: existing models keep their
// statistics.
//
//   Layer normalize = Normalization();
//   Adapter adapter(normalize);
//   for (const Array& batch : batches) PENSTOCK_RETURN_IF_ERROR(adapter.Update(batch));
//   PENSTOCK_RETURN_IF_ERROR(adapter.Finish());
class Adapter {
 public:
  explicit Adapter(const Layer& layer);
  // Adds a batch [examples, ...]. An error for a layer without statistics, or if the batch does not
  // match the layer or the previous batches.
  absl::Status Update(const Array& batch);
  absl::Status Finish();

 private:
  absl::Status CheckLayer() const;
  Layer layer_;
  AdaptableBody* body_;
};
// Adapts the layer to all batches.
absl::Status Adapt(const Layer& layer, const std::vector<Array>& batches);

}  // namespace penstock::nn
