#include "penstock/save/tensor_bundle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/checked_size.h"
#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/crc32c.h"
#include "penstock/save/leveldb_table.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/tensor_bundle.pb.h"
#include "penstock/save/tensor_bundle_format.h"
#include "penstock/save/tensor_bundle_write.h"

namespace penstock::save {
namespace tensor_bundle {
namespace {

using base::Array;
using base::DType;
using Table = std::map<std::string, std::string>;

constexpr int64_t kMaxIndex = 256 << 20;
// Requests for small tensors, which are read together.
constexpr int64_t kWindow = 8 << 20;
constexpr size_t kMaxTensors = 1 << 20;
constexpr int kMaxSlices = 4096;  // of one variable
// An entry with 4096 slices of rank 8 has less; parsing one takes some 30 times its size.
constexpr size_t kMaxEntry = 1 << 20;
constexpr int64_t kMaxObjectGraph = 256 << 20;
constexpr size_t kMaxObject = 4 << 20;
// TensorFlow reads version 1 only, too.
constexpr int kVersion = 1;
// Data files that are open at the same time.
constexpr size_t kMaxOpenFiles = 128;

// A range of a data file: a tensor, or a slice of one.
struct Part {
  int shard = 0;
  int64_t offset = 0, size = 0;
  uint32_t crc = 0;
  base::Shape shape = {};
  base::Shape start = {};  // of a slice: index of its first element in the tensor
};

struct Tensor {
  std::string name, key;
  std::string variable = {};
  DType dtype = DType::kInvalid;
  base::Shape shape = {};
  bool sliced = false;
  std::vector<Part> parts = {};
};

struct Index {
  int num_shards = 0;
  std::vector<Tensor> tensors = {};  // in the order of their places
  std::optional<Part> object_graph = {};
  std::vector<std::string> skipped = {};
};

std::string WhereOf(absl::string_view name) { return absl::StrCat("tensor ", Quoted(name)); }

absl::StatusOr<base::Shape> ShapeOf(const bundle::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return absl::DataLossError("its rank is unknown");
  if (proto.dim_size() > base::kMaxRank) {
    return absl::UnimplementedError(
        absl::StrCat("has rank ", proto.dim_size(), "; the maximum is ", base::kMaxRank));
  }
  std::vector<int64_t> dims;
  for (const auto& dim : proto.dim()) {
    if (dim.size() < 0) return absl::DataLossError("has a negative extent");
    dims.push_back(dim.size());
  }
  // Wide enough for every type.
  if (!base::CheckedBytes(DType::kString, base::Shape(dims)).has_value()) {
    return absl::DataLossError(
        absl::StrCat("has the shape ", base::Shape(dims).ToString(), ", which is too large"));
  }
  return base::Shape(dims);
}

absl::StatusOr<bundle::BundleEntryProto> ParseEntry(const std::string& bytes) {
  if (bytes.size() > kMaxEntry) {
    return absl::UnimplementedError(
        absl::StrCat("has an entry of ", bytes.size(), " bytes; the maximum is ", kMaxEntry));
  }
  bundle::BundleEntryProto entry;
  if (!entry.ParseFromString(bytes)) return absl::DataLossError("its entry is malformed");
  return entry;
}

// The place of an entry without slices.
absl::StatusOr<Part> PartOf(const bundle::BundleEntryProto& entry, int num_shards) {
  if (entry.shard_id() < 0 || entry.shard_id() >= num_shards || entry.offset() < 0 ||
      entry.size() < 0 || entry.offset() > INT64_MAX - entry.size()) {
    return absl::DataLossError(absl::StrCat("its place is malformed: ", entry.size(),
                                            " bytes at offset ", entry.offset(), " of data file ",
                                            entry.shard_id(), " of ", num_shards));
  }
  Part part{.shard = entry.shard_id(),
            .offset = entry.offset(),
            .size = entry.size(),
            .crc = entry.crc32c()};
  PENSTOCK_ASSIGN_OR_RETURN(part.shape, ShapeOf(entry.shape()));
  return part;
}

// Same, with elements of a fixed size.
absl::StatusOr<Part> NumericPartOf(const bundle::BundleEntryProto& entry, DType dtype,
                                   int num_shards) {
  PENSTOCK_ASSIGN_OR_RETURN(const Part part, PartOf(entry, num_shards));
  const int64_t bytes = *base::CheckedBytes(dtype, part.shape);  // checked by ShapeOf
  if (part.size == bytes) return part;
  return absl::DataLossError(absl::StrCat("has ", part.size, " bytes, but ", base::DTypeName(dtype),
                                          part.shape.ToString(), " has ", bytes));
}

bool Overlap(const Part& a, const Part& b) {
  for (int d = 0; d < a.shape.rank(); ++d) {
    if (a.start.dim(d) + a.shape.dim(d) <= b.start.dim(d) ||
        b.start.dim(d) + b.shape.dim(d) <= a.start.dim(d)) {
      return false;
    }
  }
  return true;
}

// Adds the slices of a partitioned variable, which must cover it.
absl::Status FindSlices(const Table& table, const bundle::BundleEntryProto& entry, int num_shards,
                        Tensor& tensor) {
  if (entry.slices_size() > kMaxSlices) {
    return absl::UnimplementedError(
        absl::StrCat("has ", entry.slices_size(), " slices; the maximum is ", kMaxSlices));
  }
  int64_t covered = 0;
  for (const bundle::TensorSliceProto& slice : entry.slices()) {
    if (slice.extent_size() != tensor.shape.rank()) {
      return absl::DataLossError("has a slice of another rank");
    }
    std::vector<int64_t> starts, lengths;
    std::vector<SliceExtent> extents;
    for (int d = 0; d < slice.extent_size(); ++d) {
      const auto& extent = slice.extent(d);
      const int64_t whole = tensor.shape.dim(d);
      const int64_t start = extent.has_length() ? extent.start() : 0;
      const int64_t length = extent.has_length() ? extent.length() : whole;
      if (start < 0 || length < 0 || start > whole || length > whole - start) {
        return absl::DataLossError("has a slice beyond its shape");
      }
      extents.push_back(extent.has_length() ? SliceExtent{start, length} : SliceExtent());
      starts.push_back(start);
      lengths.push_back(length);
    }
    const auto found = table.find(SliceKey(tensor.key, extents));
    if (found == table.end()) {
      return absl::DataLossError(absl::StrCat("has no entry for its slice at ",
                                              base::Shape(starts).ToString(), " of shape ",
                                              base::Shape(lengths).ToString()));
    }
    PENSTOCK_ASSIGN_OR_RETURN(const bundle::BundleEntryProto own, ParseEntry(found->second));
    if (own.dtype() != entry.dtype() || own.slices_size() > 0) {
      return absl::DataLossError("has a slice of another type");
    }
    PENSTOCK_ASSIGN_OR_RETURN(Part part, NumericPartOf(own, tensor.dtype, num_shards));
    if (part.shape != base::Shape(lengths)) {
      return absl::DataLossError("has a slice of another shape");
    }
    part.start = base::Shape(starts);
    covered += part.shape.num_elements();
    for (const Part& other : tensor.parts) {
      if (Overlap(part, other)) return absl::DataLossError("has slices that overlap");
    }
    tensor.parts.push_back(part);
  }
  if (covered != tensor.shape.num_elements()) {
    return absl::DataLossError("has slices that do not cover its shape");
  }
  return absl::OkStatus();
}

// Why an entry is left out; empty for arrays.
absl::string_view ReasonToSkip(int dtype) {
  if (dtype == kTensorFlowString) return "strings";
  if (dtype == kTensorFlowResource || dtype == kTensorFlowVariant) return "an object of TensorFlow";
  return "";
}

absl::StatusOr<Index> ParseIndex(absl::string_view bytes) {
  PENSTOCK_ASSIGN_OR_RETURN(const Table table, ReadTable(bytes));
  const auto first = table.find("");
  bundle::BundleHeaderProto header;
  if (first == table.end() || first->second.size() > kMaxEntry ||
      !header.ParseFromString(first->second) || header.num_shards() < 0) {
    return absl::DataLossError("the index has no valid header");
  }
  if (header.endianness() != 0) {
    return absl::UnimplementedError("the checkpoint was saved on a big-endian machine");
  }
  if (header.version().min_consumer() > kVersion) {
    return absl::UnimplementedError(
        absl::StrCat("the checkpoint is of version ", header.version().min_consumer(),
                     " of the format; version ", kVersion, " is supported"));
  }
  if (table.size() > kMaxTensors) {
    return absl::UnimplementedError(
        absl::StrCat("the index has ", table.size(), " entries; the maximum is ", kMaxTensors));
  }
  Index index{.num_shards = header.num_shards()};
  const bool object_based = table.contains(std::string(kObjectGraph));
  absl::flat_hash_set<std::string> names;
  const auto add = [&](const std::string& key, const std::string& value) -> absl::Status {
    PENSTOCK_ASSIGN_OR_RETURN(const bundle::BundleEntryProto entry, ParseEntry(value));
    if (key == kObjectGraph) {
      if (entry.dtype() != kTensorFlowString || entry.slices_size() > 0) {
        return absl::DataLossError("the object graph is not a string");
      }
      PENSTOCK_ASSIGN_OR_RETURN(index.object_graph, PartOf(entry, index.num_shards));
      return absl::OkStatus();
    }
    if (const absl::string_view reason = ReasonToSkip(entry.dtype()); !reason.empty()) {
      index.skipped.push_back(absl::StrCat(WhereOf(key), ": ", reason));
      return absl::OkStatus();
    }
    Tensor tensor{.name = object_based ? NameOfKey(key) : key, .key = key};
    PENSTOCK_ASSIGN_OR_RETURN(tensor.dtype, DTypeOfTensorFlow(entry.dtype()));
    PENSTOCK_ASSIGN_OR_RETURN(tensor.shape, ShapeOf(entry.shape()));
    tensor.sliced = entry.slices_size() > 0;
    if (tensor.sliced) {
      PENSTOCK_RETURN_IF_ERROR(FindSlices(table, entry, index.num_shards, tensor));
    } else {
      PENSTOCK_ASSIGN_OR_RETURN(const Part part,
                                NumericPartOf(entry, tensor.dtype, index.num_shards));
      tensor.parts.push_back(part);
    }
    // Components that contain "/" may make two names equal; keys are unique.
    if (names.contains(tensor.name)) tensor.name = key;
    if (!names.insert(tensor.name).second) return absl::DataLossError("appears twice");
    index.tensors.push_back(std::move(tensor));
    return absl::OkStatus();
  };
  for (const auto& [key, value] : table) {
    // The keys of slices, to which the entry of their tensor leads, begin with NUL.
    if (key.empty() || key[0] == '\0') continue;
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(add(key, value), WhereOf(key)));
  }
  const auto place = [](const Tensor& tensor) {
    return std::pair(tensor.parts[0].shard, tensor.parts[0].offset);
  };
  std::stable_sort(index.tensors.begin(), index.tensors.end(),
                   [&](const Tensor& a, const Tensor& b) { return place(a) < place(b); });
  return index;
}

// The data files of a checkpoint. Small requests that follow one another are read together.
class DataFiles {
 public:
  // Checks that each part lies in its file, and that the parts of a file are not larger than it:
  // this bounds the memory for all tensors.
  static absl::StatusOr<DataFiles> Open(io::FileSystem& fs, absl::string_view prefix,
                                        const Index& index) {
    DataFiles data(fs, prefix, index.num_shards);
    std::map<int, int64_t> needed;  // bytes, by shard
    const auto check = [&](const Part& part) -> absl::Status {
      PENSTOCK_ASSIGN_OR_RETURN(const File* file, data.Find(part.shard));
      if (part.offset + part.size > file->size) {
        return absl::DataLossError(absl::StrCat(data.Name(part), ", offset ", part.offset, ": ",
                                                part.size, " bytes extend beyond the file's ",
                                                file->size));
      }
      int64_t& bytes = needed[part.shard];
      if (bytes > file->size - part.size) {
        return absl::DataLossError(absl::StrCat(data.Name(part), ", offset ", part.offset,
                                                ": tensors overlap, since together they are ",
                                                "larger than the file's ", file->size, " bytes"));
      }
      bytes += part.size;
      return absl::OkStatus();
    };
    for (const Tensor& tensor : index.tensors) {
      for (const Part& part : tensor.parts) {
        PENSTOCK_RETURN_IF_ERROR(base::WithContext(check(part), WhereOf(tensor.name)));
      }
    }
    if (index.object_graph.has_value()) {
      PENSTOCK_RETURN_IF_ERROR(base::WithContext(check(*index.object_graph), "object graph"));
    }
    return data;
  }

