// Room diagnose: measures an input pipeline and a training, and says what starves the accelerator
// and what to change. It may use base, io, record, image, data, train, keras, pack.
// `penstock doctor` and `penstock bench data` are command lines of it; docs/design/diagnose.md lists the
// rules.
//
//   PENSTOCK_ASSIGN_OR_RETURN(
//       const diagnose::Diagnosis found,
//       diagnose::DiagnosePipeline({.data = {"shards/train"}, .batch_size = 128},
//                                  {.target = 5000}));           // images/s the accelerator takes
//   std::cout << diagnose::PrintDiagnosis(found);
//   for (const diagnose::Finding& f : found.findings) Record(f.rule, f.cost);
//
//   diagnose.h    from a pipeline or a training to findings
//   diagnosis.h   the rules: from numbers to findings, a pure function
//   symptoms.h    from measurements to these numbers
//   data_bench.h  all measurements of a pipeline, and their report
//   pipeline.h, data_files.h    the pipeline that is measured, and which files it reads
//   measure.h, step_speed.h     one dataset, storage alone, memory; steps of a training
//
// Measuring takes a few times options.seconds, reads the data, asks the kernel to forget the files
// (they are read from the disk again), and writes nothing but a sample into options.scratch, which
// is removed.
//
// Errors: InvalidArgument for options that cannot work and for data of an unknown or mixed kind,
// NotFound for patterns without files, FailedPrecondition for shards of an unfinished conversion,
// and those of the data. Messages name an option as the command does: --skip-unreadable is
// PipelineOptions::skip_unreadable.
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
  std::vector<Finding> findings;  // the costliest first
};

// A pipeline alone: how fast it is beside options.target, elements a second that the accelerator
// takes (0: not known, then every rule is judged as if the pipeline starved it). The pipeline is
// measured as fast as it goes.
absl::StatusOr<Diagnosis> DiagnosePipeline(const PipelineOptions& pipeline,
                                           const DataBenchOptions& options = {});

// A training: besides the pipeline, steps of `model` (compiled; its weights change) on one batch in
// memory and on `dataset`; the difference is what the accelerator waits. `pipeline` describes what
// `dataset` reads: files, image size, batch size, shuffle.
struct TrainingToDiagnose {
  keras::Model* model = nullptr;  // outlives the call
  data::Dataset dataset;
  PipelineOptions pipeline = {};
  bool device_shares_cores = false;  // the device is this machine's CPU
};
absl::StatusOr<Diagnosis> DiagnoseTraining(const TrainingToDiagnose& training,
                                           const DataBenchOptions& options = {});

// The verdict in one sentence, then each finding with its cost, numbers and advice; some lines.
std::string PrintDiagnosis(const Diagnosis& diagnosis);
// The same, and everything that was measured.
nlohmann::ordered_json DiagnosisJson(const Diagnosis& diagnosis);

}  // namespace penstock::diagnose
