// Options of `penstock train` for fine-tuning: pretrained weights, a new head, frozen layers.
//
// The head is the last layer with weights: the classifier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "penstock/cli/options.h"
#include "penstock/keras/keras.h"

namespace penstock::cli {

class Transfer {
 public:
  void Describe(Options& options);
  // Checks the combination of options, and that the weights can be read, before any slow work.
  absl::Status Check(int epochs) const;

  // Whether there are pretrained weights.
  bool pretrained() const { return !weights_.empty(); }
  // Number of epochs with frozen layers, when all of --epochs are `epochs`.
  int FrozenEpochs(int epochs) const;
  bool has_second_stage() const { return unfreeze_after_ > 0; }
  // Names of the stages: folders of their checkpoints. The second stage of another --unfreeze-after
  // begins with other weights, so it has another name. Empty: there is one stage.
  std::string first_stage() const { return has_second_stage() ? "frozen" : ""; }
  std::string second_stage() const { return absl::StrCat("unfrozen-after-", unfreeze_after_); }
  // Factor of the learning rate after unfreezing.
  double second_stage_factor() const { return unfreeze_factor_; }

  // Folder of cached features; empty: none.
  const std::string& features_folder() const { return features_folder_; }

  // Freezes the layers of --freeze. Before Compile.
  absl::Status Freeze(const keras::Model& model) const;
  // Loads the weights into a compiled model and prints what was loaded to stderr.
  absl::Status LoadWeights(keras::Model& model) const;

 private:
  std::string weights_;
  std::vector<std::string> freeze_;
  bool new_head_ = false;
  int unfreeze_after_ = 0;
  double unfreeze_factor_ = 0.1;
  std::string features_folder_;
};

// Name of the head of a network; empty if it has no weights.
std::string HeadOf(const nn::Network& network);
// Name of the layer whose output the head reads; dropout in between is the head's.
std::string LayerBeforeHead(const nn::Network& network);

}  // namespace penstock::cli
