#include "penstock/save/pytorch_write.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/formats/zip.h"
#include "penstock/io/uri.h"
#include "penstock/io/write_check.h"
#include "penstock/save/format.h"
#include "penstock/save/pytorch_state.h"
#include "penstock/save/quoted.h"

namespace penstock::save {
namespace pytorch_write {
namespace {

using base::Array;

// Writes the instructions of pickle protocol 2 that torch.load(weights_only=True) knows.
class PickleWriter {
 public:
  PickleWriter() { bytes_ = "\x80\x02"; }

  void Name(absl::string_view module, absl::string_view name) {
    absl::StrAppend(&bytes_, "c", module, "\n", name, "\n");
  }
  void Text(absl::string_view text) {
    bytes_ += 'X';
    const uint32_t size = static_cast<uint32_t>(text.size());
    Raw(size);
    absl::StrAppend(&bytes_, text);
  }
  void Int(int64_t value) {
    if (value >= INT32_MIN && value <= INT32_MAX) {
      bytes_ += 'J';
      Raw(static_cast<int32_t>(value));
    } else {
      bytes_ += "\x8a\x08";
      Raw(value);
    }
  }
  void Code(absl::string_view instructions) { absl::StrAppend(&bytes_, instructions); }
  // An empty OrderedDict.
  void OrderedDict() {
    Name("collections", "OrderedDict");
    Code(")R");
  }
  void Ints(const std::vector<int64_t>& values) {
    Code("(");
    for (const int64_t value : values) Int(value);
    Code("t");
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename T>
  void Raw(T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }

  std::string bytes_;
};

// torch._utils._rebuild_tensor_v2 or v3 with a contiguous view of storage `key`.
void WriteTensor(PickleWriter& out, const Array& array, const PyTorchDType& type, int64_t key) {
  const bool typed = !type.storage.empty();
  out.Name("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.Code("((");
  out.Text("storage");
  if (typed) {
    out.Name("torch", type.storage);
  } else {
    out.Name("torch.storage", "UntypedStorage");
  }
  out.Text(absl::StrCat(key));
  out.Text("cpu");
  out.Int(typed ? array.num_elements() : array.num_bytes());
  out.Code("tQ");
  out.Int(0);
  std::vector<int64_t> strides(array.rank());
  int64_t stride = 1;
  for (int d = array.rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= std::max<int64_t>(array.dim(d), 1);
  }
  out.Ints({array.shape().begin(), array.shape().end()});
  out.Ints(strides);
  out.Code("\x89");  // requires_grad
  out.OrderedDict();
  if (!typed) out.Name("torch", type.name);
  out.Code("tR");
}

absl::string_view BytesOf(const Array& array) {
  return {static_cast<const char*>(array.raw()), static_cast<size_t>(array.num_bytes())};
}

absl::StatusOr<const PyTorchDType*> TypeOf(absl::string_view name, const Array& array) {
  const PyTorchDType* type = FindPyTorchDType(array.dtype());
  if (type != nullptr) return type;
  return absl::InvalidArgumentError(absl::StrCat("array ", Quoted(name), " is of type ",
                                                 base::DTypeName(array.dtype()),
                                                 ", which PyTorch files cannot hold"));
}

// The archive with this pickle, whose storages are the bytes of `storages`.
absl::Status WriteArchive(io::FileSystem& fs, absl::string_view uri, const PickleWriter& pickle,
                          const std::vector<const Array*>& storages) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(uri));
  formats::ZipWriter zip([&](absl::string_view bytes) { return out->Append(bytes); });
  const auto add = [&](absl::string_view name, absl::string_view bytes) {
    return zip.Add(absl::StrCat("archive/", name), {bytes}, /*deflate=*/false,
                   base::kArrayAlignment);
  };
  PENSTOCK_RETURN_IF_ERROR(add("data.pkl", pickle.bytes()));
  PENSTOCK_RETURN_IF_ERROR(add("byteorder", "little"));
  for (size_t i = 0; i < storages.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(add(absl::StrCat("data/", i), BytesOf(*storages[i])));
  }
  PENSTOCK_RETURN_IF_ERROR(add("version", "3\n"));
  PENSTOCK_RETURN_IF_ERROR(zip.Finish());
  return out->Close();
}

// Identifies the memory of an array; empty arrays share none.
using Memory = std::tuple<const void*, int64_t, base::DType>;
Memory MemoryOf(const Array& array) {
  return {array.num_bytes() == 0 ? &array : array.raw(), array.num_bytes(), array.dtype()};
}

// Numbers of the tensor_N.pt files in a folder, which may not exist.
absl::StatusOr<std::vector<int64_t>> XserNumbers(io::FileSystem& fs, absl::string_view folder) {
  std::vector<int64_t> numbers;
  const absl::StatusOr<std::vector<io::FileInfo>> files = fs.List(folder);
  if (absl::IsNotFound(files.status())) return numbers;
  if (!files.ok()) return files.status();
  for (const io::FileInfo& file : *files) {
    const std::string name = io::Basename(file.uri);
    absl::string_view digits = name;
    int64_t number = 0;
    if (absl::ConsumePrefix(&digits, "tensor_") && absl::ConsumeSuffix(&digits, ".pt") &&
        absl::SimpleAtoi(digits, &number) && number >= 0 && number < INT32_MAX) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace
}  // namespace pytorch_write

absl::Status WritePyTorch(io::FileSystem& fs, absl::string_view uri,
                          const base::NamedArrays& arrays) {
  using namespace pytorch_write;
  PENSTOCK_RETURN_IF_ERROR(CheckNames(arrays));
  PickleWriter pickle;
  pickle.OrderedDict();
  pickle.Code("(");
  std::vector<const Array*> storages;
  std::map<Memory, int64_t> keys;
  for (const auto& [name, array] : arrays) {
    PENSTOCK_ASSIGN_OR_RETURN(const PyTorchDType* type, TypeOf(name, array));
    const auto [place, added] =
        keys.try_emplace(MemoryOf(array), static_cast<int64_t>(storages.size()));
    if (added) storages.push_back(&array);
    pickle.Text(name);
    WriteTensor(pickle, array, *type, place->second);
  }
  pickle.Code("u.");
  return WriteArchive(fs, uri, pickle, storages);
}

absl::Status WriteXser(io::FileSystem& fs, absl::string_view uri, const base::NamedArrays& arrays) {
  using namespace pytorch_write;
  PENSTOCK_RETURN_IF_ERROR(CheckNames(arrays));
  for (const auto& [name, array] : arrays) PENSTOCK_RETURN_IF_ERROR(TypeOf(name, array).status());
  // The main file is written last; no tensor is written beside one that cannot be.
  PENSTOCK_RETURN_IF_ERROR(io::CheckWritableFile(fs, uri));
  // Numbers above those of existing files: an existing folder stays complete until the new main
  // file replaces the old one.
  const std::string folder = io::AppendToName(uri, ".tensors");
  const auto file = [&](int64_t number) {
    return io::JoinPath(folder, absl::StrCat("tensor_", number, ".pt"));
  };
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<int64_t> old, XserNumbers(fs, folder));
  const int64_t first = old.empty() ? 0 : *std::max_element(old.begin(), old.end()) + 1;
  PickleWriter pickle;
  pickle.OrderedDict();
  pickle.Code("(");
  std::map<Memory, int64_t> numbers;
  const auto write_tensors = [&]() -> absl::Status {
    for (const auto& [name, array] : arrays) {
      const auto [place, added] =
          numbers.try_emplace(MemoryOf(array), first + static_cast<int64_t>(numbers.size()));
      if (added) {
        PENSTOCK_ASSIGN_OR_RETURN(const PyTorchDType* type, TypeOf(name, array));
        PickleWriter tensor;
        WriteTensor(tensor, array, *type, 0);
        tensor.Code(".");
        PENSTOCK_RETURN_IF_ERROR(WriteArchive(fs, file(place->second), tensor, {&array}));
      }
      pickle.Text(name);
      pickle.Name("torch_xla.utils.serialization", "TensorReference");
      pickle.Code(")\x81}");
      pickle.Text("tid");
      pickle.Int(place->second);
      pickle.Code("sb");
    }
    return absl::OkStatus();
  };
  if (absl::Status status = write_tensors(); !status.ok()) {
    for (const auto& [memory, number] : numbers) fs.Remove(file(number)).IgnoreError();
    return status;
  }
  pickle.Code("u.");
  // A store may have published the main file although the write reports an error, so the files that
  // it refers to stay.
  PENSTOCK_RETURN_IF_ERROR(WriteArchive(fs, uri, pickle, {}));
  // A file that cannot be removed takes space, but the new weights are complete.
  for (const int64_t number : old) fs.Remove(file(number)).IgnoreError();
  return absl::OkStatus();
}

}  // namespace penstock::save
