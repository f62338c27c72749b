// What starves an accelerator, told from numbers: a pure function of what was measured.
//
//   Symptoms s{.data = "photos", .noun = "images", .source = Symptoms::Source::kFiles, ...};
//   for (const Finding& finding : Diagnose(s)) Print(finding);
//
// Each rule of the table in diagnosis.cc looks at the symptoms and says what it found, what that
// costs, the numbers that show it and what to change. To add one: a row there and a test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/image/view.h"

namespace penstock::diagnose {

// Rates are elements a second, each of the pipeline cut short after that step; 0: not measured.
struct Symptoms {
  enum class Source { kShards, kFiles, kOther };

  std::string data = {};  // as the user names it: stands in commands
  const char* noun = "images";
  Source source = Source::kShards;
  bool remote = false;
  int64_t files = 0;
  double elements = 0;                  // of all files; 0: not known
  double bytes_per_element = 0;         // encoded, in the files
  image::Size stored = {}, given = {};  // of images: in the files, and as the pipeline gives them

  int cores = 1, threads = 1;
  int64_t batch_size = 1;
  int64_t shuffle = 0;  // elements in the buffer
  int parallel_files = 1;
  bool decodes_in_batch = true;  // and not beside it, to be copied there

  double storage_rate = 0;         // reading and nothing else
  bool storage_is_cold = false;    // the files do not stay in memory from one epoch to the next
  double first_byte_seconds = 0;   // from opening a file to its first bytes
  double read_rate = 0;            // read, checked, taken apart
  double decode_rate = 0;          // and decoded (parsed); 0 where nothing is
  double whole_rate = 0;           // and shuffled, batched, ready
  double decode_core_seconds = 0;  // of one element on one core
  double files_read_rate = 0, shard_read_rate = 0;    // a sample as single files, and as a shard
  double fill_seconds = 0;                            // until the shuffle buffer is full
  double wait_p50_seconds = 0, wait_p99_seconds = 0;  // for a batch

  int64_t peak_bytes = 0;       // resident
  int64_t available_bytes = 0;  // that a process could have; 0: not known
  // What the pipeline may hold to work ahead, and the most that it held.
  int64_t budget_bytes = 0, budget_peak_bytes = 0;

  double target = 0;                 // what the user wants
  double device_rate = 0;            // training steps on data that lies in memory
  double training_rate = 0;          // training steps on this pipeline
  bool device_shares_cores = false;  // it is this machine's CPU

  // What the accelerator takes; 0: not known, then everything starves it.
  double wanted() const { return target > 0 ? target : device_rate; }
};

struct Finding {
  const char* rule = "";
  // The part of the time that the accelerator loses by it, 0 to 1; 1 as well for what stops it.
  double cost = 0;
  std::string says = {};    // what it is
  std::string shows = {};   // the numbers
  std::string change = {};  // what to do
};

// Those that matter (5 % and more), the costliest first. When data does not starve the accelerator
// there is one finding that says so, of cost 0.
std::vector<Finding> Diagnose(const Symptoms& symptoms);

// In one sentence: whether the accelerator waits for data, and how much.
std::string Verdict(const Symptoms& symptoms);

}  // namespace penstock::diagnose
