// A pipeline described by a few options, and its rungs: the same pipeline cut short after reading,
// after decoding, and whole, so that measuring them tells what each step costs.
//
//   PENSTOCK_ASSIGN_OR_RETURN(const Pipeline pipeline,
//                             MakePipeline(*fs, {.data = {"shards/train"}, .batch_size = 128}));
//   PENSTOCK_ASSIGN_OR_RETURN(const Measured whole,
//                             Measure(pipeline.rungs.back().endless, {}));    // measure.h
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "penstock/data/dataset.h"
#include "penstock/diagnose/data_files.h"
#include "penstock/image/view.h"
#include "penstock/io/file_system.h"

namespace penstock::diagnose {

// The defaults are those of `penstock train`.
struct PipelineOptions {
  std::vector<std::string> data = {};  // files, patterns, folders (FindDataFiles)
  std::string format = {};             // of DataFiles; "": found out
  int64_t batch_size = 64;
  image::Size image_size = {};     // {height, width}; {0, 0}: of the first image
  int channels = 0;                // 1 or 3; 0: of the first image
  bool augment = false;            // random crops, resized, and flips, where images are decoded
  std::string image_feature = {};  // of shards; "": `image`, else the one that holds an image
  std::vector<std::string> columns = {};  // of shards; empty: the image and `class`, else all
  int64_t shuffle = 10000;                // 0: the order of the files
  bool global_shuffle = false;            // of shards, in place of the buffer
  int64_t prefetch = 2;
  int parallel_files = 0;  // 0: as room data does
  bool skip_unreadable = false;
};

// An error if a batch of such images is larger than the free memory.
absl::Status CheckBatchFits(int64_t batch_size, image::Size size, int channels);

struct Rung {
  const char* name;
  data::Dataset once;     // one pass
  data::Dataset endless;  // again and again
};

struct Pipeline {
  DataFiles data;
  const char* noun = "records";
  std::vector<Rung> rungs;  // the last one is the whole pipeline
  int64_t batch_size = 0;
  int64_t shuffle = 0;  // elements in the buffer; 0: none
  int parallel_files = 0;
  // Of the files: encoded, by the first records of shards, of all single files. 0: not known yet.
  double bytes_per_element = 0;
  bool compressed = false;         // those bytes are fewer in the files
  std::string image_feature = {};  // of shards; "": none
  // Of images: of the first file, and as the pipeline gives them. 0x0: there are none.
  image::Size stored = {}, given = {};
};

// Reads the beginning of the first file to learn what elements are.
absl::StatusOr<Pipeline> MakePipeline(io::FileSystem& fs, const PipelineOptions& options);

}  // namespace penstock::diagnose
