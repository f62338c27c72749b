#include "penstock/save/tensor_bundle_write.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/crc32c.h"
#include "penstock/save/format.h"
#include "penstock/save/leveldb_table.h"
#include "penstock/save/quoted.h"
#include "penstock/save/tensor_bundle.pb.h"
#include "penstock/save/tensor_bundle_format.h"

namespace penstock::save::tensor_bundle {
namespace {

using base::Array;

// The objects that tf.train.Checkpoint matches with its own: a node for each component of the
// names, from the root, which is node 0.
class ObjectGraph {
 public:
  ObjectGraph() { AddNode(); }

  void Add(absl::string_view name, const std::string& key) {
    int node = 0;
    if (const std::optional<SlotName> slot = ParseSlotName(name); slot.has_value()) {
      node = AddNode();
      const int variable = NodeOf(slot->variable), optimizer = NodeOf(slot->optimizer);
      bundle::TrackableObject::SlotVariableReference& reference =
          *graph_.mutable_nodes(optimizer)->add_slot_variables();
      reference.set_original_variable_node_id(variable);
      reference.set_slot_name(std::string(slot->slot));
      reference.set_slot_variable_node_id(node);
    } else {
      node = NodeOf(name);
    }
    bundle::TrackableObject::SerializedTensor& value =
        *graph_.mutable_nodes(node)->add_attributes();
    value.set_name("VARIABLE_VALUE");
    value.set_full_name(std::string(name));
    value.set_checkpoint_key(key);
  }
  std::string Serialize() const { return graph_.SerializeAsString(); }

 private:
  int AddNode() {
    graph_.add_nodes()->mutable_has_checkpoint_values()->set_value(true);
    return graph_.nodes_size() - 1;
  }
  int NodeOf(absl::string_view name) {
    int node = 0;
    for (const absl::string_view part : absl::StrSplit(name, '/')) node = Child(node, part);
    return node;
  }
  int Child(int parent, absl::string_view name) {
    const auto [place, added] =
        children_.try_emplace({parent, std::string(name)}, graph_.nodes_size());
    if (added) {
      AddNode();
      bundle::TrackableObject::ObjectReference& child =
          *graph_.mutable_nodes(parent)->add_children();
      child.set_node_id(place->second);
      child.set_local_name(std::string(name));
    }
    return place->second;
  }

  bundle::TrackableObjectGraph graph_;
  std::map<std::pair<int, std::string>, int> children_;
};

struct Outgoing {
  std::string key;
  absl::string_view bytes;
  bundle::BundleEntryProto entry = {};
};

absl::StatusOr<Outgoing> Describe(const std::string& key, const Array& array) {
  Outgoing out{
      .key = key,
      .bytes = {static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes())}};
  PENSTOCK_ASSIGN_OR_RETURN(const int dtype, TensorFlowDType(array.dtype()));
  out.entry.set_dtype(dtype);
  out.entry.mutable_shape();
  for (const int64_t dim : array.shape()) out.entry.mutable_shape()->add_dim()->set_size(dim);
  return out;
}

// Numbers of shards in the names of the data files at `prefix`.
absl::StatusOr<std::map<int, std::vector<std::string>>> DataFilesAt(io::FileSystem& fs,
                                                                    absl::string_view prefix) {
  std::map<int, std::vector<std::string>> found;
  const absl::StatusOr<std::vector<io::FileInfo>> files = fs.List(io::Dirname(prefix));
  if (absl::IsNotFound(files.status())) return found;
  if (!files.ok()) return files.status();
  for (const io::FileInfo& file : *files) {
    const int shards = ShardsOfDataFile(io::Basename(file.uri), io::Basename(prefix));
    if (shards > 0 && !file.is_directory) found[shards].push_back(file.uri);
  }
  return found;
}

// The number of data files of the checkpoint at `prefix`; 0: there is none, or it is not one.
absl::StatusOr<int> ShardsOfCheckpoint(io::FileSystem& fs, absl::string_view prefix) {
  const absl::StatusOr<std::string> index = io::ReadFile(fs, IndexFile(prefix));
  if (absl::IsNotFound(index.status())) return 0;
  if (!index.ok()) return index.status();
  const auto table = ReadTable(*index);
  if (!table.ok()) return 0;
  const auto first = table->find("");
  bundle::BundleHeaderProto header;
  if (first == table->end() || !header.ParseFromString(first->second)) return 0;
  return header.num_shards();
}

// The entries of all arrays, and of the object graph unless names are used; that one comes last.
// `graph_bytes` holds its bytes.
absl::StatusOr<std::vector<Outgoing>> DescribeAll(const base::NamedArrays& arrays,
                                                  const BundleOptions& options,
                                                  std::string& graph_bytes, uint32_t& graph_crc) {
  ObjectGraph objects;
  std::vector<Outgoing> outgoing;
  for (const auto& [name, array] : arrays) {
    // Keys that begin with NUL are those of slices.
    if (name.empty() || name[0] == '\0') {
      return absl::InvalidArgumentError(
          absl::StrCat("name ", Quoted(name), " cannot be used in a TensorFlow checkpoint"));
    }
    const std::string key = options.name_based ? name : KeyOfName(name);
    if (!options.name_based && options.object_graph.empty()) objects.Add(name, key);
    absl::StatusOr<Outgoing> described = Describe(key, array);
    if (!described.ok()) {
      return base::WithContext(described.status(), absl::StrCat("array ", Quoted(name)));
    }
    outgoing.push_back(*std::move(described));
  }
  if (options.name_based) return outgoing;
  const std::string graph =
      options.object_graph.empty() ? objects.Serialize() : options.object_graph;
  graph_bytes = EncodeStrings({graph}, &graph_crc);
  outgoing.push_back({.key = std::string(kObjectGraph), .bytes = graph_bytes});
  outgoing.back().entry.set_dtype(kTensorFlowString);
  outgoing.back().entry.mutable_shape();
  return outgoing;
}

// Places the tensors in data files, greedily in their order. Returns the number of files.
int Place(std::vector<Outgoing>& outgoing, int64_t max_shard_bytes) {
  int shards = 1;
  int64_t offset = 0;
  for (Outgoing& out : outgoing) {
    const int64_t size = static_cast<int64_t>(out.bytes.size());
    if (max_shard_bytes > 0 && offset > 0 && size > max_shard_bytes - offset) {
      ++shards;
      offset = 0;
    }
    out.entry.set_shard_id(shards - 1);
    out.entry.set_offset(offset);
    out.entry.set_size(size);
    offset += size;
  }
  return shards;
}

}  // namespace

