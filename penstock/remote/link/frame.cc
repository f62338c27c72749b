#include "penstock/remote/link/frame.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "penstock/base/status.h"
#include "penstock/record/crc32c.h"

namespace penstock::remote {
namespace {

constexpr uint8_t kFrameMagic = 0xA7;
constexpr uint8_t kFrameVersion = 1;
constexpr size_t kHeaderCrcOffset = 32;
// From here on, one pass less over the payload is worth asking for memory.
constexpr size_t kMinCopiedPayload = size_t{64} << 10;

template <typename T>
void PutLittleEndian(T value, char* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out[i] = static_cast<char>(value >> (8 * i));
}

template <typename T>
T GetLittleEndian(const char* in) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(in[i])) << (8 * i));
  }
  return value;
}

bool IsFrameType(uint8_t type) {
  return type >= static_cast<uint8_t>(FrameType::kHello) &&
         type <= static_cast<uint8_t>(FrameType::kClose);
}

}  // namespace

namespace {

uint32_t CopyPayloadCrc(const std::vector<Slice>& payload, const Slice& memory) {
  uint32_t crc = 0;
  // Destinations give memory that may be written.
  char* to = reinterpret_cast<char*>(const_cast<std::byte*>(memory.data));
  for (const Slice& slice : payload) {
    const absl::string_view bytes(reinterpret_cast<const char*>(slice.data), slice.size);
    crc = record::CopyCrc32c(crc, bytes, to);
    to += slice.size;
  }
  return crc;
}

}  // namespace

uint32_t PayloadCrc(const std::vector<Slice>& payload) {
  uint32_t crc = 0;
  for (const Slice& slice : payload) {
    crc = record::ExtendCrc32c(
        crc, absl::string_view(reinterpret_cast<const char*>(slice.data), slice.size));
  }
  return crc;
}

void AppendFrame(FrameType type, uint64_t sequence, uint64_t ack, absl::string_view header,
                 size_t payload_bytes, uint32_t payload_crc, std::string* out) {
  char prefix[kFramePrefixBytes];
  prefix[0] = static_cast<char>(kFrameMagic);
  prefix[1] = static_cast<char>(kFrameVersion);
  prefix[2] = static_cast<char>(type);
  prefix[3] = 0;
  PutLittleEndian(static_cast<uint32_t>(header.size()), prefix + 4);
  PutLittleEndian(static_cast<uint32_t>(payload_bytes), prefix + 8);
  PutLittleEndian(payload_crc, prefix + 12);
  PutLittleEndian(sequence, prefix + 16);
  PutLittleEndian(ack, prefix + 24);
  const uint32_t crc =
      record::ExtendCrc32c(record::Crc32c(absl::string_view(prefix, kHeaderCrcOffset)), header);
  PutLittleEndian(crc, prefix + kHeaderCrcOffset);
  out->append(prefix, kFramePrefixBytes);
  out->append(header.data(), header.size());
}

FrameParser::FrameParser(std::vector<Slice> bytes, int64_t max_message_bytes)
    : bytes_(std::move(bytes)), max_message_bytes_(max_message_bytes) {
  for (const Slice& slice : bytes_) remaining_ += slice.size;
}

void FrameParser::Copy(size_t count, char* out) {
  remaining_ -= count;
  while (count > 0) {
    const Slice& slice = bytes_[slice_];
    const size_t part = std::min(count, slice.size - offset_);
    if (part > 0) std::memcpy(out, slice.data + offset_, part);
    out += part;
    count -= part;
    offset_ += part;
    if (offset_ == slice.size) ++slice_, offset_ = 0;
  }
}

void FrameParser::Take(size_t count, std::vector<Slice>* out) {
  remaining_ -= count;
  while (count > 0) {
    const Slice& slice = bytes_[slice_];
    const size_t part = std::min(count, slice.size - offset_);
    if (part > 0) out->push_back({slice.owner, slice.data + offset_, part});
    count -= part;
    offset_ += part;
    if (offset_ == slice.size) ++slice_, offset_ = 0;
  }
}

absl::StatusOr<bool> FrameParser::Next(Frame* frame) {
  if (remaining() == 0) return false;
  if (remaining() < kFramePrefixBytes) {
    return absl::DataLossError(absl::StrCat("malformed frame: ", remaining(),
                                            " bytes, a frame has at least ", kFramePrefixBytes));
  }
  char prefix[kFramePrefixBytes];
  Copy(kFramePrefixBytes, prefix);
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(prefix[i]); };
  if (byte(0) != kFrameMagic || byte(1) != kFrameVersion || !IsFrameType(byte(2)) || byte(3) != 0) {
    return absl::DataLossError(absl::StrCat("malformed frame: it starts with bytes ", byte(0), " ",
                                            byte(1), " ", byte(2), " ", byte(3)));
  }
  const size_t header_bytes = GetLittleEndian<uint32_t>(prefix + 4);
  const size_t payload_bytes = GetLittleEndian<uint32_t>(prefix + 8);
  if (header_bytes + payload_bytes > static_cast<size_t>(max_message_bytes_)) {
    return absl::ResourceExhaustedError(absl::StrCat("a frame claims ",
                                                     header_bytes + payload_bytes,
                                                     " bytes, the limit is ", max_message_bytes_));
  }
  if (header_bytes + payload_bytes > remaining()) {
    return absl::DataLossError(absl::StrCat("malformed frame: it claims ",
                                            header_bytes + payload_bytes, " bytes, ", remaining(),
                                            " are there"));
  }
  frame->type = static_cast<FrameType>(byte(2));
  frame->sequence = GetLittleEndian<uint64_t>(prefix + 16);
  frame->ack = GetLittleEndian<uint64_t>(prefix + 24);
  frame->header.resize(header_bytes);
  Copy(header_bytes, frame->header.data());
  const uint32_t header_crc = record::ExtendCrc32c(
      record::Crc32c(absl::string_view(prefix, kHeaderCrcOffset)), frame->header);
  if (header_crc != GetLittleEndian<uint32_t>(prefix + kHeaderCrcOffset)) {
    return absl::DataLossError(
        absl::StrCat("wrong checksum of the header of frame ", frame->sequence));
  }
  frame->payload.clear();
  Take(payload_bytes, &frame->payload);
  Slice memory;
  if (destination_ && frame->type == FrameType::kMessage && payload_bytes >= kMinCopiedPayload) {
    memory = destination_(*frame, payload_bytes);
  }
  uint32_t crc = 0;
  if (memory.data == nullptr) {
    crc = PayloadCrc(frame->payload);
  } else {
    crc = CopyPayloadCrc(frame->payload, memory);
    frame->payload = {std::move(memory)};
  }
  if (crc != GetLittleEndian<uint32_t>(prefix + 12)) {
    return absl::DataLossError(absl::StrCat("wrong checksum of the payload of frame ",
                                            frame->sequence, " (", payload_bytes, " bytes)"));
  }
  return true;
}

}  // namespace penstock::remote
