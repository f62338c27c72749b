// Parser of the header, as a stream of JSON events: errors are reported at their offset, and no
// JSON tree is built.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "penstock/save/quoted.h"
#include "penstock/save/safetensors.h"
#include "penstock/save/safetensors_dtypes.h"

namespace penstock::save {
namespace {

using base::DType;
using base::Shape;

// A tensor as described by the header; its offsets are relative to the end of the header.
struct Entry {
  std::string name = {};
  DType dtype = DType::kInvalid;
  Shape shape = {};
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::Status Malformed(absl::string_view what) { return absl::DataLossError(what); }

// Receives JSON events. Every method returns whether to continue; if not, status() has the error.
class HeaderEvents {
 public:
  using Json = nlohmann::json;

  const absl::Status& status() const { return status_; }
  std::vector<Entry>& entries() { return entries_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("true or false"); }
  bool number_integer(Json::number_integer_t) { return Unexpected("a negative number"); }
  bool number_float(Json::number_float_t, const std::string& text) {
    return Unexpected(absl::StrCat("the number ", text));
  }
  bool binary(Json::binary_t&) { return Unexpected("binary"); }
  bool number_unsigned(Json::number_unsigned_t value);
  bool string(std::string& text);
  bool start_object(size_t);
  bool key(std::string& text);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool parse_error(size_t position, const std::string& token, const Json::exception&) {
    return Reject(absl::StrCat("header is not JSON at byte ", 7 + position, " of the file, near ",
                               Quoted(token)));
  }

 private:
  // State: the expected event.
  enum Place {
    kBeginning,
    kName,
    kMetadataObject,
    kMetadataKey,
    kMetadataText,
    kTensorObject,
    kField,
    kDtype,
    kShapeArray,
    kExtent,
    kOffsetsArray,
    kOffset,
    kEnd,
  };
  static constexpr const char* kExpected[] = {
      "an object",
      "a name",
      "an object of strings",
      "a key",
      "a text",
      "an object with dtype, shape and data_offsets",
      "dtype, shape or data_offsets",
      "the name of a type",
      "an array of dimensions",
      "an extent",
      "an array [begin, end]",
      "an offset",
      "the end",
  };
  static_assert(sizeof(kExpected) / sizeof(kExpected[0]) == kEnd + 1);

  struct Field {
    const char* name;
    Place place;
  };
  static constexpr Field kFields[] = {
      {"dtype", kDtype}, {"shape", kShapeArray}, {"data_offsets", kOffsetsArray}};
  static constexpr uint32_t kAllFields = 0b111;

