// Room diagnose: measures an input pipeline and a training, finds what starves the accelerator and
// suggests what to change. It may use base, io, record, image, data, train, keras, pack. The
// commands `penstock doctor` and `penstock bench data` call it; docs/design/diagnose.md lists the
// rules.
//
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const diagnose::Diagnosis found,
//       diagnose::DiagnosePipeline({.data = {"shards/train"}, .batch_size = 128},
//                                  {.target = 5000}));  // images/s that the accelerator consumes
//   std::cout << diagnose::PrintDiagnosis(found);
//   for (const diagnose::Finding& f : found.findings) Record(f.rule, f.cost);
//
//   diagnose.h    diagnosis of a pipeline or a training
//   diagnosis.h   rules: a pure function from symptoms to findings
//   symptoms.h    symptoms computed from measurements
//   data_bench.h  all measurements of a pipeline, and their report
//   pipeline.h, data_files.h    the measured pipeline and its files
//   measure.h, step_speed.h     measurements of a dataset, of storage, of memory; of training steps
//
// A diagnosis takes a few times options.seconds, reads the data, evicts the files from the page
// cache, and writes a temporary sample to options.scratch.
//
// Errors: InvalidArgument for invalid options and for data of an unknown or mixed format, NotFound
// for patterns without files, FailedPrecondition for shards of an unfinished conversion, and errors
// of the data. The advice of a finding names options of the `penstock` commands: --prefetch is
// PipelineOptions::prefetch.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "penstock/data/dataset.h"
#include "penstock/diagnose/data_bench.h"
#include "penstock/diagnose/diagnosis.h"
#include "penstock/diagnose/pipeline.h"
#include "penstock/keras/keras.h"

namespace penstock::diagnose {

struct Diagnosis {
  DataBench measured;
  Symptoms symptoms;
  std::vector<Finding> findings;  // in order of decreasing cost
};

// Diagnoses a pipeline alone. options.target is the rate, in elements per second, that the
// accelerator consumes; 0: unknown, so that the pipeline counts as the bottleneck. The pipeline is
// measured at its maximum rate.
absl::StatusOr<Diagnosis> DiagnosePipeline(const PipelineOptions& pipeline,
                                           const DataBenchOptions& options = {});

// Input of DiagnoseTraining.
struct TrainingToDiagnose {
  keras::Model* model = nullptr;  // compiled; its weights change. Must outlive the call
  data::Dataset dataset;
  PipelineOptions pipeline = {};     // describes `dataset`: files, image size, batch size, shuffle
  bool device_shares_cores = false;  // whether the device is this machine's CPU
};
// Diagnoses a training: measures the pipeline, then training steps on one batch in memory and on
// `dataset`. The difference is the idle time of the accelerator.
absl::StatusOr<Diagnosis> DiagnoseTraining(const TrainingToDiagnose& training,
                                           const DataBenchOptions& options = {});

// Returns the verdict and each finding with its cost, evidence and advice as text.
std::string PrintDiagnosis(const Diagnosis& diagnosis);
// Returns the same and all measurements as JSON.
nlohmann::ordered_json DiagnosisJson(const Diagnosis& diagnosis);

}  // namespace penstock::diagnose
