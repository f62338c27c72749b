// The callback that writes event files for TensorBoard.
//
//   keras::TensorBoard({.folder = "logs", .histogram_freq = 1, .update_every_steps = 10});
//
// summaries.h writes images, texts and numbers of a program's own beside them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/base/array.h"
#include "penstock/base/clock.h"
#include "penstock/io/file_system.h"
#include "penstock/train/callback.h"

namespace penstock::train {

// Writes TensorBoard event files to train/ and validation/ under `folder`, with the tags of
// keras.callbacks.TensorBoard: a scalar "epoch_loss" for each number, "epoch_learning_rate", after
// each validation also "evaluation_loss_vs_iterations"; with update_every_steps "batch_loss". An
// option has Keras's name and default, unless its comment says otherwise.
//
// Local files grow event by event. Objects cannot grow: on an object store an object is rewritten
// at the end of each epoch, and within an epoch at most every 30 seconds; after 256 KiB a new one
// is started. When a file cannot be written (a full disk), that is a warning, once; the training
// goes on, and the next event starts a new file.
struct TensorBoardOptions {
  std::string folder;  // any file system (Keras's log_dir)
  // The distribution of each variable, every N epochs from the first on; 0: never. Reading
  // the weights costs their transfer to the host.
  int histogram_freq = 0;
  // With the histograms also those of the gradients, "dense/kernel_grad/histogram": of the epoch's
  // last batch, at the weights after it, before the optimizer scales or clips them. One more program
  // is compiled, and executed as often as histograms are written. Keras had this option until 2.2.
  bool write_grads = false;
  // For the page Graphs: the network's layers and variables (the tag "Default"), and after the first
  // step the operations of a training step by layer ("train_step").
  bool write_graph = true;
  // Each variable as an image, with the histograms: a vector as a row, a matrix with its longer
  // side across; of a convolution's kernel the first filters.
  bool write_images = false;
  // "epoch_steps_per_second", and "batch_steps_per_second" with update_every_steps.
  bool write_steps_per_second = false;
  int64_t update_every_steps = 0;  // Keras's update_freq; 0: "epoch"
  // Steps of trainings before this one, whose axis it continues: a second stage. Not in Keras, whose
  // counter of steps belongs to the model.
  int64_t initial_step = 0;
  // The first and the last training step, from 1, that the profiler shows (Keras's profile_batch);
  // {0, 0}: none. Equals FitOptions.profile without the times of operations.
  std::pair<int64_t, int64_t> profile_steps = {0, 0};
  // Embeddings for the page Projector (the variables whose name is "embeddings" or ends with
  // "/embeddings"), every N epochs; 0: never. Each save replaces the one before.
  int embeddings_freq = 0;
  // A file with a label for each row of an embedding, by the layer's name, relative to `folder`.
  std::vector<std::pair<std::string, std::string>> embeddings_metadata = {};
  // Called after each epoch that validates: the number of examples by true and predicted class
  // (CountConfusion), [classes, classes], which is shown as the image, table and accuracy
  // "confusion/..." of the validation. Not in Keras.
  std::function<absl::StatusOr<base::Array>()> confusion_matrix = nullptr;
  std::vector<std::string> class_names = {};              // for its table
  std::shared_ptr<io::FileSystem> file_system = nullptr;  // default: io::FileSystem::Default()
  base::Clock* clock = base::Clock::Real();
};
std::shared_ptr<Callback> TensorBoard(const TensorBoardOptions& options);

// An error if event files could not be written now: the callback's check before the first step.
absl::Status CheckTensorBoardFolder(io::FileSystem& fs, absl::string_view folder);

}  // namespace penstock::train
