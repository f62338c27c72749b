// Readers of PyTorch's formats. The pickle is interpreted by pytorch_state.cc, files are written by
// pytorch_write.cc.
#include "penstock/save/pytorch.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/formats/zip.h"
#include "penstock/io/uri.h"
#include "penstock/save/pytorch_state.h"
#include "penstock/save/pytorch_write.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/zip_probe.h"

namespace penstock::save {
namespace pytorch {
namespace {

using base::Array;
using formats::ZipFile;

constexpr int64_t kMaxPickle = 64 << 20;
constexpr int64_t kInspectWindow = 4 << 10;
constexpr absl::string_view kPickleName = "/data.pkl";
// The stream format begins with the pickled number 0x1950a86a20f9469cfc6c.
constexpr absl::string_view kMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);

// Where the bytes of storages lie, and how to read one.
class Source {
 public:
  virtual ~Source() = default;
  virtual const PyTorchState& state() const = 0;
  virtual int64_t file_size() const = 0;
  // Offset of the first byte of a storage in the file.
  virtual absl::StatusOr<int64_t> StorageOffset(size_t storage) = 0;
  virtual absl::Status ReadStorage(size_t storage, absl::Span<char> out) = 0;
};

class ZipSource : public Source {
 public:
  static absl::StatusOr<std::unique_ptr<ZipSource>> Open(std::unique_ptr<io::RandomAccessFile> file,
                                                         int64_t window) {
    PENSTOCK_ASSIGN_OR_RETURN(ZipFile zip, ZipFile::Open(std::move(file), window));
    auto source = std::unique_ptr<ZipSource>(new ZipSource(std::move(zip)));
    PENSTOCK_RETURN_IF_ERROR(source->Load());
    return source;
  }

  const PyTorchState& state() const override { return state_; }
  int64_t file_size() const override { return zip_.file().size(); }
  absl::StatusOr<int64_t> StorageOffset(size_t storage) override {
    return zip_.DataOffset(*members_[storage]);
  }
  absl::Status ReadStorage(size_t storage, absl::Span<char> out) override {
    return zip_.Read(*members_[storage], out);
  }

 private:
  explicit ZipSource(ZipFile zip) : zip_(std::move(zip)) {}

  absl::Status Load() {
    absl::flat_hash_map<absl::string_view, const ZipFile::Member*> by_name;
    const ZipFile::Member* pickle = nullptr;
    for (const ZipFile::Member& member : zip_.members()) {
      if (!by_name.emplace(member.name, &member).second) {
        return absl::DataLossError(
            absl::StrCat("the archive has two members ", Quoted(member.name)));
      }
      if (!absl::EndsWith(member.name, kPickleName)) continue;
      if (pickle == nullptr || member.name.size() < pickle->name.size()) pickle = &member;
    }
    if (pickle == nullptr) return absl::DataLossError("the archive has no data.pkl");
    const std::string folder = pickle->name.substr(0, pickle->name.size() - kPickleName.size() + 1);
    if (by_name.contains(absl::StrCat(folder, "constants.pkl"))) {
      return absl::UnimplementedError(
          "the file is a TorchScript archive (torch.jit.save); save its state_dict with "
          "torch.save");
    }
    if (const auto order = by_name.find(absl::StrCat(folder, "byteorder"));
        order != by_name.end()) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string text, zip_.ReadPrefix(*order->second, 16));
      if (!absl::StartsWith(text, "little")) {
        return absl::UnimplementedError("the file was saved on a big-endian machine");
      }
    }
    if (pickle->size > kMaxPickle) {
      return absl::UnimplementedError(
          absl::StrCat("a pickle of ", pickle->size, " bytes; the maximum is ", kMaxPickle));
    }
    std::string bytes(static_cast<size_t>(pickle->size), '\0');
    PENSTOCK_RETURN_IF_ERROR(zip_.Read(*pickle, absl::MakeSpan(bytes)));
    absl::StatusOr<Pickle> parsed = Pickle::Parse(bytes, PyTorchNames());
    if (!parsed.ok()) {
      const absl::Status status = absl::IsOutOfRange(parsed.status())
                                      ? absl::DataLossError(parsed.status().message())
                                      : parsed.status();
      return base::WithContext(status, absl::StrCat("member ", Quoted(pickle->name)));
    }
    PENSTOCK_ASSIGN_OR_RETURN(state_, InterpretPyTorch(*parsed));
    for (const PyTorchStorage& storage : state_.storages) {
      const auto found = by_name.find(absl::StrCat(folder, "data/", storage.key));
      if (found == by_name.end()) {
        return absl::DataLossError(
            absl::StrCat("the archive has no member for storage ", Quoted(storage.key)));
      }
      if (found->second->size != storage.num_bytes) {
        return absl::DataLossError(absl::StrCat("offset ", found->second->header, ": storage ",
                                                Quoted(storage.key), " has ", found->second->size,
                                                " bytes and not ", storage.num_bytes));
      }
      members_.push_back(found->second);
    }
    return absl::OkStatus();
  }