  // `ahead`: what follows is read, too, if `out` is small.
  absl::Status Read(const Part& part, absl::Span<char> out, bool ahead) {
    PENSTOCK_ASSIGN_OR_RETURN(File * from, Find(part.shard));
    const int64_t size = static_cast<int64_t>(out.size());
    if (!ahead || size >= kWindow) return ReadExactly(*from->file, part.offset, out);
    if (part.offset < from->offset ||
        part.offset + size > from->offset + static_cast<int64_t>(from->window.size())) {
      from->window.resize(static_cast<size_t>(std::min(kWindow, from->size - part.offset)));
      from->offset = part.offset;
      const absl::Status status =
          ReadExactly(*from->file, part.offset, absl::MakeSpan(from->window));
      if (!status.ok()) from->window.clear();
      PENSTOCK_RETURN_IF_ERROR(status);
    }
    std::copy_n(from->window.data() + (part.offset - from->offset), size, out.data());
    return absl::OkStatus();
  }
  std::string Name(const Part& part) const {
    return io::Basename(DataFile(prefix_, part.shard, num_shards_));
  }

 private:
  struct File {
    std::unique_ptr<io::RandomAccessFile> file;  // nullptr: closed
    int64_t size = 0;
    std::string window = {};
    int64_t offset = 0;
  };

