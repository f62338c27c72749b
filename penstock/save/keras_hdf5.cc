#include "penstock/save/keras_hdf5.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/formats/zip.h"
#include "penstock/io/uri.h"
#include "penstock/save/hdf5/hdf5_file.h"
#include "penstock/save/hdf5/hdf5_superblock.h"
#include "penstock/save/keras_hdf5_write.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/zip_probe.h"

namespace penstock::save {
namespace keras_hdf5 {
namespace {

using base::Array;
using base::DType;

constexpr size_t kMaxTensors = 1 << 20;
constexpr size_t kMaxNames = 64 << 20;    // bytes of all names and paths
constexpr int kMaxDepth = 64;             // of groups
constexpr int64_t kMaxJson = 64 << 20;    // of a member of an archive
constexpr int64_t kZipWindow = 64 << 10;  // requests for the archive's directory

// A part of a file as a file: a member of an archive that is stored as it is.
class PartOfFile : public io::RandomAccessFile {
 public:
  PartOfFile(std::unique_ptr<io::RandomAccessFile> whole, int64_t offset, int64_t size)
      : RandomAccessFile(whole->full_uri(), size), whole_(std::move(whole)), offset_(offset) {}

  absl::StatusOr<int64_t> Read(int64_t offset, absl::Span<char> out) override {
    if (offset < 0) return absl::InvalidArgumentError("negative offset");
    const int64_t left = std::max<int64_t>(size() - offset, 0);
    if (static_cast<int64_t>(out.size()) > left) out = out.subspan(0, static_cast<size_t>(left));
    if (out.empty()) return 0;
    return whole_->Read(offset_ + offset, out);
  }
  std::string version() const override { return whole_->version(); }

