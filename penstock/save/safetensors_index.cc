#include "penstock/save/safetensors_index.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "penstock/base/random.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/safetensors.h"

namespace penstock::save {
namespace safetensors_index {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kExtension = ".safetensors.index.json";
constexpr absl::string_view kShardExtension = ".safetensors";
constexpr absl::string_view kTotalSize = "total_size";
// An index of 100,000 tensors has 10 MB.
constexpr int64_t kMaxIndex = 100 << 20;

// Receives JSON events; every method returns whether to continue. No tree is built, and nesting is
// limited to that of the format.
class IndexEvents {
 public:
  const absl::Status& status() const { return status_; }
  SafetensorsIndex& index() { return index_; }
  bool complete() const { return sections_.contains("weight_map"); }

  bool null() { return Value("null"); }
  bool boolean(bool value) { return Value(value ? "true" : "false"); }
  bool number_integer(Json::number_integer_t value) { return Value(absl::StrCat(value)); }
  bool number_unsigned(Json::number_unsigned_t value) { return Value(absl::StrCat(value)); }
  bool number_float(Json::number_float_t, const std::string& text) { return Value(text); }
  bool binary(Json::binary_t&) { return Reject("has binary data"); }
  bool string(std::string& text) {
    if (section_ != "weight_map") return Value(text);
    if (!index_.weight_map.emplace(key_, text).second) {
      return Reject(absl::StrCat("names the tensor ", Quoted(key_), " twice"));
    }
    return true;
  }
  bool start_object(size_t) {
    if (depth_ == 2) return Reject(absl::StrCat("has an object at ", Quoted(key_)));
    if (++depth_ == 2 && section_ != "metadata" && section_ != "weight_map") {
      return Reject(absl::StrCat("has the unknown object ", Quoted(section_)));
    }
    return true;
  }
  bool key(std::string& text) {
    if (depth_ == 2) {
      key_ = std::move(text);
      return true;
    }
    section_ = std::move(text);
    if (sections_.insert(section_).second) return true;
    return Reject(absl::StrCat("has ", Quoted(section_), " twice"));
  }
  bool end_object() {
    --depth_;
    return true;
  }
  bool start_array(size_t) { return Reject("has an array"); }
  bool end_array() { return true; }
  bool parse_error(size_t position, const std::string& token, const Json::exception&) {
    status_ = absl::DataLossError(absl::StrCat("offset ", position == 0 ? 0 : position - 1,
                                               ": the index is not JSON, near ", Quoted(token)));
    return false;
  }

 private:
  bool Value(std::string text) {
    if (depth_ == 0) return Reject("is not an object");
    if (depth_ == 2 && section_ == "metadata") {
      if (index_.metadata.emplace(key_, std::move(text)).second) return true;
      return Reject(absl::StrCat("has the metadata key ", Quoted(key_), " twice"));
    }
    return Reject(absl::StrCat("has ", Quoted(text), " at ", Quoted(depth_ == 2 ? key_ : section_),
                               ", where a file name or an object was expected"));
  }
  bool Reject(absl::string_view what) {
    status_ = absl::DataLossError(absl::StrCat("the index ", what));
    return false;
  }

