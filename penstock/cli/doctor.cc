#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/cli/bench_flags.h"
#include "penstock/cli/command.h"
#include "penstock/cli/print_json.h"
#include "penstock/cli/training_setup.h"
#include "penstock/diagnose/diagnose.h"

namespace penstock::cli {
namespace {

class Doctor : public Command {
 public:
  void Describe(Options& options) override {
    options
        .Add("DATA", target_,
             "Data, as for `penstock bench data`; or a training command after --: "
             "penstock doctor -- train --data ... (nothing is saved)")
        .Required();
    pipeline_.Describe(options);
    bench_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    if (target_[0] == "penstock") target_.erase(target_.begin());
    const bool is_training = !target_.empty() && target_[0] == "train";
    if (!is_training) PENSTOCK_RETURN_IF_ERROR(CheckIsData());
    PENSTOCK_ASSIGN_OR_RETURN(
        const diagnose::Diagnosis found,
        is_training ? DiagnoseTraining(std::vector<std::string>(target_.begin() + 1, target_.end()))
                    : DiagnosePipeline());
    if (json_) {
      PrintJson(diagnose::DiagnosisJson(found));
    } else {
      std::printf("%s", diagnose::PrintDiagnosis(found).c_str());
    }
    return absl::OkStatus();
  }

 private:
  // Another command, where a training or data is expected: `penstock doctor -- predict ...`.
  absl::Status CheckIsData() const {
    const auto is_command = [this](const CommandRow& row) { return row.name == target_[0]; };
    if (!target_.empty() && std::none_of(std::begin(kCommands), std::end(kCommands), is_command)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        target_.empty() ? "no training" : absl::StrCat("'", target_[0], "' is not a training"),
        "; diagnose one with penstock doctor -- train --data ..., or data: penstock doctor DATA (",
        "./NAME for files with the name of a command)"));
  }

  absl::StatusOr<diagnose::Diagnosis> DiagnosePipeline() const {
    diagnose::PipelineOptions pipeline = pipeline_.Value();
    pipeline.data = target_;
    return diagnose::DiagnosePipeline(pipeline, bench_.options);
  }

  absl::StatusOr<diagnose::Diagnosis> DiagnoseTraining(
      const std::vector<std::string>& arguments) const {
    diagnose::PipelineOptions pipeline = pipeline_.Value();
    if (const diagnose::PipelineOptions none;
        pipeline.batch_size != none.batch_size || pipeline.shuffle != none.shuffle ||
        pipeline.image_size != none.image_size || !pipeline.image_feature.empty()) {
      return absl::InvalidArgumentError(
          "--batch-size, --shuffle, --image-size and --image-feature are those of the training; "
          "give them after --, with the other options of penstock train");
    }
    PENSTOCK_ASSIGN_OR_RETURN(TrainingSetup setup, SetUpTraining(arguments));
    pipeline.data = setup.data;
    pipeline.batch_size = setup.batch_size;
    pipeline.shuffle = setup.shuffle;
    pipeline.image_feature = "image";
    pipeline.image_size = {setup.image.height, setup.image.width};
    pipeline.channels = setup.image.channels;
    return diagnose::DiagnoseTraining({.model = &setup.model,
                                       .dataset = setup.dataset,
                                       .pipeline = pipeline,
                                       .device_shares_cores = setup.client->platform() == "cpu"},
                                      bench_.options);
  }

  std::vector<std::string> target_;
  PipelineFlags pipeline_;
  BenchFlags bench_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> DoctorCommand() { return std::make_unique<Doctor>(); }

}  // namespace penstock::cli