 private:
  std::unique_ptr<io::RandomAccessFile> whole_;
  int64_t offset_;
};

// One array of a file.
struct Entry {
  std::string name = {}, path = {}, variable = {};
};

struct Plan {
  std::vector<Entry> entries = {};
  std::map<std::string, std::string> metadata = {};
  std::vector<std::string> skipped = {};
  size_t name_bytes = 0;  // of the entries
};

std::string WhereOf(absl::string_view name) { return absl::StrCat("tensor ", Quoted(name)); }

// An attribute that Keras divides into NAME0, NAME1, ... if it is long. No value if there is none.
absl::StatusOr<std::optional<std::vector<std::string>>> List(Hdf5File& file,
                                                             const std::string& object,
                                                             const std::string& name) {
  PENSTOCK_ASSIGN_OR_RETURN(auto whole, file.Strings(object, name));
  if (whole.has_value()) return whole;
  std::optional<std::vector<std::string>> all;
  for (int i = 0;; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(auto part, file.Strings(object, absl::StrCat(name, i)));
    if (!part.has_value()) return all;
    if (!all.has_value()) all.emplace();
    if (all->size() + part->size() > kMaxTensors) {
      return absl::UnimplementedError(
          absl::StrCat("attribute ", Quoted(name), " has more than ", kMaxTensors, " elements"));
    }
    std::move(part->begin(), part->end(), std::back_inserter(*all));
  }
}

// "conv1/kernel" of weight "net/conv1/kernel:0" in layer "conv1".
std::string LegacyName(absl::string_view layer, absl::string_view weight) {
  size_t colon = 0;
  if (HasOutputNumber(weight, &colon)) weight = weight.substr(0, colon);
  const std::string own = absl::StrCat(layer, "/");
  if (absl::StartsWith(weight, own)) return std::string(weight);
  const size_t inside = weight.find(absl::StrCat("/", own));
  if (inside != absl::string_view::npos) return std::string(weight.substr(inside + 1));
  return absl::StrCat(own, weight);
}

absl::Status AddEntry(Entry entry, absl::flat_hash_set<std::string>& names, Plan& plan) {
  if (plan.entries.size() == kMaxTensors) {
    return absl::UnimplementedError(
        absl::StrCat("the file has more than ", kMaxTensors, " arrays"));
  }
  plan.name_bytes += entry.name.size() + entry.path.size() + entry.variable.size();
  if (plan.name_bytes > kMaxNames) {
    return absl::UnimplementedError(
        absl::StrCat("the names of arrays have more than ", kMaxNames, " bytes"));
  }
  if (!names.insert(entry.name).second) {
    return absl::DataLossError(absl::StrCat(WhereOf(entry.name), " appears twice"));
  }
  plan.entries.push_back(std::move(entry));
  return absl::OkStatus();
}

// Adds the weights of one group of a legacy file. False if there is no such group.
absl::StatusOr<bool> AddLayer(Hdf5File& file, const std::string& group, absl::string_view layer,
                              absl::flat_hash_set<std::string>& names, Plan& plan) {
  const auto weights = List(file, group, "weight_names");
  if (absl::IsNotFound(weights.status())) return false;
  if (!weights.ok()) return weights.status();
  if (!weights->has_value()) return true;
  for (const std::string& weight : **weights) {
    Entry entry{.name = LegacyName(layer, weight), .path = absl::StrCat(group, "/", weight)};
    // Two weights of one name in models around the layer keep the names of the models.
    if (names.contains(entry.name)) entry.name = absl::StrCat(layer, "/", weight);
    PENSTOCK_RETURN_IF_ERROR(AddEntry(std::move(entry), names, plan));
  }
  return true;
}

absl::StatusOr<std::string> JsonList(const std::vector<std::string>& layers) {
  try {
    return nlohmann::json(layers).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::DataLossError("attribute 'layer_names': a name is not UTF-8");
  }
}

absl::StatusOr<Plan> PlanLegacy(Hdf5File& file, const std::string& root,
                                const std::vector<std::string>& layers) {
  Plan plan;
  absl::flat_hash_set<std::string> names;
  for (const std::string& layer : layers) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool exists,
                              AddLayer(file, absl::StrCat(root, "/", layer), layer, names, plan));
    if (!exists) {
      return absl::DataLossError(
          absl::StrCat("layer ", Quoted(layer), " of layer_names has no group"));
    }
  }
  for (const absl::string_view group : {kKerasTopLevelWeights, kKerasOptimizerWeights}) {
    const absl::string_view parent = group == kKerasTopLevelWeights ? absl::string_view(root) : "";
    PENSTOCK_RETURN_IF_ERROR(
        AddLayer(file, absl::StrCat(parent, "/", group), group, names, plan).status());
  }
  PENSTOCK_ASSIGN_OR_RETURN(plan.metadata["layer_names"], JsonList(layers));
  const std::string objects[] = {"/", root.empty() ? "/" : root};
  for (const std::string& object : objects) {
    for (const char* key : {"keras_version", "backend", "model_config", "training_config"}) {
      PENSTOCK_ASSIGN_OR_RETURN(auto value, file.Strings(object, key));
      if (value.has_value() && value->size() == 1) plan.metadata.emplace(key, (*value)[0]);
    }
  }
  return plan;
}

// Order of names in which numbers count as such: conv2d_2 before conv2d_10.
bool NaturallyLess(absl::string_view a, absl::string_view b) {
  const auto take_number = [](absl::string_view& text) {
    const size_t digits = static_cast<size_t>(
        std::find_if_not(text.begin(), text.end(), absl::ascii_isdigit) - text.begin());
    absl::string_view number = text.substr(0, digits);
    text.remove_prefix(digits);
    number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
    return number;
  };
  absl::string_view x = a, y = b;
  while (!x.empty() && !y.empty()) {
    if (absl::ascii_isdigit(x[0]) && absl::ascii_isdigit(y[0])) {
      const absl::string_view m = take_number(x), n = take_number(y);
      if (m.size() != n.size()) return m.size() < n.size();
      if (m != n) return m < n;
      continue;
    }
    if (x[0] != y[0]) return x[0] < y[0];
    x.remove_prefix(1);
    y.remove_prefix(1);
  }
  if (x.empty() != y.empty()) return x.empty();
  return a < b;  // names of the same numbers
}

// Adds the datasets in a group of a Keras 3 file, and in the groups inside.
absl::Status Walk(Hdf5File& file, const std::string& group, int depth,
                  absl::flat_hash_set<uint64_t>& visited, absl::flat_hash_set<std::string>& names,
                  Plan& plan) {
  if (depth > kMaxDepth) {
    return absl::UnimplementedError(
        absl::StrCat("group ", Quoted(group), ": groups are more than ", kMaxDepth, " deep"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<Hdf5File::Child> children, file.Children(group));
  std::sort(children.begin(), children.end(),
            [](const auto& a, const auto& b) { return NaturallyLess(a.name, b.name); });
  std::string layer;
  if (io::Basename(group) == "vars") {
    const auto name = file.Strings(group, "name");
    if (name.ok() && name->has_value() && (*name)->size() == 1) layer = (**name)[0];
    // The weights are complete without it.
    if (!name.ok() && !absl::IsUnimplemented(name.status())) return name.status();
  }
  for (const Hdf5File::Child& child : children) {
    const std::string path = absl::StrCat(group == "/" ? "" : group, "/", child.name);
    if (child.kind == Hdf5File::Child::Kind::kOther) {
      plan.skipped.push_back(absl::StrCat("object ", Quoted(path), ": a link or a type of HDF5"));
      continue;
    }
    if (child.kind == Hdf5File::Child::Kind::kDataset) {
      PENSTOCK_RETURN_IF_ERROR(
          AddEntry({.name = path.substr(1),
                    .path = path,
                    .variable = layer.empty() ? "" : absl::StrCat(layer, "/", child.name)},
                   names, plan));
      continue;
    }
    if (!visited.insert(child.address).second) {
      return absl::DataLossError(absl::StrCat("group ", Quoted(path), " is in two groups"));
    }
    PENSTOCK_RETURN_IF_ERROR(Walk(file, path, depth + 1, visited, names, plan));
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> MakePlan(Hdf5File& file) {
  for (const std::string root : {"", "/model_weights"}) {
    const auto layers = List(file, root.empty() ? "/" : root, "layer_names");
    if (absl::IsNotFound(layers.status())) continue;
    if (!layers.ok()) return layers.status();
    if (layers->has_value()) return PlanLegacy(file, root, **layers);
  }
  Plan plan;
  absl::flat_hash_set<uint64_t> visited;
  absl::flat_hash_set<std::string> names;
  PENSTOCK_RETURN_IF_ERROR(Walk(file, "/", 0, visited, names, plan));
  return plan;
}

// A file that was opened, with what an archive has beside it.
struct Opened {
  std::unique_ptr<Hdf5File> file;
  Plan plan;
  int64_t offset = 0;  // of the HDF5 file in the archive
};

absl::StatusOr<Opened> OpenHdf5(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> bytes, fs.OpenRandomAccess(uri));
  Opened opened;
  PENSTOCK_ASSIGN_OR_RETURN(opened.file, Hdf5File::Open(std::move(bytes)));
  PENSTOCK_ASSIGN_OR_RETURN(opened.plan, MakePlan(*opened.file));
  return opened;
}

absl::StatusOr<Opened> OpenArchive(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> archive,
                            fs.OpenRandomAccess(uri));
  const std::string version = archive->version();
  PENSTOCK_ASSIGN_OR_RETURN(formats::ZipFile zip,
                            formats::ZipFile::Open(std::move(archive), kZipWindow));
  std::map<std::string, std::string> metadata;
  std::vector<std::string> others;
  const formats::ZipFile::Member* weights = nullptr;
  for (const formats::ZipFile::Member& member : zip.members()) {
    if (member.name == kKerasWeightsMember) weights = &member;
    if (member.name != kKerasConfigMember && member.name != kKerasMetadataMember) {
      if (member.name != kKerasWeightsMember) {
        others.push_back(absl::StrCat("member ", Quoted(member.name), ": not weights"));
      }
      continue;
    }
    if (member.size > kMaxJson) {
      return absl::UnimplementedError(absl::StrCat("offset ", member.header, ": ",
                                                   Quoted(member.name), " has ", member.size,
                                                   " bytes; the maximum is ", kMaxJson));
    }
    std::string json(static_cast<size_t>(member.size), '\0');
    PENSTOCK_RETURN_IF_ERROR(zip.Read(member, absl::MakeSpan(json)));
    metadata[member.name] = std::move(json);
  }
  if (weights == nullptr) {
    return absl::UnimplementedError(absl::StrCat("the archive has no ", kKerasWeightsMember,
                                                 "; its weights are in another format"));
  }
  if (weights->deflated) {
    return absl::UnimplementedError(absl::StrCat("offset ", weights->header, ": ",
                                                 kKerasWeightsMember,
                                                 " is compressed, which Keras does not do"));
  }
  Opened opened;
  PENSTOCK_ASSIGN_OR_RETURN(opened.offset, zip.DataOffset(*weights));
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> again, fs.OpenRandomAccess(uri));
  if (again->version() != version) return absl::AbortedError("the file was replaced");
  PENSTOCK_ASSIGN_OR_RETURN(opened.file, Hdf5File::Open(std::make_unique<PartOfFile>(
                                             std::move(again), opened.offset, weights->size)));
  PENSTOCK_ASSIGN_OR_RETURN(opened.plan, MakePlan(*opened.file));
  opened.plan.metadata = std::move(metadata);
  opened.plan.skipped.insert(opened.plan.skipped.end(), others.begin(), others.end());
  return opened;
}

// The dataset of an entry; no value for strings, which `skipped` gets. `stored` is the sum of the
// bytes that datasets have in the file, which bounds the memory for all.
absl::StatusOr<std::optional<Hdf5File::Dataset>> Describe(Hdf5File& file, const Entry& entry,
                                                          std::vector<std::string>& skipped,
                                                          int64_t& stored) {
  absl::StatusOr<Hdf5File::Dataset> dataset = file.Describe(entry.path);
  if (absl::IsNotFound(dataset.status())) {
    return absl::DataLossError(
        absl::StrCat(WhereOf(entry.name), ": there is no dataset ", Quoted(entry.path)));
  }
  if (!dataset.ok()) return base::WithContext(dataset.status(), WhereOf(entry.name));
  if (dataset->dtype != DType::kString) {
    if (dataset->stored > file.size() - stored) {
      return absl::DataLossError(absl::StrCat(WhereOf(entry.name),
                                              ": arrays share their bytes, since together they are "
                                              "larger than the file's ",
                                              file.size(), " bytes"));
    }
    stored += dataset->stored;
    return *dataset;
  }
  skipped.push_back(absl::StrCat(WhereOf(entry.name), ": strings"));
  return std::optional<Hdf5File::Dataset>();
}

using Opener = absl::StatusOr<Opened> (*)(io::FileSystem& fs, absl::string_view uri);

template <Opener open>
absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri) {
  const auto inspect = [&]() -> absl::StatusOr<Contents> {
    PENSTOCK_ASSIGN_OR_RETURN(Opened opened, open(fs, uri));
    Contents contents{.format = open == OpenArchive ? "Keras archive" : "Keras HDF5",
                      .metadata = std::move(opened.plan.metadata),
                      .skipped = std::move(opened.plan.skipped)};
    int64_t stored = 0;
    for (const Entry& entry : opened.plan.entries) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto dataset,
                                Describe(*opened.file, entry, contents.skipped, stored));
      if (!dataset.has_value()) continue;
      contents.tensors.push_back(
          {.name = entry.name,
           .dtype = dataset->dtype,
           .shape = dataset->shape,
           .offset = dataset->offset < 0 ? 0 : opened.offset + dataset->offset,
           .num_bytes = dataset->num_bytes,
           .variable = entry.variable});
    }
    return contents;
  };
  absl::StatusOr<Contents> contents = inspect();
  if (!contents.ok()) return base::WithContext(contents.status(), io::DisplayName(uri));
  return contents;
}

