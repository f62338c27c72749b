// Exporters of TrainAndEvaluate: SavedModels of evaluated checkpoints (tf.estimator.FinalExporter,
// LatestExporter, BestExporter).
//
//   TrainAndEvaluate(estimator, train_spec,
//                    {.input_fn = TestInput,
//                     .exporters = {BestExporter("best", serving_input_receiver_fn)}});
//
// The SavedModels are folders "<model_dir>/export/<name>/<seconds since 1970>".
//
// Difference from TensorFlow 1.15: exports_to_keep counts only what the same exporter has written
// since it was made; folders of earlier processes and of others are never removed. BestExporter's
// event_file_pattern is left out: the first evaluation of a process counts as the best so far.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "penstock/estimator/estimator.h"

namespace penstock::estimator {

class Exporter {
 public:
  virtual ~Exporter() = default;
  // Name of the folder in model_dir/export.
  virtual std::string name() const = 0;
  // Called after each evaluation, and with is_the_final_export after the last one. Returns the
  // folder that it wrote; empty if it wrote none.
  virtual absl::StatusOr<std::string> Export(Estimator& estimator, const std::string& export_path,
                                             const std::string& checkpoint_path,
                                             const EvalResult& eval_result,
                                             bool is_the_final_export) = 0;
};
using Exporters = std::vector<std::shared_ptr<Exporter>>;

// Exports once, at the end of training.
std::shared_ptr<Exporter> FinalExporter(std::string name,
                                        ServingInputReceiverFn serving_input_receiver_fn);

// Exports after each evaluation; keeps the newest exports_to_keep (at least 1).
std::shared_ptr<Exporter> LatestExporter(std::string name,
                                         ServingInputReceiverFn serving_input_receiver_fn,
                                         int exports_to_keep = 5);

// Exports when an evaluation is better than the best so far: compare_fn(best, current). Default: a
// smaller "loss".
using CompareFn = std::function<bool(const EvalResult& best, const EvalResult& current)>;
std::shared_ptr<Exporter> BestExporter(std::string name,
                                       ServingInputReceiverFn serving_input_receiver_fn,
                                       CompareFn compare_fn = nullptr, int exports_to_keep = 5);

}  // namespace penstock::estimator