  ZipFile zip_;
  PyTorchState state_;
  std::vector<const ZipFile::Member*> members_;  // of the storages
};

class StreamSource : public Source {
 public:
  static absl::StatusOr<std::unique_ptr<StreamSource>> Open(
      std::unique_ptr<io::RandomAccessFile> file) {
    auto source = std::unique_ptr<StreamSource>(new StreamSource(std::move(file)));
    PENSTOCK_RETURN_IF_ERROR(source->Load());
    return source;
  }

  const PyTorchState& state() const override { return state_; }
  int64_t file_size() const override { return file_->size(); }
  absl::StatusOr<int64_t> StorageOffset(size_t storage) override { return offsets_[storage]; }
  absl::Status ReadStorage(size_t storage, absl::Span<char> out) override {
    return out.empty() ? absl::OkStatus() : ReadExactly(*file_, offsets_[storage], out);
  }

 private:
  explicit StreamSource(std::unique_ptr<io::RandomAccessFile> file) : file_(std::move(file)) {}

  // The pickles at the beginning: magic number, protocol, machine, object, keys of storages. Their
  // lengths are unknown, so the part that is read grows until they are complete.
  absl::Status Load() {
    constexpr int64_t kFirst = 1 << 20;
    for (int64_t size = kFirst;; size *= 4) {
      std::string bytes(static_cast<size_t>(std::min({size, file_->size(), kMaxPickle})), '\0');
      PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file_, 0, absl::MakeSpan(bytes)));
      const absl::Status status = LoadFrom(bytes);
      if (!absl::IsOutOfRange(status)) return status;
      if (static_cast<int64_t>(bytes.size()) == file_->size()) {
        return absl::DataLossError(status.message());
      }
      if (static_cast<int64_t>(bytes.size()) == kMaxPickle) {
        return absl::UnimplementedError(
            absl::StrCat("the pickles have more than ", kMaxPickle, " bytes"));
      }
    }
  }

  absl::Status LoadFrom(absl::string_view bytes) {
    size_t at = 0;
    std::vector<Pickle> pickles;
    for (int i = 0; i < 5; ++i) {
      PENSTOCK_ASSIGN_OR_RETURN(
          Pickle pickle, Pickle::Parse(bytes.substr(at), PyTorchNames(), static_cast<int64_t>(at)));
      at += pickle.size();
      pickles.push_back(std::move(pickle));
    }
    constexpr int64_t kProtocol = 1001;
    if (pickles[1].root().kind != Pickle::Kind::kInt || pickles[1].root().integer != kProtocol) {
      return absl::UnimplementedError("the stream's protocol is not 1001");
    }
    const Pickle& machine = pickles[2];
    for (size_t i = 0; i + 1 < machine.root().items.size(); i += 2) {
      if (machine[machine.root().items[i]].text == "little_endian" &&
          machine[machine.root().items[i + 1]].integer == 0) {
        return absl::UnimplementedError("the file was saved on a big-endian machine");
      }
    }
    PENSTOCK_ASSIGN_OR_RETURN(state_, InterpretPyTorch(pickles[3]));
    return FindStorages(pickles[4], static_cast<int64_t>(at));
  }

  // Each storage: the number of its elements as int64, then its bytes.
  absl::Status FindStorages(const Pickle& keys, int64_t at) {
    absl::flat_hash_map<std::string, size_t> by_key;
    for (size_t i = 0; i < state_.storages.size(); ++i) by_key[state_.storages[i].key] = i;
    offsets_.assign(state_.storages.size(), -1);
    if (keys.root().kind != Pickle::Kind::kList) {
      return absl::DataLossError("the list of storages is not a list");
    }
    for (const Pickle::Id id : keys.root().items) {
      const std::string key(keys[id].text);
      const auto found = by_key.find(key);
      if (found == by_key.end() || offsets_[found->second] >= 0) {
        return absl::DataLossError(absl::StrCat("offset ", at, ": storage ", Quoted(key),
                                                " belongs to no tensor, or appears twice"));
      }
      const PyTorchStorage& storage = state_.storages[found->second];
      int64_t elements = 0;
      const int64_t width =
          storage.dtype == base::DType::kInvalid ? 1 : base::ByteWidth(storage.dtype);
      if (file_->size() - at < 8 || file_->size() - at - 8 < storage.num_bytes) {
        return absl::DataLossError(absl::StrCat("offset ", at, ": storage ", Quoted(key), " of ",
                                                storage.num_bytes,
                                                " bytes extends beyond the end of the file"));
      }
      PENSTOCK_RETURN_IF_ERROR(
          ReadExactly(*file_, at, {reinterpret_cast<char*>(&elements), sizeof(elements)}));
      if (elements != storage.num_bytes / width) {
        return absl::DataLossError(absl::StrCat("offset ", at, ": storage ", Quoted(key), " has ",
                                                elements, " elements and not ",
                                                storage.num_bytes / width));
      }
      offsets_[found->second] = at + 8;
      at += 8 + storage.num_bytes;
    }
    for (size_t i = 0; i < offsets_.size(); ++i) {
      if (offsets_[i] < 0) {
        return absl::DataLossError(
            absl::StrCat("the file does not have storage ", Quoted(state_.storages[i].key)));
      }
    }
    return absl::OkStatus();
  }

  std::unique_ptr<io::RandomAccessFile> file_;
  PyTorchState state_;
  std::vector<int64_t> offsets_;  // of the storages
};

