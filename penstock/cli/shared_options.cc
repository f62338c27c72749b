#include "penstock/cli/shared_options.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "penstock/base/available_memory.h"
#include "penstock/base/status.h"
#include "penstock/diagnose/pipeline.h"
#include "penstock/image/image.h"
#include "penstock/io/file_system.h"
#include "penstock/io/glob.h"
#include "penstock/io/uri.h"
#include "penstock/pack/convert.h"
#include "penstock/pack/read_input.h"
#include "penstock/pack/shard_plan.h"
#include "penstock/record/example.h"
#include "penstock/record/tfrecord.h"
#include "penstock/remote/client.h"
#include "penstock/remote/resolver.h"

namespace penstock::cli {

void DeviceOptions::Describe(Options& options) {
  options.Add(
      "--device", device,
      "Device to run on: cpu, gpu, tpu, the address of a worker (grpc://HOST:PORT), or auto "
      "for what COLAB_TPU_ADDR, TPU_NAME or Kaggle's variables say; default: "
      "$PENSTOCK_DEVICE, else cpu");
  options
      .Add("--cpu-devices", cpu_devices,
           "Number of virtual CPU devices, for testing replicas; default: one per replica")
      .Range(1, 256);
  options
      .Add("--replicas", replicas,
           "Number of replicas (data parallelism): each takes an equal part of every batch; 0: one "
           "per device")
      .Range(0, 1024)
      .ShowDefault();
  options.AddFlag("--take-over", take_over,
                  "End the session that uses the worker's devices, if it is yours");
}

absl::StatusOr<std::string> DeviceOptions::Address() const {
  PENSTOCK_ASSIGN_OR_RETURN(const remote::Resolved resolved, remote::ResolveDevice(device));
  return absl::StrContains(resolved.device, "://") ? resolved.device : "";
}

absl::StatusOr<std::shared_ptr<runtime::Client>> DeviceOptions::Open() const {
  PENSTOCK_ASSIGN_OR_RETURN(const remote::Resolved where, remote::ResolveDevice(device));
  if (absl::StrContains(where.device, "://")) {
    if (cpu_devices > 0) {
      return absl::InvalidArgumentError(absl::StrCat("--cpu-devices is an option of the worker at ",
                                                     where.device,
                                                     ": give it to `penstock worker`, or omit it"));
    }
    if (!dump_hlo.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dump-hlo: programs are compiled by the worker at ", where.device,
                       "; set PENSTOCK_DUMP_HLO for `penstock worker`, or omit it"));
    }
    return remote::OpenRemoteClient(
        {.address = where.device, .take_over = take_over, .devices = replicas});
  }
  if (take_over) {
    return absl::InvalidArgumentError(
        absl::StrCat("--take-over is for workers (--device grpc://HOST:PORT), but the device is ",
                     where.device));
  }
  if (cpu_devices > 0 && replicas > cpu_devices) {
    return absl::InvalidArgumentError(absl::StrCat("--replicas ", replicas,
                                                   " needs as many devices, but --cpu-devices is ",
                                                   cpu_devices, "; increase it, or omit it"));
  }
  const int devices = cpu_devices > 0 ? cpu_devices : std::max(1, replicas);
  return runtime::OpenClient(
      {.device = where.device, .cpu_devices = devices, .dump_hlo = dump_hlo});
}

void ShardOptions::Describe(Options& options) {
  options.Add("--data", data, "Shards: files or patterns, local, gs:// or s3:// (quote the *)")
      .Required();
  options.Add("--batch-size", batch_size, "Global batch size: images per step, over all replicas")
      .Range(1, uint64_t{1} << 20)
      .ShowDefault();
}

data::Dataset ImageBatches(const std::vector<std::string>& files, const ImageShape& shape,
                           int64_t batch_size, int64_t shuffle_buffer) {
  data::Dataset dataset =
      data::Dataset::FromTfRecords(files, {.shuffle_files = shuffle_buffer > 0});
  if (shuffle_buffer > 0) dataset = dataset.Shuffle(shuffle_buffer);
  return dataset
      .ParseExample({.features = {{.name = "image", .dtype = base::DType::kString},
                                  {.name = "class", .dtype = base::DType::kI64}}})
      .DecodeImage({.channels = shape.channels, .height = shape.height, .width = shape.width})
      .Batch(batch_size)
      .Prefetch(2);
}

absl::Status CheckBatchFits(int64_t batch_size, const ImageShape& shape) {
  return diagnose::CheckBatchFits(batch_size, {shape.height, shape.width}, shape.channels);
}

absl::StatusOr<std::vector<std::string>> FindShards(const std::vector<std::string>& patterns) {
  const std::shared_ptr<io::FileSystem> fs = io::FileSystem::Default();
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, io::Glob(*fs, pattern));
    all.insert(all.end(), files.begin(), files.end());
  }
  PENSTOCK_RETURN_IF_ERROR(pack::CheckShardsComplete(*fs, all));
  return all;
}