  DataFiles(io::FileSystem& fs, absl::string_view prefix, int num_shards)
      : fs_(&fs), prefix_(prefix), num_shards_(num_shards) {}

  // The open file.
  absl::StatusOr<File*> Find(int shard) {
    File& found = files_[shard];
    if (found.file != nullptr) return &found;
    const std::string uri = DataFile(prefix_, shard, num_shards_);
    absl::StatusOr<std::unique_ptr<io::RandomAccessFile>> file = fs_->OpenRandomAccess(uri);
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(absl::StrCat("data file ", io::Basename(uri), " is missing"));
    }
    if (!file.ok()) return file.status();
    if (open_ == kMaxOpenFiles) {
      for (auto& [other, closed] : files_) closed = {.file = nullptr, .size = closed.size};
      open_ = 0;
    }
    ++open_;
    found = {.file = *std::move(file)};
    found.size = found.file->size();
    return &found;
  }

  io::FileSystem* fs_;
  std::string prefix_;
  int num_shards_;
  std::map<int, File> files_;
  size_t open_ = 0;
};

// Copies a slice to its place.
void CopySlice(const Part& part, const Array& from, Array& to) {
  if (from.num_elements() == 0) return;
  const int rank = to.rank();
  const size_t width = static_cast<size_t>(base::ByteWidth(to.dtype()));
  const int64_t row = rank == 0 ? 1 : from.dim(rank - 1);
  const auto* source = static_cast<const char*>(from.raw());
  auto* target = static_cast<char*>(to.mutable_raw());
  std::array<int64_t, base::kMaxRank> index = {};
  for (int64_t r = 0; r < from.num_elements() / row; ++r) {
    int64_t at = 0;
    for (int d = 0; d < rank; ++d) at = at * to.dim(d) + part.start.dim(d) + index[d];
    std::memcpy(target + static_cast<size_t>(at) * width,
                source + static_cast<size_t>(r * row) * width, static_cast<size_t>(row) * width);
    for (int d = rank - 2; d >= 0; --d) {
      if (++index[d] < from.dim(d)) break;
      index[d] = 0;
    }
  }
}

absl::StatusOr<Array> ReadPart(DataFiles& data, const Part& part, DType dtype) {
  const auto corrupt = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(data.Name(part), ", offset ", part.offset, ": ", what));
  };
  Array array = Array::Uninitialized(dtype, part.shape);
  const absl::Span<char> bytes(static_cast<char*>(array.mutable_raw()),
                               static_cast<size_t>(array.num_bytes()));
  PENSTOCK_RETURN_IF_ERROR(data.Read(part, bytes, /*ahead=*/true));
  if (record::MaskCrc(record::Crc32c({bytes.data(), bytes.size()})) != part.crc) {
    return corrupt("wrong checksum (CRC-32C)");
  }
  if (dtype == DType::kBool &&
      std::any_of(bytes.begin(), bytes.end(), [](char b) { return b != 0 && b != 1; })) {
    return corrupt("a byte of type bool is neither 0 nor 1");
  }
  return array;
}

