// Diagnose: finds what starves the accelerator. A pure function from symptoms (numbers that were
// measured) to findings.
//
//   Symptoms s{.data = "photos", .noun = "images", .source = Symptoms::Source::kFiles, ...};
//   for (const Finding& finding : Diagnose(s)) Print(finding);
//
// Each rule of the table in diagnosis.cc maps the symptoms to a finding: its cost, a summary, the
// evidence and advice. A new rule is a row of that table and a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/image/view.h"

namespace penstock::diagnose {

// Measured numbers. A rate is the number of elements per second of the pipeline up to and including
// that step; 0: not measured.
struct Symptoms {
  enum class Source { kShards, kFiles, kOther };

  std::string data = {};  // as the user wrote it; used in the commands of the advice
  const char* noun = "images";
  Source source = Source::kShards;
  bool remote = false;
  int64_t files = 0;
  double elements = 0;                    // in all files; 0: unknown
  double bytes_per_element = 0;           // encoded size
  image::Size stored = {}, decoded = {};  // image size in the files and in the batches

  int cores = 1, threads = 1;
  int64_t batch_size = 1;
  int64_t shuffle = 0;  // shuffle buffer size in elements
  int parallel_files = 1;
  bool decodes_in_batch = true;  // false: decodes into separate memory and copies into the batch

  double storage_rate = 0;         // reading files only
  bool storage_is_cold = false;    // the files do not fit into the page cache
  double first_byte_seconds = 0;   // latency of opening a file and reading its first bytes
  double read_rate = 0;            // reading and parsing records
  double decode_rate = 0;          // reading and decoding; 0 if nothing is decoded
  double whole_rate = 0;           // whole pipeline
  double decode_core_seconds = 0;  // time to decode one element on one core
  double files_read_rate = 0, shard_read_rate = 0;    // a sample as single files and as a shard
  double fill_seconds = 0;                            // time to fill the shuffle buffer
  double wait_p50_seconds = 0, wait_p99_seconds = 0;  // quantiles of the wait for a batch

  int64_t peak_bytes = 0;       // peak resident memory
  int64_t available_bytes = 0;  // memory available to the process; 0: unknown
  // Memory budget of the pipeline, and the maximum that it used.
  int64_t budget_bytes = 0, budget_peak_bytes = 0;

  double target = 0;                 // rate that the user requires
  double device_rate = 0;            // rate of training steps on data in memory
  double training_rate = 0;          // rate of training steps on this pipeline
  bool device_shares_cores = false;  // whether the device is this machine's CPU

  // Rate that the accelerator can consume; 0: unknown, so that the pipeline counts as the
  // bottleneck.
  double required_rate() const { return target > 0 ? target : device_rate; }
};

struct Finding {
  const char* rule = "";
  // Fraction of the time that the accelerator loses, 0 to 1; up to 1 if the pipeline may fail.
  double cost = 0;
  std::string summary = {};   // problem in one sentence
  std::string evidence = {};  // measured numbers
  std::string advice = {};    // what to change
};

// Returns the findings that cost at least 5 %, in order of decreasing cost. If data does not starve
// the accelerator, returns one finding of cost 0 that says so.
std::vector<Finding> Diagnose(const Symptoms& symptoms);

// Returns one sentence: whether the accelerator is input-bound, and its idle time.
std::string Verdict(const Symptoms& symptoms);

}  // namespace penstock::diagnose
