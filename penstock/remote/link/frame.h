// Frame: the unit that a link writes to its connection.
//
// A frame is 36 bytes, little-endian, then the protobuf header, then the payload:
//
//   offset size
//        0    1  magic, 0xA7
//        1    1  version of this layout, 1
//        2    1  type
//        3    1  0
//        4    4  bytes of the protobuf header
//        8    4  bytes of the payload
//       12    4  CRC-32C of the payload
//       16    8  sequence number (messages and closes; the first one is 1), else 0
//       24    8  sequence number of the last message that the sender's receiver has taken
//       32    4  CRC-32C of the 32 bytes before and of the protobuf header
//
// The payload has a checksum of its own, so that a frame that is sent again, with another
// acknowledgment, needs no second pass over its payload. A gRPC message holds one or more frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "penstock/remote/link/link.h"

namespace penstock::remote {

enum class FrameType : uint8_t {
  kHello = 1,       // header: Hello
  kHelloReply = 2,  // header: HelloReply
  kMessage = 3,     // header and payload: a Message
  kAck = 4,         // carries the acknowledgment only
  kClose = 5,       // header: Status. The sender sends nothing after it
};

inline constexpr size_t kFramePrefixBytes = 36;
inline constexpr size_t kMaxHelloBytes = size_t{64} << 10;

// Limit of a message's header and payload, together.
inline constexpr int64_t kMaxMessageBytes = int64_t{64} << 20;

struct Frame {
  FrameType type = FrameType::kAck;
  uint64_t sequence = 0;
  uint64_t ack = 0;
  std::string header;
  std::vector<Slice> payload;
};

uint32_t PayloadCrc(const std::vector<Slice>& payload);

// Appends a frame up to its payload, whose CRC the caller has.
void AppendFrame(FrameType type, uint64_t sequence, uint64_t ack, absl::string_view header,
                 size_t payload_bytes, uint32_t payload_crc, std::string* out);

// Splits received bytes, in any number of slices, into frames.
class FrameParser {
 public:
  FrameParser(std::vector<Slice> bytes, int64_t max_message_bytes = kMaxMessageBytes);

  // Memory for the payload of a message whose header has been read, or none: then the payload stays where it was
  // received. Not for small payloads.
  using Destination = std::function<Slice(const Frame& frame, size_t payload_bytes)>;
  void set_destination(Destination destination) { destination_ = std::move(destination); }

  // Reads the next frame; its payload refers to the received memory. False after the last one. DATA_LOSS if
  // the bytes are no frame, have a wrong checksum, or end too early; RESOURCE_EXHAUSTED above the limit.
  // Nothing is allocated for a length that exceeds the limit or the available bytes.
  absl::StatusOr<bool> Next(Frame* frame);

 private:
  size_t remaining() const { return remaining_; }
  void Copy(size_t count, char* out);
  void Take(size_t count, std::vector<Slice>* out);

  Destination destination_;
  std::vector<Slice> bytes_;
  size_t slice_ = 0;   // index of the current one
  size_t offset_ = 0;  // in it
  size_t remaining_ = 0;
  const int64_t max_message_bytes_;
};

}  // namespace penstock::remote