// Names of variables, by key.
absl::StatusOr<absl::flat_hash_map<std::string, std::string>> ReadVariableNames(
    DataFiles& data, const Index& index) {
  absl::flat_hash_map<std::string, std::string> names;
  if (!index.object_graph.has_value()) return names;
  const Part& part = *index.object_graph;
  const auto corrupt = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(data.Name(part), ", offset ", part.offset, ": object graph: ", what));
  };
  if (part.size > kMaxObjectGraph) {
    return absl::UnimplementedError(
        absl::StrCat("an object graph of ", part.size, " bytes; the maximum is ", kMaxObjectGraph));
  }
  if (part.shape.rank() != 0) return corrupt("is not a scalar");
  std::string bytes(static_cast<size_t>(part.size), '\0');
  PENSTOCK_RETURN_IF_ERROR(data.Read(part, absl::MakeSpan(bytes), /*ahead=*/false));
  absl::StatusOr<std::vector<std::string>> graph = DecodeStrings(bytes, 1, part.crc);
  if (!graph.ok()) return corrupt(graph.status().message());
  bytes.clear();
  absl::flat_hash_set<absl::string_view> keys;
  for (const Tensor& tensor : index.tensors) keys.insert(tensor.key);
  // Object by object: a message of all of them would take many times the memory.
  const auto visit = [&](absl::string_view object) -> absl::Status {
    if (object.size() > kMaxObject) {
      return absl::DataLossError(
          absl::StrCat("an object of ", object.size(), " bytes; the maximum is ", kMaxObject));
    }
    bundle::TrackableObject parsed;
    if (!parsed.ParseFromArray(object.data(), static_cast<int>(object.size()))) {
      return absl::DataLossError("an object is malformed");
    }
    for (const auto& attribute : parsed.attributes()) {
      if (attribute.full_name().empty() || !keys.contains(attribute.checkpoint_key())) continue;
      names.emplace(attribute.checkpoint_key(), attribute.full_name());
    }
    return absl::OkStatus();
  };
  const absl::Status visited = ForEachObject((*graph)[0], visit);
  if (!visited.ok()) return corrupt(visited.message());
  return names;
}