template <Opener open>
absl::StatusOr<Weights> Read(io::FileSystem& fs, absl::string_view uri) {
  const auto read = [&]() -> absl::StatusOr<Weights> {
    PENSTOCK_ASSIGN_OR_RETURN(Opened opened, open(fs, uri));
    Weights weights{.metadata = std::move(opened.plan.metadata),
                    .skipped = std::move(opened.plan.skipped)};
    int64_t stored = 0;
    for (const Entry& entry : opened.plan.entries) {
      PENSTOCK_ASSIGN_OR_RETURN(const auto dataset,
                                Describe(*opened.file, entry, weights.skipped, stored));
      if (!dataset.has_value()) continue;
      absl::StatusOr<Array> array = opened.file->ReadArray(entry.path);
      if (!array.ok()) return base::WithContext(array.status(), WhereOf(entry.name));
      weights.arrays.Append(entry.name, *std::move(array));
      if (!entry.variable.empty()) weights.variables[entry.name] = entry.variable;
    }
    return weights;
  };
  absl::StatusOr<Weights> weights = read();
  if (!weights.ok()) return base::WithContext(weights.status(), io::DisplayName(uri));
  return weights;
}

bool RecognizesHdf5(const Probe& probe) { return absl::StartsWith(probe.head, kHdf5Signature); }

