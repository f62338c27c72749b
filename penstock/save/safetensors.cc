#include "penstock/save/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/base/status.h"
#include "penstock/save/quoted.h"
#include "penstock/save/read_exactly.h"
#include "penstock/save/safetensors_dtypes.h"

namespace penstock::save {
namespace {

using base::Array;
using base::DType;

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie");

// One read covers the header of most files; tensors that fit into this size together are read
// together, since a request to an object store costs as much as megabytes.
constexpr int64_t kFirstRead = 64 << 10;
constexpr int64_t kReadTogether = 8 << 20;
constexpr int64_t kDataAlignment = base::kArrayAlignment;

absl::StatusOr<Contents> ReadHeader(io::RandomAccessFile& file) {
  const int64_t size = file.size();
  if (size < 8) {
    return absl::DataLossError(
        absl::StrCat("a safetensors file has at least 8 bytes, this one ", size));
  }
  std::string beginning(static_cast<size_t>(std::min(size, kFirstRead)), '\0');
  PENSTOCK_RETURN_IF_ERROR(ReadExactly(file, 0, absl::MakeSpan(beginning)));
  uint64_t length;
  std::memcpy(&length, beginning.data(), sizeof(length));
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    return absl::DataLossError(absl::StrCat("a header of ", length, " bytes: the format allows ",
                                            kMaxSafetensorsHeader,
                                            "; this is not a safetensors file"));
  }
  const int64_t end = 8 + static_cast<int64_t>(length);
  if (end > size) {
    return absl::DataLossError(
        absl::StrCat("the header's ", length, " bytes extend beyond the file's ", size,
                     ": the file was truncated, or is not a safetensors file"));
  }
  const int64_t have = static_cast<int64_t>(beginning.size());
  beginning.resize(static_cast<size_t>(end));
  if (end > have) {
    PENSTOCK_RETURN_IF_ERROR(
        ReadExactly(file, have, absl::MakeSpan(beginning).subspan(static_cast<size_t>(have))));
  }
  return ParseSafetensorsHeader(absl::string_view(beginning).substr(8), size);
}

// A bool that is neither 0 nor 1 is undefined behavior in C++.
absl::Status CheckBools(const TensorInfo& tensor, const Array& array) {
  if (array.dtype() != DType::kBool) return absl::OkStatus();
  const auto* bytes = static_cast<const uint8_t*>(array.raw());
  const auto* bad = std::find_if(bytes, bytes + array.num_bytes(), [](uint8_t b) { return b > 1; });
  if (bad == bytes + array.num_bytes()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("offset ", tensor.offset + (bad - bytes), ": tensor ",
                                          Quoted(tensor.name), " is of type BOOL and has the byte ",
                                          int{*bad}));
}

absl::Span<char> BytesOf(Array& array) {
  return {static_cast<char*>(array.mutable_raw()), static_cast<size_t>(array.num_bytes())};
}

// Reads `tensors`, which are contiguous in the file, by one request.
absl::Status ReadTogether(io::RandomAccessFile& file, absl::Span<const TensorInfo> tensors,
                          base::NamedArrays& out) {
  std::vector<Array> arrays;
  for (const TensorInfo& tensor : tensors) {
    arrays.push_back(Array::Uninitialized(tensor.dtype, tensor.shape));
  }
  const int64_t begin = tensors.front().offset;
  const int64_t end = tensors.back().offset + tensors.back().num_bytes;
  if (tensors.size() == 1) {
    if (end > begin) PENSTOCK_RETURN_IF_ERROR(ReadExactly(file, begin, BytesOf(arrays[0])));
  } else if (end > begin) {
    std::string bytes(static_cast<size_t>(end - begin), '\0');
    PENSTOCK_RETURN_IF_ERROR(ReadExactly(file, begin, absl::MakeSpan(bytes)));
    for (size_t i = 0; i < tensors.size(); ++i) {
      const absl::Span<char> to = BytesOf(arrays[i]);
      if (!to.empty()) {
        std::memcpy(to.data(), bytes.data() + (tensors[i].offset - begin), to.size());
      }
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(CheckBools(tensors[i], arrays[i]));
    out.Append(tensors[i].name, std::move(arrays[i]));
  }
  return absl::OkStatus();
}

// A tensor to write, with the index of its type in the table.
struct Outgoing {
  const base::NamedArrays::Entry* entry;
  const SafetensorsDType* type;
};

absl::StatusOr<std::vector<Outgoing>> InFileOrder(const base::NamedArrays& arrays) {
  std::vector<Outgoing> order;
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& entry : arrays) {
    const auto& [name, array] = entry;
    const SafetensorsDType* type = FindSafetensorsDType(array.dtype());
    if (type == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("array ", Quoted(name), " is of type ",
                                                     base::DTypeName(array.dtype()),
                                                     ", which safetensors does not support"));
    }
    if (name == "__metadata__" || !names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("name ", Quoted(name),
                       name == "__metadata__" ? " is the format's own" : " appears twice"));
    }
    if (array.num_elements() * base::BitWidth(array.dtype()) % 8 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "array ", Quoted(name), ": ", array.TypeString(), " is not a whole number of bytes"));
    }
    order.push_back({&entry, type});
  }
  std::sort(order.begin(), order.end(), [](const Outgoing& a, const Outgoing& b) {
    return a.type != b.type ? a.type < b.type : a.entry->first < b.entry->first;
  });
  return order;
}

absl::StatusOr<std::string> JsonText(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is not UTF-8"));
  }
}