  absl::Status status_;
  SafetensorsIndex index_;
  std::set<std::string> sections_;
  std::string section_, key_;
  int depth_ = 0;
};

// The shards lie beside the index: a path could lead anywhere.
bool IsShardName(absl::string_view name) {
  return absl::EndsWith(name, kShardExtension) && name.size() > kShardExtension.size() &&
         name[0] != '.' &&
         name.find_first_of(absl::string_view("/\\?:@\0", 6)) == absl::string_view::npos;
}

absl::StatusOr<SafetensorsIndex> ReadIndex(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  if (file->size() > kMaxIndex) {
    return absl::UnimplementedError(
        absl::StrCat("an index of ", file->size(), " bytes; the maximum is ", kMaxIndex));
  }
  std::string json(static_cast<size_t>(file->size()), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, absl::MakeSpan(json)));
  return ParseSafetensorsIndex(json);
}

std::string ShardUri(absl::string_view uri, absl::string_view name) {
  return io::JoinPath(io::Dirname(uri), name);
}

// Calls `visit` with each shard, in the order of names, after its tensors were compared with the
// index.
template <typename Visit>
absl::Status ForEachShard(io::FileSystem& fs, absl::string_view uri, const SafetensorsIndex& index,
                          Visit visit) {
  std::map<std::string, size_t> tensors_of;
  for (const auto& [name, file] : index.weight_map) ++tensors_of[file];
  for (const auto& [shard, count] : tensors_of) {
    absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> file =
        fs.OpenRandomAccess(ShardUri(uri, shard));
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(absl::StrCat("shard ", Quoted(shard), " of the index is missing"));
    }
    if (!file.ok()) return file.status();
    PENSTOCK_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(*std::move(file)));
    for (const TensorInfo& tensor : reader.contents().tensors) {
      const auto found = index.weight_map.find(tensor.name);
      if (found == index.weight_map.end() || found->second != shard) {
        return absl::DataLossError(absl::StrCat("shard ", Quoted(shard), ", offset ", tensor.offset,
                                                ": tensor ", Quoted(tensor.name),
                                                " is not in that shard according to the index"));
      }
    }
    if (reader.contents().tensors.size() != count) {
      return absl::DataLossError(absl::StrCat("shard ", Quoted(shard), " has ",
                                              reader.contents().tensors.size(), " tensors of the ",
                                              count, " in the index"));
    }
    PENSTOCK_RETURN_IF_ERROR(visit(shard, reader));
  }
  return absl::OkStatus();
}

absl::StatusOr<Contents> InspectShards(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(SafetensorsIndex index, ReadIndex(fs, uri));
  Contents contents{.format = "safetensors index", .metadata = index.metadata};
  const auto add = [&](const std::string& shard, const SafetensorsReader& reader) {
    for (TensorInfo tensor : reader.contents().tensors) {
      tensor.file = shard;
      contents.tensors.push_back(std::move(tensor));
    }
    return absl::OkStatus();
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachShard(fs, uri, index, add));
  contents.metadata.erase(std::string(kTotalSize));
  return contents;
}

absl::StatusOr<Weights> ReadShards(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(SafetensorsIndex index, ReadIndex(fs, uri));
  Weights weights{.metadata = index.metadata};
  const auto add = [&](const std::string&, const SafetensorsReader& reader) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const Weights shard, reader.ReadAll());
    for (const auto& [name, array] : shard.arrays) weights.arrays.Append(name, array);
    return absl::OkStatus();
  };
  PENSTOCK_RETURN_IF_ERROR(ForEachShard(fs, uri, index, add));
  weights.metadata.erase(std::string(kTotalSize));
  return weights;
}

// The shards of an index that is about to be replaced; empty if there is none, or if it is no index
// of shards, whose files are then left alone.
std::set<std::string> OldShards(io::FileSystem& fs, absl::string_view uri) {
  std::set<std::string> shards;
  const absl::StatusOr<SafetensorsIndex> old = ReadIndex(fs, uri);
  if (!old.ok()) return shards;
  for (const auto& [name, file] : old->weight_map) shards.insert(file);
  return shards;
}

// Prefix of the names of shards: "model-", or "model-5c1f09aa37d2e481-" if a file begins with
// "model-00".
absl::StatusOr<std::string> ShardPrefix(io::FileSystem& fs, absl::string_view uri) {
  std::string stem = io::Basename(uri);
  stem.resize(stem.size() - kExtension.size());
  if (stem.empty()) stem = "model";
  const std::string plain = absl::StrCat(stem, "-");
  const absl::StatusOr<std::vector<io::FileInfo>> files = fs.List(io::Dirname(uri));
  if (absl::IsNotFound(files.status())) return plain;
  if (!files.ok()) return files.status();
  for (const io::FileInfo& file : *files) {
    const std::string name = io::Basename(file.uri);
    if (absl::StartsWith(name, absl::StrCat(plain, "0")) && absl::EndsWith(name, kShardExtension)) {
      return absl::StrCat(plain, absl::StrFormat("%016x", base::EntropySeed()), "-");
    }
  }
  return plain;
}

