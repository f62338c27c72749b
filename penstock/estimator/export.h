// Exporting an estimator's predictions as a SavedModel, which TensorFlow loads and serves:
// Estimator::ExportSavedModel.
//
//   const auto folder = estimator.ExportSavedModel(
//       "export", BuildRawServingInputReceiverFn(
//                     {{.name = "x", .dtype = base::DType::kF32, .shape = {-1, 4}}}));
//
// The program is one StableHLO module for every batch size (keras/export.h). It has no strings, so
// serialized tf.train.Examples are not parsed by it: TensorFlow's
// build_parsing_serving_input_receiver_fn has no counterpart, and the features of vocabularies and
// hash buckets are their ids (feature_column::HostKey).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/data/spec.h"
#include "penstock/estimator/named_tensors.h"

namespace penstock::estimator {

// Placeholders of the exported program, and the features that it makes of them
// (tf.estimator.export.ServingInputReceiver).
struct ServingInputReceiver {
  NamedTensors features;
  // Names are those of the signature's inputs. Empty: the features, which are placeholders.
  NamedTensors receiver_tensors = {};
};
// Builds them in the default graph.
using ServingInputReceiverFn = std::function<ServingInputReceiver()>;

// Features that are placeholders of these types, whose first extent is -1
// (tf.estimator.export.build_raw_serving_input_receiver_fn).
ServingInputReceiverFn BuildRawServingInputReceiverFn(std::vector<data::ColumnSpec> features);

struct ExportSavedModelOptions {
  std::string checkpoint_path = "";  // default: the newest checkpoint
  // The one of EstimatorSpec::export_outputs that becomes the signature "serving_default"; a
  // SavedModel of Penstock has one signature.
  std::string signature = "serving_default";
};

}  // namespace penstock::estimator
