#include "penstock/cli/training/event_files.h"

#include <utility>

#include "absl/strings/numbers.h"

#include "penstock/base/status.h"
#include "penstock/io/file_system.h"
#include "penstock/train/callbacks/summaries.h"
#include "penstock/train/callbacks/tensorboard.h"
#include "penstock/train/trainer.h"

namespace penstock::cli {
namespace {

// Counts examples by true and by predicted class, batch by batch.
absl::StatusOr<base::Array> ConfusionOf(const keras::Model& model, const data::Dataset& dataset) {
  PENSTOCK_ASSIGN_OR_RETURN(train::Trainer * trainer, model.trainer());
  base::Array sum;
  const auto add = [&](const base::NamedArrays& others,
                       const std::vector<base::Array>& outputs) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array labels, others.Get("class"));
    PENSTOCK_ASSIGN_OR_RETURN(const base::Array counts, train::CountConfusion(labels, outputs[0]));
    if (!sum.valid()) sum = base::Array::Zeros(counts.dtype(), counts.shape());
    auto* const to = sum.mutable_data<int64_t>();
    for (int64_t i = 0; i < counts.num_elements(); ++i) to[i] += counts.data<int64_t>()[i];
    return absl::OkStatus();
  };
  PENSTOCK_RETURN_IF_ERROR(trainer->PredictEach(dataset, add));
  return sum;
}

}  // namespace

void EventFiles::Describe(Options& options) {
  constexpr char kFolder[] = "--tensorboard";
  constexpr uint64_t kMost = uint64_t{1} << 40;
  options.Add("--tensorboard,--log-dir", folder_, "Folder for TensorBoard's event files");
  options
      .Add("--histogram-freq", histogram_freq_,
           "Write histograms of the weights every N epochs; 0: never")
      .Range(0, 1000000)
      .Needs(kFolder);
  options
      .AddFlag("--write-grads", write_grads_,
               "With --histogram-freq: also histograms of the gradients, of the epoch's last batch")
      .Needs("--histogram-freq");
  options
      .AddFlag("--write-images", write_images_, "With --histogram-freq: also the weights as images")
      .Needs("--histogram-freq");
  options
      .AddFlag("!--no-write-graph", write_graph_,
               "Do not write the graphs of the layers and of a training step")
      .Needs(kFolder);
  options
      .Add("--update-freq", update_freq_,
           "Also write the running loss and metrics every N training steps")
      .RangeOr("epoch", 1, kMost)
      .Needs(kFolder);
  options
      .AddFlag("--write-steps-per-second", write_steps_per_second_,
               "Also write the training speed, per epoch and with --update-freq")
      .Needs(kFolder);
  options
      .Add("--profile-batch", profile_batch_,
           "Range of steps of this run to trace for TensorBoard's page Profile: FIRST-LAST")
      .Range(1, kMost)
      .Needs(kFolder)
      .Excludes("--profile");
  options
      .AddFlag("--confusion-matrix", confusion_matrix_,
               "Write the confusion matrix of --validation after each epoch, which takes one more "
               "pass over it")
      .Needs(kFolder);
}

absl::Status EventFiles::Check(bool validates, bool caches) const {
  if (folder_.empty()) return absl::OkStatus();
  if (confusion_matrix_ && !validates) {
    return absl::InvalidArgumentError(
        "--confusion-matrix needs --validation: its images are counted after each epoch");
  }
  if (confusion_matrix_ && caches) {
    return absl::InvalidArgumentError(
        "--confusion-matrix cannot be used with --cache-features, which trains the classifier "
        "apart from its network; use `penstock evaluate --confusion` afterwards");
  }
  if ((write_grads_ || write_images_) && histogram_freq_ == 0) {
    return absl::InvalidArgumentError(
        "--write-grads and --write-images need a --histogram-freq of 1 or more");
  }
  return base::WithContext(train::CheckTensorBoardFolder(*io::FileSystem::Default(), folder_),
                           "--tensorboard");
}

std::shared_ptr<train::Callback> EventFiles::Callback(keras::Model& model,
                                                      const data::Dataset& validation,
                                                      int64_t initial_step) const {
  if (folder_.empty()) return nullptr;
  train::TensorBoardOptions board{.folder = folder_,
                                  .histogram_freq = histogram_freq_,
                                  .write_grads = write_grads_,
                                  .write_graph = write_graph_,
                                  .write_images = write_images_,
                                  .write_steps_per_second = write_steps_per_second_,
                                  .initial_step = initial_step,
                                  .class_names = model.class_names()};
  // As --profile, of the first stage.
  if (initial_step == 0) board.profile_steps = {profile_batch_.first, profile_batch_.last};
  // The parser has checked the range; "epoch" is no number.
  if (!absl::SimpleAtoi(update_freq_, &board.update_every_steps)) board.update_every_steps = 0;
  if (confusion_matrix_) {
    board.confusion_matrix = [&model, &validation] { return ConfusionOf(model, validation); };
  }
  return train::TensorBoard(board);
}

}  // namespace penstock::cli
