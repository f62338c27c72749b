#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

#include "penstock/base/available_memory.h"
#include "penstock/cli/command.h"
#include "penstock/cli/step_speed.h"
#include "penstock/cli/symptoms.h"
#include "penstock/cli/training_setup.h"

namespace penstock::cli {
namespace {

class Doctor : public Command {
 public:
  void Describe(Options& options) override {
    options
        .Add("DATA", what_,
             "Data, as for `penstock bench data`; or, behind --, a training: "
             "penstock doctor -- train --data ... (nothing is saved)")
        .Required();
    pipeline_.Describe(options);
    options_.Describe(options);
    options.AddFlag("--json", json_, "Print JSON");
  }

  absl::Status Run() override {
    Symptoms symptoms;
    if (what_[0] == "penstock") what_.erase(what_.begin());
    if (!what_.empty() && what_[0] == "train") {
      PENSTOCK_ASSIGN_OR_RETURN(
          symptoms, LookAtTraining(std::vector<std::string>(what_.begin() + 1, what_.end())));
    } else {
      pipeline_.data = what_;
      PENSTOCK_ASSIGN_OR_RETURN(symptoms, LookAtPipeline());
    }
    Print(symptoms, Diagnose(symptoms));
    return absl::OkStatus();
  }

 private:
  // What an accelerator of the target's speed would see is worked out, not acted out: the pipeline
  // is measured as fast as it goes.
  absl::StatusOr<Symptoms> LookAtPipeline() {
    const int64_t available = base::AvailableMemory().bytes;
    DataBenchOptions options = options_;
    options.target = 0;
    PENSTOCK_ASSIGN_OR_RETURN(bench_,
                              BenchData(io::FileSystem::Default(), pipeline_, options, stderr));
    Symptoms symptoms = SymptomsOf(*bench_, available);
    symptoms.data = absl::StrJoin(pipeline_.data, "' '");
    symptoms.target = options_.target;
    return symptoms;
  }

  absl::StatusOr<Symptoms> LookAtTraining(const std::vector<std::string>& arguments) {
    PENSTOCK_ASSIGN_OR_RETURN(TrainingSetup setup, SetUpTraining(arguments));
    pipeline_.data = setup.data;
    pipeline_.batch_size = setup.batch_size;
    pipeline_.shuffle = setup.shuffle;
    pipeline_.image_feature = "image";
    pipeline_.image_size = {setup.image.height, setup.image.width};
    pipeline_.channels = setup.image.channels;
    PENSTOCK_ASSIGN_OR_RETURN(Symptoms symptoms, LookAtPipeline());

    const StepSpeedOptions options{.seconds = options_.seconds, .steps = options_.batches};
    const std::vector<Rung>& rungs = bench_->pipeline.rungs;
    std::fprintf(stderr, "measuring steps on data in memory (compiling first) ...\n");
    PENSTOCK_ASSIGN_OR_RETURN(const data::Dataset one, FirstBatchInMemory(rungs[1].once));
    PENSTOCK_ASSIGN_OR_RETURN(const StepSpeed alone, MeasureSteps(setup.model, one, options));
    std::fprintf(stderr, "measuring steps on the pipeline ...\n");
    const bool cut = bench_->pipeline.shuffle < bench_->shuffle_asked;
    PENSTOCK_ASSIGN_OR_RETURN(
        const StepSpeed together,
        MeasureSteps(setup.model, cut ? rungs.back().once : setup.dataset, options));
    symptoms.device_rate = alone.examples_per_second;
    symptoms.training_rate = together.examples_per_second;
    symptoms.device_shares_cores = setup.client->platform() == "cpu";
    symptoms.peak_bytes = std::max(symptoms.peak_bytes, PeakMemory());
    return symptoms;
  }

  void Print(const Symptoms& symptoms, const std::vector<Finding>& findings) const {
    if (json_) {
      PrintJson(symptoms, findings);
      return;
    }
    std::printf("%s\n", Verdict(symptoms).c_str());
    for (size_t i = 0; i < findings.size(); ++i) {
      const Finding& f = findings[i];
      const std::string cost =
          f.cost > 0 ? absl::StrFormat(" (%.0f %% of the time)", 100 * f.cost) : "";
      std::printf("\n%zu. %s%s\n   shown by: %s\n   change:   %s\n", i + 1, f.says.c_str(),
                  cost.c_str(), f.shows.c_str(), f.change.c_str());
    }
  }

  void PrintJson(const Symptoms& s, const std::vector<Finding>& findings) const {
    nlohmann::ordered_json json{{"verdict", Verdict(s)},
                                {"wanted", s.wanted()},
                                {"pipeline", s.whole_rate},
                                {"training", s.training_rate},
                                {"training_on_data_in_memory", s.device_rate}};
    json["findings"] = nlohmann::ordered_json::array();
    for (const Finding& f : findings) {
      json["findings"].push_back({{"rule", f.rule},
                                  {"cost", f.cost},
                                  {"says", f.says},
                                  {"shows", f.shows},
                                  {"change", f.change}});
    }
    json["measured"] = DataBenchJson(*bench_);
    std::printf("%s\n",
                json.dump(2, ' ', false, nlohmann::detail::error_handler_t::replace).c_str());
  }

  std::vector<std::string> what_;
  PipelineOptions pipeline_;
  DataBenchOptions options_;
  bool json_ = false;
  std::optional<DataBench> bench_;
};

}  // namespace

std::unique_ptr<Command> DoctorCommand() { return std::make_unique<Doctor>(); }

}  // namespace penstock::cli