absl::Status WriteShards(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                         int64_t max_bytes) {
  PENSTOCK_RETURN_IF_ERROR(CheckNames(weights.arrays));
  std::vector<base::NamedArrays> shards(1);
  int64_t in_shard = 0, total = 0;
  for (const auto& [name, array] : weights.arrays) {
    if (!shards.back().empty() && array.num_bytes() > max_bytes - in_shard) {
      shards.emplace_back();
      in_shard = 0;
    }
    shards.back().Append(name, array);
    in_shard += array.num_bytes();
    total += array.num_bytes();
  }
  if (weights.arrays.empty()) shards.clear();

  Json metadata = Json::object({{kTotalSize, total}});
  for (const auto& [key, value] : weights.metadata) {
    if (key != kTotalSize) metadata[key] = value;
  }
  Json weight_map = Json::object();
  PENSTOCK_ASSIGN_OR_RETURN(const std::string prefix, ShardPrefix(fs, uri));
  const std::set<std::string> old = OldShards(fs, uri);
  std::vector<std::string> written;
  std::string json;
  const auto write_shards = [&]() -> absl::Status {
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string name = absl::StrFormat("%s%05d-of-%05d%s", prefix, i + 1, shards.size(),
                                               std::string(kShardExtension));
      for (const auto& [tensor, array] : shards[i]) weight_map[tensor] = name;
      PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out,
                                fs.Create(ShardUri(uri, name)));
      // As Hugging Face's, without which transformers rejects a file.
      PENSTOCK_RETURN_IF_ERROR(
          WriteSafetensors(*out, {.arrays = shards[i], .metadata = {{"format", "pt"}}}));
      PENSTOCK_RETURN_IF_ERROR(out->Close());
      written.push_back(name);
    }
    try {
      json = Json({{"metadata", metadata}, {"weight_map", weight_map}}).dump(2);
    } catch (const Json::exception&) {
      return absl::InvalidArgumentError("a key or a value of the metadata is not UTF-8");
    }
    return absl::OkStatus();
  };
  if (absl::Status status = write_shards(); !status.ok()) {
    for (const std::string& name : written) fs.Remove(ShardUri(uri, name)).IgnoreError();
    return status;
  }
  // A store may have published the index although the write reports an error, so the shards that it
  // names stay.
  PENSTOCK_RETURN_IF_ERROR(io::WriteFile(fs, uri, json + "\n"));
  for (const std::string& name : old) {
    if (std::find(written.begin(), written.end(), name) != written.end()) continue;
    // A shard that cannot be removed takes space, but the new weights are complete.
    fs.Remove(ShardUri(uri, name)).IgnoreError();
  }
  return absl::OkStatus();
}

bool Recognizes(const Probe& probe) {
  const size_t first = probe.head.find_first_not_of(" \t\r\n");
  return first != std::string::npos && probe.head[first] == '{' &&
         absl::EndsWithIgnoreCase(io::Basename(probe.uri), ".index.json");
}

absl::StatusOr<Contents> InspectUri(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<Contents> contents = InspectShards(fs, uri);
  if (!contents.ok()) return base::WithContext(contents.status(), io::DisplayName(uri));
  return contents;
}

absl::StatusOr<Weights> ReadUri(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<Weights> weights = ReadShards(fs, uri);
  if (!weights.ok()) return base::WithContext(weights.status(), io::DisplayName(uri));
  return weights;
}

absl::Status WriteUri(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                      const WriteOptions& options) {
  const int64_t max =
      options.max_shard_bytes > 0 ? options.max_shard_bytes : kDefaultSafetensorsShard;
  return base::WithContext(WriteShards(fs, uri, weights, max), io::DisplayName(uri));
}

}  // namespace
}  // namespace safetensors_index

absl::StatusOr<SafetensorsIndex> ParseSafetensorsIndex(absl::string_view json) {
  safetensors_index::IndexEvents events;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events)) return events.status();
  if (!events.complete()) return absl::DataLossError("the index has no weight_map");
  for (const auto& [name, file] : events.index().weight_map) {
    if (!safetensors_index::IsShardName(file)) {
      return absl::DataLossError(absl::StrCat("the index places tensor ", Quoted(name), " into ",
                                              Quoted(file),
                                              ", which is not the name of a .safetensors file in "
                                              "the same folder"));
    }
  }
  return std::move(events.index());
}

Format SafetensorsIndexFormat() {
  return {.name = "safetensors index",
          .extensions = {safetensors_index::kExtension},
          .recognizes = safetensors_index::Recognizes,
          .inspect = safetensors_index::InspectUri,
          .read = safetensors_index::ReadUri,
          .write = safetensors_index::WriteUri,
          .holds_metadata = true};
}

}  // namespace penstock::save
