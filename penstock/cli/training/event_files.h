// Options of `penstock train` for TensorBoard: the names are those of keras.callbacks.TensorBoard,
// with --tensorboard for log_dir.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"

#include "penstock/cli/options.h"
#include "penstock/data/dataset.h"
#include "penstock/keras/keras.h"
#include "penstock/train/callback.h"

namespace penstock::cli {

class EventFiles {
 public:
  void Describe(Options& options);
  // Checks the combination of options, and that the folder can be written, before any slow work.
  // `validates`, `caches`: whether there is --validation, --cache-features.
  absl::Status Check(bool validates, bool caches) const;
  bool on() const { return !folder_.empty(); }
  // The callback that writes them; null without --tensorboard. `model` and `validation`, whose
  // confusion matrix is shown, must outlive it. `initial_step`: steps of the stage before.
  std::shared_ptr<train::Callback> Callback(keras::Model& model, const data::Dataset& validation,
                                            int64_t initial_step) const;

 private:
  std::string folder_;
  int histogram_freq_ = 0;
  bool write_grads_ = false, write_images_ = false, write_graph_ = true;
  bool write_steps_per_second_ = false, confusion_matrix_ = false;
  std::string update_freq_ = "epoch";
  IntegerRange profile_batch_ = {};
};

}  // namespace penstock::cli