absl::StatusOr<std::unique_ptr<Source>> OpenSource(io::FileSystem& fs, absl::string_view uri,
                                                   int64_t window) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  char first = '\0';
  if (file->size() > 0) PENSTOCK_RETURN_IF_ERROR(ReadExactly(*file, 0, {&first, 1}));
  if (first == 'P') return ZipSource::Open(std::move(file), window);
  return StreamSource::Open(std::move(file));
}

std::string XserFile(absl::string_view uri, int64_t id) {
  return io::JoinPath(io::AppendToName(uri, ".tensors"), absl::StrCat("tensor_", id, ".pt"));
}

bool IsXser(const PyTorchState& state) {
  return std::any_of(state.tensors.begin(), state.tensors.end(),
                     [](const PyTorchTensor& tensor) { return tensor.xser_id >= 0; });
}

absl::StatusOr<Contents> ReadContents(io::FileSystem& fs, absl::string_view uri, bool nested) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source,
                            OpenSource(fs, uri, kInspectWindow));
  const PyTorchState& state = source->state();
  PENSTOCK_RETURN_IF_ERROR(CheckExpansion(state, source->file_size()));
  Contents contents{.format = IsXser(state) ? "xser" : "PyTorch", .metadata = state.metadata};
  std::vector<int64_t> offsets(state.storages.size(), -1);
  for (const PyTorchTensor& tensor : state.tensors) {
    if (tensor.xser_id >= 0) {
      if (nested) return absl::DataLossError("a file of an xser folder refers to another");
      const std::string file = XserFile(uri, tensor.xser_id);
      const absl::StatusOr<Contents> one = ReadContents(fs, file, true);
      if (!one.ok() || one->tensors.size() != 1) {
        return base::WithContext(
            one.ok() ? absl::DataLossError("does not hold exactly one tensor") : one.status(),
            absl::StrCat("tensor ", Quoted(tensor.name), " in ", io::Basename(file)));
      }
      contents.tensors.push_back(one->tensors[0]);
      contents.tensors.back().name = tensor.name;
      contents.tensors.back().file = io::Basename(file);
      continue;
    }
    int64_t& offset = offsets[tensor.storage];
    if (offset < 0) {
      PENSTOCK_ASSIGN_OR_RETURN(offset, source->StorageOffset(tensor.storage));
    }
    const int64_t width = base::ByteWidth(tensor.dtype);
    contents.tensors.push_back({.name = tensor.name,
                                .dtype = tensor.dtype,
                                .shape = tensor.shape,
                                .offset = offset + tensor.offset * width,
                                .num_bytes = tensor.shape.num_elements() * width});
  }
  std::stable_sort(contents.tensors.begin(), contents.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
                   });
  return contents;
}