absl::Status CheckShardsHaveRecords(const std::vector<std::string>& patterns) {
  const std::shared_ptr<io::FileSystem> fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> all, FindShards(patterns));
  for (const std::string& file : all) {
    PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(*fs, file));
    PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
    if (!block.records.empty()) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no records found in ", all.empty() ? "an empty list of files" : io::DisplayName(all[0]),
      all.size() > 1 ? absl::StrCat(" and ", all.size() - 1, " other files") : ""));
}

absl::StatusOr<std::vector<std::string>> ReadClassNames(const std::vector<std::string>& patterns) {
  const std::shared_ptr<io::FileSystem> fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> found, FindShards(patterns));
  return pack::ReadClassNames(*fs, io::Dirname(found[0]));
}

absl::Status CheckClassNumbers(const std::vector<std::string>& names,
                               const std::vector<std::string>& patterns) {
  const std::shared_ptr<io::FileSystem> fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, FindShards(patterns));
  std::set<std::string> folders;
  for (const std::string& file : files) folders.insert(io::Dirname(file));
  for (const std::string& folder : folders) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> found,
                              pack::ReadClassNames(*fs, folder));
    for (size_t i = 0; i < found.size(); ++i) {
      if (i < names.size() && names[i] == found[i]) continue;
      const auto same = std::find(names.begin(), names.end(), found[i]);
      if (same == names.end()) continue;  // renamed, or a class that the model lacks
      return absl::FailedPreconditionError(absl::StrCat(
          "class '", found[i], "' has number ", i, " in ",
          io::DisplayName(io::JoinPath(folder, pack::kClassesFile)), ", but ", same - names.begin(),
          " in the model: the labels of these shards would be wrong. Pack ",
          "their images again with the model's classes: --classes ", absl::StrJoin(names, ",")));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardFacts> ReadShardFacts(const std::vector<std::string>& patterns) {
  const std::shared_ptr<io::FileSystem> fs = io::FileSystem::Default();
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> found, FindShards(patterns));
  PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(*fs, found[0]));
  PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
  if (block.records.empty())
    return absl::InvalidArgumentError(
        absl::StrCat(io::DisplayName(found[0]), " contains no records"));
  const auto here = [&](const absl::Status& status) {
    return base::WithContext(status, block.Origin(0));
  };
  const absl::StatusOr<record::FeatureMap> features = record::ReadExample(block.records[0]);
  if (!features.ok()) return here(features.status());
  const auto image = features->find("image"), one_hot = features->find("one_hot_class");
  if (image == features->end() || image->second.dtype() != base::DType::kString ||
      image->second.num_elements() != 1) {
    return here(absl::InvalidArgumentError(
        absl::StrCat("no feature 'image' with one encoded image; the record has: ",
                     record::DescribeExample(block.records[0]))));
  }
  const absl::StatusOr<image::ImageInfo> info =
      image::ReadInfo(image->second.data<absl::string_view>()[0]);
  if (!info.ok()) return here(info.status());
  ShardFacts facts;
  facts.image = {info->height, info->width, info->channels <= 2 ? 1 : 3};
  if (one_hot != features->end()) facts.classes = one_hot->second.num_elements();
  return facts;
}

absl::StatusOr<ImageShape> InputShape(const nn::Network& network) {
  const base::Shape& shape = network.inputs()[0].type.shape;
  if (network.inputs().size() != 1 || shape.rank() != 4 ||
      (shape.dim(3) != 1 && shape.dim(3) != 3)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model's input must be images with 1 or 3 channels, but it is ",
                     network.inputs()[0].type.ToString()));
  }
  if (constexpr int64_t kMax = 65500; shape.dim(1) > kMax || shape.dim(2) > kMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model's input images of ", shape.dim(1), " x ", shape.dim(2),
                     " pixels are too large; the maximum is ", kMax, " x ", kMax));
  }
  return ImageShape{static_cast<int>(shape.dim(1)), static_cast<int>(shape.dim(2)),
                    static_cast<int>(shape.dim(3))};
}

absl::StatusOr<int64_t> CountImages(const std::vector<std::string>& patterns) {
  const std::shared_ptr<io::FileSystem> fs = io::FileSystem::Default();
  int64_t total = 0;
  for (const std::string& pattern : patterns) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<std::string> files, io::Glob(*fs, pattern));
    for (const std::string& file : files) {
      const std::string name = io::Basename(file);
      const size_t dash = name.rfind('-'), dot = name.rfind(".tfrec");
      int64_t count = 0;
      // Other names end in a number, too: "train-00000-of-00004.tfrecord".
      if (pack::IsShardName(name) &&
          absl::SimpleAtoi(name.substr(dash + 1, dot - dash - 1), &count)) {
        total += count;
        continue;
      }
      PENSTOCK_ASSIGN_OR_RETURN(auto reader, record::TfRecordReader::Open(*fs, file));
      for (;;) {
        PENSTOCK_ASSIGN_OR_RETURN(const record::RecordBlock block, reader->ReadBlock());
        if (block.records.empty()) break;
        total += static_cast<int64_t>(block.records.size());
      }
    }
  }
  return total;
}

}  // namespace penstock::cli
