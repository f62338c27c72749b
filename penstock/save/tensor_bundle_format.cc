#include "penstock/save/tensor_bundle_format.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "penstock/base/status.h"
#include "penstock/io/uri.h"
#include "penstock/record/crc32c.h"

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace penstock::save::tensor_bundle {
namespace {

using base::DType;

struct DTypeRow {
  int value;
  DType dtype;
};
constexpr absl::string_view kData = ".data-", kSlot = "/.OPTIMIZER_SLOT/";
constexpr DTypeRow kDTypes[] = {
    {1, DType::kF32},         {2, DType::kF64},         {3, DType::kI32},     {4, DType::kU8},
    {5, DType::kI16},         {6, DType::kI8},          {8, DType::kC64},     {9, DType::kI64},
    {10, DType::kBool},       {14, DType::kBF16},       {17, DType::kU16},    {19, DType::kF16},
    {22, DType::kU32},        {23, DType::kU64},        {24, DType::kF8E5M2}, {25, DType::kF8E4M3},
    {26, DType::kF8E4M3Fnuz}, {28, DType::kF8E5M2Fnuz},
};

// OrderedCode of tensorflow/core/lib/strings/ordered_code.cc: numbers and texts whose bytes sort as
// they do.
void AppendOrdered(uint64_t value, std::string& out) {
  std::string digits;
  for (; value > 0; value >>= 8) digits.insert(digits.begin(), static_cast<char>(value & 0xff));
  out.push_back(static_cast<char>(digits.size()));
  out += digits;
}

void AppendOrdered(absl::string_view text, std::string& out) {
  for (const char c : text) {
    out.push_back(c);
    if (c == '\0') out.push_back('\xff');
    if (c == '\xff') out.push_back('\0');
  }
  out.append("\0\1", 2);
}

// The length of the encoding is in the leading bits, the sign in the first.
void AppendOrderedSigned(int64_t value, std::string& out) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  if (magnitude < 64) {
    out.push_back(static_cast<char>(0x80 ^ value));
    return;
  }
  const int bits = 64 - __builtin_clzll(magnitude);
  const int length = bits / 7 + 1;
  std::string bytes(10, value < 0 ? '\xff' : '\0');
  for (int i = 0; i < 8; ++i) bytes[9 - i] = static_cast<char>(value >> (8 * i));
  bytes.erase(0, static_cast<size_t>(10 - length));
  const int ones = length;  // leading ones of the header
  const uint16_t header = static_cast<uint16_t>(0xffff << (16 - ones));
  bytes[0] = static_cast<char>(bytes[0] ^ static_cast<char>(header >> 8));
  bytes[1] = static_cast<char>(bytes[1] ^ static_cast<char>(header & 0xff));
  out += bytes;
}

// A component's "." is written as "..".
std::string Escape(absl::string_view name) { return absl::StrReplaceAll(name, {{".", ".."}}); }

template <typename T>
absl::string_view Raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

// The checksum covers lengths as 32 bits where they fit.
uint32_t ExtendByLength(uint32_t crc, uint64_t length) {
  if (length > UINT32_MAX) return record::ExtendCrc32c(crc, Raw(length));
  return record::ExtendCrc32c(crc, Raw(static_cast<uint32_t>(length)));
}

}  // namespace

std::string PrefixOf(absl::string_view uri) {
  const std::string name = io::Basename(uri);
  absl::string_view stem = name;
  if (!absl::ConsumeSuffix(&stem, ".index")) {
    const size_t dot = stem.rfind(kData);
    if (dot == absl::string_view::npos || ShardsOfDataFile(stem, stem.substr(0, dot)) == 0) {
      return std::string(uri);
    }
    stem = stem.substr(0, dot);
  }
  if (stem.empty()) return std::string(uri);
  // Options of the URI stay at its end.
  return io::JoinPath(io::Dirname(uri), stem);
}

std::string IndexFile(absl::string_view prefix) { return io::AppendToName(prefix, ".index"); }

std::string DataFile(absl::string_view prefix, int shard, int num_shards) {
  return io::AppendToName(prefix,
                          absl::StrFormat("%s%05d-of-%05d", std::string(kData), shard, num_shards));
}

int ShardsOfDataFile(absl::string_view name, absl::string_view prefix) {
  if (!absl::ConsumePrefix(&name, prefix) || !absl::ConsumePrefix(&name, kData)) return 0;
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(name, "-of-");
  const auto number = [](absl::string_view digits) {
    int value = -1;
    const bool is_number =
        digits.size() >= 5 && std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
    return is_number && absl::SimpleAtoi(digits, &value) ? value : -1;
  };
  const int shard = number(parts.first), shards = number(parts.second);
  return shard >= 0 && shard < shards ? shards : 0;
}

std::string NameOfKey(absl::string_view key) {
  absl::ConsumeSuffix(&key, kValueSuffix);
  std::string name;
  for (size_t i = 0; i < key.size(); ++i) {
    const bool escape = key[i] == '.' && i + 1 < key.size();
    if (escape && key[i + 1] == '.') {
      name += '.';
      ++i;
    } else if (escape && key[i + 1] == 'S') {
      name += '/';
      ++i;
    } else {
      name += key[i];
    }
  }
  return name;
}