// Length, JSON and padding.
absl::StatusOr<std::string> Header(absl::Span<const Outgoing> order,
                                   const std::map<std::string, std::string>& metadata) {
  std::string header(8, '\0');
  const char* comma = "{";
  if (!metadata.empty()) {
    header += "{\"__metadata__\":";
    for (const auto& [key, value] : metadata) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string key_text, JsonText(key));
      PENSTOCK_ASSIGN_OR_RETURN(const std::string value_text, JsonText(value));
      absl::StrAppend(&header, comma, key_text, ":", value_text);
      comma = ",";
    }
    header += "}";
  }
  int64_t offset = 0;
  for (const Outgoing& outgoing : order) {
    const auto& [name, array] = *outgoing.entry;
    PENSTOCK_ASSIGN_OR_RETURN(const std::string name_text, JsonText(name));
    const int64_t end = offset + array.num_bytes();
    absl::StrAppend(&header, comma, name_text, ":{\"dtype\":\"", outgoing.type->name,
                    "\",\"shape\":", array.shape().ToString(), ",\"data_offsets\":[", offset, ",",
                    end, "]}");
    comma = ",";
    offset = end;
  }
  if (header.size() == 8) header += "{";
  header += "}";
  header.resize((header.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  const uint64_t length = header.size() - 8;
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    return absl::InvalidArgumentError(absl::StrCat("names and metadata make a header of ", length,
                                                   " bytes; safetensors allows ",
                                                   kMaxSafetensorsHeader));
  }
  std::memcpy(header.data(), &length, sizeof(length));
  return header;
}

bool Recognizes(const Probe& probe) {
  if (probe.head.size() < 9 || probe.head[8] != '{') return false;
  uint64_t length;
  std::memcpy(&length, probe.head.data(), sizeof(length));
  return length <= static_cast<uint64_t>(kMaxSafetensorsHeader);
}

absl::StatusOr<SafetensorsReader> OpenUri(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::RandomAccessFile> file, fs.OpenRandomAccess(uri));
  return SafetensorsReader::Open(std::move(file));
}

absl::StatusOr<Contents> InspectUri(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(SafetensorsReader reader, OpenUri(fs, uri));
  return reader.contents();
}

absl::StatusOr<Weights> ReadUri(io::FileSystem& fs, absl::string_view uri) {
  PENSTOCK_ASSIGN_OR_RETURN(SafetensorsReader reader, OpenUri(fs, uri));
  return reader.ReadAll();
}

absl::Status WriteUri(io::FileSystem& fs, absl::string_view uri, const Weights& weights,
                      const WriteOptions&) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<io::OutputStream> out, fs.Create(uri));
  PENSTOCK_RETURN_IF_ERROR(base::WithContext(WriteSafetensors(*out, weights), out->uri()));
  return out->Close();
}

}  // namespace

const SafetensorsDType* FindSafetensorsDType(absl::string_view name) {
  for (const SafetensorsDType& row : kSafetensorsDTypes) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const SafetensorsDType* FindSafetensorsDType(DType dtype) {
  for (const SafetensorsDType& row : kSafetensorsDTypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

std::string SafetensorsDTypeNames() {
  std::string names;
  for (const SafetensorsDType& row : kSafetensorsDTypes) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return names;
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(
    std::unique_ptr<io::RandomAccessFile> file) {
  absl::StatusOr<Contents> contents = ReadHeader(*file);
  if (!contents.ok()) return base::WithContext(contents.status(), file->uri());
  return SafetensorsReader(std::move(file), *std::move(contents));
}

absl::StatusOr<Array> SafetensorsReader::Read(absl::string_view name) const {
  for (const TensorInfo& tensor : contents_.tensors) {
    if (tensor.name != name) continue;
    base::NamedArrays out;
    PENSTOCK_RETURN_IF_ERROR(
        base::WithContext(ReadTogether(*file_, absl::MakeSpan(&tensor, 1), out), file_->uri()));
    return out[0].second;
  }
  return absl::NotFoundError(absl::StrCat(file_->uri(), ": no tensor is named ", Quoted(name),
                                          " among its ", contents_.tensors.size()));
}

absl::StatusOr<Weights> SafetensorsReader::ReadAll() const {
  Weights weights{.metadata = contents_.metadata};
  const std::vector<TensorInfo>& tensors = contents_.tensors;
  for (size_t begin = 0; begin < tensors.size();) {
    size_t end = begin + 1;
    int64_t bytes = tensors[begin].num_bytes;
    while (end < tensors.size() && bytes + tensors[end].num_bytes <= kReadTogether) {
      bytes += tensors[end++].num_bytes;
    }
    const absl::Status status =
        ReadTogether(*file_, absl::MakeSpan(tensors).subspan(begin, end - begin), weights.arrays);
    if (!status.ok()) return base::WithContext(status, file_->uri());
    begin = end;
  }
  return weights;
}

absl::Status WriteSafetensors(io::OutputStream& out, const Weights& weights) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::vector<Outgoing> order, InFileOrder(weights.arrays));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string header, Header(order, weights.metadata));
  PENSTOCK_RETURN_IF_ERROR(out.Append(header));
  for (const Outgoing& outgoing : order) {
    const Array& array = outgoing.entry->second;
    PENSTOCK_RETURN_IF_ERROR(out.Append(absl::string_view(static_cast<const char*>(array.raw()),
                                                          static_cast<size_t>(array.num_bytes()))));
  }
  return absl::OkStatus();
}

Format SafetensorsFormat() {
  return {.name = "safetensors",
          .extensions = {".safetensors"},
          .recognizes = Recognizes,
          .inspect = InspectUri,
          .read = ReadUri,
          .write = WriteUri,
          .holds_metadata = true};
}

}  // namespace penstock::save
