// Pipeline: an image or record pipeline described by options, and its rungs: the same pipeline
// truncated after reading and after decoding, and the whole pipeline. The differences of their
// measured times are the costs of the steps.
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

// Options of a pipeline. The defaults are those of `penstock train`.
struct PipelineOptions {
  std::vector<std::string> data = {};  // files, patterns, folders (FindDataFiles)
  std::string format = {};             // name of a DataFormat; default: detected
  int64_t batch_size = 64;
  image::Size image_size = {};     // {height, width}; default: size of the first image
  int channels = 0;                // 1 or 3; default: channels of the first image
  bool augment = false;            // random resized crops and flips
  std::string image_feature = {};  // image feature of shards; default: `image`, else the only one
  std::vector<std::string> columns =
      {};                       // features to read; default: the image and `class`, else all
  int64_t shuffle = 10000;      // shuffle buffer size in elements; 0: no shuffling
  bool global_shuffle = false;  // global shuffle of shards instead of the buffer
  int64_t prefetch = 2;
  int parallel_files = 0;  // 0: default of the source
  bool skip_unreadable = false;
};

// Returns an error if a batch of such images is larger than the free memory.
absl::Status CheckBatchFits(int64_t batch_size, image::Size size, int channels);

struct Rung {
  const char* name;
  data::Dataset once;     // one pass
  data::Dataset endless;  // repeats indefinitely
};

struct Pipeline {
  DataFiles data;
  const char* noun = "records";
  std::vector<Rung> rungs;  // the last one is the whole pipeline
  int64_t batch_size = 0;
  int64_t shuffle = 0;  // shuffle buffer size in elements; 0: none
  int parallel_files = 0;
  // Encoded size of an element: average of the first records of a shard, or of all single files. 0:
  // unknown.
  double bytes_per_element = 0;
  bool compressed = false;         // shards are compressed; bytes_per_element is the inflated size
  std::string image_feature = {};  // image feature of shards; "": none
  // Size of the first stored image, and of the images in a batch; 0x0: no images.
  image::Size stored = {}, decoded = {};
};

// Makes a pipeline. Reads the start of the first file to determine its elements.
absl::StatusOr<Pipeline> MakePipeline(io::FileSystem& fs, const PipelineOptions& options);

}  // namespace penstock::diagnose