absl::StatusOr<Index> ReadIndex(io::FileSystem& fs, absl::string_view prefix) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file,
                            fs.OpenRandomAccess(IndexFile(prefix)));
  if (file->size() > kMaxIndex) {
    return absl::UnimplementedError(
        absl::StrCat("an index of ", file->size(), " bytes; the maximum is ", kMaxIndex));
  }
  std::string bytes(static_cast<size_t>(file->size()), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, absl::MakeSpan(bytes)));
  absl::StatusOr<Index> index = ParseIndex(bytes);
  if (!index.ok()) return base::WithContext(index.status(), io::DisplayName(IndexFile(prefix)));
  return index;
}

struct Opened {
  Index index;
  DataFiles data;
};

// Reads everything but the elements.
absl::StatusOr<Opened> Open(io::FileSystem& fs, absl::string_view prefix) {
  PENSTOCK_ASSIGN_OR_RETURN(Index index, ReadIndex(fs, prefix));
  PENSTOCK_ASSIGN_OR_RETURN(DataFiles data, DataFiles::Open(fs, prefix, index));
  PENSTOCK_ASSIGN_OR_RETURN(auto variables, ReadVariableNames(data, index));
  for (Tensor& tensor : index.tensors) {
    const auto found = variables.find(tensor.key);
    if (found != variables.end()) tensor.variable = std::move(found->second);
  }
  return Opened{.index = std::move(index), .data = std::move(data)};
}