bool RecognizesArchive(const Probe& probe) {
  constexpr absl::string_view kFirstMembers[] = {kKerasMetadataMember, kKerasConfigMember,
                                                 kKerasWeightsMember};
  const absl::string_view name = FirstZipName(probe.head);
  return std::find(std::begin(kFirstMembers), std::end(kFirstMembers), name) !=
         std::end(kFirstMembers);
}

}  // namespace
}  // namespace keras_hdf5

Format KerasWeightsFormat() {
  return {.name = "Keras 3 weights",
          .extensions = {".weights.h5"},
          .recognizes = keras_hdf5::RecognizesHdf5,
          .inspect = keras_hdf5::Inspect<keras_hdf5::OpenHdf5>,
          .read = keras_hdf5::Read<keras_hdf5::OpenHdf5>,
          .write = WriteKerasWeights};
}

Format KerasLegacyFormat() {
  return {.name = "Keras HDF5",
          .extensions = {".h5", ".hdf5"},
          .recognizes = keras_hdf5::RecognizesHdf5,
          .inspect = keras_hdf5::Inspect<keras_hdf5::OpenHdf5>,
          .read = keras_hdf5::Read<keras_hdf5::OpenHdf5>,
          .write = WriteKerasLegacy,
          .holds_metadata = true,
          .metadata_keys = {"model_config", "training_config", "keras_version", "backend",
                            "layer_names"}};
}

Format KerasArchiveFormat() {
  return {.name = "Keras archive",
          .extensions = {".keras"},
          .recognizes = keras_hdf5::RecognizesArchive,
          .inspect = keras_hdf5::Inspect<keras_hdf5::OpenArchive>,
          .read = keras_hdf5::Read<keras_hdf5::OpenArchive>,
          .write = WriteKerasArchive,
          .holds_metadata = true,
          .metadata_keys = {kKerasConfigMember, kKerasMetadataMember}};
}

}  // namespace penstock::save