absl::Status CheckPrefix(io::FileSystem& fs, absl::string_view prefix) {
  const absl::StatusOr<io::FileInfo> at_prefix = fs.Stat(prefix);
  if (at_prefix.ok() && !at_prefix->is_directory) {
    return absl::FailedPreconditionError(
        absl::StrCat("file ", io::Basename(prefix),
                     " exists, which would be read instead of a "
                     "checkpoint of that prefix; remove it or choose another name"));
  }
  if (!at_prefix.ok() && !absl::IsNotFound(at_prefix.status())) return at_prefix.status();
  return absl::OkStatus();
}

bool IsDefiniteFailure(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsPermissionDenied(status);
}

absl::Status WriteBundle(io::FileSystem& fs, absl::string_view prefix,
                         const base::NamedArrays& arrays, const BundleOptions& options) {
  PENSTOCK_RETURN_IF_ERROR(CheckNames(arrays));
  PENSTOCK_RETURN_IF_ERROR(CheckPrefix(fs, prefix));
  uint32_t graph_crc = 0;
  std::string graph_bytes;
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<Outgoing> outgoing,
                            DescribeAll(arrays, options, graph_bytes, graph_crc));
  int shards = Place(outgoing, options.max_shard_bytes);
  // The data files of an existing checkpoint are not replaced: another number of shards gives other
  // names, at the price of empty files.
  PENSTOCK_ASSIGN_OR_RETURN(const auto old_files, DataFilesAt(fs, prefix));
  PENSTOCK_ASSIGN_OR_RETURN(const int replaced, ShardsOfCheckpoint(fs, prefix));
  while (old_files.contains(shards)) ++shards;

  std::vector<std::string> written;
  const auto write_data = [&]() -> absl::Status {
    size_t next = 0;
    for (int shard = 0; shard < shards; ++shard) {
      const std::string uri = DataFile(prefix, shard, shards);
      PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(uri));
      written.push_back(uri);
      for (; next < outgoing.size() && outgoing[next].entry.shard_id() == shard; ++next) {
        Outgoing& tensor = outgoing[next];
        tensor.entry.set_crc32c(record::MaskCrc(record::Crc32c(tensor.bytes)));
        PENSTOCK_RETURN_IF_ERROR(out->Append(tensor.bytes));
      }
      PENSTOCK_RETURN_IF_ERROR(out->Close());
    }
    return absl::OkStatus();
  };
  absl::Status status = write_data();
  if (status.ok() && options.before_index != nullptr) status = options.before_index();
  if (!status.ok()) {
    for (const std::string& uri : written) fs.Remove(uri).IgnoreError();
    return status;
  }
  if (!options.name_based) outgoing.back().entry.set_crc32c(graph_crc);
  bundle::BundleHeaderProto header;
  header.set_num_shards(shards);
  header.mutable_version()->set_producer(1);
  std::map<std::string, std::string> table{{"", header.SerializeAsString()}};
  for (const Outgoing& tensor : outgoing) table[tensor.key] = tensor.entry.SerializeAsString();
  status = io::WriteFile(fs, IndexFile(prefix), WriteTable(table));
  if (!status.ok()) {
    // A store may have published the index although the write reports an error; then the files that
    // it refers to stay. On a full disk they would be in the way of another attempt.
    const absl::StatusOr<int> published = ShardsOfCheckpoint(fs, prefix);
    if (IsDefiniteFailure(status) && published.ok() && *published != shards) {
      for (const std::string& uri : written) fs.Remove(uri).IgnoreError();
    }
    return status;
  }
  // Only the files of the checkpoint that was replaced: others may be all that is left of another
  // one. A file that cannot be removed takes space, but the new checkpoint is complete.
  if (const auto files = old_files.find(replaced); files != old_files.end()) {
    for (const std::string& uri : files->second) fs.Remove(uri).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace penstock::save::tensor_bundle