absl::StatusOr<Contents> InspectBundle(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(Opened opened, Open(fs, PrefixOf(uri)));
  Contents contents{.format = "TensorFlow checkpoint", .skipped = opened.index.skipped};
  for (Tensor& tensor : opened.index.tensors) {
    TensorInfo info{.name = tensor.name,
                    .dtype = tensor.dtype,
                    .shape = tensor.shape,
                    .offset = tensor.parts[0].offset,
                    .num_bytes = *base::CheckedBytes(tensor.dtype, tensor.shape),
                    .file = opened.data.Name(tensor.parts[0]),
                    .variable = std::move(tensor.variable)};
    contents.tensors.push_back(std::move(info));
  }
  return contents;
}

absl::StatusOr<Weights> ReadBundle(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(Opened opened, Open(fs, PrefixOf(uri)));
  Weights weights{.skipped = opened.index.skipped};
  for (const Tensor& tensor : opened.index.tensors) {
    const auto read = [&]() -> absl::StatusOr<Array> {
      if (!tensor.sliced) return ReadPart(opened.data, tensor.parts[0], tensor.dtype);
      Array whole = Array::Uninitialized(tensor.dtype, tensor.shape);
      for (const Part& part : tensor.parts) {
        PENSTOCK_ASSIGN_OR_RETURN(const Array slice, ReadPart(opened.data, part, tensor.dtype));
        CopySlice(part, slice, whole);
      }
      return whole;
    };
    absl::StatusOr<Array> array = read();
    if (!array.ok()) return base::WithContext(array.status(), WhereOf(tensor.name));
    weights.arrays.Append(tensor.name, *std::move(array));
    if (!tensor.variable.empty()) weights.variables[tensor.name] = tensor.variable;
  }
  return weights;
}

// A table has its magic number at its end, and nothing fixed at its beginning.
bool Recognizes(const Probe& probe) {
  return !probe.is_directory && PrefixOf(probe.uri) != probe.uri;
}

// The error of the index names that, which may be `uri` itself.
absl::Status Named(const absl::Status& status, absl::string_view uri) {
  if (absl::StartsWith(status.message(), io::DisplayName(IndexFile(PrefixOf(uri))))) return status;
  return base::WithContext(status, io::DisplayName(uri));
}

absl::StatusOr<Contents> InspectUri(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<Contents> contents = InspectBundle(fs, uri);
  if (!contents.ok()) return Named(contents.status(), uri);
  return contents;
}

absl::StatusOr<Weights> ReadUri(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<Weights> weights = ReadBundle(fs, uri);
  if (!weights.ok()) return Named(weights.status(), uri);
  return weights;
}

absl::Status WriteUri(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                      const WriteOptions& options) {
  const BundleOptions bundle{.max_shard_bytes = options.max_shard_bytes};
  return base::WithContext(WriteBundle(fs, PrefixOf(uri), weights.arrays, bundle),
                           io::DisplayName(uri));
}

absl::Status CheckDestination(io::FileSystem& fs, absl::string_view uri) {
  return base::WithContext(CheckPrefix(fs, PrefixOf(uri)), io::DisplayName(uri));
}

std::string MainFile(absl::string_view uri) { return IndexFile(PrefixOf(uri)); }

}  // namespace
}  // namespace tensor_bundle

absl::StatusOr<bool> IsTensorBundlePrefix(io::FileSystem& fs, absl::string_view uri) {
  const absl::StatusOr<io::FileInfo> index = fs.Stat(tensor_bundle::IndexFile(uri));
  if (absl::IsNotFound(index.status())) return false;
  if (!index.ok()) return index.status();
  return !index->is_directory;
}

Format TensorBundleFormat() {
  return {.name = "TensorFlow checkpoint",
          .extensions = {".ckpt", ".index"},
          .recognizes = tensor_bundle::Recognizes,
          .inspect = tensor_bundle::InspectUri,
          .read = tensor_bundle::ReadUri,
          .write = tensor_bundle::WriteUri,
          .main_file = tensor_bundle::MainFile,
          .check_destination = tensor_bundle::CheckDestination};
}

}  // namespace penstock::save
