// History: the metrics of a training by epoch; the result of Fit.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const History history, model.Fit(train_set, {.epochs = 10}));
//   const std::vector<double> losses = history["val_loss"];
//   std::cout << history.ToText();                    // curves for the terminal
//   std::ofstream("history.svg") << history.ToSvg();
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "penstock/train/callback.h"
#include "penstock/train/fit_stats.h"

namespace penstock::train {

struct History {
  // The logs of each epoch, those before a resume included: "loss", the metrics, "val_loss", ...
  std::vector<Logs> epochs;
  // Where the time of each epoch went; not measured (0) for epochs before a resume.
  std::vector<FitStats> stats;
  // Why training ended before its last epoch; empty if it did not.
  std::string stop_reason;
  // Whether the training ended because the program is about to exit (TrainingContext::Interrupt).
  // It can be resumed from a checkpoint.
  bool interrupted = false;
  // Logs (Callback::IsLog: CsvLogger, TensorBoard) of this call that lack something which could not be written, and why: a
  // sentence each. The training itself is complete.
  std::vector<std::string> incomplete_logs = {};

  // The values of one metric by epoch: Keras's history.history["loss"]. Epochs without it
  // (validation_freq) are omitted; an unknown name has no values.
  std::vector<double> operator[](absl::string_view name) const;
  // All names, in the order in which they first occur.
  std::vector<std::string> names() const;

  struct PlotOptions {
    // Names of the metrics; empty: all. "loss" includes "val_loss".
    std::vector<std::string> names = {};
    int width = 60, height = 10;  // of one chart of ToText, in characters, without its labels
  };
  // A chart per metric over the epochs, with training and validation in one chart. ToText uses
  // characters: "*" training, "o" validation, "@" both. Values that are not finite are omitted.
  std::string ToText(const PlotOptions& options) const;
  std::string ToText() const { return ToText(PlotOptions()); }
  std::string ToSvg(const PlotOptions& options) const;
  std::string ToSvg() const { return ToSvg(PlotOptions()); }
};

}  // namespace penstock::train
