#include "penstock/cli/bench_flags.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace penstock::cli {

void PipelineFlags::Describe(Options& described) {
  described.Add(
      "--format", options.format,
      absl::StrCat("Format of the files: ", diagnose::DataFormatNames(), "; default: detected"));
  described.Add("--batch-size,--batch", options.batch_size, "Batch size")
      .Range(1, uint64_t{1} << 20)
      .ShowDefault();
  described
      .Add("--image-size,--size", image_size,
           "Height and width to which images are resized; default: those of the first image")
      .Count(2)
      .Range(1, 65500);
  described.AddFlag("--augment", options.augment,
                    "Augmentation: random resized crops (8 to 100 % of the area) and random flips");
  described.Add("--shuffle", options.shuffle, "Shuffle buffer size in elements; 0: no shuffling")
      .Range(0, uint64_t{1} << 40)
      .ShowDefault();
  described.AddFlag(
      "--global-shuffle", options.global_shuffle,
      "Global shuffle: all records of the shards in one random order, without a buffer");
  described.Add("--prefetch", options.prefetch, "Number of batches to prefetch")
      .Range(0, uint64_t{1} << 20)
      .ShowDefault();
  described
      .Add("--parallel-files", options.parallel_files,
           "Number of files to read in parallel; 0: automatic")
      .Range(0, 1024)
      .ShowDefault();
  described.Add(
      "--image-feature", options.image_feature,
      "Feature of the shards that holds the image; default: `image`, else the only image feature");
  described
      .Add("--columns", options.columns,
           "Features of the shards to read; default: the image and `class`, else all")
      .Separator(',');
  described.AddFlag("--skip-unreadable", options.skip_unreadable,
                    "Skip and count images that cannot be decoded");
}

diagnose::PipelineOptions PipelineFlags::Value() const {
  diagnose::PipelineOptions value = options;
  if (!image_size.empty()) value.image_size = {image_size[0], image_size[1]};
  return value;
}

BenchFlags::BenchFlags() {
  options.on_message = [](absl::string_view line) {
    std::fprintf(stderr, "%s\n", std::string(line).c_str());
  };
}

void BenchFlags::Describe(Options& described) {
  described.Add("--seconds", options.seconds, "Duration of each measurement in seconds")
      .AboveZero(86400)
      .ShowDefault();
  described
      .Add("--batches", options.batches, "Maximum number of batches per measurement; 0: no limit")
      .Range(0, uint64_t{1} << 40)
      .ShowDefault();
  described.Add("--threads", options.threads, "Number of worker threads; 0: one per core")
      .Range(0, 1024)
      .ShowDefault();
  described.AddFlag("--any-order", options.any_order,
                    "Nondeterministic order: return elements as soon as they are ready");
  described.Add("--seed", options.seed, "Random seed of the shuffle").AnySeed().ShowDefault();
  described
      .Add("--target", options.target,
           "Throughput of the accelerator in elements per second; batches are requested at this "
           "rate")
      .AboveZero(1e12);
  described.AddFlag("!--no-compare", options.compare,
                    "Skip the comparison of single files with shards");
  described.Add("--scratch", options.scratch,
                "Temporary folder for the sample of that comparison; default: $TMPDIR, for local "
                "data");
}

}  // namespace penstock::cli