absl::StatusOr<Weights> ReadTensors(io::FileSystem& fs, absl::string_view uri, bool nested) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::unique_ptr<Source> source, OpenSource(fs, uri, kReadWindow));
  const PyTorchState& state = source->state();
  PENSTOCK_RETURN_IF_ERROR(CheckExpansion(state, source->file_size()));
  std::vector<Array> arrays(state.tensors.size());
  const std::vector<std::vector<size_t>> tensors = TensorsByStorage(state);
  for (size_t i = 0; i < state.storages.size(); ++i) {
    const PyTorchStorage& storage = state.storages[i];
    if (tensors[i].empty()) continue;
    const auto read = [&]() -> absl::Status {
      // A storage lies in the file: its size was checked against the file's.
      Array bytes = Array::Uninitialized(base::DType::kU8, {storage.num_bytes});
      PENSTOCK_RETURN_IF_ERROR(source->ReadStorage(
          i, {static_cast<char*>(bytes.mutable_raw()), static_cast<size_t>(storage.num_bytes)}));
      return MakeTensors(state, tensors[i], bytes, arrays);
    };
    PENSTOCK_RETURN_IF_ERROR(base::WithContext(
        read(), absl::StrCat("tensor ", Quoted(state.tensors[tensors[i][0]].name))));
  }
  Weights weights{.metadata = state.metadata};
  std::map<int64_t, Array> shared;  // by the number of their file: tied weights
  for (size_t i = 0; i < arrays.size(); ++i) {
    const PyTorchTensor& tensor = state.tensors[i];
    if (tensor.xser_id >= 0) {
      if (nested) return absl::DataLossError("a file of an xser folder refers to another");
      Array& array = shared[tensor.xser_id];
      if (!array.valid()) {
        const std::string file = XserFile(uri, tensor.xser_id);
        absl::StatusOr<Weights> one = ReadTensors(fs, file, true);
        if (!one.ok() || one->arrays.size() != 1) {
          return base::WithContext(
              one.ok() ? absl::DataLossError("does not hold exactly one tensor") : one.status(),
              absl::StrCat("tensor ", Quoted(tensor.name), " in ", io::Basename(file)));
        }
        array = one->arrays[0].second;
      }
      arrays[i] = array;
    }
    weights.arrays.Append(tensor.name, std::move(arrays[i]));
  }
  return weights;
}

absl::StatusOr<Contents> Inspect(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<Contents> contents = ReadContents(fs, uri, false);
  if (!contents.ok()) return base::WithContext(contents.status(), io::DisplayName(uri));
  return contents;
}

absl::StatusOr<Weights> Read(io::FileSystem& fs, absl::string_view uri) {
  absl::StatusOr<Weights> weights = ReadTensors(fs, uri, false);
  if (!weights.ok()) return base::WithContext(weights.status(), io::DisplayName(uri));
  return weights;
}

bool RecognizesZip(const Probe& probe) {
  const absl::string_view name = FirstZipName(probe.head);
  constexpr absl::string_view kFirstMembers[] = {"/data.pkl",        "/constants.pkl",
                                                 "/version",         "/byteorder",
                                                 "/.format_version", "/.data/serialization_id"};
  return std::any_of(std::begin(kFirstMembers), std::end(kFirstMembers),
                     [&](absl::string_view member) { return absl::EndsWith(name, member); });
}

bool RecognizesStream(const Probe& probe) { return absl::StartsWith(probe.head, kMagic); }

absl::Status Write(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                   const WriteOptions&) {
  return base::WithContext(WritePyTorch(fs, uri, weights.arrays), io::DisplayName(uri));
}

absl::Status WriteFolder(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                         const WriteOptions&) {
  return base::WithContext(WriteXser(fs, uri, weights.arrays), io::DisplayName(uri));
}

}  // namespace
}  // namespace pytorch

Format PyTorchZipFormat() {
  return {.name = "PyTorch",
          .extensions = {".pt", ".pth", ".bin"},
          .recognizes = pytorch::RecognizesZip,
          .inspect = pytorch::Inspect,
          .read = pytorch::Read,
          .write = pytorch::Write};
}

Format PyTorchStreamFormat() {
  return {.name = "PyTorch stream",
          .extensions = {},
          .recognizes = pytorch::RecognizesStream,
          .inspect = pytorch::Inspect,
          .read = pytorch::Read,
          .write = nullptr};
}

// Recognized as PyTorch's zip format, whose reader follows the references.
Format XserFormat() {
  return {.name = "xser",
          .extensions = {".xser"},
          .recognizes = [](const Probe&) { return false; },
          .inspect = pytorch::Inspect,
          .read = pytorch::Read,
          .write = pytorch::WriteFolder};
}

}  // namespace penstock::save