  bool Reject(absl::string_view why) { return RejectWith(Malformed(why)); }
  bool RejectWith(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  bool Unexpected(absl::string_view met) {
    return Reject(
        absl::StrCat("header has ", met, " where ", kExpected[place_], " was expected", Where()));
  }
  std::string Where() const {
    if (place_ >= kTensorObject && place_ <= kOffset) {
      return absl::StrCat(", in tensor ", Quoted(entries_.back().name));
    }
    if (place_ >= kMetadataObject && place_ <= kMetadataText) return ", in __metadata__";
    return "";
  }

  Place place_ = kBeginning;
  absl::Status status_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
  absl::flat_hash_set<std::string> names_;  // of tensors, and __metadata__
  std::string metadata_key_;
  uint32_t fields_seen_ = 0;   // of the tensor at hand, one bit for each of kFields
  std::vector<int64_t> dims_;  // of the tensor at hand
  int offsets_seen_ = 0;
};

bool HeaderEvents::start_object(size_t) {
  switch (place_) {
    case kBeginning:
      place_ = kName;
      return true;
    case kMetadataObject:
      place_ = kMetadataKey;
      return true;
    case kTensorObject:
      place_ = kField;
      return true;
    default:
      return Unexpected("an object");
  }
}

bool HeaderEvents::key(std::string& text) {
  if (place_ == kMetadataKey) {
    if (metadata_.contains(text)) {
      return Reject(absl::StrCat("key ", Quoted(text), " appears twice in __metadata__"));
    }
    metadata_key_ = std::move(text);
    place_ = kMetadataText;
    return true;
  }
  if (place_ == kName) {
    if (!names_.insert(text).second) {
      return Reject(absl::StrCat("name ", Quoted(text), " appears twice in the header"));
    }
    if (text == "__metadata__") {
      place_ = kMetadataObject;
      return true;
    }
    entries_.push_back({.name = std::move(text)});
    fields_seen_ = 0;
    offsets_seen_ = 0;
    dims_.clear();
    place_ = kTensorObject;
    return true;
  }
  for (size_t i = 0; i < std::size(kFields); ++i) {
    if (text != kFields[i].name) continue;
    if (fields_seen_ & (1u << i)) {
      return Reject(absl::StrCat("field ", Quoted(text), " appears twice", Where()));
    }
    fields_seen_ |= 1u << i;
    place_ = kFields[i].place;
    return true;
  }
  return Reject(absl::StrCat("unknown field ", Quoted(text), Where()));
}

bool HeaderEvents::end_object() {
  if (place_ == kField) {
    if (fields_seen_ != kAllFields) {
      return Reject(absl::StrCat("dtype, shape or data_offsets is missing", Where()));
    }
    if (offsets_seen_ != 2) {
      return Reject(absl::StrCat("data_offsets has ", offsets_seen_,
                                 offsets_seen_ == 1 ? " number" : " numbers", " and not 2",
                                 Where()));
    }
    entries_.back().shape = Shape(dims_);
    place_ = kName;
    return true;
  }
  if (place_ == kMetadataKey) {
    place_ = kName;
    return true;
  }
  place_ = kEnd;
  return true;
}

bool HeaderEvents::start_array(size_t) {
  if (place_ == kShapeArray) {
    place_ = kExtent;
    return true;
  }
  if (place_ == kOffsetsArray) {
    place_ = kOffset;
    return true;
  }
  return Unexpected("an array");
}

bool HeaderEvents::end_array() {
  place_ = kField;
  return true;
}

bool HeaderEvents::string(std::string& text) {
  if (place_ == kMetadataText) {
    metadata_.emplace(std::move(metadata_key_), std::move(text));
    place_ = kMetadataKey;
    return true;
  }
  if (place_ != kDtype) return Unexpected(absl::StrCat("the text ", Quoted(text)));
  const SafetensorsDType* row = FindSafetensorsDType(text);
  if (row == nullptr) {
    return RejectWith(absl::UnimplementedError(
        absl::StrCat("tensor ", Quoted(entries_.back().name), " is of type ", Quoted(text),
                     "; known are ", SafetensorsDTypeNames())));
  }
  entries_.back().dtype = row->dtype;
  place_ = kField;
  return true;
}

bool HeaderEvents::number_unsigned(Json::number_unsigned_t value) {
  if (place_ == kExtent) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Reject(absl::StrCat("extent ", value, " is out of range", Where()));
    }
    if (dims_.size() == base::kMaxRank) {
      return RejectWith(absl::UnimplementedError(
          absl::StrCat("tensor ", Quoted(entries_.back().name), " has a rank above ",
                       base::kMaxRank, ", the maximum of Penstock's arrays")));
    }
    dims_.push_back(static_cast<int64_t>(value));
    return true;
  }
  if (place_ == kOffset) {
    if (offsets_seen_ == 2) {
      return Reject(absl::StrCat("data_offsets has more than 2 numbers", Where()));
    }
    (offsets_seen_ == 0 ? entries_.back().begin : entries_.back().end) = value;
    ++offsets_seen_;
    return true;
  }
  return Unexpected(absl::StrCat("the number ", value));
}

// Size of a tensor in bytes. Dimensions of 0 are excluded from the check for overflow, so that also
// the shape of a part (a row of an empty tensor) can be multiplied.
absl::StatusOr<uint64_t> BytesOf(const Entry& entry) {
  constexpr uint64_t kMaxBits = std::numeric_limits<int64_t>::max() - 7;
  uint64_t bits = static_cast<uint64_t>(base::BitWidth(entry.dtype));
  bool empty = false;
  for (int64_t dim : entry.shape) {
    empty |= dim == 0;
    const uint64_t extent = static_cast<uint64_t>(std::max<int64_t>(dim, 1));
    if (extent > kMaxBits / bits) {
      return Malformed(absl::StrCat("tensor ", Quoted(entry.name), ": shape ",
                                    entry.shape.ToString(),
                                    " has more elements than a file can hold"));
    }
    bits *= extent;
  }
  if (empty) return 0;
  if (bits % 8 != 0) {
    return Malformed(absl::StrCat("tensor ", Quoted(entry.name), ": ", base::DTypeName(entry.dtype),
                                  entry.shape.ToString(), " is not a whole number of bytes"));
  }
  return bits / 8;
}

// The tensor's bytes follow those before it, which end at `position`.
absl::Status CheckEntry(const Entry& entry, uint64_t position, uint64_t data_bytes) {
  const std::string where = absl::StrCat("tensor ", Quoted(entry.name), ": data_offsets [",
                                         entry.begin, ",", entry.end, "]");
  if (entry.end < entry.begin) return Malformed(absl::StrCat(where, " end before they begin"));
  if (entry.end > data_bytes) {
    return Malformed(
        absl::StrCat(where, " extend beyond the file, which has ", data_bytes, " bytes of data"));
  }
  if (entry.begin < position) {
    return Malformed(absl::StrCat(where, " overlap another tensor, which ends at ", position));
  }
  if (entry.begin > position) {
    return Malformed(absl::StrCat(where, " leave a gap after ", position));
  }
  absl::StatusOr<uint64_t> bytes = BytesOf(entry);
  if (!bytes.ok()) return bytes.status();
  if (*bytes != entry.end - entry.begin) {
    return Malformed(absl::StrCat(where, " are ", entry.end - entry.begin, " bytes, but ",
                                  base::DTypeName(entry.dtype), entry.shape.ToString(), " has ",
                                  *bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Contents> ParseSafetensorsHeader(absl::string_view json, int64_t file_size) {
  const int64_t data_offset = 8 + static_cast<int64_t>(json.size());
  if (data_offset > file_size) {
    return Malformed(
        absl::StrCat("the header's ", json.size(), " bytes extend beyond the file's ", file_size));
  }
  if (json.empty() || json[0] != '{') return Malformed("header does not begin with '{' at byte 8");

  HeaderEvents events;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events)) return events.status();

  std::vector<Entry>& entries = events.entries();
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t data_bytes = static_cast<uint64_t>(file_size - data_offset);
  Contents contents{.format = "safetensors", .metadata = std::move(events.metadata())};
  contents.tensors.reserve(entries.size());
  uint64_t position = 0;
  for (Entry& entry : entries) {
    if (absl::Status status = CheckEntry(entry, position, data_bytes); !status.ok()) return status;
    position = entry.end;
    contents.tensors.push_back({.name = std::move(entry.name),
                                .dtype = entry.dtype,
                                .shape = entry.shape,
                                .offset = data_offset + static_cast<int64_t>(entry.begin),
                                .num_bytes = static_cast<int64_t>(entry.end - entry.begin)});
  }
  if (position != data_bytes) {
    return Malformed(
        absl::StrCat("the file has ", data_bytes, " bytes of data and its tensors ", position));
  }
  return contents;
}

}  // namespace penstock::save
