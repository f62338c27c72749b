// Decodes every image of some TFRecord shards to one size and writes all of them, with their
// classes, as one .npz file, which train_flowers loads.
//
//   dump_flowers 'shards/*.tfrec' flowers.npz --size 192
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/data/dataset.h"
#include "penstock/formats/npy.h"
#include "penstock/io/file_system.h"
#include "penstock/io/write_check.h"

using namespace penstock;

// Stacks the batches' arrays along their first axis.
base::Array Stack(const std::vector<base::Array>& parts) {
  int64_t rows = 0;
  for (const base::Array& part : parts) rows += part.dim(0);
  base::Shape shape = parts[0].shape();
  shape.set_dim(0, rows);
  base::Array all = base::Array::Uninitialized(parts[0].dtype(), shape);
  char* to = static_cast<char*>(all.mutable_raw());
  for (const base::Array& part : parts) {
    std::memcpy(to, part.raw(), static_cast<size_t>(part.num_bytes()));
    to += part.num_bytes();
  }
  return all;
}

// The images are in memory twice while they are stacked, so the limit is half of what is free.
absl::Status CheckFits(int64_t bytes, int64_t limit, int64_t images) {
  if (bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "after " + std::to_string(images) + " images, " + base::PrintBytes(bytes) +
      " are decoded, and half of the free memory, " + base::PrintBytes(limit) +
      ", is the limit. Choose a smaller --size, or train from the shards themselves "
      "(examples/fast_pipelines), which need no memory");
}

absl::Status Run(const std::string& shards, const std::string& file, int size) {
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFile(*io::FileSystem::Default(), file));
  const data::Dataset images =
      data::Dataset::FromTfRecords({shards})
          .ParseExample({.features = {{.name = "image", .dtype = base::DType::kString},
                                      {.name = "class", .dtype = base::DType::kI64}}})
          .DecodeImage({.height = size, .width = size})
          .Batch(256)
          .Prefetch();
  PENSTOCK_ASSIGN_OR_RETURN(const auto iterator, images.MakeIterator());
  const int64_t limit = base::AvailableMemory().bytes / 2;
  std::vector<base::Array> pixels, classes;
  int64_t bytes = 0, count = 0;
  for (base::NamedArrays batch;;) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool more, iterator->Next(&batch));
    if (!more) break;
    pixels.push_back(*batch.Find("image"));
    classes.push_back(*batch.Find("class"));
    bytes += pixels.back().num_bytes();
    count += pixels.back().dim(0);
    PENSTOCK_RETURN_IF_ERROR(CheckFits(bytes, limit, count));
  }
  if (pixels.empty()) return absl::InvalidArgumentError("'" + shards + "' has no images");
  PENSTOCK_RETURN_IF_ERROR(formats::WriteNpz(
      *io::FileSystem::Default(), file, {{"image", Stack(pixels)}, {"class", Stack(classes)}}));
  std::printf("%s: %lld images of %dx%d, %s\n", file.c_str(), static_cast<long long>(count), size,
              size, base::PrintBytes(bytes).c_str());
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  int size = 192;
  const bool has_size = argc == 5 && std::string(argv[3]) == "--size";
  if ((argc != 3 && !has_size) || (has_size && !absl::SimpleAtoi(argv[4], &size)) || size <= 0) {
    std::fprintf(stderr, "usage: dump_flowers SHARDS FLOWERS.npz [--size PIXELS]\n");
    return 2;
  }
  const absl::Status status = Run(argv[1], argv[2], size);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
