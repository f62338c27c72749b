// Fine-tuning on cached features: with a frozen backbone and no augmentation, the outputs of the
// backbone are the same in every epoch. They are computed once and stored, and the head is trained
// on them.
//
//   PENSTOCK_RETURN_IF_ERROR(model.SetTrainable(false, {"backbone"}));
//   PENSTOCK_RETURN_IF_ERROR(model.Compile({.optimizer = "adam"}));
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const keras::History history,
//       keras::FitOnCachedFeatures(model, train_set,
//                                  {.folder = "gs://bucket/features", .until = "backbone"},
//                                  {.epochs = 20, .validation_data = &test_set}));
//
// Afterward the model has the trained head, and its optimizer's state: Evaluate, Save and another
// Fit continue as if Fit had trained it. Losses and weights are those of Fit up to rounding, apart
// from random numbers of the head (dropout) and the order of shuffles without a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "penstock/base/termination_signal.h"
#include "penstock/data/dataset.h"
#include "penstock/keras/keras.h"
#include "penstock/train/options.h"

namespace penstock::keras {

struct CachedFeatures {
  // Folder of any file system for the sets of features. A set is a subfolder "features-<hash>" (a
  // snapshot, Dataset::FromSnapshot), complete or not used. Its name is a hash of the network up to
  // `until`, its weights, the dataset's description and its sources (files with their versions,
  // contents of arrays): a later call with the same ones reads it, and a change of any makes
  // another set. Sets that are not used any more can be removed.
  std::string folder;
  // Name of the layer whose output is stored: the last frozen layer, through which all inputs reach
  // the outputs.
  std::string until;
  // Computes the layers up to `until` as in prediction although training computes something else
  // (Keras's base_model(x, training=False)): dropout in the backbone, as EfficientNet has it, is
  // left out. Their weights must be frozen all the same. False: such layers are an error.
  bool inference = false;
  // Rows per batch while features are computed.
  int64_t batch_size = 32;
  // On SIGTERM (base/termination_signal.h) computing features ends with History::interrupted; they
  // are computed again next time. For the training itself BackupAndRestore takes the signal.
  std::shared_ptr<const base::TerminationSignal> termination = nullptr;
};

// Computes the features of `dataset` and of the validation data, unless the folder has them, and
// trains the layers after `until` on them. The dataset has the form of Fit's: batches, with
// Shuffle, Repeat, Take, Skip and Shard as in each epoch; everything else is done once. Functions
// of Map, Filter and the like need a name, which changes with them: changes of a function, and of
// the code of a custom layer, are not noticed otherwise.
//
// Callbacks belong to the training of the head: checkpoints hold its state alone. The model itself
// has the head's weights of the last epoch while EpochEnd is called, for ModelCheckpoint(model) and
// Evaluate.
//
// Errors, before anything is computed (split_network.h and split_dataset.h list the first two):
//   INVALID_ARGUMENT     the features would not be the same in every epoch, `until` does not split
//                        the network, the model has a train_step or batch_augmentation, a function
//                        has no name, the dataset has no end
//   FAILED_PRECONDITION  the model is not compiled
//   RESOURCE_EXHAUSTED   the features do not fit on the local disk
//   otherwise            the folder cannot be written
absl::StatusOr<History> FitOnCachedFeatures(Model& model, const data::Dataset& dataset,
                                            const CachedFeatures& cache,
                                            const FitOptions& options = {});

}  // namespace penstock::keras