std::string KeyOfName(absl::string_view name) {
  const std::optional<SlotName> slot = ParseSlotName(name);
  if (!slot.has_value()) return absl::StrCat(Escape(name), kValueSuffix);
  return absl::StrCat(Escape(slot->variable), kSlot, Escape(slot->optimizer), "/",
                      Escape(slot->slot), kValueSuffix);
}

std::optional<SlotName> ParseSlotName(absl::string_view name) {
  const size_t at = name.find(kSlot);
  if (at == absl::string_view::npos || at == 0) return std::nullopt;
  const absl::string_view rest = name.substr(at + kSlot.size());
  const size_t slash = rest.rfind('/');
  if (slash == absl::string_view::npos || slash == 0) return std::nullopt;
  return SlotName{.variable = name.substr(0, at),
                  .optimizer = rest.substr(0, slash),
                  .slot = rest.substr(slash + 1)};
}

std::string SliceKey(absl::string_view tensor, absl::Span<const SliceExtent> extents) {
  std::string key;
  AppendOrdered(uint64_t{0}, key);
  AppendOrdered(tensor, key);
  AppendOrdered(static_cast<uint64_t>(extents.size()), key);
  for (const SliceExtent& extent : extents) {
    AppendOrderedSigned(extent.start, key);
    AppendOrderedSigned(extent.length, key);
  }
  return key;
}

absl::StatusOr<DType> DTypeOfTensorFlow(int dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.value == dtype) return row.dtype;
  }
  return absl::UnimplementedError(
      absl::StrCat("is of TensorFlow's type ", dtype, ", which is not supported"));
}

absl::StatusOr<int> TensorFlowDType(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.value;
  }
  return absl::InvalidArgumentError(absl::StrCat("is of type ", base::DTypeName(dtype),
                                                 ", which TensorFlow's checkpoints cannot hold"));
}

absl::StatusOr<std::vector<std::string>> DecodeStrings(absl::string_view bytes, int64_t count,
                                                       uint32_t crc) {
  std::vector<uint64_t> lengths;
  uint32_t sum = 0;
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at == bytes.size() || shift > 56) return absl::DataLossError("a length is malformed");
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      length |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    lengths.push_back(length);
    sum = ExtendByLength(sum, length);
  }
  uint32_t stored;
  if (bytes.size() - at < sizeof(stored)) return absl::DataLossError("the strings are cut short");
  std::memcpy(&stored, bytes.data() + at, sizeof(stored));
  if (stored != record::MaskCrc(sum)) {
    return absl::DataLossError("the lengths of strings have a wrong checksum (CRC-32C)");
  }
  sum = record::ExtendCrc32c(sum, Raw(stored));
  at += sizeof(stored);
  if (record::MaskCrc(record::ExtendCrc32c(sum, bytes.substr(at))) != crc) {
    return absl::DataLossError("wrong checksum (CRC-32C)");
  }
  std::vector<std::string> strings;
  for (const uint64_t length : lengths) {
    if (length > bytes.size() - at) return absl::DataLossError("the strings are cut short");
    strings.emplace_back(bytes.substr(at, length));
    at += length;
  }
  if (at != bytes.size()) return absl::DataLossError("bytes follow the strings");
  return strings;
}

std::string EncodeStrings(absl::Span<const absl::string_view> strings, uint32_t* crc) {
  std::string out;
  uint32_t sum = 0;
  for (const absl::string_view text : strings) {
    uint64_t length = text.size();
    sum = ExtendByLength(sum, length);
    for (; length >= 0x80; length >>= 7) out.push_back(static_cast<char>(length | 0x80));
    out.push_back(static_cast<char>(length));
  }
  const uint32_t masked = record::MaskCrc(sum);
  absl::StrAppend(&out, Raw(masked));
  sum = record::ExtendCrc32c(sum, Raw(masked));
  for (const absl::string_view text : strings) {
    absl::StrAppend(&out, text);
    sum = record::ExtendCrc32c(sum, text);
  }
  *crc = record::MaskCrc(sum);
  return out;
}

absl::Status ForEachObject(absl::string_view graph,
                           absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  using google::protobuf::internal::WireFormatLite;
  constexpr uint32_t kNodes = (1 << 3) | WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  const auto malformed = [] { return absl::DataLossError("the object graph is malformed"); };
  if (graph.size() > INT_MAX) return malformed();
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(graph.data()),
                                            static_cast<int>(graph.size()));
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != kNodes) {
      if (!WireFormatLite::SkipField(&in, tag)) return malformed();
      continue;
    }
    uint32_t size = 0;
    if (!in.ReadVarint32(&size)) return malformed();
    const size_t at = static_cast<size_t>(in.CurrentPosition());
    if (size > graph.size() - at || !in.Skip(static_cast<int>(size))) return malformed();
    PENSTOCK_RETURN_IF_ERROR(visit(graph.substr(at, size)));
  }
  return in.ConsumedEntireMessage() ? absl::OkStatus() : malformed();
}

}  // namespace penstock::save::tensor_bundle
